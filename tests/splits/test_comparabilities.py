"""Are the parts alike? Held against scipy and against the published table."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segaudit.errors import AuditError
from segaudit.splits import comparability, comparability_of

# two by two: 10, 20 / 30, 15; n 75; (10*15 - 20*30)^2 n / (30*45*40*35)
COUNTS = {"gold": {"F": 10, "M": 20}, "silver": {"F": 30, "M": 15}}
CHI2 = 450**2 * 75 / (30 * 45 * 40 * 35)
YATES = (450 - 75 / 2) ** 2 * 75 / (30 * 45 * 40 * 35)


@pytest.mark.parametrize(("yates", "name", "statistic"), [(False, "chi2", CHI2), (True, "chi2_yates", YATES)])
def test_comparability_of__chi_square_is_the_hand_computed_one(yates, name, statistic):
    (row,) = comparability_of({"sex": COUNTS}, seed=0, yates=yates).to_dict("records")
    assert row["test"] == name
    assert row["statistic"] == pytest.approx(statistic)
    assert row["effect"] == pytest.approx(np.sqrt(statistic / 75))
    assert row["p"] == pytest.approx(stats.chi2.sf(statistic, 1))
    assert row["min_expected"] == 14
    assert (row["n"], row["verdict"]) == ("gold 30, silver 45", "gap found")


def test_comparability_of__ranks_agree_with_scipy():
    rng = np.random.default_rng(1)
    gold, silver, third = rng.normal(0, 1, 40).round(1), rng.normal(0.5, 1, 60).round(1), rng.normal(0, 1, 30)
    two, three = comparability_of(
        {"age": {"gold": gold, "silver": silver}, "size": {"a": gold, "b": silver, "c": third}}, seed=0
    ).to_dict("records")
    expected = stats.mannwhitneyu(silver, gold)
    assert (two["test"], two["statistic"]) == ("mann_whitney", expected.statistic)
    assert two["p"] == pytest.approx(expected.pvalue)
    higher = np.sign(silver[:, None] - gold[None, :]).mean()
    assert (two["effect_name"], two["effect"]) == ("rank_biserial", pytest.approx(higher))
    assert higher > 0
    kruskal = stats.kruskal(gold, silver, third)
    assert (three["statistic"], three["p"]) == (pytest.approx(kruskal.statistic), pytest.approx(kruskal.pvalue))
    assert (three["effect"], three["dof"]) == (pytest.approx(kruskal.statistic / 129), 2)


def test_comparability_of__a_test_that_cannot_be_had_is_a_row_and_counts_in_the_family():
    samples = {"sex": COUNTS, "scanner": {"gold": {"A": 30}, "silver": {"A": 45}}, "age": {"gold": [], "silver": [1.0]}}
    table = comparability_of(samples, seed=0)
    assert table["status"].tolist() == ["ok", "one_group", "one_group"]
    assert table["verdict"].tolist() == ["gap found", "not assessable", "not assessable"]
    assert table["q"][0] == pytest.approx(3 * table["p"][0])
    assert table["q"][1:].isna().all()


def test_comparability_of__refuses_what_is_no_count_and_no_number():
    with pytest.raises(AuditError) as error:
        comparability_of({"sex": {"a": {"F": -1}}, "age": {"a": [float("nan")]}}, seed=0)
    assert sorted(finding.code for finding in error.value.findings) == ["COUNT_NEGATIVE", "VALUE_NOT_FINITE"]


def test_comparability_of__has_the_published_figures(shared):
    published = json.loads((shared / "reference" / "published.json").read_text())["gold_silver_comparability"]
    rows = {row["attribute"]: row for row in published["comparisons"]}
    samples = {name: row["counts"] for name, row in rows.items() if row["kind"] == "categorical"}
    # the ages are not public; any with a p value below all others takes the same place in the family
    samples["age"] = {"gold": np.arange(100.0), "silver": np.arange(40.0, 140.0)}
    table = comparability_of(samples, seed=0, yates=True).set_index("attribute")
    assert table.loc["age", "p"] < min(row["p"] for row in rows.values() if row["kind"] == "categorical")
    for name, row in rows.items():
        if row["kind"] == "categorical":
            found = table.loc[name]
            assert found["statistic"] == pytest.approx(row["stat"], rel=1e-5)
            assert found["dof"] == row["dof"]
            assert found["effect"] == pytest.approx(row["effect"]["value"], rel=1e-5)
            assert found["p"] == pytest.approx(row["p"], rel=1e-5)
            assert found["q"] == pytest.approx(row["p_fdr"], rel=1e-5)
            assert (found["verdict"] != "gap found") == row["comparable"]
    # without the correction the statistic of a two-by-two table is larger, and of others the same
    plain = comparability_of(samples, seed=0).set_index("attribute")
    assert plain.loc["Sex", "statistic"] > table.loc["Sex", "statistic"]
    assert plain.loc["Age (3-bin)", "statistic"] == table.loc["Age (3-bin)", "statistic"]


@pytest.fixture
def cases():
    return pd.DataFrame(
        {
            "case": ["a1", "a2", "b1", "c1", "d1", "e1", "f1"],
            "patient": ["a", "a", "b", "c", "d", "e", "f"],
            "label": ["gold", "silver", "gold", "silver", "silver", None, "gold"],
            "sex": ["F", "F", "M", "F", None, "F", "M"],
            "age": [30.0, 40.0, 50.0, 89.0, np.nan, 70.0, 61.0],
            "age_top_coded": [False, False, False, True, False, False, False],
        }
    )


def test_comparability__counts_members_with_a_value_in_each_part(cases):
    table = comparability(cases, "label", ["sex", "age"], seed=0).set_index("attribute")
    assert table["n"].to_dict() == {"sex": "gold 3, silver 2", "age": "gold 3, silver 1"}
    assert table["missing"].to_dict() == {"sex": "gold 0, silver 1", "age": "gold 0, silver 2"}
    by_hand = comparability_of(
        {"sex": {"gold": {"F": 1, "M": 2}, "silver": {"F": 2}}, "age": {"gold": [30, 50, 61], "silver": [40]}}, seed=0
    ).set_index("attribute")
    pd.testing.assert_frame_equal(table.drop(columns="missing"), by_hand.drop(columns="missing"))


def test_comparability__a_patient_counts_once_in_a_part(cases):
    doubled = pd.concat([cases, cases.assign(case=cases["case"] + "x")], ignore_index=True)
    by_patient = comparability(doubled, "label", ["sex"], seed=0)
    pd.testing.assert_frame_equal(by_patient, comparability(cases, "label", ["sex"], seed=0))
    by_case = comparability(doubled, "label", ["sex"], unit="case", seed=0)
    assert by_case["n"].tolist() == ["gold 6, silver 4"]
    assert by_case["statistic"][0] == pytest.approx(2 * by_patient["statistic"][0])


def test_comparability__unknown_columns_are_refused(cases):
    with pytest.raises(AuditError, match="COLUMN_MISSING"):
        comparability(cases, "pool", ["sex"], seed=0)
