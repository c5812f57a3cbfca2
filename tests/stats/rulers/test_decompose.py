"""Gap, noise and separability under two rulers."""

import itertools

import numpy as np
import pytest
from scipy.stats import kruskal, mannwhitneyu, rankdata

from segaudit.stats.attribution import shapley
from segaudit.stats.decompose import (
    contrast_pair,
    differential_inflation,
    gap_ratios,
    separability,
    separability_change,
)

NAMES = np.array(["young", "middle", "old"])


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def planted(n=90, seed=4, gap=1.0, gap_ratio=1.0, noise_ratio=1.0, rho=0.6):
    """Return scores under two rulers; old is the worst group, by gap (trusted) and by gap_ratio * gap (other)."""
    rng = np.random.default_rng(seed)
    groups, z = np.arange(n) % 3, rng.normal(size=n)
    other = rho * z + np.sqrt(1 - rho**2) * rng.normal(size=n)
    return z - gap * groups / 2, noise_ratio * other - gap * gap_ratio * groups / 2, NAMES[groups]


def h(values, groups):
    return kruskal(*(values[groups == name] for name in np.unique(groups))).statistic


def test_separability__equals_its_definitions():
    x, _, groups = planted()
    found = separability(x, groups)
    medians = {name: np.median(x[groups == name]) for name in NAMES}
    noise = np.mean([abs(value - medians[name]) for value, name in zip(x, groups, strict=True)])
    assert dict(zip(found.groups, found.medians, strict=True)) == pytest.approx(medians)
    assert found.gap == pytest.approx(max(medians.values()) - min(medians.values()))
    assert (found.noise, found.snr) == pytest.approx((noise, found.gap / noise))
    assert (found.h, found.epsilon_squared) == pytest.approx((h(x, groups), h(x, groups) / 89))


@pytest.mark.parametrize(
    "scores,snr", [([0.5, 0.5, 0.7, 0.7], np.inf), ([0.5, 0.5, 0.5, 0.5], np.nan)], ids=["no noise", "nothing"]
)
def test_separability__without_noise(scores, snr):
    assert separability(scores, list("aabb")).snr == pytest.approx(snr, nan_ok=True)


def test_separability__raise_on_one_group():
    with pytest.raises(ValueError, match="at least two groups"):
        separability([1.0, 2.0], ["a", "a"])


def test_contrast_pair__weighs_both_rulers_by_their_own_noise():
    x = [10, 12, 14, 9, 11, 13, 0, 2, 4]
    y = [0.9, 0.91, 0.92, 0.95, 0.96, 0.97, 0.8, 0.81, 0.82]
    # the trusted ruler alone would choose a, by half a noise; the other prefers b by five of its own
    assert contrast_pair(x, x, list("aaabbbccc")) == ("a", "c")
    assert contrast_pair(x, y, list("aaabbbccc")) == ("b", "c")


@pytest.mark.parametrize(
    "gap_ratio,sign", [(3.0, 1), (0.0, -1)], ids=["the other ruler inflates the gap", "the other ruler removes it"]
)
def test_differential_inflation__sign_of_the_shift(gap_ratio, sign, rng):
    found = differential_inflation(*planted(n=150, gap=1.5, gap_ratio=gap_ratio), rng=rng)
    assert found.p < 0.01
    assert (found.best, found.worst) == ("young", "old")
    assert np.sign([found.low, found.shift, found.high]).tolist() == [sign] * 3


def test_differential_inflation__equal_bonus_plus_a_constant_changes_nothing(rng):
    x, y, groups = planted()
    one = differential_inflation(x, y, groups, rng=rng)
    two = differential_inflation(x, y + 5, groups, rng=rng)
    assert (two.p, two.shift) == pytest.approx((one.p, one.shift))


def test_differential_inflation__two_groups_are_mann_whitney(rng):
    x, y, groups = planted()
    two = groups != "middle"
    found = differential_inflation(x[two], y[two], groups[two], rng=rng)
    d = (y - x)[two]
    expected = mannwhitneyu(d[groups[two] == "old"], d[groups[two] == "young"], method="asymptotic")
    assert (found.test, found.p) == ("mann_whitney", pytest.approx(expected.pvalue))


def test_differential_inflation__of_successes(rng):
    # the other ruler passes three failures of the best group and none of the worst
    trusted, other = [1, 1, 0, 0, 0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0, 0, 0]
    found = differential_inflation(trusted, other, list("aaaaabbbbb"), rng=rng)
    assert (found.best, found.worst, found.p_method) == ("a", "b", "permutation")
    # of C(10, 5) = 252 ways to deal three ones, 2 * C(7, 2) put all three on one side
    assert found.p == pytest.approx(2 * 21 / 252)


