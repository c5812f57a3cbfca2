"""From the header fields of a NIfTI file to the one affine in use, in mm, and what is odd about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import mul
from typing import Any

from segaudit.volumes.grids import Affine, Grid, corner_distance, is_same_place

Fields = dict[str, Any]  # plain numbers and lists of them: for a few values far faster than arrays
Rows = list[list[float]]  # the three rows of an affine that say something
Note = Callable[[str, str], None]  # takes the code and the message of a finding

_MM_PER_UNIT = {1: 1000.0, 3: 0.001}
_UNIT_NAMES = {1: "metre", 3: "micrometre"}
_LARGEST_MM, _SMALLEST_MM = 1e9, 1e-9  # outside them a header holds garbage, not a position or a spacing
_FLAT = 1e-3  # volume of the unit directions, 1 when perpendicular
_SHEARED = 1e-3  # cosine between two axes, 0 when perpendicular
_PIXDIM_TOLERANCE = 1e-3  # relative
_QUATERNION_SLACK = 1e-3


def grid_of(fields: Fields, shape: tuple[int, ...], note: Note) -> Grid:
    """Return the grid that a header describes, in mm.

    The affine is the sform if sform_code > 0, else the qform if qform_code > 0, else pixdim along the axes of the file
    (then the grid has no orientation).
    """
    scale = _scale(fields, note)
    pixdim = [abs(value) * scale for value in fields["pixdim"][1:4]]
    oriented = fields["sform_code"] > 0 or fields["qform_code"] > 0
    if fields["sform_code"] > 0:
        rows = [[value * scale for value in row] for row in fields["srow"]]
    elif fields["qform_code"] > 0:
        rows = _qform(fields, pixdim, scale)
    else:
        rows = [[length if axis == row else 0.0 for axis in range(4)] for row, length in enumerate(pixdim)]
        note("IMAGE_NO_ORIENTATION", "the header states no orientation (qform_code and sform_code are 0).")
    if not _is_usable(rows, shape, note):
        return Grid.spaced(shape, (1.0, 1.0, 1.0))
    grid = Grid(shape, _completed(rows, len(shape)), "mm", oriented)
    if _is_regular(grid, note) and fields["sform_code"] > 0:
        _compare(fields, grid, pixdim, scale, note)
    return grid


def _scale(fields: Fields, note: Note) -> float:
    unit = fields["xyzt_units"] & 7
    if unit in _UNIT_NAMES:
        note("IMAGE_UNITS", f"the lengths are in {_UNIT_NAMES[unit]}s; they were converted to mm.")
    return _MM_PER_UNIT.get(unit, 1.0)


def _qform(fields: Fields, pixdim: list[float], scale: float) -> Rows:
    """Return the affine of the quaternion (b, c, d), the offsets and pixdim; NaN when it is no rotation."""
    b, c, d = fields["quatern"]
    rest = 1.0 - (b * b + c * c + d * d)
    if not rest >= -_QUATERNION_SLACK:  # also when a value is NaN
        return [[math.nan] * 4 for _ in range(3)]
    a = math.sqrt(max(rest, 0.0))
    norm = math.sqrt(a * a + b * b + c * c + d * d)
    a, b, c, d = a / norm, b / norm, c / norm, d / norm
    rotation = [
        [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
    x, y, z = pixdim
    lengths = (x, y, -z if fields["pixdim"][0] < 0 else z)  # qfac
    return [[*map(mul, row, lengths), offset * scale] for row, offset in zip(rotation, fields["qoffset"], strict=True)]


def _is_usable(rows: Rows, shape: tuple[int, ...], note: Note) -> bool:
    """Tell whether the affine gives every axis a finite length and every voxel a place."""
    if not all(abs(value) < _LARGEST_MM for row in rows for value in row):
        note("IMAGE_SPACING", "the affine holds values that are no positions in mm (NaN, infinite or beyond 1e9).")
        return False
    spacing = [math.hypot(*(row[axis] for row in rows)) for axis in range(len(shape))]
    if min(spacing) < _SMALLEST_MM:
        shown = ", ".join(f"{value:g}" for value in spacing)
        note("IMAGE_SPACING", f"the voxel spacing is ({shown}) mm; every spacing must be positive.")
        return False
    return True


def _completed(rows: Rows, axes: int) -> Affine:
    """Return the affine, with the unit normal as the third axis of a 2-D image, whose header may leave it empty."""
    if axes == 2:
        (a, b, _, _), (c, d, _, _), (e, f, _, _) = rows
        normal = (c * f - e * d, e * b - a * f, a * d - c * b)
        length = math.sqrt(sum(value * value for value in normal)) or 1.0
        rows = [[*row[:2], value / length, row[3]] for row, value in zip(rows, normal, strict=True)]
    return (*map(tuple, rows), (0.0, 0.0, 0.0, 1.0))


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


def _compare(fields: Fields, grid: Grid, pixdim: list[float], scale: float, note: Note) -> None:
    """Warn when the header says in a second place something else than the sform in use."""
    pairs = list(zip(pixdim, grid.spacing_mm, strict=False))  # a 2-D image has two
    if not all(abs(said - used) <= _PIXDIM_TOLERANCE * used for said, used in pairs):
        said, used = (", ".join(f"{value:.6g}" for value in values) for values in zip(*pairs, strict=True))
        note("IMAGE_PIXDIM", f"pixdim says a spacing of ({said}) mm, the sform in use ({used}) mm.")
    if fields["qform_code"] <= 0:
        return
    qform = _completed(_qform(fields, pixdim, scale), len(pairs))
    is_finite = all(abs(value) < _LARGEST_MM for row in qform for value in row)
    if not (is_finite and all(said > _SMALLEST_MM for said, _ in pairs)):
        note("IMAGE_TWO_AFFINES", "the qform gives the voxels no place; the sform is in use.")
        return
    stated = Grid(grid.shape, qform)
    if not is_same_place(stated, grid):
        apart = corner_distance(stated, grid)[0]
        note(
            "IMAGE_TWO_AFFINES", f"sform and qform differ by up to {apart:.3g} mm at the corners; the sform is in use."
        )
