"""Metrics of small masks whose values follow by hand."""

import json
import math

import numpy as np
import pytest

from segaudit.metrics import METRICS, dice, hd95, kernel, measure, ndsc, value

LABEL = {"mask": (1,)}


def _mask(shape, *boxes):
    mask = np.zeros(shape, bool)
    for box in boxes:
        mask[tuple(slice(*ends) for ends in box)] = True
    return mask


def _spread(n, shape):
    mask = np.zeros(shape, bool)
    places = [(i, j, k) for i in range(1, shape[0], 3) for j in range(1, shape[1], 3) for k in range(1, shape[2], 3)]
    for place in places[:n]:
        mask[place] = True
    return mask


CUBE = _mask((10, 10, 10), ((2, 6), (2, 6), (2, 6)))
FAR = (7, 13, 25)
DOTS = _spread(19, (9, 15, 27))
DOTS_AND_ONE = DOTS.copy()
DOTS_AND_ONE[FAR] = True

TRUTH = [
    # prediction, reference, spacing, dice, hd95, counts, why
    (CUBE, CUBE, (1, 2, 3), 1.0, 0.0, (64, 0, 0, 936), "a mask agrees with itself"),
    (np.zeros_like(CUBE), CUBE, (1, 2, 3), 0.0, math.inf, (0, 0, 64, 936), "a missed structure is infinitely far"),
    (CUBE, np.zeros_like(CUBE), (1, 2, 3), 0.0, math.inf, (0, 64, 0, 936), "an invented one too"),
    (np.zeros_like(CUBE), np.zeros_like(CUBE), (1, 2, 3), math.nan, math.nan, (0, 0, 0, 1000), "nothing to compare"),
    (
        *(_mask((9, 9, 9), ((4, 5), (4, 5), (7, 8))), _mask((9, 9, 9), ((4, 5), (4, 5), (4, 5)))),
        *((4, 0.5, 0.5), 0.0, 1.5, (0, 1, 1, 727)),
        "of a voxel's corners four are 2 voxels away, four are 3",
    ),
    (
        *(_mask((6, 6, 6), ((0, 6), (0, 6), (0, 5))), np.ones((6, 6, 6), bool)),
        *((1, 1, 1), 10 / 11, 1.0, (180, 0, 36, 0)),
        "the rim of the image is a boundary: a whole face lies one voxel off",
    ),
    (
        *(_mask((8, 8, 8), ((0, 5), (2, 6), (2, 6))), _mask((8, 8, 8), ((0, 3), (2, 6), (2, 6)))),
        *((2.5, 1, 1), 0.75, 5.0, (48, 32, 0, 432)),
        "the far face is two slices off and more than 5 % of the surface",
    ),
    (
        *(CUBE & ~_mask((10, 10, 10), ((3, 5), (3, 5), (3, 5))), CUBE),
        *((1, 1, 1), 112 / 120, 1.0, (56, 0, 8, 936)),
        "a hole has a boundary, one voxel inside that of the cube",
    ),
    (
        *(DOTS_AND_ONE, DOTS, (1, 1, 1), 38 / 39, 0.0, (19, 1, 0, 9 * 15 * 27 - 20)),
        "exactly 19 of 20 equal areas lie at distance 0: 0.95 is reached, however sums round",
    ),
    (
        *(DOTS_AND_ONE, DOTS, (4, 0.5, 0.5), 38 / 39, 0.0, (19, 1, 0, 9 * 15 * 27 - 20)),
        "the same at a spacing where the sum rounds the other way",
    ),
    (
        *(_mask((1, 9, 12), ((0, 1), (2, 7), (2, 8))), _mask((1, 9, 12), ((0, 1), (2, 7), (2, 10)))),
        *((9, 1, 0.5), 60 / 70, 1.0, (30, 0, 10, 68)),
        "one slice is a 2-D image: its short side of 5 pixels lies 2 pixels off",
    ),
    (
        *(_mask((3, 24, 44), ((1, 2), (2, 22), (2, 41))), _mask((3, 24, 44), ((1, 2), (2, 22), (2, 42)))),
        *((1, 1, 1), 1560 / 1580, 0.0, (780, 0, 20, 2368)),
        "a plate one voxel thick in a volume has two faces: its short side is less than 5 % of them",
    ),
    (
        *(_mask((7, 7), ((2, 5), (2, 5))), _mask((7, 7), ((2, 5), (2, 6)))),
        *((1, 0.25), 18 / 21, 0.25, (9, 0, 3, 37)),
        "a 2-D image as such",
    ),
]


