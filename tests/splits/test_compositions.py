"""Table 1."""

import json

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import composition


@pytest.fixture
def cases():
    return pd.DataFrame(
        {
            "case": ["a1", "a2", "b1", "c1", "d1", "e1"],
            "patient": ["a", "a", "b", "c", "d", "e"],
            "split": ["train", "train", "train", "test", "test", "test"],
            "sex": ["F", "F", "M", "F", None, "F"],
            "age": [30.0, 40.0, 50.0, 90.0, np.nan, 70.0],
            "age_top_coded": [False, False, False, True, False, False],
        }
    )


def _cell(table, part, attribute, level):
    return table.set_index(["part", "attribute", "level"]).loc[(part, attribute, level)]


def test_composition__counts_exams_and_patients(cases):
    table = composition(cases, ["sex"], by=["split"])
    assert table["part"].drop_duplicates().tolist() == ["(all)", "test", "train"]
    rows = table[table["attribute"] == "sex"]
    assert rows[["part", "level", "n_cases", "n_patients"]].to_numpy().tolist() == [
        ["(all)", "F", 4, 3],
        ["(all)", "M", 1, 1],
        ["(all)", "(missing)", 1, 1],
        ["test", "F", 2, 2],
        ["test", "M", 0, 0],
        ["test", "(missing)", 1, 1],
        ["train", "F", 2, 1],
        ["train", "M", 1, 1],
        ["train", "(missing)", 0, 0],
    ]
    cell = _cell(table, "train", "sex", "F")
    assert (cell["pct_cases"], cell["pct_patients"]) == (pytest.approx(200 / 3), 50)
    size = _cell(table, "(all)", "(all)", "(all)")
    assert (size["n_cases"], size["n_patients"], size["pct_cases"]) == (6, 5, 100)


def test_composition__top_coded_and_missing_numbers_are_counted_apart(cases):
    table = composition(cases, ["age"], by=["split"])
    assert _cell(table, "(all)", "age", "(number)")["n_cases"] == 4
    assert _cell(table, "(all)", "age", "(top-coded)")["n_cases"] == 1
    assert _cell(table, "(all)", "age", "(missing)")["n_patients"] == 1
    known = _cell(table, "(all)", "age", "(number)")
    values = np.array([30.0, 40.0, 50.0, 70.0])
    assert known["mean"] == values.mean()
    assert known["sd"] == pytest.approx(values.std(ddof=1))
    assert [known[name] for name in ("median", "q25", "q75", "min", "max")] == [45, 37.5, 55, 30, 70]
    assert pd.isna(_cell(table, "(all)", "age", "(missing)")["mean"])


def test_composition__standardised_differences_count_each_patient_once(cases):
    cases = cases.assign(age_top_coded=False)
    table = composition(cases, ["sex", "age"], by=["split"])
    # train: a F, b M; test: c F, d missing, e F
    left, right = 1 / 2, 2 / 3
    spread = np.sqrt((left * (1 - left) + right * (1 - right)) / 2)
    assert _cell(table, "(all)", "sex", "F")["max_std_difference"] == pytest.approx((right - left) / spread)
    # train: a 30, b 50; test: c 90, e 70
    assert _cell(table, "(all)", "age", "(number)")["max_std_difference"] == pytest.approx(40 / np.sqrt(200))
    assert table.loc[table["part"] != "(all)", "max_std_difference"].isna().all()
    assert composition(cases, ["sex"])["max_std_difference"].isna().all()


def test_composition__crosses_the_columns_of_parts(cases):
    table = composition(cases, ["age"], by=["split", "sex"])
    assert table["part"].drop_duplicates().tolist() == [
        "(all)",
        "test / (missing)",
        "test / F",
        "train / F",
        "train / M",
    ]


def test_composition__has_the_published_percentages(shared):
    published = json.loads((shared / "reference" / "published.json").read_text())["table1_cohort"]
    names = ["sex", "race", "ethnicity", "manufacturer", "magnetic_field_strength", "age_three_bins"]
    columns = {name: [str(row["value"]) for row in published[name] for _ in range(row["n"])] for name in names}
    ids = [f"c{number:04d}" for number in range(published["n0_exams"])]
    table = composition(pd.DataFrame({"case": ids, "patient": ids, **columns}), names)
    for name in names:
        for row in published[name]:
            cell = _cell(table, "(all)", name, str(row["value"]))
            assert cell["n_cases"] == row["n"]
            assert round(cell["pct_cases"], 1) == row["pct"]


def test_composition__unknown_columns_are_refused(cases):
    with pytest.raises(AuditError, match="COLUMN_MISSING: there is no column 'race'"):
        composition(cases, ["race"], by=["split"])
