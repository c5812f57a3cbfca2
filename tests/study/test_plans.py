import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.study.accounts import estimate, folds_table, regimes_table
from segaudit.study.conditions import condition
from segaudit.study.plans import plan_study
from segaudit.study.steps import steps_of

_spec = importlib.util.spec_from_file_location("study_conftest", Path(__file__).with_name("conftest.py"))
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)


def codes(error):
    return sorted(finding.code for finding in error.value.findings)


@pytest.fixture(scope="module")
def study_size(tmp_path_factory):
    """1,142 exams of 1,119 patients: 914 for development, of which 365 gold, and 228 for the test, 76 of them gold."""
    rng = np.random.default_rng(1)
    n, n_test = 1142, 228
    cases = [f"593973-{i:06d}" for i in range(n)]
    # 23 patients have a second exam, on the same side
    patients = [f"p{i:06d}" for i in range(n)]
    for i in range(23):
        patients[40 * i + 1] = patients[40 * i]
    people = {
        "case": cases,
        "patient": patients,
        "sex": rng.choice(["Female", "Male"], n),
        "race": rng.choice(["White", "Black or African American", "Other"], n, p=[0.65, 0.3, 0.05]),
        "age": rng.integers(18, 90, n),
    }
    for i in range(23):
        for name in ("sex", "race", "age"):
            people[name][40 * i + 1] = people[name][40 * i]
    parts = {case: "test" if i >= n - n_test else ("train", "val")[i % 8 == 0] for i, case in enumerate(cases)}
    gold = [*cases[:365], *cases[n - n_test : n - n_test + 76]]
    folder = tmp_path_factory.mktemp("sizes") / "study"
    path = made.write_study(
        folder,
        people,
        parts,
        gold=gold,
        n_folds=5,
        stratify=["race", "age:40,60", "sex"],
        regimes=[
            {"name": "mixed", "labels": ["expert", "silver"]},
            {"name": "gold", "labels": ["expert"], "cases": "gold.csv"},
            {"name": "silver", "labels": ["silver"], "cases": "silver.csv"},
        ],
    )
    # each regime of the study was balanced by itself, which left 332 of 365 and 516 of 549
    pd.DataFrame({"case": cases[:332]}).to_csv(folder / "gold.csv", index=False)
    pd.DataFrame({"case": cases[365 : 365 + 516]}).to_csv(folder / "silver.csv", index=False)
    return path, dict(zip(cases, patients, strict=True)), parts


def test_plan__three_regimes_at_the_studys_size_are_thirty_trainings(study_size):
    path, patient_of, _parts = study_size
    plan = plan_study(path)
    assert {one.name: len(one.exams) for one in plan.regimes} == {"mixed": 914, "gold": 332, "silver": 516}
    assert len(plan.trainings()) == 30
    assert estimate(plan).trainings == 30
    assert len(plan.test) == 228
    tested = {patient_of[case] for case in plan.test}
    for one in plan.regimes:
        expected = {patient_of[exam.case] for exam in one.exams}
        assert one.trained_on() == expected
        assert not one.trained_on() & tested
        assert sorted(case for pair in one.pairs for case in pair.val) == [exam.case for exam in one.exams]
        for fold in one.folds:
            pair = one.pair(fold)
            assert one.trained_on(fold) == {patient_of[case] for case in pair.train}
            assert not one.trained_on(fold) & {patient_of[case] for case in pair.val}, "a patient is on two sides"
    assert regimes_table(plan)["trainings"].tolist() == [10, 10, 10]
    assert folds_table(plan)["test patients in it"].eq(0).all()


def test_plan__labels_come_from_the_first_source_that_has_the_case(study_size):
    mixed = plan_study(study_size[0]).regime("mixed")
    kinds = pd.Series([exam.kind for exam in mixed.exams]).value_counts().to_dict()
    assert kinds == {"machine": 549, "expert": 365}
    assert all(
        Path(exam.label).parent.name == {"expert": "expert", "machine": "silver"}[exam.kind] for exam in mixed.exams
    )


