"""Which grids are one, and how a map in another voxel order is brought onto a grid."""

import itertools

import numpy as np
import pytest

from segaudit.volumes import Grid, LabelVolume, on_grid, read_labels
from segaudit.volumes.grids import corner_distance


def _turned(array, affine, axes, flips):
    """Return the array and affine of the same image stored with other axes, voxel by voxel from the definition."""
    shape = tuple(array.shape[axis] for axis in axes)
    change = np.zeros((4, 4))
    change[3, 3] = 1
    for i, (axis, flip) in enumerate(zip(axes, flips, strict=True)):
        change[axis, i] = -1 if flip else 1
        change[axis, 3] = shape[i] - 1 if flip else 0
    out = np.empty(shape, array.dtype)
    for index in np.ndindex(shape):
        out[index] = array[tuple((change @ (*index, 1))[:3].astype(int))]
    return out, affine @ change


ORDERS = list(itertools.product(itertools.permutations(range(3)), itertools.product([False, True], repeat=3)))


@pytest.mark.parametrize("axes, flips", ORDERS)
def test_on_grid__every_voxel_order_of_one_image_is_the_same(axes, flips):
    rng = np.random.default_rng(3)
    array = rng.integers(0, 9, (3, 4, 5), dtype=np.int16)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [0.7, 2.0, 3.1], [-90, 40, 12]
    stored, its_affine = _turned(array, affine, axes, flips)
    grid = Grid.of(array.shape, affine)
    volume = on_grid(LabelVolume(stored, Grid.of(stored.shape, its_affine)), grid, "turned.nii")
    np.testing.assert_array_equal(volume.labels, array)
    assert volume.grid == grid
    assert volume.labels.dtype == array.dtype
    same = axes == (0, 1, 2) and not any(flips)
    assert [finding.code for finding in volume.findings] == ([] if same else ["GRID_REORIENTED"])


def test_on_grid__a_flipped_file_of_the_same_world_is_equal(labels, affine, save):
    flipped = affine.copy()
    flipped[1, 1], flipped[1, 3] = -0.5, -20 + 0.5 * 19
    prediction, reference = read_labels(save(labels[:, ::-1], flipped, name="p.nii.gz")), read_labels(save(labels))
    assert (prediction.labels != reference.labels).any()
    brought = on_grid(prediction, reference.grid, "p.nii.gz")
    np.testing.assert_array_equal(brought.labels, reference.labels)
    assert brought.labels.flags.f_contiguous
    assert not brought.labels.flags.writeable


def test_on_grid__the_same_grid_gives_the_volume_itself(labels, save):
    volume = read_labels(save(labels))
    assert on_grid(volume, read_labels(volume_path := save(labels, name="b.nii")).grid, str(volume_path)) is volume


def _rotated(affine, radians):
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(radians), -np.sin(radians)], [np.sin(radians), np.cos(radians)]]
    return turn @ affine


def _moved(affine, axis, mm):
    moved = affine.copy()
    moved[axis, 3] += mm
    return moved


def _spaced(affine, *spacing):
    other = affine.copy()
    other[:3, :3] = np.diag(spacing)
    return other


@pytest.mark.parametrize(
    "change, why",
    [
        (lambda a: _moved(a, 0, 2e-5), "an origin rounded to 5 digits"),
        (lambda a: _rotated(a, 1e-5), "a qform written as sform and back"),
        (lambda a: _moved(a, 0, 0.003), "less than a thousandth of the 4 mm slice"),
        (lambda a: a.astype(np.float32).astype(float), "float32"),
    ],
)
def test_on_grid__rounding_is_accepted(labels, affine, change, why):
    grid = Grid.of(labels.shape, affine)
    volume = on_grid(LabelVolume(labels, Grid.of(labels.shape, change(affine))), grid, "p.nii")
    assert volume.labels is labels, why
    assert volume.grid == grid
    assert volume.findings == ()


@pytest.mark.parametrize(
    "change, shown, why",
    [
        (
            lambda a: _spaced(a, 3.3, 0.6875, 0.6875),
            ["spacing (3.3, 0.6875, 0.6875) against (4, 0.5, 0.5) mm"],
            "another series",
        ),
        (
            lambda a: _moved(a, 2, 0.4),
            ["origin (-10, -20, -29.6) against (-10, -20, -30) mm", "0.4 mm apart (0.8 voxel"],
            "moved",
        ),
        (lambda a: _moved(a, 2, 0.25), ["origin", "0.25 mm apart (0.5 voxel"], "centre taken for corner: half a voxel"),
        (lambda a: _moved(a, 0, 0.005), ["origin", "0.005 mm apart (0.00125 voxel"], "just beyond the tolerance"),
        (lambda a: _rotated(a, 0.01), ["orientation, by up to 0.573 degrees", "mm apart"], "turned"),
        (lambda a: a @ np.diag([1, -1, 1, 1]), ["origin (-10, -29.5, -30) against (-10, -20, -30)"], "a mirror image"),
    ],
)
def test_on_grid__another_place_is_refused_and_named(labels, affine, refused, change, shown, why):
    volume = LabelVolume(labels, Grid.of(labels.shape, change(affine)))
    (finding,) = refused(on_grid, volume, Grid.of(labels.shape, affine), "mask set 'silver', p.nii")
    assert finding.code == "GRID_MISMATCH", why
    assert finding.where == "mask set 'silver', p.nii"
    for text in shown:
        assert text in finding.message, why


@pytest.mark.parametrize("shape", [(6, 20, 25), (24, 20, 6), (6, 20)])
def test_on_grid__another_shape_is_refused(labels, affine, refused, shape):
    volume = LabelVolume(np.zeros(shape, np.uint8), Grid.of(shape, affine))
    (finding,) = refused(on_grid, volume, Grid.of(labels.shape, affine), "p.nii")
    assert f"shape {shape} against (6, 20, 24)" in finding.message


