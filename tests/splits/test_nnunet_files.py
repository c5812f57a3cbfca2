"""splits_final.json: written whole, read strictly, checked, and tried on other people's files."""

import json

import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import TrainVal, check_folds, folds, read_nnunet_splits, write_nnunet_splits


def _codes(findings):
    return sorted((finding.code, finding.level) for finding in findings)


@pytest.fixture
def made():
    patients = [f"p{n // 2}" for n in range(12)]
    cases = pd.DataFrame({"case": [f"{p}_{n % 2}" for n, p in enumerate(patients)], "patient": patients})
    return folds(cases, 3, seed=1)


def test_write_nnunet_splits__round_trips_and_leaves_no_draft(made, tmp_path):
    path = tmp_path / "splits_final.json"
    path.write_text("old")
    write_nnunet_splits(made, path)
    assert read_nnunet_splits(path) == made.pairs()
    assert [one.name for one in tmp_path.iterdir()] == ["splits_final.json"]
    data = json.loads(path.read_text())
    assert [sorted(fold) for fold in data] == [["train", "val"]] * 3
    write_nnunet_splits(made.pairs()[:1], path)
    assert read_nnunet_splits(path) == made.pairs()[:1]


def test_write_nnunet_splits__a_missing_folder_is_a_finding(made, tmp_path):
    with pytest.raises(AuditError, match="FILE_UNWRITABLE"):
        write_nnunet_splits(made, tmp_path / "none" / "splits_final.json")


@pytest.mark.parametrize(
    ("text", "code", "fact"),
    [
        ("[{", "FOLDS_MALFORMED", "no valid JSON"),
        ("[" * 100_000, "FOLDS_MALFORMED", "no valid JSON"),
        ("\xff", "FOLDS_MALFORMED", "no valid JSON"),
        ('{"train": [], "val": []}', "FOLDS_SHAPE", "an object where a list of folds is due"),
        ("3", "FOLDS_SHAPE", "no list"),
        ("[]", "FOLDS_SHAPE", "empty"),
        ('[["a"]]', "FOLDS_SHAPE", "fold 0 is no object"),
        ('[{"train": ["a"], "val": ["b"]}, {"val": ["b"]}]', "FOLDS_SHAPE", "fold 1 has no 'train' (it has 'val')"),
        ('[{"train": "a", "val": ["b"]}]', "FOLDS_SHAPE", "'train' of fold 0 is no list"),
        ('[{"train": [1, 2], "val": ["b"]}]', "FOLDS_SHAPE", "2 of 2 cases are no text: '1', '2'"),
        ('[{"train": ["a"], "train": ["c"], "val": ["b"]}]', "FOLDS_SHAPE", "'train' is given twice"),
    ],
)
def test_read_nnunet_splits__says_what_is_wrong(tmp_path, text, code, fact):
    path = tmp_path / "splits_final.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(AuditError) as error:
        read_nnunet_splits(path)
    assert {finding.code for finding in error.value.findings} == {code}
    assert fact in str(error.value)
    assert str(path) in error.value.findings[0].where


def test_read_nnunet_splits__missing_file_and_folder_are_findings(tmp_path):
    with pytest.raises(AuditError, match="FILE_MISSING"):
        read_nnunet_splits(tmp_path / "none.json")
    with pytest.raises(AuditError, match="FILE_UNREADABLE"):
        read_nnunet_splits(tmp_path)


A, B = ("a1", "a2"), ("b1", "b2")
RULE = "^([a-z])"


