"""Scores of one model under two rulers, drawn from a model fitted to real per-case scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from segaudit.errors import Finding, did_you_mean, raise_errors

Floats = NDArray[np.float64]
Shape = Literal["gold", "silver", "normal"]
_GRID = 8001
_TAIL = 7.5  # standard normal deviations; beyond it a double no longer tells the upper tail from 1


@dataclass(frozen=True, slots=True)
class Marginal:
    """Distribution of a score in [0, 1]: on the logit scale a bulk and a lower, rarer second component.

    Attributes
    ----------
    mean, sd : float
        Of the bulk, on the logit scale.
    rare : float
        Probability of the second component.
    drop, rare_sd : float
        How far the second component lies below the bulk, and its spread, on the logit scale.
    """

    mean: float
    sd: float
    rare: float
    drop: float
    rare_sd: float

    def cdf(self, logit: Floats) -> Floats:
        """Return the probability of a score whose logit is at most this."""
        from scipy.special import ndtr

        bulk = ndtr((logit - self.mean) / self.sd)
        low = ndtr((logit - self.mean + self.drop) / self.rare_sd)
        return np.asarray((1.0 - self.rare) * bulk + self.rare * low)


GOLD = Marginal(mean=2.2713, sd=0.3395, rare=0.0132, drop=2.3378, rare_sd=0.30)
"""Dice (mean over structures) of a segmentation model against expert labels."""
SILVER = Marginal(mean=3.7839, sd=0.2239, rare=0.1130, drop=0.8977, rare_sd=0.3953)
"""Dice of the same predictions against machine labels."""
FITTED_RHO = 0.57
"""Correlation of the normal copula between the two."""
SHAPES: Mapping[str, Marginal | None] = {"gold": GOLD, "silver": SILVER, "normal": None}
"""Shapes by name; `normal` is a normal score with the median and the noise of gold."""
STUDY_GROUPS = (21, 29, 26)
"""Patients under 40, from 40 to 59 and from 60 on whose scores the model was fitted to."""
# Gap in Dice points times the root of the number of cases, by power; found by simulation.
_GAP_ROOT_N = {0.05: 0.0, 0.3: 12.7, 0.5: 17.0, 0.9: 28.0}


class ScoreDraw(NamedTuple):
    """Scores of the same cases under two rulers, and the group of each case.

    Attributes
    ----------
    trusted, other : array of float, one value a case
        Score against the trusted ruler and against the other one, 0 to 1, higher is better.
    group : array of int, one value a case
        0 for the best group, then down to the worst.
    """

    trusted: Floats
    other: Floats
    group: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Truth:
    """What is planted between two rulers, and how visible the gap is under the trusted one.

    Attributes
    ----------
    power : float
        Chance that a Kruskal-Wallis test at 0.05 finds the gap under the trusted ruler; 0.05 where there is no gap.
    gap_ratio, noise_ratio, rho : float
        As in `draw_scores`.
    """

    power: float
    gap_ratio: float = 1.0
    noise_ratio: float = 1.0
    rho: float = FITTED_RHO

    def gap_points(self, n: int) -> float:
        """Return the gap in Dice points that has this power with n cases in three groups of the study's proportions."""
        return _GAP_ROOT_N[self.power] / float(np.sqrt(n))

    def draw(self, n: int, *, rng: np.random.Generator) -> ScoreDraw:
        """Return scores of n cases with this truth planted."""
        return draw_scores(
            n,
            rng=rng,
            gap_points=self.gap_points(n),
            gap_ratio=self.gap_ratio,
            noise_ratio=self.noise_ratio,
            rho=self.rho,
        )


TRUTHS: Mapping[str, Truth] = {
    "null_independent": Truth(0.05, rho=0.0),
    "null_clone": Truth(0.05, noise_ratio=0.25),
    "null_noisy": Truth(0.05, noise_ratio=2.5),
    "same": Truth(0.9),
    "clone": Truth(0.5, gap_ratio=0.25, noise_ratio=0.25),
    "clone_snr2": Truth(0.3, gap_ratio=0.5, noise_ratio=0.25),
    "clone_snr4": Truth(0.3, gap_ratio=1.0, noise_ratio=0.25),
    "biased_x2": Truth(0.3, gap_ratio=2.0),
    "biased_x3": Truth(0.3, gap_ratio=3.0, noise_ratio=1.2),
    "noisy": Truth(0.9, noise_ratio=2.5),
    "gap_removed": Truth(0.9, gap_ratio=0.0),
}
"""The situations in which a comparison of two rulers is to be right, by name."""


@lru_cache
def _quantiles(shape: str) -> tuple[Floats, Floats]:
    """Return standard normal deviates and the scores of a shape that have the same probability."""
    from scipy.special import expit, ndtri

    marginal = SHAPES[shape]
    if marginal is None:
        z = np.array([-_TAIL, _TAIL])
        sd = noise("gold") * np.sqrt(np.pi / 2.0)  # the mean absolute deviation of a normal is sd * sqrt(2 / pi)
        return z, median("gold") + sd * z
    low = marginal.mean - marginal.drop - 9.0 * marginal.rare_sd
    logit = np.linspace(low, marginal.mean + 9.0 * marginal.sd, _GRID)
    z = ndtri(marginal.cdf(logit))
    inside = np.abs(z) < _TAIL
    return z[inside], expit(logit[inside])


