"""Intervals: coverage by counting every outcome, laws, and other implementations."""

import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from segaudit.stats import intervals
from segaudit.stats.intervals import (
    bootstrap_medians,
    dir_interval,
    dpd_interval,
    effective_size,
    hodges_lehmann,
    median_difference_interval,
    median_gap_interval,
    mover_r,
    newcombe,
    pairwise_level,
    wilson,
)


@st.composite
def proportions(draw):
    n = draw(st.integers(1, 60))
    return draw(st.integers(0, n)), n


def coverage(n1, n2):
    """Return the smallest coverage of DIR and DPD limits over rates in [0.70, 1], by counting every outcome."""
    k1, k2 = (grid.ravel() for grid in np.meshgrid(np.arange(n1 + 1), np.arange(n2 + 1), indexing="ij"))
    counts, sizes = np.stack([k1, k2], axis=-1), [n1, n2]
    ratio, difference = dir_interval(counts, sizes, 0.95), newcombe(k1, n1, k2, n2, 0.95)
    smallest = [1.0, 1.0]
    for p1, p2 in product(np.linspace(0.70, 1.0, 31), repeat=2):
        chance = stats.binom.pmf(k1, n1, p1) * stats.binom.pmf(k2, n2, p2)
        truth, gap = min(p1, p2) / max(p1, p2), p1 - p2
        inside = (ratio.low <= truth + 1e-12) & (truth <= ratio.high + 1e-12)
        within = (difference.low <= gap + 1e-12) & (gap <= difference.high + 1e-12)
        smallest = [min(smallest[0], chance[inside].sum()), min(smallest[1], chance[within].sum())]
    return smallest


@pytest.mark.slow
@pytest.mark.parametrize(
    "n1,n2,ratio,difference", [(20, 20, 0.95, 0.947), (16, 53, 0.94, 0.939), (10, 10, 0.96, 0.954)]
)
def test_intervals__coverage_by_enumeration(n1, n2, ratio, difference):
    assert coverage(n1, n2) == pytest.approx([ratio, difference], abs=0.01)