@pytest.fixture(params=["numpy"] if kernel.KERNEL is None else ["kernel", "numpy"])
def way(request, monkeypatch):
    """With the compiled kernel, where there is one, and without."""
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "KERNEL", None)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("row", TRUTH, ids=[row[-1] for row in TRUTH])
def test_metrics__small_masks(row):
    prediction, reference, spacing, right_dice, right_hd95, right_counts, _ = row
    found = measure(prediction, reference, LABEL, LABEL, spacing)["mask"]
    counts = found.counts
    assert (counts.tp, counts.fp, counts.fn, counts.tn) == right_counts
    assert value(METRICS["dice"], found)[0] == pytest.approx(right_dice, abs=1e-12, nan_ok=True)
    assert found.hd95 == pytest.approx(right_hd95, abs=1e-12, nan_ok=True)
    assert dice(prediction, reference) == pytest.approx(right_dice, abs=1e-12, nan_ok=True)
    assert hd95(prediction, reference, spacing) == pytest.approx(right_hd95, abs=1e-12, nan_ok=True)


def test_dice__a_mask_of_255_is_a_mask():
    assert dice(CUBE * np.uint8(255), CUBE) == 1.0


@pytest.mark.parametrize(
    ("load", "expected", "why"),
    [
        (0.064, 0.75, "the load of the case itself gives the Dice"),
        (0.02, 96 / (96 + 16 + 16 * (0.98 * 64) / (0.02 * 936)), "kappa 3.35: a false positive weighs more"),
        (0.001, 96 / (96 + 16 + 16 * (0.999 * 64) / (0.001 * 936)), "a small load makes it weigh far more"),
        (0.5, 96 / (96 + 16 + 16 * 64 / 936), "a case below the mean load is forgiven"),
    ],
)
def test_ndsc__by_hand(load, expected, why):
    prediction = np.roll(CUBE, 1, axis=0)
    assert ndsc(prediction, CUBE, load=load) == pytest.approx(expected, rel=1e-12), why


def test_ndsc__is_found_on_the_full_image():
    prediction = np.roll(CUBE, 1, axis=0)
    crop = (slice(1, 8),) * 3
    assert ndsc(prediction[crop], CUBE[crop], load=0.02) != pytest.approx(ndsc(prediction, CUBE, load=0.02), rel=0.1)


@pytest.mark.parametrize(
    ("prediction", "load", "expected", "why"),
    [
        (np.ones((4, 4), bool), 1.0, 1.0, "the reference fills every image: no false positive can be"),
        (np.ones((4, 4), bool), 0.5, 1.0, "the reference fills this image"),
        (_mask((4, 4), ((0, 2), (0, 4))), 0.5, 2 / 3, "only false negatives: kappa plays no part"),
    ],
)
def test_ndsc__a_reference_that_fills_the_image(prediction, load, expected, why):
    assert ndsc(prediction, np.ones((4, 4), bool), load=load) == pytest.approx(expected), why


@pytest.mark.parametrize("load", [0.0, -0.1, 1.5, math.nan])
def test_ndsc__refuses_a_load_that_is_no_share(load):
    with pytest.raises(ValueError, match="load"):
        ndsc(CUBE, np.roll(CUBE, 1), load=load)


def _trap_values(case):
    space = {"np": np}
    exec(case["construct"], space)
    return space["P"], space["R"], tuple(case["spacing"])


@pytest.mark.usefixtures("way")
def test_metrics__known_traps(shared):
    cases = [case for case in json.loads((shared / "traps.json").read_text()) if case["kind"] == "arrays"]
    assert cases
    for case in cases:
        prediction, reference, spacing = _trap_values(case)
        right = case["right"]
        found = measure(prediction, reference, LABEL, LABEL, spacing)["mask"]
        counts = found.counts
        assert [counts.tp, counts.fp, counts.fn, counts.tn] == right["tp_fp_fn_tn"], case["id"]
        assert hd95(prediction, reference, spacing) == pytest.approx(float(right["hd95"]), nan_ok=True), case["id"]
        assert dice(prediction, reference) == pytest.approx(float(right["dice"]), nan_ok=True), case["id"]
        for key, load in (("ndsc", 0.01), ("ndsc_r0p02", 0.02), ("ndsc_r0p001", 0.001)):
            if key in right:
                assert ndsc(prediction, reference, load=load) == pytest.approx(right[key], rel=1e-12), case["id"]
