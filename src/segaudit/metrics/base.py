"""The metric card: what stands of a metric beside its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from segaudit.registry import Registry

Mask = NDArray[np.bool_]
LabelArray = NDArray[np.integer[Any]] | NDArray[np.bool_]
Spacing = tuple[float, ...]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Measured:
    """What one reading of a prediction and a reference says of one label of one case.

    Attributes
    ----------
    counts : Counts
        Voxels, on the full image.
    voxel_mm3 : float
        Volume of a voxel in mm3 (of a 2-D image: area of a pixel in mm2).
    hd95 : float or None
        In mm; nan with both masks empty, inf with one empty, None where boundaries were not asked for.
    components_prediction, components_reference : int or None
        Connected pieces of each mask; None where they were not asked for.
    others : mapping of str to float
        Values of the metrics that have a function of two masks only, by name; absent where a mask is empty.
    """

    counts: Counts
    voxel_mm3: float
    hd95: float | None = None
    components_prediction: int | None = None
    components_reference: int | None = None
    others: Mapping[str, float] = field(default_factory=dict)

    @property
    def volume_prediction_mm3(self) -> float:
        """Volume of the prediction in mm3."""
        return self.counts.prediction * self.voxel_mm3

    @property
    def volume_reference_mm3(self) -> float:
        """Volume of the reference in mm3."""
        return self.counts.reference * self.voxel_mm3


@dataclass(frozen=True, slots=True)
class Empty:
    """What a metric gives when a mask is empty: a number, inf, or nan for undefined."""

    both: float
    prediction: float
    reference: float


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric card. Exactly one of `from_counts`, `from_measured` and `fn` says how the value is found.

    Attributes
    ----------
    name, title, unit : str
    better : {"higher", "lower", "neither"}
        `neither` marks a descriptive quantity (a count, a volume), which is never tested or given a success rate.
    bounds : (float, float)
    symmetric : bool
        Whether prediction and reference may be exchanged.
    empty : Empty or None
        None marks a quantity that is defined, and found as always, when a mask is empty.
    source : str
        Key in docs/references.bib.
    from_counts : callable or None
        (Counts, load) -> float for two masks that are not empty, when counts suffice; `load` is the mean share of
        reference voxels over the evaluated cases of that label and ruler (used by nDSC alone).
    from_measured : callable or None
        Measured -> float or None, for what is found in the one pass over a case.
    fn : callable or None
        (prediction, reference, spacing_mm) -> float for two masks that are not empty.
    """

    name: str
    title: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    bounds: tuple[float, float]
    symmetric: bool
    empty: Empty | None
    source: str
    fn: Callable[[Mask, Mask, Spacing], float] | None = None
    from_counts: Callable[[Counts, float], float] | None = None
    from_measured: Callable[[Measured], float | None] | None = None

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
