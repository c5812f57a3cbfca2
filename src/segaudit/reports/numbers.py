"""How numbers are written: one rule a kind, the same digits in the page, in LaTeX and in JSON."""

from __future__ import annotations

import math

from segaudit.metrics import Metric
from segaudit.reports.document import Cell

NONE = "–"
MINUS = "−"
TO = " to "


def _fixed(value: float, digits: int) -> str:
    """Return a number with so many decimals and a true minus; never a negative zero."""
    text = f"{value:.{digits}f}"
    if text.startswith("-"):
        text = text[1:] if float(text) == 0 else MINUS + text[1:]
    return text


def is_number(value: object) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _cell(value: float, text: str) -> Cell:
    return Cell(text, float(f"{value:.4g}"))


def count(value: float | None) -> Cell:
    """Return a whole number, thousands apart by a comma."""
    return _cell(value, f"{int(value):,}") if value is not None and is_number(value) else Cell(NONE)


def of(successes: float, cases: float) -> Cell:
    """Return a rate as k/n."""
    if not (is_number(successes) and is_number(cases)) or cases == 0:
        return Cell(NONE)
    return _cell(successes / cases, f"{int(successes)}/{int(cases)}")


def ratio(value: float, digits: int = 2) -> Cell:
    """Return a ratio or a share with two decimals."""
    return _cell(value, _fixed(value, digits)) if is_number(value) else Cell(NONE)


def p_value(value: float) -> Cell:
    """Return a p value with three decimals, or that it is below 0.001."""
    if not is_number(value):
        return Cell(NONE)
    return _cell(value, "<0.001" if value < 0.001 else _fixed(min(value, 1.0), 3))


def in_points(card: Metric) -> bool:
    """Return whether differences of the metric are told in points (hundredths)."""
    return card.unit == "1" and card.bounds == (0, 1)


def unit_of(card: Metric) -> str:
    """Return the unit in which differences of the metric are told."""
    return "points" if in_points(card) else "" if card.unit == "1" else card.unit


def score(value: float, card: Metric, *, unit: bool = True) -> Cell:
    """Return a score: three decimals for shares, two for the rest, with its unit."""
    if not is_number(value):
        return Cell(NONE)
    digits = 3 if in_points(card) else 2
    tail = f" {card.unit}" if unit and card.unit != "1" else ""
    return _cell(value, _fixed(value, digits) + tail)


def difference(value: float, card: Metric, *, unit: bool = True, digits: int = 1) -> Cell:
    """Return a difference of scores: points with one decimal, else the unit with one more; signed."""
    if not is_number(value):
        return Cell(NONE)
    shown = _fixed(value * 100, digits) if in_points(card) else _fixed(value, digits + 1)
    if value > 0 and float(shown) != 0:
        shown = "+" + shown
    return _cell(value, f"{shown} {unit_of(card)}".rstrip() if unit else shown)


def magnitude(value: float, card: Metric) -> Cell:
    """Return the size of a difference without its sign, with its unit."""
    if not is_number(value):
        return Cell(NONE)
    shown = _fixed(abs(value) * 100, 1) if in_points(card) else _fixed(abs(value), 2)
    return _cell(abs(value), f"{shown} {unit_of(card)}".rstrip())


def span(low: Cell, high: Cell) -> str:
    """Return an interval from its two limits, or nothing where there is none."""
    return "" if NONE in (low.text, high.text) else f"{low.text}{TO}{high.text}"


def ratio_span(low: float, high: float) -> str:
    """Return the interval of a ratio."""
    return span(ratio(low), ratio(high))


def difference_span(low: float, high: float, card: Metric, *, digits: int = 1) -> str:
    """Return the interval of a difference of scores, without its unit."""
    return span(difference(low, card, unit=False, digits=digits), difference(high, card, unit=False, digits=digits))
