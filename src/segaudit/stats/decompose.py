"""What lies behind a change of verdict: gap, noise, and the separability of groups under two rulers.

Scores are such that higher is better; for a distance in mm pass its negative. Scores are finite: a case without a
finite score under either ruler is left out of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from segaudit.stats import large
from segaudit.stats.clusters import (
    LARGE_SAMPLE,
    Codes,
    Floats,
    Layout,
    drawn_weights,
    finite,
    group_medians,
    kruskal_rows,
    layout,
    many_repeats,
    paired,
    patient_means,
    untied,
    weighted_medians,
)
from segaudit.stats.intervals import hodges_lehmann
from segaudit.stats.tests import RankTest, blocks, kruskal_wallis, mann_whitney, midranks

_MANY_ARRANGEMENTS = 14  # patients whose 2^n swaps are still all looked at
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Separability:
    """How well one ruler tells the groups apart.

    Attributes
    ----------
    groups : tuple of str
    medians : tuple of float
        Of each group.
    gap : float
        Largest minus smallest median.
    noise : float
        Mean absolute distance of a case from the median of its group.
    snr : float
        gap / noise; inf without noise, nan without both.
    h, epsilon_squared : float
        Kruskal-Wallis H, and H / (n - 1): all that a rank test sees.
    """

    groups: tuple[str, ...]
    medians: tuple[float, ...]
    gap: float
    noise: float
    snr: float
    h: float
    epsilon_squared: float


@dataclass(frozen=True, slots=True)
class DifferentialInflation:
    """Whether the other ruler's bonus (other minus trusted) differs between groups.

    Attributes
    ----------
    p, statistic : float
        Of `test` on the per-case differences.
    test : {"mann_whitney", "kruskal_wallis"}
    p_method : {"exact", "permutation", "asymptotic", "none"}
    best, worst : str
        The groups compared, chosen by both rulers alike.
    shift, low, high : float
        Hodges-Lehmann shift of the bonus, best minus worst; above 0 the other ruler inflates the gap.
    n_units : int
        Cases tested, or patients where more than 5 % of them have several cases (their mean is tested).
    """

    p: float
    statistic: float
    test: str
    p_method: str
    best: str
    worst: str
    shift: float
    low: float
    high: float
    n_units: int


@dataclass(frozen=True, slots=True)
class SeparabilityChange:
    """Whether one ruler separates the groups better than the other.

    Attributes
    ----------
    h_trusted, h_other, change : float
        Kruskal-Wallis H under each ruler, and other minus trusted.
    p : float
        Two-sided, from swapping the two rulers' ranks within patients.
    p_method : {"exact", "permutation", "asymptotic"}
        exact: all swaps (at most 14 patients); asymptotic: the law that the swaps approach (more than 5,000 cases).
    draws : int
        Random swaps; 0 when exact or asymptotic.
    """

    h_trusted: float
    h_other: float
    change: float
    p: float
    p_method: Literal["exact", "permutation", "asymptotic"]
    draws: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quantity under both rulers, and other / trusted with a bootstrap interval; nan where not estimable."""

    trusted: float
    other: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class GapRatios:
    """Gap between best and worst group, noise and their ratio under two rulers.

    Attributes
    ----------
    best, worst : str
        The pair, the same in every draw.
    gap, noise, snr : Ratio
        gap and snr carry nan ratios unless `estimable`.
    gap_change, gap_change_low, gap_change_high : float
        Gap under the other ruler minus gap under the trusted one.
    estimable : bool
        Both rulers' gaps are clear of 0, and the trusted one's lower limit is no mere sliver (a quarter of its noise
        times the root of groups per case).
    direction_reversed : bool
        Each ruler ranks its own worst group below the other ruler's, with an interval clear of 0.
    """

    best: str
    worst: str
    gap: Ratio
    noise: Ratio
    snr: Ratio
    gap_change: float
    gap_change_low: float
    gap_change_high: float
    estimable: bool
    direction_reversed: bool


def separability(scores: ArrayLike, groups: ArrayLike) -> Separability:
    """Return gap, noise and rank separability of the groups under one ruler.

    Raises
    ------
    ValueError
        When a score is not finite, lengths differ, or there is one group.
    """
    x = finite(scores, "scores")
    cases = _several(layout(x.size, groups))
    medians = group_medians(x, cases)
    gap, noise = float(np.ptp(medians)), _noise(x, medians, cases)
    h = float(kruskal_rows(_dense_codes(x), cases.group, cases.n_groups)[0])
    snr = gap / noise if noise > 0 else (math.inf if gap > 0 else math.nan)
    return Separability(cases.names, tuple(medians.tolist()), gap, noise, snr, h, h / (x.size - 1))


