"""Adjusted p values against scipy and statsmodels, and by their laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from segaudit.stats.family import adjust

P_VALUES = st.lists(
    st.sampled_from([0.0, 1e-5, 0.001, 0.01, 0.02, 0.049, 0.05, 0.3, 0.7, 1.0]), min_size=1, max_size=30
)
METHODS = ["bh", "holm", "by"]


@given(P_VALUES)
def test_adjust__equals_scipy(p):
    assert adjust(p, "bh") == pytest.approx(false_discovery_control(p, method="bh"))
    assert adjust(p, "by") == pytest.approx(false_discovery_control(p, method="by"))


@pytest.mark.parametrize("method,name", [("bh", "fdr_bh"), ("by", "fdr_by"), ("holm", "holm")])
def test_adjust__equals_statsmodels(method, name):
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(3).random(63) ** 3
    assert adjust(p, method) == pytest.approx(multipletests(p, method=name)[1], rel=1e-12)


@given(P_VALUES, st.sampled_from(METHODS))
def test_adjust__laws(p, method):
    raw, q = np.array(p), adjust(p, method)
    assert (q >= raw - 1e-15).all()
    assert (q <= 1).all()
    order = np.argsort(raw, kind="stable")
    assert (np.diff(q[order]) >= 0).all()
    for value in set(p):
        assert len(set(q[raw == value])) == 1, "equal p values are adjusted alike"
    assert adjust(p[::-1], method)[::-1] == pytest.approx(q)


@given(P_VALUES, st.integers(0, 5), st.sampled_from(METHODS))
def test_adjust__untested_members_count_as_tests_that_found_nothing(p, absent, method):
    whole = adjust(p + [1.0] * absent, method)[: len(p)]
    with_nan = adjust(p + [np.nan] * absent, method)
    assert with_nan[: len(p)] == pytest.approx(whole)
    assert np.isnan(with_nan[len(p) :]).all()
    assert adjust(p, method, planned=len(p) + absent) == pytest.approx(whole)


def test_adjust__raw_leaves_p_alone():
    assert adjust([0.2, np.nan, 0.01], "raw").tolist() == pytest.approx([0.2, np.nan, 0.01], nan_ok=True)


def test_adjust__an_empty_family_is_empty():
    assert adjust([], "bh", planned=4).size == 0


@pytest.mark.parametrize(
    "p,method,planned,match",
    [
        ([0.1], "bonferroni", None, "no adjustment is named"),
        ([0.1, 0.2], "bh", 1, "1 tests are planned"),
        ([1.2], "bh", None, "outside"),
    ],
)
def test_adjust__faults_of_the_program(p, method, planned, match):
    with pytest.raises(ValueError, match=match):
        adjust(p, method, planned)
