"""The rulers themselves: level, spread, shared errors, and why verdicts changed."""

from __future__ import annotations

from segaudit.metrics import METRICS
from segaudit.reports import figures
from segaudit.reports.document import Beside, Block, Cell, Column, Figure, Section, Table, long_table, prose
from segaudit.reports.looks import short
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
from segaudit.reports.reading import Reading, Row, number, rows_of, word
from segaudit.reports.sections.summary import made_by, shared_training

_ROWS = 400
# quantities in the unit of the score; the others are ratios or statistics
_DIFFERENCES = ("inflation", "inflation_shift", "gap_change", "differential_inflation")
_NAMES = {
    "inflation": "mean change of score",
    "inflation_shift": "change of score (Hodges-Lehmann)",
    "walsh_ratio": "noise ratio (Walsh)",
    "walsh_ratio_log": "noise ratio of log errors (Walsh)",
    "sd_ratio": "SD ratio",
    "iqr_ratio": "IQR ratio",
    "mad_ratio": "MAD ratio",
    "mnad_ratio": "mean absolute deviation ratio",
    "pitman_morgan": "SD ratio, Pitman-Morgan",
    "collapse": "spread",
    "independence": "closeness to the model",
    "shared_error_bound": "share of errors in common, at least",
    "shared_error": "share of errors in common",
    "kappa_err": "agreement of errors beyond chance",
    "adjudication_share": "adjudication share",
}
_WIDE = ("walsh_ratio", "gap_ratio", "snr_ratio", "differential_inflation", "delta_h")


def forensics(reading: Reading) -> Section:
    """Return the section on the rulers."""
    blocks: list[Block] = [_makers(reading)]
    if len(reading.rulers) == 1:
        fact = f"{reading.trusted} is the only ruler, so it was compared with none."
        return Section("rulers", "Rulers", (*blocks, prose(fact)))
    compared = {one.other for one in reading.comparisons}
    for i, other in enumerate((r for r in reading.rulers[1:] if r in compared), 1):
        blocks += [*_charts(reading, other, i), _overall(reading, other, i), _shared(reading, other, i)]
        blocks.append(_changes(reading, other, i))
    if not compared:
        blocks.append(prose("The rulers were not compared; segaudit rulers does that."))
    return Section("rulers", "Rulers", tuple(blocks))


def _makers(reading: Reading) -> Table:
    rows = []
    for name in (reading.model, *reading.rulers):
        own = reading.mask_set(name)
        trained = "not known" if own is None or own.trained_on is None else f"{len(own.trained_on):,} patients"
        made, _, kind = made_by(reading, name)
        role = "model" if name == reading.model else "trusted ruler" if name == reading.trusted else "ruler"
        shared = shared_training(reading, name) if name != reading.model else ""
        if own is not None and own.kind in ("expert", "consensus"):
            trained = "none"
        rows.append((Cell(name), Cell(role), Cell(kind or "not stated"), Cell(made), Cell(trained), Cell(shared)))
    columns = (
        Column("mask set"),
        Column("role"),
        Column("kind"),
        Column("made by"),
        Column("trained on"),
        Column("patients shared with the model"),
    )
    return Table("makers", "Who made and who trained on what", columns, tuple(rows))


def _charts(reading: Reading, other: str, i: int) -> list[Block]:
    shift, plane = figures.shift_chart(reading, other), figures.plane_chart(reading, other)
    found = []
    if shift is not None:
        caption = (
            "A dot is a case. Where dots fall to the right, the ruler lifts poor cases more and the spread shrinks."
        )
        alt = f"What each case gains against {other}, over its score against {reading.trusted}."
        found.append(Figure(f"shift-{i}", f"Change of score under {other}", shift, alt, caption))
    if plane is not None:
        caption = (
            "A point is a grouping (named: the score in front). On the dashed line gap and noise shrink alike and a "
            "rank test sees the same; above it the gap stands out more than under the trusted ruler, below it less."
        )
        alt = f"Gap ratio over noise ratio of {other} to {reading.trusted}; the table of verdicts holds the values."
        found.append(Figure(f"plane-{i}", f"Gap against noise under {other}", plane, alt, caption))
    return [Beside(tuple(found))] if len(found) > 1 else list(found)


