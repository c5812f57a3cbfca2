"""ModelComparison: two models under one ruler, and whether one of them widens the gaps between groups."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from segaudit.audits import Audit
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.rulers.changes import comparison_rows
from segaudit.rulers.pairs import Row, divisions, lookup, model_pairs
from segaudit.stats.family import adjust
from segaudit.tables import MODELS

AMPLIFIED, REDUCED, UNCHANGED = "gap amplified", "gap reduced", "no change shown"
# The same estimators say something else of two models than of two rulers, so they have names of their own.
_NAMES = {
    "inflation": "level_change",
    "inflation_shift": "level_shift",
    "differential_inflation": "differential_change",
    "collapse": "noise_change",
}


@dataclass(frozen=True)
class ModelComparison:
    """The same cases segmented by two models and scored against one ruler, joined by case.

    Attributes
    ----------
    baseline, other, ruler : str
    table : DataFrame
        One row a label, metric, grouping (empty for all cases) and quantity: `segaudit.tables.MODELS`.
    findings : tuple of Finding
    """

    baseline: str
    other: str
    ruler: str
    table: pd.DataFrame
    findings: tuple[Finding, ...] = ()

    def value(self, quantity: str, metric: str, label: str = "macro", grouping: str = "") -> float | str:
        """Return one value of the table."""
        rows = lookup(self.table, quantity=quantity, metric=metric, label=label, grouping=grouping)
        if rows.empty:
            raise KeyError((quantity, metric, label, grouping))
        found: float | str = rows["value"].iloc[0]
        return found

    def __str__(self) -> str:
        lines = [f"{self.other} beside {self.baseline}, both against {self.ruler}"]
        for row in lookup(self.table, quantity="level_change").itertuples():
            if row.status == "ok":
                limits = f"[{row.low:+.4f}, {row.high:+.4f}]"
                lines.append(f"  {row.metric} {row.label}: level {float(str(row.value)):+.4f} {limits}")
        found = lookup(self.table, quantity="amplification").dropna(subset=["value"])
        for word, rows in found.groupby("value", sort=False):
            named = ", ".join(f"{row.metric} {row.label} by {row.grouping}" for row in rows.head(4).itertuples())
            lines.append(f"  {word}: {len(rows)} of {len(found)}" + (f" ({named})" if word != UNCHANGED else ""))
        if found.empty:
            lines.append("  no grouping could be compared: nothing is said about gaps")
        return "\n".join(lines)


def compare_models(audit: Audit, baseline: str, other: str, ruler: str) -> ModelComparison:
    """Return what another model does to the scores and gaps of a baseline, both scored against one ruler.

    The question of bias amplification: a model trained on machine labels beside one trained on expert labels, against
    the experts.

    Parameters
    ----------
    audit : Audit
        Over scores of both models.
    baseline : str
        The model that is compared with, such as the one trained on expert labels.
    other : str
        The model in question, such as the one trained on machine labels.
    ruler : str
        The reference that both are scored against.

    Raises
    ------
    AuditError
        UNKNOWN_MODEL; UNKNOWN_RULER; MODEL_TWICE; MODELS_NO_CASE when no case has a finite score of both.

    Notes
    -----
    The quantities are those of `compare_rulers`, from the same functions, with the baseline in the place of the trusted
    ruler; what is asked of a ruler alone (shared errors, independence, the class of a changed verdict) is left out.
    ``amplification`` is *gap amplified* where other minus baseline differs between the groups (``differential_change``)
    and the shift widens the gap of the two groups furthest apart, *gap reduced* where it narrows it. Its p is adjusted
    by the plan's method over all scores and groupings compared. That a verdict differs between the models is no
    evidence of it.
    """
    raise_errors(_unknown(audit, baseline, other, ruler))
    rows = list(comparison_rows(list(model_pairs(audit, baseline, other, ruler)), divisions(audit), audit))
    if not rows:
        fact = f"no case has a score of both '{baseline}' and '{other}' against '{ruler}'."
        raise AuditError(Finding("MODELS_NO_CASE", fact, "scores", "score both models against this ruler."))
    return ModelComparison(baseline, other, ruler, MODELS.frame(_amplification(_renamed(rows), audit)))


def _unknown(audit: Audit, baseline: str, other: str, ruler: str) -> list[Finding]:
    models, rulers = audit.scores.models, audit.scores.rulers
    asked = (
        ("MODEL", "baseline", baseline, models),
        ("MODEL", "other", other, models),
        ("RULER", "ruler", ruler, rulers),
    )
    findings = [
        Finding(f"UNKNOWN_{kind}", f"there is no {kind.lower()} '{name}'.", role, did_you_mean(name, known))
        for kind, role, name, known in asked
        if name not in known
    ]
    if baseline == other:
        fact = f"'{baseline}' is compared with itself."
        findings.append(Finding("MODEL_TWICE", fact, "baseline, other", "name two models."))
    return findings


def _renamed(rows: list[Row]) -> list[Row]:
    columns = {
        "model": "ruler",
        "trusted": "baseline",
        "trusted_value": "baseline_value",
    }
    return [
        {columns.get(k, k): _NAMES.get(v, v) if k == "quantity" else v for k, v in row.items()} | {"q": np.nan}
        for row in rows
    ]


def _amplification(rows: list[Row], audit: Audit) -> list[Row]:
    """Return the rows with each verdict class replaced by the word on the gap, by the adjusted differential change."""
    key = ("label", "metric", "grouping")
    changes = {tuple(r[k] for k in key): r for r in rows if r["quantity"] == "differential_change"}
    q = dict(zip(changes, adjust([row["p"] for row in changes.values()], audit.plan.method), strict=True))
    told = []
    for row in rows:
        if row["quantity"] != "verdict_class":
            told.append(row)
            continue
        cell = tuple(row[k] for k in key)
        change = changes.get(cell)
        if change is None:
            told.append({**row, "quantity": "amplification"})
            continue
        shown = bool(q[cell] < audit.plan.alpha)
        shift = change["value"] or 0.0
        word = AMPLIFIED if shown and shift > 0 else REDUCED if shown and shift < 0 else UNCHANGED
        flag = "; the worst group differs between the models" if "direction reversed" in row["detail"] else ""
        detail = f"p of differential_change, {audit.plan.method} over {len(changes)}{flag}"
        told.append(
            {**row, "quantity": "amplification", "value": word, "p": change["p"], "q": q[cell], "detail": detail}
        )
    return told
