"""HD95 and Dice against google-deepmind's surface-distance, whose definition HD95 follows, on random volumes."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.metrics import hd95, measure

with warnings.catch_warnings():  # it imports from SciPy's old namespaces
    warnings.simplefilter("ignore", DeprecationWarning)
    peer = pytest.importorskip("surface_distance.metrics", reason="surface-distance is not installed (extra test)")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")]
NAMES = ("a", "b", "c")
LABELS = {name: (value,) for value, name in enumerate(NAMES, 1)}


def _noise(rng, shape):
    return rng.choice(4, size=shape, p=[0.7, 0.1, 0.1, 0.1])


def _balls(rng, shape):
    image, grid = np.zeros(shape, dtype=int), np.indices(shape)
    for value in (1, 2, 3):
        centre, radius = rng.uniform(0, shape), rng.uniform(0.5, 0.6 * max(shape))
        image[sum((g - c) ** 2 for g, c in zip(grid, centre, strict=True)) < radius**2] = value
    return image


def _single_voxels(rng, shape):
    image = np.zeros(shape, dtype=int)
    for value in (1, 2, 3):
        image[tuple(rng.integers(0, shape))] = value
    return image


def _full(rng, shape):
    return np.full(shape, rng.integers(1, 4))


def _half(rng, shape):
    image = np.ones(shape, dtype=int)
    axis = rng.integers(0, len(shape))
    image[(*[slice(None)] * axis, slice(0, int(rng.integers(0, shape[axis]))))] = 2
    return image


def _empty(_, shape):
    return np.zeros(shape, dtype=int)


KINDS = (_noise, _balls, _balls, _balls, _single_voxels, _full, _half, _empty)
SPACINGS = st.sampled_from((0.43, 0.69, 1.0, 1.7, 3.3, 4.0))


@st.composite
def cases(draw):
    """Two label maps of two or three axes, of three labels and of any two kinds, and their spacing."""
    shape = tuple(draw(st.lists(st.integers(2, 14), min_size=2, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    images = [draw(st.sampled_from(KINDS))(rng, shape).astype(np.uint8) for _ in range(2)]
    return *images, tuple(draw(SPACINGS) for _ in shape)


def by_peer(prediction, reference, spacing_mm):
    """Return the values that are right: two where just 95 % lie within a distance, for then the last bit decides."""
    if not (prediction.any() and reference.any()):  # where it has no distance
        return [math.inf if prediction.any() or reference.any() else math.nan]
    distances = peer.compute_surface_distances(reference, prediction, spacing_mm)
    return [peer.compute_robust_hausdorff(distances, percent) for percent in (95, 95 - 1e-9, 95 + 1e-9)]


@settings(max_examples=500, deadline=None, derandomize=True)
@given(cases())
def test_hd95__equals_surface_distance_on_500_volumes(case):
    prediction, reference, spacing_mm = case
    found = measure(prediction, reference, LABELS, LABELS, spacing_mm, components=False)
    for name, (value,) in LABELS.items():
        ours, theirs = prediction == value, reference == value
        right = [pytest.approx(expected, abs=1e-9, nan_ok=True) for expected in by_peer(ours, theirs, spacing_mm)]
        assert any(found[name].hd95 == expected for expected in right), right
        assert any(hd95(ours, theirs, spacing_mm) == expected for expected in right), right
        counts = found[name].counts
        if counts.prediction + counts.reference:
            dice = 2 * counts.tp / (counts.prediction + counts.reference)
            assert dice == pytest.approx(peer.compute_dice_coefficient(theirs, ours), abs=1e-12)
