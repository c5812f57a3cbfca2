"""The metric card: what stands of a metric beside its function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from segaudit.registry import Registry

Mask = NDArray[np.bool_]
Spacing = tuple[float, ...]


@dataclass(frozen=True)
class Counts:
    """Voxel counts of one label of one case: true and false, positive and negative."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def total(self) -> int:
        """Voxels of the full image that count (ignored ones left out)."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def prediction(self) -> int:
        """Voxels of the prediction."""
        return self.tp + self.fp

    @property
    def reference(self) -> int:
        """Voxels of the reference."""
        return self.tp + self.fn


@dataclass(frozen=True)
class Empty:
    """What a metric gives when a mask is empty: a number, inf, or nan for undefined."""

    both: float
    prediction: float
    reference: float


@dataclass(frozen=True)
class Metric:
    """A metric card.

    Attributes
    ----------
    name, title, unit : str
    better : {"higher", "lower", "neither"}
        `neither` marks a descriptive quantity (a count, a volume), which is never tested or given a success rate.
    bounds : (float, float)
    symmetric : bool
        Whether prediction and reference may be exchanged.
    empty : Empty
    source : str
        Key in docs/references.bib.
    fn : callable or None
        (prediction, reference, spacing_mm) -> float for two masks that are not empty.
    from_counts : callable or None
        (Counts, load) -> float for the same, when counts suffice; `load` is the mean share of reference voxels
        over the evaluated cases of that label and ruler (used by nDSC alone).
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    bounds: tuple[float, float]
    symmetric: bool
    empty: Empty
    source: str
    fn: Callable[[Mask, Mask, Spacing], float] | None = None
    from_counts: Callable[[Counts, float], float] | None = None

    @property
    def best(self) -> float:
        """The value of perfect agreement."""
        return self.bounds[1] if self.better == "higher" else self.bounds[0]

    @property
    def worst(self) -> float:
        """The value of the worst disagreement (may be infinite)."""
        return self.bounds[0] if self.better == "higher" else self.bounds[1]

    def succeeds(self, values: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
        """Return which values lie strictly beyond the threshold (NaN never does)."""
        return values > threshold if self.better == "higher" else values < threshold


METRICS: Registry[Metric] = Registry("metric")
