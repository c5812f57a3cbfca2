"""The look of the charts: colours, shapes, axes, and what a pointer reads."""

from __future__ import annotations

from typing import Any, TypeAlias

from segaudit.reports.reading import Reading

Chart: TypeAlias = Any

# Okabe and Ito's colours; every ruler has a shape of its own, too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down")
INK, QUIET, LINE, SHADE = "#1c2026", "#5b6470", "#d9dde3", "#eef0f3"
# what a mark says in the page begins with this in the chart, and is a title in the SVG
SPOKEN = "told|"
# readers' fonts are wider than the one that the labels are laid out with
_PADDING = {"left": 16, "right": 12, "top": 6, "bottom": 4}


def short(text: str, length: int = 22) -> str:
    """Return a name that fits beside an axis, control and direction marks taken out."""
    plain = "".join(c for c in str(text) if c.isprintable())
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def axis_title(reading: Reading) -> str:
    """Return the title of the axis of the score in front."""
    unit = "" if reading.card.unit == "1" else f", {reading.card.unit}"
    return short(f"{reading.title()}{unit}", 60)


def names_axis(*, grid: bool = False) -> Any:
    """Return an axis of names, a second line after a bar."""
    import altair as alt

    return alt.Axis(
        labelAngle=0, grid=grid, ticks=False, domain=False, labelExpr="split(datum.value, '|')", labelPadding=6
    )


def colour(order: list[str]) -> Any:
    """Return the colour of each ruler, in order."""
    import altair as alt

    return alt.Color("ruler:N", legend=None, sort=order, scale=alt.Scale(domain=order, range=_ranged(COLOURS, order)))


def shape(order: list[str]) -> Any:
    """Return the shape of each ruler, in order."""
    import altair as alt

    return alt.Shape("ruler:N", legend=None, sort=order, scale=alt.Scale(domain=order, range=_ranged(SHAPES, order)))


def _ranged(values: tuple[str, ...], order: list[str]) -> list[str]:
    return [values[i % len(values)] for i in range(max(len(order), 1))]


def styled(chart: Any) -> Chart:
    """Return a chart in the report's look."""
    font = "system-ui, sans-serif"
    return (
        chart.configure(font=font, background="transparent", padding=_PADDING)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=QUIET,
            titleColor=QUIET,
            gridColor=LINE,
            domainColor=LINE,
            tickColor=LINE,
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
            titlePadding=8,
        )
        .configure_text(fontSize=11)
    )


def legend(reading: Reading) -> str:
    """Return how each ruler is drawn, in words."""
    words = {"triangle-up": "triangle", "triangle-down": "triangle on its tip"}
    return ", ".join(
        f"{words.get(s, s)}: {r}" for s, r in zip(_ranged(SHAPES, list(reading.rulers)), reading.rulers, strict=True)
    )


def spoken() -> Any:
    """Return the channel of what the page reads out at a mark: the table's column `spoken`, as `speech` wrote it."""
    import altair as alt

    return alt.Description("spoken:N")


def speech(*names: str, numbers: str) -> str:
    """Return what the page reads out at a mark: names that fit, and numbers as the tables write them."""
    return f"{SPOKEN}{', '.join(short(name, 60) for name in names if name)}: {numbers}"


def spoken_numbers(*names: str, numbers: tuple[str, ...], digits: int = 2) -> Any:
    """Return the channel of what the page reads out at a mark: columns by name, and the numbers that there are."""
    import altair as alt

    parts = [repr(SPOKEN), " + ', ' + ".join(f"datum[{name!r}]" for name in names)]
    parts += [f"(isValid(datum[{n!r}]) ? {f'; {n} '!r} + format(datum[{n!r}], '.{digits}f') : '')" for n in numbers]
    return alt.DescriptionValue(alt.ExprRef(" + ".join(parts)))


def told(*names: str, numbers: tuple[str, ...], digits: int = 2) -> list[Any]:
    """Return what a pointer reads at a mark in a notebook: the names, and the numbers with so many decimals."""
    import altair as alt

    figures = [alt.Tooltip(f"{number}:Q", format=f".{digits}f") for number in numbers]
    return [*(alt.Tooltip(f"{name}:N") for name in names), *figures]
