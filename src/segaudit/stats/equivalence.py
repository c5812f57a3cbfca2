"""How large a gap can still be: intervals of median differences, equivalence within a margin, detectable gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from segaudit.stats import large
from segaudit.stats.clusters import (
    LARGE_SAMPLE,
    Floats,
    Layout,
    drawn_weights,
    finite,
    group_medians,
    layout,
    many_repeats,
    patient_means,
    residuals,
    weighted_medians,
)
from segaudit.stats.intervals import bootstrap_medians, hodges_lehmann

Word = Literal[
    "equivalent within the margin",
    "material",
    "detectable but negligible",
    "difference found, size open",
    "no difference found, equivalence not shown",
]
Method = Literal["median bootstrap", "hodges-lehmann"]

_FEW_CASES = 10  # below, a bootstrap of the median is too coarse


@dataclass(frozen=True, slots=True)
class PairDifference:
    """The difference between two groups, group minus reference group, by both methods.

    Attributes
    ----------
    group, reference_group : str
    difference, low, high : float
        Difference of medians and its percentile bootstrap interval.
    shift, shift_low, shift_high : float
        Hodges-Lehmann shift and Moses' interval.
    """

    group: str
    reference_group: str
    difference: float
    low: float
    high: float
    shift: float
    shift_low: float
    shift_high: float


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether the groups are equivalent within a margin.

    Attributes
    ----------
    word : str
        equivalent within the margin: every pair's interval lies inside it. detectable but negligible: the same, and the
        difference is significant. material: some pair's interval lies wholly beyond the margin. Otherwise the
        difference is found but its size open, or nothing is shown at all.
    margin : float
    smallest_margin : float
        The smallest margin within which equivalence would be shown.
    method : {"median bootstrap", "hodges-lehmann"}
        Which intervals decided; Hodges-Lehmann when a group has fewer than ten cases.
    pairs : tuple of PairDifference
    """

    word: Word
    margin: float
    smallest_margin: float
    method: Method
    pairs: tuple[PairDifference, ...]


def equivalence(
    scores: ArrayLike,
    groups: ArrayLike,
    *,
    margin: float,
    patients: ArrayLike | None = None,
    significant: bool = False,
    level: float = 0.90,
    draws: int = 2000,
    rng: np.random.Generator,
) -> Equivalence:
    """Return whether all groups lie within a margin of each other, by the intervals of every pair.

    Equivalence at 5 % asks that each 90 % interval lies inside the margin; since all pairs must pass, no correction is
    needed.

    Parameters
    ----------
    scores, groups : arrays of n_cases
    margin : float
        In the unit of the score, above 0.
    patients : array of n_cases, optional
        Drawn whole within their group; the shift is that of patients' means where more than 5 % have several cases.
    significant : bool
        The audit's own verdict on a difference.
    level : float
        Of the intervals.

    Raises
    ------
    ValueError
        When the margin is not above 0, a score is not finite, lengths differ, or there is one group.

    References
    ----------
    schuirmann1987
    """
    if not margin > 0:
        raise ValueError(f"a margin must be above 0, not {margin:g}")
    x = finite(scores, "scores")
    cases = layout(x.size, groups, patients)
    if cases.n_groups < 2:
        raise ValueError("equivalence needs at least two groups")
    pairs = _pairs(x, cases, level, draws, rng)
    few = int(cases.sizes.min()) < _FEW_CASES
    limits = [(p.shift_low, p.shift_high) if few else (p.low, p.high) for p in pairs]
    shown = max(max(abs(low), abs(high)) for low, high in limits)
    word: Word
    if shown < margin:
        word = "detectable but negligible" if significant else "equivalent within the margin"
    elif any(low > margin or high < -margin for low, high in limits):
        word = "material"
    else:
        word = "difference found, size open" if significant else "no difference found, equivalence not shown"
    return Equivalence(word, margin, shown, "hodges-lehmann" if few else "median bootstrap", tuple(pairs))


