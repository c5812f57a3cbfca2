"""Does a ruler make the model's own errors? Shared errors, inflation, and what three labelers cannot tell apart.

Per case and label: a voxels where model and gold differ, b where ruler and gold differ, c where both differ from gold
and agree with each other, c_diff where they differ from gold and from each other, d where model and ruler differ: d = a
+ b - 2c - c_diff.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from segaudit.stats.clusters import LARGE_SAMPLE, Estimate, Floats, finite, layout, paired, patient_means
from segaudit.stats.tests import blocks
from segaudit.stats.variance import walsh_limits, walsh_median, walsh_order

Band = Literal[
    "near-clone",
    "too close to be an independent benchmark",
    "dependent",
    "no dependence shown",
]
Adjudication = Literal[
    "the errors are truly shared",
    "the errors are those of the gold",
    "leakage and gold noise cannot be separated",
]


@dataclass(frozen=True, slots=True)
class SharedErrors:
    """How much of the errors model and ruler make together.

    Attributes
    ----------
    of_model : Estimate
        Sum of c over sum of a: the part of the model's errors that the ruler makes too.
    of_ruler : Estimate
        Sum of c over sum of b.
    cosine : Estimate
        Sum of c over the root of sum of a times sum of b.
    bound : Estimate
        1 - sum of d over sum of a, at least 0: `of_model` cannot be smaller (binary masks), whatever the ruler's own
        quality.
    """

    of_model: Estimate
    of_ruler: Estimate
    cosine: Estimate
    bound: Estimate


@dataclass(frozen=True, slots=True)
class DiceCounts:
    """Voxel counts that follow from three Dice scores and three volumes (arrays of n_cases)."""

    a: Floats
    b: Floats
    c: Floats
    d: Floats


@dataclass(frozen=True, slots=True)
class Inflation:
    """How much higher the ruler scores the model than gold does.

    Attributes
    ----------
    mean, low, high : float
        Mean difference over patients, with the t interval.
    shift, shift_low, shift_high : float
        Median of all means of two patients' differences, with the signed-rank interval.
    n_patients : int
    n_higher : int
        Patients that the ruler scores higher.
    """

    mean: float
    low: float
    high: float
    shift: float
    shift_low: float
    shift_high: float
    n_patients: int
    n_higher: int


def shared_errors(
    a: ArrayLike,
    b: ArrayLike,
    c: ArrayLike,
    d: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> SharedErrors:
    """Return the shared part of the errors, pooled over cases.

    Parameters
    ----------
    a, b, c, d : arrays of n_cases
        Voxel counts (`error_maps.error_counts`, `from_dice`), or errors 1 - Dice where volumes are equal
        (`from_errors`).
    patients : array of n_cases, optional
        The units that are resampled.

    Raises
    ------
    ValueError
        When counts are not finite or lengths differ.
    """

    def of(sums: Floats) -> Floats:
        total_a, total_b, total_c, total_d = sums.T
        return np.stack(
            [
                _part(total_c, total_a),
                _part(total_c, total_b),
                _part(total_c, np.sqrt(total_a * total_b)),
                np.maximum(1 - _part(total_d, total_a), 0.0),
            ],
            axis=1,
        )

    return SharedErrors(*_pooled(of, [a, b, c, d], patients=patients, level=level, draws=draws, rng=rng))


def shared_error_bound(
    error_gold: ArrayLike,
    error_ruler: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> Estimate:
    """Return the least share of the model's errors that the ruler must make too, from two scores alone.

    Parameters
    ----------
    error_gold, error_ruler : arrays of n_cases
        1 - Dice of the model against gold and against the ruler (equal volumes), or voxel counts a and d.

    Raises
    ------
    ValueError
        When errors are not finite or lengths differ.
    """

    def of(sums: Floats) -> Floats:
        return np.maximum(1 - _part(sums[:, 1], sums[:, 0]), 0.0)[:, None]

    return _pooled(of, [error_gold, error_ruler], patients=patients, level=level, draws=draws, rng=rng)[0]


def from_errors(model_gold: ArrayLike, ruler_gold: ArrayLike, model_ruler: ArrayLike) -> DiceCounts:
    """Return a, b, c, d up to a common factor from three Dice scores, taking the three volumes of a case as equal.

    c is half of (1 - D(M,G)) + (1 - D(R,G)) - (1 - D(M,R)).
    """
    a, b, d = (1 - finite(dice, "Dice") for dice in (model_gold, ruler_gold, model_ruler))
    return DiceCounts(a, b, (a + b - d) / 2, d)


def from_dice(
    model_gold: ArrayLike,
    ruler_gold: ArrayLike,
    model_ruler: ArrayLike,
    *,
    volume_model: ArrayLike,
    volume_ruler: ArrayLike,
    volume_gold: ArrayLike,
) -> DiceCounts:
    """Return voxel counts a, b, c, d exactly from three Dice scores and three volumes (voxels) of a label."""
    model, ruler, gold = (finite(volume, "volume") for volume in (volume_model, volume_ruler, volume_gold))
    a = (1 - finite(model_gold, "Dice")) * (model + gold)
    b = (1 - finite(ruler_gold, "Dice")) * (ruler + gold)
    d = (1 - finite(model_ruler, "Dice")) * (model + ruler)
    return DiceCounts(a, b, (a + b - d) / 2, d)


def inflation(
    trusted: ArrayLike, other: ArrayLike, *, patients: ArrayLike | None = None, level: float = 0.95
) -> Inflation:
    """Return the mean and typical difference other minus trusted, patients being the units.

    For equal volumes the ruler scores the model higher than gold does exactly when more than half of the ruler's own
    errors fall where the model errs in the same way; an independent ruler scores it lower. A lower limit above 0
    therefore says that the ruler is not independent of the model, without any threshold to tune.

    Raises
    ------
    ValueError
        When the scores are not finite or the lengths differ.
    """
    from scipy.stats import t as student

    x, y = paired(trusted, other)
    units = patient_means(y - x, layout(x.size, None, patients))[0]
    n, mean = units.size, float(units.mean())
    half = float(student.ppf(0.5 + level / 2, n - 1)) * float(units.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    ones, floor = np.ones(n), float(units.min())
    pairs = n * (n + 1) // 2
    skipped = walsh_limits(n, pairs, float(ndtri(0.5 + level / 2)))
    raised = units - floor
    middle = walsh_median(ones, raised)
    return Inflation(
        mean=mean,
        low=mean - half,
        high=mean + half,
        shift=floor + middle,
        shift_low=floor + walsh_order(ones, raised, skipped + 1, middle),
        shift_high=floor + walsh_order(ones, raised, pairs - skipped, middle),
        n_patients=n,
        n_higher=int(np.count_nonzero(units > 0)),
    )


def kappa_err(
    c: ArrayLike,
    expected: ArrayLike,
    smaller: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> Estimate:
    """Return how far shared errors go beyond chance at the same distance from the boundary: 0 not at all, 1 nested.

    Parameters
    ----------
    c, expected, smaller : arrays of n_cases
        Shared errors, those expected within shells, and min(a, b) (`error_maps.shell_counts`).

    Notes
    -----
    Sum of (c - expected) over sum of (min(a, b) - expected). Up to about 0.10 can come from difficulty that all
    labelers share.
    """

    def of(sums: Floats) -> Floats:
        return _part(sums[:, 0] - sums[:, 1], sums[:, 2] - sums[:, 1])[:, None]

    return _pooled(of, [c, expected, smaller], patients=patients, level=level, draws=draws, rng=rng)[0]


def adjudication_share(
    upheld: ArrayLike,
    shared: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> Estimate:
    """Return how often a second expert upholds gold where model and ruler agree against it.

    Parameters
    ----------
    upheld, shared : arrays of n_cases
        Voxels where model and ruler agree and differ from gold (`shared`), and those of them where the second reading
        equals gold.
    """

    def of(sums: Floats) -> Floats:
        return _part(sums[:, 0], sums[:, 1])[:, None]

    return _pooled(of, [upheld, shared], patients=patients, level=level, draws=draws, rng=rng)[0]


def band(*, kappa_low: float = math.nan, inflation_low: float = math.nan, bound_low: float = math.nan) -> Band:
    """Return the strongest word that the lower limits allow; nan where a quantity could not be had.

    bound_low > 0.5 is a near-clone (correlation of the errors of about 0.85 and more); inflation_low > 0 is too close
    to be an independent benchmark (about 0.5); kappa_low > 0.10 is dependent.
    """
    if bound_low > 0.5:
        return "near-clone"
    if inflation_low > 0:
        return "too close to be an independent benchmark"
    return "dependent" if kappa_low > 0.10 else "no dependence shown"


def adjudication(low: float = math.nan, high: float = math.nan) -> Adjudication:
    """Return what the interval of the adjudication share says; without a second reading, that nothing can be said.

    A ruler that copies the model and a gold that errs look the same to three labelers.
    """
    if low > 0.5:
        return "the errors are truly shared"
    return "the errors are those of the gold" if high < 0.5 else "leakage and gold noise cannot be separated"


def _part(numerator: Floats, denominator: Floats) -> Floats:
    part: Floats = np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    return part


def _pooled(
    of: Callable[[Floats], Floats],
    columns: list[ArrayLike],
    *,
    patients: ArrayLike | None,
    level: float,
    draws: int,
    rng: np.random.Generator,
) -> list[Estimate]:
    """Return functions of pooled sums (rows by columns -> rows by functions) with patient-bootstrap intervals."""
    table = [finite(column, "counts") for column in columns]
    if len({column.size for column in table}) > 1:
        raise ValueError(f"counts must have one entry a case: lengths {[column.size for column in table]}")
    cases = layout(table[0].size, None, patients)
    sums = np.stack([np.bincount(cases.patient, weights=column) for column in table], axis=1)
    if cases.n_patients > LARGE_SAMPLE:  # sums over so many patients are normal
        law = cases.n_patients * np.cov(sums, rowvar=False, bias=True)
        drawn = [of(rng.multivariate_normal(sums.sum(axis=0), law, draws, method="eigh", check_valid="ignore"))]
        draws = 0
    else:
        drawn = []
    for rows in blocks(draws, cases.n_patients):
        picked = rng.integers(0, cases.n_patients, size=(rows, cases.n_patients))
        picked += cases.n_patients * np.arange(rows)[:, None]
        times = np.bincount(picked.ravel(), minlength=rows * cases.n_patients).reshape(rows, -1).astype(np.float64)
        drawn.append(of(times @ sums))
    values = of(sums.sum(axis=0, keepdims=True))[0]
    shares = []
    for value, each in zip(values, np.concatenate(drawn).T, strict=True):
        known = each[~np.isnan(each)]
        low, high = np.quantile(known, [0.5 - level / 2, 0.5 + level / 2]) if known.size else (math.nan, math.nan)
        shares.append(Estimate(float(value), float(low), float(high)))
    return shares
