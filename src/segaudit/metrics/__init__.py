"""Metrics: what two masks of one case say of each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from segaudit.metrics.base import METRICS as METRICS
from segaudit.metrics.base import Counts as Counts
from segaudit.metrics.base import Empty as Empty
from segaudit.metrics.base import Mask as Mask
from segaudit.metrics.base import Measured as Measured
from segaudit.metrics.base import Metric as Metric
from segaudit.metrics.base import Spacing as Spacing
from segaudit.metrics.cases import Status as Status
from segaudit.metrics.cases import measure as measure
from segaudit.metrics.cases import value as value
from segaudit.metrics.codes import count_values as count_values
from segaudit.metrics.overlap import effective_load as effective_load


def of_masks(
    metric: Metric,
    prediction: ArrayLike,
    reference: ArrayLike,
    spacing_mm: Spacing | None = None,
    *,
    load: float = math.nan,
) -> float:
    """Return a metric of two masks, empty ones by the rule of its card.

    Parameters
    ----------
    metric : Metric
    prediction, reference : array
        Masks on one grid; every value but zero is inside.
    spacing_mm : tuple of float, optional
        Voxel spacing along each axis; 1 mm where not given.
    load : float
        The load of nDSC.
    """
    ours, theirs = np.asarray(prediction) != 0, np.asarray(reference) != 0
    spacing = (1.0,) * ours.ndim if spacing_mm is None else spacing_mm
    mask = {"mask": (1,)}
    needs = metric.from_measured is not None
    others = [metric] if metric.fn else []
    measured = measure(ours, theirs, mask, mask, spacing, boundary=needs, components=needs, others=others)
    return value(metric, measured["mask"], load)[0]


def dice(prediction: ArrayLike, reference: ArrayLike) -> float:
    """Return the Dice coefficient of two masks; nan when both are empty, 0 when one is.

    Examples
    --------
    >>> dice([[1, 1, 0]], [[0, 1, 1]])
    0.5
    """
    return of_masks(METRICS["dice"], prediction, reference)


def ndsc(prediction: ArrayLike, reference: ArrayLike, *, load: float) -> float:
    """Return the normalised Dice of two masks; nan when both are empty, 0 when one is.

    Parameters
    ----------
    prediction, reference : array
        Masks on the full grid of the image, never on a crop.
    load : float
        Mean share of reference voxels over the evaluated cases (`effective_load`).

    References
    ----------
    raina2023

    Examples
    --------
    >>> ndsc([[1, 1, 0, 0]], [[0, 1, 1, 0]], load=0.5)
    0.5
    """
    return of_masks(METRICS["ndsc"], prediction, reference, load=load)


def hd95(prediction: ArrayLike, reference: ArrayLike, spacing_mm: Spacing) -> float:
    """Return the 95th percentile Hausdorff distance in mm; nan when both masks are empty, inf when one is.

    Parameters
    ----------
    prediction, reference : array
        Masks of two or three axes on one grid.
    spacing_mm : tuple of float
        Voxel spacing along each axis.

    References
    ----------
    nikolov2021

    Examples
    --------
    >>> hd95([[1, 0, 0, 0]], [[0, 0, 0, 1]], (1.0, 0.5))
    1.5
    """
    return of_masks(METRICS["hd95"], prediction, reference, spacing_mm)
