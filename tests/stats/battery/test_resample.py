"""Resampling by counts against resampling of rows, by scipy and by plain loops."""

import time
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from segaudit.stats.disparity import demographic_parity_difference, disparate_impact_ratio, group_medians
from segaudit.stats.resample import (
    RateTable,
    bca_interval,
    bootstrap_disparities,
    bootstrap_rates,
    counts_table,
    expected_median_gap,
    permutation_rates,
    permute_disparities,
    rate_table,
)


@pytest.fixture
def rng():
    return np.random.default_rng(42)


@st.composite
def cells(draw, least=1):
    cases = draw(st.lists(st.integers(least, 12), min_size=2, max_size=4))
    return [draw(st.integers(0, size)) for size in cases], cases


def rows_of(table):
    """Return group, successes and cases of each patient of a table."""
    group, kind = np.nonzero(table.patients)
    repeat = table.patients[group, kind]
    return np.repeat(group, repeat), np.repeat(table.successes[kind], repeat), np.repeat(table.cases[kind], repeat)


def rates_of_rows(group, successes, cases, k):
    """Return rates (..., k) of rows (..., n) by plain masks."""
    with np.errstate(invalid="ignore"):
        return np.stack(
            [(successes * (group == g)).sum(-1) / (cases * (group == g)).sum(-1) for g in range(k)], axis=-1
        )


def far_apart(one, two):
    """Return the largest distance between the distributions of two samples (NaN ranks last)."""
    one, two = (np.sort(np.round(np.nan_to_num(sample, nan=9.0), 9)) for sample in (one, two))
    points = np.union1d(one, two)
    return np.abs(
        np.searchsorted(one, points, "right") / one.size - np.searchsorted(two, points, "right") / two.size
    ).max()


def ks_limit(n, m):
    """Distance that two samples of one law exceed once in a thousand times (less often for discrete laws)."""
    return 1.95 * np.sqrt(1 / n + 1 / m)


SINGLE = counts_table([20, 27, 12], [21, 29, 16])
DOUBLED = RateTable(
    patients=np.array([[3, 9, 1, 2, 2], [1, 14, 0, 1, 3]]),
    successes=np.array([0, 1, 0, 1, 2]),
    cases=np.array([1, 1, 2, 2, 2]),
)


def test_rate_table__counts_patients_by_group_and_type():
    table = rate_table([0, 0, 1, 1, 1, 0], [1, 0, 2, 2, 1, 0], [1, 1, 2, 2, 2, 0], 3)
    types = dict(
        zip(zip(table.successes.tolist(), table.cases.tolist(), strict=True), table.patients.T.tolist(), strict=True)
    )
    assert types == {(0, 1): [1, 0, 0], (1, 1): [1, 0, 0], (1, 2): [0, 1, 0], (2, 2): [0, 2, 0]}
    assert table.group_successes.tolist() == [1, 5, 0]
    assert table.group_cases.tolist() == [2, 6, 0]
    assert table.rates.tolist() == pytest.approx([0.5, 5 / 6, np.nan], nan_ok=True)


@given(cells())
def test_counts_table__is_the_table_of_its_rows(cell):
    table = counts_table(*cell)
    again = rate_table(*rows_of(table), len(cell[0]))
    assert again.rates.tolist() == pytest.approx(table.rates.tolist())
    assert again.group_cases.tolist() == cell[1]


@pytest.mark.parametrize("table", [SINGLE, DOUBLED], ids=["single", "doubled"])
@pytest.mark.parametrize("stratified", [False, True])
def test_bootstrap_rates__has_the_law_of_resampled_rows(table, stratified, rng):
    group, successes, cases = rows_of(table)
    k, n, draws = len(table.patients), group.size, 20_000
    if stratified:
        picks = np.concatenate(
            [rng.choice(np.flatnonzero(group == g), size=(draws, (group == g).sum())) for g in range(k)], axis=1
        )
    else:
        picks = rng.integers(n, size=(draws, n))
    by_rows = rates_of_rows(group[picks], successes[picks], cases[picks], k)
    by_counts = bootstrap_rates(table, draws, rng, stratified=stratified)
    limit = ks_limit(draws, draws)
    for column in range(k):
        assert far_apart(by_counts[:, column], by_rows[:, column]) < limit
    for fn in (disparate_impact_ratio, demographic_parity_difference):
        assert far_apart(fn(by_counts), fn(by_rows)) < limit
    # joint: two groups move together as they do among rows
    assert far_apart(by_counts[:, 0] - by_counts[:, 1], by_rows[:, 0] - by_rows[:, 1]) < limit


