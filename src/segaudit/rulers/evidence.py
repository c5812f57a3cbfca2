"""What the class of a verdict change rests on: everything measured of one pair in the groups of one grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from segaudit.audits import Audit
from segaudit.audits.cells import Cell, Division, Floats
from segaudit.audits.compare import generator
from segaudit.audits.families import OMNIBUS
from segaudit.audits.margins import draws_of, within_margin
from segaudit.audits.plan import Plan
from segaudit.rulers.overall import Noise, noise_of
from segaudit.rulers.pairs import Pair, lookup
from segaudit.stats import attribution, decompose, equivalence, verdict
from segaudit.stats.family import adjust


@dataclass(frozen=True)
class Divided:
    """A pair's cases in the tested groups of one grouping; scores signed so that higher is better."""

    pair: Pair
    division: Division
    kept: np.ndarray
    groups: np.ndarray
    x: Floats
    y: Floats
    patients: np.ndarray
    draws: int

    @property
    def grouping(self) -> str:
        """The grouping's name."""
        return self.division.grouping.name


@dataclass(frozen=True)
class Evidence:
    """What was measured of a pair in the tested groups of one grouping.

    Attributes
    ----------
    divided : Divided
    tests : two rows of `tests`
        The omnibus test under the trusted and under the other side.
    significant : two bools
        The audit's own adjusted verdicts.
    noise, ratios, inflated, change : results of `segaudit.stats`
    shares : Attribution or None
        Of the change of H; None where the verdict did not change.
    margins : Equivalence of either side
        Empty without a declared margin.
    """

    divided: Divided
    tests: tuple[pd.Series, pd.Series]
    significant: tuple[bool, bool]
    noise: Noise
    ratios: decompose.GapRatios
    inflated: decompose.DifferentialInflation
    change: decompose.SeparabilityChange
    shares: attribution.Attribution | None
    margins: tuple[equivalence.Equivalence, ...]

    def classified(self, inflated_q: float, alpha: float) -> verdict.Verdict:
        """Return the class of the verdict change, the differential inflation judged by its adjusted p."""
        shown = inflated_q < alpha
        excess, snr = self.noise.excess, self.ratios.snr
        negligible = ("equivalent within the margin", "detectable but negligible")
        return verdict.classify(
            trusted_significant=self.significant[0],
            other_significant=self.significant[1],
            gap_inflated=shown and self.inflated.shift > 0,
            gap_smaller=shown and self.inflated.shift < 0,
            noise=(self.noise.walsh.low, self.noise.walsh.high),
            change_significant=self.change.p < alpha,
            phi_gap=self.shares.gap.value if self.shares else 0.0,
            phi_scale=self.shares.scale.value if self.shares else 0.0,
            excess=(excess.low, excess.high) if excess else None,
            snr=(snr.low, snr.high) if np.isfinite(snr.low) else None,
            equivalent=len(self.margins) == 2 and self.margins[1].word in negligible,
            direction_reversed=self.ratios.direction_reversed,
        )


def gather(pair: Pair, division: Division, audit: Audit) -> Evidence | str:
    """Return the evidence of a pair in the groups of a grouping, or the status that says why there is none."""
    plan = audit.plan
    kept, groups = pair.in_groups(division, plan.min_patients)
    trusted, other = (_omnibus(audit.tests, cell, division) for cell in (pair.trusted_cell, pair.other_cell))
    if len(np.unique(groups)) < 2 or trusted is None or other is None:
        present = np.unique(division.codes[pair.cases])
        return "one_group" if np.count_nonzero(present >= 0) < 2 else "too_few_patients"
    n = int(kept.sum())
    draws = draws_of(n, plan)
    x, y = pair.sign * pair.x[kept], pair.sign * pair.y[kept]
    divided = Divided(pair, division, kept, groups, x, y, pair.patients[kept], draws)
    rng = generator(plan, *pair.trusted_cell.drawn_by, divided.grouping, "rulers")
    given = {"groups": groups, "patients": divided.patients}
    ratios = decompose.gap_ratios(x, y, **given, level=plan.level, draws=draws, rng=rng)
    inflated = decompose.differential_inflation(x, y, **given, level=plan.level, rng=rng)
    change = decompose.separability_change(x, y, **given, draws=draws, rng=rng)
    significant = (bool(trusted["q"] < plan.alpha), bool(other["q"] < plan.alpha))
    shares = None
    if significant[0] != significant[1]:
        shares = attribution.shapley(x, y, **given, level=plan.level, draws=draws, rng=rng)
    score = pair.trusted_cell.drawn_by
    sides = [
        within_margin(plan, score, divided.grouping, values, groups, divided.patients, significant=found)
        for values, found in zip((x, y), significant, strict=True)
    ]
    margins = tuple(side for side in sides if side is not None)
    noise = noise_of(pair, plan, kept, groups)
    return Evidence(divided, (trusted, other), significant, noise, ratios, inflated, change, shares, margins)


def inflation_q(found: Sequence[Evidence], plan: Plan) -> list[float]:
    """Return the adjusted p of each differential inflation over everything that is compared of one model.

    Verdicts are adjusted over their family, and so is what explains their change: else one in twenty unchanged rulers
    would seem to widen a gap, in every cell anew.
    """
    return [float(q) for q in adjust([evidence.inflated.p for evidence in found], plan.method)]


def _omnibus(tests: pd.DataFrame, cell: Cell, division: Division) -> pd.Series | None:
    rows = lookup(tests, **cell.named(), grouping=division.grouping.name)
    rows = rows[rows["test"].isin(OMNIBUS) & rows["p"].notna()]
    return rows.iloc[0] if len(rows) else None
