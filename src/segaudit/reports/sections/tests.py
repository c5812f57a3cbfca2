"""Every test of the plan, the families, the pairs, and the study's Table 2."""

from __future__ import annotations

from segaudit.errors import counted
from segaudit.metrics import METRICS
from segaudit.reports import figures
from segaudit.reports.document import Block, Cell, Column, Figure, Section, Table, long_table, prose
from segaudit.reports.looks import legend
from segaudit.reports.numbers import (
    NONE,
    count,
    difference,
    difference_span,
    is_number,
    p_value,
    ratio,
    ratio_span,
    score,
)
from segaudit.reports.reading import OMNIBUS, Reading, Row, number, rows_of
from segaudit.reports.sections.summary import EFFECTS, dir_cell

ADJUSTMENTS = {
    "bh": "Benjamini-Hochberg",
    "by": "Benjamini-Yekutieli",
    "holm": "Holm",
    "raw": "unadjusted",
    "westfall_young": "Westfall-Young",
}
_PAIRS_SHOWN = 400
_TESTS_SHOWN = 1_000
_FIGURES = 6
_TESTS = {"mann_whitney": "Mann-Whitney", "kruskal_wallis": "Kruskal-Wallis", "dunn": "Dunn"}


def tests(reading: Reading) -> Section:
    """Return the section with every test, sortable, to be filtered by ruler and attribute."""
    if not reading.groupings:
        return Section("tests", "All tests", (prose("No grouping was given, so nothing was tested between groups."),))
    blocks: list[Block] = [all_tests(reading), pairs(reading), families(reading), table_2(reading)]
    blocks += group_figures(reading)
    return Section("tests", "All tests", tuple(blocks))


def all_tests(reading: Reading) -> Table:
    """Return the omnibus tests of the model, a row each, with their disparities."""
    table = reading.audit.tests
    own = table[(table["model"] == reading.model) & table["test"].isin(OMNIBUS)]
    front = (reading.metric, reading.label)
    planned = sorted(rows_of(own), key=lambda row: (row["metric"], row["label"]) != front)
    rows = [_test_row(reading, row) for row in planned]
    columns = (
        Column("attribute", filter=True),
        Column("ruler", filter=True),
        Column("score", filter=True),
        Column("gap", "right"),
        Column("DIR", "right"),
        Column("DPD", "right"),
        Column("test"),
        Column("statistic", "right"),
        Column("effect", "right"),
        Column("p", "right"),
        Column("q", "right"),
        Column("q Holm", "right"),
        Column("n", "right"),
        Column("status"),
    )
    caption = (
        f"{counted(len(own), 'planned test')}; a test that could not be had keeps its row and counts in its family. "
        "Gap: the pair of groups furthest apart, group minus reference group."
    )
    return long_table("tests-all", "Every planned test", columns, rows, caption, most=_TESTS_SHOWN, file="tests.csv")


def _test_row(reading: Reading, row: Row) -> tuple[Cell, ...]:
    where = (row["ruler"], row["grouping"])
    cell = (row["metric"], row["label"])
    card = METRICS[row["metric"]]
    pair = reading.widest(*where, *cell)
    effect = ratio(number(row, "effect"))
    return (
        Cell(row["grouping"]),
        Cell(row["ruler"]),
        Cell(reading.title(*cell)),
        difference(number(pair, "value"), card),
        ratio(number(reading.disparity(*where, "dir", *cell), "value")),
        ratio(number(reading.disparity(*where, "dpd", *cell), "value")),
        Cell(_TESTS[row["test"]]),
        ratio(row["statistic"]),
        Cell(
            f"{EFFECTS.get(row['effect_name'], '')} {effect.text}".strip() if effect.text != NONE else NONE,
            effect.value,
        ),
        p_value(row["p"]),
        _q(row["q"], reading),
        p_value(row["q_holm"]),
        count(row["n_patients"]),
        Cell(row["status"].replace("_", " ")),
    )


def _q(q: float, reading: Reading) -> Cell:
    cell = p_value(q)
    below = cell.value is not None and q < reading.audit.plan.alpha
    return Cell(cell.text + " *" if below else cell.text, cell.value, tone="found" if below else "")


