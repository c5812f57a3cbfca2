"""Image panels: the right slice, the right way up, every outline, and no panel from a file that cannot be read."""

import io

import numpy as np
import pandas as pd
import pytest
from matplotlib.image import imread

from segaudit.cohorts import Cohort, MaskSet
from segaudit.reports.panels import _slice, _view, key_of_lines, panel
from segaudit.volumes import Grid, write_labels

SHAPE = (40, 50, 6)
SPACING = (1.0, 1.0, 4.0)


def cohort(folder, **volumes):
    cases = pd.DataFrame({"case": ["a"], "patient": ["p"]})
    sets = {}
    for name, labels in volumes.items():
        path = folder / f"{name}.nii.gz"
        write_labels(path, labels.astype(np.uint8), spacing_mm=SPACING)
        masks = pd.DataFrame({"case": ["a"], "path": [str(path)], "kind": ["unknown"]})
        sets[name] = MaskSet(name, masks)
    return Cohort("c", cases, {"vb": (1,)}, sets)


def block(low, high):
    labels = np.zeros(SHAPE)
    labels[10:30, low:high, 1:5] = 1
    return labels


def test_slice__is_the_one_with_the_most_voxels_in_dispute():
    gold, model = block(10, 30) > 0, block(10, 30) > 0
    model[10:30, 30:34, 3] = True
    assert _slice([model], [gold], Grid.spaced(SHAPE, SPACING)) == (2, 3)


def test_slice__of_a_flat_image_is_the_image():
    gold = np.ones((9, 9, 1), dtype=bool)
    assert _slice([gold], [gold], Grid.spaced((9, 9, 1), (1, 1, 1))) == (2, 0)


@pytest.mark.parametrize(
    "affine, axis, head_up, left, why",
    [
        (np.diag([1, 1, 4, 1]), 2, "front", "right", "axial: the front is up, the patient's right on the left"),
        (np.diag([-1, -1, 4, 1]), 2, "front", "right", "the same whatever way the voxels run"),
        (np.diag([4, 1, 1, 1]), 0, "head", "front", "sagittal: the head is up, the front on the left"),
        (np.diag([1, 4, 1, 1]), 1, "head", "right", "coronal: the head is up, the patient's right on the left"),
    ],
)
def test_view__is_the_one_that_readers_know(affine, axis, head_up, left, why):
    grid = Grid.of((8, 8, 8), affine)
    position = {"right": (0, 1), "front": (1, 1), "head": (2, 1)}

    def marked(place):
        world, sign = position[place]
        cut_axes = [i for i in range(3) if i != axis]
        volume_axis = int(np.argmax(np.abs(affine[world, :3])))
        index = -1 if affine[world, volume_axis] * sign > 0 else 0
        cut = np.zeros((8, 8))
        cut[tuple(index if i == volume_axis else slice(None) for i in cut_axes)] = 1
        return _view(grid, axis).turned(cut)

    assert marked(head_up)[0].all(), why
    assert marked(left)[:, 0].all(), why


def test_panel__draws_every_outline(tmp_path):
    made = panel(
        cohort(tmp_path, mix=block(12, 34), gold=block(10, 30), silver=block(5, 33)), "a", "mix", ("gold", "silver"), {}
    )
    assert made is not None
    pixels = imread(io.BytesIO(made[0]))[..., :3]
    for colour in ("f0e442", "56b4e9", "e69f00"):
        wanted = np.array([int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)])
        assert (np.abs(pixels - wanted).max(axis=-1) < 0.05).sum() > 10, colour
    assert made[1] == "slice 2 of 6"
    assert len(made[0]) < 60_000


def test_panel__of_a_broken_or_absent_file_is_none(tmp_path):
    found = cohort(tmp_path, mix=block(12, 34), gold=block(10, 30))
    assert panel(found, "b", "mix", ("gold",), {}) is None
    (tmp_path / "mix.nii.gz").write_bytes(b"nonsense")
    assert panel(found, "a", "mix", ("gold",), {}) is None


def test_panel__stands_on_the_image_where_there_is_one(tmp_path):
    found = cohort(tmp_path, mix=block(12, 34), gold=block(10, 30))
    image = tmp_path / "image.nii.gz"
    ramp = np.broadcast_to(np.arange(SHAPE[0])[:, None, None], SHAPE).astype(np.uint8)
    write_labels(image, np.ascontiguousarray(ramp), spacing_mm=SPACING)
    plain, pictured = (panel(found, "a", "mix", ("gold",), images) for images in ({}, {"a": image}))
    greys = [np.unique(imread(io.BytesIO(made[0]))[..., 0].round(2)).size for made in (plain, pictured)]
    assert greys[1] > greys[0]


def test_key__names_colour_and_line():
    assert key_of_lines("mix", ("gold",)) == "mix: yellow, solid; gold: blue, dashed"
