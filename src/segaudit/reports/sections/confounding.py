"""What else could stand behind a gap: the size of the structures, scanner and site, the other attributes."""

from __future__ import annotations

from dataclasses import replace

from segaudit.confounders import CAUTION, Confounders
from segaudit.errors import counted
from segaudit.metrics import METRICS
from segaudit.reports.confounder_figures import Drawn, confounder_charts
from segaudit.reports.document import Block, Cell, Column, Figure, Section, Table, long_table, prose
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
    span,
)
from segaudit.reports.reading import Reading, Row, rows_of

_ROWS = 400
_EFFECTS = {"rank_biserial": "r", "epsilon_squared": "ε²", "cramers_v": "Cramér V", "spearman": "ρ"}
_TESTS = {
    "chi2": "χ²",
    "mann_whitney": "Mann-Whitney",
    "kruskal_wallis": "Kruskal-Wallis",
    "spearman": "Spearman",
}
_METHODS = {"ols": "difference of means", "van_elteren": "rank-biserial within strata"}
_READ = {
    "anatomy": "A point is the mean size in a group over that in the reference group, with its interval; 1: alike.",
    "entanglement": "The darker, the more two go together; a frame: more than chance explains.",
    "associations": "A point is a rank correlation with its interval; 0: the two do not go together.",
    "adjusted": "The same cases without and with the covariates; what a gap loses was in part theirs.",
    "dice-ndsc": "Joined: the mean Dice and the mean nDSC of the same cases. Where groups differ in Dice and not in "
    "nDSC, the size of the structures may stand behind the gap.",
}
_SIZES = {"volume_mm3": "volume (mm³)", "voxels": "voxels", "components": "components"}


def confounding(reading: Reading) -> Section:
    """Return the section on size, structures, scanners and sites, as far as they were set beside the groups."""
    blocks: list[Block] = [
        prose(
            "Dice falls with the size of a structure; nDSC corrects for it, and a gap that shows in Dice alone may be "
            "one of size. Groups that differ by scanner or site differ by more than the attribute."
        ),
        _by_structure(reading),
        regression(reading),
    ]
    if reading.confounders is None:
        how = "segaudit confound RUN --by sex --adjust volume (or an attribute such as site), then segaudit report RUN."
        blocks.append(prose("Anatomy, scanner and site were not set beside the groups. To have them here: ", how))
    else:
        blocks += [prose(CAUTION), *_tables(reading, reading.confounders)]
    if not any(metric == "ndsc" for metric, _ in reading.cells):
        blocks.append(prose("nDSC was not scored, so the size of the structures was not taken out.", role="note"))
    return Section("confounding", "Size and scanner", tuple(blocks))


def _tables(reading: Reading, found: Confounders) -> list[Block]:
    """Return each table of the confounders, its chart before it; of several models, those of the one that is read."""
    charts = {drawn.name: _figure(drawn) for drawn in confounder_charts(_of_model(reading, found))}
    tables = {
        "adjusted": _adjusted(reading, found),
        "anatomy": _anatomy(reading, found),
        "entanglement": _entanglement(found),
        "associations": _associations(reading, found),
    }
    blocks: list[Block] = [charts["dice-ndsc"]] if "dice-ndsc" in charts else []
    for name, table in tables.items():
        blocks += [charts[name]] if name in charts else []
        blocks.append(table)
    return blocks


def _of_model(reading: Reading, found: Confounders) -> Confounders:
    own = {name: getattr(found, name) for name in ("associations", "adjusted")}
    return replace(found, **{name: table[table["model"] == reading.model] for name, table in own.items()})


def _figure(drawn: Drawn) -> Figure:
    return Figure(f"confound-{drawn.name}", drawn.title, drawn.chart, drawn.alt, _READ[drawn.name])


def _adjusted(reading: Reading, found: Confounders) -> Table:
    """Return the contrasts of groups without and with adjustment, those of the score in front first."""
    front = (reading.metric, reading.label)
    own = rows_of(found.adjusted[found.adjusted["model"] == reading.model])
    own.sort(key=lambda row: (row["metric"], row["label"]) != front)
    rows = [
        (
            Cell(row["grouping"], note=f"{row['group']} − {row['reference_group']}"),
            Cell(row["ruler"]),
            Cell(reading.title(row["metric"], row["label"])),
            Cell(row["adjusted_for"].replace(" + ", ", "), note=_METHODS.get(str(row["method"]), "")),
            _contrast(row, ""),
            p_value(row["q"]),
            _contrast(row, "adjusted_"),
            p_value(row["adjusted_q"]),
            count(row["n_patients"]),
            _status(row),
        )
        for row in own
    ]
    columns = (
        Column("attribute", filter=True),
        Column("ruler", filter=True),
        Column("score", filter=True),
        Column("adjusted for", filter=True),
        Column("without", "right"),
        Column("q", "right"),
        Column("with", "right"),
        Column("q", "right"),
        Column("patients", "right"),
        Column("status"),
    )
    caption = "The same cases without and with the covariates in the comparison; q over all contrasts of a ruler."
    empty = "No grouping (--by) or no covariate to adjust for (--adjust) was named."
    return long_table(
        "adjusted",
        "Gaps without and with adjustment",
        columns,
        rows,
        caption,
        most=_ROWS,
        file="adjusted.csv",
        empty=empty,
    )


