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
    low, high = float(table["value"].min()) / 2, float(table["value"].max())
    scale = alt.Scale(type="log", domain=[low, 3 * high], nice=False)  # room for the number at the longest bar
    panels = []
    for name_of_set, part in table.groupby("set", sort=False):
        base = alt.Chart(part, title=alt.TitleParams(str(name_of_set), anchor="start", frame="group")).encode(
            alt.Y("way:N", title=None, sort=alt.EncodingSortField("value")),
            alt.X("value:Q", title=None, scale=scale, axis=alt.Axis(tickCount=4, format="~s")),
        )
        bar = base.mark_bar().encode(
            alt.Color("ours:N", legend=None, scale=alt.Scale(domain=[True, False], range=["#1f4e79", "#b8c4d0"])),
            alt.X2(datum=low),
        )
        told = base.mark_text(align="left", dx=3).encode(alt.Text("value:Q", format=",.3~r"))
        panels.append((bar + told).properties(width=_WIDTH))
    _write(name, alt.vconcat(*panels), f"{title}, {unit}")


def lines(name: str, rows: Rows, title: str) -> None:
    """Draw a panel a `what`: `value` (in `unit`) against `size`, both logarithmic but for memory, a line a `way`."""
    table = pd.DataFrame(rows)
    table = table[table["value"] > 0]
    panels = []
    for (what, unit), part in table.groupby(["what", "unit"], sort=False):
        sizes = sorted(part["size"].unique())
        is_memory = "MiB" in str(unit)
        y_scale = alt.Scale(zero=True) if is_memory else alt.Scale(type="log", nice=False, padding=12)
        panels.append(
            alt.Chart(part, title=str(what))
            .mark_line(point=True)
            .encode(
                alt.X("size:Q", title=None, scale=alt.Scale(type="log"), axis=alt.Axis(values=sizes, format="~s")),
                alt.Y("value:Q", title=str(unit), scale=y_scale),
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
