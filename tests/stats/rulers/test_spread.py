"""Ratios of SD, IQR, MAD and mean absolute distance, against recomputation case by case."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.stats.spread import pitman_morgan, spread_ratios

NAMES = ("sd", "iqr", "mad", "mnad")


def plainly(values, groups):
    """Return the four measures as their definitions say."""
    centred, around, levels = values.copy(), values.copy(), np.unique(groups)
    for level in levels:
        centred[groups == level] -= np.median(values[groups == level])
        around[groups == level] -= np.mean(values[groups == level])
    free = values.size - levels.size
    return {
        "sd": np.sqrt((around**2).sum() / free) if free > 0 else np.nan,
        "iqr": np.subtract(*np.percentile(centred, [75, 25])),
        "mad": np.median(np.abs(centred)),
        "mnad": np.mean(np.abs(centred)),
    }


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(6, 20), st.integers(1, 3))
def test_spread_ratios__leaving_out_each_case_equals_recomputation(seed, n, k):
    rng = np.random.default_rng(seed)
    x, y, groups = rng.normal(size=n), rng.normal(size=n), np.arange(n) % k
    found = spread_ratios(x, y, groups=groups)
    rest = [np.arange(n) != i for i in range(n)]
    for name in NAMES:
        measure = getattr(found, name)
        whole = plainly(y, groups)[name] / plainly(x, groups)[name]
        assert measure.ratio == pytest.approx(whole)
        each = np.array([plainly(y[r], groups[r])[name] / plainly(x[r], groups[r])[name] for r in rest])
        assert (measure.without_one_low, measure.without_one_high) == pytest.approx((each.min(), each.max()))
        moved = np.abs(np.log(each / whole))
        assert moved[measure.driver] == pytest.approx(moved.max())


def test_spread_ratios__a_group_of_one_case_and_ties():
    x = np.array([0.1, 0.1, 0.4, 0.8, 0.9, 0.3])
    y = np.array([0.5, 0.7, 0.7, 0.9, 0.2, 0.3])
    groups = np.array([0, 0, 0, 0, 0, 1])
    found = spread_ratios(x, y, groups=groups)
    rest = [np.arange(6) != i for i in range(6)]
    for name in ("sd", "mnad"):
        each = [plainly(y[r], groups[r])[name] / plainly(x[r], groups[r])[name] for r in rest]
        got = getattr(found, name)
        assert (got.without_one_low, got.without_one_high) == pytest.approx((min(each), max(each)))


@pytest.mark.parametrize(
    "other,unusable,why",
    [
        ([0.0, 0.0, 0.0, 0.0, 0.3, 0.7], {"iqr", "mad"}, "four of six distances are 0"),
        ([0.0, 0.0, 0.0, 0.2, 0.3, 0.7], set(), "half is not more than half"),
        ([0.5] * 6, set(NAMES), "no spread"),
    ],
)
def test_spread_ratios__says_why_there_is_none(other, unusable, why):
    found = spread_ratios([0.1, 0.2, 0.35, 0.6, 0.8, 0.9], other)
    got = {name for name in NAMES if np.isnan(getattr(found, name).ratio)}
    assert got == unusable, why
    assert all(bool(getattr(found, name).reason) == (name in unusable) for name in NAMES), why


def test_spread_ratios__swapping_the_rulers_inverts_them():
    rng = np.random.default_rng(2)
    x, y, groups = rng.normal(size=40), 0.3 * rng.normal(size=40), rng.integers(0, 2, size=40)
    one, two = spread_ratios(x, y, groups=groups), spread_ratios(y, x, groups=groups)
    for name in NAMES:
        a, b = getattr(one, name), getattr(two, name)
        assert (b.ratio, b.without_one_low) == pytest.approx((1 / a.ratio, 1 / a.without_one_high))
        assert (b.low, b.high) == pytest.approx((1 / a.high, 1 / a.low), nan_ok=True)


def test_pitman_morgan__raise_without_spread():
    with pytest.raises(ValueError, match="spread under both"):
        pitman_morgan([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0])
