"""Equivalence within a margin, detectable gaps and shrunken medians."""

import numpy as np
import pytest

from segaudit.stats.equivalence import (
    effective_noise,
    equivalence,
    minimal_detectable_gap,
    shrunken_medians,
)


@pytest.fixture
def rng():
    return np.random.default_rng(9)


def shifted(gap, n=60, noise=0.03, seed=1):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(0.9, noise, n), rng.normal(0.9 - gap, noise, n)]), np.repeat(["a", "b"], n)


@pytest.mark.parametrize(
    "gap,margin,significant,word,why",
    [
        (0.0, 0.05, False, "equivalent within the margin", "interval inside"),
        (0.02, 0.05, True, "detectable but negligible", "significant, and still inside"),
        (0.20, 0.05, True, "material", "interval beyond"),
        (0.0, 0.005, False, "no difference found, equivalence not shown", "too few for so small a margin"),
        (0.05, 0.05, True, "difference found, size open", "the interval crosses the margin"),
        (0.05, 0.05, False, "no difference found, equivalence not shown", "the same, not significant"),
    ],
)
def test_equivalence__words(gap, margin, significant, word, why, rng):
    found = equivalence(*shifted(gap), margin=margin, significant=significant, rng=rng)
    assert found.word == word, why


def test_equivalence__smallest_margin_is_the_farthest_limit_of_all_pairs(rng):
    scores, groups = shifted(0.02)
    groups = np.where(np.arange(120) % 5 == 0, "c", groups)
    found = equivalence(scores, groups, margin=0.05, rng=rng)
    assert [(pair.group, pair.reference_group) for pair in found.pairs] == [("b", "a"), ("c", "a"), ("c", "b")]
    assert found.smallest_margin == max(max(abs(pair.low), abs(pair.high)) for pair in found.pairs)
    again = equivalence(scores, groups, margin=found.smallest_margin + 1e-9, rng=np.random.default_rng(9))
    assert again.word == "equivalent within the margin"


def test_equivalence__the_difference_is_group_minus_reference_group(rng):
    pair = equivalence([1.0, 2.0, 3.0, 11.0, 12.0, 13.0], list("aaabbb"), margin=1, rng=rng).pairs[0]
    assert (pair.group, pair.reference_group, pair.difference, pair.shift) == ("b", "a", 10.0, 10.0)


@pytest.mark.parametrize("n,method", [(9, "hodges-lehmann"), (10, "median bootstrap")])
def test_equivalence__method_by_the_smallest_group(n, method, rng):
    found = equivalence(*shifted(0.0, n=n), margin=0.05, rng=rng)
    assert found.method == method
    pair = found.pairs[0]
    limits = (pair.shift_low, pair.shift_high) if n < 10 else (pair.low, pair.high)
    assert found.smallest_margin == max(abs(limit) for limit in limits)


def test_equivalence__patients_are_drawn_whole():
    scores, groups = shifted(0.01)
    alone = equivalence(scores, groups, margin=0.05, draws=6000, rng=np.random.default_rng(1)).pairs[0]
    twice = equivalence(
        np.repeat(scores, 2),
        np.repeat(groups, 2),
        patients=np.arange(240) // 2,
        margin=0.05,
        draws=6000,
        rng=np.random.default_rng(2),
    ).pairs[0]
    assert (twice.low, twice.high) == pytest.approx((alone.low, alone.high), abs=1e-3)
    assert (twice.shift_low, twice.shift_high) == pytest.approx((alone.shift_low, alone.shift_high))


@pytest.mark.parametrize("margin", [0.0, -0.1, float("nan")])
def test_equivalence__raise_on_a_margin_not_above_zero(margin, rng):
    with pytest.raises(ValueError, match="above 0"):
        equivalence(*shifted(0.0), margin=margin, rng=rng)


def test_equivalence__raise_on_one_group(rng):
    with pytest.raises(ValueError, match="at least two groups"):
        equivalence([1.0, 2.0], ["a", "a"], margin=1, rng=rng)


def test_minimal_detectable_gap__scales_with_noise_and_root_n():
    base = minimal_detectable_gap(0.03, 20, 20)
    assert minimal_detectable_gap(0.06, 20, 20) == pytest.approx(2 * base)
    assert minimal_detectable_gap(0.03, 80, 80) == pytest.approx(base / 2)
    assert minimal_detectable_gap(0.03, 20, 20, power=0.9) > base


def test_effective_noise__is_the_mean_distance_from_group_medians():
    assert effective_noise([1, 2, 6, 10, 10, 13], list("aaabbb")) == pytest.approx((1 + 0 + 4 + 0 + 0 + 3) / 6)


def test_shrunken_medians__equal_groups_are_drawn_together():
    found = shrunken_medians([1, 2, 3, 1.1, 2.1, 3.1], list("aaabbb"))
    assert found["a"] == found["b"] == pytest.approx(2.05)


def test_shrunken_medians__small_groups_move_most_and_keep_to_their_side():
    rng = np.random.default_rng(6)
    scores = np.concatenate([rng.normal(0, 1, 200), rng.normal(3, 1, 200), rng.normal(6, 1, 4)])
    groups = np.repeat(["a", "b", "c"], [200, 200, 4])
    medians = {name: float(np.median(scores[groups == name])) for name in "abc"}
    found = shrunken_medians(scores, groups)
    moved = {name: abs(found[name] - medians[name]) for name in "abc"}
    assert moved["c"] > 5 * max(moved["a"], moved["b"])
    assert found["a"] < found["b"] < found["c"] < medians["c"]


def test_shrunken_medians__come_nearer_the_truth():
    rng = np.random.default_rng(2)
    raw, shrunk = [], []
    for _ in range(200):
        truth = rng.normal(0, 0.4, 8)
        groups = np.repeat(np.arange(8), 6)
        scores = truth[groups] + rng.normal(size=48)
        medians = np.array([np.median(scores[groups == j]) for j in range(8)])
        found = shrunken_medians(scores, groups)
        raw.append(np.mean((medians - truth) ** 2))
        shrunk.append(np.mean((np.array([found[str(j)] for j in range(8)]) - truth) ** 2))
    assert np.mean(shrunk) < 0.7 * np.mean(raw)


def test_shrunken_medians__without_noise_stay():
    assert shrunken_medians([1, 1, 5, 5], list("aabb")) == {"a": 1.0, "b": 5.0}
