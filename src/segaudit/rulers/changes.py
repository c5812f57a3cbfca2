"""Why a verdict changed: gap, noise and separability of the groups on both sides, and the class that follows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from segaudit.audits import Audit
from segaudit.audits.cells import Division
from segaudit.audits.families import OMNIBUS
from segaudit.audits.plan import Plan
from segaudit.rulers.evidence import Divided, Evidence, gather, inflation_q
from segaudit.rulers.overall import overall_rows, spread_rows
from segaudit.rulers.pairs import Pair, Row, large_note, lookup, quantity, walsh_row
from segaudit.stats import attribution, decompose, equivalence, variance, verdict
from segaudit.stats.family import adjust

SELECTED = "a ruler shows no gap here: read gap_change"


def comparison_rows(pairs: Sequence[Pair], divisions: Sequence[Division], audit: Audit) -> Iterator[Row]:
    """Yield the rows of `rulers`: each pair overall, then in the groups of each grouping."""
    found = {
        (i, j): gather(pair, division, audit) for i, pair in enumerate(pairs) for j, division in enumerate(divisions)
    }
    q: dict[tuple[int, int], float] = {}
    models = [pair.trusted_cell.key[0] for pair in pairs]
    for model in dict.fromkeys(models):
        cells = {cell: e for cell, e in found.items() if isinstance(e, Evidence) and models[cell[0]] == model}
        q |= dict(zip(cells, inflation_q(list(cells.values()), audit.plan), strict=True))
    for i, pair in enumerate(pairs):
        yield from overall_rows(pair, audit.plan, audit.cases)
        for j, division in enumerate(divisions):
            evidence = found[i, j]
            if isinstance(evidence, str):
                yield quantity(pair.base(division.grouping.name), "verdict_class", np.nan, status=evidence)
            else:
                yield from change_rows(evidence, audit, q[i, j])


def change_rows(evidence: Evidence, audit: Audit, inflated_q: float) -> Iterator[Row]:
    """Yield the rows of `rulers` of one pair and grouping."""
    divided, plan = evidence.divided, audit.plan
    pair, base = divided.pair, divided.pair.base(divided.grouping)
    yield from spread_rows(pair, base, plan, audit.cases, divided.kept, divided.groups, evidence.noise)
    yield from _per_group(divided, base, plan)
    yield from _test_rows(base, evidence, audit)
    yield from _ratio_rows(base, evidence)
    yield from _difference_rows(base, evidence, inflated_q, plan.method)
    yield from _share_rows(base, evidence.shares, pair)
    yield from _margin_rows(base, list(evidence.margins), divided)
    yield _saturation_row(base, audit, divided)
    found = evidence.classified(inflated_q, plan.alpha)
    trusted, other = ("gap found" if significant else "no gap shown" for significant in evidence.significant)
    yield quantity(base, "verdict_class", found.word, trusted=trusted, other=other, detail=_told(found))


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
        yield walsh_row(base, f"walsh_ratio: {group}", ratio, variance.decision(ratio.low, ratio.high))


def _test_rows(base: Row, evidence: Evidence, audit: Audit) -> Iterator[Row]:
    trusted, other = evidence.tests
    yield quantity(base, "p", np.nan, trusted=trusted["p"], other=other["p"], detail="raw p of the omnibus test")
    yield quantity(base, "q", np.nan, trusted=trusted["q"], other=other["q"], detail="adjusted in its own family")
    yield _in_trusted_family(base, audit, evidence.divided.pair, evidence.tests)


def _difference_rows(base: Row, evidence: Evidence, inflated_q: float, method: str) -> Iterator[Row]:
    inflated, change = evidence.inflated, evidence.change
    other = evidence.divided.pair.other
    told = f"bonus of {inflated.best} minus bonus of {inflated.worst}; above 0 {other} widens the gap"
    yield quantity(
        base,
        "differential_inflation",
        inflated.shift,
        low=inflated.low,
        high=inflated.high,
        p=inflated.p,
        detail=f"{told}; adjusted p {inflated_q:.4f} ({method} over the comparison)",
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


def _told(found: verdict.Verdict) -> str:
    parts = [] if found.established is None else ["established" if found.established else "not established"]
    return "; ".join([*parts, *([found.mechanism] if found.mechanism else []), *found.flags])


def _ratio_rows(base: Row, evidence: Evidence) -> Iterator[Row]:
    """Yield the ratios of gap, noise and signal to noise; a ratio of gaps near zero is not estimable."""
    ratios = evidence.ratios
    told = f"best {ratios.best}, worst {ratios.worst}"
    selected = "" if all(evidence.significant) else f"; {SELECTED}"
    law = large_note(evidence.divided.x.size)
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
            detail=("the Walsh ratio decides" if name == "noise" else told + (selected if estimable else "")) + law,
        )
    yield quantity(
        base,
        "gap_change",
        ratios.gap_change,
        low=ratios.gap_change_low,
        high=ratios.gap_change_high,
        detail=f"other minus trusted{law}",
    )


def _share_rows(base: Row, shares: attribution.Attribution | None, pair: Pair) -> Iterator[Row]:
    """Yield the attribution of the change of H; only where the verdict changed, for it says nothing elsewhere."""
    if shares is None:
        return
    for name in ("gap", "scale", "pattern", "net"):
        share = getattr(shares, name)
        yield quantity(
            base,
            f"phi_{name}",
            share.value,
            low=share.low,
            high=share.high,
            detail="part of delta_h (Shapley)" + (large_note(pair.x.size) if shares.large else ""),
        )
    yield quantity(
        base,
        "h_counterfactual",
        np.nan,
        trusted=float(shares.h[0, 1, 1]),
        other=float(shares.h[1, 0, 0]),
        detail=f"H of the gap of {pair.trusted} with the noise of {pair.other}, and the reverse",
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