def _contrast(row: Row, prefix: str) -> Cell:
    value, low, high = (row[f"{prefix}{name}"] for name in ("value", "low", "high"))
    if row["method"] != "ols":
        cell = ratio(value)
        return Cell(cell.text, cell.value, ratio_span(low, high))
    card = METRICS[row["metric"]]
    cell = difference(value, card)
    return Cell(cell.text, cell.value, difference_span(low, high, card))


def _anatomy(reading: Reading, found: Confounders) -> Table:
    """Return the sizes of the structures by group as the trusted ruler outlines them, with the test between groups."""
    table = found.anatomy
    rows = []
    tests = {_of(row): row for row in rows_of(table[table["group"] == ""])}
    for row in rows_of(table[(table["ruler"] == reading.trusted) & (table["group"] != "")]):
        test, times = tests.get(_of(row), {}), ratio(row["ratio"])
        rows.append(
            (
                Cell(row["label"]),
                Cell(_SIZES.get(str(row["quantity"]), str(row["quantity"]))),
                Cell(row["grouping"]),
                Cell(row["group"]),
                count(row["n_patients"]),
                _size(row["mean"]),
                _size(row["median"]),
                Cell(times.text, times.value, ratio_span(row["ratio_low"], row["ratio_high"])),
                p_value(test.get("p", float("nan"))),
                p_value(test.get("q", float("nan"))),
            )
        )
    columns = (
        Column("structure", filter=True),
        Column("size", filter=True),
        Column("attribute", filter=True),
        Column("group"),
        Column("patients", "right"),
        Column("mean", "right"),
        Column("median", "right"),
        Column("to the reference group", "right"),
        Column("p", "right"),
        Column("q", "right"),
    )
    caption = f"As outlined by {reading.trusted}; p and q of the test between all groups of the attribute."
    empty = "Sizes are not known: the audit was given scores without volumes, or no grouping."
    return long_table(
        "anatomy",
        "Sizes of the structures by group",
        columns,
        rows,
        caption,
        most=_ROWS,
        file="anatomy.csv",
        empty=empty,
    )


def _of(row: Row) -> tuple[str, ...]:
    return (row["ruler"], row["label"], row["quantity"], row["grouping"])


def _size(value: float) -> Cell:
    return Cell(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}", value) if is_number(value) else Cell(NONE)


def _entanglement(found: Confounders) -> Table:
    """Return which attributes, scanners and sites go together."""
    rows = [
        (
            Cell(row["first"]),
            Cell(row["second"]),
            Cell(_TESTS.get(row["test"], row["test"].replace("_", " "))),
            ratio(row["statistic"]),
            _effect(row),
            p_value(row["p"]),
            p_value(row["q"]),
            count(row["n_patients"]),
            _status(row),
        )
        for row in rows_of(found.entanglement)
    ]
    columns = (
        Column("first", filter=True),
        Column("second", filter=True),
        Column("test"),
        Column("statistic", "right"),
        Column("effect", "right"),
        Column("p", "right"),
        Column("q", "right"),
        Column("patients", "right"),
        Column("status"),
    )
    caption = "Where two go together, a gap by one may be a gap by the other."
    title, file, empty = "Which attributes go together", "entanglement.csv", "There were no two to compare."
    return long_table("entanglement", title, columns, rows, caption, most=_ROWS, file=file, empty=empty)


def _effect(row: Row) -> Cell:
    value = ratio(row["effect"])
    return Cell(f"{_EFFECTS.get(row['effect_name'], '')} {value.text}".strip(), value.value) if value.value else value


def _associations(reading: Reading, found: Confounders) -> Table:
    """Return how scores go with sizes and other numbers, in all cases and by group."""
    front = (reading.metric, reading.label)
    own = rows_of(found.associations[found.associations["model"] == reading.model])
    own.sort(key=lambda row: ((row["metric"], row["label"]) != front, row["grouping"] != ""))
    rows = []
    for row in own:
        rho = ratio(row["rho"])
        rows.append(
            (
                Cell(reading.title(row["metric"], row["label"])),
                Cell(row["ruler"]),
                Cell(_SIZES.get(str(row["other"]), str(row["other"]))),
                Cell(f"{row['grouping']}: {row['group']}" if row["grouping"] else "all"),
                Cell(rho.text, rho.value, span(ratio(row["low"]), ratio(row["high"]))),
                p_value(row["p"]),
                p_value(row["q"]),
                count(row["n_patients"]),
                _status(row),
            )
        )
    columns = (
        Column("score", filter=True),
        Column("ruler", filter=True),
        Column("set against", filter=True),
        Column("cases"),
        Column("ρ", "right"),
        Column("p", "right"),
        Column("q", "right"),
        Column("patients", "right"),
        Column("status"),
    )
    caption = "Spearman's rank correlation over patients. Above 0: the larger the one, the higher the score."
    title, file, empty = "What the scores go with", "associations.csv", "Nothing was set against the scores."
    return long_table("associations", title, columns, rows, caption, most=_ROWS, file=file, empty=empty)


def _status(row: Row) -> Cell:
    return Cell(row["status"].replace("_", " "))


def regression(reading: Reading) -> Table:
    """Return the regression of the score in front on the declared attributes."""
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


def _by_structure(reading: Reading) -> Table:
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
