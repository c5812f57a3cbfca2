"""The benchmarks as figures: small SVG charts in build/bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import altair as alt
import pandas as pd

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench"
_WIDTH = 460
Rows = Sequence[Mapping[str, object]]


def bars(name: str, rows: Rows, title: str, unit: str) -> None:
    """Draw a panel a `set` with a bar a `way`, by `value` on a logarithmic axis; ours are dark."""
    table = pd.DataFrame(rows)
    table["ours"] = table["way"].str.startswith(("segaudit", "kernel"))
    base = alt.Chart(table).encode(
        alt.Y("way:N", title=None, sort=alt.EncodingSortField("value")),
        alt.X("value:Q", title=unit, scale=alt.Scale(type="log")),
    )
    bar = base.mark_bar().encode(
        alt.Color("ours:N", legend=None, scale=alt.Scale(domain=[True, False], range=["#1f4e79", "#b8c4d0"])),
        alt.X2(datum=float(table["value"].min()) / 2),
    )
    told = base.mark_text(align="left", dx=3).encode(alt.Text("value:Q", format=",.3~r"))
    chart = (
        (bar + told)
        .properties(width=_WIDTH)
        .facet(
            row=alt.Row(
                "set:N", title=None, sort=None, header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top")
            )
        )
    )
    _write(name, chart.resolve_scale(y="independent"), title)


def lines(name: str, rows: Rows, title: str) -> None:
    """Draw a panel a `what`: `value` (in `unit`) against `size`, both logarithmic, a line a `way`."""
    table = pd.DataFrame(rows)
    panels = []
    for (what, unit), part in table.groupby(["what", "unit"], sort=False):
        sizes = sorted(part["size"].unique())
        panels.append(
            alt.Chart(part, title=str(what))
            .mark_line(point=True)
            .encode(
                alt.X("size:Q", title=None, scale=alt.Scale(type="log"), axis=alt.Axis(values=sizes, format="~s")),
                alt.Y("value:Q", title=str(unit), scale=alt.Scale(type="log", nice=False, padding=12)),
                alt.Color("way:N", title=None),
            )
            .properties(width=_WIDTH / 2, height=160)
        )
    _write(name, alt.concat(*panels, columns=2).resolve_scale(color="independent"), title)


def _write(name: str, chart: alt.TopLevelMixin, title: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.svg"
    chart.properties(title=title).save(path)
    print(f"figure: {path}")