@given(proportions(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson__equals_scipy(kn, level):
    k, n = kn
    theirs = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert wilson(k, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson__solves_the_score_equation_at_a_fractional_size():
    k, n, z = 7.3, 11.8, stats.norm.ppf(0.975)
    for limit in wilson(k, n, 0.95):
        assert abs(k / n - limit) == pytest.approx(z * np.sqrt(limit * (1 - limit) / n))


def test_wilson__without_trials_nothing_is_known():
    assert np.isnan(wilson([0, 1], [0, 1], 0.95).low).tolist() == [True, False]


@given(proportions(), proportions())
def test_newcombe__swapping_negates_and_covers_the_estimate(one, two):
    low, high = newcombe(*one, *two, 0.95)
    back = newcombe(*two, *one, 0.95)
    assert (low, high) == pytest.approx((-back.high, -back.low), abs=1e-12)
    assert low - 1e-12 <= one[0] / one[1] - two[0] / two[1] <= high + 1e-12


def test_newcombe__equals_statsmodels():
    from statsmodels.stats.proportion import confint_proportions_2indep

    theirs = confint_proportions_2indep(15, 16, 52, 53, method="newcomb", compare="diff")
    assert newcombe(15, 16, 52, 53, 0.95) == pytest.approx(theirs, abs=1e-9)


@given(proportions(), proportions())
def test_mover_r__swapping_inverts(one, two):
    low, high = mover_r(*one, *two, 0.95)
    back = mover_r(*two, *one, 0.95)
    inverse = [np.inf if limit == 0 else 1 / limit for limit in (back.high, back.low)]
    assert (low, high) == pytest.approx(inverse, rel=1e-6, abs=1e-12)
    assert 0 <= low <= high


def test_mover_r__solves_the_fieller_equation_of_its_recovered_variances():
    """The limits make the lower (upper) MOVER limit of p1 - R p2 zero, which defines them."""
    (k1, n1), (k2, n2) = (14, 20), (27, 30)
    p1, p2 = k1 / n1, k2 / n2
    (l1, u1), (l2, u2) = wilson(k1, n1, 0.95), wilson(k2, n2, 0.95)
    low, high = mover_r(k1, n1, k2, n2, 0.95)
    assert p1 - low * p2 - np.hypot(p1 - l1, low * (u2 - p2)) == pytest.approx(0, abs=1e-12)
    assert p1 - high * p2 + np.hypot(u1 - p1, high * (p2 - l2)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "k1,n1,k2,n2,low,high,why",
    [
        (0, 10, 5, 10, 0.0, None, "no success in the group"),
        (5, 10, 0, 10, None, np.inf, "no success in the reference group"),
        (0, 10, 0, 10, 0.0, np.inf, "no success at all"),
        (0, 0, 5, 10, np.nan, np.nan, "no cases"),
    ],
)
def test_mover_r__boundaries(*, k1, n1, k2, n2, low, high, why):
    got = mover_r(k1, n1, k2, n2, 0.95)
    for limit, expected in zip(got, (low, high), strict=True):
        assert np.isfinite(limit) if expected is None else limit == pytest.approx(expected, nan_ok=True), why


@given(st.lists(proportions(), min_size=2, max_size=4), st.randoms(use_true_random=False))
def test_dir_and_dpd__order_of_groups_does_not_matter_and_the_estimate_is_inside(groups, random):
    (k, n), (k2, n2) = (
        np.array(list(zip(*chosen, strict=True))) for chosen in (groups, random.sample(groups, len(groups)))
    )
    rates = k / n
    for interval, value in (
        (dir_interval, rates.min() / rates.max() if rates.max() else None),
        (dpd_interval, rates.max() - rates.min()),
    ):
        low, high = interval(k, n, 0.95)
        assert (low, high) == pytest.approx(interval(k2, n2, 0.95), abs=1e-9)
        assert 0 <= low <= high <= 1
        assert value is None or low - 1e-9 <= value <= high + 1e-9


def test_dir_interval__thresholds_are_handled_at_once():
    successes = np.array([[20, 29, 25], [10, 20, 21], [21, 29, 26]])
    low, high = dir_interval(successes, [21, 29, 26], 0.95)
    for row, expected in zip(successes, zip(low, high, strict=True), strict=True):
        assert dir_interval(row, [21, 29, 26], 0.95) == pytest.approx(expected)


@pytest.mark.parametrize(
    "successes,cases,expected,why",
    [
        ([0, 0], [10, 12], (0.0, 1.0), "no success: nothing is known of the ratio"),
        ([100, 10], [100, 100], None, "rates far apart: the upper limit is below 1"),
    ],
)
def test_dir_interval__extremes(successes, cases, expected, why):
    low, high = dir_interval(successes, cases, 0.95)
    if expected is None:
        assert low < 0.1 < high < 0.25, why
    else:
        assert (low, high) == expected, why


def test_dpd_interval__two_groups_fold_newcombe():
    low, high = newcombe(50, 100, 90, 100, 0.95)
    assert dpd_interval([50, 90], [100, 100], 0.95) == pytest.approx((-high, -low))
    assert dpd_interval([90, 90], [100, 100], 0.95).low == 0.0


@pytest.mark.parametrize("interval", [dir_interval, dpd_interval])
def test_rate_intervals__one_group_is_refused(interval):
    with pytest.raises(ValueError, match="two groups"):
        interval([3], [4], 0.95)


@pytest.mark.slow
def test_dir_and_dpd__three_groups_hold_simultaneously():
    rng = np.random.default_rng(5)
    sizes = np.array([21, 29, 26])
    for rates in ([0.95, 0.95, 0.95], [0.85, 0.95, 1.0], [0.8, 0.8, 0.9], [1.0, 1.0, 1.0]):
        counts = rng.binomial(sizes, rates, size=(4000, 3))
        for interval, truth in ((dir_interval, min(rates) / max(rates)), (dpd_interval, max(rates) - min(rates))):
            low, high = interval(counts, sizes, 0.95)
            assert ((low <= truth + 1e-12) & (truth <= high + 1e-12)).mean() > 0.945


def test_pairwise_level__of_three_groups():
    assert [pairwise_level(0.95, k) for k in (2, 3, 4)] == pytest.approx([0.95, 1 - 0.05 / 3, 1 - 0.05 / 6])


@pytest.mark.parametrize(
    "successes,cases,patients,size,why",
    [
        ([1, 0, 1, 1], [1, 1, 1, 1], None, 4.0, "one case a patient"),
        ([2, 2, 0, 2], [2, 2, 2, 2], None, 4.0, "cases of a patient always agree"),
        ([2, 0], [2, 2], [3, 1], 4.0, "the same, by counts"),
        ([1, 1, 1, 1], [2, 2, 2, 2], None, 8.0, "cases of a patient never agree: no gain is taken"),
        ([3, 1, 1], [3, 1, 1], None, 3.0, "rate 1: patients count"),
        ([0, 0], [4, 1], None, 2.0, "rate 0: patients count"),
        ([0, 2], [0, 2], None, 1.0, "a patient without cases does not count"),
        ([], [], None, 0.0, "no patients"),
        ([4, 1, 0], [4, 4, 2], None, 10 / 2.4, "rate 1/2: squares 4 + 1 + 1 = 6 over 10 x 1/4: 2.4"),
    ],
)
def test_effective_size__hand_computed(successes, cases, patients, size, why):
    assert effective_size(successes, cases, patients) == pytest.approx(size), why


@pytest.mark.slow
def test_effective_size__restores_coverage_under_clustering():
    """Five exams a patient that nearly always agree: plain counts cover far too little, effective ones do not."""
    rng = np.random.default_rng(11)
    naive = honest = 0
    for _ in range(1500):
        patients = rng.random(60) < 0.85
        exams = np.where(rng.random((60, 5)) < 0.9, patients[:, None], rng.random((60, 5)) < 0.85)
        k, n = exams.sum(axis=1), np.full(60, 5)
        low, high = wilson(k.sum(), 300, 0.95)
        naive += low <= 0.85 <= high
        size = effective_size(k, n)
        low, high = wilson(k.sum() / 300 * size, size, 0.95)
        honest += low <= 0.85 <= high
    assert naive / 1500 < 0.75
    assert honest / 1500 > 0.925


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 53])
def test_bootstrap_medians__has_the_law_of_resampled_rows(n):
    rng = np.random.default_rng(n)
    values = rng.normal(size=n)
    drawn = bootstrap_medians(values, 20_000, rng)
    rows = np.median(rng.choice(values, size=(20_000, n)), axis=1)
    points = np.unique(np.round(rows, 9))
    shares = [np.searchsorted(np.sort(np.round(sample, 9)), points, side="right") / 20_000 for sample in (drawn, rows)]
    # 1.95 sqrt(2/n): the Kolmogorov-Smirnov distance is beyond it once in a thousand times
    assert np.abs(shares[0] - shares[1]).max() < 1.95 * np.sqrt(2 / 20_000)
    assert set(np.round(drawn, 9)) <= set(np.round(np.add.outer(values, values).ravel() / 2, 9))


def test_bootstrap_medians__law_of_three_values_by_hand():
    """The median of three drawn from {1, 2, 3} is 1 or 3 with chance 7/27 each, 2 with chance 13/27."""
    drawn = bootstrap_medians([3, 1, 2], 200_000, np.random.default_rng(0))
    shares = np.bincount(drawn.astype(int))[1:] / 200_000
    assert shares == pytest.approx([7 / 27, 13 / 27, 7 / 27], abs=0.005)


def test_bootstrap_medians__law_of_two_values_by_hand():
    drawn = bootstrap_medians([0, 1], 200_000, np.random.default_rng(0))
    assert [(drawn == value).mean() for value in (0, 0.5, 1)] == pytest.approx([0.25, 0.5, 0.25], abs=0.005)


def test_median_difference_interval__equals_scipy_percentiles():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=41) + 1, rng.normal(size=30)
    ours = median_difference_interval(a, b, 0.95, 20_000, rng)
    theirs = stats.bootstrap(
        (a, b),
        lambda x, y, axis: np.median(x, axis=axis) - np.median(y, axis=axis),
        method="percentile",
        rng=np.random.default_rng(1),
        batch=1000,
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.06)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 50), min_size=3, max_size=12),
    st.lists(st.integers(0, 50), min_size=3, max_size=12),
    st.integers(-20, 20),
)
def test_medians__shift_and_order(a, b, shift):
    def limits(x, y):
        return median_difference_interval(np.array(x, float), np.array(y, float), 0.9, 500, np.random.default_rng(1))

    low, high = limits(a, b)
    assert low <= high
    assert limits(np.array(a) + shift, np.array(b) + shift) == pytest.approx((low, high))
    assert limits(sorted(a), b[::-1]) == (low, high)


