"""Which choices, made otherwise, change a verdict."""

import numpy as np
import pandas as pd
import pytest

from segaudit.audits import Plan, audit
from segaudit.audits.cells import cells, divide
from segaudit.audits.compare import test_rows as rows_of_tests
from segaudit.groupings import parse_all
from segaudit.runs import read_audit, write_audit, write_scores
from segaudit.store import RunDirectory

KEY = ["model", "ruler", "label", "metric", "grouping"]


def _plan(*by, **changes):
    return Plan(groupings=parse_all(by), **{"resamples": 199, "seed": 3, "min_patients": 5, **changes})


def _rows(found, change, **key):
    table = found.sensitivity
    table = table[table["change"] == change]
    for column, value in key.items():
        table = table[table[column] == value]
    return table


def _two_sets(n=36, seed=7):
    rng = np.random.default_rng(seed)
    sex = np.array(["F", "M"] * (n // 2))
    dice = np.round(rng.normal(0.85, 0.04, n) + 0.02 * (sex == "F"), 3)
    hd95 = np.round(rng.exponential(2, n), 2)
    hd95[4] = np.inf
    return sex, {("expert", "dice", "vb"): dice, ("expert", "hd95", "vb"): hd95}


@pytest.mark.parametrize("exams", [1, 2], ids=["one exam", "some with two exams"])
def test_leave_one_out__is_the_audit_run_again_without_the_named_case(make_scores, make_people, exams):
    sex, values = _two_sets()
    patients = [f"p{i if exams == 1 or i % 6 > 1 else i - i % 6 + i % 2:03d}" for i in range(36)]
    if exams == 2:  # c000 and c006 are one patient, both women
        patients = [patients[i] if i not in (6, 18) else patients[i - 6] for i in range(36)]
    people = make_people(sex=sex, band=np.array(list("abc"))[np.arange(36) // 2 % 3], patients=patients)
    scores = make_scores(values, patients=patients)
    plan = _plan("sex", "band")
    found = audit(scores, people, plan)
    key = ["metric", "grouping"]
    again = {}
    for case in people["case"]:
        part = type(scores)(scores.table[scores.table["case"] != case])
        again[case] = {
            (cell.key[3], division.grouping.name): next(iter(rows_of_tests(cell, division, found.plan)))["p"]
            for cell in cells(part, people, found.plan)
            for division in divide(found.plan, people)
        }
    before = found.tests[found.tests["test"] != "dunn"].set_index(key)["p"]
    rows = _rows(found, "leave_one_case_out").set_index(key)
    for cell, row in rows.iterrows():
        named = row["detail"].split()[1]
        assert row["p_after"] == pytest.approx(again[named][cell], abs=1e-12)
        largest = max(abs(p[cell] - before[cell]) for p in again.values())
        assert row["changes"] == "yes" or abs(row["p_after"] - before[cell]) == pytest.approx(largest, abs=0.003)


def test_leave_one_out__finds_the_one_case_that_a_verdict_rests_on(make_scores, make_people):
    # 12 women above 12 men but for one pair; without the worst-placed woman the two are separate
    sex = ["F"] * 10 + ["M"] * 10
    rng = np.random.default_rng(0)
    dice = np.concatenate([rng.uniform(0.9, 0.95, 10), rng.uniform(0.85, 0.93, 10)])
    plan = _plan("sex")
    p = audit(make_scores({("expert", "dice", "vb"): dice}), make_people(sex=sex), plan).tests["p"].iloc[0]
    at = _plan("sex", alpha=float(p) * 0.999)  # just not found
    row = _rows(audit(make_scores({("expert", "dice", "vb"): dice}), make_people(sex=sex), at), "leave_one_case_out")
    row = row.iloc[0]
    assert (row["verdict_before"], row["verdict_after"], row["changes"]) == ("no gap shown", "gap found", "yes")
    assert row["p_after"] < p
    over = _plan("sex", alpha=float(p) * 1.001)  # just found
    row = _rows(audit(make_scores({("expert", "dice", "vb"): dice}), make_people(sex=sex), over), "leave_one_case_out")
    row = row.iloc[0]
    assert (row["verdict_before"], row["verdict_after"], row["changes"]) == ("gap found", "no gap shown", "yes")
    assert row["p_after"] > p


@pytest.mark.parametrize(
    ("status", "rule"), [("both_empty", "best"), ("both_empty", "worst"), ("prediction_missing", "exclude")]
)
def test_empty_mask_rule__is_the_audit_run_again_by_that_rule(make_scores, make_people, status, rule):
    sex, values = _two_sets()
    people = make_people(sex=sex)
    scores = make_scores(values, statuses=dict.fromkeys((1, 3, 5, 7), status))
    found = audit(scores, people, _plan("sex"))
    again = audit(scores, people, _plan("sex", **{status: rule}))
    rows = _rows(found, f"{status}: {rule}").set_index("metric")
    expected = again.tests.set_index("metric")
    for metric in ("dice", "hd95"):
        assert rows.loc[metric, "p_after"] == pytest.approx(expected.loc[metric, "p"], abs=1e-12)
        assert rows.loc[metric, "q_after"] == pytest.approx(expected.loc[metric, "q"], abs=1e-12)
    assert (rows["p_after"] != rows["p_before"]).any()


def test_empty_mask_rule__that_no_score_meets_changes_nothing(make_scores, make_people):
    sex, values = _two_sets()
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex", both_empty="worst"))
    assert set(found.sensitivity["change"]) >= {"both_empty: exclude", "both_empty: best"}
    assert "both_empty: worst" not in set(found.sensitivity["change"])
    rows = _rows(found, "both_empty: best")
    assert set(rows["detail"]) == {"no score is concerned"}
    assert set(rows["changes"]) == {"no"}


def test_threshold__names_the_nearest_at_which_dir_crosses_four_fifths(make_scores, make_people):
    # success rates by threshold: F 1, 1, .8; M 1, .7, .6 -> DIR 1 at 0.6, 0.7 at 0.8, 0.75 at 0.9
    f = [0.95] * 8 + [0.85] * 2
    m = [0.95] * 6 + [0.85] * 1 + [0.7] * 3
    plan = _plan("sex", sweep={"dice": (0.6, 0.9)})
    found = audit(make_scores({("expert", "dice", "vb"): f + m}), make_people(sex=["F"] * 10 + ["M"] * 10), plan)
    row = _rows(found, "threshold").iloc[0]
    assert (row["verdict_before"], row["verdict_after"]) == ("DIR below 0.8", "DIR not below 0.8")
    assert row["changes"] == "yes"
    assert row["detail"] == "DIR 1.000 at 0.6, 0.700 at 0.8, 0.750 at 0.9"
    assert np.isnan(row["p_before"])


def test_threshold__without_one_is_a_row_with_its_reason(make_scores, make_people):
    sex, values = _two_sets()
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex", success={"dice": 0.8}))
    row = _rows(found, "threshold", metric="hd95").iloc[0]
    assert (row["status"], row["changes"], row["detail"]) == ("undefined", "", "no threshold of success is declared")


def test_worst_group__by_means_and_by_medians(make_scores, make_people):
    # the women's median is lower, one man is far out
    f, m = [0.80] * 9 + [0.81], [0.90] * 9 + [0.0]
    people = make_people(sex=["F"] * 10 + ["M"] * 10)
    found = audit(make_scores({("expert", "dice", "vb"): f + m}), people, _plan("sex"))
    row = _rows(found, "mean: worst group").iloc[0]
    assert (row["verdict_before"], row["verdict_after"], row["changes"]) == ("worst: F", "worst: F", "no")
    m[-2] = 0.0
    found = audit(make_scores({("expert", "dice", "vb"): f + m}), people, _plan("sex"))
    row = _rows(found, "mean: worst group").iloc[0]
    assert (row["verdict_before"], row["verdict_after"], row["changes"]) == ("worst: F", "worst: M", "yes")
    test = _rows(found, "mean: test").iloc[0]
    assert test["p_after"] > 0.2 > test["p_before"]


def test_means__an_infinite_distance_has_none(make_scores, make_people):
    sex, values = _two_sets()
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex"))
    rows = found.sensitivity[
        found.sensitivity["change"].str.startswith("mean") & (found.sensitivity["metric"] == "hd95")
    ]
    assert set(rows["status"]) == {"undefined"}
    assert set(rows["detail"]) == {"an infinite score has no mean"}


def test_families__carry_the_adjusted_p_of_the_tests(make_scores, make_people):
    sex, values = _two_sets()
    values |= {("silver", *key[1:]): np.sqrt(v) for key, v in values.items()}
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex"))
    tests = found.tests.set_index(KEY)
    for change, column in {"holm": "q_holm", "by": "q_by", "joint": "q_joint", "westfall_young": "q_wy"}.items():
        rows = _rows(found, f"family: {change}").set_index(KEY)
        assert rows["q_after"].tolist() == pytest.approx(tests.loc[rows.index, column].tolist(), abs=1e-12)
        assert ((rows["verdict_after"] == "gap found") == (rows["q_after"] < 0.05)).all()


def test_families__a_primary_test_among_all_tests(make_scores, make_people):
    sex, values = _two_sets()
    declared = {"primary_metric": "dice", "primary_label": "vb"}
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex", **declared))
    whole = audit(make_scores(values), make_people(sex=sex), _plan("sex"))
    row = _rows(found, "family: all").iloc[0]
    assert row["q_before"] == pytest.approx(row["p_before"])
    assert row["q_after"] == pytest.approx(whole.tests.set_index("metric").loc["dice", "q"])


def test_hd95__with_one_convention_says_that_no_other_was_scored(make_scores, make_people):
    sex, values = _two_sets()
    found = audit(make_scores(values), make_people(sex=sex), _plan("sex"))
    rows = found.sensitivity[found.sensitivity["change"].str.startswith("hd95")]
    assert rows["metric"].tolist() == ["hd95"]
    assert (rows["status"].iloc[0], rows["detail"].iloc[0]) == ("undefined", "one convention of HD95 is scored")


def test_sensitivity__every_test_has_every_change_even_where_nothing_was_tested(make_scores, make_people):
    sex, values = _two_sets()
    people = make_people(sex=sex, site=["A"] * 34 + ["B"] * 2)
    found = audit(make_scores(values), people, _plan("sex", "site"))
    counts = found.sensitivity[found.sensitivity["metric"] == "dice"].groupby("grouping")["change"].nunique()
    assert counts["sex"] == counts["site"] == 10
    untested = found.sensitivity[
        (found.sensitivity["grouping"] == "site") & (found.sensitivity["change"] != "hd95: convention")
    ]
    assert set(untested["status"]) == {"too_few_patients"}
    assert set(untested["changes"]) == {""}
    assert set(untested["verdict_before"]) <= {"not tested", ""}


def test_sensitivity__without_a_grouping_is_an_empty_table(make_scores):
    _, values = _two_sets()
    assert audit(make_scores(values)).sensitivity.empty


def test_sensitivity__survives_the_run_directory(make_scores, make_people, tmp_path):
    from segaudit.cohorts import Cohort

    sex, values = _two_sets()
    scores = make_scores(values)
    cohort = Cohort("small", make_people(sex=sex))
    found = audit(scores, cohort, _plan("sex"))
    run = RunDirectory(tmp_path, create=True)
    write_scores(run, scores, cohort, {}, [])
    write_audit(run, found, [], {}, [])
    again, _ = read_audit(run)
    pd.testing.assert_frame_equal(again.sensitivity, found.sensitivity)
    pd.testing.assert_frame_equal(again.families, found.families)
    assert "sensitivity" in run.read_json("audit.json")["tables"]
