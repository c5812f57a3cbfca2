"""Cohort and MaskSet: who was examined, what is known of them, and whose outlines there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from segaudit.errors import Finding

Kind = Literal["expert", "expert-revised machine draft", "consensus", "machine", "unknown"]
Labels = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class MaskSet:
    """Outlines of one maker for the cases of a cohort; a model and a ruler are roles of it.

    Attributes
    ----------
    name : str
    masks : DataFrame
        One row a case: case, path, kind.
    kind : str
        expert, expert-revised machine draft, consensus, machine or unknown; a row of `masks` may differ.
    made_by : str
        Who or what drew them.
    trained_on : frozenset of str or None
        Patients that a machine maker was trained on; None when not known.
    labels : mapping of str to tuple of int, or None
        Own coding of the cohort's labels; None when it is the cohort's.
    ignore : int or None
        Value of voxels that count neither way.
    """

    name: str
    masks: pd.DataFrame
    kind: Kind = "unknown"
    made_by: str = ""
    trained_on: frozenset[str] | None = None
    labels: Labels | None = None
    ignore: int | None = None


@dataclass(frozen=True)
class Attribute:
    """What is known of a patient or of a case: where it was read and how.

    Attributes
    ----------
    name : str
    kind : {"level", "number", "age"}
        An age may be top-coded: then `<name>_top_coded` is true and the value is its lower bound in years.
    of : {"patient", "case"}
    column : str
        Column of the participants table.
    """

    name: str
    kind: Literal["level", "number", "age"]
    of: Literal["patient", "case"]
    column: str


@dataclass(frozen=True)
class Cohort:
    """Cases with their patients and attributes, labels, mask sets and exclusions.

    Attributes
    ----------
    name : str
    cases : DataFrame
        case, patient, then one column an attribute (text or float64, null where missing) and for an age
        `<name>_top_coded` (bool). Sorted by case.
    labels : mapping of str to tuple of int
    mask_sets : mapping of str to MaskSet
    attributes : mapping of str to Attribute
    excluded : DataFrame
        case, rule, reason.
    missing : DataFrame
        case, attribute, raw, reason: one row a missing or top-coded attribute.
    findings : tuple of Finding
    """

    name: str
    cases: pd.DataFrame
    labels: Labels = field(default_factory=dict)
    mask_sets: Mapping[str, MaskSet] = field(default_factory=dict)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    excluded: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["case", "rule", "reason"]))
    missing: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["case", "attribute", "raw", "reason"]))
    findings: tuple[Finding, ...] = ()
