"""Scores from nnU-Net's summary.json: Dice, nDSC and volumes follow from its counts; no image is read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.files import read_file
from segaudit.metrics import METRICS, Counts, Measured
from segaudit.scores.base import Scores
from segaudit.scores.finish import Entry, finish

_COUNTS = ("TP", "FP", "FN", "TN")
MAX_SUMMARY_BYTES = 128 << 20
_SUFFIXES = (".nii.gz", ".nii", ".png", ".mha", ".nrrd", ".tif")


def read_summary(path: Path, *, ruler: str = "reference", model: str = "model") -> Scores:
    """Return the scores of an nnU-Net summary.json.

    Parameters
    ----------
    path : Path
    ruler, model : str
        Names for the reference and the prediction that nnU-Net compared.

    Returns
    -------
    Scores
        dice, ndsc, counts and voxel volumes; hd95, mm³ and components cannot be had from counts and are left out.

    Raises
    ------
    AuditError
        SUMMARY_MALFORMED with each case and key that is not as nnU-Net writes it; SUMMARY_TWICE for a repeated case.
    """
    data = _load(path)
    cases = data.get("metric_per_case") if isinstance(data, dict) else None
    if not isinstance(cases, list) or not cases:
        fact = f"{path} has no list 'metric_per_case'."
        raise AuditError(Finding("SUMMARY_MALFORMED", fact, str(path), "give the summary.json that nnU-Net v2 writes."))
    entries: list[Entry] = []
    findings: list[Finding] = []
    seen: set[str] = set()
    for i, item in enumerate(cases):
        where = f"{path}, metric_per_case[{i}]"
        try:
            case = _case_name(str(item["prediction_file"]))
            found = [(_label_name(label), _measured(values)) for label, values in item["metrics"].items()]
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            fact = f"case {i} lacks or garbles {error}."
            findings.append(
                Finding("SUMMARY_MALFORMED", fact, where, f"each label needs whole numbers {', '.join(_COUNTS)}.")
            )
            continue
        if case in seen:
            findings.append(Finding("SUMMARY_TWICE", f"case '{case}' occurs twice.", where, "remove one."))
        seen.add(case)
        entries += [(case, model, ruler, label, measured) for label, measured in found]
    raise_errors(findings)
    table, loads = finish(entries, {case: case for case in seen}, _metrics_of_counts())
    return Scores(table, loads, (path,))


def _load(path: Path) -> Any:
    raw = read_file(path, MAX_SUMMARY_BYTES, what="SUMMARY", fix="give the summary.json of one evaluation.")
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        fact = f"{path} is no valid JSON: {error}."
        raise AuditError(Finding("SUMMARY_MALFORMED", fact, str(path), "give an unbroken file.")) from None


def _measured(values: dict[str, Any]) -> Measured:
    counts = [int(values[name]) for name in _COUNTS]
    if any(n < 0 or n != float(values[name]) for n, name in zip(counts, _COUNTS, strict=True)):
        raise ValueError("a count that is no whole number")
    return Measured(Counts(*counts), voxel_mm3=math.nan)


def _metrics_of_counts() -> list[str]:
    return [card.name for card in METRICS if card.from_counts is not None or card.unit == "voxel"]


def _case_name(file: str) -> str:
    name = _checked(file).replace("\\", "/").rsplit("/", 1)[-1]
    return next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)


def _label_name(label: str) -> str:
    """Return nnU-Net's key of a label or region (`1`, `(1, 2)`) as a name without blanks."""
    return _checked(label).strip("()").replace(", ", "+").replace(",", "+").strip("+")


def _checked(name: str) -> str:
    name.encode()  # half of a surrogate pair, which JSON can write, is no text: ValueError
    return name
