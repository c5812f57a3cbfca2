"""The door to the compiled kernel, which finds what `cases` finds with NumPy, and is absent where none was built."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from segaudit.metrics import kernel
from segaudit.metrics.base import Spacing
from segaudit.metrics.boundary import Floats, boundary_sizes
from segaudit.metrics.codes import Found, Side


def can_find(ours: Side, theirs: Side) -> bool:
    """Return whether the kernel is there and takes these arrays."""
    return kernel.KERNEL is not None and ours.voxels.size > 0 and ours.table.itemsize == theirs.table.itemsize == 1


def find(ours: Side, theirs: Side, spacing_mm: Spacing, *, boundary: bool, components: bool) -> Found:
    """Return what one pass over a case finds, HD95 of labels present on both sides included."""
    flat = ours.voxels.ndim == 2
    shape, step = ours.voxels.shape, spacing_mm
    if flat:
        shape, step = (1, *shape), (1.0, *step)
    # Rows run along the finest axis and slices along the coarsest, so that few of them lie within a given distance.
    order = sorted(range(3), key=lambda axis: -step[axis] if not flat or axis else -math.inf)
    steps = tuple(step[axis] for axis in order)
    n_labels = ours.members.shape[1]
    confusion = np.empty((len(ours.members), len(theirs.members)), np.int64)
    ignored, boxes, hd95 = np.zeros(1, np.int64), np.empty((n_labels, 2, 3), np.int32), np.full(n_labels, np.nan)
    pieces = np.empty((n_labels, 2), np.int64)
    kernel.KERNEL.score(
        np.ascontiguousarray(ours.voxels),
        np.ascontiguousarray(theirs.voxels),
        ours.table,
        theirs.table,
        ours.members.view(np.uint8),
        theirs.members.view(np.uint8),
        _sizes(steps, flat=flat),
        confusion,
        ignored,
        boxes,
        hd95,
        pieces,
        (shape[0], shape[1], shape[2]),
        (order[0], order[1], order[2]),
        (steps[0], steps[1], steps[2]),
        theirs.ignore,
        flat,
        boundary,
        components,
    )
    places = [
        tuple(map(slice, *box)) if box[0][0] < box[1][0] else (slice(0, 0),) * ours.voxels.ndim
        for box in boxes[..., int(flat) :].tolist()
    ]
    counted = [(prediction, reference) for prediction, reference in pieces.tolist()] if components else None
    return Found(confusion, int(ignored[0]), places, hd95.tolist(), counted)


@lru_cache(maxsize=64)  # the cases of a cohort have few spacings
def _sizes(steps: Spacing, *, flat: bool) -> Floats:
    """Return boundary sizes by the corner code of the kernel: columns are bit 0, rows bit 1, slices bit 2.

    Around a corner of a 2-D image both slices are the same.
    """
    if not flat:
        return boundary_sizes(steps[::-1])
    sizes = np.zeros(256)
    for code, size in enumerate(boundary_sizes(steps[:0:-1])):
        sizes[code | code << 4] = size
    return sizes
