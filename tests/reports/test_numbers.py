"""How numbers are written."""

import pytest

from segaudit.metrics import METRICS
from segaudit.reports import numbers

DICE, HD95 = METRICS["dice"], METRICS["hd95"]
NAN = float("nan")


@pytest.mark.parametrize(
    "cell, text, why",
    [
        (numbers.count(1254), "1,254", "thousands apart"),
        (numbers.count(NAN), "–", "no number is a dash"),
        (numbers.of(15, 16), "15/16", "a rate is its counts"),
        (numbers.of(0, 0), "–", "nobody has no rate"),
        (numbers.ratio(0.99666), "1.00", "two decimals"),
        (numbers.ratio(-0.001), "0.00", "no negative zero"),
        (numbers.ratio(-0.126), "−0.13", "a true minus"),
        (numbers.p_value(0.0004), "<0.001", "never 0"),
        (numbers.p_value(0.0005), "<0.001", "rounding up does not hide that it is below"),
        (numbers.p_value(0.05), "0.050", "three decimals"),
        (numbers.score(0.89691, DICE), "0.897", "a share has three decimals"),
        (numbers.score(2.504, HD95), "2.50 mm", "a distance has two and its unit"),
        (numbers.difference(-0.0316, DICE), "−3.2 points", "differences of shares in points"),
        (numbers.difference(0.0316, DICE), "+3.2 points", "signed"),
        (numbers.difference(0.0001, DICE), "0.0 points", "no sign on nothing"),
        (numbers.difference(1.234, HD95), "+1.23 mm", "distances in their unit"),
        (numbers.magnitude(-0.03, DICE), "3.0 points", "a size has no sign"),
    ],
)
def test_numbers__are_written_by_rule(cell, text, why):
    assert cell.text == text, why


def test_numbers__what_is_behind_a_text_has_four_digits():
    # so that a value that one person could be told by is not carried along
    assert numbers.score(0.123456789, DICE).value == 0.1235


def test_numbers__an_interval_without_a_limit_is_none():
    assert numbers.ratio_span(0.5, NAN) == ""
    assert numbers.ratio_span(0.5, 1) == "0.50 to 1.00"
