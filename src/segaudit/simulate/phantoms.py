"""A column of vertebral bodies and discs as signed distances, and outlines of it that err smoothly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Triple = tuple[float, float, float]

LABELS = {"vb": 1, "disc": 2}
BODY_MM, DISC_MM, DEPTH_MM, WIDTH_MM = 10.6, 5.2, 16.0, 23.0
LARGEST = 1.07  # size of the largest patient, relative to the figures above
MARGIN_MM = (5.0, 3.0, 3.0)  # of background about the column: it lies off the middle, and errors reach beyond it
NEAR_MM = 4.5  # no error reaches farther from the true surface
FIELD_MM = 4.0  # width of the smoothing kernel of an error field
MOST_BODIES = 7
_EDGE_MM, _WAIST_MM, _BULGE_MM = 2.0, 0.8, 0.6
_RADIUS_MM = 150.0  # of the column's curve, hollow to the back
_BIN_MM = 0.1
_OUTWARD = np.array([1.0, -1.0])  # a positive error moves the surface of a body out and that of a disc in


@dataclass(frozen=True, slots=True)
class Column:
    """Size and form of one patient's column.

    Attributes
    ----------
    size : float
        All lengths relative to the mean, 1 for the mean patient and LARGEST at most.
    disc : float
        Height of the discs relative to the mean.
    centre_mm : tuple of float
        Where its middle lies from that of the grid: left to right, back to front, bottom to top.
    """

    size: float
    disc: float
    centre_mm: Triple = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Anatomy:
    """The true structures of one case, on the part of the grid that holds them.

    Attributes
    ----------
    distance_mm : array of float, label by x by y by z
        Signed distance to the surface of the bodies and of the discs in mm, negative inside.
    counts : array of float, label by bin
        Voxels by their signed distance, in bins from -NEAR_MM to NEAR_MM.
    deep : array of float, one value a label
        Voxels that lie deeper inside.
    part : tuple of slice
        The part of the grid.
    shape : tuple of int
        Voxels of the grid: left to right, back to front, bottom to top.
    spacing_mm : tuple of float
    across_mm : array of float, y by z
        Position in front of the column's centre line.
    """

    distance_mm: Floats
    counts: Floats
    deep: Floats
    part: tuple[slice, slice, slice]
    shape: tuple[int, int, int]
    spacing_mm: Triple
    across_mm: Floats

    def expected_error(self, one_mm: float, other_mm: float, *, shift_mm: float = 0.0) -> float:
        """Return the expected Dice error, mean over the labels, of two makers with independent errors.

        Parameters
        ----------
        one_mm, other_mm : float
            Standard deviation of each maker's error in mm, above 0.
        shift_mm : float
            Constant error of the other maker in mm.
        """
        from scipy.special import ndtr

        edges = _bin_edges()
        middle = 0.5 * (edges[1:] + edges[:-1])
        one = ndtr(-middle / one_mm)
        other = ndtr((_OUTWARD[:, None] * shift_mm - middle) / other_mm)
        differ = (self.counts * (one * (1.0 - other) + other * (1.0 - one))).sum(axis=1)
        voxels = (self.counts * (one + other)).sum(axis=1) + 2.0 * self.deep
        return float(np.mean(differ / voxels))


def bodies_that_fit(shape: tuple[int, int, int], spacing_mm: Triple) -> int:
    """Return how many vertebral bodies the grid holds for a patient of any size; 0 where it is too narrow."""
    wide, deep, high = (
        (n * mm - 2.0 * margin) / LARGEST for n, mm, margin in zip(shape, spacing_mm, MARGIN_MM, strict=True)
    )
    bodies = min(int((high + DISC_MM) / (BODY_MM + DISC_MM)), MOST_BODIES)
    half = 0.5 * (bodies * (BODY_MM + DISC_MM) - DISC_MM)
    return bodies if wide >= WIDTH_MM and deep >= DEPTH_MM + half**2 / (2.0 * _RADIUS_MM) else 0


def build(column: Column, shape: tuple[int, int, int], spacing_mm: Triple) -> Anatomy:
    """Return the anatomy of a column in the middle of a grid."""
    x, y, z = (
        (np.arange(n) - (n - 1) / 2.0) * mm - centre
        for n, mm, centre in zip(shape, spacing_mm, column.centre_mm, strict=True)
    )
    bodies = bodies_that_fit(shape, spacing_mm)
    body, disc = BODY_MM * column.size, DISC_MM * column.size * column.disc
    pitch = body + disc
    half = 0.5 * (bodies * pitch - disc)
    # The centre line is a parabola; positions are taken along its tangent and its normal.
    slope = -z / _RADIUS_MM
    away = y[:, None] - (0.5 * half**2 - z**2) / (2.0 * _RADIUS_MM)
    stretch = np.sqrt(1.0 + slope**2)
    along, across = z + slope * away / stretch, away / stretch
    level = np.clip(np.round(along / pitch + 0.5 * (bodies - 1)), 0, bodies - 1) - 0.5 * (bodies - 1)
    from_body = np.abs(along - level * pitch)
    level = np.clip(np.round(along / pitch + 0.5 * (bodies - 2)), 0, bodies - 2) - 0.5 * (bodies - 2)
    from_disc = np.abs(along - level * pitch)
    depth, width = 0.5 * DEPTH_MM * column.size, 0.5 * WIDTH_MM * column.size
    waist = _WAIST_MM * np.clip(1.0 - (2.0 * from_body / body) ** 2, 0.0, 1.0)
    side = np.abs(x)[:, None, None]
    distance = np.stack(
        [
            rounded_box((side - width, np.abs(across) - depth + waist, from_body - 0.5 * body), _EDGE_MM),
            rounded_box((side - width, np.abs(across) - depth - _BULGE_MM, from_disc - 0.5 * disc), 0.4 * disc),
        ]
    )
    part = _part_within(distance.min(axis=0) < NEAR_MM)
    distance = distance[(slice(None), *part)]
    counts = np.stack([np.histogram(one, bins=_bin_edges())[0] for one in distance]).astype(np.float64)
    deep = (distance < -NEAR_MM).sum(axis=(1, 2, 3)).astype(np.float64)
    return Anatomy(distance, counts, deep, part, shape, spacing_mm, across)


def outline(anatomy: Anatomy, error_mm: Floats | float) -> Labels:
    """Return the label map of a maker with this error.

    Parameters
    ----------
    anatomy : Anatomy
    error_mm : array of float, x by y by z, or float
        How far out the surface of a body lies from the true one, and how far in that of a disc: so the border between
        the two moves as a whole. On the anatomy's part of the grid.

    Returns
    -------
    array of uint8
        On the whole grid; a voxel that two structures claim goes to the one whose surface is farther.
    """
    body, disc = anatomy.distance_mm[0] - error_mm, anatomy.distance_mm[1] + error_mm
    labels = np.zeros(anatomy.shape, dtype=np.uint8)
    deepest = np.minimum(body, disc)
    labels[anatomy.part] = np.where(deepest < 0, np.where(body <= disc, LABELS["vb"], LABELS["disc"]), 0)
    return labels


def error_field(anatomy: Anatomy, rng: np.random.Generator) -> Floats:
    """Return a smooth random field of mean 0 and variance 1 on the anatomy's part of the grid."""
    return smooth_field(anatomy.shape, anatomy.spacing_mm, rng, part=anatomy.part)


