"""Noise under one ruler against noise under another: how far case-to-case spread shrank or grew.

The primary measure is the Walsh ratio: the median of (b_i + b_j) / (a_i + a_j) over all pairs of cases, where a and b
are distances from the group median under the trusted and the other ruler. Its test swaps the two rulers within a case.
It sees the bulk of the cases, as a rank test does, and a single gross outlier hardly moves it; ratios of standard
deviations do not hold their level on scores of this shape and are given for the record.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from segaudit.stats.clusters import LARGE_SAMPLE, Floats, Layout, layout, paired, patient_sums, residuals, untied
from segaudit.stats.tests import midranks

Word = Literal["strong collapse", "collapse", "inflation", "stable", "inconclusive"]
PMethod = Literal["exact", "asymptotic"]

_FEW_PATIENTS = 20  # below, the p value comes from all sign flips
_FIRST_STEP = 0.02  # in log r: by which a search leaves its first guess
_DIGITS = 1e-8  # in log r: where it stops
_PLACE_BITS = 23  # beside the 40 of a number of 12 digits
_STEPS = 200  # of a bisection; it stops earlier, when the limits are neighbours


@dataclass(frozen=True, slots=True)
class WalshRatio:
    """Noise of the other ruler over noise of the trusted one.

    Attributes
    ----------
    ratio : float
        Median of the Walsh ratios; below 1 the other ruler is less noisy. nan when neither ruler has any spread.
    low, high : float
        Limits of the interval (0 and inf are possible).
    statistic : float
        Sum of the signed ranks of b - a.
    z : float
        The statistic over its standard deviation, patients being the units.
    p : float
        Two-sided p value of ratio 1.
    p_method : {"exact", "asymptotic"}
        Exact: all sign flips of the patients' sums, when there are fewer than 20 patients.
    p_asymptotic : float
        From the normal distribution, whatever the number of patients.
    n_cases, n_patients : int
        Cases and independent units.
    """

    ratio: float
    low: float
    high: float
    statistic: float
    z: float
    p: float
    p_method: PMethod
    p_asymptotic: float
    n_cases: int
    n_patients: int


def walsh_ratio(
    trusted: ArrayLike,
    other: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    patients: ArrayLike | None = None,
    level: float = 0.95,
) -> WalshRatio:
    """Return the ratio of the two rulers' noise, with the test that swaps the rulers within a case.

    Parameters
    ----------
    trusted, other : arrays of n_cases
        Scores of the same predictions under the two rulers.
    groups : array of n_cases, optional
        With groups, noise is the distance from the median of the case's own group; without, from the overall median,
        which mixes the gap into the noise.
    patients : array of n_cases, optional
        The independent units; without, each case is one.
    level : float
        Of the interval: order statistics of the Walsh ratios, or, when patients repeat, every ratio that the test of
        patients' sums does not reject.

    Raises
    ------
    ValueError
        When the scores are not finite or the lengths differ.

    References
    ----------
    wilcoxon1945

    Examples
    --------
    >>> walsh_ratio([0.80, 0.90, 0.96, 0.85], [0.93, 0.95, 0.98, 0.94]).ratio < 1
    True
    """
    x, y = paired(trusted, other)
    cases = layout(x.size, groups, patients)
    a, b = np.abs(residuals(x, cases)), np.abs(residuals(y, cases))
    sums = patient_sums(_signed_ranks(b - a), cases)
    z, p_asymptotic = _swap_z(sums), 2 * float(ndtr(-abs(_swap_z(sums))))
    exact = cases.n_patients < _FEW_PATIENTS
    critical = float(ndtri(0.5 + level / 2))
    ratio = walsh_median(a, b)
    limits = _swap_interval(a, b, cases, critical, ratio) if cases.clustered else _order_interval(a, b, critical, ratio)
    low, high = limits
    return WalshRatio(
        ratio=ratio,
        low=low,
        high=high,
        statistic=float(sums.sum()),
        z=z,
        p=sign_flip_p(sums) if exact else p_asymptotic,
        p_method="exact" if exact else "asymptotic",
        p_asymptotic=p_asymptotic,
        n_cases=cases.n_cases,
        n_patients=cases.n_patients,
    )


def excess_ratio(
    trusted: ArrayLike,
    other: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    patients: ArrayLike | None = None,
    level: float = 0.95,
) -> WalshRatio:
    """Return the Walsh ratio of log errors: what is left of a collapse once the shift to the ceiling is allowed for.

    For scores whose best value is 1. A ratio near 1 beside a small raw ratio says that errors and their spread shrank
    by the same factor. Where a score is exactly 1, half the smallest positive error of both rulers is added to every
    error.

    Raises
    ------
    ValueError
        When a score is above 1, not finite, or the lengths differ.
    """
    x, y = paired(trusted, other)
    errors = 1 - np.stack([x, y])
    if (errors < -1e-12).any():
        raise ValueError(f"a score of {1 - errors.min():g} is above 1: log errors need scores bounded by 1")
    errors = np.where(errors < 1e-12, 0.0, errors)
    if not errors.all():
        errors += np.min(errors[errors > 0], initial=1.0) / 2
    log_x, log_y = np.log(errors)
    return walsh_ratio(log_x, log_y, groups=groups, patients=patients, level=level)


def per_group(
    trusted: ArrayLike,
    other: ArrayLike,
    groups: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    minimum: int = 10,
) -> dict[str, WalshRatio]:
    """Return the Walsh ratio within each group of at least `minimum` cases, to see whether one group did it all."""
    x, y = paired(trusted, other)
    cases = layout(x.size, groups, patients)
    return {
        name: walsh_ratio(x[members], y[members], patients=cases.patient[members], level=level)
        for name, members in zip(cases.names, cases.members(), strict=True)
        if members.size >= minimum
    }


def decision(low: float, high: float, *, strong: float = 0.5, collapse: float = 0.8) -> Word:
    """Return what an interval of a noise ratio shows.

    At a fixed gap the signal-to-noise ratio grows by 1 / ratio and the equivalent number of cases by 1 / ratio squared:
    1.6 times at 0.8, 4 times at 0.5. `stable` needs the whole interval between 0.8 and 1.25, which takes some 200
    cases; short of that the word is `inconclusive`, never "no collapse".
    """
    if high < strong:
        return "strong collapse"
    if high < collapse:
        return "collapse"
    if low > 1 / collapse:
        return "inflation"
    return "stable" if low >= collapse and high <= 1 / collapse else "inconclusive"


def walsh_median(a: Floats, b: Floats) -> float:
    """Return the median of (b_i + b_j) / (a_i + a_j) over all pairs i <= j, 0/0 left out; a and b are not negative."""
    pairs = _n_ratios(a, b)
    if not pairs:
        return math.nan
    if a.size > LARGE_SAMPLE:
        return walsh_order(a, b, (pairs + 1) // 2)
    below, above = walsh_order(a, b, (pairs + 1) // 2), walsh_order(a, b, pairs // 2 + 1)
    return below if below == above else (below + above) / 2


def walsh_order(a: Floats, b: Floats, k: int, near: float = math.nan) -> float:
    """Return the k-th smallest (from 1) Walsh ratio, by bisection on how many ratios lie above a value.

    To the last bit; beyond 5,000 cases to eight digits, sooner where `near` is a good guess.

    No list of pairs is made: (b_i + b_j) / (a_i + a_j) > r exactly when v_i + v_j > 0 with v = b - r a.
    """
    pairs = _n_ratios(a, b)
    return _turn(lambda r: _n_above(a, b, r) - (pairs - k), a, b, near)


def walsh_limits(n: int, pairs: int, critical: float) -> int:
    """Return K of the signed-rank interval, whose limits are the (K+1)-th smallest and largest of the pairs."""
    return max(0, math.floor(pairs / 2 - critical * math.sqrt(n * (n + 1) * (2 * n + 1) / 24)))


def sign_flip_p(sums: Floats) -> float:
    """Return the two-sided p value of a sum over all sign flips of its parts (multiples of one half), exactly."""
    parts = np.rint(2 * np.abs(sums)).astype(int)
    reach = int(parts.sum())
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for part in parts[parts > 0]:
        flipped = np.zeros_like(chance)
        flipped[part:] += chance[:-part] / 2
        flipped[:-part] += chance[part:] / 2
        chance = flipped
    observed = round(2 * abs(float(sums.sum())))
    return min(1.0, float(chance[: reach - observed + 1].sum() + chance[reach + observed :].sum()))


def _order_interval(a: Floats, b: Floats, critical: float, near: float) -> tuple[float, float]:
    pairs = _n_ratios(a, b)
    if not pairs:
        return math.nan, math.nan
    skipped = walsh_limits(a.size, pairs, critical)
    return walsh_order(a, b, skipped + 1, near), walsh_order(a, b, pairs - skipped, near)


def _swap_interval(a: Floats, b: Floats, cases: Layout, critical: float, near: float) -> tuple[float, float]:
    if not _n_ratios(a, b):
        return math.nan, math.nan

    def z(r: float) -> float:
        return _swap_z(patient_sums(_signed_ranks(b - r * a), cases))

    if a.size > LARGE_SAMPLE:
        return _turn(lambda r: z(r) - critical, a, b, near), _turn(lambda r: z(r) + critical, a, b, near)
    smallest, largest = _range(a, b)
    low = 0.0 if z(0.0) <= critical else _bisect(lambda r: z(r) > critical, smallest, largest)
    high = math.inf if z(largest) >= -critical else _bisect(lambda r: z(r) >= -critical, smallest, largest)
    return low, high


def _signed_ranks(v: Floats) -> Floats:
    """Return the signed midranks of the values, rounded as `untied` rounds them; zeros count for nothing.

    Rounded to 12 digits, a value and its place fit into one whole number: sorting these takes half the time of finding
    an order of floats.
    """
    size = np.abs(v)
    largest = float(np.max(size, initial=0.0))
    digits = 12 - max(0, math.ceil(math.log10(largest)) if largest > 0 else 0)
    bits = v.size.bit_length()
    if digits <= 0 or bits > _PLACE_BITS:
        size = untied(size)
        zeros = size.size - np.count_nonzero(size)
        return np.copysign(np.where(size > 0, midranks(size).values - zeros, 0.0), v)
    keys = np.rint(size * 10.0**digits).astype(np.int64)
    zeros = keys.size - np.count_nonzero(keys)  # they rank lowest
    keys <<= bits
    keys |= np.arange(keys.size)
    keys.sort()
    order = keys & ((1 << bits) - 1)
    keys >>= bits
    ranks = np.arange(1.0 - zeros, keys.size + 1 - zeros)
    apart = keys[1:] != keys[:-1]
    if not apart.all():
        starts = np.flatnonzero(np.concatenate(([True], apart)))
        counts = np.diff(starts, append=keys.size)
        ranks = np.repeat(starts - zeros + (counts + 1) / 2, counts)
        ranks[:zeros] = 0.0
    signed = np.empty(v.size)
    signed[order] = ranks
    return np.copysign(signed, v)


def _swap_z(sums: Floats) -> float:
    scale = math.sqrt(float(np.sum(sums**2)))
    return float(sums.sum()) / scale if scale else 0.0


def _n_ratios(a: Floats, b: Floats) -> int:
    still = int(np.count_nonzero((a == 0) & (b == 0)))
    return (a.size * (a.size + 1) - still * (still + 1)) // 2


def _n_above(a: Floats, b: Floats, r: float) -> int:
    """Return how many pairs i <= j have v_i + v_j > 0: each positive v, with itself and all that are smaller in size.

    One sort of whole numbers finds them: a distance's bits order as the distance does, and the last one holds the sign.
    """
    v = b - r * a
    keys = np.abs(v).view(np.uint64) << np.uint64(1)
    keys |= v > 0
    keys.sort()
    places = np.flatnonzero(keys & np.uint64(1))
    n_pairs = int(places.sum()) + places.size
    turns = np.flatnonzero(keys[1:] ^ keys[:-1] == 1) + 1  # one size, both signs: such pairs are 0, not above
    negative = turns - np.searchsorted(keys, keys[turns - 1])
    return n_pairs - int(np.sum(negative * (np.searchsorted(keys, keys[turns], side="right") - turns)))


def _range(a: Floats, b: Floats) -> tuple[float, float]:
    """Return positive limits that every Walsh ratio but 0 and inf lies strictly between."""
    if not (a.any() and b.any()):
        return 1.0, 1.0
    return float(np.min(b[b > 0]) / np.max(a) / 4), float(4 * np.max(b) / np.min(a[a > 0]))


def _turn(excess: Callable[[float], float], a: Floats, b: Floats, near: float) -> float:
    """Return where a function that falls with r ceases to be positive: 0 or inf where it never is, or always."""
    smallest, largest = _range(a, b)
    if a.size <= LARGE_SAMPLE or not smallest < largest:
        return _bisect(lambda r: excess(r) > 0, smallest, largest)
    from scipy.optimize import brentq

    known = functools.cache(lambda at: excess(math.exp(at)))
    ends = math.log(smallest), math.log(largest)
    start = near if 0 < near < math.inf else float(b.mean() / a.mean())
    at = min(max(math.log(start), ends[0]), ends[1])
    positive, step = known(at) > 0, _FIRST_STEP
    while True:  # away from the guess until the sign turns
        if at == ends[positive]:
            return math.inf if positive else 0.0
        beyond = min(max(at + (step if positive else -step), ends[0]), ends[1])
        if (known(beyond) > 0) != positive:
            return math.exp(float(brentq(known, at, beyond, xtol=_DIGITS)))
        at, step = beyond, 2 * step


def _bisect(is_low: Callable[[float], bool], smallest: float, largest: float) -> float:
    """Return where is_low turns from true to false: 0 if it is false at smallest, inf if it is true at largest."""
    if not is_low(smallest):
        return 0.0
    if is_low(largest):
        return math.inf
    for _ in range(_STEPS):
        middle = math.sqrt(smallest) * math.sqrt(largest)
        if not smallest < middle < largest:
            break
        smallest, largest = (middle, largest) if is_low(middle) else (smallest, middle)
    return largest
