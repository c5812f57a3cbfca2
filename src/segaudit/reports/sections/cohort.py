"""Who was examined: composition, exclusions, what is missing."""

from __future__ import annotations

import pandas as pd

from segaudit.reports.document import Block, Cell, Column, Section, Table, prose
from segaudit.reports.numbers import count
from segaudit.reports.reading import Reading, Row, rows_of

_STATUS = {"tested": "tested", "described_only": "described only", "unassigned": "in no group"}


def cohort(reading: Reading) -> Section:
    """Return the section on the cohort: Table 1, groups, exclusions, missing values."""
    audit = reading.audit
    blocks: list[Block] = [composition(reading), _coverage(reading)]
    if audit.cohort is None:
        blocks.append(prose("Exclusions and missing values are not known: the audit was given scores, not a cohort."))
        return Section("cohort", "Cohort", tuple(blocks))
    blocks += [_by_reason(audit.cohort.excluded, "excluded", "rule"), _missing(audit.cohort.missing)]
    return Section("cohort", "Cohort", tuple(blocks))


def composition(reading: Reading) -> Table:
    """Return Table 1: exams and patients by each group; groups under the declared minimum by their counts alone."""
    audit = reading.audit
    n, patients = len(audit.cases), audit.cases["patient"].nunique()
    rows = [(Cell("all"), Cell(""), count(n), Cell("100 %"), count(patients))]
    for row in rows_of(audit.coverage):
        share = f"{100 * row['n_cases'] / n:.1f} %" if n else ""
        group = row["group"] if row["status"] != "unassigned" else f"in no group: {row['reason']}"
        rows.append((Cell(row["grouping"]), Cell(group), count(row["n_cases"]), Cell(share), count(row["n_patients"])))
    columns = (
        Column("attribute"),
        Column("group"),
        Column("exams", "right"),
        Column("share", "right"),
        Column("patients", "right"),
    )
    return Table("table-1", "Composition (Table 1)", columns, tuple(rows), "Audited exams and patients.")


def _coverage(reading: Reading) -> Table:
    rows = [
        (
            Cell(row["grouping"]),
            Cell(_group(row)),
            Cell(_STATUS[row["status"]]),
            count(row["n_cases"]),
            Cell(row["reason"]),
        )
        for row in rows_of(reading.audit.coverage)
        if row["status"] != "tested"
    ]
    columns = (Column("attribute"), Column("group"), Column("status"), Column("exams", "right"), Column("reason"))
    empty = "Every case is in a group that was tested." if reading.groupings else "No grouping was given."
    caption = f"Groups of fewer than {reading.audit.plan.min_patients} patients are counted and not tested."
    return Table("coverage", "Described and not tested", columns, tuple(rows), caption, empty=empty)


def _group(row: Row) -> str:
    return "no group" if row["status"] == "unassigned" else str(row["group"])


def _by_reason(table: pd.DataFrame, name: str, by: str) -> Table:
    counts = table.groupby([by, "reason"], sort=True).size().reset_index(name="n") if len(table) else table.assign(n=0)
    rows = tuple((Cell(str(row[by])), Cell(str(row["reason"])), count(row["n"])) for row in rows_of(counts))
    columns = (Column(by), Column("reason"), Column("cases", "right"))
    return Table(name, "Exclusions", columns, rows, empty="No case was excluded.")


def _missing(table: pd.DataFrame) -> Table:
    by = ["attribute", "reason"]
    counts = table.groupby(by, sort=True).size().reset_index(name="n") if len(table) else table.assign(n=0)
    rows = tuple((Cell(str(r["attribute"])), Cell(str(r["reason"])), count(r["n"])) for r in rows_of(counts))
    columns = (Column("attribute"), Column("reason"), Column("cases", "right"))
    return Table("missing", "Missing and top-coded values", columns, rows, empty="No attribute is missing.")