@pytest.mark.parametrize("table", [SINGLE, DOUBLED], ids=["single", "doubled"])
def test_permutation_rates__has_the_law_of_shuffled_labels(table, rng):
    group, successes, cases = rows_of(table)
    k, draws = len(table.patients), 20_000
    shuffled = np.tile(group, (draws, 1))
    for count in np.unique(cases):  # among patients with as many cases
        shuffled[:, cases == count] = rng.permuted(shuffled[:, cases == count], axis=1)
    by_rows = rates_of_rows(shuffled, successes, cases, k)
    by_counts = permutation_rates(table, draws, rng)
    for column in range(k):
        assert far_apart(by_counts[:, column], by_rows[:, column]) < ks_limit(draws, draws)
    for fn in (disparate_impact_ratio, demographic_parity_difference):
        assert far_apart(fn(by_counts), fn(by_rows)) < ks_limit(draws, draws)


@given(cells())
@settings(max_examples=40, deadline=None)
def test_permutation_rates__keep_all_successes(cell):
    successes, cases = np.array(cell)
    rates = permutation_rates(counts_table(successes, cases), 50, np.random.default_rng(0))
    assert (rates * cases).sum(axis=1) == pytest.approx(np.full(50, successes.sum()))
    assert ((rates >= 0) & (rates <= 1)).all()


@given(cells())
@settings(max_examples=30, deadline=None)
def test_bootstrap_rates__stay_rates(cell):
    rates = bootstrap_rates(counts_table(*cell), 50, np.random.default_rng(0))
    assert (np.isnan(rates) | ((rates >= 0) & (rates <= 1))).all()
    assert rates.shape == (50, len(cell[0]))


@given(cells())
@settings(max_examples=40, deadline=None)
def test_permute_disparities__counted_p_equals_drawn_p(cell):
    table, rng = counts_table(*cell), np.random.default_rng(3)
    exact = permute_disparities(table, 4000, rng)
    assert exact.draws == 0
    rates = permutation_rates(table, 4000, rng)
    for p, expected, fn, sign in (
        (exact.p_dir, exact.expected_dir, disparate_impact_ratio, -1),
        (exact.p_dpd, exact.expected_dpd, demographic_parity_difference, 1),
    ):
        observed, drawn = float(fn(table.rates)), fn(rates)
        if np.isnan(observed):
            assert np.isnan(p)
            continue
        assert p == pytest.approx((sign * drawn >= sign * observed - 1e-9).mean(), abs=0.04)
        assert 0 < p <= 1
        assert expected == pytest.approx(drawn.mean(), abs=0.02)


@pytest.mark.parametrize(
    "successes,size,why",
    [
        ([12, 19], 20, "few"),
        ([4820, 4780], 5_000, "no outcome comes near the likeliest count of either group alone"),
        ([99_950, 99_920], 100_000, "a rare failure among very many"),
    ],
)
def test_permute_disparities__two_groups_equal_fishers_law(successes, size, why):
    """With two groups of one size DPD is a monotone map of Fisher's table, so the p values agree."""
    result = permute_disparities(counts_table(successes, [size, size]), 10, np.random.default_rng(0))
    fisher = stats.fisher_exact([[good, size - good] for good in successes]).pvalue
    assert result.draws == 0
    assert result.p_dpd == pytest.approx(fisher, rel=1e-6), why
    assert np.isfinite([result.p_dir, result.expected_dir, result.expected_dpd]).all()


