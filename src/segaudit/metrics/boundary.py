"""Distances between the boundaries of two masks."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from segaudit.metrics.base import METRICS, Empty, LabelArray, Mask, Metric, Spacing

Floats = NDArray[np.float64]
_Corner = tuple[int, ...]
_SHARE = 0.95 - 1e-9  # a share of exactly 0.95 must not hang on how a sum was rounded


def flattened(
    prediction: LabelArray, reference: LabelArray, spacing_mm: Spacing
) -> tuple[LabelArray, LabelArray, Spacing]:
    """Return two arrays and their spacing without axes of length one, so that an image has its own dimension.

    A radiograph stored as (1024, 1024, 1) is a 2-D image: taken as a volume, every pixel of it would lie on a face.
    Two axes always remain.
    """
    flat = [axis for axis, length in enumerate(prediction.shape) if length == 1]
    dropped = flat[::-1][: max(prediction.ndim - 2, 0)]
    kept = [axis for axis in range(prediction.ndim) if axis not in dropped]
    shape = [prediction.shape[axis] for axis in kept]
    return prediction.reshape(shape), reference.reshape(shape), tuple(spacing_mm[axis] for axis in kept)


def boundary_sizes(spacing_mm: Spacing) -> Floats:
    """Return the size of the boundary at a grid corner, by which of the voxels around it lie in the mask.

    Parameters
    ----------
    spacing_mm : tuple of float
        Voxel spacing along each of the two or three axes.

    Returns
    -------
    numpy.ndarray
        2 ** (2 ** n_axes) areas in mm2 (lengths in mm for two axes). Bit b of the index stands for the voxel whose
        offset along axis a is bit a of b; zero where all or none of the voxels are in the mask.

    Notes
    -----
    The voxel centres around a corner span a box. The fewer of inside and outside centres (inside or outside alike
    when even) fall into pieces joined along the edges of the box, and each piece is cut off by the polygon through
    the middle of the edges that leave it: the surface of marching cubes, without a table of triangles.

    References
    ----------
    lorensen1987, nikolov2021
    """
    # A normal is given on the unit box; each component grows with the spacings of the other axes.
    scale = math.prod(spacing_mm) / np.array(spacing_mm)
    sizes: Floats = np.linalg.norm(_normals(len(spacing_mm)) * scale, axis=2).sum(1)
    return sizes


@lru_cache
def _normals(n_axes: int) -> Floats:
    """Return the normals of the facets in the unit box, at most four for each set of inside corners."""
    corners = list(product((0, 1), repeat=n_axes))
    places = [sum(offset << axis for axis, offset in enumerate(corner)) for corner in corners]
    normals = np.zeros((2 ** len(corners), 4, n_axes))
    for code in range(len(normals)):
        inside = {corner for corner, place in zip(corners, places, strict=True) if code >> place & 1}
        fewer = inside if 2 * len(inside) <= len(corners) else set(corners) - inside
        for k, normal in enumerate(facet for piece in _pieces(fewer) for facet in _facets(piece)):
            normals[code, k] = normal
    normals.flags.writeable = False
    return normals


def _pieces(corners: set[_Corner]) -> list[set[_Corner]]:
    """Return the corners of a box in groups that hang together along its edges."""
    left, pieces = set(corners), []
    while left:
        piece, fresh = set(), {min(left)}
        while fresh:
            piece |= fresh
            fresh = {corner for corner in left - piece if any(_edge(corner, other) is not None for other in fresh)}
        left -= piece
        pieces.append(piece)
    return pieces


def _edge(a: _Corner, b: _Corner) -> int | None:
    """Return the axis along which two corners of a box are neighbours, if they are."""
    differ = [axis for axis in range(len(a)) if a[axis] != b[axis]]
    return differ[0] if len(differ) == 1 else None


def _facets(piece: set[_Corner]) -> list[Floats]:
    """Return the normals (up to sign of each component) of the facets that cut a piece off the unit box."""
    n_axes = len(next(iter(piece)))
    edges = {corner: {e for other in piece if (e := _edge(corner, other)) is not None} for corner in piece}
    used = sorted(set().union(*edges.values()))
    axes, diagonal = np.eye(n_axes), np.ones(n_axes)
    across = diagonal - axes[used].sum(0)
    if n_axes == 2:  # a corner, or a side
        return [diagonal / 2] if not used else [across]
    match len(piece), len(used), max(map(len, edges.values())):
        case 4, 3, 2:  # three edges in a row: a skew hexagon in four triangles, two of them equilateral
            middle = set.intersection(*(pair for pair in edges.values() if len(pair) == 2)).pop()
            facets = [diagonal / 2] + [(axes[middle] + axes[axis]) / 4 for axis in used if axis != middle]
        case 4, 3, _:  # three edges that meet: a hexagon
            facets = [6 * diagonal / 8]
        case 4, _, _:  # a face: the cross-section
            facets = [across]
        case 3, _, _:  # two edges that meet: a pentagon, half a cross-section and two equilateral triangles
            facets = [across / 2, 3 * diagonal / 8]
        case 2, _, _:  # an edge: a bevel
            facets = [across / 2]
        case _:  # a corner: a triangle
            facets = [diagonal / 8]
    return facets


def corner_codes(mask: Mask) -> NDArray[np.uint8]:
    """Return for every corner of the voxel grid which voxels around it lie in the mask; outside counts as background.

    The result has one more element than the mask along each axis; its bits are those of `boundary_sizes`.
    """
    codes = np.pad(mask.view(np.uint8), 1)
    for axis in range(mask.ndim):
        lower = (slice(None),) * axis + (slice(None, -1),)
        upper = (slice(None),) * axis + (slice(1, None),)
        codes = codes[lower] | codes[upper] << np.uint8(2**axis)
    return codes


def bounding_box(mask: Mask) -> tuple[slice, ...]:
    """Return the smallest box that holds a mask, as slices; of an empty mask an empty one."""
    box: list[slice] = []
    for axis in range(mask.ndim):
        others = tuple(other for other in range(mask.ndim) if other != axis)
        hit = np.flatnonzero(mask[tuple(box)].any(axis=others))
        box.append(slice(int(hit[0]), int(hit[-1]) + 1) if len(hit) else slice(0, 0))
    return tuple(box)


def hd95_of_masks(prediction: Mask, reference: Mask, spacing_mm: Spacing) -> float:
    """Return the HD95 in mm of two masks that are not empty.

    Parameters
    ----------
    prediction, reference : numpy.ndarray of bool
        Masks on one grid of two or three axes.
    spacing_mm : tuple of float
        Voxel spacing along each axis of the array.

    Notes
    -----
    Boundary elements sit at the corners of the voxel grid, each with its area for this spacing. In each direction the
    value is the smallest distance to the nearest element of the other boundary within which 95 % of the area lies;
    the larger direction counts. It is neither a percentile over voxels nor an interpolated one.

    References
    ----------
    nikolov2021
    """
    box = bounding_box(prediction | reference)
    ours, theirs = corner_codes(prediction[box]), corner_codes(reference[box])
    sizes = boundary_sizes(spacing_mm)
    return max(_directed(ours, theirs, sizes, spacing_mm), _directed(theirs, ours, sizes, spacing_mm))


def _directed(source: NDArray[np.uint8], target: NDArray[np.uint8], sizes: Floats, spacing_mm: Spacing) -> float:
    """Return the distance in mm from the source boundary to the target within which 95 % of the source lies."""
    on_source, on_target = sizes[source] > 0, sizes[target] > 0
    total = float(sizes[source].sum())
    apart = on_source & ~on_target  # a corner on both boundaries is at distance 0
    areas = sizes[source[apart]]
    needed = _SHARE * total - (total - float(areas.sum()))
    if needed <= 0:
        return 0.0
    distances = _nearest(np.argwhere(apart), np.argwhere(on_target), spacing_mm)
    order = np.argsort(distances)
    reached = int(np.searchsorted(np.cumsum(areas[order]), needed))
    return float(distances[order[min(reached, len(order) - 1)]])


def _nearest(points: NDArray[np.intp], targets: NDArray[np.intp], spacing_mm: Spacing) -> Floats:
    """Return the distance in mm from each point to the nearest target, both given by grid position."""
    from scipy.spatial import cKDTree

    step = np.array(spacing_mm)
    tree = cKDTree(targets * step, leafsize=24, compact_nodes=False, balanced_tree=False)
    nearest = targets[tree.query(points * step)[1]]
    # Found anew from whole grid steps, so that the value does not depend on where in the image the masks lie.
    distances: Floats = np.sqrt((((nearest - points) * step) ** 2).sum(1))
    return distances


METRICS.register(
    Metric(
        *("hd95", "95th percentile Hausdorff distance", "mm", "lower", (0, math.inf), True),
        Empty(both=math.nan, prediction=math.inf, reference=math.inf),
        "nikolov2021",
        from_measured=lambda measured: measured.hd95,
    )
)
