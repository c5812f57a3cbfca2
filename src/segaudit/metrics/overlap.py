"""Overlap of two masks, from the voxel counts of the full image."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from segaudit.metrics.base import METRICS, Counts, Empty, Metric

_ZERO_UNLESS_BOTH = Empty(both=math.nan, prediction=0.0, reference=0.0)


def effective_load(counts: Iterable[Counts]) -> float:
    """Return the mean share of reference voxels over the given cases: the load r of nDSC.

    Parameters
    ----------
    counts : iterable of Counts
        One for each evaluated case of one label under one ruler; a case with an empty reference counts with share 0.

    Returns
    -------
    float
        Between 0 and 1; nan without any case.

    References
    ----------
    raina2023
    """
    shares = [case.reference / case.total for case in counts if case.total]
    return math.fsum(shares) / len(shares) if shares else math.nan


def _dice(counts: Counts, _load: float) -> float:
    return 2 * counts.tp / (counts.prediction + counts.reference)


def _ndsc(counts: Counts, load: float) -> float:
    """2 TP / (kappa FP + 2 TP + FN) with kappa = (1 - r) |R| / (r (N - |R|)); without an FP kappa plays no part."""
    false_positives = 0.0
    if counts.fp:
        if not 0 < load <= 1:
            raise ValueError(f"the load of nDSC must lie in (0, 1], not {load}")
        kappa = (1 - load) * counts.reference / (load * (counts.total - counts.reference))
        false_positives = kappa * counts.fp
    return 2 * counts.tp / (false_positives + 2 * counts.tp + counts.fn)


def _iou(counts: Counts, _load: float) -> float:
    return counts.tp / (counts.tp + counts.fp + counts.fn)


def _precision(counts: Counts, _load: float) -> float:
    return counts.tp / counts.prediction


def _sensitivity(counts: Counts, _load: float) -> float:
    return counts.tp / counts.reference


def _overlap(
    name: str, title: str, source: str, empty: Empty, function: Callable[[Counts, float], float], *, symmetric: bool
) -> None:
    METRICS.register(Metric(name, title, "1", "higher", (0, 1), symmetric, empty, source, from_counts=function))


_overlap("dice", "Dice", "dice1945", _ZERO_UNLESS_BOTH, _dice, symmetric=True)
_overlap("ndsc", "normalised Dice", "raina2023", _ZERO_UNLESS_BOTH, _ndsc, symmetric=False)
_overlap("iou", "Jaccard index", "jaccard1912", _ZERO_UNLESS_BOTH, _iou, symmetric=True)
_overlap("precision", "precision", "taha2015", Empty(math.nan, math.nan, 0.0), _precision, symmetric=False)
_overlap("sensitivity", "sensitivity", "taha2015", Empty(math.nan, 0.0, math.nan), _sensitivity, symmetric=False)


def _count(name: str, title: str, *, symmetric: bool) -> None:
    def read(counts: Counts, _load: float) -> float:
        return float(getattr(counts, name))

    METRICS.register(
        Metric(name, title, "voxel", "neither", (0, math.inf), symmetric, None, "taha2015", from_counts=read)
    )


_count("tp", "true positives", symmetric=True)
_count("fp", "false positives", symmetric=False)
_count("fn", "false negatives", symmetric=False)
_count("tn", "true negatives", symmetric=True)
