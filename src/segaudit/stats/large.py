"""What stands in for draws of patients where there are many cases: the laws that the draws themselves approach.

The cost of a draw grows with the cases; these laws need one pass over them. They are used beyond
`clusters.LARGE_SAMPLE` cases, where they and the draws agree within the error of the draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from segaudit.stats.clusters import Codes, Floats, Layout, drawn_weights, weighted_medians

_LARGE_GROUP = 1_000  # patients of a group; smaller groups are drawn one by one


class Drawn(NamedTuple):
    """Group medians (rulers by draws by groups) and noise (rulers by draws) of resampled patients."""

    medians: Floats
    noise: Floats


def resampled(rulers: Sequence[Floats], cases: Layout, draws: int, rng: np.random.Generator) -> Drawn:
    """Return group medians and mean absolute distance from them when patients are drawn within their group.

    Notes
    -----
    In a group of more than 1,000 patients the share of resampled cases below the median, the sum of distances and the
    number of cases are drawn from their joint normal law, over all rulers together; the resampled median is the
    quantile of the group's scores that so many cases lie below (Bahadur's representation), so its distribution follows
    the scores' own, ties included. Smaller groups are resampled as they are.

    References
    ----------
    bahadur1966
    """
    medians = np.empty((len(rulers), draws, cases.n_groups))
    distances, counts = np.zeros((len(rulers), draws)), np.zeros(draws)
    for j, members in enumerate(cases.members()):
        patients, patient = np.unique(cases.patient[members], return_inverse=True)
        group = Layout((cases.names[j],), np.zeros(members.size, dtype=np.intp), patient, patients.size)
        of_group = _normal if patients.size > _LARGE_GROUP else _one_by_one
        medians[:, :, j], distance, count = of_group([values[members] for values in rulers], group, draws, rng)
        distances, counts = distances + distance, counts + count
    return Drawn(medians, distances / counts)


def _normal(
    rulers: Sequence[Floats], group: Layout, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return medians and sums of distances (rulers by draws), and cases (draws), of one group."""
    k, n = len(rulers), group.n_cases
    columns = [below_middle(values, group.patient) for values in rulers]
    columns += [np.abs(values - np.median(values)) for values in rulers]
    sums = np.stack(
        [np.bincount(group.patient, weights=column, minlength=group.n_patients) for column in [*columns, np.ones(n)]]
    )
    drawn = rng.multivariate_normal(
        sums.sum(axis=1), group.n_patients * np.cov(sums, bias=True), draws, method="eigh", check_valid="ignore"
    ).T
    medians = [median_at(values, 1 - below / drawn[-1]) for values, below in zip(rulers, drawn[:k], strict=True)]
    return np.stack(medians), drawn[k : 2 * k], drawn[-1]


def below_middle(values: Floats, patient: Codes) -> Floats:
    """Return 1 for the lower half of the values of a group, 0 for the upper half."""
    order = np.lexsort((patient, values))  # equal scores of a patient stay on one side of the middle
    below = np.empty(values.size)
    below[order] = np.clip(values.size / 2 - np.arange(values.size), 0.0, 1.0)
    return below


def median_at(values: Floats, share: Floats) -> Floats:
    """Return the quantiles of values at shares: at one half, their median."""
    medians: Floats = np.interp(share * values.size - 0.5, np.arange(values.size), np.sort(values))
    return medians


def _one_by_one(
    rulers: Sequence[Floats], group: Layout, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    medians, distances, counts = [], [], []
    for weights in drawn_weights(group, draws, rng):
        centre = np.stack([weighted_medians(values, weights, group)[:, 0] for values in rulers])
        away = np.stack([np.abs(values - middle[:, None]) for values, middle in zip(rulers, centre, strict=True)])
        medians.append(centre)
        distances.append(np.einsum("rbn,bn->rb", away, weights))
        counts.append(weights.sum(axis=1))
    return np.concatenate(medians, axis=1), np.concatenate(distances, axis=1), np.concatenate(counts)


def swap_p(codes: Codes, cases: Layout, change: float) -> float:
    """Return the two-sided p of a change of H when the two rulers' ranks trade places within patients at random.

    Parameters
    ----------
    codes : array of 2 by n_cases
        Both rulers' midranks as integers in their common order.
    cases : Layout
        At least two groups.
    change : float
        Kruskal-Wallis H of the second row minus that of the first.

    Notes
    -----
    The rank sums of the groups, and the correction for ties, are linear in the swaps but for terms of order one over
    the root of the cases (Hajek's projection); so the change is normal around 0, its variance being the sum, over
    patients, of what swapping each adds, squared.

    References
    ----------
    hajek1968
    """
    n, width = cases.n_cases, int(codes.max()) + 1
    standing, rank, between = np.zeros(n), _mean_below(codes, width), 0.0
    middle = rank[codes].mean(axis=0)
    half = (rank[codes[1]] - rank[codes[0]]) / 2
    for members in cases.members():
        own = _mean_below(codes[:, members], width)
        excess = float(middle[members].sum()) - members.size * n / 2
        lost = (own[codes[1]] - own[codes[0]]) / 2
        standing -= excess / members.size * lost
        standing[members] += excess / members.size * half[members]
        between += excess**2 / members.size
    scale = 12 / (n * (n + 1))
    tied = np.bincount(codes.ravel(), minlength=width) / 2
    untied_share = 1 - float(np.sum(tied**3)) / n**3
    if untied_share <= 0:
        return 1.0
    ties = 1.5 * (tied[codes[1]] ** 2 - tied[codes[0]] ** 2) / n**3
    each = 4 * scale * standing / untied_share + 2 * scale * between / untied_share**2 * ties
    spread = math.sqrt(float(np.sum(np.bincount(cases.patient, weights=each) ** 2)))
    return float(2 * ndtr(-abs(change) / spread)) if spread > 0 else 1.0


def _mean_below(codes: Codes, width: int) -> Floats:
    """Return, for each code, how many cases lie below it (those at it count half), the mean over both rulers."""
    counts = np.bincount(codes.ravel(), minlength=width) / 2
    below: Floats = np.cumsum(counts) - counts / 2
    return below
