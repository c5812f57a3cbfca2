"""One case: two label arrays in, what every label's metrics need out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from segaudit.metrics import compiled
from segaudit.metrics.base import Counts, LabelArray, Mask, Measured, Metric, Spacing
from segaudit.metrics.boundary import bounding_box, flattened, hd95_of_masks
from segaudit.metrics.codes import Box, Found, Labels, Side, side
from segaudit.metrics.volume import count_components

Status = Literal["ok", "both_empty", "prediction_empty", "reference_empty"]


def value(metric: Metric, measured: Measured, load: float = math.nan) -> tuple[float, Status]:
    """Return the value of a metric for a measured label, and its status: the one place where empty masks are decided.

    Parameters
    ----------
    metric : Metric
    measured : Measured
    load : float
        Mean share of reference voxels over the evaluated cases of that label and ruler (`effective_load`); only nDSC
        reads it.

    Returns
    -------
    value : float
        nan where undefined, inf where a distance is infinite.
    status : {"ok", "both_empty", "prediction_empty", "reference_empty"}
        `ok` also for a quantity that empty masks leave defined, such as a count.

    Raises
    ------
    ValueError
        When the case was measured without what the metric needs.
    """
    counts = measured.counts
    if metric.empty is not None:
        if not counts.prediction and not counts.reference:
            return metric.empty.both, "both_empty"
        if not counts.prediction:
            return metric.empty.prediction, "prediction_empty"
        if not counts.reference:
            return metric.empty.reference, "reference_empty"
    if metric.from_counts is not None:
        return metric.from_counts(counts, load), "ok"
    found = metric.from_measured(measured) if metric.from_measured is not None else measured.others.get(metric.name)
    if found is None:
        raise ValueError(f"the case was measured without what '{metric.name}' needs")
    return found, "ok"


def measure(
    prediction: LabelArray,
    reference: LabelArray,
    prediction_labels: Labels,
    reference_labels: Labels,
    spacing_mm: Spacing,
    *,
    ignore: int | None = None,
    boundary: bool = True,
    components: bool = True,
    others: Sequence[Metric] = (),
) -> dict[str, Measured]:
    """Return what the metrics need of every label of a case, from one pass over its two arrays.

    Parameters
    ----------
    prediction, reference : numpy.ndarray of integers or bool
        Label values on one grid, any width and byte order; at most three axes longer than one.
    prediction_labels, reference_labels : mapping of str to tuple of int
        The values that make up each label on either side; the same names on both. Labels may share values.
        A value in no label is background.
    spacing_mm : tuple of float
        Voxel spacing along each axis of the array.
    ignore : int, optional
        Voxels where the reference has this value count on neither side, nor in the total.
    boundary : bool
        Whether to find HD95.
    components : bool
        Whether to count connected pieces.
    others : sequence of Metric
        Metrics that have only a function of two masks (`fn`), to be called too.

    Raises
    ------
    ValueError
        When shapes, axes, names or dtypes do not fit: a fault of the program, for the files were checked before.
    """
    _check(prediction, reference, prediction_labels, reference_labels, spacing_mm)
    voxel_mm3 = math.prod(spacing_mm)
    # Decided on the whole image: a structure one voxel thick in a volume still has two faces.
    prediction, reference, spacing_mm = flattened(prediction, reference, spacing_mm)
    if prediction.flags.f_contiguous and reference.flags.f_contiguous:  # walk both in the order they lie in memory
        prediction, reference, spacing_mm = prediction.T, reference.T, spacing_mm[::-1]
    ours = side(prediction, prediction_labels)
    theirs = side(reference, {name: reference_labels[name] for name in prediction_labels}, ignore)
    way = compiled.find if compiled.can_find(ours, theirs) else find
    found = way(ours, theirs, spacing_mm, boundary=boundary, components=components)
    counts_of, measured = _counts(found, ours.members, theirs.members, prediction.size), {}
    for column, name in enumerate(prediction_labels):
        counts = counts_of[column]
        both = counts.prediction > 0 and counts.reference > 0
        masks = masks_of(ours, theirs, column, found.boxes[column]) if others and both else None
        pieces = found.pieces[column] if found.pieces is not None else (None, None)
        measured[name] = Measured(
            counts,
            voxel_mm3,
            _hd95(counts, found.hd95[column]) if boundary else None,
            pieces[0],
            pieces[1],
            {m.name: m.fn(*masks, spacing_mm) for m in others if m.fn and masks},
        )
    return measured


def find(ours: Side, theirs: Side, spacing_mm: Spacing, *, boundary: bool, components: bool) -> Found:
    """Return what one pass over a case finds, with NumPy alone."""
    codes, truths = ours.codes(), theirs.codes()
    ignored = truths == theirs.ignore
    codes[ignored] = truths[ignored] = 0
    present = (codes | truths) != 0
    around = bounding_box(present)
    codes, truths, present = codes[around], truths[around], present[around]
    pairs = codes[present].astype(np.intp) * len(theirs.members) + truths[present]
    confusion = np.bincount(pairs, minlength=len(ours.members) * len(theirs.members))
    boxes = [
        _within(around, bounding_box(inside[codes] | truly[truths]))
        for inside, truly in zip(ours.members.T, theirs.members.T, strict=True)
    ]
    hd95, pieces = [math.nan] * len(boxes), []
    for column, box in enumerate(boxes if boundary or components else []):
        masks = masks_of(ours, theirs, column, box)
        if boundary and all(mask.any() for mask in masks):
            hd95[column] = hd95_of_masks(*masks, spacing_mm)
        if components:
            pieces.append((count_components(masks[0]), count_components(masks[1])))
    counts = confusion.reshape(len(ours.members), -1).astype(np.int64)
    return Found(counts, int(ignored.sum()), boxes, hd95, pieces if components else None)


def masks_of(ours: Side, theirs: Side, column: int, box: Box) -> tuple[Mask, Mask]:
    """Return the masks of the label in a column, prediction and reference, within a box."""
    truths = theirs.codes(box)
    return ours.members[ours.codes(box), column] & (truths != theirs.ignore), theirs.members[truths, column]


def _within(outer: Box, inner: Box) -> Box:
    return tuple(slice(o.start + i.start, o.start + i.stop) for o, i in zip(outer, inner, strict=True))


def _counts(found: Found, inside: Mask, truly: Mask, n_voxels: int) -> list[Counts]:
    """Return the counts of every label, from the codes that belong to it on either side."""
    by_label = inside.T.astype(np.int64) @ found.confusion
    both, ours, theirs = (by_label * truly.T).sum(1), by_label.sum(1), found.confusion.sum(0) @ truly
    rest = n_voxels - found.ignored
    return [
        Counts(tp, p - tp, r - tp, rest - p - r + tp)
        for tp, p, r in zip(both.tolist(), ours.tolist(), theirs.tolist(), strict=True)
    ]


def _hd95(counts: Counts, found: float) -> float:
    if not counts.prediction and not counts.reference:
        return math.nan
    return found if counts.prediction and counts.reference else math.inf


def _check(
    prediction: LabelArray, reference: LabelArray, ours: Labels, theirs: Labels, spacing_mm: Sequence[float]
) -> None:
    for array in (prediction, reference):
        if array.dtype.kind not in "biu":
            raise ValueError(f"a label array holds integers, not {array.dtype}")
    if prediction.shape != reference.shape or len(spacing_mm) != prediction.ndim:
        raise ValueError(f"shapes {prediction.shape} and {reference.shape} and spacing {spacing_mm} do not fit")
    if prediction.ndim < 2 or sum(length != 1 for length in prediction.shape) > 3:
        raise ValueError(f"an image has two or three axes longer than one, not shape {prediction.shape}")
    if set(ours) != set(theirs):
        raise ValueError(f"labels {sorted(ours)} and {sorted(theirs)} differ")
