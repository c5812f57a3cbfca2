"""The laws for many cases beside the draws that they stand in for, on the same 20,000 cases."""

from __future__ import annotations

import numpy as np
import pytest

from segaudit.stats import attribution, clusters, decompose, hybrids, independence, intervals, large, means, variance
from segaudit.stats.decompose import separability_change
from segaudit.stats.independence import shared_error_bound
from segaudit.stats.means import permutation_of_means

pytestmark = pytest.mark.slow
N = 20_000
USERS = (attribution, decompose, hybrids, independence, variance)


@pytest.fixture(scope="module", params=[(0.0, None), (0.006, 3)], ids=["no gap", "gap, rounded scores"])
def scored(request):
    """Two rulers' scores of 20,000 cases of 16,000 patients in three groups."""
    gap, decimals = request.param
    rng = np.random.default_rng(20)
    patients = np.concatenate([np.arange(N * 4 // 5), rng.integers(0, N * 4 // 5, N // 5)])
    groups = rng.choice(3, N * 4 // 5, p=[0.6, 0.3, 0.1])[patients]
    level = rng.beta(20, 3, N * 4 // 5)[patients] - gap * (groups == 2)
    x = np.clip(level + rng.normal(0, 0.03, N), 0, 1)
    y = np.clip(0.4 + 0.6 * level + rng.normal(0, 0.02, N), 0, 1)
    return (x, y) if decimals is None else (x.round(decimals), y.round(decimals)), groups, patients


@pytest.fixture
def drawn(monkeypatch):
    """Draws at any number of cases."""
    return lambda: [monkeypatch.setattr(user, "LARGE_SAMPLE", 10**9) for user in USERS if hasattr(user, "LARGE_SAMPLE")]


def test_resampled__medians_and_noise_vary_as_those_of_drawn_patients(scored, drawn):
    (x, y), groups, patients = scored
    cases = clusters.layout(N, groups, patients)
    law = large.resampled((x, y), cases, 2_000, np.random.default_rng(1))
    drawn()
    medians, noise = decompose._bootstrap(x, y, cases, 400, np.random.default_rng(2))
    # the SD of 400 draws is known to 3.5 %, of medians on a grid of scores less well
    np.testing.assert_allclose(law.noise.std(axis=1), noise.std(axis=1), rtol=0.14)
    np.testing.assert_allclose(law.medians.std(axis=1), medians.std(axis=1), rtol=0.2)
    error = 4 * medians.std(axis=1) * (1 / 400 + 1 / 2_000) ** 0.5
    assert (np.abs(law.medians.mean(axis=1) - medians.mean(axis=1)) < error + 2e-5).all()
    assert np.abs(np.corrcoef(law.noise)[0, 1] - np.corrcoef(noise)[0, 1]) < 0.12


def test_resampled__a_small_group_is_drawn_as_it_is():
    rng = np.random.default_rng(3)
    groups = np.repeat([0, 1], [9_990, 10])
    x = rng.beta(20, 3, 10_000)
    law = large.resampled((x,), clusters.layout(x.size, groups), 500, rng)
    halves = np.add.outer(x[-10:], x[-10:]).ravel() / 2
    assert np.isin(law.medians[0, :, 1].round(12), halves.round(12)).all()


def test_swap_p__agrees_with_swapped_ranks(scored, drawn):
    (x, y), groups, patients = scored
    rng = np.random.default_rng(4)
    law = separability_change(x, y, groups, patients=patients, rng=rng)
    drawn()
    found = separability_change(x, y, groups, patients=patients, draws=400, rng=rng)
    assert (law.p_method, law.change) == ("asymptotic", found.change)
    assert abs(law.p - found.p) < 4 * (found.p * (1 - found.p) / 400) ** 0.5 + 0.005


def test_swap_p__holds_its_level_when_the_rulers_are_exchangeable():
    rng = np.random.default_rng(5)
    p = []
    for _ in range(300):
        groups = rng.integers(0, 2, 6_000)
        level = rng.beta(20, 3, 6_000) - 0.01 * groups
        x, y = (level + rng.normal(0, 0.05, 6_000) for _ in range(2))
        p.append(separability_change(x, y, groups, rng=rng).p)
    rejected = np.mean(np.array(p) < 0.05)
    assert abs(rejected - 0.05) < 4 * (0.05 * 0.95 / 300) ** 0.5
    assert abs(np.mean(p) - 0.5) < 4 * (1 / 12 / 300) ** 0.5


def test_drawn_hybrids__shares_of_h_vary_as_those_of_drawn_patients(scored, drawn):
    (x, y), groups, patients = scored
    law = attribution.shapley(x, y, groups, patients=patients, rng=np.random.default_rng(6))
    drawn()
    found = attribution.shapley(x, y, groups, patients=patients, draws=500, rng=np.random.default_rng(8))
    for name in ("gap", "scale", "pattern", "net"):
        one, other = getattr(law, name), getattr(found, name)
        width = other.high - other.low
        assert one.value == other.value
        assert abs(one.low - other.low) < 0.2 * width
        assert abs(one.high - other.high) < 0.2 * width


def test_walsh_ratio__the_quick_search_finds_the_limits_of_bisection(scored, drawn):
    (x, y), groups, patients = scored
    for given in ({"patients": patients}, {}):
        quick = variance.walsh_ratio(x, y, groups=groups, **given)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(variance, "LARGE_SAMPLE", 10**9)
            exact = variance.walsh_ratio(x, y, groups=groups, **given)
        found = [quick.ratio, quick.low, quick.high]
        np.testing.assert_allclose(found, [exact.ratio, exact.low, exact.high], rtol=1e-7)


def test_shared_error_bound__the_normal_law_of_the_sums_agrees_with_drawn_patients(scored, drawn):
    (x, y), _, patients = scored
    law = shared_error_bound(1 - x, 1 - y, patients=patients, rng=np.random.default_rng(8))
    drawn()
    found = shared_error_bound(1 - x, 1 - y, patients=patients, draws=1_000, rng=np.random.default_rng(9))
    assert law.value == found.value
    assert abs(law.low - found.low) <= 0.15 * (found.high - found.low)
    assert abs(law.high - found.high) <= 0.15 * (found.high - found.low)


def test_permutation_of_means__the_chi_squared_law_agrees_with_shuffles(monkeypatch):
    rng = np.random.default_rng(10)
    groups = [rng.beta(20, 3, n) for n in (4_000, 1_000, 100)]
    law = permutation_of_means(groups, draws=1, rng=rng)
    monkeypatch.setattr(means, "MAX_SHUFFLED", 10**9)
    found = permutation_of_means(groups, draws=999, rng=rng)
    assert abs(law - found) < 4 * (found * (1 - found) / 999) ** 0.5 + 0.002


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((4_000, 1_000), False),
        ((4_000, 1_001), True),
        ((4_902, 99), False),
        ((19_901, 99), False),
        ((19_902, 99), True),
    ],
)
def test_takes_law__small_groups_are_shuffled_longer(sizes, expected):
    assert means.takes_law(sizes) is expected


@pytest.mark.parametrize(
    ("decimals", "why"),
    [(None, "no ties"), (3, "ties, too many distinct scores to sort all differences"), (1, "few distinct scores")],
)
def test_hodges_lehmann__narrowing_finds_the_order_statistics_of_all_differences(decimals, why, monkeypatch):
    rng = np.random.default_rng(11)
    a, b = rng.gamma(2, 1.5, 6_000), rng.gamma(2, 1.6, 2_500)
    if decimals is not None:
        a, b = a.round(decimals), b.round(decimals)
    for pair in ((a, b), (b, a)):
        found = intervals.hodges_lehmann(*pair, 0.95)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intervals, "_MAX_DIFFERENCES", 10**9)
            assert found == pytest.approx(intervals.hodges_lehmann(*pair, 0.95), abs=1e-12), why
