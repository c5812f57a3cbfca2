"""Means between groups, tested by shuffling patients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from segaudit.stats.tests import blocks

MAX_SHUFFLED = 5_000  # scores
MAX_SHUFFLED_SMALL = 20_000  # where a group is so small that its mean is not nearly normal
_SMALL_GROUP = 100
_TIE = 1e-9


def permutation_of_means(groups: Sequence[ArrayLike], *, draws: int, rng: np.random.Generator) -> float:
    """Return the permutation p of the differences between group means.

    Parameters
    ----------
    groups : sequence of one-dimensional arrays
        Finite scores of two or more groups, one a patient; none is empty.
    draws : int
        Random divisions of the patients into groups of these sizes.

    Returns
    -------
    float
        (1 + number of divisions whose groups lie at least as far apart) / (draws + 1), by the sum of squares between
        groups, which orders divisions as the F statistic does; 1 where all scores are equal. Where there are too many
        to shuffle (`takes_law`), p is that of the chi-squared law which the divisions approach.

    Raises
    ------
    ValueError
        When a score is not finite: it has no mean.

    Notes
    -----
    The null is that the groups have one distribution, as for a rank test; the statistic looks at means. It is no test
    of equal means between groups whose spreads differ. One score far out can make or hide a difference of means.

    Examples
    --------
    >>> round(permutation_of_means([[1, 2, 3], [4, 5, 6]], draws=999, rng=np.random.default_rng(0)), 2)
    0.1
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    pooled = np.concatenate(arrays)
    if not np.isfinite(pooled).all():
        raise ValueError("a score that is not finite has no mean; leave it out or use ranks")
    sizes = np.array([array.size for array in arrays])
    starts = np.cumsum(sizes) - sizes
    centred = pooled - pooled.mean()
    total = float((centred**2).sum())
    if np.ptp(pooled) == 0:
        return 1.0
    observed = float((np.add.reduceat(centred, starts) ** 2 / sizes).sum())
    if takes_law(sizes.tolist()):
        return float(chdtrc(sizes.size - 1, observed / total * (pooled.size - 1)))
    beyond = 0
    for rows in blocks(draws, pooled.size):
        shuffled = rng.permuted(np.tile(centred, (rows, 1)), axis=1)
        between = (np.add.reduceat(shuffled, starts, axis=1) ** 2 / sizes).sum(axis=1)
        beyond += int(np.count_nonzero(between >= observed - _TIE * total))
    return (1 + beyond) / (draws + 1)


def takes_law(sizes: Sequence[int]) -> bool:
    """Return whether groups of these sizes have their means compared by the chi-squared law instead of shuffles."""
    return sum(sizes) > (MAX_SHUFFLED if min(sizes) >= _SMALL_GROUP else MAX_SHUFFLED_SMALL)
