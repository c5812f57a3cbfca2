"""Assignment of patients to parts."""

import hashlib

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import assign

RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}


def _cases(patients, **columns):
    return pd.DataFrame({"case": [f"{p}-{n}" for n, p in enumerate(patients)], "patient": patients, **columns})


def _codes(error):
    return sorted(finding.code for finding in error.value.findings)


def test_assign__golden_assignment_never_changes():
    patients = [f"p{number:02d}" for number in range(20)]
    cases = _cases([*patients, "p03", "p07"], sex=[*["F", "M"] * 10, "M", "M"])
    split = assign(cases, {"train": 0.5, "test": 0.5}, cases[["case", "sex"]], seed=2025)
    test = sorted(set(split.splits.loc[split.splits["split"] == "test", "patient"]))
    assert test == GOLDEN_TEST
    assert split.manifest["ids_digest"] == GOLDEN_IDS
    assert split.manifest["assignment_digest"] == GOLDEN_ASSIGNMENT
    assert split.manifest["rule"] == "segaudit.splits/1 assign"


GOLDEN_TEST = ["p01", "p03", "p04", "p06", "p09", "p10", "p12", "p16", "p17", "p19"]
GOLDEN_IDS = "805dc9357a282324323da29c297afd741621c490716b8bd2d6803c2749d8b97a"
GOLDEN_ASSIGNMENT = "551d3797a34728be419b247cac5ddee5ecdace5466294288648ad1ed4efaf54a"


def test_assign__golden_assignment_with_pools_and_extra_exams_never_changes():
    people = [(f"p{n:03d}", "FM"[n % 3 == 0], "xxxxyyz"[n % 7], 1 + (n % 5 == 0) + (n % 11 == 0)) for n in range(150)]
    rows = [(f"{p}-{exam}", p, sex, site) for p, sex, site, exams in people for exam in range(exams)]
    cases = pd.DataFrame(rows, columns=["case", "patient", "sex", "site"])
    split = assign(cases, RATIOS, cases[["case", "sex", "site"]], seed=11)
    assert split.manifest["pooled_strata"] == GOLDEN_POOLED
    assert split.manifest["parts"] == GOLDEN_PARTS
    assert split.manifest["assignment_digest"] == GOLDEN_LARGE


GOLDEN_POOLED = {"sex=M; site=z": 7}
GOLDEN_PARTS = {
    "test": {"cases": 38, "patients": 30},
    "train": {"cases": 136, "patients": 105},
    "val": {"cases": 20, "patients": 15},
}
GOLDEN_LARGE = "2d09bd501cd6c0407e0a6bc4eada7e46648b44dc542754d01683583cd6a024c7"


def test_assign__order_is_sha256_of_rule_seed_and_patient():
    patients = [f"p{number}" for number in range(10)]
    split = assign(_cases(patients), {"first": 0.3, "rest": 0.7}, seed=5)
    ordered = sorted(patients, key=lambda p: hashlib.sha256(f"segaudit.splits/1 assign\x005\x00{p}".encode()).digest())
    found = split.splits.loc[split.splits["split"] == "first", "patient"]
    assert set(found) == set(ordered[:3])


def test_assign__seeds_give_different_splits_that_look_independent():
    patients = [f"p{number:03d}" for number in range(400)]
    in_test = [
        set(s.splits.loc[s.splits["split"] == "test", "patient"])
        for s in (assign(_cases(patients), {"train": 0.5, "test": 0.5}, seed=seed) for seed in (1, 2))
    ]
    # 200 of 400 twice: 100 shared are expected, hypergeometric SD 5
    assert abs(len(in_test[0] & in_test[1]) - 100) < 25


def test_assign__decimal_ratios_are_taken_as_written():
    split = assign(_cases([f"p{n}" for n in range(30)]), {"a": 0.1, "b": 0.2, "c": 0.7}, seed=0)
    assert split.splits["split"].value_counts().to_dict() == {"a": 3, "b": 6, "c": 21}
    thirds = assign(_cases([f"p{n}" for n in range(30)]), dict.fromkeys("abc", 1 / 3), seed=0)
    assert thirds.splits["split"].value_counts().to_dict() == {"a": 10, "b": 10, "c": 10}


def test_assign__numpy_ratios_are_read_as_numbers():
    plain = assign(_cases([f"p{n}" for n in range(30)]), {"a": 0.3, "b": 0.7}, seed=0)
    other = assign(_cases([f"p{n}" for n in range(30)]), {"a": np.float64(0.3), "b": np.float64(0.7)}, seed=np.int64(0))
    pd.testing.assert_frame_equal(plain.splits, other.splits)


