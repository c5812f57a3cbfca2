"""Who was examined: composition, exclusions, what is missing."""

from __future__ import annotations

import pandas as pd

from segaudit.reports.document import Block, Cell, Column, Section, Table, prose
from segaudit.reports.numbers import count, ratio
from segaudit.reports.reading import Reading, Row, rows_of
from segaudit.reports.verdicts import counted

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


def regression(reading: Reading) -> Table:
    """Return the regression of the score in front on the declared attributes."""
    from segaudit.reports.numbers import difference, difference_span, p_value

    table = reading.audit.regression
    own = table[
        (table["model"] == reading.model) & (table["metric"] == reading.metric) & (table["label"] == reading.label)
    ]
    rows, card = [], reading.card
    for row in rows_of(own):
        size = difference(row["coefficient"], card, digits=2)
        rows.append(
            (
                Cell(row["term"]),
                Cell(row["ruler"]),
                size if row["term"] != "intercept" else ratio(row["coefficient"], 3),
                Cell(difference_span(row["low"], row["high"], card, digits=2) if row["term"] != "intercept" else ""),
                p_value(row["p"]),
                count(row["n_cases"]),
            )
        )
    columns = (
        Column("term"),
        Column("ruler", filter=True),
        Column("coefficient", "right"),
        Column("interval", "right"),
        Column("p", "right"),
        Column("exams", "right"),
    )
    errors = ", ".join(sorted(set(own["errors"]))) if len(own) else ""
    caption = f"Least squares of {reading.title()}; errors: {errors}." if errors else ""
    empty = "No regression was declared in the plan."
    return Table("regression", "Regression on the declared attributes", columns, tuple(rows), caption, empty=empty)


def confounding(reading: Reading) -> Section:
    """Return the section on size, structures and scanners, as far as they were computed."""
    blocks: list[Block] = [
        prose(
            "Dice falls with the size of a structure; nDSC corrects for it, and a gap that shows in Dice alone may be "
            "one of size. Groups that differ by scanner or site differ by more than the attribute."
        ),
        _by_structure(reading),
        regression(reading),
    ]
    if not any(metric == "ndsc" for metric, _ in reading.cells):
        blocks.append(prose("nDSC was not scored, so the size of the structures was not taken out.", role="note"))
    return Section("confounding", "Size and scanner", tuple(blocks))


def _by_structure(reading: Reading) -> Table:
    from segaudit.metrics import METRICS
    from segaudit.reports.numbers import score

    rows = []
    for metric, label in reading.cells:
        for ruler in reading.rulers:
            row, card = reading.overall(ruler, metric, label), METRICS[metric]
            if row:
                rows.append(
                    (
                        Cell(reading.title(metric, label)),
                        Cell(ruler),
                        count(row["n_cases"]),
                        score(row["mean"], card),
                        score(row["median"], card),
                        score(row["sd"], card),
                        Cell(f"{int(row['n_infinite'])} / {int(row['n_undefined'])}"),
                    )
                )
    columns = (
        Column("score"),
        Column("ruler", filter=True),
        Column("exams", "right"),
        Column("mean", "right"),
        Column("median", "right"),
        Column("SD", "right"),
        Column("infinite / undefined", "right"),
    )
    caption = f"All {counted(len(reading.cells), 'score')} of all cases together; means and SDs are of finite scores."
    return Table("scores", "Every score", columns, tuple(rows), caption, sortable=True)