def differential_inflation(
    trusted: ArrayLike,
    other: ArrayLike,
    groups: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator,
) -> DifferentialInflation:
    """Return the test of equal bonus in all groups: Mann-Whitney or Kruskal-Wallis on other minus trusted.

    With successes (0 or 1) in place of scores it is the test at the level of rates; small groups and ties are
    permuted.

    Parameters
    ----------
    trusted, other : arrays of n_cases
        Scores of the same predictions under the two rulers.
    groups, patients : arrays of n_cases
    level : float
        Of the interval of the shift.
    rng : numpy Generator
        For the permutations of small groups.

    Raises
    ------
    ValueError
        When the scores are not finite, lengths differ, or there is one group.
    """
    x, y = paired(trusted, other)
    cases = _several(layout(x.size, groups, patients))
    best, worst = _extremes(x, y, cases)
    bonus, group = untied(y - x), cases.group
    if many_repeats(cases):
        bonus, group = patient_means(bonus, cases)
    parts = [bonus[group == j] for j in range(cases.n_groups)]
    test: RankTest = mann_whitney(*parts, rng=rng) if len(parts) == 2 else kruskal_wallis(parts, rng=rng)
    shift = hodges_lehmann(parts[best], parts[worst], level)
    return DifferentialInflation(
        p=test.p,
        statistic=test.statistic,
        test=test.test,
        p_method=test.method,
        best=cases.names[best],
        worst=cases.names[worst],
        shift=shift.value,
        low=shift.low,
        high=shift.high,
        n_units=bonus.size,
    )


def separability_change(
    trusted: ArrayLike,
    other: ArrayLike,
    groups: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    draws: int = 2000,
    rng: np.random.Generator,
) -> SeparabilityChange:
    """Return the change of H with the p value of the rank-swap permutation.

    Each ruler is ranked over all cases; within each patient, with chance one half, the two rulers' ranks trade places,
    and both sets are ranked anew. One significant verdict and one that is not are no evidence of a change; this is.

    Raises
    ------
    ValueError
        When the scores are not finite, lengths differ, or there is one group.

    References
    ----------
    gelman2006
    """
    x, y = paired(trusted, other)
    cases = _several(layout(x.size, groups, patients))
    codes = _common_codes(midranks(untied(x)).values, midranks(untied(y)).values)
    h_trusted, h_other = kruskal_rows(codes, cases.group, cases.n_groups).tolist()
    change = h_other - h_trusted
    if cases.n_cases > LARGE_SAMPLE:
        return SeparabilityChange(h_trusted, h_other, change, large.swap_p(codes, cases, change), "asymptotic", 0)
    exact = cases.n_patients <= _MANY_ARRANGEMENTS
    swaps = 2**cases.n_patients if exact else draws
    beyond, done = 0, 0
    for rows in blocks(swaps, 4 * x.size):
        if exact:
            swap = (np.arange(done, done + rows)[:, None] >> np.arange(cases.n_patients)) & 1 == 1
        else:
            swap = rng.random((rows, cases.n_patients)) < 0.5
        swapped = swap[:, cases.patient]
        h = [
            kruskal_rows(np.where(swapped, codes[a], codes[b]), cases.group, cases.n_groups)
            for a, b in ((0, 1), (1, 0))
        ]
        beyond += int(np.count_nonzero(np.abs(h[0] - h[1]) >= abs(change) - _TIE))
        done += rows
    p = beyond / swaps if exact else (1 + beyond) / (swaps + 1)
    return SeparabilityChange(h_trusted, h_other, change, p, "exact" if exact else "permutation", 0 if exact else draws)


