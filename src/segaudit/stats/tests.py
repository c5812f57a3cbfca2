"""Rank tests between groups: Mann-Whitney, Kruskal-Wallis, Dunn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import lgamma, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtr

from segaudit.stats.family import adjust

Floats = NDArray[np.float64]
PMethod = Literal["exact", "permutation", "asymptotic", "none"]

DECIMALS = 12  # floating-point near-ties would otherwise change midranks
SMALL_GROUP = 8
MAX_ARRANGEMENTS = 200_000
PERMUTATIONS = 9_999
_TIE = 1e-9
_MAX_COUNTING = 300_000_000  # table updates of the exact distribution
_MAX_SHUFFLED = 5_000  # values shuffled 9,999 times in under a second
DRAWN = 4_000_000  # values drawn at a time where several kinds of draws take turns: their order is part of a result
_BLOCK = 1 << 17  # values worked on at a time; they stay in cache from one operation to the next


@dataclass(frozen=True, slots=True)
class RankTest:
    """The result of a rank test.

    Attributes
    ----------
    test : {"mann_whitney", "kruskal_wallis"}
    statistic : float
        U of the first group, or H.
    p : float
        Two-sided p value; NaN when fewer than two groups have values.
    method : {"exact", "permutation", "asymptotic", "none"}
        exact: all arrangements of values without ties; permutation: arrangements of the midranks; asymptotic: normal
        or chi-squared; none: nothing to test (all values identical: p is 1).
    draws : int
        Random arrangements behind p; 0 when all were counted, or none was needed.
    effect_name : {"rank_biserial", "epsilon_squared"}
    effect : float
        Rank-biserial P(a > b) - P(a < b), positive when the first group scores higher; or H / (N - 1).
    z : float
        Signed normal deviate of U with tie correction and continuity; NaN for Kruskal-Wallis.
    eta_squared_h : float
        (H - k + 1) / (N - k), which may be negative; NaN for Mann-Whitney.
    n : int
        Values tested.
    """

    test: Literal["mann_whitney", "kruskal_wallis"]
    statistic: float
    p: float
    method: PMethod
    draws: int
    effect_name: Literal["rank_biserial", "epsilon_squared"]
    effect: float
    z: float
    eta_squared_h: float
    n: int


_NAN = float("nan")
_NO_U = RankTest("mann_whitney", _NAN, _NAN, "none", 0, "rank_biserial", _NAN, _NAN, _NAN, 0)
_NO_H = RankTest("kruskal_wallis", _NAN, _NAN, "none", 0, "epsilon_squared", _NAN, _NAN, _NAN, 0)


@dataclass(frozen=True, slots=True)
class DunnPair:
    """One pair of groups, by position: z is positive when the first ranks higher."""

    first: int
    second: int
    z: float
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Ranks:
    """Midranks of the pooled values, and sum(t^3 - t) over their ties."""

    values: Floats
    ties: float


def midranks(values: ArrayLike) -> Ranks:
    """Return the midranks of values, rounded to 12 decimals first; infinities rank as such.

    Raises
    ------
    ValueError
        When a value is NaN: undefined scores have no rank.
    """
    rounded = np.round(np.asarray(values, dtype=np.float64), DECIMALS)
    if np.isnan(rounded).any():
        raise ValueError("NaN has no rank; leave undefined scores out")
    order = np.argsort(rounded)
    ordered = rounded[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if ordered.size else np.empty(0, int)
    ranks = np.empty(ordered.size)
    if starts.size == ordered.size:  # no ties
        ranks[order] = np.arange(1.0, ordered.size + 1)
        return Ranks(ranks, 0.0)
    counts = np.diff(np.append(starts, ordered.size)).astype(np.float64)
    ranks[order] = np.repeat(starts + (counts + 1) / 2, counts.astype(int))
    return Ranks(ranks, float((counts**3 - counts).sum()))


def mann_whitney(a: ArrayLike, b: ArrayLike, *, rng: np.random.Generator) -> RankTest:
    """Return the two-sided Mann-Whitney test of two independent groups, with the rank-biserial effect.

    Parameters
    ----------
    a, b : one-dimensional arrays
        Scores of the two groups, one a patient; infinities rank as such.
    rng : numpy Generator
        Drawn from only when a group of at most eight meets so many values that counting would take long.

    Notes
    -----
    Small groups (at most eight values in one, or at most 200,000 arrangements) are tested by counting all arrangements
    of the midranks: the exact test where nothing is tied, the permutation test where something is. Otherwise p is
    asymptotic, with tie-corrected variance and a continuity correction of one half.

    References
    ----------
    mann1947

    Examples
    --------
    >>> test = mann_whitney([1, 2, 2, 3, 5], [2, 4, 4, 6, 7, 8], rng=np.random.default_rng(0))
    >>> test.method, round(test.effect, 4), round(test.p, 6)
    ('permutation', -0.6667, 0.069264)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    n_a, n_b = first.size, second.size
    ranks = midranks(np.concatenate([first, second]))
    total = n_a + n_b
    if min(n_a, n_b) == 0:
        return replace(_NO_U, n=total)
    u = float(ranks.values[:n_a].sum()) - n_a * (n_a + 1) / 2
    variance = n_a * n_b / 12 * (total + 1 - ranks.ties / (total * (total - 1)))
    if variance <= _TIE:
        return replace(_NO_U, statistic=u, p=1.0, effect=0.0, z=0.0, n=total)
    distance = u - n_a * n_b / 2
    z = float(np.sign(distance) * max(abs(distance) - 0.5, 0.0) / np.sqrt(variance))
    result = replace(_NO_U, statistic=u, effect=2 * u / (n_a * n_b) - 1, z=z, n=total)
    smaller = min(n_a, n_b)
    if smaller > SMALL_GROUP and not _few_arrangements([n_a, n_b]):
        return replace(result, p=float(min(1.0, 2 * ndtr(-abs(z)))), method="asymptotic")
    p, draws = _p_rank_sum(ranks.values, smaller, abs(distance), rng)
    method: PMethod = "exact" if ranks.ties == 0 and draws == 0 else "permutation"
    return replace(result, p=p, method=method, draws=draws)


