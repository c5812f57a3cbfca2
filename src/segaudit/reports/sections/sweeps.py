"""Threshold sweeps: what the pass rates, DIR and DPD say at every planned threshold."""

from __future__ import annotations

from typing import Any

import pandas as pd

from segaudit.metrics import METRICS
from segaudit.reports import figures
from segaudit.reports.document import Beside, Block, Cell, Column, Figure, Section, Sweep, Table, long_table, prose
from segaudit.reports.looks import legend
from segaudit.reports.numbers import ratio, ratio_span
from segaudit.reports.reading import Reading, Row, rows_of
from segaudit.reports.verdicts import listed

_FIGURES = 2
_ROWS = 600
_SLIDER_ROWS = 2_000


def sweeps(reading: Reading) -> Section:
    """Return the section with the slider, and the table that says the same without one."""
    table = reading.audit.sweeps
    own = table[table["model"] == reading.model]
    if own.empty:
        return Section("sweeps", "Thresholds", (prose("No threshold was swept: no two groups could be compared."),))
    front = own[(own["metric"] == reading.metric) & (own["label"] == reading.label)]
    blocks: list[Block] = [
        prose(
            "A pass rate depends on its threshold. Where every group passes (or fails) alike the ratio is 1 whatever "
            "the model does: that zone is greyed, and its interval says what it could still hide."
        )
    ]
    charts = [_figure(reading, g.name, i) for i, g in enumerate(reading.groupings, 1)]
    drawn = tuple(chart for chart in charts if chart is not None)[:_FIGURES]
    blocks += [Beside(drawn)] if len(drawn) > 1 else list(drawn)
    shown = own if len(own) <= _SLIDER_ROWS else front
    if len(front):
        blocks.append(Sweep("sweep", _table(reading, _trusted_first(reading, front)),
                            _data(reading, _trusted_first(reading, shown))))  # fmt: skip
    swept = set(own["metric"])
    bare = [metric for metric in dict.fromkeys(metric for metric, _ in reading.cells) if metric not in swept]
    if bare:
        names = listed([reading.title(metric).split(" (")[0] for metric in bare], 12)
        blocks.append(prose(f"No threshold is declared for {names}, so nothing passes or fails.", role="note"))
    return Section("sweeps", "Thresholds", tuple(blocks))


def _trusted_first(reading: Reading, table: pd.DataFrame) -> list[Row]:
    return sorted(rows_of(table), key=lambda row: reading.rulers.index(row["ruler"]))


def _figure(reading: Reading, grouping: str, i: int) -> Figure | None:
    chart = figures.sweep_chart(reading, grouping) if i <= _FIGURES else None
    if chart is None:
        return None
    flat = figures.saturated_zones(reading, grouping)
    zones = ", ".join(f"{ruler} from {first:g} to {last:g}" for ruler, first, last in flat) or "none"
    caption = f"DIR with its interval at each threshold; dashed: 0.8; grey: saturated ({zones}); {legend(reading)}."
    alt = f"DIR of {grouping} over the thresholds of {reading.title()}; the table below holds the values."
    return Figure(f"sweep-{i}", f"DIR of {grouping} by threshold", chart, alt, caption)


def _table(reading: Reading, rows: list[Row]) -> Table:
    seen: dict[tuple[str, str, float], list[Row]] = {}
    for row in rows:
        seen.setdefault((row["grouping"], row["ruler"], row["threshold"]), []).append(row)
    body = []
    for (grouping, ruler, threshold), groups in seen.items():
        first = groups[0]
        flat = first["status"] == "saturated"
        body.append(
            (
                Cell(grouping),
                Cell(ruler),
                Cell(f"{threshold:g}", threshold),
                Cell("; ".join(f"{g['group']} {int(g['n_success'])}/{int(g['n_cases'])}" for g in groups)),
                _with(first, "dir"),
                _with(first, "dpd"),
                Cell("saturated" if flat else first["status"].replace("_", " "), tone="quiet" if flat else ""),
            )
        )
    columns = (
        Column("attribute", filter=True),
        Column("ruler", filter=True),
        Column("threshold", "right"),
        Column("passes"),
        Column("DIR", "right"),
        Column("DPD", "right"),
        Column("status"),
    )
    caption = f"{reading.title()}: exams strictly beyond the threshold, by group."
    return long_table(
        "sweep-table", "Pass rates at every threshold", columns, body, caption, most=_ROWS, file="sweeps.csv"
    )


def _with(row: Row, name: str) -> Cell:
    value = ratio(row[name])
    return Cell(value.text, value.value, ratio_span(row[f"{name}_low"], row[f"{name}_high"]))


def _data(reading: Reading, rows: list[Row]) -> dict[str, Any]:
    """Return the slider's data: numbers as the tables show them, so that both say the same digits."""
    scores: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["metric"], row["label"])
        score = scores.setdefault(
            key,
            {
                "title": reading.title(*key),
                "sign": ">" if METRICS[row["metric"]].better == "higher" else "<",
                "declared": reading.audit.plan.success.get(row["metric"]),
                "at": {},
            },
        )
        rulers = score["at"].setdefault(f"{row['threshold']:g}", {}).setdefault(row["grouping"], {})
        entry = rulers.setdefault(row["ruler"], _disparities(row))
        entry["groups"].append([row["group"], int(row["n_success"]), int(row["n_cases"])])
    front = (reading.metric, reading.label)
    return {"scores": [scores[key] for key in sorted(scores, key=lambda key: key != front)]}


def _disparities(row: Row) -> dict[str, Any]:
    return {
        "dir": ratio(row["dir"]).text,
        "dirSpan": ratio_span(row["dir_low"], row["dir_high"]),
        "dpd": ratio(row["dpd"]).text,
        "dpdSpan": ratio_span(row["dpd_low"], row["dpd_high"]),
        "status": row["status"].replace("_", " "),
        "groups": [],
    }