def minimal_detectable_gap(noise: float, n1: int, n2: int, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the shift between two groups that a rank test finds with the given power.

    Parameters
    ----------
    noise : float
        Mean absolute distance from the group median (`effective_noise`), which for scores of this shape is within about
        15 % of what a rank test sees, 1 / (sqrt(12) times the integral of the squared density). The SD would double the
        figure for the sake of one outlier.
    n1, n2 : int
        Sizes of the groups, above 0.

    Examples
    --------
    >>> round(minimal_detectable_gap(0.02991, 21, 26), 6)
    0.024585
    """
    return float((ndtri(1 - alpha / 2) + ndtri(power)) * noise * math.sqrt(1 / n1 + 1 / n2))


def effective_noise(scores: ArrayLike, groups: ArrayLike | None = None) -> float:
    """Return the mean absolute distance of the scores from the median of their group."""
    x = finite(scores, "scores")
    return float(np.mean(np.abs(residuals(x, layout(x.size, groups)))))


def shrunken_medians(scores: ArrayLike, groups: ArrayLike) -> dict[str, float]:
    """Return group medians drawn towards their common mean by how little their size can tell: for ranking small groups.

    Notes
    -----
    Empirical Bayes: median_j moves to mean + B_j (median_j - mean), B_j = between / (between + v_j), where v_j = pi/2
    sigma^2 / n_j is the sampling variance of a median, sigma = sqrt(pi/2) times the mean absolute distance within
    groups, and `between` is the moment estimate of the variance of true medians (DerSimonian and Laird), 0 when the
    medians differ no more than noise makes them.

    References
    ----------
    dersimonian1986
    """
    x = finite(scores, "scores")
    cases = layout(x.size, groups)
    medians = group_medians(x, cases)
    variance = (math.pi / 2) ** 2 * float(np.mean(np.abs(residuals(x, cases)))) ** 2 / cases.sizes
    if not variance.all() or cases.n_groups < 2:
        return dict(zip(cases.names, medians.tolist(), strict=True))
    weight = 1 / variance
    spread = float(np.sum(weight * (medians - np.average(medians, weights=weight)) ** 2))
    scale = float(weight.sum() - np.sum(weight**2) / weight.sum())
    between = max(0.0, (spread - (cases.n_groups - 1)) / scale)
    centre = float(np.average(medians, weights=1 / (between + variance)))
    shrunk = centre + between / (between + variance) * (medians - centre)
    return dict(zip(cases.names, shrunk.tolist(), strict=True))


def _pairs(x: Floats, cases: Layout, level: float, draws: int, rng: np.random.Generator) -> list[PairDifference]:
    medians, drawn = group_medians(x, cases), _drawn_medians(x, cases, draws, rng)
    values, group = patient_means(x, cases) if many_repeats(cases) else (x, cases.group)
    pairs = []
    for first, second in combinations(range(cases.n_groups), 2):
        low, high = np.quantile(drawn[second] - drawn[first], [0.5 - level / 2, 0.5 + level / 2]).tolist()
        shift = hodges_lehmann(values[group == second], values[group == first], level)
        difference = float(medians[second] - medians[first])
        names = cases.names[second], cases.names[first]
        pairs.append(PairDifference(*names, difference, low, high, shift.value, shift.low, shift.high))
    return pairs


def _drawn_medians(x: Floats, cases: Layout, draws: int, rng: np.random.Generator) -> Floats:
    """Return medians (groups by draws) of resampled patients."""
    if cases.clustered and cases.n_cases > LARGE_SAMPLE:
        drawn: Floats = large.resampled((x,), cases, draws, rng).medians[0].T
        return drawn
    if not cases.clustered:
        return np.stack([bootstrap_medians(x[members], draws, rng) for members in cases.members()])
    return np.concatenate([weighted_medians(x, w, cases) for w in drawn_weights(cases, draws, rng)]).T
