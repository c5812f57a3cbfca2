"""The verdict on one drawn cohort: the functions of segaudit.rulers.changes in the same order, without its tables.

A comparison of thousands of cohorts through score tables would take hours. tests/calibration proves that this and
`compare_rulers` say the same of a cohort, to the last digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segaudit.simulate.scores import ScoreDraw
from segaudit.stats import attribution, decompose, equivalence, tests, variance, verdict

ALPHA, LEVEL = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Judged:
    """What the comparison of two rulers says of one cohort in groups."""

    found: verdict.Verdict
    p: tuple[float, float]
    walsh: variance.WalshRatio
    excess: variance.WalshRatio
    inflated: decompose.DifferentialInflation
    change: decompose.SeparabilityChange
    ratios: decompose.GapRatios
    margins: tuple[equivalence.Equivalence, ...]

    @property
    def word(self) -> str:
        """The class, with `established` or `not established` where that is part of it."""
        if self.found.established is None:
            return self.found.word
        return f"{self.found.word}, {'' if self.found.established else 'not '}established"


def judge(draw: ScoreDraw, *, rng: np.random.Generator, draws: int, margin: float | None = None) -> Judged:
    """Return the verdict on a cohort of which each patient has one case, judged by one test per ruler."""
    x, y, groups = draw
    p = tuple(tests.kruskal_wallis(parts(scores, groups), rng=rng).p for scores in (x, y))
    significant = [value < ALPHA for value in p]
    ratios = decompose.gap_ratios(x, y, groups, level=LEVEL, draws=draws, rng=rng)
    inflated = decompose.differential_inflation(x, y, groups, level=LEVEL, rng=rng)
    change = decompose.separability_change(x, y, groups, draws=draws, rng=rng)
    changed = significant[0] != significant[1]
    shares = attribution.shapley(x, y, groups, level=LEVEL, draws=draws, rng=rng) if changed else None
    margins = tuple(
        equivalence.equivalence(
            scores, groups, margin=margin, significant=shown, level=1 - 2 * ALPHA, draws=draws, rng=rng
        )
        for scores, shown in zip((x, y), significant, strict=True)
        if margin is not None
    )
    walsh = variance.walsh_ratio(x, y, groups=groups, level=LEVEL)
    excess = variance.excess_ratio(x, y, groups=groups, level=LEVEL)
    found = verdict.classify(
        trusted_significant=significant[0],
        other_significant=significant[1],
        gap_inflated=inflated.p < ALPHA and inflated.shift > 0,
        gap_smaller=inflated.p < ALPHA and inflated.shift < 0,
        noise=(walsh.low, walsh.high),
        change_significant=change.p < ALPHA,
        phi_gap=shares.gap.value if shares else 0.0,
        phi_scale=shares.scale.value if shares else 0.0,
        excess=(excess.low, excess.high),
        snr=(ratios.snr.low, ratios.snr.high) if np.isfinite(ratios.snr.low) else None,
        equivalent=len(margins) == 2
        and margins[1].word in ("equivalent within the margin", "detectable but negligible"),
        direction_reversed=ratios.direction_reversed,
    )
    return Judged(found, p, walsh, excess, inflated, change, ratios, margins)


def parts(scores: np.ndarray, groups: np.ndarray) -> list[np.ndarray]:
    """Return the scores of each group, best group first."""
    return [scores[groups == j] for j in range(int(groups.max()) + 1)]
