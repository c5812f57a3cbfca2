"""Metrics: title, unit, bounds and empty masks come from the cards; here stands what they are."""

from __future__ import annotations

import math

from segaudit.explain.base import Explanation
from segaudit.metrics import METRICS, Metric

# definition, formula, what it is not
_TOLD = {
    "dice": (
        "Overlap of prediction and reference: twice the shared voxels over the voxels of both.",
        "Dice = 2 TP / (2 TP + FP + FN)",
        "No distance: one voxel off costs a thin structure more than a large one, so groups differ with equal errors.",
    ),
    "ndsc": (
        "Dice with false positives weighted as if every case had one load r: the mean share of reference voxels.",
        "nDSC = 2 TP / (2 TP + k FP + FN)\nk = (1 - r) / r * n_reference / (n_total - n_reference)",
        "Not comparable between evaluations with other loads or other crops: n_total counts the whole image.",
    ),
    "hd95": (
        "The distance within which 95 % of the boundary area of each mask lies from the boundary of the other.",
        "max(h(A, B), h(B, A)),  h(A, B): smallest d with 95 % of the boundary of A within d of that of B",
        "No percentile over voxels and none interpolated: other programs differ. Silent on the farthest 5 %.",
    ),
    "iou": (
        "Shared voxels over the voxels of either mask.",
        "IoU = TP / (TP + FP + FN) = Dice / (2 - Dice)",
        "No second opinion beside Dice: it orders the cases alike.",
    ),
    "precision": (
        "Share of the predicted voxels that the reference has.",
        "precision = TP / (TP + FP)",
        "Silent on what the prediction misses.",
    ),
    "sensitivity": (
        "Share of the reference voxels that the prediction has (recall).",
        "sensitivity = TP / (TP + FN)",
        "Silent on false positives. What choices a verdict leans on is another thing: see leans_on.",
    ),
    "tp": ("Voxels in both masks.", "", "A count, never tested."),
    "fp": ("Voxels of the prediction alone.", "", "A count, never tested."),
    "fn": ("Voxels of the reference alone.", "", "A count, never tested."),
    "tn": ("Voxels in neither mask.", "", "A count, never tested; it grows with the field of view."),
}
_BETTER = {"higher": "Higher is better.", "lower": "Lower is better.", "neither": "It is described, never tested."}


def _reading(card: Metric) -> str:
    unit = "" if card.unit == "1" else f" {card.unit}"
    high = "infinity" if math.isinf(card.bounds[1]) else f"{card.bounds[1]:g}"
    told = [f"{_BETTER[card.better]} It lies between {card.bounds[0]:g} and {high}{unit}."]
    if card.empty is not None:
        given = {"both masks": card.empty.both, "the prediction": card.empty.prediction}
        given["the reference"] = card.empty.reference
        told.append("Empty masks: " + "; ".join(f"{which} empty: {_value(v)}" for which, v in given.items()) + ".")
    return " ".join(told)


def _value(value: float) -> str:
    return "undefined" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:g}"


def _explanation(card: Metric) -> Explanation:
    plain = (f"{card.title[:1].upper()}{card.title[1:]}, per structure.", "", "Not a score: it is never tested.")
    definition, formula, caution = _TOLD.get(card.name, plain)
    return Explanation(card.name, card.title, definition, formula, _reading(card), caution, (card.source,))


EXPLAINED = tuple(_explanation(card) for card in sorted(METRICS, key=lambda card: card.better == "neither"))