def test_plan__a_study_of_predicted_labels_orders_its_steps(tmp_path):
    people, parts, gold = made.small_people()
    path = made.write_study(
        tmp_path / "s",
        people,
        parts,
        gold=gold,
        reference=["expert"],
        network={"plan_from": "gold"},
        regimes=[
            {"name": "mixed", "labels": ["expert", "origin"]},
            {"name": "gold", "labels": ["expert"]},
            {"name": "origin", "labels": ["expert"], "folds": "all", "audited": False},
        ],
        rulers=[{"made_by": "gold"}, {"trained_on": "age < 40", "folds": "all", "configurations": ["2d"]}],
    )
    plan = plan_study(path)
    mixed, origin, young = (plan.regime(name) for name in ("mixed", "origin", "age-below-40"))
    lent = {exam.case for exam in mixed.exams if exam.source == "origin"}
    assert lent == set(origin.predicted), "the origin predicts what is learned from it, and no more"
    assert young.trained_on() == {exam.patient for exam in young.exams}
    ages = dict(zip(people["case"], people["age"], strict=True))
    assert young.exams
    assert all(ages[exam.case] < 40 for exam in young.exams)
    assert set(young.predicted) == set(plan.test)
    steps = steps_of(plan)
    place = {step.name: i for i, step in enumerate(steps)}
    assert all(place[need] < place[step.name] for step in steps for need in step.needs)
    assert "clean/origin" in next(step for step in steps if step.name == "prepare/mixed").needs
    assert sum(step.verb == "train" for step in steps) == 2 * 2 * 2 + 2 + 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("age < 40", [True, False, False, False]),
        ("age<=40", [True, True, False, False]),
        ("age >= 40", [False, True, True, False]),
        ("sex = Female", [True, False, True, False]),
        ("sex == 'Female'", [True, False, True, False]),
        ("sex != Female", [False, True, False, False]),
    ],
)
def test_condition__a_missing_value_meets_none(text, kept):
    cases = pd.DataFrame({"age": [30.0, 40.0, 60.0, np.nan], "sex": ["Female", "Male", "Female", None]})
    assert condition(text, cases, "here").tolist() == kept


@pytest.mark.parametrize(
    ("text", "code"), [("young", "STUDY_CONDITION"), ("size < 4", "UNKNOWN_ATTRIBUTE"), ("sex < 4", "STUDY_CONDITION")]
)
def test_condition__says_what_is_wrong(text, code):
    with pytest.raises(AuditError) as error:
        condition(text, pd.DataFrame({"case": ["a"], "sex": ["Female"]}), "here")
    assert codes(error) == [code]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"test": ["holdout"]}, ["STUDY_PART_UNKNOWN"]),
        ({"regimes": [{"name": "mixed", "labels": ["experts"]}], "rulers": []}, ["STUDY_SOURCE_UNKNOWN"]),
        (
            {
                "regimes": [{"name": "a", "labels": ["b"]}, {"name": "b", "labels": ["a"]}],
                "rulers": [],
                "reference": ["nobody"],
            },
            ["STUDY_CYCLE", "STUDY_CYCLE", "STUDY_REFERENCE_MISSING", "STUDY_SOURCE_UNKNOWN"],
        ),
        (
            {"regimes": [{"name": "m", "labels": ["expert"], "where": ["age > 99"]}], "rulers": []},
            ["STUDY_REGIME_EMPTY"],
        ),
        ({"rulers": [{"made_by": "gold"}, {"mask_set": "expert", "name": "gold"}]}, ["STUDY_RULER_NAME"]),
        ({"rulers": [{"mask_set": "silver", "name": "expert"}]}, ["STUDY_RULER_NAME"]),
        ({"rulers": [{"mask_set": "silver", "name": "gold"}]}, ["STUDY_RULER_NAME"]),
        ({"reference": ["expert"], "regimes": [{"name": "expert", "labels": ["expert"]}]}, ["TOML_VALUE"]),
        (
            {"reference": ["expert"], "regimes": [{"name": "expert", "labels": ["expert"]}], "rulers": []},
            ["STUDY_RULER_NAME", "STUDY_RULER_NAME"],
        ),
        ({"regimes": [{"name": "gold", "labels": ["expert"]}]}, ["STUDY_NO_MODEL"]),
        ({"trusted": "silver"}, ["STUDY_NO_EXPERT"]),
        ({"n_folds": 20}, ["PATIENTS_TOO_FEW"]),
        ({"rulers": [{"made_by": "bronze"}]}, ["TOML_VALUE"]),
        ({"audit": {"models": ["mixed"]}}, ["TOML_VALUE"]),
    ],
)
def test_plan__names_what_is_wrong_at_once(tmp_path, changes, expected):
    people, parts, gold = made.small_people()
    with pytest.raises(AuditError) as error:
        plan_study(made.write_study(tmp_path / "s", people, parts, gold=gold, **changes))
    assert codes(error) == expected


def test_plan__refuses_a_patient_on_both_sides(tmp_path):
    people, parts, gold = made.small_people()
    people["patient"][0] = people["patient"][-1]
    people["sex"][0], people["age"][0] = people["sex"][-1], people["age"][-1]
    with pytest.raises(AuditError, match=r"1 patient is in development and in test \(p23\)"):
        plan_study(made.write_study(tmp_path / "s", people, parts, gold=gold))


def test_plan__names_every_case_without_an_image(small_study):
    for case in ("c03", "c23"):
        (small_study.parent / "images" / f"{case}_0000.nii.gz").unlink()
    with pytest.raises(AuditError, match=r"2 cases have no image \(c03, c23\)"):
        plan_study(small_study)


def test_plan__tells_of_a_mask_that_belongs_to_no_case(small_study):
    (small_study.parent / "expert" / "stranger.nii.gz").write_bytes(b"of nobody")
    findings = plan_study(small_study).findings
    assert any("stranger" in finding.message for finding in findings)
    assert {finding.level for finding in findings} == {"warning"}