def pairs(reading: Reading) -> Table:
    """Return the contrasts of each pair of groups for the score in front, with Dunn's p for three groups or more."""
    card, rows = reading.card, []
    table = reading.audit.tests
    dunn = table[(table["model"] == reading.model) & (table["test"] == "dunn")]
    dunn = dunn[(dunn["metric"] == reading.metric) & (dunn["label"] == reading.label)]
    found = {(r["ruler"], r["grouping"], r["group"], r["reference_group"]): r for r in rows_of(dunn)}
    for grouping in reading.groupings:
        for ruler in reading.rulers:
            for row in reading.pairs(ruler, grouping.name, "median_difference"):
                key = (ruler, grouping.name, row["group"], row["reference_group"])
                shift = _pair(reading, row, "hodges_lehmann")
                rate = _pair(reading, row, "rate_ratio")
                rows.append(
                    (
                        Cell(grouping.name),
                        Cell(ruler),
                        Cell(f"{row['group']} − {row['reference_group']}"),
                        difference(row["value"], card),
                        Cell(difference_span(row["low"], row["high"], card)),
                        difference(number(shift, "value"), card),
                        ratio(number(rate, "value")),
                        Cell(ratio_span(number(rate, "low"), number(rate, "high"))),
                        p_value(number(found.get(key), "p")),
                        p_value(number(found.get(key), "q")),
                    )
                )
    columns = (
        Column("attribute", filter=True),
        Column("ruler", filter=True),
        Column("group − reference group"),
        Column("medians", "right"),
        Column("interval", "right"),
        Column("Hodges-Lehmann", "right"),
        Column("rate ratio", "right"),
        Column("interval", "right"),
        Column("Dunn p", "right"),
        Column("Holm", "right"),
    )
    caption = f"{reading.title()}."
    file = "disparities.csv"
    return long_table("pairs", "Every pair of groups", columns, rows, caption, most=_PAIRS_SHOWN, file=file)


def _pair(reading: Reading, row: Row, name: str) -> Row | None:
    return reading.same_pair(row["ruler"], {**row, "disparity": name})


def families(reading: Reading) -> Table:
    """Return how many tests each family and adjustment rejects."""
    table = reading.audit.families
    rows = [
        (
            Cell(row["ruler"]),
            Cell(row["family"]),
            Cell(ADJUSTMENTS.get(str(row["method"]), str(row["method"]))),
            rejected_of(row),
            Cell(row["rejected_attributes"]),
        )
        for row in rows_of(table[table["model"] == reading.model])
    ]
    columns = (
        Column("ruler", filter=True),
        Column("family", filter=True),
        Column("adjustment"),
        Column("below α", "right"),
        Column("attributes"),
    )
    plan = reading.audit.plan
    each = "each ruler's tests are a family" if plan.scope == "ruler" else "the tests of all rulers are one family"
    caption = f"How much the verdict leans on the family. α is {plan.alpha:g}; declared: {plan.method.upper()}, {each}."
    return long_table("families", "Families of tests", columns, rows, caption, most=_PAIRS_SHOWN, file="families.csv")


def rejected_of(row: Row) -> Cell:
    """Return how many of the planned tests of a family were rejected."""
    if not is_number(row["n_rejected"]):
        return Cell(NONE)
    return Cell(f"{int(row['n_rejected'])} of {int(row['n_planned'])}", row["n_rejected"])


def table_2(reading: Reading) -> Table:
    """Return the study's Table 2: each grouping under each ruler with DIR, DPD and q."""
    rows = []
    for grouping in reading.groupings:
        for ruler in reading.rulers:
            dpd = reading.disparity(ruler, grouping.name, "dpd")
            rows.append(
                (
                    Cell(grouping.name),
                    Cell(ruler),
                    dir_cell(reading.disparity(ruler, grouping.name, "dir")),
                    Cell(
                        ratio(number(dpd, "value")).text,
                        ratio(number(dpd, "value")).value,
                        ratio_span(number(dpd, "low"), number(dpd, "high")),
                    ),
                    p_value(number(reading.omnibus(ruler, grouping.name), "q")),
                )
            )
    columns = (
        Column("attribute"),
        Column("ruler"),
        Column("DIR", "right"),
        Column("DPD", "right"),
        Column("q", "right"),
    )
    return Table("table-2", "Grouping by ruler (Table 2)", columns, tuple(rows), f"{reading.title()}.")


def group_figures(reading: Reading) -> list[Block]:
    """Return the study's Figure 1 for the first groupings: the score by group under every ruler."""
    found: list[Block] = []
    for i, grouping in enumerate(reading.groupings[:_FIGURES], 1):
        chart = figures.groups_chart(reading, grouping.name)
        if chart is None:
            continue
        medians = "; ".join(
            f"{ruler}, {row['group']}: median {score(row['median'], reading.card).text}"
            for ruler in reading.rulers
            for row in reading.groups(ruler, grouping.name)
            if row["status"] == "ok"
        )
        caption = f"Boxes reach from quartile to quartile, medians are joined; {legend(reading)}."
        found.append(Figure(f"groups-{i}", f"{reading.title()} by {grouping.name}", chart, f"{medians}.", caption))
    return found