@pytest.mark.parametrize(
    "a,b,low,high,why",
    [
        ([1.0, np.inf, np.inf], [1.0, 1.0, 1.0], 0.0, np.inf, "most of a is infinite"),
        ([np.inf] * 3, [1.0] * 3, np.inf, np.inf, "all of a is infinite"),
        ([np.inf] * 3, [np.inf] * 3, -np.inf, np.inf, "inf - inf: nothing is known"),
    ],
)
def test_median_difference_interval__infinite_scores(a, b, low, high, why):
    assert median_difference_interval(a, b, 0.95, 2000, np.random.default_rng(0)) == (low, high), why


def test_median_gap_interval__two_groups_fold_the_difference():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=50), rng.normal(size=60) + 3
    low, high = median_difference_interval(a, b, 0.95, 5000, np.random.default_rng(9))
    assert median_gap_interval([a, b], 0.95, 5000, np.random.default_rng(9)) == (-high, -low)
    assert median_gap_interval([a, a], 0.95, 5000, rng).low == 0.0


def test_median_gap_interval__one_group_is_refused():
    with pytest.raises(ValueError, match="two groups"):
        median_gap_interval([[1, 2]], 0.95, 10, np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("shifts", [(0.0, 0.0, 0.0), (0.0, 0.8, 0.8), (0.0, 0.5, 1.0)])
def test_median_gap_interval__holds_simultaneously(shifts):
    rng = np.random.default_rng(6)
    inside = 0
    for _ in range(800):
        groups = [rng.normal(size=size) + shift for size, shift in zip((21, 29, 26), shifts, strict=True)]
        low, high = median_gap_interval(groups, 0.95, 1000, rng)
        inside += low <= max(shifts) <= high
    assert inside / 800 > 0.935


SCORE_LISTS = st.lists(st.integers(0, 40), min_size=1, max_size=25)


@given(SCORE_LISTS, SCORE_LISTS)
def test_hodges_lehmann__equals_all_differences(a, b):
    differences = np.sort(np.subtract.outer(np.array(a, float), np.array(b, float)).ravel())
    pairs = differences.size
    skipped = max(
        0, int(np.floor(pairs / 2 - stats.norm.ppf(0.975) * np.sqrt(pairs * (len(a) + len(b) + 1) / 12) - 0.5))
    )
    shift = hodges_lehmann(a, b, 0.95)
    assert tuple(shift) == (np.median(differences), differences[skipped], differences[pairs - skipped - 1])
    swapped = hodges_lehmann(b, a, 0.95)
    assert tuple(shift) == (-swapped.value, -swapped.high, -swapped.low)


@pytest.mark.parametrize("decimals", [0, 2, 12])
def test_hodges_lehmann__bisection_equals_all_differences(decimals, monkeypatch):
    rng = np.random.default_rng(decimals)
    a, b = np.round(rng.normal(size=150) * 5, decimals), np.round(rng.normal(size=90) * 5, decimals)
    whole = hodges_lehmann(a, b, 0.95)
    monkeypatch.setattr(intervals, "_MAX_DIFFERENCES", 60)
    assert tuple(hodges_lehmann(a, b, 0.95)) == pytest.approx(tuple(whole), abs=1e-9)


@pytest.mark.parametrize("a,b", [([], [1.0]), ([1.0, np.inf], [2.0])])
def test_hodges_lehmann__undefined(a, b):
    assert np.isnan(hodges_lehmann(a, b, 0.95)).all()


@pytest.mark.slow
def test_hodges_lehmann__large_groups_in_seconds():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300_000) + 0.25, rng.normal(size=300_000)
    start = time.perf_counter()
    shift = hodges_lehmann(a, b, 0.95)
    assert time.perf_counter() - start < 20
    assert shift.low < 0.25 < shift.high
    assert shift.high - shift.low < 0.02