def _overall(reading: Reading, other: str, i: int) -> Table:
    rows = []
    for metric, label in reading.cells:
        for quantity, name in _NAMES.items():
            row = reading.compared(other, quantity, "", metric, label)
            if row is not None:
                rows.append((Cell(reading.title(metric, label)), Cell(name, note=row["detail"]), *_values(row)))
    columns = (
        Column("score", filter=True),
        Column("quantity"),
        Column(short(reading.trusted), "right"),
        Column(short(other), "right"),
        Column("ratio or change", "right"),
        Column("interval", "right"),
        Column("p", "right"),
    )
    caption = "A ratio is that of the other ruler to the trusted one: below 1, the other ruler spreads the cases less."
    title = f"{other} beside {reading.trusted}: all cases"
    return long_table(f"ruler-{i}", title, columns, rows, caption, most=_ROWS, file="rulers.csv")


def _values(row: Row) -> tuple[Cell, ...]:
    card, signed = METRICS[row["metric"]], row["quantity"] in _DIFFERENCES
    own = [
        Cell(v) if isinstance(v, str) else score(v, card) if is_number(v) else Cell("")
        for v in (row["trusted_value"], row["other_value"])
    ]
    value = row["value"]
    said = (
        Cell(value)
        if isinstance(value, str)
        else difference(number(row, "value"), card)
        if signed
        else ratio(number(row, "value"))
    )
    span = difference_span(row["low"], row["high"], card) if signed else ratio_span(row["low"], row["high"])
    p = p_value(row["p"]) if is_number(row["p"]) else Cell("")
    return (*own, said, Cell(span), p)


def _shared(reading: Reading, other: str, i: int) -> Table:
    """Return what the masks say of errors in common; nothing is known where there are only scores."""
    rows = []
    for one in reading.comparisons:
        if one.other != other:
            continue
        for row in rows_of(one.independence[one.independence["model"] == reading.model]):
            value = row["value"]
            said = Cell(value) if isinstance(value, str) else ratio(number(row, "value"))
            name = _NAMES.get(row["quantity"], row["quantity"].replace("_", " "))
            head = Cell(reading.title(label=row["label"]).split(" (")[1][:-1] if row["label"] else "all structures")
            span = ratio_span(row["low"], row["high"])
            rows.append((head, Cell(name, note=row["detail"]), said, Cell(span), count(row["n_cases"])))
    columns = (
        Column("structure", filter=True),
        Column("quantity"),
        Column("value", "right"),
        Column("interval", "right"),
        Column("exams", "right"),
    )
    title = f"Errors that {reading.model} and {other} have in common, from the masks"
    empty = "The masks were not compared voxel by voxel: the audit was given scores, or the comparison left them out."
    return Table(f"shared-{i}", title, columns, tuple(rows), sortable=True, empty=empty)


def _changes(reading: Reading, other: str, i: int) -> Table:
    rows = []
    classes = [row for row in reading.comparison_rows("verdict_class") if row["other"] == other]
    front = (reading.metric, reading.label)
    for row in sorted(classes, key=lambda row: (row["metric"], row["label"]) != front):
        cell = (row["grouping"], row["metric"], row["label"])
        found = {name: reading.compared(other, name, *cell) for name in (*_WIDE, "q")}
        bonus = number(found["differential_inflation"], "value")
        rows.append(
            (
                Cell(row["grouping"]),
                Cell(reading.title(row["metric"], row["label"])),
                Cell(word(row, "trusted_value") or NONE),
                Cell(word(row, "other_value") or NONE),
                Cell(word(row) or row["status"].replace("_", " "), note=row["detail"]),
                ratio(number(found["gap_ratio"], "value")),
                ratio(number(found["walsh_ratio"], "value")),
                ratio(number(found["snr_ratio"], "value")),
                difference(bonus, METRICS[row["metric"]]),
                ratio(number(found["delta_h"], "value")),
                p_value(number(found["delta_h"], "p")),
            )
        )
    columns = (
        Column("attribute", filter=True),
        Column("score", filter=True),
        Column(short(reading.trusted)),
        Column(short(other)),
        Column("what changed", filter=True),
        Column("gap ratio", "right"),
        Column("noise ratio", "right"),
        Column("signal to noise", "right"),
        Column("bonus of the best group", "right"),
        Column("ΔH", "right"),
        Column("p of ΔH", "right"),
    )
    caption = (
        "Two verdicts that differ are not evidence of a difference: ΔH tests it. A ratio of gaps is left out where the "
        "trusted gap is too close to nothing."
    )
    title = f"What {other} does to each verdict"
    empty = "No grouping was given, so there was no verdict to change."
    return long_table(f"verdicts-{i}", title, columns, rows, caption, most=_ROWS, file="rulers.csv", empty=empty)
