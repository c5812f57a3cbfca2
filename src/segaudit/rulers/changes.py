"""Why a verdict changed: gap, noise and separability of the groups on both sides, and the class that follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from segaudit.audits import Audit
from segaudit.audits.cells import Cell, Division, Floats
from segaudit.audits.compare import generator
from segaudit.audits.families import OMNIBUS
from segaudit.audits.plan import Plan
from segaudit.rulers.overall import Noise, noise_of, spread_rows
from segaudit.rulers.pairs import Pair, Row, lookup, quantity
from segaudit.stats import attribution, decompose, equivalence, variance, verdict
from segaudit.stats.family import adjust

_DRAWS = 2_000
_NUMBERS = 40_000_000  # numbers that the draws of one test may touch
_MIN_DRAWS = 199


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


def change_rows(pair: Pair, division: Division, audit: Audit) -> Iterator[Row]:
    """Yield the rows of `rulers` of one grouping."""
    plan = audit.plan
    base = pair.base(division.grouping.name)
    kept, groups = pair.in_groups(division, plan.min_patients)
    trusted, other = (_omnibus(audit.tests, cell, division) for cell in (pair.trusted_cell, pair.other_cell))
    if len(np.unique(groups)) < 2 or trusted is None or other is None:
        present = np.unique(division.codes[pair.cases])
        status = "one_group" if np.count_nonzero(present >= 0) < 2 else "too_few_patients"
        yield quantity(base, "verdict_class", np.nan, status=status)
        return
    draws = int(np.clip(_NUMBERS // max(1, int(kept.sum())), _MIN_DRAWS, min(_DRAWS, plan.resamples)))
    x, y = pair.sign * pair.x[kept], pair.sign * pair.y[kept]
    divided = Divided(pair, division, kept, groups, x, y, pair.patients[kept], draws)
    noise = noise_of(pair, plan, kept, groups)
    yield from spread_rows(pair, base, plan, audit.cases, kept, groups, noise)
    yield from _per_group(divided, base, plan)
    yield from _verdict_rows(divided, base, audit, (trusted, other), noise)


def _per_group(divided: Divided, base: Row, plan: Plan) -> Iterator[Row]:
    ratios = variance.per_group(
        divided.x,
        divided.y,
        divided.groups,
        patients=divided.patients,
        level=plan.level,
        minimum=max(10, plan.min_patients),
    )
    for group, ratio in ratios.items():
        yield quantity(
            base,
            f"walsh_ratio: {group}",
            ratio.ratio,
            low=ratio.low,
            high=ratio.high,
            p=ratio.p,
            status="ok" if np.isfinite(ratio.ratio) else "not_estimable",
            detail=variance.decision(ratio.low, ratio.high),
        )


def _verdict_rows(
    divided: Divided, base: Row, audit: Audit, tests: tuple[pd.Series, pd.Series], noise: Noise
) -> Iterator[Row]:
    plan, pair = audit.plan, divided.pair
    rng = generator(plan, *pair.trusted_cell.key, pair.other, divided.grouping, "rulers")
    given = {"groups": divided.groups, "patients": divided.patients}
    ratios = decompose.gap_ratios(divided.x, divided.y, **given, level=plan.level, draws=divided.draws, rng=rng)
    inflated = decompose.differential_inflation(divided.x, divided.y, **given, level=plan.level, rng=rng)
    change = decompose.separability_change(divided.x, divided.y, **given, draws=divided.draws, rng=rng)
    significant = [bool(test["q"] < plan.alpha) for test in tests]
    changed = significant[0] != significant[1]
    shares = (
        attribution.shapley(divided.x, divided.y, **given, level=plan.level, draws=divided.draws, rng=rng)
        if changed
        else None
    )
    margins = list(_equivalence(divided, plan, significant, rng))
    found = verdict.classify(
        trusted_significant=significant[0],
        other_significant=significant[1],
        gap_inflated=inflated.p < plan.alpha and inflated.shift > 0,
        gap_smaller=inflated.p < plan.alpha and inflated.shift < 0,
        noise=(noise.walsh.low, noise.walsh.high),
        change_significant=change.p < plan.alpha,
        phi_gap=shares.gap.value if shares else 0.0,
        phi_scale=shares.scale.value if shares else 0.0,
        excess=(noise.excess.low, noise.excess.high) if noise.excess else None,
        snr=(ratios.snr.low, ratios.snr.high) if np.isfinite(ratios.snr.low) else None,
        equivalent=len(margins) == 2
        and margins[1].word in ("equivalent within the margin", "detectable but negligible"),
        direction_reversed=ratios.direction_reversed,
    )
    yield quantity(base, "p", np.nan, trusted=tests[0]["p"], other=tests[1]["p"], detail="raw p of the omnibus test")
    yield quantity(base, "q", np.nan, trusted=tests[0]["q"], other=tests[1]["q"], detail="adjusted in its own family")
    yield _in_trusted_family(base, audit, pair, tests)
    yield from _ratio_rows(base, ratios)
    yield quantity(
        base,
        "differential_inflation",
        inflated.shift,
        low=inflated.low,
        high=inflated.high,
        p=inflated.p,
        detail=f"bonus of {inflated.best} minus bonus of {inflated.worst}; above 0 {pair.other} widens the gap",
    )
    yield quantity(
        base,
        "delta_h",
        change.change,
        trusted=change.h_trusted,
        other=change.h_other,
        p=change.p,
        detail=f"Kruskal-Wallis H, other minus trusted; ranks swapped within patients ({change.p_method})",
    )
    yield from _share_rows(base, shares, pair)
    yield from _margin_rows(base, margins, divided)
    yield _saturation_row(base, audit, divided)
    yield quantity(
        base,
        "verdict_class",
        found.word,
        trusted="gap found" if significant[0] else "no gap shown",
        other="gap found" if significant[1] else "no gap shown",
        detail=_told(found),
    )


def _told(found: verdict.Verdict) -> str:
    parts = [] if found.established is None else ["established" if found.established else "not established"]
    return "; ".join([*parts, *([found.mechanism] if found.mechanism else []), *found.flags])


def _ratio_rows(base: Row, ratios: decompose.GapRatios) -> Iterator[Row]:
    """Yield the ratios of gap, noise and signal to noise; a ratio of gaps near zero is not estimable."""
    for name in ("gap", "noise", "snr"):
        ratio: decompose.Ratio = getattr(ratios, name)
        estimable = np.isfinite(ratio.ratio) and (ratios.estimable or name == "noise")
        yield quantity(
            base,
            f"{name}_ratio",
            ratio.ratio if estimable else np.nan,
            trusted=ratio.trusted,
            other=ratio.other,
            low=ratio.low if estimable else np.nan,
            high=ratio.high if estimable else np.nan,
            status="ok" if estimable else "not_estimable",
            detail="" if name == "noise" else f"best {ratios.best}, worst {ratios.worst}",
        )
    yield quantity(
        base,
        "gap_change",
        ratios.gap_change,
        low=ratios.gap_change_low,
        high=ratios.gap_change_high,
        detail="other minus trusted",
    )


def _share_rows(base: Row, shares: attribution.Attribution | None, pair: Pair) -> Iterator[Row]:
    """Yield the attribution of the change of H; only where the verdict changed, for it says nothing elsewhere."""
    if shares is None:
        return
    for name in ("gap", "scale", "pattern", "net"):
        share = getattr(shares, name)
        yield quantity(
            base, f"phi_{name}", share.value, low=share.low, high=share.high, detail="part of delta_h (Shapley)"
        )
    yield quantity(
        base,
        "h_counterfactual",
        np.nan,
        trusted=float(shares.h[0, 1, 1]),
        other=float(shares.h[1, 0, 0]),
        detail=f"H of the gap of {pair.trusted} with the noise of {pair.other}, and the reverse",
    )


def _equivalence(
    divided: Divided, plan: Plan, significant: list[bool], rng: np.random.Generator
) -> Iterator[equivalence.Equivalence]:
    margin = plan.margin.get(divided.pair.metric)
    if margin is None:
        return
    for scores, found in ((divided.x, significant[0]), (divided.y, significant[1])):
        yield equivalence.equivalence(
            scores,
            divided.groups,
            margin=margin,
            patients=divided.patients,
            significant=found,
            level=1 - 2 * plan.alpha,
            draws=divided.draws,
            rng=rng,
        )


def _margin_rows(base: Row, margins: list[equivalence.Equivalence], divided: Divided) -> Iterator[Row]:
    sizes = sorted(np.unique(divided.groups, return_counts=True)[1].tolist())
    detectable = [
        equivalence.minimal_detectable_gap(equivalence.effective_noise(scores, divided.groups), sizes[0], sizes[-1])
        for scores in (divided.x, divided.y)
    ]
    yield quantity(
        base,
        "minimal_detectable_gap",
        np.nan,
        trusted=detectable[0],
        other=detectable[1],
        detail="80 % power between the smallest and the largest group",
    )
    if margins:
        trusted, other = margins
        yield quantity(
            base, "equivalence", other.word, trusted=trusted.word, other=other.word, detail=f"margin {trusted.margin:g}"
        )
        yield quantity(
            base,
            "smallest_margin",
            np.nan,
            trusted=trusted.smallest_margin,
            other=other.smallest_margin,
            detail=trusted.method,
        )


def _saturation_row(base: Row, audit: Audit, divided: Divided) -> Row:
    pair = divided.pair
    rates = []
    for cell in (pair.trusted_cell, pair.other_cell):
        rows = lookup(audit.groups, **cell.named(), grouping=divided.grouping)
        rates.append(rows[rows["group"].isin(np.unique(divided.groups))]["success_rate"].astype(float).tolist())
    known = all(len(r) and np.isfinite(r).all() for r in rates)
    flat = known and verdict.saturated(*rates)
    ratio = [min(r) / max(r) if known and max(r) > 0 else np.nan for r in rates]
    return quantity(
        base,
        "rates",
        "saturation" if flat else ("comparable" if known else np.nan),
        trusted=ratio[0],
        other=ratio[1],
        status="saturated" if flat else ("ok" if known else "undefined"),
        detail="DIR on each side" + ("; all groups succeed alike on one side only" if flat else ""),
    )


def _omnibus(tests: pd.DataFrame, cell: Cell, division: Division) -> pd.Series | None:
    rows = lookup(tests, **cell.named(), grouping=division.grouping.name)
    rows = rows[rows["test"].isin(OMNIBUS) & rows["p"].notna()]
    return rows.iloc[0] if len(rows) else None


def _in_trusted_family(base: Row, audit: Audit, pair: Pair, tests: tuple[pd.Series, pd.Series]) -> Row:
    """Return the other side's p adjusted as if it stood in the trusted side's family, and the reverse."""
    values = []
    for place, (own, guest) in enumerate(((0, 1), (1, 0))):
        model, ruler = (pair.trusted_cell, pair.other_cell)[place].key[:2]
        family = lookup(audit.tests, model=model, ruler=ruler, family=str(tests[own]["family"]))
        family = family[family["test"].isin(OMNIBUS)]
        p = family["p"].to_numpy(dtype=np.float64).copy()
        at = int(np.flatnonzero(family.index == tests[own].name)[0])
        p[at] = tests[guest]["p"]
        values.append(float(adjust(p, audit.plan.method)[at]))
    detail = f"{pair.other}'s p in the family of {pair.trusted} (value), and the reverse (trusted_value)"
    return quantity(base, "q_in_other_family", values[0], trusted=values[1], detail=detail)
