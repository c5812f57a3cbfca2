"""Effect sizes of rank tests, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chndtr, ndtri

from segaudit.stats.tests import kruskal_wallis, resampled

Floats = NDArray[np.float64]

_MAX_RESAMPLED = 5_000  # values whose ranks are drawn anew a few thousand times
_STEPS = 80  # halvings, to the last bit


@dataclass(frozen=True, slots=True)
class EffectInterval:
    """An effect with its confidence limits, and how they were made."""

    value: float
    low: float
    high: float
    method: Literal["bootstrap", "noncentral", "newcombe", "none"]


def rank_biserial_interval(effect: float, n_a: int, n_b: int, level: float) -> EffectInterval:
    """Return Newcombe's limits of a rank-biserial effect, which hold at -1 and 1 too.

    Parameters
    ----------
    effect : float
        P(a > b) - P(a < b).
    n_a, n_b : int
        Sizes of the two groups.
    level : float

    Notes
    -----
    With A = (effect + 1) / 2 the limits solve |A' - A| = z sqrt(V(A')),
    V(A) = A (1 - A) (1 + m (1 - A)/(2 - A) + m A/(1 + A)) / (n_a n_b), m = (n_a + n_b)/2 - 1 (method 5).

    References
    ----------
    newcombe2006, kerby2014
    """
    if not np.isfinite(effect) or min(n_a, n_b) < 1:
        return EffectInterval(effect, np.nan, np.nan, "none")
    area, z, spread = (effect + 1) / 2, float(ndtri((1 + level) / 2)), (n_a + n_b) / 2 - 1

    def distance(trial: float) -> float:
        variance = trial * (1 - trial) * (1 + spread * ((1 - trial) / (2 - trial) + trial / (1 + trial))) / (n_a * n_b)
        return abs(trial - area) - z * float(np.sqrt(variance))

    low = _bisect(lambda trial: distance(trial) <= 0, 0.0, area)
    high = _bisect(lambda trial: distance(trial) > 0, area, 1.0)
    return EffectInterval(effect, 2 * low - 1, 2 * high - 1, "newcombe")


def epsilon_squared_interval(
    groups: Sequence[ArrayLike], level: float, draws: int, rng: np.random.Generator
) -> EffectInterval:
    """Return epsilon squared H / (N - 1) of k groups with confidence limits, patients resampled within each group.

    Parameters
    ----------
    groups : sequence of one-dimensional arrays
        Scores of each group, one a patient.
    level : float
    draws : int
    rng : numpy Generator

    Notes
    -----
    Resampled groups differ by noise twice over, so 2 (k - 1) / (N - 1) is taken from the bootstrap quantiles, which are
    then clipped at 0; without this the limits never hold at no effect. Beyond 5,000 values the limits invert the
    noncentral chi-squared law of H, which at that size agrees and costs nothing.

    References
    ----------
    tomczak2014
    """
    arrays = [array for group in groups if (array := np.asarray(group, dtype=np.float64)).size]
    test = kruskal_wallis(arrays, rng=rng) if sum(array.size for array in arrays) else None
    if test is None or test.method == "none":
        return EffectInterval(np.nan if test is None else test.effect, np.nan, np.nan, "none")
    if test.n > _MAX_RESAMPLED:
        return noncentral_interval(test.statistic, len(arrays), test.n, level)
    resampled = _resampled_effects(arrays, draws, rng)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.clip(np.quantile(resampled, tails) - 2 * (len(arrays) - 1) / (test.n - 1), 0.0, 1.0)
    return EffectInterval(test.effect, float(low), float(high), "bootstrap")


def noncentral_interval(h: float, k: int, n: int, level: float) -> EffectInterval:
    """Return epsilon squared of a Kruskal-Wallis H of k groups and n values, with noncentral chi-squared limits.

    Examples
    --------
    >>> limits = noncentral_interval(7.015052487051463, 3, 76, 0.95)
    >>> round(limits.low, 3), round(limits.high, 3)
    (0.0, 0.266)
    """
    limits = []
    for tail in ((1 + level) / 2, (1 - level) / 2):

        def above(noncentrality: float, tail: float = tail) -> bool:
            return bool(chndtr(h, k - 1, noncentrality) <= tail)

        limits.append(_bisect(above, 0.0, 4 * h + 200.0) / (n - 1))
    return EffectInterval(h / (n - 1), limits[0], min(limits[1], 1.0), "noncentral")


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number in [low, high] from which `above` holds; low when it always does."""
    if above(low):
        return low
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if above(middle) else (middle, high)
    return high


def _resampled_effects(arrays: Sequence[Floats], draws: int, rng: np.random.Generator) -> Floats:
    """Return epsilon squared (draws) of resampled groups, from how often each distinct pooled value was drawn."""
    distinct, places = np.unique(np.round(np.concatenate(arrays), 12), return_inverse=True)
    parts = np.split(places, np.cumsum([array.size for array in arrays])[:-1])
    drawn = resampled([part.size for part in parts], distinct.size, draws, rng)
    return np.concatenate(
        [_effects([p[at] for p, at in zip(parts, places, strict=True)], distinct.size) for places in drawn]
    )


def _effects(groups: Sequence[NDArray[np.intp]], width: int) -> Floats:
    """Return epsilon squared of each row of the groups' values (rows by patients), which are below `width`."""
    rows, n = len(groups[0]), sum(group.shape[1] for group in groups)
    first = np.arange(rows)[:, None] * width
    counts = [np.bincount((first + group).ravel(), minlength=rows * width).reshape(rows, width) for group in groups]
    total = np.sum(counts, axis=0)
    doubled = 2 * np.cumsum(total, axis=1) - (total - 1)  # midranks, in whole numbers
    between = sum(
        (np.einsum("ij,ij->i", count, doubled) / 2 - group.shape[1] * (n + 1) / 2) ** 2 / group.shape[1]
        for count, group in zip(counts, groups, strict=True)
    )
    untied = 1 - (total**3 - total).sum(axis=1) / (float(n) ** 3 - n)
    with np.errstate(divide="ignore", invalid="ignore"):
        effects: Floats = 12 / (n * (n + 1)) * between / untied / (n - 1)
    return np.where(untied > 0, effects, 0.0)
