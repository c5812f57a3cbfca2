"""RulerComparison: what changing the ruler does to the level, the spread and the verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from segaudit.audits import Audit
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.rulers.changes import SELECTED, comparison_rows
from segaudit.rulers.masks import independence_rows, nearness, training_rows
from segaudit.rulers.pairs import Row, divisions, lookup, pairs
from segaudit.tables import INDEPENDENCE, RULERS, as_html, numbers
from segaudit.volumes import DEFAULT_MAX_BYTES


@dataclass(frozen=True)
class RulerComparison:
    """The same cases under two rulers, joined by case.

    Attributes
    ----------
    trusted, other : str
    table : DataFrame
        One row a model, label, metric, grouping (empty for all cases) and quantity: `segaudit.tables.RULERS`.
    independence : DataFrame
        Shared errors of model and ruler, and shared training patients, where masks and trained_on are known:
        `segaudit.tables.INDEPENDENCE`.
    findings : tuple of Finding
    """

    trusted: str
    other: str
    table: pd.DataFrame
    independence: pd.DataFrame = field(default_factory=lambda: INDEPENDENCE.frame([]))
    findings: tuple[Finding, ...] = ()

    def value(
        self, quantity: str, metric: str, label: str = "macro", grouping: str = "", model: str = ""
    ) -> float | str:
        """Return one value of the table (of the first model, unless one is named)."""
        rows = lookup(self.table, quantity=quantity, metric=metric, label=label, grouping=grouping)
        rows = rows[rows["model"] == model] if model else rows
        if rows.empty:
            raise KeyError((quantity, metric, label, grouping))
        found: float | str = rows["value"].iloc[0]
        return found

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        lines = [f"{self.other} beside {self.trusted} (trusted)"]
        overall = lookup(self.table, grouping="")
        by = overall.set_index(["model", "metric", "label", "quantity"])["value"].sort_index()
        for model, metric, label in dict.fromkeys(
            zip(overall["model"], overall["metric"], overall["label"], strict=True)
        ):
            found = by.loc[(model, metric, label)]
            if "sd_ratio" in found.index:
                inflated, spread = float(found["inflation"]), numbers(found[["sd_ratio"]]).iloc[0]
                told = f"inflation {inflated:+.4f}, SD ratio {spread:.3f}, {found['collapse']}"
                lines.append(f"  {model}, {metric} {label}: {told}")
        changed = self.table[self.table["quantity"] == "verdict_class"].dropna(subset=["value"])
        for word, n in changed["value"].value_counts().items():
            lines.append(f"  {n} verdicts: {word}")
        return "\n".join(lines)


def compare_rulers(
    audit: Audit,
    trusted: str,
    other: str,
    *,
    second: str | None = None,
    workers: int = 1,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> RulerComparison:
    """Return what the other ruler does to the scores and verdicts of an audit, beside the trusted one.

    Parameters
    ----------
    audit : Audit
        Over scores under both rulers.
    trusted : str
        The ruler that is believed, such as the expert's.
    other : str
        The ruler in question, such as the machine's.
    second : str, optional
        Mask set of a second expert reading, which tells a ruler that copies the model from a gold that errs.
    workers : int
        Processes that compare masks, where the audit's cohort has them.
    max_bytes : int
        A mask that takes more as stored is not read for that.

    Raises
    ------
    AuditError
        UNKNOWN_RULER; RULER_TWICE; RULERS_NO_CASE when no case has a finite score under both.
    """
    known = audit.scores.rulers
    raise_errors(
        Finding("UNKNOWN_RULER", f"there is no ruler '{name}'.", role, did_you_mean(name, known))
        for role, name in (("trusted", trusted), ("other", other))
        if name not in known
    )
    if trusted == other:
        raise AuditError(Finding("RULER_TWICE", f"'{trusted}' is compared with itself.", "trusted, other", "name two."))
    found = list(pairs(audit, trusted, other))
    if not found:
        fact = f"no case has a score under both '{trusted}' and '{other}'."
        raise AuditError(
            Finding(
                "RULERS_NO_CASE", fact, "scores", "name the cases alike in both, or map the column: --column case=NAME."
            )
        )
    table = RULERS.frame(comparison_rows(found, divisions(audit), audit))
    shared, notes = _independence(audit, (trusted, other), table, second, workers, max_bytes)
    return RulerComparison(
        trusted,
        other,
        _with_words_of_masks(table, shared),
        INDEPENDENCE.frame(shared),
        (*_findings(audit, trusted, other), *_cautions(table, trusted, other), *notes),
    )


def _with_words_of_masks(table: pd.DataFrame, shared: list[Row]) -> pd.DataFrame:
    """Return the table with the word on independence that the masks allow, where there are masks: they see more."""
    words = {(row["model"], row["label"]): row for row in shared if row["quantity"] == "independence"}
    table = table.copy()
    for at in table.index[table["quantity"] == "independence"]:
        row = words.get((table.loc[at, "model"], table.loc[at, "label"]))
        if row is not None:
            table.loc[at, ["value", "detail"]] = [row["value"], row["detail"]]
    return table


def _independence(
    audit: Audit, names: tuple[str, str], table: pd.DataFrame, second: str | None, workers: int, max_bytes: int
) -> tuple[list[Row], list[Finding]]:
    """Return what masks and training patients say of the ruler's independence, as far as the cohort has them."""
    rows: list[Row] = []
    notes: list[Finding] = []
    cohort = audit.cohort
    if cohort is None:
        return rows, notes
    limits = lookup(table, grouping="", metric="dice")
    limits = limits[limits["quantity"].isin(("inflation", "inflation_shift"))]
    overall = limits.groupby(["model", "label"])["low"].min()
    for model in audit.scores.models:
        key = (model, *names)
        if all(name in cohort.mask_sets for name in (*key, *([second] if second else []))):
            low = {label: float(overall.get((model, label), float("nan"))) for label in cohort.labels}
            found, missed = independence_rows(
                cohort, audit.plan, key, second=second, inflation_low=low, workers=workers, max_bytes=max_bytes
            )
            rows += found
            notes += [*missed, *nearness(found)]
        if model in cohort.mask_sets and names[1] in cohort.mask_sets:
            rows += training_rows(cohort, key)
    return rows, notes