def smooth_field(
    shape: Sequence[int], spacing_mm: Sequence[float], rng: np.random.Generator, *, part: Sequence[slice] | None = None
) -> Floats:
    """Return a smooth random field of mean 0 and variance 1 on a grid, or on a part of it."""
    kernels = [_kernel(n, mm) for n, mm in zip(shape, spacing_mm, strict=True)]
    field = rng.standard_normal([kernel.shape[1] for kernel in kernels])
    for kernel, rows in zip(kernels, part or [slice(None)] * len(kernels), strict=True):
        # The first axis is smoothed and goes last; after as many turns as axes all stand where they were.
        field = np.tensordot(field, kernel[rows], axes=(0, 1))
    return field


def macro_dice(one: Labels, other: Labels) -> float:
    """Return the Dice of two label maps, mean over the labels."""
    codes = len(LABELS) + 1
    both = np.bincount((codes * one + other).ravel(), minlength=codes**2).reshape(codes, codes)
    return float(np.mean(2.0 * np.diag(both)[1:] / (both.sum(axis=0) + both.sum(axis=1))[1:]))


def intensity(anatomy: Anatomy, truth: Labels, *, age: float, rng: np.random.Generator) -> Labels:
    """Return a T2-like image of the case: bright fluid about a grey cord, discs that darken with age."""
    behind = -anatomy.across_mm - 0.5 * DEPTH_MM
    plane = np.full(behind.shape, 48.0)
    plane[(behind > 2.0) & (behind < 14.0)] = 200.0
    plane[(behind > 5.0) & (behind < 11.0)] = 112.0
    sides = np.abs(np.arange(anatomy.shape[0]) - (anatomy.shape[0] - 1) / 2.0) * anatomy.spacing_mm[0]
    image = np.where((sides < 0.5 * WIDTH_MM)[:, None, None], plane, 48.0)
    image[truth == LABELS["vb"]] = 88.0
    image[truth == LABELS["disc"]] = 176.0 - age
    noisy = image + rng.normal(0.0, 6.0, image.shape)
    return np.asarray(np.clip(8.0 * np.round(noisy / 8.0), 0, 248), dtype=np.uint8)  # steps of 8 keep the file small


def rounded_box(beyond_mm: tuple[Floats, Floats, Floats], edge_mm: float) -> Floats:
    """Return the signed distance to a box with rounded edges, given how far each point lies beyond its faces."""
    a, b, c = (face + edge_mm for face in beyond_mm)
    outside = np.sqrt(np.maximum(a, 0) ** 2 + (np.maximum(b, 0) ** 2 + np.maximum(c, 0) ** 2))
    return np.asarray(outside + np.minimum(np.maximum(a, np.maximum(b, c)), 0) - edge_mm)


def _part_within(near: NDArray[np.bool_]) -> tuple[slice, slice, slice]:
    """Return the smallest part of the grid that holds all true voxels."""
    parts = []
    for axis in range(3):
        found = np.flatnonzero(near.any(axis=tuple(other for other in range(3) if other != axis)))
        parts.append(slice(int(found[0]), int(found[-1]) + 1))
    return parts[0], parts[1], parts[2]


def _bin_edges() -> Floats:
    return np.linspace(-NEAR_MM, NEAR_MM, round(2.0 * NEAR_MM / _BIN_MM) + 1)


@lru_cache
def _kernel(n: int, mm: float) -> Floats:
    """Return weights, voxel by node, that turn white noise at nodes FIELD_MM apart into a smooth line of variance 1."""
    position = np.arange(n) * mm
    nodes = np.arange(-3.0 * FIELD_MM, position[-1] + 3.5 * FIELD_MM, FIELD_MM)
    weights = np.exp(-0.5 * ((position[:, None] - nodes) / FIELD_MM) ** 2)
    return np.asarray(weights / np.sqrt((weights**2).sum(axis=1, keepdims=True)))
