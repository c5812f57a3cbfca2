"""Laws of every split, whatever the cohort."""

import json

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.splits import assign, balance, check_folds, check_split, folds

PATIENT = st.tuples(st.sampled_from(["F", "M"]), st.sampled_from(["x", "y", None]), st.integers(1, 3))
RATIOS = {"train": 0.6, "val": 0.2, "test": 0.2}


@st.composite
def cohorts(draw):
    people = draw(st.lists(PATIENT, min_size=6, max_size=40))
    rows = [
        {"case": f"c{number:02d}-{exam}", "patient": f"p{number:02d}", "sex": sex, "site": site}
        for number, (sex, site, exams) in enumerate(people)
        for exam in range(exams)
    ]
    return pd.DataFrame(rows)


def _strata(cases):
    return cases[["case", "sex", "site"]]


@given(cases=cohorts(), seed=st.integers(0, 10**12))
@settings(max_examples=30, deadline=None)
def test_assign__keeps_patients_whole_and_every_exam_once(cases, seed):
    split = assign(cases, RATIOS, _strata(cases), seed=seed)
    assert sorted(split.splits["case"]) == sorted(cases["case"])
    assert split.splits.groupby("patient")["split"].nunique().max() == 1
    assert check_split(split.splits, cases) == []
    assert split.dropped.empty
    n_patients = cases["patient"].nunique()
    held = split.splits.groupby("split")["patient"].nunique()
    assert all(abs(held[name] - ratio * n_patients) < 1 for name, ratio in RATIOS.items())
    json.dumps(split.manifest, allow_nan=False)


@given(cases=cohorts(), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=20, deadline=None)
def test_assign__does_not_depend_on_row_order_or_index_or_dtype(cases, seed, data):
    order = data.draw(st.permutations(range(len(cases))))
    shuffled = cases.iloc[list(order)].astype(object).set_axis(np.arange(len(cases)) * 3)
    one = assign(cases, RATIOS, _strata(cases), seed=seed)
    other = assign(shuffled, RATIOS, _strata(cases).sample(frac=1, random_state=seed), seed=seed)
    pd.testing.assert_frame_equal(one.splits, other.splits)
    pd.testing.assert_frame_equal(one.balance, other.balance)
    assert one.manifest == other.manifest
    pd.testing.assert_frame_equal(folds(cases, 3, seed=seed).table, folds(shuffled, 3, seed=seed).table)


@given(cases=cohorts(), seed=st.integers(0, 99), unit=st.sampled_from(["patient", "case"]))
@settings(max_examples=30, deadline=None)
def test_balance__is_exact_and_accounts_for_every_exam(cases, seed, unit):
    cases = pd.concat([cases, _extra(cases)], ignore_index=True)
    split = assign(cases, {"a": 0.5, "b": 0.5}, _strata(cases), seed=seed)
    even = balance(split, cases, "sex", unit=unit, keep=cases[["case", "site"]], seed=seed)
    had, counts = (
        made.splits.merge(cases[["case", "sex"]], on="case").pivot_table(
            index="split", columns="sex", values=unit, aggfunc="nunique"
        )
        for made in (split, even)
    )
    assert (counts["F"] == counts["M"]).all()
    assert (counts["F"] == had.min(axis=1)).all()
    assert sorted([*even.splits["case"], *even.dropped["case"]]) == sorted(cases["case"])
    assert (even.dropped["reason"] != "").all()


def _extra(cases):
    """Return six patients more of each sex, so that each part has both."""
    rows = [(f"e{sex}{number}", sex) for sex in "FM" for number in range(6)]
    return pd.DataFrame([{"case": f"{name}-0", "patient": name, "sex": sex, "site": "x"} for name, sex in rows])


@given(cases=cohorts(), n_folds=st.integers(2, 6), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_folds__validate_every_exam_once_and_differ_by_at_most_one_patient(cases, n_folds, seed):
    made = folds(cases, n_folds, _strata(cases), seed=seed)
    patient_of = dict(zip(cases["case"], cases["patient"], strict=True))
    assert check_folds(made, patient_of, cases=set(cases["case"])) == []
    sizes = made.table.groupby("fold")["patient"].nunique()
    assert len(sizes) == n_folds
    assert sizes.max() - sizes.min() <= 1
    for _, group in made.table.groupby("stratum"):
        inside = group.groupby("fold")["patient"].nunique().reindex(range(n_folds), fill_value=0)
        assert inside.max() - inside.min() <= 1
