"""A toy cervical spine: its true outline, a sagittal T2-like image of it, and a rater who draws it by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from segaudit.simulate.phantoms import LABELS, Floats, Labels, Triple, macro_dice, rounded_box, smooth_field

LARGEST = 1.07  # size of the largest patient, relative to the lengths below
BODY_MM, DEPTH_MM, WIDTH_MM = 10.0, 16.0, 23.0
LOWEST_MM, HIGHEST_MM = 5.6, 7.8  # of a disc: six voxels at least, for lower ones failed to train in 3-D
MARGIN_MM = (1.0, 2.5, 18.0)  # beside, above and below, before and behind the column
FEWEST_BODIES = 2
_FORWARD_MM = 6.0  # the column lies before the middle, for canal and neck lie behind it
_PARTS = 3  # of a slice, drawn apart and averaged: the partial volume across slices
_EDGE_MM, _WAIST_MM, _BULGE_MM = 2.0, 0.9, 0.7
_THINNER = 0.2  # a disc is lower at its front and back
_CORD_MM, _CANAL_MM = 3.3, 6.2  # half their depth
_PROCESS_MM = 19.4  # from the back of a body to the middle of a spinous process
_WORST_MM = 6.0  # the largest error of a rater


@dataclass(frozen=True, slots=True)
class Spine:
    """Form and tissue of one patient's column.

    Attributes
    ----------
    size : float
        Lengths of the bodies relative to the mean, LARGEST at most.
    discs_mm : tuple of float
        Height of each disc in its middle, from below.
    curvature : float
        Of the column in 1/mm; above 0 it is hollow to the back.
    tilt, roll : float
        How far it leans to the back and to the side, mm in mm.
    disc, bone : float
        Signal of discs and marrow, where that of fluid is 200.
    """

    size: float
    discs_mm: tuple[float, ...]
    curvature: float
    tilt: float
    roll: float
    disc: float
    bone: float

    @property
    def half_mm(self) -> float:
        """Half the height of the column."""
        return 0.5 * ((len(self.discs_mm) + 1) * BODY_MM * self.size + sum(self.discs_mm))

    @property
    def centres_mm(self) -> Floats:
        """Middle of each disc above that of the column."""
        below = np.cumsum(np.array(self.discs_mm) + BODY_MM * self.size)
        return np.asarray(below - 0.5 * np.array(self.discs_mm) - self.half_mm)


@dataclass(frozen=True, slots=True)
class Setting:
    """How one exam was taken.

    Attributes
    ----------
    centre_mm : tuple of float
        Where the middle of the column lies: left to right, bottom to top, front to back.
    noise : float
        Standard deviation, where the signal of fluid is 200.
    gain : float
        Signal in the file by that of the tissue.
    """

    centre_mm: Triple
    noise: float
    gain: float


@dataclass(frozen=True, slots=True)
class Surfaces:
    """The true surfaces of one exam on its grid: slices, bottom to top, front to back.

    Attributes
    ----------
    column_mm : array of float, 3-D
        Signed distance to the surface of the whole column, negative inside: bodies and discs touch.
    disc_mm : array of float, 3-D with one slice
        Signed distance to the border between body and disc along the column, negative in a disc.
    """

    column_mm: Floats
    disc_mm: Floats

    def outline(self, column_mm: Floats | float = 0.0, disc_mm: Floats | float = 0.0) -> Labels:
        """Return the label map whose surfaces lie this far out of the true ones."""
        disc = np.where(self.disc_mm < disc_mm, np.uint8(LABELS["disc"]), np.uint8(LABELS["vb"]))
        return np.where(self.column_mm < column_mm, disc, np.uint8(0))


@dataclass(frozen=True, slots=True)
class Placed:
    """A column on a grid with finer slices: where the points lie about it, in mm.

    Attributes
    ----------
    side_mm : array of float, slices by rows by 1
        To the left or the right of the middle.
    along_mm, across_mm : array of float, 1 by rows by columns
        Above the middle, and behind the centre line.
    column_mm, disc_mm : array of float
        As those of Surfaces.
    """

    side_mm: Floats
    along_mm: Floats
    across_mm: Floats
    column_mm: Floats
    disc_mm: Floats

    @property
    def surfaces(self) -> Surfaces:
        """The true surfaces; a slice has the mean distance over its thickness."""
        return Surfaces(_averaged(self.column_mm), self.disc_mm)


def bodies_that_fit(shape: tuple[int, int, int], spacing_mm: Triple) -> int:
    """Return how many vertebral bodies a grid holds for a patient of any size; 0 where it is too narrow."""
    wide, high, deep = (n * mm - 2.0 * margin for n, mm, margin in zip(shape, spacing_mm, MARGIN_MM, strict=True))
    bodies = int((high + HIGHEST_MM) / (BODY_MM * LARGEST + HIGHEST_MM))
    return bodies if wide >= WIDTH_MM * LARGEST and deep >= DEPTH_MM * LARGEST else 0


def place(spine: Spine, setting: Setting, shape: tuple[int, int, int], spacing_mm: Triple) -> Placed:
    """Return the column on a grid of slices, rows from bottom to top and columns from front to back."""
    finer = (_PARTS * shape[0], shape[1], shape[2])
    steps = (spacing_mm[0] / _PARTS, spacing_mm[1], spacing_mm[2])
    x, z, y = (
        (np.arange(n) - (n - 1) / 2.0) * mm - centre
        for n, mm, centre in zip(finer, steps, setting.centre_mm, strict=True)
    )
    # The centre line is a parabola; positions are taken along its tangent and its normal.
    slope = (spine.tilt + spine.curvature * z)[:, None]
    away = y - (spine.tilt * z + 0.5 * spine.curvature * z**2)[:, None] + _FORWARD_MM
    stretch = np.sqrt(1.0 + slope**2)
    along, across = z[:, None] + slope * away / stretch, away / stretch
    side = np.abs(x[:, None] - spine.roll * z)[:, :, None]
    half = 0.5 * DEPTH_MM * spine.size
    low = 0.5 * np.array(spine.discs_mm)[:, None, None] * (1.0 - _THINNER * np.minimum((across / half) ** 2, 0.6))
    disc = (np.abs(along - spine.centres_mm[:, None, None]) - low).min(axis=0)
    narrower = np.interp(disc, (-2.0, 0.0, 0.5 * BODY_MM * spine.size), (-_BULGE_MM, 0.0, _WAIST_MM))
    box = (side - 0.5 * WIDTH_MM * spine.size, np.abs(across) - half + narrower, np.abs(along) - spine.half_mm)
    return Placed(side, along[None], across[None], rounded_box(box, _EDGE_MM), disc[None])


def image(
    spine: Spine, setting: Setting, placed: Placed, spacing_mm: Triple, rng: np.random.Generator
) -> NDArray[np.int16]:
    """Return a sagittal T2-like image: fluid about a cord, muscle, bone beside the column, bias field and noise."""
    tissue = _averaged(_tissue(spine, placed, spacing_mm[1], rng))
    signal = tissue * _bias(tissue.shape, rng)
    real, imaginary = rng.normal(0.0, setting.noise, (2, *tissue.shape))
    return np.asarray(np.round(setting.gain * np.hypot(signal + real, imaginary)), dtype=np.int16)


def draw_by_hand(true: Surfaces, spacing_mm: Triple, error: float, rng: np.random.Generator) -> Labels:
    """Return the label map of a rater whose Dice against the truth, mean over the labels, is about 1 - error.

    The rater draws a case too large or too small, each slice a little off, and every line unsteadily. The parts are
    drawn at random and then scaled to the error, so that it does not depend on the size of the structures.
    """
    truth = true.outline()
    shape = true.column_mm.shape
    over, high = rng.normal(0.0, (0.6, 0.4))
    up, back = 0.5 * rng.standard_normal((2, shape[0], 1, 1))
    column = over + 0.6 * smooth_field(shape, spacing_mm, rng) - _moved(true.column_mm, up, back, spacing_mm)
    disc = high + 0.5 * smooth_field(shape, spacing_mm, rng) - _moved(true.disc_mm, up, back, spacing_mm)
    low, worst = 0.0, _WORST_MM
    for _ in range(10):
        middle = 0.5 * (low + worst)
        drawn = true.outline(middle * column, middle * disc)
        low, worst = (middle, worst) if 1.0 - macro_dice(truth, drawn) < error else (low, middle)
    return true.outline(low * column, low * disc)


def _tissue(spine: Spine, placed: Placed, mm: float, rng: np.random.Generator) -> Floats:
    """Return the signal of every point without bias and noise."""

    def within(distance_mm: Floats) -> Floats:
        return np.clip(0.5 - distance_mm / mm, 0.0, 1.0)

    def line(distance_mm: Floats) -> Floats:
        return np.clip(1.0 - np.abs(distance_mm) / mm, 0.0, 1.0)

    side, along, across = placed.side_mm, placed.along_mm, placed.across_mm
    texture = smooth_field(across.shape[1:], (mm, mm), rng)[None]
    behind = across - 0.5 * DEPTH_MM * spine.size
    signal = np.broadcast_to(58.0 + 9.0 * texture, placed.column_mm.shape)

    def paint(part: Floats, value: Floats | float) -> None:
        nonlocal signal
        signal = signal + part * (value - signal)

    paint(within(24.5 - behind), 165.0)  # fat under the skin
    throat = np.hypot((across + 0.5 * DEPTH_MM + 9.5) / 3.2, side / 9.0)
    paint(within(3.2 * (throat - 1.0)), 12.0)
    # Bone that is no part of the column: spinous processes in the middle, pillars with joints beside the canal.
    up = along - spine.centres_mm[:, None, None, None]
    process = np.hypot((behind - _PROCESS_MM) / 5.2, (up + 0.35 * (behind - _PROCESS_MM) + 2.0) / 3.2).min(axis=0)
    pillar = np.hypot((behind - 5.5) / 5.5, up / 5.5).min(axis=0)
    for distance in (3.2 * (np.hypot(process, side / 4.5) - 1.0), 5.0 * (np.hypot(pillar, (side - 14.0) / 5.0) - 1.0)):
        paint(within(distance), spine.bone + 6.0 * texture)
        paint(0.7 * line(distance), 25.0)
    middle = behind - 1.2 - _CANAL_MM
    canal = _CANAL_MM * (np.hypot(middle / _CANAL_MM, side / 10.0) - 1.0)
    paint(within(canal - 1.2), 20.0)
    paint(within(canal), 200.0)
    paint(within(_CORD_MM * (np.hypot(middle / _CORD_MM, side / 6.0) - 1.0)), 104.0)
    nucleus = 1.0 - 0.35 * np.minimum((2.0 * across / (DEPTH_MM * spine.size)) ** 2, 1.0)
    inside = spine.bone + 6.0 * texture
    inside = inside + within(placed.disc_mm) * (spine.disc * nucleus - inside)
    inside = inside + 0.55 * line(placed.disc_mm) * (30.0 - inside)  # the end plates
    paint(within(placed.column_mm), inside)
    paint(0.7 * line(placed.column_mm), 28.0)
    return signal


def _averaged(fine: Floats) -> Floats:
    """Return the mean over the parts of each slice."""
    return np.asarray(fine.reshape(-1, _PARTS, *fine.shape[1:]).mean(axis=1))


def _bias(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return the field of a receive coil behind the neck, with a random slope and bend along each axis."""
    log = np.zeros((1, 1, 1))
    for axis, n in enumerate(shape):
        position = np.expand_dims(np.linspace(-1.0, 1.0, n), [other for other in range(3) if other != axis])
        slope, bend = rng.normal(0.0, (0.12, 0.08))
        log = log + (slope + 0.15 * (axis == 2)) * position + bend * position**2
    return np.exp(log)


def _moved(distance_mm: Floats, up_mm: Floats, back_mm: Floats, spacing_mm: Triple) -> Floats:
    """Return how much a distance changes, to first order, when what it belongs to moves up and back."""
    by_z, by_y = np.gradient(distance_mm, spacing_mm[1], spacing_mm[2], axis=(1, 2))
    return np.asarray(-(up_mm * by_z + back_mm * by_y))
