"""Charts: one definition each, for the page, for a paper and for a notebook.

Each `plot_*` takes an audit (and its rulers) and returns an Altair chart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.audits import Audit
from segaudit.metrics import METRICS
from segaudit.reports.descriptions import finite_scores, gap_in_words, scores_in_words, sweep_in_words
from segaudit.reports.looks import (
    COLOURS,
    INK,
    LINE,
    QUIET,
    SHADE,
    SHAPES,
    Chart,
    axis_title,
    colour,
    names_axis,
    shape,
    short,
    speech,
    spoken,
    styled,
    told,
)
from segaudit.reports.numbers import (
    in_points,
    is_number,
    ratio,
    score,
    unit_of,
)
from segaudit.reports.reading import Reading, number, read
from segaudit.rulers import RulerComparison

Rulers: TypeAlias = RulerComparison | Iterable[RulerComparison] | None
Floats: TypeAlias = NDArray[np.float64]

_FOREST_ROWS = 8
_QUARTILES = ("q25", "median", "q75")


def plot_rulers(audit: Audit, rulers: Rulers = None, **front: Any) -> Chart:
    """Return the chart of the same predictions under every ruler: a dot a case, a bar at the median.

    Parameters
    ----------
    audit : Audit
    rulers : RulerComparison or several, optional
    **front : str
        model, metric, label of the score shown.
    """
    return rulers_chart(read(audit, rulers, **front))


def plot_gaps(audit: Audit, rulers: Rulers = None, **front: Any) -> Chart:
    """Return the forest of the widest gap of each grouping under every ruler, with the margin shaded."""
    reading = read(audit, rulers, **front)
    return gaps_chart(reading, [g.name for g in reading.groupings][:_FOREST_ROWS])


def plot_groups(audit: Audit, grouping: str, rulers: Rulers = None, **front: Any) -> Chart:
    """Return the score by group under every ruler: boxes from quartile to quartile, medians joined."""
    return groups_chart(read(audit, rulers, **front), grouping)


def plot_sweep(audit: Audit, grouping: str, rulers: Rulers = None, **front: Any) -> Chart:
    """Return the disparate impact ratio of a grouping over the thresholds, with the saturated zone greyed."""
    return sweep_chart(read(audit, rulers, **front), grouping)


def plot_shift(audit: Audit, other: str, rulers: Rulers = None, **front: Any) -> Chart:
    """Return what each case gains when scored against the other ruler, over its score against the trusted one."""
    return shift_chart(read(audit, rulers, **front), other)


def plot_plane(audit: Audit, other: str, rulers: Rulers = None, **front: Any) -> Chart:
    """Return the plane of gap ratio against noise ratio, a point a grouping, with its zones named."""
    return plane_chart(read(audit, rulers, **front), other)


def rulers_chart(reading: Reading) -> Chart:
    """Return the chart of `plot_rulers`."""
    import altair as alt

    parts, medians, names = [], [], {}
    for ruler in reading.rulers:
        values = finite_scores(reading, ruler)
        names[ruler] = f"{short(ruler)}|n = {len(values)}"
        parts.append(pd.DataFrame({"ruler": names[ruler], "score": values, "side": _spread(values)}))
        middle = float(np.median(values)) if len(values) else None
        said = speech(ruler, numbers=scores_in_words(values, reading))
        medians.append({"ruler": names[ruler], "score": middle, "spoken": said})
    order = list(names.values())
    x = alt.X("ruler:N", sort=order, title=None, axis=names_axis())
    y = alt.Y("score:Q", title=axis_title(reading), scale=alt.Scale(zero=False, nice=True))
    own = colour(order)
    dots = (
        alt.Chart(pd.concat(parts))
        .mark_circle(size=16, opacity=0.55)
        .encode(
            x=x,
            y=y,
            xOffset=alt.XOffset("side:Q", scale=alt.Scale(domain=[-1, 1])),
            color=own,
            tooltip=told("ruler", numbers=("score",), digits=3),
        )
    )
    table = pd.DataFrame(medians)
    bar = alt.Chart(table).mark_tick(thickness=2.5, size=64, color=INK, orient="horizontal")
    bars = bar.encode(x=x, y=y, description=spoken())
    layers = [dots, bars]
    threshold = reading.audit.plan.success.get(reading.metric)
    if threshold is not None:
        rule = alt.Chart(pd.DataFrame({"score": [threshold]}))
        layers += [
            rule.mark_rule(strokeDash=[4, 3], color=QUIET).encode(y="score:Q"),
            rule.mark_text(align="left", dx=5, color=QUIET, text=f"{threshold:g}").encode(
                y="score:Q", x=alt.value("width")
            ),
        ]
    return styled(alt.layer(*layers).properties(width=min(380, max(150, 140 * len(order))), height=216))


def gaps_chart(reading: Reading, groupings: list[str]) -> Chart:
    """Return the forest of the widest gap of each of the named groupings."""
    import altair as alt

    scale = 100.0 if in_points(reading.card) else 1.0
    rows = []
    for name in groupings:
        pair = reading.widest(reading.trusted, name)
        for ruler in reading.rulers if pair else ():
            row = reading.same_pair(ruler, pair) if pair else None
            if row is not None and is_number(row["value"]) and pair is not None:
                groups = f"{short(pair['group'], 16)} − {short(pair['reference_group'], 16)}"
                label = f"{short(name, 26)}|{groups}"
                limits = {key: row[key] * scale for key in ("value", "low", "high")}
                said = speech(name, groups, ruler, numbers=gap_in_words(row, reading))
                own = {"row": label, "attribute": short(name), "groups": groups, "ruler": short(ruler), "spoken": said}
                rows.append({**own, **limits})
    if not rows:
        return None
    table = pd.DataFrame(rows)
    order = [short(ruler) for ruler in reading.rulers]
    y = alt.Y("row:N", sort=list(dict.fromkeys(table["row"])), title=None, axis=names_axis(grid=False))
    offset = alt.YOffset("ruler:N", sort=order, scale=alt.Scale(paddingOuter=0.6))
    title = f"gap in {unit_of(reading.card) or reading.card.title} (group − reference group)"
    low, high = table[["low", "value"]].min().min(), table[["high", "value"]].max().max()
    layers = []
    margin = reading.audit.plan.margin.get(reading.metric)
    if margin is not None:
        band = pd.DataFrame({"low": [-margin * scale], "high": [margin * scale]})
        layers.append(alt.Chart(band).mark_rect(color=SHADE).encode(x="low:Q", x2="high:Q"))
        low, high = min(low, -margin * scale), max(high, margin * scale)
    span = alt.Scale(domain=[min(low, 0.0), max(high, 0.0)], nice=True)
    layers.append(alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=QUIET).encode(x="x:Q"))
    base = alt.Chart(table).encode(y=y, yOffset=offset, color=colour(order))
    layers.append(
        base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q", title=title, scale=span, axis=alt.Axis(tickCount=5)), x2="high:Q"
        )
    )
    tips = told("attribute", "groups", "ruler", numbers=("value", "low", "high"))
    mark = base.mark_point(filled=True, size=52, opacity=1)
    layers.append(mark.encode(x="value:Q", shape=shape(order), tooltip=tips, description=spoken()))
    height = max(96, (14 + 13 * len(order)) * table["row"].nunique())
    return styled(alt.layer(*layers).properties(width=260, height=height))


def groups_chart(reading: Reading, grouping: str) -> Chart:
    """Return the chart of `plot_groups`; groups too small for inference are left out."""
    import altair as alt

    rows = []
    for ruler in reading.rulers:
        for row in reading.groups(ruler, grouping):
            if row["status"] == "ok" and is_number(row["median"]):
                label = f"{short(row['group'], 22)}|n = {int(row['n_cases'])}"
                low, middle, high = (score(row[name], reading.card, unit=False).text for name in _QUARTILES)
                numbers = f"median {middle}, quartiles {low} and {high}, n = {int(row['n_cases'])}"
                said = speech(row["group"], ruler, numbers=numbers)
                own = {"group": label, "ruler": short(ruler), "spoken": said}
                rows.append({**own, **{name: row[name] for name in _QUARTILES}})
    if not rows:
        return None
    table = pd.DataFrame(rows)
    order, groups = [short(ruler) for ruler in reading.rulers], list(dict.fromkeys(table["group"]))
    x = alt.X("group:N", sort=groups, title=None, axis=names_axis())
    offset = alt.XOffset("ruler:N", sort=order)
    base = alt.Chart(table).encode(x=x, xOffset=offset, color=colour(order))
    y = alt.Y("q25:Q", title=axis_title(reading), scale=alt.Scale(zero=False, nice=True))
    tips = told("group", "ruler", numbers=("median", "q25", "q75"), digits=3)
    layers = [
        base.mark_bar(opacity=0.25).encode(y=y, y2="q75:Q"),
        base.mark_line(strokeWidth=1.4, strokeDash=[5, 3]).encode(y="median:Q"),
        base.mark_point(filled=True, size=64, opacity=1).encode(
            y="median:Q", shape=shape(order), tooltip=tips, description=spoken()
        ),
    ]
    return styled(alt.layer(*layers).properties(width=min(640, max(220, 95 * len(groups))), height=220))


def sweep_chart(reading: Reading, grouping: str) -> Chart:
    """Return the chart of `plot_sweep`."""
    import altair as alt

    from segaudit.reports.reading import rows_of

    own = _swept(reading, grouping)
    if own.empty:
        return None
    order = [short(ruler) for ruler in reading.rulers]
    rows = pd.DataFrame([{**row, "ruler": short(row["ruler"]), "spoken": sweep_in_words(row)} for row in rows_of(own)])
    x = alt.X(
        "threshold:Q",
        title=f"threshold ({METRICS[reading.metric].title})",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    y = alt.Y("dir:Q", title="DIR", scale=alt.Scale(domain=[0, 1]))
    base = alt.Chart(rows).encode(x=x, color=colour(order))
    layers = []
    zones = pd.DataFrame(saturated_zones(reading, grouping), columns=["ruler", "first", "last"])
    if len(zones):
        layers.append(alt.Chart(zones).mark_rect(color=SHADE).encode(x="first:Q", x2="last:Q"))
    tips = told("ruler", "threshold", "status", numbers=("dir", "dir_low", "dir_high"))
    layers += [
        alt.Chart(pd.DataFrame({"dir": [0.8]})).mark_rule(strokeDash=[4, 3], color=QUIET).encode(y="dir:Q"),
        base.mark_area(opacity=0.12).encode(y=alt.Y("dir_low:Q"), y2="dir_high:Q"),
        base.mark_line(strokeWidth=1.6).encode(y=y),
        base.mark_point(filled=True, size=42, opacity=1).encode(
            y=y, shape=shape(order), tooltip=tips, description=spoken()
        ),
    ]
    return styled(alt.layer(*layers).properties(width=300, height=170))


def _swept(reading: Reading, grouping: str) -> pd.DataFrame:
    """Return a row a ruler and threshold of the score in front."""
    table = reading.audit.sweeps
    return table[
        (table["model"] == reading.model)
        & (table["label"] == reading.label)
        & (table["metric"] == reading.metric)
        & (table["grouping"] == grouping)
    ].drop_duplicates(["ruler", "threshold"])


def saturated_zones(reading: Reading, grouping: str) -> list[tuple[str, float, float]]:
    """Return each ruler with the first and the last threshold at which every group passes, or fails, alike."""
    own = _swept(reading, grouping)
    flat = own[own["status"] == "saturated"].groupby("ruler", sort=False)["threshold"].agg(["min", "max"])
    return [(str(ruler), float(first), float(last)) for ruler, first, last in flat.itertuples()]


def shift_chart(reading: Reading, other: str) -> Chart:
    """Return the chart of `plot_shift`."""
    import altair as alt

    table = paired_scores(reading, other)
    if table.empty:
        return None
    scale = 100.0 if in_points(reading.card) else 1.0
    table = table.assign(shift=(table["other"] - table["trusted"]) * scale)
    unit = unit_of(reading.card) or reading.card.title
    names = (short(reading.trusted, 16), short(other, 16))
    x = alt.X(
        "trusted:Q",
        title=f"{reading.card.title} against {names[0]}",
        scale=alt.Scale(zero=False),
        axis=alt.Axis(tickCount=5),
    )
    tips = told(numbers=("trusted", "other", "shift"), digits=3)
    y = alt.Y("shift:Q", title=f"{names[1]} − {names[0]} ({unit})")
    layers = [
        alt.Chart(pd.DataFrame({"shift": [0]})).mark_rule(color=QUIET).encode(y="shift:Q"),
        alt.Chart(table).mark_circle(size=18, opacity=0.55, color=COLOURS[1]).encode(x=x, y=y, tooltip=tips),
    ]
    return styled(alt.layer(*layers).properties(width=300, height=220))


def plane_chart(reading: Reading, other: str) -> Chart:
    """Return the chart of `plot_plane`: below the diagonal the gap shrinks more than the noise."""
    import altair as alt

    rows = []
    for gap in reading.comparison_rows("gap_ratio"):
        noise = reading.compared(other, "noise_ratio", gap["grouping"], gap["metric"], gap["label"])
        across, up = number(noise, "value"), number(gap, "value")
        if gap["other"] == other and gap["grouping"] and across > 0 and up > 0:
            front = (gap["metric"], gap["label"]) == (reading.metric, reading.label)
            numbers = f"gap ratio {ratio(up).text}, noise ratio {ratio(across).text}"
            said = speech(gap["grouping"], reading.title(gap["metric"], gap["label"]), numbers=numbers)
            named = short(gap["grouping"], 18) if front else ""
            rows.append({"noise": across, "gap": up, "name": named, "front": front, "spoken": said})
    if not rows:
        return None
    table = pd.DataFrame(rows)
    low, high = min(0.1, table[["noise", "gap"]].min().min() / 1.3), max(4.0, table[["noise", "gap"]].max().max() * 1.3)
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = alt.Axis(values=[v for v in (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16) if low <= v <= high], format="~g")
    x = alt.X("noise:Q", title="noise ratio (other / trusted)", scale=scale, axis=ticks)
    y = alt.Y("gap:Q", title="gap ratio (other / trusted)", scale=scale, axis=ticks)
    diagonal = pd.DataFrame({"noise": [low, high], "gap": [low, high]})
    zones = pd.DataFrame(
        [
            {"noise": low * 1.15, "gap": high / 1.25, "text": "gap seen more clearly", "side": "left"},
            {"noise": high / 1.15, "gap": low * 1.25, "text": "gap masked", "side": "right"},
            {"noise": high / 1.15, "gap": high / 1.25, "text": "larger gap, more noise", "side": "right"},
            {"noise": low * 1.15, "gap": low * 1.25, "text": "proportional compression", "side": "left"},
        ]
    )
    base = alt.Chart(table).encode(x=x, y=y, tooltip=told("name", numbers=("gap", "noise")))
    point = base.encode(description=spoken())
    layers = [
        alt.Chart(diagonal).mark_line(color=QUIET, strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y),
        alt.Chart(pd.DataFrame({"v": [1]})).mark_rule(color=LINE).encode(x="v:Q"),
        alt.Chart(pd.DataFrame({"v": [1]})).mark_rule(color=LINE).encode(y="v:Q"),
        *(
            alt.Chart(zones[zones["side"] == side])
            .mark_text(align=side, color=QUIET, fontStyle="italic")
            .encode(x=x, y=y, text="text:N")
            for side in ("left", "right")
        ),
        point.transform_filter("!datum.front").mark_circle(size=26, opacity=0.45, color=QUIET),
        point.transform_filter("datum.front").mark_point(
            size=64, filled=True, opacity=1, color=COLOURS[1], shape=SHAPES[1]
        ),
        base.transform_filter("datum.front").mark_text(align="left", dx=8, color=INK).encode(text="name:N"),
    ]
    return styled(alt.layer(*layers).properties(width=320, height=300))


def paired_scores(reading: Reading, other: str) -> pd.DataFrame:
    """Return trusted and other score of each case that has both, joined by case; no case is named."""
    table = reading.scores
    own = table[(table["metric"] == reading.metric) & (table["label"] == reading.label)].dropna(subset=["value"])
    sides = [own.loc[own["ruler"] == ruler, ["case", "value"]] for ruler in (reading.trusted, other)]
    return (
        sides[0]
        .merge(sides[1], on="case", suffixes=("_trusted", "_other"))
        .rename(columns={"value_trusted": "trusted", "value_other": "other"})[["trusted", "other"]]
    )


def _spread(values: Floats) -> Floats:
    """Return where each dot stands beside the middle, wider where there are more; the same for the same scores."""
    if len(values) < 2 or np.ptp(values) == 0:
        return np.linspace(-0.6, 0.6, len(values)) if len(values) > 1 else np.zeros(len(values))
    counts, edges = np.histogram(values, bins=24)
    density = counts[np.clip(np.searchsorted(edges, values, side="right") - 1, 0, 23)] / counts.max()
    side = (np.arange(len(values)) * 0.6180339887498949) % 1.0 * 2 - 1
    return np.asarray(side * 0.85 * np.sqrt(density))
