"""Ratios of the usual measures of spread under two rulers, each with the case that moves it most.

They describe; `variance.walsh_ratio` decides. A ratio of standard deviations can be the work of a single case, so every
ratio carries its range when one case is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from segaudit.stats.clusters import Codes, Floats, Layout, layout, paired, patient_sums, residuals, untied


@dataclass(frozen=True, slots=True)
class SpreadRatio:
    """One measure of spread under both rulers.

    Attributes
    ----------
    trusted, other : float
        The spread under each ruler, in the unit of the score.
    ratio : float
        other / trusted; nan where it cannot be had (see reason).
    low, high : float
        Delta-method interval from patients' sums for mnad and sd; nan for iqr and mad. That of sd does not hold its
        level on skewed scores: for the record only.
    without_one_low, without_one_high : float
        Smallest and largest ratio when one case is left out.
    driver : int
        Position of the case whose removal changes the ratio most; -1 without a ratio.
    reason : str
        Why there is no ratio; empty if there is one.
    """

    trusted: float
    other: float
    ratio: float
    low: float
    high: float
    without_one_low: float
    without_one_high: float
    driver: int
    reason: str


@dataclass(frozen=True, slots=True)
class SpreadRatios:
    """Four measures of spread, within groups when there are any.

    Attributes
    ----------
    sd : SpreadRatio
        Standard deviation around group means, n_cases - n_groups degrees of freedom.
    iqr : SpreadRatio
        Interquartile range (linear interpolation) of distances from the group median.
    mad : SpreadRatio
        Median absolute distance from the group median.
    mnad : SpreadRatio
        Mean absolute distance from the group median.
    """

    sd: SpreadRatio
    iqr: SpreadRatio
    mad: SpreadRatio
    mnad: SpreadRatio


@dataclass(frozen=True, slots=True)
class PitmanMorgan:
    """The paired test of equal variances; its type-I error reaches 0.7 on scores of this shape: for the record only."""

    r: float
    t: float
    df: int
    p: float
    sd_ratio: float
    low: float
    high: float


def spread_ratios(
    trusted: ArrayLike,
    other: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    patients: ArrayLike | None = None,
    level: float = 0.95,
) -> SpreadRatios:
    """Return SD, IQR, MAD and mean absolute distance of the other ruler over the trusted one's.

    IQR and MAD are given up when more than half of the cases equal their group's median under a ruler, any ratio when a
    ruler has no spread.

    Parameters
    ----------
    trusted, other : arrays of n_cases
        Scores of the same predictions under the two rulers.
    groups, patients : arrays of n_cases, optional
        As in `variance.walsh_ratio`.
    level : float
        Of the intervals.

    Raises
    ------
    ValueError
        When the scores are not finite or the lengths differ.
    """
    x, y = paired(trusted, other)
    cases = layout(x.size, groups, patients)
    scale_x, scale_y = _scales(x, cases), _scales(y, cases)
    without_x, without_y = _without_one(x, cases), _without_one(y, cases)
    repeats = max(float(np.mean(untied(residuals(v, cases)) == 0)) for v in (x, y)) > 0.5
    influence = {"sd": _sd_influence(x, y, cases), "mnad": _mnad_influence(x, y, cases)}
    found = {}
    for name in ("sd", "iqr", "mad", "mnad"):
        reason = "more than half of the cases have the same score" if repeats and name in ("iqr", "mad") else ""
        if not reason and not (scale_x[name] > 0 and scale_y[name] > 0):
            reason = "no spread under a ruler"
        if reason:
            found[name] = _without_ratio(scale_x[name], scale_y[name], reason)
            continue
        ratio = scale_y[name] / scale_x[name]
        half = _half_width(_log_se(influence.get(name), cases), level)
        least, most, driver = _without_range(ratio, without_x[name], without_y[name])
        low, high = ratio * math.exp(-half), ratio * math.exp(half)
        found[name] = SpreadRatio(scale_x[name], scale_y[name], ratio, low, high, least, most, driver, "")
    return SpreadRatios(**found)


def _without_ratio(trusted: float, other: float, reason: str) -> SpreadRatio:
    return SpreadRatio(trusted, other, math.nan, math.nan, math.nan, math.nan, math.nan, -1, reason)


def pitman_morgan(trusted: ArrayLike, other: ArrayLike, *, level: float = 0.95) -> PitmanMorgan:
    """Return the Pitman-Morgan test and the SD ratio (other / trusted) with its normal-theory interval.

    Raises
    ------
    ValueError
        When there are fewer than four cases, or a ruler has no spread.

    References
    ----------
    pitman1939
    """
    from scipy.stats import t as student

    x, y = paired(trusted, other)
    df = x.size - 2
    if df < 2 or not (np.ptp(x) and np.ptp(y)):
        raise ValueError("the Pitman-Morgan test needs four cases and spread under both rulers")
    sums, differences = x + y, x - y
    noise = 1e-12 * float(np.ptp(x) + np.ptp(y))
    # scores that differ by a constant, or mirror each other, have equal spread: rounding must not decide
    equal = np.ptp(sums) <= noise or np.ptp(differences) <= noise
    r = 0.0 if equal else float(np.corrcoef(sums, differences)[0, 1])
    t = r * math.sqrt(df / (1 - r * r)) if r * r < 1 else math.copysign(math.inf, r)
    correlation = float(np.corrcoef(x, y)[0, 1])
    critical = float(student.ppf(0.5 + level / 2, df))
    k = 1 + 2 * max(0.0, 1 - correlation**2) * critical**2 / df
    ratio = float(y.std(ddof=1) / x.std(ddof=1))
    factor = math.sqrt(k + math.sqrt(k * k - 1))
    return PitmanMorgan(r, t, df, float(2 * student.sf(abs(t), df)), ratio, ratio / factor, ratio * factor)


def _without_range(ratio: float, x: Floats, y: Floats) -> tuple[float, float, int]:
    """Return the smallest and the largest ratio when one case is left out, and the case that moves it most."""
    with np.errstate(divide="ignore", invalid="ignore"):
        each = y / x
        moved = np.abs(np.log(each / ratio))
    if np.isnan(each).all():
        return math.nan, math.nan, -1
    return float(np.nanmin(each)), float(np.nanmax(each)), int(np.nanargmax(moved))


def _half_width(log_se: tuple[float, int], level: float) -> float:
    from scipy.stats import t as student

    se, df = log_se
    return float(student.ppf(0.5 + level / 2, df)) * se if df > 0 else math.nan


def _log_se(influence: Floats | None, cases: Layout) -> tuple[float, int]:
    """Return the standard error of a log ratio from its influence values, and the degrees of freedom."""
    n, free = cases.n_cases, cases.n_cases - cases.n_groups
    if influence is None or free <= 0:
        return math.nan, 0
    if not cases.clustered:
        return math.sqrt(float(np.sum(influence**2)) / (n * free)), free
    sums, units = patient_sums(influence, cases), cases.n_patients
    if units < 2:
        return math.nan, 0
    return math.sqrt(float(np.sum(sums**2)) * units / (units - 1)) / n, min(free, units - 1)


def _mnad_influence(x: Floats, y: Floats, cases: Layout) -> Floats | None:
    a, b = np.abs(residuals(x, cases)), np.abs(residuals(y, cases))
    return b / b.mean() - a / a.mean() if a.any() and b.any() else None


def _sd_influence(x: Floats, y: Floats, cases: Layout) -> Floats | None:
    a, b = _around_means(x, cases) ** 2, _around_means(y, cases) ** 2
    return (b / b.mean() - a / a.mean()) / 2 if a.any() and b.any() else None


def _around_means(values: Floats, cases: Layout) -> Floats:
    means = np.bincount(cases.group, weights=values) / cases.sizes
    return untied(values - means[cases.group])


def _scales(values: Floats, cases: Layout) -> dict[str, float]:
    signed = untied(residuals(values, cases))
    distance = np.abs(signed)
    free = cases.n_cases - cases.n_groups
    q25, q75 = np.quantile(signed, [0.25, 0.75])
    return {
        "sd": math.sqrt(float(np.sum(_around_means(values, cases) ** 2)) / free) if free > 0 else math.nan,
        "iqr": float(q75 - q25),
        "mad": float(np.median(distance)),
        "mnad": float(np.mean(distance)),
    }


def _without_one(values: Floats, cases: Layout) -> dict[str, Floats]:
    """Return each measure with each case left out: three arrays of n_cases and one for SD."""
    found = {name: np.full(cases.n_cases, math.nan) for name in ("iqr", "mad", "mnad")}
    found["sd"] = _sd_without_one(values, cases)
    if cases.n_cases < 2:
        return found
    for removed, signed in _residuals_without_one(values, cases):
        signed_sorted = np.sort(signed)
        at = np.searchsorted(signed_sorted, signed[removed])  # among equal values any place will do
        found["iqr"][removed] = _quantile_without(signed_sorted, at, 0.75) - _quantile_without(signed_sorted, at, 0.25)
        distance = np.abs(signed)
        distance_sorted = np.sort(distance)
        at = np.searchsorted(distance_sorted, distance[removed])
        found["mad"][removed] = _quantile_without(distance_sorted, at, 0.5)
        found["mnad"][removed] = (distance.sum() - distance[removed]) / (distance.size - 1)
    return found


def _residuals_without_one(values: Floats, cases: Layout) -> Iterator[tuple[Codes, Floats]]:
    """Yield cases with the residuals of all cases that hold when any one of them is left out.

    Leaving out a case moves only its own group's median, to one of at most three values.
    """
    base = residuals(values, cases)
    for members in cases.members():
        if members.size == 1:
            yield members, untied(base)
            continue
        order = members[np.argsort(values[members], kind="stable")]
        ordered, left = values[order], members.size - 1
        place = np.arange(members.size)
        low, high = (left - 1) // 2, left // 2
        medians = (ordered[low + (place <= low)] + ordered[high + (place <= high)]) / 2
        for median in np.unique(medians):
            signed = base.copy()
            signed[members] = values[members] - median
            yield order[medians == median], untied(signed)


def _quantile_without(ordered: Floats, removed: Codes, probability: float) -> Floats:
    """Return the quantile (linear interpolation) of sorted values when the one at each removed place is left out."""
    position = (ordered.size - 2) * probability
    low = int(position)
    high = min(low + 1, ordered.size - 2)
    at_low, at_high = ordered[low + (removed <= low)], ordered[high + (removed <= high)]
    result: Floats = at_low + (position - low) * (at_high - at_low)
    return result


def _sd_without_one(values: Floats, cases: Layout) -> Floats:
    deviation, size = _around_means(values, cases), cases.sizes[cases.group]
    alone = size == 1
    lost = np.where(alone, 0.0, deviation**2 * size / np.maximum(size - 1, 1))
    free = cases.n_cases - 1 - (cases.n_groups - alone)
    rest = np.maximum(np.sum(deviation**2) - lost, 0.0)
    variance: Floats = np.divide(rest, free, out=np.full(cases.n_cases, math.nan), where=free > 0)
    return np.sqrt(variance)
