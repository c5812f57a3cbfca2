"""Equal counts of an attribute's levels, and the label regimes of one split."""

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import assign, balance, regimes

HALVES = {"a": 0.5, "b": 0.5}


@pytest.fixture
def small():
    sex = ["F"] * 12 + ["M"] * 6 + [None] * 2
    site = ["x", "y"] * 10
    patients = [f"p{n:02d}" for n in range(20)]
    return pd.DataFrame({"case": [f"{p}-0" for p in patients], "patient": patients, "sex": sex, "site": site})


def test_balance__study_size_gives_exactly_equal_sexes(study_cases):
    attributes = study_cases[["case", "sex", "race", "age_band"]]
    split = assign(study_cases, {"train": 0.7, "val": 0.1, "test": 0.2}, attributes, seed=42)
    for unit in ("case", "patient"):
        even = balance(split, study_cases, "sex", unit=unit, keep=study_cases[["case", "race", "age_band"]], seed=42)
        kept = even.splits.merge(study_cases[["case", "sex"]], on="case")
        counts = kept.pivot_table(index="split", columns="sex", values=unit, aggfunc="nunique")
        assert (counts["Female"] == counts["Male"]).all()
        assert len(even.splits) + len(even.dropped) == 1255
        dropped_sex = even.dropped.merge(study_cases[["case", "sex"]], on="case")["sex"]
        assert set(dropped_sex) == {"Female"}


def test_balance__keeps_the_other_strata_within_one(study_cases):
    attributes = study_cases[["case", "sex", "race", "age_band"]]
    split = assign(study_cases, {"train": 0.7, "test": 0.3}, attributes, seed=1)
    even = balance(split, study_cases, "sex", unit="case", keep=study_cases[["case", "age_band"]], seed=1)
    columns = study_cases[["case", "sex", "age_band"]]
    before, after = (
        pd.crosstab([held["split"], held["sex"]], held["age_band"])
        for held in (split.splits.merge(columns, on="case"), even.splits.merge(columns, on="case"))
    )
    target = before.mul(after.sum(axis=1) / before.sum(axis=1), axis=0)
    assert ((after - target).abs() < 1).all(axis=None)


def test_balance__drops_missing_levels_and_says_why(small):
    split = assign(small, HALVES, small[["case", "sex"]], seed=0)
    even = balance(split, small, "sex", seed=0)
    assert even.splits.merge(small, on="case").groupby(["split", "sex"]).size().tolist() == [3, 3, 3, 3]
    assert even.dropped["reason"].value_counts().to_dict() == {
        "a has 6 patients with sex F and 3 with M: 3 are kept": 3,
        "b has 6 patients with sex F and 3 with M: 3 are kept": 3,
        "sex is missing": 2,
    }
    assert even.manifest["balanced"][0]["n_dropped"] == 8
    assert even.manifest["assignment_digest"] != split.manifest["assignment_digest"]
    assert set(even.dropped["rule"]) == {"balance sex"}


def test_balance__golden_choice_never_changes(small):
    split = assign(small, HALVES, small[["case", "sex"]], seed=0)
    even = balance(split, small, "sex", keep=small[["case", "site"]], seed=2025)
    assert even.splits["patient"].tolist() == GOLDEN_KEPT


GOLDEN_KEPT = ["p01", "p04", "p05", "p06", "p08", "p10", "p12", "p13", "p14", "p15", "p16", "p17"]


def test_balance__patient_unit_drops_whole_patients(small):
    again = small.assign(case=small["patient"] + "-1")
    cases = pd.concat([small, again], ignore_index=True)
    split = assign(cases, HALVES, cases[["case", "sex"]], seed=0)
    even = balance(split, cases, "sex", unit="patient", seed=0)
    assert even.splits.groupby("patient").size().eq(2).all()


def test_balance__refuses_a_part_without_a_level(small):
    cases = small.assign(site=["x"] * 19 + ["y"])
    split = assign(cases, HALVES, seed=0)
    with pytest.raises(AuditError, match=r"patients: x 10, y 0") as error:
        balance(split, cases, "site", seed=0)
    assert [finding.code for finding in error.value.findings] == ["BALANCE_LEVEL_ABSENT"]
    with pytest.raises(AuditError, match="BALANCE_LEVELS_TOO_FEW"):
        balance(split, cases.assign(site="x"), "site", seed=0)
    with pytest.raises(AuditError, match="SPLIT_CASE_UNKNOWN"):
        balance(split, cases.iloc[1:], "site", seed=0)
    with pytest.raises(AuditError, match="COLUMN_MISSING"):
        balance(split, cases, "age", seed=0)


def test_balance__seed_decides_who_is_kept(small):
    split = assign(small, HALVES, small[["case", "sex"]], seed=0)
    kept = {tuple(balance(split, small, "sex", seed=seed).splits["case"]) for seed in range(5)}
    assert len(kept) > 1


def test_regimes__are_subsets_of_one_split_that_can_be_balanced(study_cases):
    rng = np.random.default_rng(3)
    cases = study_cases.assign(label=rng.choice(["gold", "silver"], p=[0.39, 0.61], size=len(study_cases)))
    split = assign(cases, {"train": 0.7, "val": 0.1, "test": 0.2}, cases[["case", "sex", "label"]], seed=1)
    made = regimes(split, cases, "label", {"mixed": ["gold", "silver"], "gold": ["gold"], "silver": ["silver"]})
    assert list(made) == ["mixed", "gold", "silver"]
    pd.testing.assert_frame_equal(made["mixed"].splits, split.splits)
    parts = pd.concat([made["gold"].splits, made["silver"].splits]).sort_values("case", ignore_index=True)
    pd.testing.assert_frame_equal(parts, split.splits)
    assert set(made["gold"].splits.merge(cases, on="case")["label"]) == {"gold"}
    assert made["gold"].manifest["regime"] == {"name": "gold", "column": "label", "allowed": ["gold"]}
    even = balance(made["gold"], cases, "sex", unit="case", seed=1)
    held = even.splits.merge(cases, on="case")
    counts = pd.crosstab(held["split"], held["sex"])
    assert (counts["Female"] == counts["Male"]).all()


def test_regimes__refuses_unknown_values_and_empty_parts(small):
    split = assign(small, HALVES, seed=0)
    with pytest.raises(AuditError, match=r"did you mean 'x'") as error:
        regimes(split, small, "site", {"gold": ["X"]})
    assert [finding.code for finding in error.value.findings] == ["REGIME_VALUE_UNKNOWN"]
    lone = small.assign(site=["x"] * 19 + ["y"])
    with pytest.raises(AuditError, match=r"REGIME_PART_EMPTY: regime 'y' has 0 of the 10 cases of part"):
        regimes(split, lone, "site", {"y": ["y"]})