@pytest.mark.parametrize(
    "successes,cases,p_dir,p_dpd,why",
    [
        ([20, 30], [20, 30], 1.0, 1.0, "no failure: every shuffle looks the same"),
        ([0, 0], [20, 30], np.nan, 1.0, "no success: DIR is 0/0"),
        ([0, 30], [20, 30], 1 / 47129212243960, 1 / 47129212243960, "one split in C(50, 20)"),
    ],
)
def test_permute_disparities__extremes(*, successes, cases, p_dir, p_dpd, why, rng):
    result = permute_disparities(counts_table(successes, cases), 100, rng)
    assert (result.p_dir, result.p_dpd) == pytest.approx((p_dir, p_dpd), nan_ok=True, rel=1e-6, abs=0), why


def test_permute_disparities__a_drawn_p_is_never_zero(rng):
    table = RateTable(np.array([[40, 0, 2], [0, 50, 2]]), np.array([0, 1, 1]), np.array([1, 1, 2]))
    result = permute_disparities(table, 999, rng)
    assert (result.draws, result.p_dir, result.p_dpd) == (999, 0.001, 0.001)


def test_permute_disparities__many_outcomes_are_drawn(rng):
    table = counts_table([5000, 5100, 5200], [10_000, 10_000, 10_000])
    result = permute_disparities(table, 2000, rng)
    assert result.draws == 2000
    chi = stats.chi2_contingency([[5000, 5100, 5200], [5000, 4900, 4800]]).pvalue
    assert result.p_dpd == pytest.approx(chi, abs=0.02)


