"""The Walsh ratio and its companions, against lists written out and laws."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from segaudit.stats.variance import (
    _n_above,
    _signed_ranks,
    decision,
    excess_ratio,
    per_group,
    sign_flip_p,
    walsh_limits,
    walsh_median,
    walsh_order,
    walsh_ratio,
)

DISTANCES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda pair: (pair[0] / 4, pair[1] / 7)),
    min_size=1,
    max_size=9,
)


def written_out(a, b):
    ratios = []
    for i, j in itertools.combinations_with_replacement(range(len(a)), 2):
        if a[i] + a[j] > 0:
            ratios.append((b[i] + b[j]) / (a[i] + a[j]))
        elif b[i] + b[j] > 0:
            ratios.append(np.inf)
    return sorted(ratios)


def pair(n=60, seed=3, ratio=0.4):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    groups = rng.integers(0, 3, size=n)
    return x + groups, ratio * (0.6 * x + 0.8 * rng.normal(size=n)) + 5, groups


@settings(deadline=None, max_examples=30)
@given(DISTANCES)
def test_walsh_order__equals_the_sorted_list(distances):
    a, b = np.array(distances).T
    for k, expected in enumerate(written_out(a, b), start=1):
        assert walsh_order(a, b, k) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(DISTANCES)
def test_walsh_median__equals_the_median_of_the_list(distances):
    a, b = np.array(distances).T
    ratios = written_out(a, b)
    expected = np.nan
    if ratios:
        low, high = ratios[(len(ratios) - 1) // 2], ratios[len(ratios) // 2]
        expected = low if low == high else (low + high) / 2
    assert walsh_median(a, b) == pytest.approx(expected, rel=1e-12, nan_ok=True)


@settings(deadline=None)
@given(st.lists(st.integers(-8, 8).map(lambda s: s / 2), min_size=1, max_size=9))
def test_sign_flip_p__equals_all_flips(sums):
    flips = [abs(np.dot(signs, sums)) for signs in itertools.product([-1, 1], repeat=len(sums))]
    assert sign_flip_p(np.array(sums)) == pytest.approx(np.mean(np.array(flips) >= abs(sum(sums)) - 1e-9))


def test_walsh_ratio__exact_p_is_wilcoxons_without_ties():
    x, y, _ = pair(n=15)
    a, b = np.abs(x - np.median(x)), np.abs(y - np.median(y))
    keep = (a > 0) | (b > 0)
    expected = wilcoxon((b - a)[keep], method="exact")
    assert walsh_ratio(x, y).p == pytest.approx(expected.pvalue)


def test_walsh_ratio__twenty_patients_are_enough_for_the_normal_law():
    x, y, _ = pair(n=20)
    found = walsh_ratio(x, y)
    assert (found.p_method, found.p) == ("asymptotic", found.p_asymptotic)
    assert walsh_ratio(x[:19], y[:19]).p_method == "exact"


def test_walsh_ratio__limits_do_not_reject_and_beyond_them_does():
    x, y, groups = pair()
    found = walsh_ratio(x, y, groups=groups)
    for limit, inside, outside in ((found.low, 1.0001, 0.98), (found.high, 0.9999, 1.02)):
        # a ratio of r is tested by scaling the other ruler to 1 / r
        assert abs(walsh_ratio(x, y / (limit * inside), groups=groups).z) <= 1.975
        assert abs(walsh_ratio(x, y / (limit * outside), groups=groups).z) > 1.955


def test_walsh_ratio__patients_with_one_case_each_agree_with_inversion():
    x, y, groups = pair()
    alone = walsh_ratio(x, y, groups=groups, patients=np.arange(60))
    twice = walsh_ratio(np.repeat(x, 2), np.repeat(y, 2), groups=np.repeat(groups, 2), patients=np.arange(120) // 2)
    assert twice.n_patients == 60
    assert (twice.low, twice.high) == pytest.approx((alone.low, alone.high), rel=0.05)
    naive = walsh_ratio(np.repeat(x, 2), np.repeat(y, 2), groups=np.repeat(groups, 2))
    assert naive.high - naive.low < 0.85 * (twice.high - twice.low)


def test_walsh_ratio__three_patients_allow_no_limit():
    found = walsh_ratio([0.7, 0.8, 0.9, 0.95], [0.97, 0.98, 0.99, 0.995], patients=["a", "a", "b", "c"])
    assert (found.low, found.high) == (0.0, np.inf)


@pytest.mark.parametrize(
    "trusted,other,ratio,why",
    [
        ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5], np.nan, "no spread at all: nothing to compare"),
        ([0.5, 0.5, 0.5], [0.5, 0.6, 0.7], np.inf, "spread under the other ruler only"),
        ([0.5, 0.6, 0.7], [0.5, 0.5, 0.5], 0.0, "spread under the trusted ruler only"),
        ([0.5], [0.9], np.nan, "one case is its own median"),
    ],
)
def test_walsh_ratio__without_spread(trusted, other, ratio, why):
    found = walsh_ratio(trusted, other)
    assert found.ratio == pytest.approx(ratio, nan_ok=True), why
    assert 0 < found.p <= 1


@pytest.mark.parametrize("patients", [None, np.arange(60) // 2], ids=["cases", "patients"])
def test_walsh_ratio__swapping_the_rulers_inverts_it(patients):
    x, y, groups = pair()
    one = walsh_ratio(x, y, groups=groups, patients=patients)
    two = walsh_ratio(y, x, groups=groups, patients=patients)
    assert two.ratio == pytest.approx(1 / one.ratio, rel=1e-3)
    assert (two.low, two.high) == pytest.approx((1 / one.high, 1 / one.low), rel=1e-6)
    assert (two.z, two.p) == pytest.approx((-one.z, one.p))


@pytest.mark.parametrize("factor", [1e-3, 7.0, 1e4])
def test_walsh_ratio__the_unit_of_the_scores_does_not_matter(factor):
    x, y, groups = pair()
    one, two = walsh_ratio(x, y, groups=groups), walsh_ratio(factor * x, factor * y + 1, groups=groups)
    assert (two.ratio, two.low, two.high, two.z) == pytest.approx((one.ratio, one.low, one.high, one.z), rel=1e-6)


def test_walsh_ratio__names_and_order_do_not_matter():
    x, y, groups = pair()
    order = np.random.default_rng(1).permutation(60)
    one = walsh_ratio(x, y, groups=groups, patients=np.arange(60) // 3)
    two = walsh_ratio(
        x[order], y[order], groups=np.array(["z", "k", "a"])[groups[order]], patients=(np.arange(60) // 3)[order]
    )
    for name in ("ratio", "low", "high", "statistic", "z", "p"):
        assert getattr(two, name) == pytest.approx(getattr(one, name), rel=1e-9)


def test_walsh_ratio__one_gross_outlier_hardly_moves_it():
    x, y, _ = pair(n=76, ratio=1.0)
    spoilt = x.copy()
    spoilt[0] = -30
    assert walsh_ratio(spoilt, y).ratio == pytest.approx(walsh_ratio(x, y).ratio, rel=0.06)


def test_walsh_ratio__more_cases_than_a_list_of_pairs_could_hold():
    rng = np.random.default_rng(0)
    found = walsh_ratio(rng.normal(size=50_000), 0.5 * rng.normal(size=50_000))
    assert found.low < 0.5 < found.high
    assert found.high - found.low < 0.02


@pytest.mark.parametrize(
    "trusted,other,message",
    [
        ([0.5, np.nan], [0.5, 0.6], "trusted holds 1 numbers that are not finite"),
        ([0.5, 0.6], [0.5, np.inf], "other holds 1 numbers that are not finite"),
        ([0.5, 0.6], [0.5], "trusted has 2 cases, other has 1"),
        ([], [], "must be a list of numbers"),
    ],
)
def test_walsh_ratio__raise_on_bad_scores(trusted, other, message):
    with pytest.raises(ValueError, match=message):
        walsh_ratio(trusted, other)


def test_excess_ratio__proportional_compression_leaves_one():
    rng = np.random.default_rng(8)
    trusted = 1 - np.exp(rng.normal(-2.3, 0.4, size=200))
    other = 1 - 0.25 * (1 - trusted)
    assert walsh_ratio(trusted, other).ratio == pytest.approx(0.25)
    assert excess_ratio(trusted, other).ratio == pytest.approx(1.0)


def test_excess_ratio__perfect_scores_get_half_the_smallest_error():
    trusted, other = np.array([1.0, 0.9, 0.8, 0.6]), np.array([1.0, 0.98, 0.99, 0.95])
    expected = walsh_ratio(np.log(1 - trusted + 0.005), np.log(1 - other + 0.005))
    found = excess_ratio(trusted, other)
    assert (found.ratio, found.low, found.high) == pytest.approx((expected.ratio, expected.low, expected.high))


def test_excess_ratio__raise_above_one():
    with pytest.raises(ValueError, match=r"1\.5 is above 1"):
        excess_ratio([0.5, 1.5], [0.5, 0.6])


def test_per_group__leaves_out_small_groups():
    x, y, _ = pair(n=30)
    groups = ["a"] * 12 + ["b"] * 9 + ["c"] * 9
    found = per_group(x, y, groups)
    assert list(found) == ["a"]
    assert found["a"] == walsh_ratio(x[:12], y[:12])


@pytest.mark.parametrize(
    "low,high,word",
    [
        (0.2, 0.49, "strong collapse"),
        (0.2, 0.5, "collapse"),
        (0.2, 0.79, "collapse"),
        (0.7, 0.8, "inconclusive"),
        (0.8, 1.25, "stable"),
        (0.79, 1.2, "inconclusive"),
        (0.9, 1.26, "inconclusive"),
        (1.25, 2.0, "inconclusive"),
        (1.26, np.inf, "inflation"),
        (0.0, np.inf, "inconclusive"),
        (np.nan, np.nan, "inconclusive"),
    ],
)
def test_decision__table(low, high, word):
    assert decision(low, high) == word


def test_walsh_limits__never_below_the_ends():
    assert walsh_limits(3, 6, 1.96) == 0
    assert walsh_limits(76, 76 * 77 // 2, 1.959963984540054) == 1084


def test_signed_ranks__equal_ranks_of_distances_with_their_signs():
    rng = np.random.default_rng(5)
    for scale in (1.0, 0.01, 300.0, 1e13):  # beyond 12 digits before the point ranks are found otherwise
        v = rng.integers(-6, 7, 50) * scale / 7
        v[:5] += 1e-16 * scale  # ties, but for the last bits
        kept = np.abs(v) > 1e-9 * scale
        expected = np.zeros(v.size)
        expected[kept] = np.sign(v[kept]) * rankdata((np.abs(v[kept]) / scale).round(9))
        assert _signed_ranks(v) == pytest.approx(expected)


def test_n_above__counts_the_pairs_whose_sum_is_positive():
    rng = np.random.default_rng(6)
    for _ in range(50):
        a, b = rng.integers(0, 5, (2, 12)) / 2
        v = b - a  # of one size and both signs, too
        pairs = np.add.outer(v, v)[np.triu_indices(v.size)]
        assert _n_above(a, b, 1.0) == np.count_nonzero(pairs > 0)
