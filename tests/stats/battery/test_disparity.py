"""Disparity cards: every card by its declared properties, and hand-computed rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segaudit.errors import AuditError
from segaudit.stats.disparity import (
    DISPARITIES,
    demographic_parity_difference,
    disparate_impact_ratio,
    group_medians,
    median_gap,
    rate_difference,
    rate_ratio,
    rate_status,
)

RATES = st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5)
CARDS = list(DISPARITIES)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
@given(rates=RATES)
def test_disparity__keeps_its_bounds(card, rates):
    value = float(card.fn(rates[:2] if card.over == "pair" else rates))
    assert card.bounds[0] <= value <= card.bounds[1]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
@given(rate=st.floats(0.01, 1.0))
def test_disparity__alike_groups_are_at_parity(card, rate):
    assert float(card.fn([rate, rate])) == card.parity


@given(RATES, st.randoms(use_true_random=False))
def test_disparity__over_groups_ignores_their_order(rates, random):
    mixed = random.sample(rates, len(rates))
    for card in CARDS:
        if card.over == "groups":
            assert float(card.fn(rates)) == float(card.fn(mixed))


@given(st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_disparity__swapping_a_pair_negates_or_inverts(a, b):
    assert float(rate_difference([a, b])) == -float(rate_difference([b, a]))
    assert float(rate_ratio([a, b])) == pytest.approx(1 / float(rate_ratio([b, a])))


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_disparity__leading_axes_are_handled_at_once(card):
    rates = np.random.default_rng(0).random((4, 3, 2))
    assert card.fn(rates).shape == (4, 3)
    assert float(card.fn(rates)[2, 1]) == float(card.fn(rates[2, 1]))


@pytest.mark.parametrize(
    "rates,ratio,difference,why",
    [
        ([0.5, 1.0], 0.5, 0.5, "two groups"),
        ([0.9, 0.8, 1.0], 0.8, 0.2, "extremes of three"),
        ([0.0, 1.0], 0.0, 1.0, "one group always fails"),
        ([0.0, 0.0], np.nan, 0.0, "no success at all: 0/0"),
        ([1.0, 1.0], 1.0, 0.0, "no failure at all"),
        ([0.5, np.nan, 1.0], 0.5, 0.5, "a group without cases takes no part"),
        ([np.nan, np.nan], np.nan, np.nan, "no cases"),
    ],
)
def test_rates__hand_computed(rates, ratio, difference, why):
    assert float(disparate_impact_ratio(rates)) == pytest.approx(ratio, nan_ok=True), why
    assert float(demographic_parity_difference(rates)) == pytest.approx(difference, nan_ok=True), why


@pytest.mark.parametrize(
    "groups,medians,gap,why",
    [
        ([[3, 1, 2], [5, 4]], [2.0, 4.5], 2.5, "odd and even"),
        ([[1, np.inf, np.inf], [1, 2]], [np.inf, 1.5], np.inf, "most of a group is infinite"),
        ([[np.inf], [np.inf]], [np.inf, np.inf], np.nan, "inf - inf is undefined"),
        ([[1.0, 2.0], []], [1.5, np.nan], 0.0, "an empty group takes no part"),
    ],
)
def test_median_gap__hand_computed(groups, medians, gap, why):
    assert group_medians(groups).tolist() == pytest.approx(medians, nan_ok=True), why
    assert float(median_gap(group_medians(groups))) == pytest.approx(gap, nan_ok=True), why


@pytest.mark.parametrize(
    "successes,cases,status",
    [
        ([20, 30], [20, 30], "saturated"),
        ([0, 0], [4, 3], "undefined"),
        ([19, 30], [20, 30], "ok"),
        ([15, 30], [20, 30], "ok"),
        ([20, 0], [20, 0], "one_group"),
        ([0, 0], [0, 0], "one_group"),
    ],
)
def test_rate_status__hand_computed(successes, cases, status):
    assert rate_status(successes, cases) == status


def test_disparities__an_unknown_name_is_answered():
    with pytest.raises(AuditError, match="UNKNOWN_DISPARITY"):
        DISPARITIES["dri"]
