"""Westfall-Young in the families of an audit."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segaudit.audits import Plan, audit, permuted
from segaudit.audits.cells import cells, divide
from segaudit.groupings import parse_all

KEY = ["label", "metric", "grouping"]


def _plan(*by, **changes):
    return Plan(groupings=parse_all(by), **{"resamples": 2_000, "seed": 3, **changes})


def _wy(found, family="all"):
    rows = found.families[(found.families["method"] == "westfall_young") & (found.families["family"] == family)]
    return rows.iloc[0]


def _people(make_people, rng, n):
    return make_people(sex=rng.choice(["F", "M"], n), age=rng.integers(20, 90, n).astype(float))


def test_westfall_young__agrees_with_a_plain_step_down_over_shuffled_people(make_scores, make_people):
    rng = np.random.default_rng(5)
    n = 60
    people = _people(make_people, rng, n)
    effect = 0.03 * (people["sex"] == "F")
    one = rng.normal(0.8, 0.05, n) + effect
    values = {("expert", "dice", "vb"): one, ("expert", "ndsc", "vb"): 0.7 * one + rng.normal(0.24, 0.02, n)}
    found = audit(make_scores(values), people, _plan("sex", "age:40,60"))
    band = np.digitize(people["age"], [40, 60])
    codes = np.column_stack([people["sex"] == "M", band])

    def p_values(rows):
        return np.array([stats.kruskal(*(v[rows[:, g] == j] for j in np.unique(codes[:, g]))).pvalue
                         for v in values.values() for g in (0, 1)])  # fmt: skip

    observed = p_values(codes)
    order = np.argsort(observed)
    drawn = np.array([p_values(codes[rng.permutation(n)]) for _ in range(250)])[:, order]
    smallest = np.minimum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
    expected = np.empty(4)
    expected[order] = np.maximum.accumulate((smallest <= observed[order]).mean(axis=0))
    tests = found.tests[found.tests["test"] != "dunn"].sort_values(["metric", "grouping"], ascending=[True, False])
    assert tests["q_wy"].to_numpy() == pytest.approx(expected, abs=0.12)  # four standard errors of 250 draws
    assert (tests["q_wy"] >= tests["p"] - 0.02).all()


def test_westfall_young__pays_nothing_for_scores_that_say_the_same(make_scores, make_people):
    rng = np.random.default_rng(2)
    n = 80
    people = _people(make_people, rng, n)
    one = rng.normal(0.8, 0.05, n) + 0.025 * (people["sex"] == "F")
    labels = ("a", "b", "c", "d", "e", "f", "g", "h")
    found = audit(make_scores({("expert", "dice", label): one for label in labels}), people, _plan("sex"))
    assert found.tests["q_wy"].to_numpy() == pytest.approx(found.tests["p"].to_numpy(), abs=0.02)
    assert (found.tests["q_holm"] > 7 * found.tests["p"]).all()


def test_westfall_young__two_exams_of_each_patient_are_one_unit(make_scores, make_people):
    rng = np.random.default_rng(8)
    n = 40
    people = _people(make_people, rng, n)
    one = rng.normal(0.8, 0.05, n)
    single = audit(make_scores({("expert", "dice", "vb"): one}), people, _plan("sex", "age:50"))
    patients = [f"p{i:03d}" for i in range(n)] * 2
    doubled = make_people(patients=patients, **{k: list(people[k]) * 2 for k in ("sex", "age")})
    twice = make_scores({("expert", "dice", "vb"): np.tile(one, 2)}, patients=patients)
    double = audit(twice, doubled, _plan("sex", "age:50"))
    assert double.tests["q_wy"].tolist() == single.tests["q_wy"].tolist()


def test_westfall_young__skipped_beyond_the_limit_with_its_reason(make_scores, make_people, monkeypatch):
    monkeypatch.setattr(permuted, "MAX_PATIENTS", 30)
    rng = np.random.default_rng(1)
    found = audit(make_scores({("expert", "dice", "vb"): rng.random(40)}), _people(make_people, rng, 40), _plan("sex"))
    row = _wy(found)
    assert row["status"] == "undefined"
    assert row["detail"] == "40 patients, more than the 30 that are permuted"
    assert pd.isna(row["n_rejected"])
    assert found.tests["q_wy"].isna().all()


def test_westfall_young__draws_shrink_with_the_work_but_not_below_the_least(make_scores, make_people, monkeypatch):
    rng = np.random.default_rng(1)
    people, scores = _people(make_people, rng, 40), make_scores({("expert", "dice", "vb"): rng.random(40)})
    assert _wy(audit(scores, people, _plan("sex")))["detail"] == "2000 permutations of the patients"
    monkeypatch.setattr(permuted, "_RANKED", 40 * 300)
    assert _wy(audit(scores, people, _plan("sex")))["detail"] == "300 permutations of the patients"
    monkeypatch.setattr(permuted, "_RANKED", 1)
    assert _wy(audit(scores, people, _plan("sex")))["detail"] == "199 permutations of the patients"


def test_westfall_young__the_primary_family_is_adjusted_among_itself(make_scores, make_people):
    rng = np.random.default_rng(4)
    n = 80
    people = _people(make_people, rng, n)
    values = {("expert", "dice", "vb"): rng.normal(0.8, 0.05, n) + 0.04 * (people["sex"] == "F")}
    values |= {("expert", "dice", f"l{i}"): rng.normal(0.8, 0.05, n) for i in range(6)}
    plan = _plan("sex", "age:50", primary_metric="dice", primary_label="vb", primary_groupings=("sex",))
    found = audit(make_scores(values), people, plan)
    row = _wy(found, "primary")
    assert (row["n_planned"], row["n_tested"], row["rejected_attributes"]) == (1, 1, "sex")
    assert _wy(found)["n_planned"] == 14


def test_westfall_young__depends_on_the_seed_and_not_on_the_order_of_rows(make_scores, make_people):
    rng = np.random.default_rng(6)
    n = 50
    people = _people(make_people, rng, n)
    scores = make_scores({("expert", "dice", "vb"): rng.random(n), ("expert", "hd95", "vb"): rng.exponential(2, n)})
    first = audit(scores, people, _plan("sex", "age:50"))
    mixed = scores.table.sample(frac=1, random_state=1)
    again = audit(type(scores)(mixed), people.sample(frac=1, random_state=2), _plan("sex", "age:50"))
    left, right = (a.tests.sort_values(KEY)["q_wy"].tolist() for a in (first, again))
    assert left == right
    other = audit(scores, people, _plan("sex", "age:50", seed=4))
    assert other.tests["q_wy"].tolist() != first.tests["q_wy"].tolist()


@pytest.mark.slow
def test_westfall_young__rejects_anything_in_a_twentieth_of_the_null_sets(make_scores, make_people):
    rng = np.random.default_rng(11)
    n, sets, any_rejected = 60, 150, 0
    plan = _plan("sex", "age:40,60", resamples=199)
    tests = pd.DataFrame(
        [(label, "dice", name, 0.5) for label in ("vb", "disc") for name in ("sex", "age")], columns=[*KEY, "p"]
    )
    for _ in range(sets):
        people = _people(make_people, rng, n)
        one = rng.beta(18, 2, n)
        values = {("expert", "dice", "vb"): one, ("expert", "dice", "disc"): one + rng.normal(0, 0.03, n)}
        own = plan.resolved(people)
        found = list(cells(make_scores(values), people, own))
        together = permuted.adjusted_together(("mix", "expert", "all"), tests, found, divide(own, people), own)
        any_rejected += min(together.q.values()) < 0.05
    assert any_rejected / sets < 0.05 + 3 * np.sqrt(0.05 * 0.95 / sets)
    assert any_rejected > 0
