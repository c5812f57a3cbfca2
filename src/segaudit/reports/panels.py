"""Image panels: the outlines of a prediction and of every ruler on the slice where they disagree most."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segaudit.cohorts import Cohort, Labels
from segaudit.errors import AuditError
from segaudit.volumes import DEFAULT_MAX_BYTES, Grid, LabelVolume, on_grid, read_labels

Mask = NDArray[np.bool_]
# Okabe and Ito's colours on a dark ground; every line has a style of its own, too.
MODEL_LINE = ("#f0e442", "solid", "yellow, solid")
RULER_LINES = (
    ("#56b4e9", "dashed", "blue, dashed"),
    ("#e69f00", "dotted", "orange, dotted"),
    ("#cc79a7", "dashdot", "pink, dash-dotted"),
)
_GROUND = 0.16
_MARGIN = 6
_INCHES, _DPI = 2.4, 110


def key_of_lines(model: str, rulers: tuple[str, ...]) -> str:
    """Return how each outline is drawn, in words."""
    lines = [(model, MODEL_LINE), *zip(rulers, RULER_LINES, strict=False)]
    return "; ".join(f"{name}: {line[2]}" for name, line in lines)


def panel(
    cohort: Cohort,
    case: str,
    model: str,
    rulers: tuple[str, ...],
    images: Mapping[str, Path],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> tuple[bytes, str] | None:
    """Return the panel of a case as PNG, and where its slice lies; None when a mask of it cannot be read.

    Parameters
    ----------
    cohort : Cohort
    case, model : str
    rulers : tuple of str
        The trusted one first; at most three are drawn.
    images : mapping of case to Path
        What the outlines are drawn on, where there is one on the grid of the trusted ruler's mask.
    max_bytes : int
        Largest image that is read, voxels as stored.
    """
    names = (rulers[0], model, *rulers[1 : len(RULER_LINES)])
    try:
        volumes = [_volume(cohort, name, case, max_bytes) for name in names]
        if volumes[0] is None or volumes[1] is None:
            return None
        grid = volumes[0].grid
        aligned = [None if v is None else on_grid(v, grid, f"case '{case}'") for v in volumes]
    except AuditError:  # what is wrong with the file stands among the findings of scoring
        return None
    masks = [_masks(v, cohort.mask_sets[n].labels or cohort.labels) for v, n in zip(aligned, names, strict=True)]
    spacing = grid.spacing_mm
    axis, index = _slice(masks[1], masks[0], grid)
    view = _view(grid, axis)
    flat = [[view.turned(_cut(mask, axis, index)) for mask in of_set] for of_set in masks]
    ground = _ground(images.get(case), volumes[0], case, max_bytes)
    shown = None if ground is None else view.turned(_cut(ground, axis, index))
    across = [spacing[i] for i in view.axes]
    place = "whole image" if axis < 0 or grid.shape[axis] == 1 else f"slice {index + 1} of {grid.shape[axis]}"
    lines = [(flat[1], MODEL_LINE)]
    lines += [(flat[i], line) for i, line in zip((0, *range(2, len(flat))), RULER_LINES, strict=False)]
    return _drawn(lines, shown, across), place


def _volume(cohort: Cohort, name: str, case: str, max_bytes: int) -> LabelVolume | None:
    own = cohort.mask_sets.get(name)
    if own is None or "path" not in own.masks:
        return None
    paths = own.masks.loc[own.masks["case"] == case, "path"]
    return read_labels(Path(paths.iloc[0]), max_bytes=max_bytes) if len(paths) else None


def _masks(volume: LabelVolume | None, labels: Labels) -> list[Mask]:
    return [] if volume is None else [np.isin(volume.labels, values) for values in labels.values()]


@dataclass(frozen=True, slots=True)
class View:
    """How a slice is turned to stand as readers know it: head or front up, the patient's right or front on the left.

    Attributes
    ----------
    axes : (int, int)
        Axes of the volume that run down and across.
    swapped, up, back : bool
        Whether the two axes of the cut are exchanged, and each then reversed.
    """

    axes: tuple[int, int]
    swapped: bool
    up: bool
    back: bool

    def turned(self, cut: NDArray[Any]) -> NDArray[Any]:
        """Return a cut with rows from top to bottom and columns from left to right."""
        rows = cut.T if self.swapped else cut
        return rows[:: -1 if self.up else 1, :: -1 if self.back else 1]


def _view(grid: Grid, axis: int) -> View:
    """Return the view of a cut across an axis; a flat or unoriented image stands as its pixels are stored."""
    first, second = [i for i in range(len(grid.shape)) if i != axis]
    if grid.unit == "px":
        return View((first, second), swapped=False, up=False, back=False)
    if axis < 0 or grid.shape[axis] == 1 or not grid.oriented:
        return View((second, first), swapped=True, up=False, back=False)
    towards = np.array(grid.affine)[:3, :3]
    world = {i: int(np.argmax(np.abs(towards[:, i]))) for i in (first, second)}
    down, across = sorted((first, second), key=lambda i: -world[i])
    up, back = (bool(towards[world[i], i] > 0) for i in (down, across))
    return View((down, across), swapped=down > across, up=up, back=back)


def _slice(model: list[Mask], trusted: list[Mask], grid: Grid) -> tuple[int, int]:
    """Return the axis across which slices lie furthest apart, and the slice with the most voxels in dispute."""
    if len(grid.shape) < 3:
        return -1, 0
    flat = [i for i, n in enumerate(grid.shape) if n == 1]
    axis = flat[-1] if flat else 2 - int(np.argmax(grid.spacing_mm[::-1]))
    dispute = np.zeros(model[0].shape[axis], dtype=np.int64)
    other = tuple(i for i in range(3) if i != axis)
    for a, b in zip(model, trusted, strict=True):
        dispute += np.logical_xor(a, b).sum(axis=other)
    return axis, int(np.argmax(dispute))


def _cut(volume: NDArray[Any], axis: int, index: int) -> NDArray[Any]:
    return np.asarray(volume if axis < 0 else np.take(volume, index, axis=axis))


def _ground(path: Path | None, trusted: LabelVolume, case: str, max_bytes: int) -> NDArray[Any] | None:
    if path is None:
        return None
    try:
        return np.asarray(on_grid(read_labels(path, max_bytes=max_bytes), trusted.grid, f"case '{case}'").labels)
    except AuditError:  # an image of fractions, or on another grid: outlines alone
        return None


def _drawn(lines: list[tuple[list[Mask], Any]], ground: NDArray[Any] | None, spacing: list[float]) -> bytes:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    union = np.logical_or.reduce([mask for masks, _ in lines for mask in masks])
    box = _box(union)
    base = np.full(union.shape, _GROUND) if ground is None else _grey(ground)
    figure = Figure(figsize=(_INCHES, _INCHES), dpi=_DPI, facecolor="black")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    aspect = spacing[0] / spacing[1]
    axes.imshow(base[box], cmap="gray", vmin=0, vmax=1, origin="upper", aspect=aspect, interpolation="nearest")
    for masks, (colour, style, _) in lines:
        for mask in masks:
            inside = mask[box]
            if inside.any() and not inside.all():
                axes.contour(inside.astype(float), levels=[0.5], colors=[colour], linestyles=[style], linewidths=1.2)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="black", metadata={"Software": None}, pil_kwargs={"optimize": True})
    return buffer.getvalue()


def _box(union: Mask) -> tuple[slice, ...]:
    """Return the part of a slice that holds every outline, with a margin."""
    if not union.any():
        return tuple(slice(0, n) for n in union.shape)
    found = []
    for axis in range(union.ndim):
        at = np.flatnonzero(union.any(axis=tuple(i for i in range(union.ndim) if i != axis)))
        found.append(slice(max(0, int(at[0]) - _MARGIN), int(at[-1]) + _MARGIN + 1))
    return tuple(found)


def _grey(ground: NDArray[Any]) -> NDArray[np.float64]:
    low, high = np.percentile(ground, [1, 99])
    scaled = (ground.astype(np.float64) - low) / max(float(high - low), 1e-9)
    return np.asarray(np.clip(scaled, 0, 1) * 0.85)