@pytest.mark.parametrize(
    ("pairs", "expected", "why"),
    [
        ([(A, B), (B, A)], [], "whole patients, complements"),
        ([(A, ("b1",)), (("b1",), A)], [], "b2 is simply not there"),
        ([(("a1", "b1"), ("a2", "b2")), (("a2", "b2"), ("a1", "b1"))], ["FOLD_PATIENT_LEAK"] * 2, "both on both sides"),
        ([(A, ("a1", *B)), (B, ("a2",))], ["FOLD_OVERLAP", "FOLD_CASE_LEFT_OUT", "FOLD_PATIENT_LEAK"], "a1 twice"),
        ([(A, B), (B, (*A, "b1"))], ["FOLD_OVERLAP", "FOLD_PATIENT_LEAK", "FOLD_VAL_TWICE"], "b1 is validated twice"),
        ([(A, B), (A, B)], ["FOLD_NEVER_VALIDATED", "FOLD_VAL_TWICE"], "the same fold again"),
        ([(A, B), (A, ())], ["FOLD_EMPTY", "FOLD_NEVER_VALIDATED"], "nobody to validate on"),
        ([(A, B)], ["FOLD_NEVER_VALIDATED"], "a hold-out"),
        ([((*A, "a1"), B), (B, A)], ["FOLD_CASE_REPEATED"], "a1 twice in one list"),
        ([((*A, "7"), B), (B, (*A, "7"))], ["FOLD_PATIENT_UNKNOWN"], "no letter to be found"),
    ],
)
def test_check_folds__truth_table(pairs, expected, why):
    found = check_folds([TrainVal(*pair) for pair in pairs], RULE)
    assert sorted(finding.code for finding in found) == sorted(expected), why


def test_check_folds__a_hold_out_is_a_note_and_cases_are_held_against_the_cohort():
    found = check_folds([TrainVal(A, B)], cases={"a1", "a2", "b1", "c1"}, where="splits_final.json")
    assert _codes(found) == [
        ("FOLD_CASE_ABSENT", "warning"),
        ("FOLD_CASE_UNKNOWN", "error"),
        ("FOLD_NEVER_VALIDATED", "note"),
        ("FOLD_PATIENTS_UNCHECKED", "note"),
    ]
    assert all(finding.where.startswith("splits_final.json") for finding in found)


@pytest.mark.parametrize("rule", ["(", "^[a-z]", "(a)(b)"])
def test_check_folds__a_rule_has_exactly_one_group(rule):
    with pytest.raises(AuditError, match="PATIENT_RULE_MALFORMED"):
        check_folds([TrainVal(A, B)], rule)


@pytest.mark.parametrize(
    ("project", "n_folds", "rule", "expected"),
    [
        ("Bonnet", 5, r"^(s\d+)$", {}),
        ("UoN-Project", 5, r"^(data_\d+)$", {}),
        ("TesisSegMamba", 5, r"^(\d+)$", {}),
        ("metaseg", 5, r"^(BraTS-MET-\d+)-", {}),
        # five parts of each of four volumes, dealt singly
        ("Bachelor-Thesis", 5, r"^(dub_\d+)_part", {"FOLD_PATIENT_LEAK": 5}),
        ("ML-Quiz-3DMedImg", 1, r"^(quiz_\d_\d+)$", {"FOLD_NEVER_VALIDATED": 1}),
        # one fold filled, four left empty on both sides
        ("TotalSegmentator-to-nnUNet-format-convert", 5, r"_(\d+)$", {"FOLD_EMPTY": 8, "FOLD_NEVER_VALIDATED": 1}),
        # the leading number names the patient; several films of one child stand on both sides
        ("Wrist_Joint_segmentation_nnU-Net", 1, r"^(\d+)-", {"FOLD_PATIENT_LEAK": 1, "FOLD_NEVER_VALIDATED": 1}),
    ],
)
def test_check_folds__real_projects(shared, project, n_folds, rule, expected):
    pairs = read_nnunet_splits(shared / "data" / "nnunet_json" / project / "splits_final.json")
    assert len(pairs) == n_folds
    codes = [finding.code for finding in check_folds(pairs, rule)]
    assert {code: codes.count(code) for code in codes} == expected


@pytest.mark.parametrize("name", ["UoN-Project/val_group.json", "TesisSegMamba/lits_kfold.json"])
def test_read_nnunet_splits__other_fold_files_are_refused(shared, name):
    with pytest.raises(AuditError, match="FOLDS_SHAPE"):
        read_nnunet_splits(shared / "data" / "nnunet_json" / name)
