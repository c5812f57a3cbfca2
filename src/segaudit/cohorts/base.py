"""Cohort and MaskSet: who was examined, what is known of them, and whose outlines there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pandas as pd

from segaudit.attributes import TOP_CODED, Attribute, listing
from segaudit.errors import Finding, counted

Kind = Literal["expert", "expert-revised machine draft", "consensus", "machine", "unknown"]
Labels = Mapping[str, tuple[int, ...]]

_LEVELS = ("error", "warning", "note")


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

    def kinds(self) -> str:
        """Return the kinds of the masks, the most frequent first, with their numbers where there are several."""
        counts = Counter(self.masks.get("kind", pd.Series(dtype="str"))).most_common()
        return ", ".join(f"{kind} {n}" for kind, n in counts) if len(counts) > 1 else self.kind


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
    models, rulers : tuple of str
        Mask sets in either role, as far as declared.
    images : mapping of case to path
        Images that outlines may be drawn on.
    files : tuple of Path
        Tables and documents that it was read from; masks are not among them.
    """

    name: str
    cases: pd.DataFrame
    labels: Labels = field(default_factory=dict)
    mask_sets: Mapping[str, MaskSet] = field(default_factory=dict)
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    excluded: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["case", "rule", "reason"]))
    missing: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["case", "attribute", "raw", "reason"]))
    findings: tuple[Finding, ...] = ()
    models: tuple[str, ...] = ()
    rulers: tuple[str, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()

    def check(self) -> list[Finding]:
        """Return every finding on the cohort, errors first: those of its reading, and what its tables show."""
        found = dict.fromkeys([*self.findings, *self._faults(), *self._gaps()])
        return sorted(found, key=lambda finding: _LEVELS.index(finding.level))

    def _faults(self) -> Iterator[Finding]:
        doubled = self.cases["case"][self.cases["case"].duplicated()].unique()
        if len(doubled):
            fact = f"{counted(len(doubled), 'case stands', 'cases stand')} in the cohort twice ({listing(doubled)})."
            yield Finding("CASE_DOUBLED", fact, f"cohort '{self.name}'", "keep one row a case.")
        nobody = self.cases.loc[self.cases["patient"].isna(), "case"]
        if len(nobody):
            fact = f"{counted(len(nobody), 'case has', 'cases have')} no patient ({listing(nobody)})."
            yield Finding("PATIENT_BLANK", fact, f"cohort '{self.name}'", "name the patient of each case.")
        for name, mask_set in self.mask_sets.items():
            twice = mask_set.masks["case"][mask_set.masks["case"].duplicated()].unique()
            if len(twice):
                fact = f"{counted(len(twice), 'case has', 'cases have')} two masks ({listing(twice)})."
                yield Finding("MASK_DOUBLED", fact, f"mask set '{name}'", "keep one mask a case.")

    def _gaps(self) -> Iterator[Finding]:
        for name, mask_set in self.mask_sets.items():
            lacking = sorted(set(self.cases["case"]) - set(mask_set.masks["case"]))
            if lacking:
                fact = f"{len(lacking)} of {len(self.cases)} cases have no mask ({listing(lacking)})."
                fix = "add the masks, or exclude the cases with a reason; a missing prediction counts as a failure."
                yield Finding("MASKS_MISSING", fact, f"mask set '{name}'", fix, "warning")
        if self.mask_sets and not self.labels:
            fix = "name the structures: [labels] or labels_from in cohort.toml."
            yield Finding("LABELS_MISSING", "no label is named.", f"cohort '{self.name}'", fix, "warning")

    def __str__(self) -> str:
        n_cases = len(self.cases)
        patients = counted(self.cases["patient"].nunique(), "patient")
        lines = [f"cohort '{self.name}': {counted(n_cases, 'case')} of {patients}"]
        rows = {
            "labels": [f"{name} {'+'.join(map(str, values))}" for name, values in self.labels.items()],
            "attributes": [self._attribute_line(attribute) for attribute in self.attributes.values()],
            "mask sets": [
                f"{name} ({one.kinds()}) {self.cases['case'].isin(one.masks['case']).sum():,} of {n_cases:,} cases"
                for name, one in self.mask_sets.items()
            ],
            "excluded": [f"{rule} {count}" for rule, count in Counter(self.excluded["rule"]).items()],
            "findings": [
                f"{count} {level}{'s' * (count > 1)}"
                for level, count in sorted(Counter(f.level for f in self.check()).items())
            ],
        }
        lines += [f"  {title + ':':<12}{listing(items, 12)}" for title, items in rows.items() if items]
        return "\n".join(lines)

    def _attribute_line(self, attribute: Attribute) -> str:
        reasons = Counter(self.missing.loc[self.missing["attribute"] == attribute.name, "reason"])
        top = reasons.pop(TOP_CODED, 0)
        facts = [f"{reasons.total()} missing"] if reasons else []
        facts += [f"{top} top-coded"] if top else []
        return attribute.name + (f" ({', '.join(facts)})" if facts else "")
