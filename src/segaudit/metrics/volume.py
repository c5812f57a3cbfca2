"""Size of each mask, and the number of pieces it falls into: described, never tested."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from segaudit.metrics.base import METRICS, Mask, Measured, Metric


def count_components(mask: Mask) -> int:
    """Return the number of connected pieces of a mask.

    Voxels that share a face, an edge or a corner belong together (26 neighbours in 3-D, 8 in 2-D).
    """
    from scipy import ndimage

    numbers = np.empty(mask.shape, np.int32)
    return int(ndimage.label(mask, np.ones((3,) * mask.ndim, bool), output=numbers))


def _describe(name: str, title: str, unit: str, source: str, read: Callable[[Measured], float | None]) -> None:
    METRICS.register(
        Metric(
            name, title, unit, "neither", (0, math.inf), symmetric=False, empty=None, source=source, from_measured=read
        )
    )


_describe("volume_prediction_mm3", "volume of the prediction", "mm3", "taha2015", lambda m: m.volume_prediction_mm3)
_describe("volume_reference_mm3", "volume of the reference", "mm3", "taha2015", lambda m: m.volume_reference_mm3)
_describe("voxels_prediction", "voxels of the prediction", "voxel", "taha2015", lambda m: float(m.counts.prediction))
_describe("voxels_reference", "voxels of the reference", "voxel", "taha2015", lambda m: float(m.counts.reference))
_describe("components_prediction", "pieces of the prediction", "1", "rosenfeld1966", lambda m: m.components_prediction)
_describe("components_reference", "pieces of the reference", "1", "rosenfeld1966", lambda m: m.components_reference)
