"""The case kernel: codings, regions, ignored voxels, and what is left out."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from segaudit.errors import AuditError
from segaudit.metrics import (
    METRICS,
    Counts,
    Empty,
    Measured,
    Metric,
    count_values,
    effective_load,
    hd95,
    kernel,
    measure,
    value,
)

WAYS = ["numpy"] if kernel.KERNEL is None else ["kernel", "numpy"]


@pytest.fixture(autouse=True, params=WAYS)
def way(request, monkeypatch):
    """Every test runs with the compiled kernel, where there is one, and without."""
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "KERNEL", None)


ONE = {"a": (1,)}
SPACING = (2.0, 1.0, 0.5)
WIDTHS = ["u1", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", ">i4", "<i8", ">u8"]


def _image(values, shape=(2, 3, 4), dtype="u1"):
    image = np.zeros(shape, dtype)
    image.flat[: len(values)] = values
    return image


@pytest.mark.parametrize("dtype", WIDTHS)
def test_measure__every_integer_width_gives_the_same(dtype):
    prediction, reference = _image([1, 1, 2, 0, 3]), _image([1, 2, 2, 2, 0])
    labels = {"a": (1,), "b": (2, 3)}
    plain = measure(prediction, reference, labels, labels, SPACING)
    assert measure(prediction.astype(dtype), reference, labels, labels, SPACING) == plain
    assert measure(prediction, reference.astype(dtype), labels, labels, SPACING) == plain
    assert plain["a"].counts == Counts(1, 1, 0, 22)
    assert plain["b"].counts == Counts(1, 1, 2, 20)


@pytest.mark.parametrize(
    ("dtype", "values", "label", "expected", "why"),
    [
        ("i2", [1, 257, -255, 256, -1], 1, 1, "none of them is 1 although each is in its low byte"),
        ("i8", [1, 1 + 2**32, 1 - 2**32], 1, 1, "a wide value is looked up whole"),
        ("u8", [1, 2**64 - 1], -1, 0, "an unsigned array holds no -1"),
        ("i1", [-1, 1, 127, -128], -1, 1, "a negative value is a value"),
        ("i2", [-1, 255, 1], -1, 1, "-1 is not 255"),
        ("u1", [44, 1], 300, 0, "300 does not fit and is not 44"),
        ("u1", [255, 255, 1], 255, 2, "a mask of 255"),
        ("i4", [70_000, 4464], 70_000, 1, "a value beyond 16 bits"),
        ("?", [1, 1, 0], 1, 2, "a boolean mask is 0 and 1"),
    ],
)
def test_measure__values_never_wrap(dtype, values, label, expected, why):
    image = _image(values, dtype=dtype)
    found = measure(image, image, {"a": (label,)}, {"a": (label,)}, SPACING)["a"].counts
    assert found == Counts(expected, 0, 0, 24 - expected), why


@pytest.mark.parametrize("dtype", [*WIDTHS, "?"])
def test_count_values__leaves_out_zero_and_nothing_else(dtype):
    image = _image([1, 1, 0, 1], dtype=dtype)
    assert count_values(image) == count_values(image.T) == {1: 3}
    if np.dtype(dtype).kind == "i":
        image.flat[5] = np.iinfo(dtype).min
        assert count_values(image) == {int(np.iinfo(dtype).min): 1, 1: 3}


def test_measure__values_outside_the_labels_are_background():
    counts = measure(_image([7, 1, 9]), _image([1, 1, 200]), ONE, ONE, SPACING)["a"].counts
    assert counts == Counts(tp=1, fp=0, fn=1, tn=22)


def test_measure__a_label_may_be_zero():
    counts = measure(_image([0, 1]), _image([1, 1]), {"rest": (0,)}, {"rest": (0,)}, SPACING)["rest"].counts
    assert counts == Counts(tp=22, fp=1, fn=0, tn=1)


def test_measure__regions_overlap_and_codings_differ():
    # Whole tumour, core and enhancing tumour; the reference writes enhancing as 4.
    ours = {"wt": (1, 2, 3), "tc": (1, 3), "et": (3,)}
    theirs = {"wt": (1, 2, 4), "et": (4,), "tc": (4, 1)}
    found = measure(_image([1, 2, 3, 3, 0, 4]), _image([1, 2, 4, 2, 4, 3]), ours, theirs, SPACING)
    assert found["wt"].counts == Counts(tp=4, fp=0, fn=1, tn=19)
    assert found["tc"].counts == Counts(tp=2, fp=1, fn=1, tn=20)
    assert found["et"].counts == Counts(tp=1, fp=1, fn=1, tn=21)
    assert list(found) == ["wt", "tc", "et"]


def test_measure__ignored_voxels_count_on_neither_side():
    found = measure(_image([1, 1, 0, 1, 9]), _image([1, 9, 9, 0, 1]), ONE, ONE, SPACING, ignore=9)["a"]
    assert found.counts == Counts(tp=1, fp=1, fn=1, tn=19)
    assert found.counts.total == 22
    shut = measure(_image([1, 1]), _image([9, 9]), ONE, ONE, SPACING, ignore=9)["a"]
    assert shut.counts == Counts(0, 0, 0, 22)
    assert math.isnan(shut.hd95)
    named = measure(_image([1, 1]), _image([1, 9]), {"a": (1, 9)}, {"a": (1, 9)}, SPACING, ignore=9)["a"]
    assert named.counts == Counts(1, 0, 0, 22), "a value that is both ignored and in a label is ignored"


def test_measure__more_labels_than_a_byte_holds():
    image = np.arange(600, dtype="u2").reshape(6, 10, 10)
    labels = {f"l{v}": (v,) for v in range(1, 600)}
    found = measure(image, np.roll(image, 1), labels, labels, (1.0,) * 3, boundary=False, components=False)
    assert all(m.counts == Counts(0, 1, 1, 598) for m in found.values())
    assert found["l300"].hd95 is None


def test_measure__pieces_touch_at_corners():
    reference = np.zeros((4, 4, 4), "u1")
    reference[0, 0, 0] = reference[1, 1, 1] = reference[3, 3, 3] = 1
    prediction = np.where(np.indices((4, 4, 4)).sum(0) % 3 == 0, 0, 1)
    found = measure(prediction, reference, ONE, ONE, SPACING)["a"]
    assert (found.components_prediction, found.components_reference) == (1, 2)
    assert found.volume_reference_mm3 == 3.0
    assert found.voxel_mm3 == 1.0


def test_measure__labels_are_scored_one_by_one_on_the_full_image():
    rng = np.random.default_rng(5)
    prediction, reference = rng.integers(0, 4, (2, 5, 6, 7)).astype("u1")
    labels = {"a": (1,), "b": (2,), "c": (3,), "all": (1, 2, 3)}
    found = measure(prediction, reference, labels, labels, SPACING)
    for name, values in labels.items():
        ours, theirs = np.isin(prediction, values), np.isin(reference, values)
        counts = Counts((ours & theirs).sum(), (ours & ~theirs).sum(), (~ours & theirs).sum(), (~ours & ~theirs).sum())
        assert found[name].counts == counts
        assert found[name].hd95 == hd95(ours, theirs, SPACING)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(images=arrays("u1", st.tuples(st.just(2), *[st.integers(1, 5)] * 3), elements=st.integers(0, 3)))
def test_measure__neither_order_nor_surroundings_matter(images):
    labels = {"a": (1,), "bc": (2, 3)}
    plain = measure(*images, labels, labels, SPACING)
    if min(images.shape[1:]) > 1:
        fortran = [np.asfortranarray(image) for image in images]
        padded = [np.pad(image, ((3, 0), (0, 2), (1, 1))) for image in images]
        for name, found in plain.items():
            other, wide = (measure(*pair, labels, labels, SPACING)[name] for pair in (fortran, padded))
            for field in ("hd95", "components_prediction", "components_reference"):
                assert np.array_equal(getattr(found, field), getattr(other, field), equal_nan=True)
                assert np.array_equal(getattr(found, field), getattr(wide, field), equal_nan=True)
            assert found.counts == other.counts
            assert (found.counts.tp, found.counts.fp, found.counts.fn) == (
                wide.counts.tp,
                wide.counts.fp,
                wide.counts.fn,
            )


@pytest.mark.parametrize(
    ("prediction", "reference", "labels", "spacing", "said"),
    [
        (np.zeros((2, 2, 2)), np.zeros((2, 2, 2), int), ONE, SPACING, "integers, not float64"),
        (np.zeros((2, 2, 2), int), np.zeros((2, 2, 1), int), ONE, SPACING, "do not fit"),
        (np.zeros((2, 2), int), np.zeros((2, 2), int), ONE, SPACING, "do not fit"),
        (np.zeros((2,) * 4, int), np.zeros((2,) * 4, int), ONE, (1.0,) * 4, "two or three axes"),
        (np.zeros((2, 2, 2), int), np.zeros((2, 2, 2), int), {"b": (1,)}, SPACING, "differ"),
    ],
)
def test_measure__refuses_what_does_not_fit(prediction, reference, labels, spacing, said):
    with pytest.raises(ValueError, match=said):
        measure(prediction, reference, labels, ONE, spacing)


def _measured(tp, fp, fn, tn=10, hd95=2.5):
    return Measured(Counts(tp, fp, fn, tn), 0.5, hd95, 3, 4)


@pytest.mark.parametrize(
    ("name", "measured", "expected"),
    [
        ("dice", _measured(3, 1, 1), (0.75, "ok")),
        ("dice", _measured(0, 0, 0), (math.nan, "both_empty")),
        ("dice", _measured(0, 0, 4), (0.0, "prediction_empty")),
        ("dice", _measured(0, 4, 0), (0.0, "reference_empty")),
        ("ndsc", _measured(0, 4, 0), (0.0, "reference_empty")),
        ("iou", _measured(3, 1, 1), (0.6, "ok")),
        ("precision", _measured(3, 1, 0), (0.75, "ok")),
        ("precision", _measured(0, 0, 2), (math.nan, "prediction_empty")),
        ("sensitivity", _measured(3, 0, 1), (0.75, "ok")),
        ("sensitivity", _measured(0, 2, 0), (math.nan, "reference_empty")),
        ("hd95", _measured(3, 1, 1), (2.5, "ok")),
        ("hd95", _measured(0, 0, 4), (math.inf, "prediction_empty")),
        ("hd95", _measured(0, 4, 0), (math.inf, "reference_empty")),
        ("hd95", _measured(0, 0, 0), (math.nan, "both_empty")),
        ("fn", _measured(0, 0, 4), (4.0, "ok")),
        ("tn", _measured(0, 0, 0), (10.0, "ok")),
        ("voxels_prediction", _measured(3, 1, 2), (4.0, "ok")),
        ("volume_reference_mm3", _measured(3, 1, 2), (2.5, "ok")),
        ("components_reference", _measured(3, 1, 2), (4.0, "ok")),
    ],
)
def test_value__decides_empty_masks_by_the_card(name, measured, expected):
    found, status = value(METRICS[name], measured, 0.1)
    assert found == pytest.approx(expected[0], nan_ok=True)
    assert status == expected[1]


def test_value__a_metric_of_two_masks_alone_is_called_once_both_are_there():
    shift = Metric(
        *("shift", "shift of the mean position", "mm", "lower", (0, math.inf), True),
        Empty(math.nan, math.inf, math.inf),
        "none",
        fn=lambda p, r, s: float(np.linalg.norm((np.argwhere(p).mean(0) - np.argwhere(r).mean(0)) * s)),
    )
    labels = {"a": (1,), "gone": (2,)}
    prediction, reference = np.zeros((2, 4, 5, 6), "u1")
    prediction[1, 1, 1] = reference[2, 1, 3] = 1
    reference[0, 0, 0] = 2
    for order in (np.ascontiguousarray, np.asfortranarray):
        found = measure(order(prediction), order(reference), labels, labels, SPACING, others=[shift])
        assert value(shift, found["a"]) == (5**0.5, "ok")
        assert value(shift, found["gone"]) == (math.inf, "prediction_empty")


def test_value__says_what_was_not_measured():
    image = _image([1])
    found = measure(image, image, ONE, ONE, SPACING, boundary=False, components=False)["a"]
    assert value(METRICS["dice"], found) == (1.0, "ok")
    for name in ("hd95", "components_prediction"):
        with pytest.raises(ValueError, match=name):
            value(METRICS[name], found)


def test_effective_load__is_the_mean_share_of_the_full_images():
    assert effective_load([Counts(1, 5, 1, 13), Counts(0, 0, 0, 8), Counts(2, 0, 4, 6)]) == pytest.approx(0.2)
    assert math.isnan(effective_load([]))


def test_metrics__an_unknown_name_is_named():
    with pytest.raises(AuditError, match="did you mean 'dice'"):
        METRICS["dyce"]