def test_differential_inflation__means_of_patients_when_they_repeat(rng):
    x, y, groups = planted(n=60)
    doubled = [np.repeat(part, 2) for part in (x, y, groups)]
    found = differential_inflation(*doubled, patients=np.arange(120) // 2, rng=rng)
    alone = differential_inflation(x, y, groups, rng=rng)
    assert (found.n_units, found.p) == (60, pytest.approx(alone.p))


def test_separability_change__all_swaps_by_hand(rng):
    x, y, groups = planted(n=9)
    rank_x, rank_y = rankdata(x), rankdata(y)
    observed = h(y, groups) - h(x, groups)
    changes = []
    for bits in itertools.product([False, True], repeat=9):
        swap = np.array(bits)
        changes.append(h(np.where(swap, rank_x, rank_y), groups) - h(np.where(swap, rank_y, rank_x), groups))
    found = separability_change(x, y, groups, rng=rng)
    assert found.change == pytest.approx(observed)
    assert found.p == pytest.approx(np.mean(np.abs(changes) >= abs(observed) - 1e-9))
    assert (found.p_method, found.draws) == ("exact", 0)


def test_separability_change__whole_patients_are_swapped(rng):
    x, y, groups = planted(n=18)
    patients = np.arange(18) // 2
    rank_x, rank_y, observed = rankdata(x), rankdata(y), h(y, groups) - h(x, groups)
    changes = []
    for bits in itertools.product([False, True], repeat=9):
        swap = np.array(bits)[patients]
        changes.append(h(np.where(swap, rank_x, rank_y), groups) - h(np.where(swap, rank_y, rank_x), groups))
    found = separability_change(x, y, groups, patients=patients, rng=rng)
    assert found.p == pytest.approx(np.mean(np.abs(changes) >= abs(observed) - 1e-9))


def test_separability_change__drawn_swaps_come_near_all_swaps(rng, monkeypatch):
    x, y, groups = planted(n=12, gap=2.0, gap_ratio=0.2)
    exact = separability_change(x, y, groups, rng=rng)
    monkeypatch.setattr("segaudit.stats.decompose._MANY_ARRANGEMENTS", 0)
    drawn = separability_change(x, y, groups, draws=4000, rng=rng)
    assert (drawn.p_method, drawn.draws) == ("permutation", 4000)
    assert drawn.p == pytest.approx(exact.p, abs=4 * np.sqrt(exact.p / 4000))


def test_separability_change__any_rescaling_of_a_ruler_changes_nothing():
    x, y, groups = planted(n=40)
    one = separability_change(x, y, groups, rng=np.random.default_rng(1))
    two = separability_change(x, np.exp(3 * y), groups, rng=np.random.default_rng(1))
    swapped = separability_change(y, x, groups, rng=np.random.default_rng(1))
    assert two == one
    assert (swapped.change, swapped.p) == pytest.approx((-one.change, one.p))


def test_separability_change__planted(rng):
    assert separability_change(*planted(gap=0.8, noise_ratio=0.25), rng=rng).p < 0.01
    assert separability_change(*planted(gap=0.8, noise_ratio=0.25, gap_ratio=0.25), rng=rng).p > 0.2


def test_gap_ratios__recover_what_is_planted(rng):
    found = gap_ratios(*planted(n=1500, gap=1.0, gap_ratio=0.5, noise_ratio=0.25), rng=rng)
    assert found.estimable
    for measure, truth in ((found.gap, 0.5), (found.noise, 0.25), (found.snr, 2.0)):
        assert measure.low < truth < measure.high
        assert measure.ratio == pytest.approx(truth, rel=0.15)
        assert measure.ratio == pytest.approx(measure.other / measure.trusted)
    assert found.gap_change_low < -0.5 < found.gap_change_high


def test_gap_ratios__interval_agrees_with_a_plain_bootstrap(rng):
    x, y, groups = planted(n=60, gap=2.0, noise_ratio=0.5)
    found = gap_ratios(x, y, groups, draws=3000, rng=rng)
    ratios = []
    members = [np.flatnonzero(groups == name) for name in NAMES]
    for _ in range(1500):
        drawn = [rng.choice(part, part.size) for part in members]
        gaps = [np.median(v[drawn[0]]) - np.median(v[drawn[2]]) for v in (x, y)]
        noise = [np.mean(np.concatenate([np.abs(v[d] - np.median(v[d])) for d in drawn])) for v in (x, y)]
        ratios.append((gaps[1] / noise[1]) / (gaps[0] / noise[0]))
    low, high = np.quantile(ratios, [0.025, 0.975])
    assert (found.snr.low, found.snr.high) == pytest.approx((low, high), rel=0.08)


def test_gap_ratios__no_ratio_of_a_gap_that_may_be_zero(rng):
    found = gap_ratios(*planted(gap=0.0), rng=rng)
    assert not found.estimable
    assert np.isnan([found.gap.ratio, found.gap.low, found.snr.ratio, found.snr.high]).all()
    assert np.isfinite([found.noise.ratio, found.noise.low, found.gap_change, found.gap_change_low]).all()


@pytest.mark.parametrize(
    "gap,gap_ratio,reversed_,why",
    [
        (2.0, -1.0, True, "the other ruler turns the order round"),
        (2.0, 1.0, False, "same worst group"),
        (0.02, -1.0, False, "the worst group differs by chance"),
    ],
)
def test_gap_ratios__direction_reversed(gap, gap_ratio, reversed_, why, rng):
    found = gap_ratios(*planted(gap=gap, gap_ratio=gap_ratio), rng=rng)
    assert found.direction_reversed == reversed_, why


def test_gap_ratios__patients_are_drawn_whole():
    x, y, groups = planted(n=60)
    doubled = [np.repeat(part, 2) for part in (x, y, groups)]
    found = gap_ratios(*doubled, patients=np.arange(120) // 2, draws=4000, rng=np.random.default_rng(1))
    alone = gap_ratios(x, y, groups, draws=4000, rng=np.random.default_rng(2))
    assert (found.noise.low, found.noise.high) == pytest.approx((alone.noise.low, alone.noise.high), rel=0.05)


def test_shapley__shares_add_up_and_ends_are_the_rulers(rng):
    x, y, groups = planted(gap=0.7, noise_ratio=0.3)
    found = shapley(x, y, groups, draws=100, rng=rng)
    assert (found.h[0, 0, 0], found.h[1, 1, 1]) == pytest.approx((h(x, groups), h(y, groups)))
    change = found.h[1, 1, 1] - found.h[0, 0, 0]
    assert found.gap.value + found.scale.value + found.pattern.value == pytest.approx(change)
    assert found.gap_of_two + found.noise_of_two == pytest.approx(change)
    assert found.net.value == pytest.approx(found.gap.value + found.scale.value)
    assert found.gap.low <= found.gap.value <= found.gap.high


def test_shapley__hybrids_are_built_as_defined(rng):
    x, y, groups = planted(n=30)
    parts = []
    for values in (x, y):
        centre = np.array([np.median(values[groups == name]) for name in groups])
        scale = np.mean(np.abs(values - centre))
        parts.append((centre, scale, (values - centre) / scale))
    found = shapley(x, y, groups, draws=10, rng=rng)
    for a, b, c in itertools.product((0, 1), repeat=3):
        hybrid = np.round(parts[a][0] + parts[b][1] * parts[c][2], 12)
        assert found.h[a, b, c] == pytest.approx(h(hybrid, groups)), (a, b, c)


def test_shapley__proportional_compression_cancels(rng):
    x, _, groups = planted(n=90, gap=1.0)
    found = shapley(x, 0.25 * x + 3, groups, draws=20, rng=rng)
    assert found.net.value == pytest.approx(0, abs=1e-9)
    assert found.scale.value > 5
    assert found.gap.value == pytest.approx(-found.scale.value)


def test_shapley__a_larger_gap_is_the_gaps_doing(rng):
    found = shapley(*planted(n=120, gap=0.8, gap_ratio=3.0), draws=200, rng=rng)
    assert found.gap.low > 0
    assert found.gap.value > 5 * abs(found.scale.value)


@pytest.mark.parametrize(
    "fn", [differential_inflation, separability_change, gap_ratios, shapley], ids=lambda fn: fn.__name__
)
def test_decompose__names_and_order_of_cases_do_not_matter(fn):
    x, y, groups = planted(n=12, gap=2.0)
    renamed = {"young": "q", "middle": "p", "old": "r"}
    order = np.random.default_rng(3).permutation(12)
    options = {} if fn in (differential_inflation, separability_change) else {"draws": 20}
    one = fn(x, y, groups, rng=np.random.default_rng(0), **options)
    two = fn(x[order], y[order], [renamed[g] for g in groups[order]], rng=np.random.default_rng(0), **options)
    for name in ("p", "statistic", "shift", "low", "high", "change", "gap_change", "gap_of_two", "noise_of_two"):
        if hasattr(one, name):
            assert getattr(two, name) == pytest.approx(getattr(one, name)), name
    for name in ("best", "worst"):
        if hasattr(one, name):
            assert getattr(two, name) == renamed[getattr(one, name)]


@pytest.mark.parametrize("fn", [differential_inflation, separability_change, gap_ratios, shapley])
def test_decompose__raise_on_bad_input(fn, rng):
    with pytest.raises(ValueError, match="at least two groups"):
        fn([1.0, 2.0], [1.0, 2.0], ["a", "a"], rng=rng)
    with pytest.raises(ValueError, match="not finite"):
        fn([1.0, np.inf], [1.0, 2.0], ["a", "b"], rng=rng)
