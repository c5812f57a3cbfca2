"""Laws of an audit: what is planted is found, and what should not matter does not."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats as st

import segaudit as sa
from segaudit.errors import AuditError
from segaudit.tables import SCORES

UNITS = {"dice": "1", "hd95": "mm"}


def scores_of(values, metric="dice", ruler="gold", label="vb", status=None, patients=None):
    """Return scores of one cell; infinite values get the status that the product stores for them."""
    values = np.asarray(values, dtype=float)
    cases = [f"c{i:04d}" for i in range(len(values))]
    told = np.where(np.isinf(values), "prediction_empty", np.where(np.isnan(values), "not_scored", "ok"))
    table = pd.DataFrame(
        {
            "case": cases,
            "patient": cases if patients is None else patients,
            "model": "mix",
            "ruler": ruler,
            "label": label,
            "metric": metric,
            "value": np.where(np.isinf(values), np.nan, values),
            "unit": UNITS[metric],
            "status": told if status is None else status,
        }
    )
    return sa.Scores(SCORES.frame(table))


def cases_of(n, patients=None, **attributes):
    cases = [f"c{i:04d}" for i in range(n)]
    return pd.DataFrame({"case": cases, "patient": cases if patients is None else patients, **attributes})


def plan_of(*groupings, **options):
    return sa.Plan(groupings=list(groupings), **{"resamples": 199, "min_patients": 5, "seed": 1, **options})


SEX = sa.by_level("sex", "F", "M")


def sexes(n):
    return np.where(np.arange(n) % 2, "M", "F")


def row_of(table, **key):
    found = table
    for name, value in key.items():
        found = found[found[name] == value]
    assert len(found) == 1, (key, len(found))
    return found.iloc[0]


# --- effects ---


def test_audit__a_planted_gap_is_found_with_its_size_and_sign():
    rng = np.random.default_rng(0)
    n = 160
    values = 0.90 - 0.05 * (np.arange(n) % 2) + rng.normal(0, 0.02, n)
    audit = sa.audit(scores_of(values), cases_of(n, sex=sexes(n)), plan_of(SEX))
    test = row_of(audit.tests, grouping="sex")
    assert test["q"] < 1e-6
    assert test["effect"] < -0.5  # the group (M) scores lower than the reference group (F)
    assert (test["group"], test["reference_group"]) == ("M", "F")
    gap = row_of(audit.disparities, disparity="median_difference")
    assert gap["low"] < -0.05 < gap["high"] < 0
    assert row_of(audit.disparities, disparity="median_gap")["value"] == pytest.approx(-gap["value"])
    assert row_of(audit.disparities, disparity="hodges_lehmann")["value"] == pytest.approx(-0.05, abs=0.01)


@pytest.mark.slow
def test_audit__without_a_gap_the_p_values_are_uniform():
    rng = np.random.default_rng(11)
    n, labels = 60, 250
    parts = [scores_of(rng.beta(40, 4, n), label=f"l{i}") for i in range(labels)]
    audit = sa.audit(sa.merge(parts), cases_of(n, sex=sexes(n)), plan_of(SEX, success={}, sweep={}, resamples=99))
    p = audit.tests["p"].to_numpy()
    assert p.size == labels
    assert st.kstest(p, "uniform").pvalue > 0.01
    assert 0.02 < (p < 0.05).mean() < 0.09
    assert (audit.tests["q"] < 0.05).sum() <= 1  # and the family keeps its level


def test_audit__tests_are_those_of_scipy():
    rng = np.random.default_rng(2)
    n = 90
    values, third = rng.beta(30, 3, n), np.array(list("abc"))[np.arange(n) % 3]
    people = cases_of(n, sex=sexes(n), third=third)
    audit = sa.audit(scores_of(values), people, plan_of(SEX, sa.by_level("third")))
    two = row_of(audit.tests, grouping="sex")
    theirs = st.mannwhitneyu(values[sexes(n) == "M"], values[sexes(n) == "F"], method="asymptotic")
    assert two["statistic"] == pytest.approx(theirs.statistic)
    assert two["p"] == pytest.approx(theirs.pvalue, rel=1e-6)
    assert two["effect"] == pytest.approx(2 * theirs.statistic / 45**2 - 1)
    three = row_of(audit.tests, test="kruskal_wallis")
    theirs = st.kruskal(*(values[third == name] for name in "abc"))
    assert three["statistic"] == pytest.approx(theirs.statistic)
    assert three["effect"] == pytest.approx(theirs.statistic / (n - 1))
    assert three["eta_squared_h"] == pytest.approx((theirs.statistic - 2) / (n - 3))


def test_audit__dunn_is_positive_where_the_group_ranks_above_the_reference_group():
    rng = np.random.default_rng(3)
    n = 90
    third = np.arange(n) % 3
    values = 0.7 + 0.08 * third + rng.normal(0, 0.02, n)
    people = cases_of(n, g=np.array(["low", "mid", "top"])[third])
    tests = sa.audit(scores_of(values), people, plan_of(sa.by_level("g", "mid", "low", "top"))).tests
    pairs = tests[tests["test"] == "dunn"].set_index(["group", "reference_group"])
    assert pairs.loc[("low", "mid"), "statistic"] < 0 < pairs.loc[("top", "mid"), "statistic"]
    assert pairs.loc[("top", "low"), "statistic"] > 0
    ordered = np.sort(pairs["p"].to_numpy())
    holm = np.minimum(1, np.maximum.accumulate(ordered * [3, 2, 1]))
    np.testing.assert_allclose(np.sort(pairs["q"].to_numpy()), holm)


# --- what does not matter ---


def test_audit__the_order_of_rows_changes_nothing():
    rng = np.random.default_rng(4)
    n = 50
    scores = sa.merge([scores_of(rng.beta(20, 3, n)), scores_of(rng.gamma(3, 1, n), metric="hd95")])
    people = cases_of(n, sex=sexes(n), age=rng.integers(20, 90, n).astype(float))
    plan = plan_of(SEX, sa.by_cuts("age", "age", 50), regression=("age", "sex"))
    first = sa.audit(scores, people, plan)
    order = rng.permutation(len(scores.table))
    cells = scores.table.iloc[order].sort_values("metric", kind="stable")  # cells stand in the order of the table
    second = sa.audit(sa.Scores(cells.reset_index(drop=True)), people.iloc[rng.permutation(n)], plan)
    for (schema, ours), (_, theirs) in zip(first.tables(), second.tables(), strict=True):
        pd.testing.assert_frame_equal(ours, theirs, obj=schema.name)


def test_audit__another_cell_changes_no_cell():
    rng = np.random.default_rng(5)
    n = 40
    one, other = scores_of(rng.beta(20, 3, n)), scores_of(rng.beta(9, 3, n), label="disc")
    people = cases_of(n, sex=sexes(n))
    alone, both = (sa.audit(scores, people, plan_of(SEX)) for scores in (one, sa.merge([one, other])))
    for name in ("groups", "disparities", "sweeps"):
        theirs = getattr(both, name)
        pd.testing.assert_frame_equal(getattr(alone, name), theirs[theirs["label"] == "vb"].reset_index(drop=True))
    columns = ["statistic", "p", "effect", "effect_low", "effect_high"]
    pd.testing.assert_frame_equal(
        alone.tests[columns], both.tests.loc[both.tests["label"] == "vb", columns].reset_index(drop=True)
    )


def test_audit__a_case_in_a_third_group_changes_nothing_between_two():
    rng = np.random.default_rng(6)
    n = 41
    values = rng.beta(20, 3, n)
    sex = np.append(sexes(n - 1), "O")
    audits = [sa.audit(scores_of(values[:k]), cases_of(k, sex=sex[:k]), plan_of(SEX)) for k in (n - 1, n)]
    for name in ("disparities", "sweeps"):
        pd.testing.assert_frame_equal(getattr(audits[0], name), getattr(audits[1], name))
    assert audits[0].tests["p"].tolist() == audits[1].tests["p"].tolist()
    outside = row_of(audits[1].coverage, status="unassigned")
    assert outside["n_cases"] == 1
    assert "'O' is no group" in outside["reason"]


def test_audit__swapping_the_reference_group_negates_or_inverts():
    rng = np.random.default_rng(7)
    n = 80
    values = np.clip(rng.normal(0.8, 0.08, n) - 0.04 * (np.arange(n) % 2), 0, 1)
    people = cases_of(n, sex=sexes(n))
    one, two = (sa.audit(scores_of(values), people, plan_of(sa.by_level("sex", *levels))) for levels in ("FM", "MF"))
    tests = [row_of(audit.tests, grouping="sex") for audit in (one, two)]
    assert tests[0]["effect"] == pytest.approx(-tests[1]["effect"])
    assert tests[0]["p"] == pytest.approx(tests[1]["p"])
    for name, law in (
        ("rate_difference", lambda x: -x),
        ("rate_ratio", lambda x: 1 / x),
        ("median_difference", lambda x: -x),
        ("hodges_lehmann", lambda x: -x),
        ("dir", lambda x: x),
        ("dpd", lambda x: x),
        ("median_gap", lambda x: x),
    ):
        values = [row_of(audit.disparities, disparity=name)["value"] for audit in (one, two)]
        assert values[0] == pytest.approx(law(values[1])), name


# --- tables agree with each other ---


def test_tables__disparities_and_sweeps_follow_from_the_rates():
    rng = np.random.default_rng(8)
    n = 120
    scores = sa.merge([scores_of(rng.beta(8, 2, n)), scores_of(rng.gamma(3, 2, n), metric="hd95")])
    people = cases_of(n, g=np.array(list("abc"))[rng.integers(0, 3, n)])
    audit = sa.audit(scores, people, plan_of(sa.by_level("g")))
    for metric, threshold in (("dice", 0.8), ("hd95", 5.0)):
        own = scores.table[scores.table["metric"] == metric].set_index("case")["value"]
        good = own > threshold if metric == "dice" else own < threshold
        by_hand = good.groupby(people.set_index("case")["g"]).agg(["sum", "size"])
        groups = audit.groups[(audit.groups["metric"] == metric) & (audit.groups["grouping"] == "g")].set_index("group")
        assert groups["n_success"].tolist() == by_hand["sum"].tolist()
        rates = groups["success_rate"]
        np.testing.assert_allclose(rates, by_hand["sum"] / by_hand["size"])
        found = {name: row_of(audit.disparities, metric=metric, disparity=name)["value"] for name in ("dir", "dpd")}
        assert found["dir"] == pytest.approx(rates.min() / rates.max())
        assert found["dpd"] == pytest.approx(rates.max() - rates.min())
        sweep = audit.sweeps[(audit.sweeps["metric"] == metric) & (audit.sweeps["threshold"] == threshold)]
        assert sweep["n_success"].tolist() == groups["n_success"].tolist()
        assert set(sweep["dir"]) == {found["dir"]}
        assert set(sweep["dpd"]) == {found["dpd"]}
        pairs = audit.disparities[
            (audit.disparities["metric"] == metric) & (audit.disparities["disparity"] == "rate_difference")
        ]
        for pair in pairs.to_dict("records"):
            assert pair["value"] == pytest.approx(rates[pair["group"]] - rates[pair["reference_group"]])
            assert pair["low"] <= pair["value"] <= pair["high"]


def test_tables__success_is_strict_and_nought_is_a_threshold():
    values = [0.8, 0.8, 0.81, 0.0, 0.5, 0.9, 0.0, 0.7, 0.2, 0.85]
    audit = sa.audit(scores_of(values), cases_of(10, sex=sexes(10)), plan_of(SEX, success={"dice": 0.8}))
    assert row_of(audit.groups, grouping="")["n_success"] == 3
    nought = sa.audit(scores_of(values), cases_of(10, sex=sexes(10)), plan_of(SEX, success={"dice": 0.0}, sweep={}))
    assert row_of(nought.groups, grouping="")["n_success"] == 8
    assert set(nought.sweeps["threshold"]) == {0.0}


# --- families ---


def test_family__a_test_that_cannot_be_had_stays_in_it():
    rng = np.random.default_rng(9)
    n = 40
    empty = scores_of(np.full(n, np.nan), label="never")
    people = cases_of(n, sex=sexes(n), one="x", few=np.where(np.arange(n) < 3, "a", "b"))
    plan = plan_of(SEX, sa.by_level("one"), sa.by_level("few"))
    audit = sa.audit(sa.merge([scores_of(rng.beta(20, 3, n)), empty]), people, plan)
    status = audit.tests.set_index(["label", "grouping"])["status"].to_dict()
    assert status == {
        ("vb", "sex"): "ok",
        ("vb", "one"): "one_group",
        ("vb", "few"): "too_few_patients",
        ("never", "sex"): "undefined",
        ("never", "one"): "undefined",
        ("never", "few"): "undefined",
    }
    family = row_of(audit.families, family="all", method="bh")
    assert (family["n_planned"], family["n_tested"]) == (6, 1)
    test = row_of(audit.tests, status="ok")
    assert test["q"] == pytest.approx(min(1, 6 * test["p"]))  # one p value in a family of six
    assert audit.groups[audit.groups["label"] == "never"]["n_cases"].eq(0).all()
    assert set(audit.groups.loc[audit.groups["label"] == "never", "status"]) == {"undefined"}


def test_family__a_declared_primary_one_is_corrected_alone():
    rng = np.random.default_rng(10)
    n = 60
    parts = [scores_of(rng.beta(20, 3, n) - 0.06 * (np.arange(n) % 2), label=f"l{i}") for i in range(4)]
    plan = plan_of(SEX, primary_metric="dice", primary_label="l0")
    audit = sa.audit(sa.merge(parts), cases_of(n, sex=sexes(n)), plan)
    first = row_of(audit.tests, label="l0")
    assert first["family"] == "primary"
    assert first["q"] == first["p"]  # a family of one
    assert row_of(audit.families, family="primary", method="bh")["n_planned"] == 1
    rest = audit.tests[audit.tests["label"] != "l0"]
    assert set(rest["family"]) == {"all"}


# --- patients ---


def test_patients__copies_of_a_case_add_no_evidence():
    rng = np.random.default_rng(12)
    n = 40
    values = np.round(rng.beta(20, 3, n), 3)
    single = sa.audit(scores_of(values), cases_of(n, sex=sexes(n)), plan_of(SEX))
    patients = np.repeat([f"c{i:04d}" for i in range(n)], 3)
    thrice = sa.audit(
        scores_of(np.repeat(values, 3), patients=patients),
        cases_of(3 * n, patients=patients, sex=np.repeat(sexes(n), 3)),
        plan_of(SEX),
    )
    one, three = (row_of(audit.tests, grouping="sex") for audit in (single, thrice))
    assert (three["n_cases"], three["n_patients"]) == (120, 40)
    assert three["statistic"] == one["statistic"]
    assert three["p"] == one["p"]
    for name in ("dir", "dpd", "median_difference"):
        rows = [row_of(audit.disparities, disparity=name) for audit in (single, thrice)]
        for column in ("value", "low", "high"):
            assert rows[1][column] == pytest.approx(rows[0][column], abs=1e-9), (name, column)


def test_patients__small_groups_are_described_and_not_tested():
    rng = np.random.default_rng(13)
    sex = np.array(["F"] * 20 + ["M"] * 20 + ["O"] * 4)
    plan = plan_of(sa.by_level("sex"), min_patients=5)
    audit = sa.audit(scores_of(rng.beta(20, 3, 44)), cases_of(44, sex=sex), plan)
    small = row_of(audit.groups, grouping="sex", group="O")
    assert (small["n_cases"], small["status"]) == (4, "too_few_patients")
    assert np.isfinite(small["mean"])
    assert row_of(audit.coverage, group="O")["status"] == "described_only"
    assert set(audit.tests["test"]) == {"mann_whitney"}  # between the two that are left
    assert "O" not in set(audit.disparities["group"]) | set(audit.disparities["reference_group"])


# --- scores that are no numbers ---


def test_infinite__distances_rank_last_fail_and_have_no_place_in_a_mean():
    rng = np.random.default_rng(14)
    n = 60
    values = rng.gamma(3, 1, n)
    values[[1, 3, 5, 10]] = np.inf
    audit = sa.audit(scores_of(values, metric="hd95"), cases_of(n, sex=sexes(n)), plan_of(SEX))
    finite, men = np.isfinite(values), sexes(n) == "M"
    overall = row_of(audit.groups, grouping="")
    assert (overall["n_cases"], overall["n_infinite"]) == (n, 4)
    assert overall["mean"] == pytest.approx(values[finite].mean())
    assert overall["median"] == pytest.approx(np.median(values))
    assert overall["n_success"] == (values < 5).sum()
    ranked = np.where(finite, values, 1e9)
    theirs = st.mannwhitneyu(ranked[men], ranked[~men], method="asymptotic")
    test = row_of(audit.tests, grouping="sex")
    assert test["statistic"] == pytest.approx(theirs.statistic)
    assert test["p"] == pytest.approx(theirs.pvalue, rel=1e-6)
    assert np.isfinite(audit.disparities["value"].dropna()).all()


def test_infinite__a_median_that_is_infinite_is_a_status():
    values = np.array([np.inf, 2.0] * 12)
    audit = sa.audit(scores_of(values, metric="hd95"), cases_of(24, sex=sexes(24)), plan_of(SEX))
    worse = row_of(audit.groups, grouping="sex", group="F")
    assert np.isnan(worse["median"])
    assert worse["n_infinite"] == 12
    assert row_of(audit.disparities, disparity="median_gap")["status"] == "undefined"
    assert row_of(audit.tests, grouping="sex")["p"] < 1e-4  # ranks know which is worse


@pytest.mark.parametrize(("policy", "n", "mean"), [("exclude", 3, 0.8), ("best", 4, 0.85), ("worst", 4, 0.6)])
def test_empty__both_masks_empty_counts_as_the_plan_says(policy, n, mean):
    status = ["ok", "ok", "ok", "both_empty"]
    scores = scores_of([0.7, 0.8, 0.9, np.nan], status=status)
    row = row_of(sa.audit(scores, None, plan_of(both_empty=policy)).groups, grouping="")
    assert row["n_cases"] == n
    assert row["mean"] == pytest.approx(mean)
    assert row["n_undefined"] == 4 - n


def test_saturated__equal_scores_are_no_evidence_either_way():
    n = 30
    audit = sa.audit(scores_of(np.ones(n)), cases_of(n, sex=sexes(n)), plan_of(SEX))
    assert row_of(audit.tests, grouping="sex")["status"] == "saturated"
    ratio = row_of(audit.disparities, disparity="dir")
    assert (ratio["value"], ratio["status"]) == (1.0, "saturated")
    assert ratio["low"] < 0.9  # thirty successes of thirty do not show that the rates are alike


@pytest.mark.parametrize("values", [np.ones(24), np.full(24, 0.9), np.zeros(24)], ids=["all 1", "all 0.9", "all 0"])
def test_saturated__a_ruler_without_spread_is_compared_all_the_same(values):
    rng = np.random.default_rng(15)
    other = rng.beta(20, 3, 24)
    scores = sa.merge([scores_of(other), scores_of(values, ruler="silver")])
    audit = sa.audit(scores, cases_of(24, sex=sexes(24)), plan_of(SEX))
    for pair in (("gold", "silver"), ("silver", "gold")):
        table = sa.compare_rulers(audit, *pair).table
        spread = row_of(table, quantity="sd_ratio", grouping="", label="vb")
        assert spread["status"] == "not_estimable"
        assert "no spread" in spread["detail"]


def test_rulers__a_constant_bonus_is_inflation_and_no_loss_of_spread():
    rng = np.random.default_rng(16)
    n = 60
    gold = rng.beta(20, 4, n) * 0.9
    scores = sa.merge([scores_of(gold), scores_of(gold + 0.05, ruler="silver")])
    comparison = sa.compare_rulers(sa.audit(scores, cases_of(n, sex=sexes(n)), plan_of(SEX)), "gold", "silver")
    assert comparison.value("inflation", "dice", "vb") == pytest.approx(0.05)
    for name in ("sd_ratio", "iqr_ratio", "walsh_ratio", "pitman_morgan"):
        assert comparison.value(name, "dice", "vb") == pytest.approx(1.0, abs=1e-6), name


# --- what an audit refuses ---


def test_refusal__cases_and_patients_that_do_not_fit():
    scores = scores_of([0.7, 0.8, 0.9])
    with pytest.raises(AuditError, match="SCORES_NO_MATCH"):
        sa.audit(scores, pd.DataFrame({"case": ["x"], "patient": ["x"]}))
    with pytest.raises(AuditError, match="CASE_DOUBLED"):
        sa.audit(scores, pd.DataFrame({"case": ["c0000", "c0000"], "patient": ["x", "y"]}))
    named = scores_of([0.7, 0.8, 0.9], patients=["p1", "p2", "p3"])
    with pytest.raises(AuditError, match=r"CASE_TWO_PATIENTS.*'c0001': 'p2' and 'other'"):
        sa.audit(named, cases_of(3, patients=["p1", "other", "p3"]))
    both = plan_of(sa.by_level("sx"), regression=("weight",))
    with pytest.raises(AuditError) as caught:
        sa.audit(scores, cases_of(3, sex=["F", "M", "F"]), both)
    assert [finding.code for finding in caught.value.findings] == ["UNKNOWN_ATTRIBUTE", "UNKNOWN_ATTRIBUTE"]


def test_refusal__scored_cases_without_a_participant_are_counted():
    audit = sa.audit(scores_of([0.7, 0.8, 0.9]), cases_of(2, sex=["F", "M"]), plan_of(SEX))
    found = {finding.code: finding for finding in audit.findings}
    assert "1 scored case is no case" in found["SCORES_UNJOINED"].message
    assert row_of(audit.groups, grouping="")["n_cases"] == 2


# --- groupings ---


def test_groupings__several_of_one_attribute_and_a_crossing():
    rng = np.random.default_rng(17)
    n = 80
    people = cases_of(n, sex=sexes(n), age=np.linspace(20, 89, n))
    age2, age3 = sa.by_cuts("half", "age", 55), sa.by_cuts("thirds", "age", 40, 60)
    plan = plan_of(age2, age3, sa.crossing(SEX, age2))
    audit = sa.audit(scores_of(rng.beta(20, 3, n)), people, plan)
    sizes = audit.coverage.groupby("grouping")["n_cases"].sum().to_dict()
    assert sizes == {"half": n, "thirds": n, "sex*half": n}
    crossed = audit.groups[audit.groups["grouping"] == "sex*half"].set_index("group")["n_cases"]
    expected = pd.crosstab(people["sex"], people["age"] >= 55)
    assert crossed["F & <55"] == expected.loc["F", False]
    assert crossed["M & 55+"] == expected.loc["M", True]
    assert set(row_of(audit.families, family="all", method="bh")[["n_planned"]]) == {3}


@pytest.mark.parametrize(("n", "told"), [(20, []), (21, ["write its cuts: age:40,60."])])
def test_groupings__a_number_of_many_values_is_told_to_need_cuts(n, told):
    people = cases_of(n, sex=sexes(n), age=np.linspace(20, 89, n))
    age = sa.by_level("age")
    for grouping in (age, sa.crossing(SEX, age)):
        findings = sa.audit(scores_of(np.linspace(0.7, 0.9, n)), people, plan_of(grouping)).findings
        assert [finding.fix for finding in findings if finding.code == "GROUPING_NEEDS_CUTS"] == told


def test_groupings__a_value_at_a_cut_belongs_above_it():
    people = cases_of(3, age=[39.999, 40.0, 60.0])
    groups = sa.audit(scores_of([0.7, 0.8, 0.9]), people, plan_of(sa.by_cuts("age", "age", 40, 60))).groups
    sizes = groups[groups["grouping"] == "age"].set_index("group")["n_cases"].to_dict()
    assert sizes == {"<40": 1, "40-60": 1, "60+": 1}


def test_groupings__a_top_coded_age_is_in_a_bin_only_where_the_bin_is_known():
    people = cases_of(3, age=[30.0, 89.0, 89.0], age_top_coded=[False, True, True])
    scores = scores_of([0.7, 0.8, 0.9])
    known = sa.audit(scores, people, plan_of(sa.by_cuts("age", "age", 60))).coverage.set_index("group")["n_cases"]
    assert known.to_dict() == {"<60": 1, "60+": 2}
    unknown = sa.audit(scores, people, plan_of(sa.by_cuts("age", "age", 60, 95))).coverage
    assert row_of(unknown, status="unassigned")["n_cases"] == 2
