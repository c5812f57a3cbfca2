"""A chart as static SVG or PDF, drawn without a browser; the SVG is light, and inert under a strict content policy."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from segaudit.reports.looks import SPOKEN

_SPOKEN = re.compile(rf'<path((?:(?! aria-label=)[^>])*?) aria-label="{re.escape(SPOKEN)}([^"]*)"([^>]*)/>')
_DROPPED = re.compile(
    r'<path class="(?:background|foreground)"[^>]*?d="(?:M0,0h0v0h0Z)?"[^>]*?/>'
    r"| (?:class|role|aria-[a-z]+|pointer-events|xmlns:xlink|stroke-miterlimit)=\"[^\"]*\""
    r'| (?:opacity|stroke-opacity|fill-opacity)="1"'
)
_EMPTY_GROUP = re.compile(r"<g(?:[^>]*[^/>])?></g>")
_PLAIN_GROUP = re.compile(r"<g>((?:<(?!/?g\b)[^>]*>|[^<])*)</g>")
_TAG = re.compile(r"<[^>]*>")
_DECIMALS = re.compile(r"(\d+\.\d\d)\d+")
_DOT = re.compile(r'<path transform="translate\(([-\d.]+),([-\d.]+)\)" d="(M[-\d.]+,0A[^"]+)"([^>]*)/>')
_RADIUS = re.compile(r"M([\d.]+),0A")
_MANY_DOTS = 400


def to_svg(chart: Any, title: str, alt: str, identity: str) -> str:
    """Return a chart as an SVG element with a title and a text alternative.

    Parameters
    ----------
    chart : Altair chart
    title, alt : str
        Escaped here.
    identity : str
        Unique in the page.
    """
    import vl_convert

    svg = tidy(vl_convert.vegalite_to_svg(specification(chart)))
    head = f'<title id="{identity}-title">{escape(title)}</title><desc id="{identity}-alt">{escape(alt)}</desc>'
    start = svg.index("<svg")
    opening = svg.index(">", start)
    named = f' role="img" aria-labelledby="{identity}-title {identity}-alt"'
    return svg[start:opening] + named + ">" + head + svg[opening + 1 :]


def to_pdf(chart: Any) -> bytes:
    """Return a chart as a PDF page of its size."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_pdf(specification(chart)))


def specification(chart: Any) -> dict[str, Any]:
    """Return the Vega-Lite specification of an Altair chart, or the specification that was given."""
    return dict(chart) if isinstance(chart, dict) else dict(chart.to_dict(validate=False))


def tidy(svg: str) -> str:
    """Return the SVG without what says nothing, a title in each mark that says something, many dots as one path."""
    svg = _DROPPED.sub("", _SPOKEN.sub(r"<path\1\3><title>\2</title></path>", svg))
    for _ in range(4):
        svg = _PLAIN_GROUP.sub(r"\1", _EMPTY_GROUP.sub("", svg))
    svg = _TAG.sub(lambda tag: _DECIMALS.sub(r"\1", tag[0]), svg)  # places alone: what is written keeps its digits
    return _gathered(svg) if len(_DOT.findall(svg)) > _MANY_DOTS else svg


def _gathered(svg: str) -> str:
    """Return the SVG with runs of equal dots as one path of points under a round pen."""
    parts: list[str] = []
    run: list[str] = []
    end, look = 0, ""
    for match in _DOT.finditer(svg):
        key = match[3] + match[4]
        if run and (match.start() != end or key != look):
            parts.append(_pen(run, look))
            run = []
        parts.append(svg[end : match.start()])
        run.append(f"M{match[1]} {match[2]}h0")
        end, look = match.end(), key
    return "".join([*parts, _pen(run, look) if run else "", svg[end:]])


def _pen(run: list[str], look: str) -> str:
    radius = _RADIUS.match(look)
    fill = re.search(r'fill="([^"]+)"', look)
    width = 2 * float(radius[1]) if radius else 3.0
    opacity = 0.6 if len(run) < 2000 else 0.4
    return (
        f'<path d="{"".join(run)}" fill="none" stroke="{fill[1] if fill else "#555"}" stroke-width="{width:.2f}"'
        f' stroke-linecap="round" opacity="{opacity}"/>'
    )
