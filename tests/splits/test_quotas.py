"""Rounding shares to whole numbers, at every level of a hierarchy at once."""

from itertools import product
from math import ceil, floor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from segaudit.splits.quotas import round_quotas

WEIGHTS = st.lists(st.integers(1, 40), min_size=2, max_size=5)
SIZES = st.integers(1, 3).flatmap(
    lambda depth: st.dictionaries(st.tuples(*[st.sampled_from("abc")] * depth), st.integers(1, 60), min_size=1)
)


@pytest.mark.parametrize(
    ("sizes", "weights", "expected", "why"),
    [
        ({("a",): 10}, [7, 1, 2], {("a",): [7, 1, 2]}, "whole targets stay"),
        ({("a",): 11}, [7, 1, 2], {("a",): [8, 1, 2]}, "7.7, 1.1, 2.2: the largest remainder rounds up"),
        ({("a",): 3}, [1, 1], {("a",): [2, 1]}, "1.5, 1.5: the earlier part wins a tie"),
        ({("a",): 1, ("b",): 1}, [1, 1], {("a",): [1, 0], ("b",): [0, 1]}, "both ties to one part would give 2 : 0"),
        ({("a",): 5, ("b",): 5}, [7, 1, 2], {("a",): [4, 0, 1], ("b",): [3, 1, 1]}, "3.5, .5, 1 twice: in all 7, 1, 2"),
    ],
)
def test_round_quotas__matches_hand_computed_counts(sizes, weights, expected, why):
    assert round_quotas(sizes, weights) == expected, why


@given(sizes=SIZES, weights=WEIGHTS)
def test_round_quotas__every_union_of_strata_is_within_one_of_its_target(sizes, weights):
    counts = round_quotas(sizes, weights)
    assert {key: sum(row) for key, row in counts.items()} == sizes
    depth = len(next(iter(sizes)))
    for prefix in {key[:length] for key, length in product(sizes, range(depth + 1))}:
        inside = [key for key in sizes if key[: len(prefix)] == prefix]
        for part, weight in enumerate(weights):
            numerator = sum(sizes[key] for key in inside) * weight
            got = sum(counts[key][part] for key in inside)
            assert numerator // sum(weights) <= got <= -(-numerator // sum(weights))


@given(size=st.integers(1, 60), weights=WEIGHTS)
@example(size=37, weights=[16, 10, 10, 36, 37])
def test_round_quotas__a_single_stratum_is_rounded_as_near_as_can_be(size, weights):
    targets = [size * weight / sum(weights) for weight in weights]
    (found,) = round_quotas({("a",): size}, weights).values()
    choices = product(*({floor(target), ceil(target)} for target in targets))
    best = min(_distance(choice, targets) for choice in choices if sum(choice) == size)
    assert _distance(found, targets) == pytest.approx(best)


def _distance(counts, targets):
    return sum((count - target) ** 2 for count, target in zip(counts, targets, strict=True))


@given(sizes=SIZES, weights=WEIGHTS)
def test_round_quotas__does_not_depend_on_the_order_of_the_strata(sizes, weights):
    assert round_quotas(dict(reversed(sizes.items())), weights) == round_quotas(sizes, weights)