def _p_rank_sum(ranks: Floats, size: int, distance: float, rng: np.random.Generator) -> tuple[float, int]:
    """Return P(|W - E| >= distance) for the rank sum W of `size` values drawn from all, and the draws behind it."""
    expected = size * (ranks.size + 1) / 2
    if 2 * ranks.size**2 * (size + 1) * size <= _MAX_COUNTING:
        sums, counts = _rank_sum_counts(ranks, size)
        return float(min(1.0, counts[np.abs(sums - expected) >= distance - _TIE].sum() / counts.sum())), 0
    picks = rng.integers(ranks.size, size=(PERMUTATIONS, size))
    while (doubled := (np.diff(np.sort(picks, axis=1), axis=1) == 0).any(axis=1)).any():
        picks[doubled] = rng.integers(ranks.size, size=(int(doubled.sum()), size))
    beyond = np.abs(ranks[picks].sum(axis=1) - expected) >= distance - _TIE
    return float((1 + beyond.sum()) / (PERMUTATIONS + 1)), PERMUTATIONS


def _rank_sum_counts(ranks: Floats, size: int) -> tuple[Floats, Floats]:
    """Return every sum of `size` midranks, and how many subsets have it (floats: they only add, so nothing cancels)."""
    doubled = np.sort(np.rint(2 * ranks).astype(np.int64))
    table = np.zeros((size + 1, int(doubled[-size:].sum()) + 1))
    table[0, 0] = 1.0
    for weight in doubled:
        table[1:, weight:] += table[:-1, :-weight]
    return np.arange(table.shape[1]) / 2, table[size]


def kruskal_wallis(groups: Sequence[ArrayLike], *, rng: np.random.Generator) -> RankTest:
    """Return the Kruskal-Wallis test of k independent groups, with epsilon squared.

    Parameters
    ----------
    groups : sequence of one-dimensional arrays
        Scores of each group, one a patient; groups without values take no part.
    rng : numpy Generator
        Drawn from when a group has fewer than eight values and there are too many arrangements to count.

    Notes
    -----
    H is tie-corrected. With fewer than eight values in a group the chi-squared law is far too conservative: p comes
    from all arrangements of the ranks when there are at most 200,000, else from 9,999 random ones, as
    (1 + number at least as large) / 10,000. Beyond 5,000 values in all the chi-squared law is used.

    References
    ----------
    kruskal1952, tomczak2014

    Examples
    --------
    >>> test = kruskal_wallis([[1, 2, 3], [4, 5, 6], [7, 8, 9]], rng=np.random.default_rng(0))
    >>> round(test.statistic, 6), round(test.effect, 6), test.method
    (7.2, 0.9, 'exact')
    """
    pooled, sizes = _pool(groups)
    ranks = midranks(pooled)
    k, n = sizes.size, pooled.size
    if k < 2:
        return replace(_NO_H, n=n)
    tied = _tie_factor(ranks, n) <= 0
    h = 0.0 if tied else float(_h(np.add.reduceat(ranks.values, _starts(sizes)), sizes, ranks))
    p, method, draws = _p_kruskal(h, ranks, sizes, rng)
    eta = (h - k + 1) / (n - k) if n > k else np.nan
    return replace(_NO_H, statistic=h, p=p, method=method, draws=draws, effect=h / (n - 1), eta_squared_h=eta, n=n)


def _pool(groups: Sequence[ArrayLike]) -> tuple[Floats, NDArray[np.int64]]:
    arrays = [array for group in groups if (array := np.asarray(group, dtype=np.float64)).size]
    return np.concatenate([np.empty(0), *arrays]), np.array([array.size for array in arrays], dtype=np.int64)


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]])


def _tie_factor(ranks: Ranks, n: int) -> float:
    return 1.0 - ranks.ties / (float(n) ** 3 - n) if n > 1 else 0.0


