"""Confidence intervals of rates, of their ratios and differences, and of medians and shifts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from segaudit.stats.differences import Differences

Floats = NDArray[np.float64]

_MAX_DIFFERENCES = 2_000_000  # of which all are sorted by the Hodges-Lehmann estimate


class Limits(NamedTuple):
    """Lower and upper confidence limits: numbers, or arrays of the shape of the estimates."""

    low: Floats
    high: Floats


class Shift(NamedTuple):
    """A shift between two groups with its confidence limits."""

    value: float
    low: float
    high: float


def _z(level: ArrayLike) -> Floats:
    return np.asarray(ndtri(0.5 + np.asarray(level) / 2))


def pairwise_level(level: float, k: int) -> float:
    """Return the level of each of k(k-1)/2 pairwise intervals that together hold at `level` (Bonferroni)."""
    return 1 - (1 - level) / max(k * (k - 1) / 2, 1)


def wilson(successes: ArrayLike, n: ArrayLike, level: float) -> Limits:
    """Return Wilson score limits of a proportion.

    Parameters
    ----------
    successes, n : arrays of one shape
        Successes and trials; both may be fractional (an effective sample size). Without trials the limits are NaN.
    level : float
        Confidence, such as 0.95.

    References
    ----------
    wilson1927

    Examples
    --------
    >>> low, high = wilson(19, 20, 0.95)
    >>> round(float(low), 6), round(float(high), 6)
    (0.763869, 0.991119)
    """
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(n, dtype=np.float64)
    z = _z(level)
    with np.errstate(divide="ignore", invalid="ignore"):
        middle, half = k + z**2 / 2, z * np.sqrt(np.maximum(k * (n - k) / n, 0.0) + z**2 / 4)
        low, high = (middle - half) / (n + z**2), (middle + half) / (n + z**2)
    low, high = np.where(k <= 0, 0.0, low), np.where(k >= n, 1.0, high)
    return Limits(np.where(n > 0, low, np.nan)[()], np.where(n > 0, high, np.nan)[()])


def newcombe(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, level: float) -> Limits:
    """Return limits of the difference of proportions k1/n1 - k2/n2 by Newcombe's hybrid of Wilson limits.

    References
    ----------
    newcombe1998
    """
    p1, p2, (l1, u1), (l2, u2) = _pair(k1, n1, k2, n2, level)
    difference = p1 - p2
    low = difference - np.hypot(p1 - l1, u2 - p2)
    high = difference + np.hypot(u1 - p1, p2 - l2)
    return Limits(low[()], high[()])


def mover_r(k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, level: float) -> Limits:
    """Return limits of the ratio of proportions (k1/n1) / (k2/n2) by MOVER-R on Wilson limits.

    Notes
    -----
    The limits recover the variance of each proportion from its Wilson limits, and stay honest at rates of 0 and 1,
    where a bootstrap degenerates. The upper limit is infinite when k2 is 0.

    References
    ----------
    donner2012

    Examples
    --------
    >>> low, high = mover_r(15, 16, 52, 53, 0.95)
    >>> round(float(low), 6), round(float(high), 6)
    (0.730199, 1.056887)
    """
    p1, p2, (l1, u1), (l2, u2) = _pair(k1, n1, k2, n2, level)
    product = p1 * p2
    with np.errstate(divide="ignore", invalid="ignore"):
        # rationalised, so that u2 = 2 p2 is no special case
        lower = l1 * (2 * p1 - l1)
        root = np.sqrt(np.maximum(product**2 - lower * u2 * (2 * p2 - u2), 0.0))
        low = np.where(p1 > 0, lower / (product + root), np.where(np.isnan(product), np.nan, 0.0))
        scale = l2 * (2 * p2 - l2)
        high = (product + np.sqrt(np.maximum(product**2 - u1 * (2 * p1 - u1) * scale, 0.0))) / scale
        high = np.where(p2 > 0, high, np.where(np.isnan(product), np.nan, np.inf))
    return Limits(low[()], high[()])


def _pair(
    k1: ArrayLike, n1: ArrayLike, k2: ArrayLike, n2: ArrayLike, level: float
) -> tuple[Floats, Floats, Limits, Limits]:
    arrays = [np.asarray(array, dtype=np.float64) for array in (k1, n1, k2, n2)]
    with np.errstate(divide="ignore", invalid="ignore"):
        p1, p2 = np.asarray(arrays[0] / arrays[1]), np.asarray(arrays[2] / arrays[3])
    return p1, p2, wilson(arrays[0], arrays[1], level), wilson(arrays[2], arrays[3], level)


def dir_interval(successes: ArrayLike, cases: ArrayLike, level: float) -> Limits:
    """Return limits of DIR, the smallest over the largest success rate of k groups.

    Parameters
    ----------
    successes, cases : arrays (..., k)
        Successes and cases of each group; leading axes (thresholds) are handled at once. Both may be fractional.
    level : float
        Simultaneous confidence over all pairs of groups.

    Notes
    -----
    MOVER-R limits of every pair at 1 - alpha / (k(k-1)/2), each folded by f(r) = min(r, 1/r); DIR is the smallest of
    the folded ratios, so its limits are the smallest lower and the smallest upper limit. It is never [1, 1]: without a
    failure the lower limit says how much the sizes of the groups could hide. Without a success it is [0, 1].

    Examples
    --------
    >>> low, high = dir_interval([20, 29, 25], [21, 29, 26], 0.95)
    >>> round(float(low), 6), float(high)
    (0.717078, 1.0)
    """
    folded = [_fold_ratio(mover_r(*columns)) for columns in _pairs(successes, cases, level)]
    return _extreme(folded, np.minimum)


def dpd_interval(successes: ArrayLike, cases: ArrayLike, level: float) -> Limits:
    """Return limits of DPD, the largest minus the smallest success rate of k groups.

    Newcombe limits of every pair at 1 - alpha / (k(k-1)/2), each folded to the absolute difference; parameters as for
    `dir_interval`.
    """
    folded = [fold_difference(newcombe(*columns)) for columns in _pairs(successes, cases, level)]
    return _extreme(folded, np.maximum)


def _pairs(successes: ArrayLike, cases: ArrayLike, level: float) -> list[tuple[Floats, Floats, Floats, Floats, float]]:
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=np.float64), np.asarray(cases, dtype=np.float64))
    if k.shape[-1] < 2:
        raise ValueError("a contrast needs at least two groups")
    each = pairwise_level(level, k.shape[-1])
    return [(k[..., i], n[..., i], k[..., j], n[..., j], each) for i, j in combinations(range(k.shape[-1]), 2)]


def _extreme(limits: Sequence[Limits], of: np.ufunc) -> Limits:
    return Limits(of.reduce([pair.low for pair in limits])[()], of.reduce([pair.high for pair in limits])[()])


def _fold_ratio(limits: Limits) -> Limits:
    with np.errstate(divide="ignore"):
        low, high = (np.minimum(limit, 1 / np.asarray(limit)) for limit in limits)
    covers = (limits.low <= 1) & (limits.high >= 1)
    return Limits(np.minimum(low, high), np.where(covers, 1.0, np.maximum(low, high)))


def fold_difference(limits: Limits) -> Limits:
    """Return limits of the absolute difference: the lower is 0 when those of the difference include 0."""
    low, high = np.abs(limits.low), np.abs(limits.high)
    covers = (limits.low <= 0) & (limits.high >= 0)
    return Limits(np.where(covers, 0.0, np.minimum(low, high))[()], np.maximum(low, high)[()])


def effective_size(successes: ArrayLike, cases: ArrayLike, patients: ArrayLike | None = None) -> float:
    """Return the number of independent cases that a group's patients are worth for its success rate.

    Parameters
    ----------
    successes, cases : arrays, one entry a patient
        Successes and cases of each patient.
    patients : array, optional
        How many patients each entry stands for; 1 by default.

    Notes
    -----
    n / max(1, deff), deff being the variance of the rate with patients as clusters over that of independent cases.
    It is n when every patient has one case, and the number of patients when the cases of a patient always agree and
    all have as many. At a rate of 0 or 1 deff cannot be estimated; then it is the number of patients.

    References
    ----------
    rao1992

    Examples
    --------
    >>> effective_size([1, 1, 0], [1, 1, 1]), effective_size([2, 2, 0, 2], [2, 2, 2, 2])
    (3.0, 4.0)
    """
    good, n = np.asarray(successes, dtype=np.float64), np.asarray(cases, dtype=np.float64)
    weight = np.ones_like(n) if patients is None else np.asarray(patients, dtype=np.float64)
    total, clusters = float((weight * n).sum()), float(weight[n > 0].sum())
    rate = float((weight * good).sum()) / total if total else 0.0
    if rate in {0.0, 1.0}:
        return clusters
    clustered = float((weight * (good - rate * n) ** 2).sum())
    return total / max(1.0, clustered / (total * rate * (1 - rate)))


def bootstrap_medians(values: ArrayLike, draws: int, rng: np.random.Generator) -> Floats:
    """Return the medians (draws) of resamples of values, drawn through the law of order statistics.

    Notes
    -----
    The m-th smallest of n values resampled from n is the ceil(n U)-th smallest of them, U being the m-th smallest of n
    uniform numbers, which is Beta(m, n-m+1). One draw costs the same at any n, and nothing is approximated. For even n
    the lower middle is the upper one times the largest of m uniform numbers.
    """
    return medians_of_resamples(np.sort(np.asarray(values, dtype=np.float64)), None, draws, rng)


def medians_of_resamples(ordered: Floats, size: int | None, draws: int, rng: np.random.Generator) -> Floats:
    """Return the medians of `draws` samples of `size` (all by default), with replacement, from sorted values."""
    n = ordered.size if size is None else size
    middle = (n + 1) // 2
    if n % 2:
        return ordered[_position(rng.beta(middle, n - middle + 1, draws), ordered.size)]
    upper = rng.beta(middle + 1, n - middle, draws)
    lower = upper * rng.beta(middle, 1, draws)
    medians: Floats = (ordered[_position(lower, ordered.size)] + ordered[_position(upper, ordered.size)]) / 2
    return medians


def _position(uniform: Floats, n: int) -> NDArray[np.int64]:
    return np.clip(np.ceil(uniform * n).astype(np.int64) - 1, 0, n - 1)


def median_difference_interval(
    a: ArrayLike, b: ArrayLike, level: float, draws: int, rng: np.random.Generator
) -> Limits:
    """Return limits of median(a) - median(b) by the percentile bootstrap, patients resampled within each group.

    Parameters
    ----------
    a, b : one-dimensional arrays
        Scores, one a patient; infinite ones rank as such, and a draw of inf - inf widens both limits.
    level : float
    draws : int
    rng : numpy Generator
    """
    return _percentiles(bootstrap_medians(a, draws, rng), bootstrap_medians(b, draws, rng), level)


def median_gap_interval(groups: Sequence[ArrayLike], level: float, draws: int, rng: np.random.Generator) -> Limits:
    """Return limits of the largest minus the smallest median of k groups.

    The bootstrap limits of every pairwise difference at 1 - alpha / (k(k-1)/2), folded to the absolute difference; the
    gap is the largest of these, so its limits are the largest lower and the largest upper limit. The lower limit is 0
    unless two groups differ.
    """
    if len(groups) < 2:
        raise ValueError("a gap needs at least two groups")
    medians = [bootstrap_medians(group, draws, rng) for group in groups]
    each = pairwise_level(level, len(groups))
    folded = [fold_difference(_percentiles(a, b, each)) for a, b in combinations(medians, 2)]
    return _extreme(folded, np.maximum)


def _percentiles(a: Floats, b: Floats, level: float) -> Limits:
    with np.errstate(invalid="ignore"):
        drawn = a - b
    unknown = np.isnan(drawn)  # inf - inf
    tail = (1 - level) / 2
    # order statistics, not interpolated ones: infinities stay what they are
    low = np.quantile(np.where(unknown, -np.inf, drawn), tail, method="lower")
    high = np.quantile(np.where(unknown, np.inf, drawn), 1 - tail, method="higher")
    return Limits(low, high)


def hodges_lehmann(a: ArrayLike, b: ArrayLike, level: float) -> Shift:
    """Return the median of all differences a_i - b_j, with Moses' distribution-free limits.

    Parameters
    ----------
    a, b : one-dimensional arrays
        Finite scores, one a patient. With an infinite one, or none, all three numbers are NaN.
    level : float

    Notes
    -----
    With d the ordered differences and K = floor(n1 n2 / 2 - z sqrt(n1 n2 (n1+n2+1) / 12) - 1/2), at least 0, the limits
    are d[K+1] and d[n1 n2 - K]. The differences are never all held: order statistics of many come by bisection.

    References
    ----------
    hodges1963, moses1953

    Examples
    --------
    >>> hodges_lehmann([1, 2, 2, 3, 5], [2, 4, 4, 6, 7, 8], 0.95)
    Shift(value=-2.5, low=-6.0, high=1.0)
    """
    first, second = np.sort(np.asarray(a, dtype=np.float64)), np.sort(np.asarray(b, dtype=np.float64))
    n1, n2 = first.size, second.size
    pairs = n1 * n2
    if pairs == 0 or not (np.isfinite(first).all() and np.isfinite(second).all()):
        return Shift(np.nan, np.nan, np.nan)
    spread = float(_z(level)) * np.sqrt(pairs * (n1 + n2 + 1) / 12)
    skipped = max(int(np.floor(pairs / 2 - spread - 0.5)), 0)
    low, below, above, high = _differences(
        first, second, [skipped + 1, (pairs + 1) // 2, pairs // 2 + 1, pairs - skipped]
    )
    return Shift((below + above) / 2, low, high)


def _differences(first: Floats, second: Floats, ranks: Sequence[int]) -> list[float]:
    """Return order statistics (from 1) of all differences of two sorted arrays."""
    if first.size * second.size <= _MAX_DIFFERENCES:
        ordered = np.sort(np.subtract.outer(first, second), axis=None)
        return [float(ordered[rank - 1]) for rank in ranks]
    values, times = zip(*(np.unique(array, return_counts=True) for array in (first, second)), strict=True)
    if values[0].size * values[1].size <= _MAX_DIFFERENCES:
        each = np.subtract.outer(*values).ravel()
        order = np.argsort(each)
        reached = np.cumsum(np.multiply.outer(*times).ravel()[order])
        return [float(each[order[np.searchsorted(reached, rank)]]) for rank in ranks]
    if first.size > second.size:  # the shorter one is looked up in the longer one
        first, second = -second[::-1], -first[::-1]
    counted = Differences(first, second)
    return [counted.at_rank(rank) for rank in ranks]