@given(cells(least=2), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_permute_disparities__order_of_groups_does_not_matter(cell, random):
    order = random.sample(range(len(cell[0])), len(cell[0]))
    one, two = (
        permute_disparities(
            counts_table(np.array(cell[0])[places], np.array(cell[1])[places]), 10, np.random.default_rng(0)
        )
        for places in (list(range(len(order))), order)
    )
    assert [one.p_dir, one.p_dpd, one.expected_dir] == pytest.approx(
        [two.p_dir, two.p_dpd, two.expected_dir], nan_ok=True
    )


def scipy_interval(successes, cases, fn, seed):
    """Return scipy's BCa limits over row indices, all cases resampled together."""
    group, success, _ = rows_of(counts_table(successes, cases))

    def statistic(index, axis):
        return fn(rates_of_rows(group[index], success[index], np.ones_like(group[index]), len(cases)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limits = stats.bootstrap(
            (np.arange(group.size),), statistic, method="BCa", n_resamples=10_000, batch=2000, rng=seed
        ).confidence_interval
    return np.array([limits.low, limits.high])


@pytest.mark.slow
@pytest.mark.parametrize(
    "successes,cases",
    [([63, 144], [65, 144]), ([15, 52], [16, 53]), ([20, 29, 25], [21, 29, 26]), ([90, 70, 30], [105, 75, 48])],
)
@pytest.mark.parametrize("fn", [disparate_impact_ratio, demographic_parity_difference])
def test_bootstrap_disparities__equals_scipy_bca(successes, cases, fn):
    theirs = np.array([scipy_interval(successes, cases, fn, seed) for seed in range(8)])
    limits = [
        bootstrap_disparities(counts_table(successes, cases), 0.95, 10_000, np.random.default_rng(seed))
        for seed in range(32)
    ]
    chosen = [limit.dir if fn is disparate_impact_ratio else limit.dpd for limit in limits]
    assert {limit.method for limit in chosen} == {"bca"}
    ours = np.array([(limit.low, limit.high) for limit in chosen])
    assert ours.mean(axis=0) == pytest.approx(theirs.mean(axis=0), abs=0.008)


def test_bca_interval__equals_scipy_on_the_same_draws(rng):
    """Same draws and jackknife: the limits agree exactly, so only the law of the draws is left to chance."""
    data = rng.exponential(size=40)
    result = stats.bootstrap((data,), np.mean, method="BCa", n_resamples=3000, rng=np.random.default_rng(1))
    left_out = (data.sum() - data) / (data.size - 1)
    ours = bca_interval(data.mean(), result.bootstrap_distribution, left_out, np.ones(40), 0.95)
    assert (ours.low, ours.high) == pytest.approx(tuple(result.confidence_interval), abs=1e-9)


@pytest.mark.parametrize(
    "successes,cases,expected,why",
    [
        ([20, 30], [20, 30], (1.0, 1.0, "percentile"), "no failure: the bootstrap is blind, as in the study"),
        ([0, 0], [20, 30], (np.nan, np.nan, "none"), "no success: DIR is undefined"),
    ],
)
def test_bootstrap_disparities__degenerate(*, successes, cases, expected, why, rng):
    limits = bootstrap_disparities(counts_table(successes, cases), 0.95, 500, rng).dir
    assert (limits.low, limits.high) == pytest.approx(expected[:2], nan_ok=True), why
    assert limits.method == expected[2], why


@pytest.mark.parametrize(
    "successes,cases,why",
    [([3], [4], "one group"), ([3, 0], [4, 0], "a second group without patients"), ([0, 0], [0, 0], "no patients")],
)
def test_resample__too_few_groups_break_nothing(successes, cases, why, rng):
    table = counts_table(successes, cases)
    permuted, limits = permute_disparities(table, 50, rng), bootstrap_disparities(table, 0.95, 50, rng)
    if sum(cases):
        assert (permuted.p_dir, permuted.p_dpd, limits.dir.low, limits.dpd.high) == (1.0, 1.0, 1.0, 0.0), why
    else:
        assert np.isnan([permuted.p_dir, permuted.p_dpd, limits.dir.low, limits.dpd.high]).all(), why


@pytest.mark.slow
@pytest.mark.parametrize(
    "work", [lambda t, r: bootstrap_disparities(t, 0.95, 2000, r), lambda t, r: permutation_rates(t, 2000, r)]
)
def test_resample__cost_does_not_grow_with_the_cases(work, rng):
    def spent(scale):
        table = counts_table(np.array([60, 80, 75]) * scale, np.array([63, 87, 78]) * scale)
        times = []
        for _ in range(7):
            start = time.process_time()
            work(table, rng)
            times.append(time.process_time() - start)
        return min(times)

    assert spent(10_000) < 8 * spent(1) + 0.005


def test_resample__the_same_seed_gives_the_same_limits():
    one, two = (bootstrap_disparities(SINGLE, 0.95, 1000, np.random.default_rng(1)) for _ in range(2))
    assert one == two


def test_expected_median_gap__equals_plain_shuffles(rng):
    groups = [np.round(rng.normal(size=size), 2) for size in (5, 8, 12)]
    ours = expected_median_gap(groups, 20_000, rng)
    pooled = np.concatenate(groups)
    gaps = [np.ptp(group_medians(np.split(rng.permutation(pooled), [5, 13]))) for _ in range(4000)]
    assert ours.method == "shuffle"
    assert ours.mean == pytest.approx(np.mean(gaps), rel=0.04)
    assert ours.high == pytest.approx(np.quantile(gaps, 0.95), rel=0.06)


def test_expected_median_gap__large_groups_agree_with_shuffles(rng, monkeypatch):
    groups = [rng.gamma(2.0, size=size) for size in (300, 500, 200)]
    shuffled = expected_median_gap(groups, 6000, rng)
    monkeypatch.setattr("segaudit.stats.resample._MAX_SHUFFLED", 0)
    drawn = expected_median_gap(groups, 6000, rng)
    assert (shuffled.method, drawn.method) == ("shuffle", "order_statistics")
    assert (drawn.mean, drawn.high) == pytest.approx((shuffled.mean, shuffled.high), rel=0.06)


@pytest.mark.parametrize("groups", [[], [[1.0, 2.0]], [[np.inf], [np.inf]]])
def test_expected_median_gap__undefined(groups, rng):
    assert np.isnan(expected_median_gap(groups, 20, rng).mean)


def test_expected_median_gap__sees_sizes_not_labels(rng):
    values = rng.normal(size=60)
    one = expected_median_gap([values[:20], values[20:]], 500, np.random.default_rng(0))
    two = expected_median_gap([values[40:], values[:40]], 500, np.random.default_rng(0))
    assert one == two