def _cautions(table: pd.DataFrame, trusted: str, other: str) -> list[Finding]:
    """Return warnings on intervals that calibration found too short in this situation."""
    where = f"rulers '{trusted}', '{other}'"
    findings = []
    mean = lookup(table, quantity="inflation")
    few = mean[mean["detail"].str.contains("read inflation_shift", regex=False)]
    if len(few):
        fact = f"'{other}': the t interval of the mean inflation holds too seldom where failures are rare (83 %)."
        fix = "with fewer than 200 patients read inflation_shift (Hodges-Lehmann)."
        findings.append(Finding("INFLATION_MEAN_FEW", fact, where, fix, "warning"))
    selected = table[table["detail"].str.contains(SELECTED, regex=False)]
    if len(selected):
        fact = (
            f"{len(selected)} ratios of gaps are given where a ruler shows no gap: only because the gap came out large."
        )
        findings.append(
            Finding("GAP_RATIO_SELECTED", fact, where, "read gap_change and differential_inflation.", "warning")
        )
    return findings


def _findings(audit: Audit, trusted: str, other: str) -> list[Finding]:
    by = {
        name: set(audit.scores.table.loc[audit.scores.table["ruler"] == name, "case"].unique())
        for name in (trusted, other)
    }
    findings = []
    for name, against in ((trusted, other), (other, trusted)):
        only = sorted(by[name] - by[against])
        if only:
            lone = counted(len(only), "case is", "cases are")
            fact = f"{lone} scored under '{name}' and not under '{against}', such as '{only[0]}'."
            fix = "they take no part in the comparison."
            findings.append(Finding("RULERS_UNPAIRED", fact, f"rulers '{trusted}', '{other}'", fix, "warning"))
    made = audit.cohort.mask_sets.get(trusted) if audit.cohort else None
    if made is not None and made.kind in ("machine", "expert-revised machine draft"):
        fact = f"the trusted ruler '{trusted}' is itself a {made.kind}."
        fix = "read every gap and every inflation with this in mind, or name a ruler that experts drew afresh."
        findings.append(Finding("RULER_TRUSTED_DRAFT", fact, f"mask set '{trusted}'", fix, "warning"))
    return findings
