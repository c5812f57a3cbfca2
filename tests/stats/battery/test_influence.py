"""Leaving one value out of a rank test, and the permutation test of means."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from segaudit.stats.influence import omission_p
from segaudit.stats.means import permutation_of_means


def _again(values, groups, k):
    parts = [np.where(np.isinf(values[groups == j]), 1e6, values[groups == j]) for j in range(k)]
    if k == 2:
        return stats.mannwhitneyu(*parts, method="asymptotic").pvalue
    return stats.kruskal(*parts).pvalue


@pytest.mark.parametrize("k", [2, 3, 5])
def test_omission_p__equals_scipy_run_again_without_the_value(k):
    rng = np.random.default_rng(k)
    groups = rng.permutation(np.arange(70) % k)
    values = np.round(rng.normal(size=70), 1)  # many ties
    values[:3] = np.inf
    found = omission_p(values, groups, np.arange(70))
    for i in range(70):
        rest = np.arange(70) != i
        assert found[i] == pytest.approx(_again(values[rest], groups[rest], k), abs=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_omission_p__equals_scipy_with_the_value_replaced(k):
    rng = np.random.default_rng(10 + k)
    groups = rng.permutation(np.arange(50) % k)
    values, new = np.round(rng.normal(size=50), 1), np.round(rng.normal(size=50), 1)
    values[0], new[1], new[2] = np.inf, np.inf, values[2]
    found = omission_p(values, groups, np.arange(50), new)
    for i in range(50):
        changed = values.copy()
        changed[i] = new[i]
        assert found[i] == pytest.approx(_again(changed, groups, k), abs=1e-12)


def test_omission_p__one_when_the_rest_is_all_tied():
    for k in (2, 3):
        groups = np.arange(4 * k) % k
        values = np.ones(4 * k)
        values[0] = 0.5
        assert omission_p(values, groups, [0])[0] == 1.0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_omission_p__does_not_depend_on_order_or_monotone_scale(data):
    n = data.draw(st.integers(8, 30))
    values = np.array(data.draw(st.lists(st.integers(-5, 5), min_size=n, max_size=n)), dtype=float)
    groups = np.arange(n) % data.draw(st.sampled_from([2, 3]))
    order = np.array(data.draw(st.permutations(range(n))))
    found = omission_p(values, groups, np.arange(n))
    assert omission_p(np.exp(values), groups, np.arange(n)) == pytest.approx(found, abs=1e-12)
    assert omission_p(values[order], groups[order], np.argsort(order)) == pytest.approx(found, abs=1e-12)


def test_permutation_of_means__agrees_with_every_division_counted():
    a, b = [0.80, 0.83, 0.71, 0.90], [0.93, 0.95, 0.88, 0.91, 0.97]
    pooled = np.array(a + b)
    apart = [abs(pooled[list(c)].mean() - np.delete(pooled, c).mean()) for c in combinations(range(9), 4)]
    exact = np.mean(np.array(apart) >= abs(np.mean(a) - np.mean(b)) - 1e-12)
    found = permutation_of_means([a, b], draws=20_000, rng=np.random.default_rng(0))
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))


def test_permutation_of_means__orders_divisions_as_the_f_statistic():
    rng = np.random.default_rng(3)
    groups = [rng.normal(0, 1, 20), rng.normal(0.5, 1, 25), rng.normal(0.2, 1, 15)]
    found = permutation_of_means(groups, draws=5_000, rng=rng)
    assert found == pytest.approx(stats.f_oneway(*groups).pvalue, abs=0.03)


def test_permutation_of_means__all_equal_and_not_finite():
    assert permutation_of_means([[1, 1], [1, 1, 1]], draws=99, rng=np.random.default_rng(0)) == 1.0
    with pytest.raises(ValueError, match="not finite has no mean"):
        permutation_of_means([[1, np.inf], [1, 2]], draws=99, rng=np.random.default_rng(0))
