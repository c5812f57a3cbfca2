"""Charts of the confounders: one a table, the same for a run directory, a paper and a notebook.

Each `plot_*` takes the confounders and returns an Altair chart, or None where the table has nothing to draw. Groups
below the plan's `min_patients` are left out, and no chart shows a single person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from segaudit.confounders import Confounders
from segaudit.metrics import METRICS
from segaudit.reports.looks import COLOURS, INK, QUIET, SHADE, SHAPES, Chart, short, spoken_numbers, styled, told
from segaudit.reports.numbers import in_points, ratio, unit_of
from segaudit.scores import MACRO

_SIZES = {"volume_mm3": "volume (mm³)", "voxels": "voxels", "components": "pieces"}
_EFFECTS = {"rank_biserial": "r", "epsilon_squared": "ε²", "cramers_v": "V", "spearman": "ρ"}
_EFFECT_WORDS = "V: Cramér, r: rank-biserial, ρ: Spearman, ε²: epsilon squared"
_WITHOUT, _WITH = "without adjustment", "with adjustment"
_SISTERS = ("dice", "ndsc")
_TILE = {"width": 58, "height": 32}
_DARK = 0.78


def plot_anatomy(found: Confounders) -> Chart:
    """Return the mean size of each structure in each group over that of the reference group, with limits.

    Parameters
    ----------
    found : Confounders
    """
    table = found.anatomy
    of = ["ruler", "label", "quantity", "grouping"]
    groups = table[table["group"] != ""]
    first = groups.groupby(of, sort=False)[["group", "status"]].transform("first")
    # a ratio to a group that is too small says nothing of the other one
    drawn = groups[(groups["status"] == "ok") & (first["status"] == "ok") & (groups["group"] != first["group"])]
    if drawn.empty:
        return None
    tests = table.loc[table["group"] == "", [*of, "p", "q"]]
    rows = drawn.assign(reference=first["group"]).drop(columns=["p", "q"]).merge(tests, on=of, how="left")
    pairs = zip(rows["grouping"], rows["group"], rows["reference"], strict=True)
    return _forest(
        rows.assign(
            row=[_row(grouping, f"{group} / {reference}") for grouping, group, reference in pairs],
            panel=_joined([rows["label"], rows["quantity"].map(lambda name: _SIZES.get(name, name))]),
            series=rows["ruler"].map(_name),
            value=rows["ratio"],
            low=rows["ratio_low"],
            high=rows["ratio_high"],
        ),
        _Axis("mean over that of the reference group", middle=1.0),
        columns=rows["quantity"].nunique(),
        tips=("value", "low", "high", "mean", "median", "sd", "p", "q"),
    )  # fmt: skip


def plot_entanglement(found: Confounders) -> Chart:
    """Return how far every two of the attributes, scanner and site go together: the darker, the more.

    Parameters
    ----------
    found : Confounders
    """
    import altair as alt

    if found.entanglement.empty:
        return None
    table = found.entanglement.assign(first=found.entanglement["first"].map(_name))
    table["second"] = table["second"].map(_name)
    size = table["effect"].abs()
    # epsilon squared is a share of variance: its root stands beside the correlations
    table["shade"] = size.where(table["effect_name"] != "epsilon_squared", np.sqrt(size))
    table["text"] = [
        f"{_EFFECTS.get(name, '')} {ratio(value).text}" if np.isfinite(value) else "–"
        for name, value in zip(table["effect_name"], table["effect"], strict=True)
    ]
    table["shown"] = table["q"] < found.alpha
    title = [f"framed: q below {found.alpha:g}; –: not assessable", _EFFECT_WORDS]
    names = list(dict.fromkeys([*table["first"], *table["second"]]))
    across, down = ([name for name in names if name in set(table[side])] for side in ("first", "second"))
    look: dict[str, Any] = {"grid": False, "ticks": False, "domain": False, "labelLimit": 200}
    base = alt.Chart(table).encode(
        x=alt.X("first:N", sort=across, title=title, axis=alt.Axis(labelAngle=-40, **look)),
        y=alt.Y("second:N", sort=down, title=None, axis=alt.Axis(**look)),
        tooltip=told("first", "second", "test", "effect_name", "n_patients", "status",
                     numbers=("statistic", "effect", "p", "q", "min_expected"), digits=3),
    )  # fmt: skip
    colours = alt.Scale(domain=[0, 1], range=[SHADE, COLOURS[0]])
    # frames come last, on top of their neighbours
    tiles = base.mark_rect(stroke="white", strokeWidth=2).encode(
        color=alt.Color("shade:Q", scale=colours, legend=None),
        description=spoken_numbers("first", "second", "test", numbers=("effect", "p", "q"), digits=3),
    )
    frames = base.transform_filter("datum.shown").mark_rect(fillOpacity=0, stroke=INK, strokeWidth=2)
    words = base.mark_text().encode(
        text="text:N", color=alt.condition(f"datum.shade > {_DARK}", alt.value("white"), alt.value(INK))
    )
    return styled(
        alt.layer(tiles, frames, words).properties(
            width=_TILE["width"] * len(across), height=_TILE["height"] * len(down)
        )
    )


def plot_associations(found: Confounders, *, label: str = "") -> Chart:
    """Return the rank correlation of each score with the volume and with numbers, in all cases and in each group.

    Parameters
    ----------
    found : Confounders
    label : str
        Structure; by default all structures of a case together, else each structure.
    """
    rows = _of_label(found.associations, label)
    rows = rows[rows["rho"].notna() & ~rows["other"].isin(_SISTERS)]
    if rows.empty:
        return None
    return _forest(
        rows.assign(
            row=_groups(rows),
            panel=_joined([rows["metric"].map(_short_title) + " with " + rows["other"], *_varying(rows, "label")]),
            series=_scored(rows),
            value=rows["rho"],
        ),
        _Axis("Spearman's ρ", middle=0.0, domain=(-1.0, 1.0)),
        columns=rows["other"].nunique(),
        tips=("value", "low", "high", "p", "q"),
    )


def plot_adjusted(found: Confounders, *, metric: str = "", label: str = "") -> Chart:
    """Return the difference of the mean scores of two groups without and with each covariate, on the same cases.

    Parameters
    ----------
    found : Confounders
    metric : str
        Dice by default, else the first metric.
    label : str
        Structure; by default all structures of a case together, else each structure.
    """
    rows = _of_label(found.adjusted[found.adjusted["method"] == "ols"], label)
    rows = rows[rows["value"].notna()]
    metric = metric or next((name for name in (_SISTERS[0], *rows["metric"]) if name in set(rows["metric"])), "")
    rows = rows[rows["metric"] == metric]
    if rows.empty:
        return None
    card = METRICS[metric]
    pairs = zip(rows["grouping"], rows["group"], rows["reference_group"], strict=True)
    rows = rows.assign(
        row=[_row(grouping, f"{group} − {reference}") for grouping, group, reference in pairs],
        panel=_joined([*_varying(rows, "model", "ruler", "label"), "adjusted for " + rows["adjusted_for"]]),
    )
    numbers = ["value", "low", "high", "p", "q"]
    with_it = rows.drop(columns=numbers).rename(columns={f"adjusted_{name}": name for name in numbers})
    both = pd.concat([rows.assign(series=_WITHOUT), with_it[with_it["value"].notna()].assign(series=_WITH)])
    both[numbers[:3]] *= 100.0 if in_points(card) else 1.0
    title = f"difference in {_short_title(metric)}{f', {unit_of(card)}' if unit_of(card) else ''}"
    return _forest(
        both,
        _Axis(title, middle=0.0),
        columns=rows["adjusted_for"].nunique(),
        order=(_WITHOUT, _WITH),
        tips=tuple(numbers),
    )


def plot_dice_ndsc(found: Confounders, *, label: str = "") -> Chart:
    """Return the mean Dice and the mean nDSC of all cases and of each group, joined.

    Parameters
    ----------
    found : Confounders
    label : str
        Structure; by default all structures of a case together, else each structure.
    """
    rows = _of_label(found.associations, label)
    rows = rows[(rows["metric"] == _SISTERS[0]) & (rows["other"] == _SISTERS[1])]
    rows = rows[(rows["status"] != "too_few_patients") & rows["mean"].notna() & rows["other_mean"].notna()]
    if rows.empty:
        return None
    rows = rows.assign(row=_groups(rows), panel=_joined([_scored(rows), *_varying(rows, "label")]))
    names = tuple(_short_title(name) for name in _SISTERS)
    both = pd.concat(
        rows.assign(series=name, value=rows[column], low=rows["mean"], high=rows["other_mean"])
        for name, column in zip(names, ("mean", "other_mean"), strict=True)
    )
    return _forest(both, _Axis("mean over patients"), columns=1, order=names, tips=("value",), joined=True)


@dataclass(frozen=True)
class Drawn:
    """A chart with the name of its file, its title and its text alternative."""

    name: str
    chart: Chart
    title: str
    alt: str


def confounder_charts(found: Confounders) -> Iterator[Drawn]:
    """Yield the charts of the confounders, those without anything to draw left out."""
    apart = "Groups below the smallest size are left out."
    every = (
        ("anatomy", plot_anatomy, "Size of the structures by group",
         f"Mean size in each group over that of the reference group, with limits. {apart} Numbers: anatomy.csv."),
        ("entanglement", plot_entanglement, "Which attributes, scanners and sites go together",
         "Effect size of every two; framed where q is below alpha. Numbers: entanglement.csv."),
        ("associations", plot_associations, "Scores with the volume and with numbers",
         f"Spearman's rho in all cases and in each group, with limits. {apart} Numbers: associations.csv."),
        ("adjusted", plot_adjusted, "Group differences without and with adjustment",
         "Difference of the mean scores of two groups on the same cases, with limits. Numbers: adjusted.csv."),
        ("dice-ndsc", plot_dice_ndsc, "Dice beside nDSC by group",
         f"Mean Dice and mean nDSC of all cases and of each group. {apart} Numbers: associations.csv."),
    )  # fmt: skip
    for name, plot, title, alt in every:
        chart = plot(found)
        if chart is not None:
            yield Drawn(name, chart, title, alt)


@dataclass(frozen=True)
class _Axis:
    """The axis of the numbers: its title, the value that says that there is no difference, and its ends."""

    title: str
    middle: float | None = None
    domain: tuple[float, float] | None = None

    def over(self, table: pd.DataFrame) -> _Axis:
        """Return the axis with ends that hold every number."""
        if self.domain is not None:
            return self
        numbers = table[["value", "low", "high"]].to_numpy(dtype=np.float64)
        ends = [*numbers[np.isfinite(numbers)], *([] if self.middle is None else [self.middle])]
        room = (max(ends) - min(ends)) * 0.04 or 0.05
        return replace(self, domain=(float(min(ends) - room), float(max(ends) + room)))


def _forest(
    table: pd.DataFrame,
    axis: _Axis,
    *,
    columns: int,
    tips: Sequence[str],
    order: Sequence[str] = (),
    joined: bool = False,
) -> Chart:
    """Return panels with a point a row and series and its interval; names stand at the left panels alone."""
    import altair as alt

    axis = axis.over(table)
    order = list(order or dict.fromkeys(table["series"]))
    rows = list(dict.fromkeys(table["row"]))
    panels = list(dict.fromkeys(table["panel"]))
    columns = min(columns if columns > 1 else 3, len(panels), 5)
    kept = ["row", "panel", "series", "n_patients", *dict.fromkeys([*tips, "value", "low", "high"])]
    parts = [
        _panel(table.loc[table["panel"] == name, kept], rows, axis, order, tips, side=i % columns == 0, joined=joined)
        .properties(
            title=alt.Title(name, fontSize=11, fontWeight="normal", color=INK, anchor="start", limit=300),
            width=200 if columns > 1 else 300,
            height=max(18 if joined else 9 * len(order) + 9, 20) * len(rows),
        )
        for i, name in enumerate(panels)
    ]  # fmt: skip
    chart = parts[0] if len(parts) == 1 else alt.concat(*parts, columns=columns, spacing=18)
    return styled(chart).configure_legend(labelColor=INK, labelFontSize=11, labelLimit=260, symbolSize=60)


def _panel(
    own: pd.DataFrame,
    rows: Sequence[str],
    axis: _Axis,
    order: Sequence[str],
    tips: Sequence[str],
    *,
    side: bool,
    joined: bool,
) -> Chart:
    import altair as alt

    colour, shape = _series(order, COLOURS, alt.Color), _series(order, SHAPES, alt.Shape)
    # a panel without names begins with a line
    names = alt.Axis(grid=True, ticks=False, domain=not side, labelLimit=280, labelPadding=8, labels=side)
    y = alt.Y("row:N", sort=list(rows), scale=alt.Scale(domain=list(rows)), title=None, axis=names)
    scale = alt.Scale(domain=list(axis.domain or ()), nice=False, zero=False)
    numbers = alt.Axis(tickCount=5)
    base = alt.Chart(own).encode(y=y)
    if joined:  # one line between the two points of a row
        spread, points = base.mark_rule(strokeWidth=1.6, color=QUIET), base.encode(color=colour)
    else:
        offset = alt.YOffset("series:N", sort=list(order), scale=alt.Scale(paddingOuter=0.6))
        points = base.encode(color=colour, yOffset=offset)
        spread = points.mark_rule(strokeWidth=1.6)
    x = alt.X("value:Q", title=axis.title, scale=scale, axis=numbers)
    layers = [
        spread.transform_filter("isValid(datum.low)").encode(
            x=alt.X("low:Q", title=axis.title, scale=scale), x2="high:Q"
        ),
        points.mark_point(filled=True, size=46, opacity=1).encode(
            x=x,
            shape=shape,
            tooltip=told("row", "panel", "series", "n_patients", numbers=tuple(tips), digits=3),
            description=spoken_numbers("row", "panel", "series", numbers=tuple(tips), digits=3),
        ),
    ]
    if axis.middle is not None:
        rule = alt.Chart(pd.DataFrame({"x": [axis.middle]})).mark_rule(color=QUIET)
        layers.insert(0, rule.encode(x=alt.X("x:Q", scale=scale, title=axis.title)))
    return alt.layer(*layers)


def _series(order: Sequence[str], values: Sequence[str], channel: Any) -> Any:
    """Return the colours or the shapes of the series, told below the panels where there are several."""
    import altair as alt

    # beyond the last colour, colours come again with other shapes
    turn = 1 if channel is alt.Shape else 0
    ranged = [values[(i + turn * (i // len(values))) % len(values)] for i in range(len(order))]
    legend = alt.Legend(orient="bottom", title=None, columns=3, columnPadding=28) if len(order) > 1 else None
    return channel("series:N", legend=legend, sort=list(order), scale=alt.Scale(domain=list(order), range=ranged))


def _of_label(table: pd.DataFrame, label: str) -> pd.DataFrame:
    """Return the rows of a structure; of all structures together where there are such rows and none is named."""
    label = label or (MACRO if (table["label"] == MACRO).any() else "")
    return table[table["label"] == label] if label else table


def _name(text: str) -> str:
    # an axis cuts a long name off where it is drawn: cut here, two names could become one
    return short(text, 200)


def _short_title(metric: str) -> str:
    return {"hd95": "HD95", "ndsc": "nDSC"}.get(metric, METRICS[metric].title)


def _row(grouping: str, group: str) -> str:
    return _name(f"{grouping}: {group}") if grouping else "all"


def _groups(rows: pd.DataFrame) -> list[str]:
    return [_row(grouping, group) for grouping, group in zip(rows["grouping"], rows["group"], strict=True)]


def _scored(rows: pd.DataFrame) -> pd.Series:
    """Return what was scored against what: the ruler alone where there is one model."""
    return _joined([*_varying(rows, "model"), rows["ruler"]])


def _varying(rows: pd.DataFrame, *columns: str) -> list[pd.Series]:
    """Return those of the columns that tell rows apart."""
    return [rows[column] for column in columns if len(set(rows[column])) > 1]


def _joined(parts: Sequence[pd.Series]) -> pd.Series:
    return pd.concat(list(parts), axis=1).agg(", ".join, axis=1).map(_name)
