"""How far the result leans on conventions: family, empty masks, threshold, one case left out."""

from __future__ import annotations

from collections import Counter

from segaudit.errors import counted
from segaudit.reports.document import Block, Cell, Column, Section, Table, long_table, prose
from segaudit.reports.numbers import NONE, is_number, p_value
from segaudit.reports.reading import Reading, Row, rows_of
from segaudit.reports.sections.tests import ADJUSTMENTS, rejected_of

_ROWS = 300
_CHOICES = {
    "leave_one_case_out": "one case left out",
    "threshold": "another threshold",
    "both_empty": "both masks empty",
    "prediction_missing": "missing prediction",
    "mean": "means in place of ranks",
    "hd95": "HD95",
}
_STATUS = {
    "too_few_patients": "too few patients to test",
    "one_group": "one group alone has cases",
    "undefined": "the score is undefined",
    "saturated": "every score is the same",
}


def sensitivity(reading: Reading) -> Section:
    """Return the section on conventions."""
    blocks: list[Block] = [_tried(reading), *_not_tried(reading), _counted(reading)]
    blocks.append(prose("Other thresholds are under Thresholds.", role="note"))
    return Section("sensitivity", "Conventions", tuple(blocks))


def _tried(reading: Reading) -> Table:
    """Return the verdicts that were taken again with one choice made otherwise, those that change first."""
    table = reading.audit.sensitivity
    own = rows_of(table[(table["model"] == reading.model) & (table["status"] == "ok")])
    front = (reading.metric, reading.label)
    own.sort(key=lambda row: (row["changes"] != "yes", (row["metric"], row["label"]) != front))
    rows = [
        (
            Cell(_choice(row["change"]), note=_detail(row, reading)),
            Cell(row["grouping"] or "all"),
            Cell(row["ruler"]),
            Cell(reading.title(row["metric"], row["label"])),
            Cell(row["verdict_before"] or NONE, note=_q(row["q_before"])),
            Cell(row["verdict_after"] or NONE, note=_q(row["q_after"])),
            Cell(row["changes"], tone="warning" if row["changes"] == "yes" else ""),
        )
        for row in own
    ]
    columns = (
        Column("choice made otherwise", filter=True),
        Column("attribute", filter=True),
        Column("ruler", filter=True),
        Column("score"),
        Column("as planned"),
        Column("otherwise"),
        Column("changes", filter=True),
    )
    changed = sum(row["changes"] == "yes" for row in own)
    caption = f"{changed:,} of {counted(len(own), 'verdict')} taken again {'changes' if changed == 1 else 'change'}; "
    caption += "those that do come first."
    empty = "No verdict was taken again with another choice."
    title, file = "Choices made otherwise", "sensitivity.csv"
    return long_table("tried", title, columns, rows, caption, most=_ROWS, file=file, empty=empty)


def _not_tried(reading: Reading) -> list[Block]:
    """Return which choices could not be made otherwise, and why, in words."""
    table = reading.audit.sensitivity
    own = table[(table["model"] == reading.model) & (table["status"] != "ok")]
    found = Counter((_choice(row["change"]), row["detail"] or _status(row["status"])) for row in rows_of(own))
    told = "; ".join(f"{choice}: {why} ({counted(n, 'test')})" for (choice, why), n in found.items())
    return [prose(f"Not tried: {told}.", role="note")] if told else []


def _status(status: str) -> str:
    return _STATUS.get(status, status.replace("_", " "))


def _choice(change: str) -> str:
    """Return a choice in words."""
    name, _, rule = change.partition(": ")
    told = ADJUSTMENTS.get(rule, rule.replace("_", " "))
    return _CHOICES.get(name, name.replace("_", " ")) + (f": {told}" if told else "")


def _detail(row: Row, reading: Reading) -> str:
    """Return what stands behind a change; a case is named beside a group only when that was asked for."""
    return row["detail"] if reading.show_cases or not row["grouping"] or "case" not in row["change"] else ""


def _q(value: float) -> str:
    return f"q {p_value(value).text}" if is_number(value) else ""


def _counted(reading: Reading) -> Table:
    rows: list[tuple[Cell, ...]] = []
    table = reading.audit.families
    own = table[(table["model"] == reading.model) & (table["family"].isin(["all", "joint", "primary"]))]
    for row in rows_of(own):
        convention = f"family '{row['family']}', {ADJUSTMENTS.get(row['method'], row['method'])}"
        result = f"{rejected_of(row).text} tests below {row['alpha']:g}"
        rows.append((Cell(convention), Cell(row["ruler"]), Cell(result)))
    for row in reading.comparison_rows("q_in_other_family"):
        if (row["metric"], row["label"]) == (reading.metric, reading.label) and is_number(row["value"]):
            convention = f"{row['grouping']}: {row['other']}'s p in the family of {row['trusted']}"
            rows.append((Cell(convention), Cell(row["other"]), Cell(f"q {p_value(row['value']).text}")))
    for row in reading.comparison_rows("sd_ratio"):
        if (row["metric"], row["label"], row["grouping"]) == (reading.metric, reading.label, "") and row["detail"]:
            detail = row["detail"] if reading.show_cases else row["detail"].split(", driven by")[0]
            rows.append((Cell("SD ratio, outlier left out"), Cell(row["other"]), Cell(detail)))
    for name, ruler in ((g.name, r) for g in reading.groupings for r in reading.rulers):
        found = {row["status"] for row in reading.pairs(ruler, name, "dir")}
        if "saturated" in found:
            rows.append((Cell(f"{name}: threshold"), Cell(ruler), Cell("saturated: every group passes alike")))
    undefined = [(r, reading.overall(r)) for r in reading.rulers]
    for ruler, whole in undefined:
        lost = f"{int(whole['n_undefined'])} undefined, {int(whole['n_infinite'])} infinite" if whole else "none scored"
        rows.append((Cell(f"empty masks: both empty {reading.audit.plan.both_empty}"), Cell(ruler), Cell(lost)))
    columns = (Column("convention"), Column("ruler", filter=True), Column("result"))
    return Table("sensitivity", "What the result leans on", columns, tuple(rows), sortable=True)
