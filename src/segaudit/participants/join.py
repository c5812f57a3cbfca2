"""Join participants to cases by key; whatever finds no partner is counted."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from segaudit.attributes import NO_ROW, TOP_CODED, listing
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.participants.base import AttributeValues, Participants

IMAGE_SUFFIXES = (".nii.gz", ".nii", ".png", ".mha", ".nrrd", ".dcm", ".jpg", ".jpeg", ".tif", ".tiff")
MISSING_COLUMNS = ("case", "attribute", "raw", "reason")
_SHOWN_PATIENTS = 10
# What tables do to keys; said in the fix, never done.
_LOOSER: Mapping[str, Callable[[str], str]] = {
    "leading zeros": lambda key: key.lstrip("0"),
    "a trailing '.0'": lambda key: key.removesuffix(".0"),
    "upper and lower case": str.casefold,
    "a leading 'sub-'": lambda key: key.removeprefix("sub-"),
    "a channel suffix '_0000'": lambda key: re.sub(r"_\d{4}$", "", key),
}


class Joined(NamedTuple):
    """Cases with their patient and attributes; what is missing of them (case, attribute, raw, reason); findings."""

    cases: pd.DataFrame
    missing: pd.DataFrame
    findings: tuple[Finding, ...]


def stem(key: str) -> str:
    """Return a key as cases meet by it: without an image suffix, in one Unicode form."""
    name = unicodedata.normalize("NFC", key.strip())
    lower = name.lower()
    if not lower.endswith(IMAGE_SUFFIXES):
        return name
    suffix = next((suffix for suffix in IMAGE_SUFFIXES if lower.endswith(suffix) and len(lower) > len(suffix)), "")
    return name[: len(name) - len(suffix)]


def patients_by_rule(cases: Sequence[str], rule: str) -> dict[str, str]:
    """Return the patient of each case by a regular expression with one group, searched for in the case.

    Raises
    ------
    AuditError
        RULE_MALFORMED, or RULE_UNMATCHED with the cases that it does not fit.
    """
    fix = "write one group around the patient, such as ^(sub-[^_]+)."
    try:
        pattern = re.compile(rule)
    except re.error as error:
        fact = f"'{rule}' is no regular expression: {error}."
        raise AuditError(Finding("RULE_MALFORMED", fact, "case_to_patient", fix)) from None
    if pattern.groups != 1:
        fact = f"'{rule}' has {pattern.groups} groups."
        raise AuditError(Finding("RULE_MALFORMED", fact, "case_to_patient", fix))
    found = {case: match[1] or "" for case in cases if (match := pattern.search(case))}
    lost = [case for case in cases if not found.get(case)]
    if lost:
        fact = f"'{rule}' finds no patient in {len(lost)} of {len(cases)} cases ({listing(lost)})."
        raise AuditError(Finding("RULE_UNMATCHED", fact, "case_to_patient", "widen the rule, or exclude these cases."))
    return found


def join_participants(
    participants: Participants,
    cases: Sequence[str],
    patients: Mapping[str, str] | None = None,
    *,
    case_to_patient: str | None = None,
) -> Joined:
    """Return the cases with patient and attributes, what is missing, and findings; every case stays.

    Parameters
    ----------
    participants : Participants
    cases : sequence of str
        Names of the cases; an image suffix (.png, .nii.gz) does not count.
    patients : mapping of str to str, optional
        Patient of each case. The key then names the patient, unless more cases are found by their own name.
    case_to_patient : str, optional
        Regular expression whose one group is the patient in the name of a case: the key names the patient.

    Raises
    ------
    AuditError
        RULE_MALFORMED, RULE_UNMATCHED, CASE_DOUBLED, JOIN_EMPTY, PATIENT_CONFLICT, ATTRIBUTE_VARIES.
    """
    cases = sorted(dict.fromkeys(cases))
    if case_to_patient is not None:
        patients = patients_by_rule(cases, case_to_patient)
    rows, notes = _rows(participants, cases, patients, always_by_patient=case_to_patient is not None)
    names, patient_notes = _patient_of(participants, cases, rows, patients)
    notes += patient_notes
    table: dict[str, object] = {"case": cases, "patient": names}
    missing: list[tuple[str, str, str, str]] = []
    for name, attribute in participants.attributes.items():
        values = participants.attribute(name)
        if attribute.of == "patient":
            notes += _varying(values, cases, names, rows, str(participants.sheet.path))
        gaps = _gaps(values, cases, rows)
        missing += gaps
        table |= _columns(values, rows)
        if participants.is_asked_for(name):
            notes += [*values.findings, *_gap_notes(name, gaps, len(cases), str(participants.sheet.path))]
    raise_errors(notes)
    return Joined(
        pd.DataFrame(table), pd.DataFrame(missing, columns=list(MISSING_COLUMNS)), (*participants.findings, *notes)
    )


def _rows(
    participants: Participants, cases: Sequence[str], patients: Mapping[str, str] | None, *, always_by_patient: bool
) -> tuple[list[int | None], list[Finding]]:
    """Return the row of each case, and what did not meet."""
    where = str(participants.sheet.path)
    named = patients or {}
    stems = {name: stem(name) for name in {*participants.keys, *cases, *named.values(), ""}}
    by_key: dict[str, int] = {}
    for position, key in enumerate(participants.keys):
        if (first := by_key.setdefault(stems[key], position)) != position:
            fact = f"keys '{participants.keys[first]}' and '{key}' name the same case."
            raise AuditError(Finding("KEY_DOUBLED", fact, where, "keep one of the two rows."))
    asked = {case: stems[case] for case in cases}
    by_patient = {case: stems[named.get(case, "")] for case in cases}
    unit = "case"
    if always_by_patient or (patients and _met(by_patient, by_key) > _met(asked, by_key)):
        asked, unit = by_patient, "patient"
    rows = [by_key.get(asked[case]) for case in cases]
    notes = (
        []
        if unit == "case"
        else [Finding("KEY_IS_PATIENT", "the key names the patient of a case.", where, level="note")]
    )
    suffixed = [key for key in participants.keys if stems[key] != key.strip()]
    if suffixed and _met(asked, by_key):
        fact = f"{len(suffixed)} keys have an image suffix ({listing(suffixed, 2)}); cases meet them without it."
        notes.append(Finding("KEY_SUFFIX", fact, where, level="note"))
    lost = [case for case, row in zip(cases, rows, strict=True) if row is None]
    notes += _unmet(lost, asked, by_key, where, unit)
    used = set(rows)
    surplus = [key for position, key in enumerate(participants.keys) if position not in used]
    if surplus:
        fact = f"{len(surplus)} of {len(participants.keys)} rows have no case ({listing(surplus)})."
        notes.append(Finding("ROWS_WITHOUT_CASE", fact, where, level="note"))
    return rows, notes


def _met(asked: Mapping[str, str], by_key: Mapping[str, int]) -> int:
    return sum(key in by_key for key in asked.values())


def _unmet(
    lost: Sequence[str], asked: Mapping[str, str], by_key: Mapping[str, int], where: str, unit: str
) -> list[Finding]:
    if not lost:
        return []
    wanted = [asked[case] for case in lost]
    looser = {
        what: sum(change(key) in known for key in wanted)
        for what, change in _LOOSER.items()
        if (known := {change(key) for key in by_key})
    }
    best = max(looser, key=lambda what: looser[what]) if looser else ""
    hint = f"{looser[best]} would meet but for {best}: write the keys alike. " if best and looser[best] else ""
    if len(lost) == len(asked):
        fact = f"none of {len(asked)} cases has a row: {listing(wanted, 3)} against the keys {listing(by_key, 3)}."
        fix = (
            f"{hint}Name the column that holds the {unit}, or a template of columns, as key; "
            "if it names the patient, give case_to_patient."
        )
        return [Finding("JOIN_EMPTY", fact, where, fix)]
    fact = f"{len(lost)} of {len(asked)} cases have no row ({listing(lost)}); their attributes are missing."
    fix = f"{hint}Add their rows, or exclude the cases with a reason."
    return [Finding("CASES_WITHOUT_ROW", fact, where, fix, "warning")]


def _patient_of(
    participants: Participants, cases: Sequence[str], rows: Sequence[int | None], patients: Mapping[str, str] | None
) -> tuple[list[str], list[Finding]]:
    """Return the patient of each case: as given with the cases, else as its row says, else the case itself."""
    where = str(participants.sheet.path)
    names, assumed, conflicts = [], [], []
    for case, row in zip(cases, rows, strict=True):
        stated = participants.patients[row] if participants.patients is not None and row is not None else None
        given = (patients or {}).get(case) or None
        if stated and given and stated != given and stem(stated) != stem(given):
            conflicts.append(f"{case}: '{given}' and '{stated}'")
        if not (stated or given) and not (row is not None and participants.key_names_patient):
            assumed.append(case)
        names.append(given or stated or case)
    if conflicts:
        torn = counted(len(conflicts), "case has", "cases have")
        fact = f"{torn} another patient in the table than with the cases ({listing(conflicts)})."
        return names, [Finding("PATIENT_CONFLICT", fact, where, "mend the one that is wrong.")]
    if assumed:
        fact = (
            f"no patient is named for {len(assumed)} of {len(cases)} cases ({listing(assumed, 3)}): each counts as one."
        )
        fix = "name the patient column; if a patient has one case, name the key column as patient."
        return names, [Finding("PATIENT_IS_CASE", fact, where, fix, "warning")]
    return names, []


def _columns(values: AttributeValues, rows: Sequence[int | None]) -> dict[str, object]:
    name, kind = values.attribute.name, values.attribute.kind
    picked = [None if row is None else values.values[row] for row in rows]
    if kind == "level":
        return {name: pd.Series(picked, dtype=object)}
    columns: dict[str, object] = {
        name: np.array([np.nan if value is None else value for value in picked], dtype=np.float64)
    }
    if kind == "age":
        columns[f"{name}_top_coded"] = np.array(
            [row is not None and values.top_coded[row] for row in rows], dtype=np.bool_
        )
    return columns


def _gaps(values: AttributeValues, cases: Sequence[str], rows: Sequence[int | None]) -> list[tuple[str, str, str, str]]:
    name = values.attribute.name
    return [
        (case, name, "", NO_ROW) if row is None else (case, name, values.raw[row], values.reasons[row])
        for case, row in zip(cases, rows, strict=True)
        if row is None or values.reasons[row]
    ]


def _gap_notes(name: str, gaps: Sequence[tuple[str, str, str, str]], n_cases: int, where: str) -> list[Finding]:
    counts = Counter(reason for *_, reason in gaps)
    top = counts.pop(TOP_CODED, 0)
    found = []
    if counts:
        why = ", ".join(f"{reason} {count}" for reason, count in sorted(counts.items()))
        fact = f"{name}: missing for {counts.total()} of {n_cases} cases ({why})."
        found.append(Finding("ATTRIBUTE_MISSING", fact, where, level="note"))
    if top:
        bounds = listing(sorted({raw.strip() for *_, raw, reason in gaps if reason == TOP_CODED}))
        fact = f"{name}: top-coded for {top} of {n_cases} cases ({bounds}); kept as lower bounds, for bins only."
        found.append(Finding("AGE_TOP_CODED", fact, where, level="note"))
    return found


def _varying(
    values: AttributeValues, cases: Sequence[str], patients: Sequence[str], rows: Sequence[int | None], where: str
) -> list[Finding]:
    """Return an error where a patient's cases differ in what is the patient's; a missing value says nothing."""
    seen: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for case, patient, row in zip(cases, patients, rows, strict=True):
        if row is not None and values.values[row] is not None:
            seen[patient].setdefault(str(values.values[row]), case)
    varying = {patient: found for patient, found in seen.items() if len(found) > 1}
    if not varying:
        return []
    name = values.attribute.name
    each = [
        f"{patient}: {' and '.join(f'{level!r} ({case})' for level, case in found.items())}"
        for patient, found in varying.items()
    ]
    fact = f"{name} differs between the cases of {counted(len(varying), 'patient')} ({listing(each, _SHOWN_PATIENTS)})."
    fix = f'mend the table; or, if {name} may change between exams, say of = "case".'
    return [Finding("ATTRIBUTE_VARIES", fact, f"{where}, column '{values.attribute.column}'", fix)]
