"""Where the voxels of a label map lie, and how a map that lies on the same grid in another order is brought onto it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from segaudit.errors import Finding
from segaudit.volumes.faults import finding, refusal

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.integer[Any]]
Affine = tuple[tuple[float, ...], ...]

# Two grids are one when no outer corner of the image lies further apart, in voxels along any axis: far more than the
# rounding of a float32 header, far less than anything a distance or an overlap would show.
TOLERANCE_VOXELS = 1e-3
# A qform keeps three parts of a unit quaternion in float32; the fourth follows from them. Near half turns, which files
# converted from DICOM usually are, it follows so badly that one image read by its qform and by its sform is turned by
# up to 0.04 degrees. Such a turn, and only that, is taken for rounding: the three parts agree to float32.
_QUATERNION = 2e-7
_MOST_BY_QUATERNION_VOXELS = 0.5
_UNCHANGED = ((0, 1, 2), (False, False, False))


@dataclass(frozen=True, slots=True)
class Grid:
    """Shape of a label map and where its voxels lie.

    Attributes
    ----------
    shape : tuple of int
        Two or three lengths in voxels.
    affine : tuple of four tuples of four float
        From voxel index (centre of a voxel) to position, in `unit`. The third column of a 2-D map is the unit normal.
    unit : {"mm", "px"}
        Unit of length; px for PNG, which knows no spacing.
    oriented : bool
        False when the file states no orientation: then only shape and spacing mean anything.
    """

    shape: tuple[int, ...]
    affine: Affine
    unit: Literal["mm", "px"] = "mm"
    oriented: bool = True

    @classmethod
    def of(cls, shape: Sequence[int], affine: npt.ArrayLike) -> Grid:
        """Return the grid in mm of a shape and a 4x4 affine."""
        return cls(tuple(int(n) for n in shape), as_tuples(np.asarray(affine, dtype=np.float64)))

    @classmethod
    def spaced(cls, shape: Sequence[int], spacing_mm: Sequence[float]) -> Grid:
        """Return the grid of a shape and a spacing in mm a voxel along each axis, with its first voxel at 0."""
        return cls.of(shape, np.diag([*[*spacing_mm, 1.0][:3], 1.0]))

    @property
    def spacing_mm(self) -> tuple[float, ...]:
        """Return the distance between neighbouring voxels along each axis: column norms of the affine, in `unit`."""
        a, b, c = self.affine[:3]
        return tuple(math.sqrt(a[k] * a[k] + b[k] * b[k] + c[k] * c[k]) for k in range(len(self.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class LabelVolume:
    """A label map as stored, on its grid.

    Attributes
    ----------
    labels : integer array of the grid's shape, read-only
        In the type and the memory order of the file: Fortran order for NIfTI, C order (rows, columns) for PNG.
    grid : Grid
    findings : tuple of Finding
        Warnings and notes from reading.
    """

    labels: Labels
    grid: Grid
    findings: tuple[Finding, ...] = ()


def as_tuples(affine: Array) -> Affine:
    """Return an affine as tuples, which can be compared and hashed."""
    return tuple(tuple(float(value) for value in row) for row in affine)


def corner_distance(first: Grid, second: Grid) -> tuple[float, float]:
    """Return how far apart two affines put the outer corners of the second grid: in its unit, and in its voxels.

    The second value is the largest along any axis, in that axis' voxels.
    """
    ends = [(-0.5, n - 0.5) for n in second.shape[: min(len(first.shape), len(second.shape))]]
    corners = np.array([[*[*corner, 0.0][:3], 1.0] for corner in itertools.product(*ends)]).T
    a, b = np.array(first.affine), np.array(second.affine)
    apart = ((a - b) @ corners)[:3]
    voxels = np.linalg.solve(b[:3, :3], apart)
    return float(np.sqrt((apart**2).sum(axis=0)).max()), float(np.abs(voxels).max())


def is_same_place(first: Grid, second: Grid) -> bool:
    """Tell whether two grids of one shape differ by the rounding of headers at most.

    Rounding is a distance of up to 0.001 voxel at the corners, or a turn that a qform's float32 quaternion cannot hold
    (at most half a voxel at the corners).
    """
    voxels = corner_distance(first, second)[1]
    if voxels <= TOLERANCE_VOXELS:
        return True
    if voxels > _MOST_BY_QUATERNION_VOXELS or not _same_quaternion(first, second):
        return False
    affine = np.array(first.affine)
    affine[:3, :3] = _directions(second) * np.sqrt((affine[:3, :3] ** 2).sum(axis=0))
    return corner_distance(replace(first, affine=as_tuples(affine)), second)[1] <= TOLERANCE_VOXELS


def _same_quaternion(first: Grid, second: Grid) -> bool:
    parts = []
    for directions in (_directions(first), _directions(second)):
        sign = 1.0 if np.linalg.det(directions) > 0 else -1.0
        (a, b, c), (d, e, f), (g, h, i) = directions * (1.0, 1.0, sign)
        # The unit quaternion of a rotation is the main axis of this matrix, exact also for half turns.
        matrix = [
            [a + e + i, h - f, c - g, d - b],
            [h - f, a - e - i, b + d, c + g],
            [c - g, b + d, e - a - i, f + h],
            [d - b, c + g, f + h, i - a - e],
        ]
        parts.append((sign, np.linalg.eigh(np.array(matrix))[1][1:, -1]))
    (hand, one), (other_hand, two) = parts
    return hand == other_hand and min(np.abs(one - two).max(), np.abs(one + two).max()) <= _QUATERNION


def on_grid(volume: LabelVolume, grid: Grid, where: str) -> LabelVolume:
    """Return the volume with its voxels in the order of `grid`, exactly; nothing is interpolated.

    Parameters
    ----------
    volume : LabelVolume
    grid : Grid
        The grid to be on, for example that of the reference.
    where : str
        Names the mask in a message: mask set and file.

    Returns
    -------
    LabelVolume
        On `grid` itself. The volume's own array when the order is the same, else a copy in Fortran order with a note.

    Raises
    ------
    AuditError
        GRID_MISMATCH, when the shapes differ, or a corner of the image lies more than 0.001 voxel away for another
        reason than the rounding of a qform (a note tells of that).

    Notes
    -----
    Axes may be swapped and flipped. A 2-D map and one of a single slice are the same. When one of the two states no
    orientation (NIfTI with qform_code and sform_code 0, PNG), only shape, spacing and unit are compared and the voxel
    order is taken to be the same; if the other one states it, a warning says so.
    """
    have = volume.grid
    if have == grid:
        return volume
    axes, flips = _UNCHANGED
    if have.oriented and grid.oriented:
        axes, flips = _axis_map(have, grid)
        turned, target = _turned(have, axes, flips), grid
    else:
        turned, target = (Grid.spaced(g.shape, g.spacing_mm) for g in (have, grid))
    same_shape = _three(turned.shape) == _three(grid.shape)
    if not same_shape or have.unit != grid.unit or not is_same_place(turned, target):
        raise refusal("GRID_MISMATCH", _mismatch(have, turned, target, grid), where)
    labels, found = volume.labels, list(volume.findings)
    if have.oriented != grid.oriented:
        bare = "the mask" if grid.oriented else "the grid it must lie on"
        message = f"{bare} states no orientation; shape and spacing agree, the voxel order is taken to be the same."
        found.append(finding("GRID_NO_ORIENTATION", message, where))
    apart, voxels = corner_distance(turned, target)
    if voxels > TOLERANCE_VOXELS:
        message = f"the affines differ by up to {apart:.2g} mm at the corners, by the rounding of a qform."
        found.append(finding("GRID_ROUNDED", message, where))
    if (axes, flips) != _UNCHANGED:
        ways = tuple(slice(None, None, -1 if flip else 1) for flip in flips)
        labels = np.asfortranarray(labels.reshape(_three(have.shape), order="F").transpose(axes)[ways])
        labels.flags.writeable = False
        message = f"the axes were taken in the order {axes} and flipped {flips} to lie on the grid."
        found.append(finding("GRID_REORIENTED", message, where))
    if labels.shape != grid.shape:
        labels = labels.reshape(grid.shape, order="F")
    return LabelVolume(labels, grid, tuple(found))


def _three(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape, 1)[:3]


def _axis_map(have: Grid, want: Grid) -> tuple[tuple[int, int, int], tuple[bool, bool, bool]]:
    """Return, for each axis of `want`, the axis of `have` most nearly along it, and whether that one runs backwards."""
    cosines = _directions(have).T @ _directions(want)
    i, j, k = (int(axis) for axis in np.abs(cosines).argmax(axis=0))
    if {i, j, k} != {0, 1, 2}:  # so oblique that no order fits: the corners will tell
        i, j, k = 0, 1, 2
    return (i, j, k), (bool(cosines[i, 0] < 0), bool(cosines[j, 1] < 0), bool(cosines[k, 2] < 0))


def _directions(grid: Grid) -> Array:
    columns = np.array(grid.affine)[:3, :3]
    directions: Array = columns / np.sqrt((columns**2).sum(axis=0))
    return directions


def _turned(grid: Grid, axes: tuple[int, ...], flips: tuple[bool, ...]) -> Grid:
    """Return the same grid with its axes in another order and direction."""
    affine, shape = np.array(grid.affine), _three(grid.shape)
    turned = affine.copy()
    for i, (axis, flip) in enumerate(zip(axes, flips, strict=True)):
        turned[:, i] = -affine[:, axis] if flip else affine[:, axis]
        turned[:, 3] += affine[:, axis] * (shape[axis] - 1) if flip else 0.0
    lengths = tuple(shape[axis] for axis in axes)
    if axes[2] == 2:  # a 2-D map stays one, of no thickness that could differ
        lengths = lengths[: len(grid.shape)]
    return replace(grid, shape=lengths, affine=as_tuples(turned))


def _mismatch(have: Grid, turned: Grid, target: Grid, grid: Grid) -> str:
    """Return in what a mask's grid differs from the one it must lie on."""
    differ = _differences(turned, target)
    same_shape = _three(turned.shape) == _three(grid.shape)
    if not same_shape:
        differ.insert(0, f"shape {have.shape} against {grid.shape}")
    if have.unit != grid.unit:
        differ.insert(0, f"unit of length {have.unit} against {grid.unit}")
    message = "the mask and the grid it must lie on differ in " + (", ".join(differ) or "affine")
    if same_shape:
        apart, voxels = corner_distance(turned, target)
        message += (
            f"; corners lie up to {apart:.3g} {grid.unit} apart ({voxels:.3g} voxel, tolerance {TOLERANCE_VOXELS})"
        )
    return f"{message}."


def _differences(first: Grid, second: Grid) -> list[str]:
    """Return which of spacing, orientation and origin differ by more than the tolerance, with both values."""
    count = min(len(first.shape), len(second.shape))
    lengths, steps = np.array(second.shape[:count]), np.array(second.spacing_mm[:count])
    found = []
    if (np.abs(np.array(first.spacing_mm[:count]) - steps) * lengths > TOLERANCE_VOXELS * steps).any():
        found.append(f"spacing {_shown(first.spacing_mm)} against {_shown(second.spacing_mm)} {second.unit}")
    sine = np.cross(_directions(first), _directions(second), axis=0)[:, :count]
    angles = np.sqrt((sine**2).sum(axis=0))
    if (angles * lengths * steps > TOLERANCE_VOXELS * steps.min()).any():
        found.append(f"orientation, by up to {np.degrees(np.arcsin(min(angles.max(), 1.0))):.3g} degrees")
    origins = [np.array(grid.affine)[:3, 3] for grid in (first, second)]
    if np.abs(origins[0] - origins[1]).max() > TOLERANCE_VOXELS * steps.min():
        found.append(f"origin {_shown(origins[0])} against {_shown(origins[1])} {second.unit}")
    return found


def _shown(values: Sequence[float] | Array) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"
