"""From the header fields of a NIfTI file to the one affine in use, in mm, and what is odd about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul

import numpy as np

from segaudit.volumes.grids import Array, Grid, as_tuples, corner_distance, is_same_place

Note = Callable[[str, str], None]  # takes the code and the message of a finding

_MM_PER_UNIT = {1: 1000.0, 3: 0.001}
_UNIT_NAMES = {1: "metre", 3: "micrometre"}
_LARGEST_MM, _SMALLEST_MM = 1e9, 1e-9  # outside them a header holds garbage, not a position or a spacing
_FLAT = 1e-3  # volume of the unit directions, 1 when perpendicular
_SHEARED = 1e-3  # cosine between two axes, 0 when perpendicular
_PIXDIM_TOLERANCE = 1e-3  # relative
_QUATERNION_SLACK = 1e-3


def grid_of(raw: np.void, shape: tuple[int, ...], note: Note) -> Grid:
    """Return the grid that a header describes, in mm.

    The affine is the sform if sform_code > 0, else the qform if qform_code > 0, else pixdim along the axes of the file
    (then the grid has no orientation).
    """
    scale = _scale(raw, note)
    pixdim = np.abs(raw["pixdim"][1:4].astype(np.float64)) * scale
    sform_code, qform_code = int(raw["sform_code"]), int(raw["qform_code"])
    oriented = sform_code > 0 or qform_code > 0
    if sform_code > 0:
        affine = np.eye(4)
        affine[:3] = raw["srow"]
        affine[:3] *= scale
    elif qform_code > 0:
        affine = _qform(raw, pixdim, scale)
    else:
        affine = np.diag([*pixdim, 1.0])
        note("IMAGE_NO_ORIENTATION", "the header states no orientation (qform_code and sform_code are 0).")
    if not _is_usable(affine, shape, note):
        return Grid.spaced(shape, (1.0, 1.0, 1.0))
    grid = Grid(shape, as_tuples(_completed(affine, len(shape))), "mm", oriented)
    if _is_regular(grid, note) and sform_code > 0:
        _compare(raw, grid, pixdim, scale, note)
    return grid


def _scale(raw: np.void, note: Note) -> float:
    unit = int(raw["xyzt_units"]) & 7
    if unit in _UNIT_NAMES:
        note("IMAGE_UNITS", f"the lengths are in {_UNIT_NAMES[unit]}s; they were converted to mm.")
    return _MM_PER_UNIT.get(unit, 1.0)


def _qform(raw: np.void, pixdim: Array, scale: float) -> Array:
    """Return the affine of the quaternion (b, c, d), the offsets and pixdim; NaN when it is no rotation."""
    b, c, d = (float(value) for value in raw["quatern"])
    rest = 1.0 - (b * b + c * c + d * d)
    affine = np.eye(4)
    if not rest >= -_QUATERNION_SLACK:  # also when a value is NaN
        affine[:3] = np.nan
        return affine
    a = math.sqrt(max(rest, 0.0))
    a, b, c, d = np.array([a, b, c, d]) / math.sqrt(a * a + b * b + c * c + d * d)
    affine[:3, :3] = [
        [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
    affine[:3, :3] *= pixdim
    if raw["pixdim"][0] < 0:  # qfac
        affine[:3, 2] *= -1
    affine[:3, 3] = raw["qoffset"].astype(np.float64) * scale
    return affine


def _is_usable(affine: Array, shape: tuple[int, ...], note: Note) -> bool:
    """Tell whether the affine gives every axis a finite length and every voxel a place."""
    rows = affine.tolist()  # three by three: plain numbers are several times faster than arrays
    if not all(abs(value) < _LARGEST_MM for row in rows for value in row):
        note("IMAGE_SPACING", "the affine holds values that are no positions in mm (NaN, infinite or beyond 1e9).")
        return False
    spacing = [math.hypot(*(row[axis] for row in rows[:3])) for axis in range(len(shape))]
    if min(spacing) < _SMALLEST_MM:
        shown = ", ".join(f"{value:g}" for value in spacing)
        note("IMAGE_SPACING", f"the voxel spacing is ({shown}) mm; every spacing must be positive.")
        return False
    return True


def _completed(affine: Array, axes: int) -> Array:
    """Return the affine with the unit normal as the third axis of a 2-D image, whose header may leave it empty."""
    if axes == 2:
        affine = affine.copy()
        normal = np.cross(affine[:3, 0], affine[:3, 1])
        length = math.sqrt(float((normal**2).sum()))
        affine[:3, 2] = normal / length if length else 0.0
    return affine


def _is_regular(grid: Grid, note: Note) -> bool:
    """Tell whether the axes span the image; warn when they are not perpendicular."""
    directions = []
    for column in zip(*(row[:3] for row in grid.affine[:3]), strict=True):
        norm = math.hypot(*column) or 1.0
        directions.append([value / norm for value in column])
    a, b, c = directions
    across = (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
    if abs(sum(map(mul, across, c))) < _FLAT:
        note("IMAGE_SPACING", "two axes of its affine run the same way, so that voxels have no place of their own.")
        return False
    cosine = max(abs(sum(map(mul, one, other))) for one, other in ((a, b), (a, c), (b, c)))
    if cosine > _SHEARED:
        angle = math.degrees(math.acos(min(cosine, 1.0)))
        note("IMAGE_SHEARED", f"two axes of its affine stand at {angle:.4g} degrees, not 90.")
    return True


def _compare(raw: np.void, grid: Grid, pixdim: Array, scale: float, note: Note) -> None:
    """Warn when the header says in a second place something else than the sform in use."""
    spacing = np.array(grid.spacing_mm)
    pixdim_in_use = pixdim[: len(spacing)]
    if not (np.abs(pixdim_in_use - spacing) <= _PIXDIM_TOLERANCE * spacing).all():
        said, used = (", ".join(f"{value:.6g}" for value in values) for values in (pixdim_in_use, spacing))
        note("IMAGE_PIXDIM", f"pixdim says a spacing of ({said}) mm, the sform in use ({used}) mm.")
    if int(raw["qform_code"]) <= 0:
        return
    qform = _completed(_qform(raw, pixdim, scale), len(spacing))
    if not ((np.abs(qform) < _LARGEST_MM).all() and (pixdim_in_use > _SMALLEST_MM).all()):
        note("IMAGE_TWO_AFFINES", "the qform gives the voxels no place; the sform is in use.")
        return
    stated = Grid(grid.shape, as_tuples(qform))
    if not is_same_place(stated, grid):
        apart = corner_distance(stated, grid)[0]
        note(
            "IMAGE_TWO_AFFINES", f"sform and qform differ by up to {apart:.3g} mm at the corners; the sform is in use."
        )
