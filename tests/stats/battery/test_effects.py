"""Effect intervals: coverage, laws and limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from segaudit.stats import effects
from segaudit.stats.effects import epsilon_squared_interval, noncentral_interval, rank_biserial_interval
from segaudit.stats.tests import kruskal_wallis, mann_whitney


@pytest.fixture
def rng():
    return np.random.default_rng(21)


@given(st.floats(-1, 1), st.integers(1, 200), st.integers(1, 200))
def test_rank_biserial_interval__laws(effect, n_a, n_b):
    limits, mirror = rank_biserial_interval(effect, n_a, n_b, 0.95), rank_biserial_interval(-effect, n_b, n_a, 0.95)
    assert -1 <= limits.low <= effect + 1e-9
    assert effect - 1e-9 <= limits.high <= 1
    assert (limits.low, limits.high) == pytest.approx((-mirror.high, -mirror.low), abs=1e-9)


@pytest.mark.parametrize("effect", [-0.7, 0.0, 0.4])
def test_rank_biserial_interval__limits_solve_their_equation(effect):
    n_a, n_b, z = 16, 53, stats.norm.ppf(0.975)
    area, m = (effect + 1) / 2, (16 + 53) / 2 - 1
    limits = rank_biserial_interval(effect, n_a, n_b, 0.95)
    for limit in (limits.low, limits.high):
        a = (limit + 1) / 2
        variance = a * (1 - a) * (1 + m * (1 - a) / (2 - a) + m * a / (1 + a)) / (n_a * n_b)
        assert abs(a - area) == pytest.approx(z * np.sqrt(variance), abs=1e-9)


@pytest.mark.parametrize("effect,end", [(1.0, "high"), (-1.0, "low")])
def test_rank_biserial_interval__perfect_separation_is_no_certainty(effect, end):
    limits = rank_biserial_interval(effect, 8, 8, 0.95)
    assert getattr(limits, end) == effect
    assert limits.high - limits.low > 0.2


def test_rank_biserial_interval__undefined():
    assert np.isnan(rank_biserial_interval(np.nan, 3, 0, 0.95).low)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.7, 2.0])
def test_rank_biserial_interval__coverage(shift, rng):
    truth = 2 * stats.norm.cdf(shift / np.sqrt(2)) - 1
    inside = 0
    for _ in range(1500):
        effect = mann_whitney(rng.normal(size=16) + shift, rng.normal(size=53), rng=rng).effect
        limits = rank_biserial_interval(effect, 16, 53, 0.95)
        inside += limits.low <= truth <= limits.high
    assert inside / 1500 > 0.93


def test_resampled_effects__equal_kruskal_wallis_on_resampled_rows(rng):
    """The effect of drawn counts is the effect of the rows they stand for."""
    groups = [np.round(rng.normal(size=size), 1) for size in (8, 9, 10)]
    ours = effects._resampled_effects(groups, 4000, rng)
    rows = [
        kruskal_wallis([rng.choice(group, group.size) for group in groups] + [[]], rng=rng).statistic / 26
        for _ in range(1000)
    ]
    assert stats.ks_2samp(ours, rows).pvalue > 0.001


def test_epsilon_squared_interval__value_is_that_of_the_test(rng):
    groups = [rng.normal(size=size) for size in (21, 29, 26)]
    limits = epsilon_squared_interval(groups, 0.95, 500, rng)
    assert limits.value == kruskal_wallis(groups, rng=rng).effect
    assert limits.method == "bootstrap"
    assert 0 <= limits.low <= limits.high <= 1


def test_epsilon_squared_interval__large_samples_invert_the_noncentral_law(rng, monkeypatch):
    groups = [rng.normal(size=size) + shift for size, shift in ((700, 0.0), (600, 0.3), (800, 0.5))]
    drawn = epsilon_squared_interval(groups, 0.95, 1500, rng)
    monkeypatch.setattr(effects, "_MAX_RESAMPLED", 100)
    inverted = epsilon_squared_interval(groups, 0.95, 1500, rng)
    assert (drawn.method, inverted.method) == ("bootstrap", "noncentral")
    assert (inverted.low, inverted.high) == pytest.approx((drawn.low, drawn.high), abs=0.012)


@pytest.mark.parametrize("h,k,n", [(7.0, 3, 76), (40.0, 4, 228), (1e6, 3, 2_000_000)])
def test_noncentral_interval__limits_solve_their_equation(h, k, n):
    limits = noncentral_interval(h, k, n, 0.95)
    if limits.low > 0:
        assert stats.ncx2.sf(h, k - 1, limits.low * (n - 1)) == pytest.approx(0.025, abs=1e-4)
    assert stats.ncx2.cdf(h, k - 1, limits.high * (n - 1)) == pytest.approx(0.025, abs=1e-4)


@pytest.mark.parametrize("groups", [[], [[1, 2]], [[1, 1], [1, 1]]])
def test_epsilon_squared_interval__nothing_to_estimate(groups, rng):
    limits = epsilon_squared_interval(groups, 0.95, 50, rng)
    assert limits.method == "none"
    assert np.isnan(limits.low)


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_epsilon_squared_interval__coverage(shift, rng):
    sizes, shifts = (21, 29, 26), (0.0, 0.0, shift)
    large = [rng.normal(size=size * 400) + move for size, move in zip(sizes, shifts, strict=True)]
    truth = kruskal_wallis(large, rng=rng).effect if shift else 0.0
    inside = 0
    for _ in range(400):
        groups = [rng.normal(size=size) + move for size, move in zip(sizes, shifts, strict=True)]
        limits = epsilon_squared_interval(groups, 0.95, 300, rng)
        inside += limits.low <= truth <= limits.high
    assert inside / 400 > 0.92