def _h(sums: Floats, sizes: NDArray[np.int64], ranks: Ranks) -> Floats:
    """Return the tie-corrected H of rank sums (..., k)."""
    n = ranks.values.size
    between = ((sums - sizes * (n + 1) / 2) ** 2 / sizes).sum(axis=-1)
    h: Floats = 12.0 / (n * (n + 1)) * between / _tie_factor(ranks, n)
    return h


def _p_kruskal(
    h: float, ranks: Ranks, sizes: NDArray[np.int64], rng: np.random.Generator
) -> tuple[float, PMethod, int]:
    n = ranks.values.size
    if _tie_factor(ranks, n) <= 0:
        return 1.0, "none", 0
    if sizes.min() >= SMALL_GROUP or n > _MAX_SHUFFLED:
        return float(chdtrc(sizes.size - 1, h)), "asymptotic", 0
    if _few_arrangements(sizes.tolist()):
        beyond = _h(_all_rank_sums(ranks.values, sizes), sizes, ranks) >= h - _TIE
        return float(beyond.mean()), "exact" if ranks.ties == 0 else "permutation", 0
    beyond_draws = 0
    for rows in blocks(PERMUTATIONS, n):
        shuffled = rng.permuted(np.tile(ranks.values, (rows, 1)), axis=1)
        sums = np.add.reduceat(shuffled, _starts(sizes), axis=1)
        beyond_draws += int((_h(sums, sizes, ranks) >= h - _TIE).sum())
    return (1 + beyond_draws) / (PERMUTATIONS + 1), "permutation", PERMUTATIONS


def blocks(draws: int, width: int, most: int = _BLOCK) -> Iterator[int]:
    """Yield row counts that add up to `draws`, each of rows that hold at most so many values of that width."""
    step = max(1, most // max(width, 1))
    yield from (min(step, draws - start) for start in range(0, draws, step))


def resampled(
    sizes: Sequence[int], width: int, draws: int, rng: np.random.Generator
) -> Iterator[list[NDArray[np.int64]]]:
    """Yield blocks of rows of that width: for each group, as many of its places (rows by size) with replacement."""
    for drawn in blocks(draws, width, DRAWN):
        places = [rng.integers(size, size=(drawn, size)) for size in sizes]
        done = 0
        for rows in blocks(drawn, width):
            yield [each[done : done + rows] for each in places]
            done += rows


def _few_arrangements(sizes: Sequence[int]) -> bool:
    logarithm = lgamma(sum(sizes) + 1) - sum(lgamma(size + 1) for size in sizes)
    return logarithm <= log(MAX_ARRANGEMENTS) + _TIE


def _all_rank_sums(ranks: Floats, sizes: NDArray[np.int64]) -> Floats:
    """Return the rank sums (arrangements, k) of every way to deal the ranks into groups of these sizes."""
    left, sums = ranks[None, :], np.empty((1, 0))
    for size in sizes.tolist():
        chosen = np.array(list(combinations(range(left.shape[1]), size)))
        free = np.ones((len(chosen), left.shape[1]), dtype=bool)
        np.put_along_axis(free, chosen, values=False, axis=1)
        others = np.nonzero(free)[1].reshape(len(chosen), -1)
        dealt = left[:, chosen].sum(axis=2)
        sums = np.concatenate([np.repeat(sums, len(chosen), axis=0), dealt.reshape(-1, 1)], axis=1)
        left = left[:, others].reshape(dealt.size, -1)
    return sums


def dunn(groups: Sequence[ArrayLike]) -> list[DunnPair]:
    """Return Dunn's comparison of every pair of groups after Kruskal-Wallis, two-sided, with Holm-adjusted p.

    Parameters
    ----------
    groups : sequence of one-dimensional arrays
        Scores of each group; none is empty. Pairs are named by position.

    Notes
    -----
    z = (mean rank of first - mean rank of second) / sqrt(A (1/n_i + 1/n_j)),
    A = N(N+1)/12 - sum(t^3 - t) / (12 (N-1)).

    References
    ----------
    dunn1964

    Examples
    --------
    >>> [(pair.first, pair.second, round(pair.z, 3)) for pair in dunn([[1, 2], [3, 4], [5, 6]])]
    [(0, 1, -1.069), (0, 2, -2.138), (1, 2, -1.069)]
    """
    pooled, sizes = _pool(groups)
    if sizes.size != len(groups):
        raise ValueError("a group has no values; leave it out")
    if sizes.size < 2:
        return []
    ranks, n = midranks(pooled), pooled.size
    means = np.add.reduceat(ranks.values, _starts(sizes)) / sizes
    scale = n * (n + 1) / 12 * max(_tie_factor(ranks, n), 0.0)
    pairs = list(combinations(range(sizes.size), 2))
    deviates = np.zeros(len(pairs))
    if scale > 0:
        deviates = np.array([(means[i] - means[j]) / np.sqrt(scale * (1 / sizes[i] + 1 / sizes[j])) for i, j in pairs])
    p = 2 * ndtr(-np.abs(deviates))
    holm = adjust(p, "holm")
    return [
        DunnPair(i, j, float(z), float(raw), float(adjusted))
        for (i, j), z, raw, adjusted in zip(pairs, deviates, p, holm, strict=True)
    ]
