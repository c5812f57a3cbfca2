"""Rank tests against scipy and against plain counting."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from segaudit.stats.tests import dunn, kruskal_wallis, mann_whitney, midranks

# a coarse grid: ties are common, and strictly increasing maps keep distinct values distinct
SCORES = st.integers(0, 12).map(lambda tenth: tenth / 10)
GROUP = st.lists(SCORES, min_size=1, max_size=9)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def fresh():
    return np.random.default_rng(7)


def test_midranks__equal_scipy(rng):
    values = np.round(rng.normal(size=500), 1)
    ranks = midranks(values)
    _, counts = np.unique(values, return_counts=True)
    assert np.array_equal(ranks.values, stats.rankdata(values))
    assert ranks.ties == (counts.astype(float) ** 3 - counts).sum()


@pytest.mark.parametrize(
    "values,expected,why",
    [
        ([0.1 + 0.2, 0.3, 1.0], [1.5, 1.5, 3.0], "equal but for rounding"),
        ([np.inf, 1.0, np.inf], [2.5, 1.0, 2.5], "infinite distances share the worst rank"),
        ([-np.inf, 0.0, np.inf], [1.0, 2.0, 3.0], "infinities rank"),
        ([], [], "nothing to rank"),
        ([4.0], [1.0], "one value"),
    ],
)
def test_midranks__edge_values(values, expected, why):
    assert midranks(values).values.tolist() == expected, why


def test_midranks__nan_is_refused():
    with pytest.raises(ValueError, match="NaN has no rank"):
        midranks([0.5, np.nan])


@pytest.mark.parametrize("n_a,n_b", [(2, 3), (8, 8), (5, 60), (8, 300), (1, 20), (10, 10)])
def test_mann_whitney__exact_without_ties_equals_scipy(n_a, n_b, rng):
    a, b = rng.normal(size=n_a) + 0.4, rng.normal(size=n_b)
    ours, theirs = mann_whitney(a, b, rng=rng), stats.mannwhitneyu(a, b, method="exact")
    assert (ours.method, ours.draws) == ("exact", 0)
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)


@pytest.mark.parametrize("n_a,n_b,decimals", [(9, 40, 1), (114, 114, 6), (12, 211, 2), (400, 300, 1)])
def test_mann_whitney__asymptotic_equals_scipy(n_a, n_b, decimals, rng):
    a, b = np.round(rng.normal(size=n_a) + 0.2, decimals), np.round(rng.normal(size=n_b), decimals)
    ours, theirs = mann_whitney(a, b, rng=rng), stats.mannwhitneyu(a, b, method="asymptotic")
    assert ours.method == "asymptotic"
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)


@pytest.mark.parametrize(
    "a,b", [([1, 1, 2], [1, 2, 3, 3]), ([0, 0, 0, 5], [0, 0, 1, 1, 7]), ([np.inf, 1], [np.inf, np.inf, 1, 0, 2])]
)
def test_mann_whitney__with_ties_counts_every_split_of_the_midranks(a, b, rng):
    ranks = stats.rankdata([*a, *b])
    expected = len(a) * (len(ranks) + 1) / 2
    observed = abs(ranks[: len(a)].sum() - expected)
    sums = [sum(chosen) for chosen in combinations(ranks, len(a))]
    ours = mann_whitney(a, b, rng=rng)
    assert ours.method == "permutation"
    assert ours.p == pytest.approx(np.mean([abs(s - expected) >= observed - 1e-9 for s in sums]))


def test_mann_whitney__few_among_very_many_are_drawn(rng):
    a, b = np.round(rng.normal(size=8), 2) + 1.0, np.round(rng.normal(size=20_000), 2)
    ours = mann_whitney(a, b, rng=rng)
    assert (ours.method, ours.draws) == ("permutation", 9999)
    assert ours.p == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue, abs=0.01)


def test_mann_whitney__a_drawn_p_is_never_zero(rng):
    ours = mann_whitney(np.full(8, 1e6), rng.normal(size=20_000), rng=rng)
    assert ours.p == 1 / 10_000


@pytest.mark.parametrize(
    "a,b,p,effect,why",
    [
        ([0.9] * 5, [0.9] * 7, 1.0, 0.0, "all identical"),
        ([0.9] * 50, [0.9] * 70, 1.0, 0.0, "all identical, large"),
        ([0.9], [0.9], 1.0, 0.0, "one each"),
        ([], [0.9], np.nan, np.nan, "a group is empty"),
    ],
)
def test_mann_whitney__nothing_to_test(*, a, b, p, effect, why, rng):
    ours = mann_whitney(a, b, rng=rng)
    assert (ours.p, ours.effect) == pytest.approx((p, effect), nan_ok=True), why
    assert ours.method == "none"


@given(GROUP, GROUP)
@settings(max_examples=60, deadline=None)
def test_mann_whitney__swapping_the_groups_negates(a, b):
    one, two = mann_whitney(a, b, rng=fresh()), mann_whitney(b, a, rng=fresh())
    assert one.p == pytest.approx(two.p)
    assert one.effect == pytest.approx(-two.effect)
    assert one.z == pytest.approx(-two.z)
    assert 0 < one.p <= 1


@given(st.lists(GROUP, min_size=2, max_size=4), st.sampled_from([np.exp, np.cbrt, lambda x: 3 * x - 1]))
@settings(max_examples=60, deadline=None)
def test_rank_tests__an_increasing_map_changes_nothing(groups, increasing):
    mapped = [increasing(np.array(group)) for group in groups]
    assert kruskal_wallis(groups, rng=fresh()) == kruskal_wallis(mapped, rng=fresh())
    assert mann_whitney(*groups[:2], rng=fresh()) == mann_whitney(*mapped[:2], rng=fresh())
    assert dunn(groups) == dunn(mapped)


@given(st.lists(GROUP, min_size=2, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_kruskal_wallis__order_of_groups_and_values_does_not_matter(groups, random):
    mixed = [random.sample(group, len(group)) for group in random.sample(groups, len(groups))]
    one, two = kruskal_wallis(groups, rng=fresh()), kruskal_wallis(mixed, rng=fresh())
    assert (one.statistic, one.effect) == pytest.approx((two.statistic, two.effect))
    # drawn p values differ by chance when the groups come in another order
    assert one.p == pytest.approx(two.p, abs=1e-9 if one.draws == 0 else 0.03)
    assert 0 < one.p <= 1


@given(GROUP, GROUP, GROUP)
@settings(max_examples=30, deadline=None)
def test_mann_whitney__a_third_group_has_no_part_in_a_pair(a, b, third):
    alone = mann_whitney(a, b, rng=fresh())
    kruskal_wallis([a, b, third], rng=fresh())
    assert mann_whitney(a, b, rng=fresh()) == alone


def test_kruskal_wallis__two_groups_agree_with_the_normal_test(rng):
    a, b = rng.normal(size=40), rng.normal(size=30) + 0.3
    h = kruskal_wallis([a, b], rng=rng)
    u = stats.mannwhitneyu(a, b, method="asymptotic", use_continuity=False)
    assert h.p == pytest.approx(u.pvalue)


@pytest.mark.parametrize("decimals", [1, 6])
def test_kruskal_wallis__equals_scipy(decimals, rng):
    groups = [np.round(rng.normal(size=size), decimals) for size in (21, 29, 26, 8)]
    ours, theirs = kruskal_wallis(groups, rng=rng), stats.kruskal(*groups)
    assert ours.method == "asymptotic"
    assert (ours.statistic, ours.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-9)
    assert ours.effect == ours.statistic / 83


@pytest.mark.parametrize("groups", [([1, 1, 2], [2, 3], [4]), ([5, 1], [2, 2], [2, 9]), ([1, 2], [3, 4, 5])])
def test_kruskal_wallis__small_groups_count_every_arrangement(groups, rng):
    pooled = [value for group in groups for value in group]
    cuts = np.cumsum([len(group) for group in groups])[:-1]
    observed = stats.kruskal(*groups).statistic
    every = [stats.kruskal(*np.split(np.array(order), cuts)).statistic for order in permutations(pooled)]
    assert kruskal_wallis(groups, rng=rng).p == pytest.approx(np.mean(np.array(every) >= observed - 1e-9))


def test_kruskal_wallis__more_arrangements_are_drawn(rng):
    groups = [rng.normal(size=size) for size in (5, 40, 40)]
    ours = kruskal_wallis(groups, rng=rng)
    assert (ours.method, ours.draws) == ("permutation", 9999)
    assert ours.p == pytest.approx(stats.kruskal(*groups).pvalue, abs=0.05)


def test_kruskal_wallis__silver_thirds_are_counted_one_by_one(rng):
    values = [0.98, 0.975, 0.984, 0.972, 0.974, 0.969, 0.979, 0.95, 0.966, 0.968, 0.973, 0.96]
    ranks = stats.rankdata(values)
    squares = []
    for first in combinations(range(12), 4):
        rest = [place for place in range(12) if place not in first]
        for second in combinations(rest, 4):
            one, two = ranks[list(first)].sum(), ranks[list(second)].sum()
            squares.append(one**2 + two**2 + (78 - one - two) ** 2)
    observed = sum(ranks[start : start + 4].sum() ** 2 for start in (0, 4, 8))
    p = np.mean(np.array(squares) >= observed - 1e-9)
    ours = kruskal_wallis([values[:4], values[4:8], values[8:]], rng=rng)
    assert ours.p == pytest.approx(p, abs=1e-12)
    assert len(squares) == 34_650


@pytest.mark.parametrize(
    "groups,p,why",
    [
        ([[0.5] * 4, [0.5] * 3], 1.0, "all identical"),
        ([[0.1, 0.2]], np.nan, "one group"),
        ([[0.1, 0.2], []], np.nan, "one group with values"),
        ([], np.nan, "no group"),
    ],
)
def test_kruskal_wallis__nothing_to_test(groups, p, why, rng):
    test = kruskal_wallis(groups, rng=rng)
    assert test.p == pytest.approx(p, nan_ok=True), why
    assert test.method == "none"


def test_dunn__all_identical():
    assert [(pair.z, pair.p, pair.p_holm) for pair in dunn([[1, 1], [1, 1], [1]])] == [(0.0, 1.0, 1.0)] * 3


def test_dunn__an_empty_group_is_refused():
    with pytest.raises(ValueError, match="no values"):
        dunn([[1, 2], []])


def test_rank_tests__the_same_seed_gives_the_same_p(rng):
    groups = [rng.normal(size=size) for size in (6, 50, 50)]
    assert kruskal_wallis(groups, rng=fresh()) == kruskal_wallis(groups, rng=fresh())


@pytest.mark.slow
def test_rank_tests__p_is_uniform_without_a_gap(rng):
    p = [
        (
            mann_whitney(rng.normal(size=20), rng.normal(size=30), rng=rng).p,
            kruskal_wallis([rng.normal(size=size) for size in (21, 29, 26)], rng=rng).p,
        )
        for _ in range(2000)
    ]
    for column in np.array(p).T:
        assert stats.kstest(column, "uniform").pvalue > 0.001


@pytest.mark.slow
def test_mann_whitney__two_million_values_in_seconds(rng):
    a, b = np.round(rng.normal(size=1_000_000), 4), np.round(rng.normal(size=1_000_000), 4)
    ours = mann_whitney(a, b, rng=rng)
    assert ours.p == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)