def test_on_grid__a_slice_is_a_volume_of_one_slice(labels):
    flat, deep = Grid.spaced((20, 24), (0.5, 0.5)), Grid.spaced((20, 24, 1), (0.5, 0.5, 4.0))
    assert on_grid(LabelVolume(labels[2], flat), deep, "p").labels.shape == (20, 24, 1)
    np.testing.assert_array_equal(on_grid(LabelVolume(labels[2][..., None], deep), flat, "p").labels, labels[2])


def test_on_grid__a_thinner_single_slice_is_refused(labels, refused):
    thin, thick = (Grid.spaced((20, 24, 1), (0.5, 0.5, step)) for step in (1.0, 4.0))
    (finding,) = refused(on_grid, LabelVolume(labels[2][..., None], thin), thick, "p")
    assert "spacing (0.5, 0.5, 1) against (0.5, 0.5, 4)" in finding.message


def test_on_grid__without_orientation_shape_and_spacing_decide(labels, affine, save, codes, refused):
    bare = read_labels(save(labels, sform_code=0, qform_code=0, name="bare.nii"))
    other = read_labels(save(labels[:, ::-1], sform_code=0, qform_code=0, name="other.nii"))
    placed = read_labels(save(labels, affine @ np.diag([1, -1, 1, 1])))
    assert codes(on_grid(other, bare.grid, "p")) == ["IMAGE_NO_ORIENTATION"]
    for volume, grid in ((bare, placed.grid), (placed, bare.grid)):
        brought = on_grid(volume, grid, "p")
        np.testing.assert_array_equal(brought.labels, labels)
        assert codes(brought)[-1] == "GRID_NO_ORIENTATION"
        assert brought.findings[-1].level == "warning"
    wide = read_labels(save(labels, sform_code=0, qform_code=0, pixdim=[1, 4, 0.5, 0.6, 1, 1, 1, 1]))
    assert "spacing" in refused(on_grid, wide, placed.grid, "p")[0].message


def _by_quaternion(affine):
    """Return the affine as a qform keeps it: three parts of its quaternion in float32, the fourth made from them."""
    steps = np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    r = affine[:3, :3] / steps
    b = np.sqrt(max(1 + r[0, 0] - r[1, 1] - r[2, 2], 0)) / 2  # the largest part in the cases below
    parts = [(r[2, 1] - r[1, 2]) / (4 * b), b, (r[0, 1] + r[1, 0]) / (4 * b), (r[0, 2] + r[2, 0]) / (4 * b)]
    b, c, d = (float(np.float32(part * np.sign(parts[0]))) for part in parts[1:])
    a = np.sqrt(max(1 - b * b - c * c - d * d, 0))
    out = affine.copy()
    out[:3, :3] = steps * [
        [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
    return out


def _near_half_turn(radians):
    """Return the affine of 0.5 mm voxels turned about x by nearly 180 degrees, and a little about an oblique axis."""
    axis = np.array([1.0, 0.02, 0.03]) / np.linalg.norm([1.0, 0.02, 0.03])
    cross = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    turn = np.eye(3) + np.sin(np.pi - radians) * cross + (1 - np.cos(np.pi - radians)) * cross @ cross
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [0.5, 0.5, 3.0], [90, 80, -20]
    return affine


@pytest.mark.parametrize("radians", [2e-4, 5e-4, 1e-3])
def test_on_grid__a_turn_that_a_qform_cannot_hold_is_rounding(radians):
    affine = _near_half_turn(radians)
    kept = _by_quaternion(affine)
    shape = (384, 384, 19)
    grid, other = Grid.of(shape, affine), Grid.of(shape, kept)
    volume = LabelVolume(np.zeros(shape, np.uint8, order="F"), other)
    assert 1e-3 < corner_distance(other, grid)[1] < 0.5
    brought = on_grid(volume, grid, "p")
    assert [finding.code for finding in brought.findings] == ["GRID_ROUNDED"]
    assert brought.labels is volume.labels


def test_on_grid__the_same_turn_elsewhere_or_with_a_shift_is_no_rounding(refused):
    shape = (384, 384, 19)
    half = _near_half_turn(5e-4)
    kept = _by_quaternion(half)
    lost = np.arccos(np.clip((np.trace(kept[:3, :3] @ np.linalg.inv(half[:3, :3])) - 1) / 2, -1, 1))
    upright = Grid.of(shape, np.diag([0.5, 0.5, 3.0, 1.0]))
    volume = LabelVolume(np.zeros(shape, np.uint8), Grid.of(shape, _rotated(np.diag([0.5, 0.5, 3.0, 1.0]), lost)))
    assert "orientation" in refused(on_grid, volume, upright, "p")[0].message
    moved = LabelVolume(volume.labels, Grid.of(shape, _moved(kept, 1, 0.05)))
    assert "origin" in refused(on_grid, moved, Grid.of(shape, half), "p")[0].message


def test_grid__is_compared_and_hashed_by_value(affine):
    assert Grid.of((2, 3, 4), affine) == Grid.of([2, 3, 4], affine.tolist())
    assert len({Grid.of((2, 3, 4), affine), Grid.of((2, 3, 4), affine), Grid.of((2, 3, 5), affine)}) == 2


def test_grid__spacing_is_the_norm_of_the_columns():
    affine = np.array([[0, 3.0, 0, 5], [0.3, 0, 0, 6], [0.4, 0, 2.0, 7], [0, 0, 0, 1]])
    assert Grid.of((2, 2, 2), affine).spacing_mm == (0.5, 3.0, 2.0)
    assert Grid.spaced((2, 2), (0.25, 4.0)).spacing_mm == (0.25, 4.0)