def test_assign__patient_has_the_stratum_of_its_first_known_exam():
    cases = pd.DataFrame(
        {
            "case": ["a2", "a1", "b2", "b1", "c1", "d1"],
            "patient": ["a", "a", "b", "b", "c", "d"],
            "age": ["old", None, "old", "young", "old", "young"],
        }
    )
    split = assign(cases, {"x": 0.5, "y": 0.5}, cases[["case", "age"]], seed=1)
    stratum = dict(zip(split.splits["case"], split.splits["stratum"], strict=True))
    assert {case for case, name in stratum.items() if name == "age=old"} == {"a1", "a2", "c1"}
    assert {case for case, name in stratum.items() if name == "age=young"} == {"b1", "b2", "d1"}


def test_assign__rare_strata_give_up_their_last_attribute_first():
    sizes = {("F", "x"): 6, ("F", "y"): 2, ("F", "z"): 3, ("M", "x"): 8, ("M", "y"): 1}
    rows = [key for key, n in sizes.items() for _ in range(n)]
    cases = _cases([f"p{n:02d}" for n in range(20)], sex=[s for s, _ in rows], site=[s for _, s in rows])
    split = assign(cases, {"train": 0.8, "test": 0.2}, cases[["case", "sex", "site"]], seed=1)
    assert split.manifest["min_patients_of_a_stratum"] == 5
    assert split.manifest["pooled_strata"] == {"sex=F; site=y": 2, "sex=F; site=z": 3, "sex=M; site=y": 1}
    assert split.splits["stratum"].value_counts().to_dict() == {
        "sex=M; site=x": 8,
        "sex=F; site=x": 6,
        "sex=F; site=(pooled)": 5,
        "sex=(pooled); site=(pooled)": 1,
    }


def test_assign__missing_level_is_a_level_of_its_own():
    cases = _cases([f"p{n}" for n in range(20)], sex=["F"] * 10 + [None] * 10)
    split = assign(cases, {"a": 0.5, "b": 0.5}, cases[["case", "sex"]], seed=1)
    rows = split.balance[split.balance["attribute"] == "sex"]
    assert rows[["level", "split", "n_patients"]].to_numpy().tolist() == [
        ["(missing)", "a", 5],
        ["(missing)", "b", 5],
        ["F", "a", 5],
        ["F", "b", 5],
    ]


def test_assign__extra_exams_are_spread_over_the_parts():
    patients = [f"p{n:02d}" for n in range(40)]
    cases = _cases([*patients, *patients[:10], *patients[:10]])
    split = assign(cases, {"a": 0.5, "b": 0.5}, seed=3)
    assert split.splits["split"].value_counts().to_dict() == {"a": 30, "b": 30}


def test_assign__balance_table_holds_shares_and_standardised_differences():
    cases = _cases([f"p{n}" for n in range(9)], sex=["F"] * 6 + ["M"] * 3)
    split = assign(cases, {"a": 0.6, "b": 0.4}, cases[["case", "sex"]], seed=0)
    row = split.balance.set_index(["attribute", "level", "split"]).loc[("sex", "F", "a")]
    n = row["n_patients"]
    held = split.splits.loc[split.splits["split"] == "a", "patient"].nunique()
    share = n / held
    spread = np.sqrt((share * (1 - share) + 2 / 9) / 2)
    assert row["share"] == pytest.approx(share)
    assert row["target_share"] == pytest.approx(2 / 3)
    assert row["std_difference"] == pytest.approx((share - 2 / 3) / spread)
    assert split.targets() == {"a": 0.6, "b": 0.4}


def test_assign__study_size_meets_every_stratum_within_one_patient(study_cases):
    attributes = ["sex", "race", "age_band"]
    split = assign(study_cases, RATIOS, study_cases[["case", *attributes]], seed=42)
    assert len(split.splits) == 1255
    assert split.manifest["n_patients"] == 1232
    assert split.manifest["n_patients_with_several_cases"] == 23
    one_each = split.splits.drop_duplicates("patient").merge(study_cases.drop_duplicates("patient"), on="patient")
    # the last pool holds rare strata of both sexes, so a sex may be off by one more
    for column, bound in (("stratum", 1), ("sex", 2)):
        counts = pd.crosstab(one_each[column], one_each["split"])
        for name, ratio in RATIOS.items():
            assert ((counts[name] - ratio * counts.sum(axis=1)).abs() < bound).all()
    assert split.splits["split"].value_counts().sub(pd.Series(RATIOS) * 1255).abs().max() < 2
    worst = split.balance["std_difference"].abs()[split.balance["attribute"].isin(["sex", "age_band"])].max()
    assert worst < 0.03


