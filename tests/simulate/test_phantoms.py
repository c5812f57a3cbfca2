"""The phantom: distances, smooth errors, and the error that is expected of them."""

import numpy as np
import pytest
from scipy import ndimage

from segaudit.simulate.phantoms import (
    FIELD_MM,
    LABELS,
    LARGEST,
    Column,
    bodies_that_fit,
    build,
    error_field,
    intensity,
    outline,
)

SHAPE, SPACING = (16, 80, 96), (4.0, 0.9, 0.9)


def dice_error(one, other):
    return np.mean(
        [1 - 2 * ((one == k) & (other == k)).sum() / ((one == k).sum() + (other == k).sum()) for k in LABELS.values()]
    )


@pytest.mark.parametrize("size", [0.88, 1.0, LARGEST])
@pytest.mark.parametrize(
    ("shape", "spacing", "bodies", "why"),
    [
        (SHAPE, SPACING, 5, "the default grid, 86 mm high"),
        ((9, 30, 40), SPACING, 2, "about the smallest"),
        ((15, 160, 160), (4.0, 1.3, 1.3), 7, "a full field of view shows the seven cervical levels, no more"),
    ],
)
def test_column__bodies_and_discs_alternate_and_are_whole(size, shape, spacing, bodies, why):
    assert bodies_that_fit(shape, spacing) == bodies, why
    truth = outline(build(Column(size, 0.8, (2.0, 1.0, 0.5)), shape, spacing), 0.0)
    assert ndimage.label(truth == LABELS["vb"])[1] == bodies
    assert ndimage.label(truth == LABELS["disc"])[1] == bodies - 1
    assert ndimage.label(truth > 0)[1] == 1, "bodies and discs touch"
    edges = [truth.take(end, axis) for axis in range(3) for end in (0, -1)]
    assert not any(edge.any() for edge in edges)


@pytest.mark.parametrize("shape", [(7, 80, 96), (16, 20, 96), (16, 80, 30)])
def test_column__grid_that_is_too_small_holds_fewer_than_two_bodies(shape):
    assert bodies_that_fit(shape, SPACING) < 2


def test_anatomy__distance_is_that_of_a_distance_transform():
    anatomy = build(Column(1.0, 1.0), (60, 60, 80), (0.5, 0.5, 0.5))
    for distance in anatomy.distance_mm:
        measured = 0.5 * (ndimage.distance_transform_edt(distance >= 0) - 0.5)
        near = (distance > 0.5) & (distance < 2.5)
        assert np.abs(measured - distance)[near].mean() < 0.15
        assert np.abs(measured - distance)[near].max() < 0.8


def test_outline__an_error_moves_the_border_between_body_and_disc_as_a_whole():
    anatomy = build(Column(1.0, 1.0), SHAPE, SPACING)
    truth, moved = outline(anatomy, 0.0), outline(anatomy, 0.6)
    assert (moved == LABELS["vb"]).sum() > (truth == LABELS["vb"]).sum()
    assert (moved == LABELS["disc"]).sum() < (truth == LABELS["disc"]).sum()
    became_bone = (truth == LABELS["disc"]) & (moved == LABELS["vb"])
    assert became_bone.any()
    assert not np.any((truth == LABELS["vb"]) & (moved != LABELS["vb"]))


def test_error_field__has_mean_0_variance_1_and_the_declared_smoothness():
    anatomy = build(Column(1.0, 1.0), SHAPE, SPACING)
    rng = np.random.default_rng(0)
    fields = np.array([error_field(anatomy, rng) for _ in range(400)])
    assert fields.shape[1:] == anatomy.distance_mm.shape[1:]
    assert fields.mean() == pytest.approx(0, abs=0.02)
    assert fields.std(axis=0).mean() == pytest.approx(1, abs=0.01)
    for axis, voxels in ((1, 1), (2, 4), (3, 8)):
        n = fields.shape[axis]
        apart = fields.take(range(voxels, n), axis) * fields.take(range(n - voxels), axis)
        mm = voxels * SPACING[axis - 1]
        assert apart.mean() == pytest.approx(np.exp(-(mm**2) / (4 * FIELD_MM**2)), abs=0.03)


@pytest.mark.parametrize(
    ("one_mm", "other_mm", "shift_mm"), [(0.001, 0.4, 0.0), (0.5, 0.4, 0.0), (0.5, 1.2, 0.0), (0.5, 0.4, 0.8)]
)
def test_expected_error__is_the_mean_dice_error_of_drawn_outlines(one_mm, other_mm, shift_mm):
    rng = np.random.default_rng(1)
    anatomy = build(Column(1.0, 1.0, (0.7, 0.2, 0.3)), SHAPE, SPACING)
    errors = [
        dice_error(
            outline(anatomy, one_mm * error_field(anatomy, rng)),
            outline(anatomy, shift_mm + other_mm * error_field(anatomy, rng)),
        )
        for _ in range(150)
    ]
    assert np.mean(errors) == pytest.approx(anatomy.expected_error(one_mm, other_mm, shift_mm=shift_mm), rel=0.06)


def test_intensity__shows_fluid_brighter_than_disc_brighter_than_bone_and_old_discs_dark():
    anatomy = build(Column(1.0, 1.0), SHAPE, SPACING)
    truth = outline(anatomy, 0.0)
    young, old = (intensity(anatomy, truth, age=age, rng=np.random.default_rng(2)) for age in (20, 85))
    disc, bone = truth == LABELS["disc"], truth == LABELS["vb"]
    assert young.max() > young[disc].mean() > young[bone].mean() > young[truth == 0].min()
    assert old[disc].mean() < young[disc].mean() - 40
    assert young.dtype == np.uint8