def median(shape: Shape) -> float:
    """Return the median score of a shape."""
    return float(np.interp(0.0, *_quantiles(shape)))


def noise(shape: Shape) -> float:
    """Return the mean absolute deviation from the median of a shape, on the score scale."""
    z = np.linspace(-_TAIL, _TAIL, _GRID)
    weight = np.exp(-0.5 * z**2)
    deviation = np.abs(np.interp(z, *_quantiles(shape)) - median(shape))
    return float((deviation * weight).sum() / weight.sum())


def draw_scores(
    n: int,
    *,
    rng: np.random.Generator,
    groups: Sequence[float] = STUDY_GROUPS,
    gap_points: float = 0.0,
    gap_ratio: float = 1.0,
    noise_ratio: float | None = 1.0,
    rho: float = FITTED_RHO,
    shape: Shape = "gold",
    other_shape: Shape | None = None,
) -> ScoreDraw:
    """Return scores of one model under a trusted and another ruler, with a planted gap between groups.

    Parameters
    ----------
    n : int
        Cases, one a patient.
    rng : numpy.random.Generator
    groups : sequence of float
        Sizes of the groups, or proportions of them; shared out over n by largest remainder.
    gap_points : float
        How far the last group lies below the first under the trusted ruler, in Dice points (hundredths); the groups
        between them lie at equal steps.
    gap_ratio : float
        The gap under the other ruler divided by that under the trusted one.
    noise_ratio : float or None
        The same for the spread within a group (mean absolute deviation from the group's median). None leaves the other
        ruler the level and the spread of `other_shape` as fitted.
    rho : float
        Correlation of the normal copula between the two rulers within a group, -1 to 1.
    shape, other_shape : {"gold", "silver", "normal"}
        Shape of the scores within a group under each ruler; the other ruler has the trusted one's by default.

    Returns
    -------
    ScoreDraw
        trusted, other and group, in a random order of the cases.

    Raises
    ------
    AuditError
        SIMULATION_VALUE for a number outside its range, UNKNOWN_SHAPE.

    Notes
    -----
    The level of the other ruler is 1 - noise_ratio * (1 - median): with ratios under 1 all errors shrink by the same
    factor, so log errors keep their spread (proportional compression). A score that would leave 0 to 1 is clipped; with
    the gold shape that befalls only the rare low component, and only when noise_ratio is above about 2: at 2.5 the mean
    absolute deviation is 2.36 times the trusted one, while the bulk, which rank tests see, keeps the ratio.

    Examples
    --------
    >>> import numpy as np
    >>> trusted, other, group = draw_scores(76, rng=np.random.default_rng(1), gap_points=3, noise_ratio=0.25)
    >>> [int((group == j).sum()) for j in range(3)]
    [21, 29, 26]
    """
    other_shape = shape if other_shape is None else other_shape
    _check(n, groups, noise_ratio, rho, (shape, other_shape))
    group = rng.permutation(np.repeat(np.arange(len(groups)), share_out(n, groups)))
    step = group * (gap_points / 100.0 / max(len(groups) - 1, 1))
    z = rng.standard_normal(n)
    z_other = rho * z + np.sqrt(1.0 - rho**2) * rng.standard_normal(n)
    trusted = np.interp(z, *_quantiles(shape)) - step
    residual = np.interp(z_other, *_quantiles(other_shape)) - median(other_shape)
    if noise_ratio is None:
        level, scale = median(other_shape), 1.0
    else:
        level = 1.0 - noise_ratio * (1.0 - median(shape))
        scale = noise_ratio * noise(shape) / noise(other_shape)
    other = level + scale * residual - gap_ratio * step
    return ScoreDraw(np.clip(trusted, 0.0, 1.0), np.clip(other, 0.0, 1.0), group)


def share_out(n: int, proportions: Sequence[float]) -> NDArray[np.int64]:
    """Return whole numbers that sum to n and follow the proportions (largest remainder, earlier ones first)."""
    exact = n * np.asarray(proportions, dtype=np.float64) / np.sum(proportions)
    sizes: NDArray[np.int64] = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - sizes), kind="stable")
    sizes[order[: n - int(sizes.sum())]] += 1
    return sizes


def _check(n: int, groups: Sequence[float], noise_ratio: float | None, rho: float, shapes: tuple[Shape, Shape]) -> None:
    def bad(fact: str, fix: str) -> Finding:
        return Finding("SIMULATION_VALUE", fact, "draw_scores", fix)

    findings = []
    if n < 1:
        findings.append(bad(f"n is {n}.", "draw at least one case."))
    if not groups or min(groups) <= 0:
        findings.append(bad(f"groups is {tuple(groups)}.", "give one positive size or proportion a group."))
    if noise_ratio is not None and noise_ratio <= 0:
        findings.append(bad(f"noise_ratio is {noise_ratio}.", "give a positive ratio, or None."))
    if not -1.0 <= rho <= 1.0:
        findings.append(bad(f"rho is {rho}.", "give a correlation from -1 to 1."))
    for name in dict.fromkeys(shapes):
        if name not in SHAPES:
            fact = f"no shape is named '{name}'."
            findings.append(Finding("UNKNOWN_SHAPE", fact, "draw_scores", did_you_mean(name, SHAPES)))
    raise_errors(findings)