@pytest.mark.parametrize(
    ("cases", "ratios", "codes", "why"),
    [
        ({"case": ["a"], "exam": ["b"]}, RATIOS, ["COLUMN_MISSING"], "no patient column"),
        ({"case": [], "patient": []}, RATIOS, ["CASES_EMPTY"], "no row"),
        (
            {"case": ["a", "a", "b", None, "d"], "patient": ["p", "q", None, "r", "s"]},
            RATIOS,
            ["CASE_NULL", "CASE_TWO_PATIENTS", "PATIENT_NULL"],
            "three kinds at once",
        ),
        ({"case": ["a", "a", "b", "c"], "patient": ["p", "p", "q", "r"]}, RATIOS, ["CASE_DUPLICATED"], "the same row"),
        ({"case": ["a", "b", "c"], "patient": [1, 2, 3]}, RATIOS, ["ID_NOT_TEXT"], "007 and 7 would meet"),
        ({"case": ["a", "b"], "patient": ["p", "q"]}, RATIOS, ["PATIENTS_TOO_FEW"], "2 patients, 3 parts"),
        (
            {"case": list("abcde"), "patient": list("pqrst")},
            {"train": 0.9, "val": 0.05, "test": 0.05},
            ["PART_EMPTY", "PART_EMPTY"],
            "4.5, .25, .25: two parts get nobody",
        ),
        ({"case": ["a", "b"], "patient": ["p", "q"]}, {"x": 1.0}, ["PARTS_TOO_FEW"], "one part is no split"),
        (
            {"case": list("abcde"), "patient": list("pqrst")},
            {"x": 1.2, "y": -0.2, "z": float("nan")},
            ["RATIO_NOT_POSITIVE", "RATIO_NOT_POSITIVE"],
            "below zero, no number",
        ),
        ({"case": ["a", "b"], "patient": ["p", "q"]}, {"x": 0.5, "y": 0.4}, ["RATIOS_SUM"], "0.9"),
    ],
)
def test_assign__impossible_requests_are_refused_all_at_once(cases, ratios, codes, why):
    with pytest.raises(AuditError) as error:
        assign(pd.DataFrame(cases), ratios, seed=1)
    assert _codes(error) == codes, why


def test_assign__refusal_gives_the_counts():
    with pytest.raises(AuditError, match=r"part 'val' gets 0 of 4 patients \(target 0\.4\)"):
        assign(_cases(list("abcd")), RATIOS, seed=1)


def test_assign__strata_must_meet_the_cases():
    cases = _cases(list("abcd"))
    strata = pd.DataFrame({"case": ["a-0", "a-0", "b-1"], "sex": ["F", "F", "M"]})
    with pytest.raises(AuditError) as error:
        assign(cases, {"x": 0.5, "y": 0.5}, strata, seed=1)
    assert _codes(error) == ["STRATA_CASE_DUPLICATED", "STRATA_CASE_MISSING"]
    with pytest.raises(AuditError, match="STRATA_EMPTY"):
        assign(cases, {"x": 0.5, "y": 0.5}, cases[["case"]], seed=1)


def test_assign__balance_table_is_that_of_counting_one_by_one():
    rng = np.random.default_rng(5)
    n = 300
    patient = [f"p{i % 220:03d}" for i in range(n)]
    cases = pd.DataFrame({"case": [f"c{i:03d}" for i in rng.permutation(n)], "patient": patient})
    strata = cases[["case"]].assign(
        sex=rng.choice(["F", "M", None], n, p=[0.45, 0.45, 0.1]), site=rng.choice(["A", "B", ""], n)
    )
    found = assign(cases, {"train": 0.7, "test": 0.3}, strata, seed=3)
    own = strata.set_index("case").fillna("")
    in_order = found.splits.sort_values("case")
    sizes = found.splits.groupby("split")["patient"].nunique()
    for row in found.balance.itertuples():
        if row.attribute not in ("sex", "site"):
            continue
        of_case = {case: own.loc[case, row.attribute] or "(missing)" for case in in_order["case"]}
        of_patient = {}
        for case, name in zip(in_order["case"], in_order["patient"], strict=True):
            if of_patient.get(name, "(missing)") == "(missing)":
                of_patient[name] = of_case[case]
        inside = found.splits[found.splits["split"] == row.split]
        assert row.n_cases == sum(of_case[case] == row.level for case in inside["case"])
        n_patients = sum(of_patient[name] == row.level for name in set(inside["patient"]))
        assert (row.n_patients, row.share) == (n_patients, pytest.approx(n_patients / sizes[row.split]))
        assert row.target_share == pytest.approx(sum(v == row.level for v in of_patient.values()) / len(of_patient))
    assert {"(missing)", "F", "M"} == set(found.balance.loc[found.balance["attribute"] == "sex", "level"])
