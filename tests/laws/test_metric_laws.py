"""Laws that hold for every registered metric by what its card declares."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from segaudit.metrics import METRICS, of_masks

LOAD = 0.2
every_metric = pytest.mark.parametrize("metric", METRICS, ids=METRICS.names())
quick = settings(max_examples=25, deadline=None)
spacings = st.tuples(*[st.sampled_from([0.43, 0.7, 1.0, 3.3])] * 3)


def _pair(shape):
    return st.tuples(arrays(bool, shape), arrays(bool, shape))


pairs = st.one_of(
    st.tuples(*[st.integers(2, 4)] * 3).flatmap(_pair), st.tuples(*[st.integers(2, 6)] * 2).flatmap(_pair)
)


def _value(metric, prediction, reference, spacing=(1.0, 1.0, 1.0)):
    return of_masks(metric, prediction, reference, spacing[: prediction.ndim], load=LOAD)


def _same(a, b):
    return a == pytest.approx(b, rel=1e-12, abs=1e-12, nan_ok=True)


@every_metric
@quick
@given(pair=pairs, spacing=spacings)
def test_metric__lies_within_its_bounds(metric, pair, spacing):
    found = _value(metric, *pair, spacing)
    low, high = metric.bounds
    assert math.isnan(found) or low <= found <= high


@every_metric
@quick
@given(pair=pairs, spacing=spacings)
def test_metric__perfect_agreement_is_best(metric, pair, spacing):
    mask = pair[0]
    assume(mask.any())
    if metric.better != "neither":
        assert _value(metric, mask, mask, spacing) == metric.best
        assert metric.best == (max if metric.better == "higher" else min)(metric.bounds)


@every_metric
@quick
@given(pair=pairs, spacing=spacings)
def test_metric__masks_may_be_exchanged_where_declared(metric, pair, spacing):
    if metric.symmetric:
        assert _same(_value(metric, *pair, spacing), _value(metric, *pair[::-1], spacing))


@every_metric
def test_metric__is_declared_symmetric_only_if_it_is(metric):
    prediction, reference = np.zeros((2, 6, 6), bool)
    prediction[1, 1:4] = prediction[4, 5] = reference[1, 2:4] = True
    exchanged = _same(_value(metric, prediction, reference), _value(metric, reference, prediction))
    assert exchanged == metric.symmetric


@every_metric
@quick
@given(pair=pairs, spacing=spacings, data=st.data())
def test_metric__flips_and_turns_change_nothing(metric, pair, spacing, data):
    spacing = spacing[: pair[0].ndim]
    plain = _value(metric, *pair, spacing)
    axis = data.draw(st.integers(0, pair[0].ndim - 1))
    assert _same(_value(metric, *(np.flip(mask, axis) for mask in pair), spacing), plain)
    turn = data.draw(st.sampled_from(list(itertools.permutations(range(pair[0].ndim)))))
    turned = tuple(spacing[axis] for axis in turn)
    assert _same(_value(metric, *(mask.transpose(turn) for mask in pair), turned), plain)


@every_metric
@quick
@given(pair=pairs, spacing=spacings, data=st.data())
def test_metric__where_the_masks_lie_changes_nothing(metric, pair, spacing, data):
    moves = data.draw(st.tuples(*[st.integers(0, 3)] * pair[0].ndim))
    homes = [tuple((m * here, 3 - m * here) for m in moves) for here in (0, 1)]
    here, there = ([np.pad(mask, home) for mask in pair] for home in homes)
    assert _same(_value(metric, *here, spacing), _value(metric, *there, spacing))


@every_metric
def test_metric__empty_masks_give_what_the_card_says(metric):
    full, empty = np.zeros((2, 4, 4, 4), bool)
    full[1:3, 1:3, 1:3] = True
    for prediction, reference, case in (
        (empty, empty, "both"),
        (empty, full, "prediction"),
        (full, empty, "reference"),
    ):
        found = _value(metric, prediction, reference)
        if metric.empty is None:
            assert math.isfinite(found), "a quantity that empty masks leave defined"
            assert metric.better == "neither"
        else:
            assert found == pytest.approx(getattr(metric.empty, case), nan_ok=True)


@every_metric
def test_metric__card_is_complete(metric):
    assert metric.title
    assert metric.unit
    assert metric.source
    assert metric.bounds[0] < metric.bounds[1]
    assert [metric.fn, metric.from_counts, metric.from_measured].count(None) == 2
    if metric.empty is not None:
        assert not math.isfinite(metric.empty.both), "what two empty masks count is for the plan to say"


@quick
@given(pair=pairs, spacing=spacings, factor=st.sampled_from([0.5, 3.0, 10.0]))
def test_hd95__is_measured_in_mm(pair, spacing, factor):
    larger = tuple(step * factor for step in spacing)
    assert _same(_value(METRICS["hd95"], *pair, larger), factor * _value(METRICS["hd95"], *pair, spacing))


@quick
@given(pair=pairs)
def test_ndsc__at_the_load_of_the_case_is_the_dice(pair):
    prediction, reference = pair
    assume(reference.any())
    assert _same(
        of_masks(METRICS["ndsc"], prediction, reference, load=float(reference.mean())),
        of_masks(METRICS["dice"], prediction, reference),
    )
