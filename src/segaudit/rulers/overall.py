"""What a ruler does to the scores of all cases together: level, spread, and how close it is to the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from segaudit.audits.compare import generator
from segaudit.audits.plan import Plan
from segaudit.rulers.pairs import Pair, Row, estimable, large_note, quantity, walsh_row
from segaudit.stats import independence, spread, variance

MIN_PATIENTS = 3  # a spread and its interval need this many
FEW_PATIENTS = 200  # below, intervals of a mean with rare failures hold too seldom (docs/calibration.md)
_DRAWS = 2_000
_CAUTION = {"sd": "; one outlier can move it", "mnad": "; descriptive: the Walsh ratio decides"}


def overall_rows(pair: Pair, plan: Plan, cases: pd.DataFrame) -> Iterator[Row]:
    """Yield the rows of `rulers` without a grouping."""
    base = pair.base("")
    n_patients = int(np.unique(pair.patients).size)
    if n_patients < MIN_PATIENTS:
        yield quantity(base, "inflation", np.nan, status="too_few_patients", detail=f"{n_patients} patients")
        return
    found = independence.inflation(pair.x, pair.y, patients=pair.patients, level=plan.level)
    left_out = f"; {pair.n_left_out} cases left out, infinite on a side" if pair.n_left_out else ""
    few = f"; fewer than {FEW_PATIENTS} patients: read inflation_shift" if n_patients < FEW_PATIENTS else ""
    better = found.n_higher if pair.sign > 0 else int(np.count_nonzero(pair.y < pair.x))
    yield quantity(
        base,
        "inflation",
        found.mean,
        trusted=pair.x.mean(),
        other=pair.y.mean(),
        low=found.low,
        high=found.high,
        detail=f"other minus trusted; better under {pair.other}: {better} of {found.n_patients}{left_out}{few}",
    )
    yield quantity(
        base, "inflation_shift", found.shift, low=found.shift_low, high=found.shift_high, detail="Hodges-Lehmann"
    )
    everyone = np.ones(pair.x.size, dtype=bool)
    yield from spread_rows(pair, base, plan, cases, everyone, None, noise_of(pair, plan, everyone, None))
    if not pair.of_models:
        yield from _independence_rows(pair, base, plan, found)


@dataclass(frozen=True)
class Noise:
    """The Walsh ratio of the scores, and that of the log errors where the score is bounded at 1."""

    walsh: variance.WalshRatio
    excess: variance.WalshRatio | None


def noise_of(pair: Pair, plan: Plan, kept: np.ndarray, groups: np.ndarray | None) -> Noise:
    """Return the noise ratios of a pair's kept cases, within groups when they are given."""
    given = (pair.x[kept], pair.y[kept])
    patients = pair.patients[kept]
    walsh = variance.walsh_ratio(*given, groups=groups, patients=patients, level=plan.level)
    if pair.card.bounds != (0.0, 1.0) or pair.card.better != "higher":
        return Noise(walsh, None)
    return Noise(walsh, variance.excess_ratio(*given, groups=groups, patients=patients, level=plan.level))


def spread_rows(
    pair: Pair,
    base: Row,
    plan: Plan,
    cases: pd.DataFrame,
    kept: np.ndarray,
    groups: np.ndarray | None,
    noise: Noise,
) -> Iterator[Row]:
    """Yield the noise ratios of a pair: the Walsh ratio that decides, and the descriptive ones beside it."""
    x, y, patients = pair.x[kept], pair.y[kept], pair.patients[kept]
    walsh, excess = noise.walsh, noise.excess
    detail = f"signed-rank T {walsh.statistic:g}, z {walsh.z:.4f}, {walsh.p_method}"
    yield walsh_row(base, "walsh_ratio", walsh, detail)
    word = variance.decision(walsh.low, walsh.high)
    yield quantity(base, "collapse", word, detail="Walsh ratio against 0.5, 0.8 and 1.25")
    if excess is not None:
        yield walsh_row(base, "walsh_ratio_log", excess, _compression(word, excess))
    found = spread.spread_ratios(x, y, groups=groups, patients=patients, level=plan.level)
    names = cases["case"].to_numpy()[pair.cases[kept]]
    for name in ("sd", "iqr", "mad", "mnad"):
        ratio: spread.SpreadRatio = getattr(found, name)
        detail = ratio.reason
        if not detail and ratio.driver >= 0:
            detail = f"one case left out: {ratio.without_one_low:.3f} to {ratio.without_one_high:.3f}"
            detail += f", driven by {names[ratio.driver]}"
        yield quantity(
            base,
            f"{name}_ratio",
            ratio.ratio,
            trusted=ratio.trusted,
            other=ratio.other,
            low=ratio.low if name == "mnad" else np.nan,
            high=ratio.high if name == "mnad" else np.nan,
            status=estimable(ratio.ratio),
            detail=detail + ("" if ratio.reason else _CAUTION.get(name, "")),
        )
    if groups is None and x.size > 3 and np.ptp(x) and np.ptp(y):
        record = spread.pitman_morgan(x, y, level=plan.level)
        yield quantity(
            base,
            "pitman_morgan",
            record.sd_ratio,
            low=record.low,
            high=record.high,
            p=record.p,
            status=estimable(record.sd_ratio),
            detail="for the record only: its level does not hold for skewed scores; no decision rests on it",
        )


def _compression(word: str, excess: variance.WalshRatio) -> str:
    """Return what the spread of log errors says about a collapse of the raw spread."""
    if "collapse" not in word:
        return ""
    if excess.low <= 1 <= excess.high:
        return "proportional compression: the spread shrank as much as the errors did"
    return (
        "excess collapse: tighter than the level explains" if excess.high < 1 else "less tight than the level explains"
    )


def _independence_rows(pair: Pair, base: Row, plan: Plan, found: independence.Inflation) -> Iterator[Row]:
    """Yield the lower bound of the shared errors from two Dice scores, and the word that the limits allow."""
    # the mean alone is not trusted: its interval is too short where failures are rare
    low = min(found.low, found.shift_low) if pair.sign > 0 else -max(found.high, found.shift_high)
    bound_low = np.nan
    if pair.metric == "dice":
        rng = generator(plan, *pair.trusted_cell.drawn_by, "bound")
        errors = (1 - pair.x, 1 - pair.y)
        bound = independence.shared_error_bound(
            *errors, patients=pair.patients, level=plan.level, draws=_DRAWS, rng=rng
        )
        bound_low = bound.low
        yield quantity(
            base,
            "shared_error_bound",
            bound.value,
            low=bound.low,
            high=bound.high,
            status=estimable(bound.value),
            detail="least share of the model's errors that the other ruler makes too (equal volumes)"
            + large_note(found.n_patients),
        )
    word = independence.band(inflation_low=low, bound_low=bound_low)
    yield quantity(base, "independence", word, detail=independence.adjudication())
