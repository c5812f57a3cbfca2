"""Gates: limits kept, broken, or without enough evidence."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pandas as pd
import pytest

from segaudit.config.base import check, read_toml
from segaudit.config.limits import Limits
from segaudit.errors import AuditError
from segaudit.gates import gate
from segaudit.tables import DISPARITIES, GROUPS, RULERS


def tables(value=0.9, low=0.85, high=1.0, status="ok"):
    cell = {"model": "mix", "ruler": "expert", "label": "macro", "metric": "dice", "grouping": "sex"}
    blank = dict.fromkeys(DISPARITIES.names()) | cell | {"disparity": "dir", "status": status}
    row = blank | {"value": value, "low": low, "high": high, "group": "", "reference_group": "", "method": ""}
    group = dict.fromkeys(GROUPS.names()) | cell | {"group": "Male", "n_patients": 8, "status": "too_few_patients"}
    shift = dict.fromkeys(RULERS.names()) | {**cell, "grouping": "", "trusted": "expert", "other": "silver"}
    shift = {k: v for k, v in shift.items() if k in RULERS.names()}
    shift |= {"quantity": "inflation", "value": 0.07, "low": 0.06, "high": 0.08, "status": "ok", "detail": ""}
    verdict = shift | {"quantity": "collapse", "value": "strong collapse"}
    return {
        "disparities": DISPARITIES.frame([row]),
        "groups": GROUPS.frame([group]),
        "rulers": RULERS.frame([shift, verdict]),
    }


def limits(**limit):
    return check({"limits": [limit]}, Limits, "limits.toml")


@pytest.mark.parametrize(
    "interval, status, outcome, code, why",
    [
        ((0.95, 0.85, 1.0), "ok", "pass", 0, "the whole interval keeps it"),
        ((0.60, 0.45, 0.75), "ok", "broken", 1, "the whole interval breaks it"),
        ((0.90, 0.70, 1.0), "ok", "not enough evidence", 3, "the interval holds the limit"),
        ((1.00, 0.72, 1.0), "saturated", "not enough evidence", 3, "a saturated ratio proves nothing at this size"),
        ((None, None, None), "too_few_patients", "not enough evidence", 3, "nothing was tested"),
    ],
)
def test_gate__judges_by_the_interval(interval, status, outcome, code, why):
    found = gate(tables(*interval, status), limits(quantity="dir", min=0.8))
    assert (found.outcome, found.exit_code) == (outcome, code), why


def test_gate__judges_by_the_estimate_when_asked():
    assert gate(tables(0.9, 0.7, 1.0), limits(quantity="dir", min=0.8, by="estimate")).outcome == "pass"


def test_gate__a_broken_limit_weighs_more_than_a_lack_of_evidence():
    both = check(
        {"limits": [{"quantity": "dir", "min": 0.8}, {"quantity": "inflation", "max": 0.02}]}, Limits, "limits.toml"
    )
    found = gate(tables(0.9, 0.7, 1.0), both)
    assert [c.outcome for c in found.checks] == ["not enough evidence", "broken"]
    assert found.exit_code == 1


def test_gate__the_size_of_a_small_group_is_known():
    assert gate(tables(), limits(quantity="n_patients", min=10)).outcome == "broken"
    assert gate(tables(), limits(quantity="median", min=0.8)).outcome == "not enough evidence"


def test_gate__an_unknown_name_is_bad_input():
    with pytest.raises(AuditError, match=r"LIMIT_UNKNOWN_NAME: there is no ruler 'expret'(.|\n)*did you mean 'expert'"):
        gate(tables(), limits(quantity="dir", min=0.8, ruler="expret"))


def test_gate__a_limit_on_rulers_needs_a_comparison():
    with pytest.raises(AuditError, match="LIMIT_NO_TABLE"):
        gate(tables() | {"rulers": pd.DataFrame()}, limits(quantity="inflation", max=0.1))


@pytest.mark.parametrize(
    "limit, why",
    [
        ({"quantity": "dir"}, "no bound"),
        ({"quantity": "dir", "min": 1, "max": 0.5}, "crossed bounds"),
        ({"quantity": "dri", "min": 1}, "unknown quantity"),
        ({"quantity": "dir", "min": 1, "rulr": "expert"}, "unknown key"),
    ],
)
def test_limits__are_checked(limit, why):
    with pytest.raises(AuditError, match="TOML_"):
        limits(**limit)


def test_limits__are_read_from_toml(tmp_path):
    path = Path(tmp_path / "limits.toml")
    path.write_text('[[limits]]\nquantity = "dir"\nmetric = "dice"\nmin = 0.8\n')
    assert read_toml(path, Limits).limits[0].title == "dir at least 0.8"


def test_gate__junit_and_markdown_hold_hostile_names():
    made = tables(0.5, 0.4, 0.6)
    made["disparities"]["grouping"] = '<b>"|]]>&\x00`x`'
    found = gate(made, limits(quantity="dir", min=0.8, name="floor <&>"))
    suite = ET.fromstring(found.junit())
    assert suite.attrib["failures"] == "1"
    assert suite[0].attrib["classname"] == "floor <&>"
    assert '<b>"|]]>&`x`' in suite[0].attrib["name"]
    row = found.markdown().splitlines()[-1]
    assert "<b>" not in row
    assert row.replace("\\|", "").count("|") == 5
