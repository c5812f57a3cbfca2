"""Leaving one value out of a rank test: what p becomes, for every value at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr

from segaudit.stats.tests import DECIMALS, midranks

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
_TIE = 1e-9


def omission_p(values: ArrayLike, groups: ArrayLike, omitted: ArrayLike, replaced: ArrayLike | None = None) -> Floats:
    """Return the large-sample p of the rank test between groups without each of the omitted values.

    Parameters
    ----------
    values : array of n
        Scores, one a patient; infinities rank as such.
    groups : array of n integers
        Group of each value, 0 to k - 1, none of them empty.
    omitted : array of m integers
        Position of the value that is left out, one omission each.
    replaced : array of m, optional
        The value that takes its place (a patient's mean over the remaining cases); NaN, as without, for none.

    Returns
    -------
    numpy.ndarray
        m two-sided p values: Mann-Whitney by the normal law with tie-corrected variance and continuity correction for
        two groups, Kruskal-Wallis by the chi-squared law for more; 1 where the rest is all tied.

    Notes
    -----
    No test is run again: taking a value out lowers the ranks of those above it by one and of those tied with it by one
    half, so each rank sum follows from counts per group. The work grows as n log n.

    Examples
    --------
    >>> omission_p([1, 2, 3, 4, 5, 6], [0, 0, 0, 1, 1, 1], [0, 3]).round(4).tolist()
    [0.1489, 0.1489]
    """
    x = np.asarray(values, dtype=np.float64).round(DECIMALS)
    group, out = np.asarray(groups, dtype=np.intp), np.asarray(omitted, dtype=np.intp)
    new: Floats = np.full(out.size, np.nan)
    if replaced is not None:
        new = np.asarray(replaced, dtype=np.float64).round(DECIMALS)
    k = int(group.max()) + 1
    sizes = np.bincount(group, minlength=k)
    ranks = midranks(x)
    own = np.equal.outer(group[out], np.arange(k))
    below, equal = _counts(x, group, k, x[out])
    tied = equal.sum(axis=1)
    sums = np.bincount(group, weights=ranks.values, minlength=k) - own * ranks.values[out][:, None]
    sums = sums - (sizes - below - equal) - (equal - own) / 2
    ties = ranks.ties - _cubic(tied) + _cubic(tied - 1)
    left = sizes - own
    at = np.flatnonzero(~np.isnan(new))
    below, equal = _counts(x, group, k, new[at])
    below = below - own[at] * (x[out[at]] < new[at])[:, None]
    equal = equal - own[at] * (x[out[at]] == new[at])[:, None]
    tied = equal.sum(axis=1)
    sums[at] += left[at] - below - equal + equal / 2 + own[at] * (1 + below.sum(axis=1) + tied / 2)[:, None]
    ties[at] += _cubic(tied + 1) - _cubic(tied)
    left[at] = sizes
    return _p(sums, left, ties)


def _counts(values: Floats, group: Codes, k: int, at: Floats) -> tuple[Codes, Codes]:
    """Return how many values of each group lie below, and at, each of some points (points by groups)."""
    levels, level = np.unique(values, return_inverse=True)
    counts = np.zeros((levels.size + 1, k), dtype=np.intp)  # a last row for points beyond every value
    counts[:-1] = np.bincount(level * k + group, minlength=levels.size * k).reshape(-1, k)
    below = np.cumsum(counts, axis=0) - counts
    points, place = np.unique(at, return_inverse=True)  # ascending: looked up quickly
    found = np.searchsorted(levels, points)
    equal = np.where((np.append(levels, np.nan)[found] == points)[:, None], counts[found], 0)
    return below[found][place], equal[place]


def _cubic(t: Floats | Codes) -> Floats:
    size = np.asarray(t, dtype=np.float64)
    return size**3 - size


def _p(sums: Floats, sizes: Codes, ties: Floats) -> Floats:
    """Return p of rank sums (rows by groups) of groups of these sizes (the same shape)."""
    n = sizes.sum(axis=1).astype(np.float64)
    if sizes.shape[1] == 2:
        a, b = sizes[:, 0], sizes[:, 1]
        variance = a * b / 12 * (n + 1 - ties / (n * (n - 1)))
        distance = np.maximum(np.abs(sums[:, 0] - a * (n + 1) / 2) - 0.5, 0.0)
        p = 2 * ndtr(-distance / np.sqrt(np.where(variance > _TIE, variance, 1.0)))
        return np.where(variance > _TIE, np.minimum(p, 1.0), 1.0)
    spread = 1 - ties / (n**3 - n)
    h = 12 / (n * (n + 1)) * ((sums - sizes * (n[:, None] + 1) / 2) ** 2 / sizes).sum(axis=1)
    return np.where(spread > 0, chdtrc(sizes.shape[1] - 1, h / np.where(spread > 0, spread, 1.0)), 1.0)
