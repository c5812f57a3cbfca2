"""Who, or what image, is on two sides."""

import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import assign, check_split, duplicates, folds, leak, patients_by_part

CASES = pd.DataFrame({"case": ["a1", "a2", "b1", "c1"], "patient": ["a", "a", "b", "c"]})


def test_leak__has_a_row_for_each_pair_also_without_a_shared_patient():
    table = leak({"train": ["a", "b", "a"], "test": ["b", "c"], "silver ruler": {"d"}})
    assert table[["left", "right", "n_left", "n_right", "n_shared", "examples"]].to_numpy().tolist() == [
        ["train", "test", 2, 2, 1, "b"],
        ["train", "silver ruler", 2, 1, 0, ""],
        ["test", "silver ruler", 2, 1, 0, ""],
    ]


def test_leak__shows_five_examples():
    many = [f"p{number}" for number in range(9)]
    (row,) = leak({"left": many, "right": many}).to_dict("records")
    assert (row["n_shared"], row["examples"]) == (9, "p0, p1, p2, p3, p4")


def test_leak__finds_nobody_shared_by_the_parts_of_a_split_or_by_folds(study_cases):
    split = assign(study_cases, {"train": 0.8, "test": 0.2}, seed=1)
    assert leak(patients_by_part(split.splits))["n_shared"].sum() == 0
    made = folds(study_cases, 5, seed=1)
    parts = patients_by_part(made.table, "fold")
    assert list(parts) == ["0", "1", "2", "3", "4"]
    assert leak(parts)["n_shared"].tolist() == [0] * 10


def test_duplicates__are_equal_contents_in_different_parts():
    splits = CASES.assign(split=["train", "train", "test", "test"])
    digests = {"a1": "x", "a2": "y", "b1": "x", "c1": "z", "elsewhere": "z"}
    assert duplicates(digests, splits).to_dict("records") == [
        {"digest": "x", "n_cases": 2, "n_patients": 2, "splits": "test, train", "cases": "a1, b1"}
    ]
    assert duplicates({"a1": "x", "a2": "x"}, splits).empty


@pytest.mark.parametrize(
    ("rows", "expected", "why"),
    [
        ([("a1", "x"), ("a2", "x"), ("b1", "y"), ("c1", "y")], [], "whole patients"),
        ([("a1", "x"), ("a2", "y"), ("b1", "y"), ("c1", "y")], ["SPLIT_PATIENT_LEAK"], "patient a on two sides"),
        ([("a1", "x"), ("a2", "x"), ("b1", "y")], ["SPLIT_CASE_ABSENT"], "c1 is nowhere"),
        ([("a1", "x"), ("a2", "x"), ("b1", "y"), ("c1", "y"), ("d1", "y")], ["SPLIT_CASE_UNKNOWN"], "whose is d1?"),
        (
            [("a1", "x"), ("a2", "x"), ("b1", "y"), ("b1", "x"), ("c1", "y")],
            ["SPLIT_CASE_TWICE", "SPLIT_PATIENT_LEAK"],
            "b1, and so b, is in both",
        ),
        ([("a1", "x"), ("a2", "x"), ("b1", "y"), ("c1", None)], ["SPLIT_CASE_ABSENT", "SPLIT_NULL"], "c1 has no part"),
    ],
)
def test_check_split__truth_table(rows, expected, why):
    found = check_split(pd.DataFrame(rows, columns=["case", "split"]), CASES, where="split.csv")
    assert sorted(finding.code for finding in found) == expected, why
    assert all(finding.where == "split.csv" for finding in found)
    assert {finding.code for finding in found if finding.level == "warning"} <= {"SPLIT_CASE_ABSENT"}


def test_check_split__takes_the_patient_of_the_cohort():
    splits = CASES.assign(patient=["a", "other", "b", "c"], split=["x", "y", "y", "y"])
    assert sorted(finding.code for finding in check_split(splits, CASES)) == [
        "SPLIT_PATIENT_DIFFERS",
        "SPLIT_PATIENT_LEAK",
    ]


def test_check_split__needs_its_columns_and_sound_cases():
    assert [finding.code for finding in check_split(CASES, CASES)] == ["COLUMN_MISSING"]
    with pytest.raises(AuditError, match="CASE_DUPLICATED"):
        check_split(CASES.assign(split="x"), pd.concat([CASES, CASES]))