def gap_ratios(
    trusted: ArrayLike,
    other: ArrayLike,
    groups: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> GapRatios:
    """Return the ratios of gap, noise and signal-to-noise, patients drawn whole within their group.

    A ratio of gaps is not tested (`differential_inflation` is the test), and is not given where a gap may be 0. Beyond
    5,000 cases the draws come from their large-sample law (`large.resampled`).

    Raises
    ------
    ValueError
        When the scores are not finite, lengths differ, or there is one group.
    """
    x, y = paired(trusted, other)
    cases = _several(layout(x.size, groups, patients))
    best, worst = _extremes(x, y, cases)
    medians = np.stack([group_medians(x, cases), group_medians(y, cases)])
    noise = np.array([_noise(x, medians[0], cases), _noise(y, medians[1], cases)])
    drawn_medians, drawn_noise = _bootstrap(x, y, cases, draws, rng)
    tails = [0.5 - level / 2, 0.5 + level / 2]
    gap, drawn_gap = medians[:, best] - medians[:, worst], drawn_medians[:, :, best] - drawn_medians[:, :, worst]
    low = np.quantile(drawn_gap, tails[0], axis=1)
    floor = 0.25 * noise[0] * math.sqrt(cases.n_groups / cases.n_cases)
    estimable = bool((low > 0).all() and low[0] >= floor)
    change = np.quantile(drawn_gap[1] - drawn_gap[0], tails)
    drawn_snr = np.divide(drawn_gap, drawn_noise, out=np.full_like(drawn_gap, np.nan), where=drawn_noise > 0)
    snr = np.divide(gap, noise, out=np.full(2, np.nan), where=noise > 0)
    return GapRatios(
        best=cases.names[best],
        worst=cases.names[worst],
        gap=_ratio(gap, drawn_gap, tails, estimable=estimable),
        noise=_ratio(noise, drawn_noise, tails, estimable=bool(noise[0] > 0)),
        snr=_ratio(snr, drawn_snr, tails, estimable=estimable and not np.isnan(snr).any()),
        gap_change=float(gap[1] - gap[0]),
        gap_change_low=float(change[0]),
        gap_change_high=float(change[1]),
        estimable=estimable,
        direction_reversed=_reversed(medians, drawn_medians, tails[0]),
    )


def contrast_pair(trusted: ArrayLike, other: ArrayLike, groups: ArrayLike) -> tuple[str, str]:
    """Return the best and the worst group by both rulers together, each in units of its own noise.

    A pair chosen by one ruler alone would flatter that ruler's gap.
    """
    x, y = paired(trusted, other)
    cases = _several(layout(x.size, groups))
    best, worst = _extremes(x, y, cases)
    return cases.names[best], cases.names[worst]


def _several(cases: Layout) -> Layout:
    if cases.n_groups < 2:
        raise ValueError("a contrast needs at least two groups")
    return cases


def _noise(values: Floats, medians: Floats, cases: Layout) -> float:
    return float(np.mean(np.abs(values - medians[cases.group])))


def _extremes(x: Floats, y: Floats, cases: Layout) -> tuple[int, int]:
    standing = np.zeros(cases.n_groups)
    for values in (x, y):
        medians = group_medians(values, cases)
        standing += (medians - medians.mean()) / max(_noise(values, medians, cases), 1e-12)
    best, worst = int(np.argmax(standing)), int(np.argmin(standing))
    return (best, worst) if best != worst else (0, cases.n_groups - 1)


def _dense_codes(values: Floats) -> Codes:
    return np.unique(untied(values), return_inverse=True)[1].astype(np.intp)


def _common_codes(x: Floats, y: Floats) -> Codes:
    """Return both arrays (2 by n) as integers in their common order."""
    return np.unique(np.stack([x, y]), return_inverse=True)[1].reshape(2, -1).astype(np.intp)


def _bootstrap(x: Floats, y: Floats, cases: Layout, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return group medians (2 by draws by groups) and noise (2 by draws) of resampled patients under both rulers."""
    if cases.n_cases > LARGE_SAMPLE:
        return large.resampled((x, y), cases, draws, rng)
    medians, noise = [], []
    for weights in drawn_weights(cases, draws, rng):
        centre = np.stack([weighted_medians(values, weights, cases) for values in (x, y)])
        distance = np.stack([np.abs(v - m[:, cases.group]) for v, m in zip((x, y), centre, strict=True)])
        medians.append(centre)
        noise.append(np.einsum("rbn,bn->rb", distance, weights) / weights.sum(axis=1))
    return np.concatenate(medians, axis=1), np.concatenate(noise, axis=1)


def _ratio(values: Floats, drawn: Floats, tails: list[float], *, estimable: bool) -> Ratio:
    ratio = low = high = math.nan
    if estimable:
        ratio = float(values[1] / values[0])
        each = np.divide(drawn[1], drawn[0], out=np.full(drawn.shape[1], np.nan), where=drawn[0] != 0)
        low, high = np.nanquantile(each, tails).tolist()
    return Ratio(float(values[0]), float(values[1]), ratio, low, high)


def _reversed(medians: Floats, drawn: Floats, tail: float) -> bool:
    first, second = np.argmin(medians, axis=1)
    if first == second:
        return False
    under_trusted = np.quantile(drawn[0, :, second] - drawn[0, :, first], tail)
    under_other = np.quantile(drawn[1, :, first] - drawn[1, :, second], tail)
    return bool(under_trusted > 0 and under_other > 0)
