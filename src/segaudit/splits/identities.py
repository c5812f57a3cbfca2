"""What every split rests on: checked case and patient ids, one level a patient, a keyed order, digests."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat

import pandas as pd

from segaudit.attributes import listing
from segaudit.errors import Finding, counted
from segaudit.errors import Level as Severity

ALL = "(all)"
MISSING = "(missing)"
POOLED = "(pooled)"
STRATUM = "(stratum)"
CASES_TABLE = "cases table"

Level = str | None


def listed(values: Iterable[str]) -> str:
    """Return the first values in order, quoted, and how many more there are."""
    return listing(f"'{value}'" for value in sorted(values))


def faults_of(
    names: Collection[str], code: str, noun: str, fact: str, where: str, fix: str, level: Severity = "error"
) -> list[Finding]:
    """Return a finding that counts and names the cases or patients of a fault, if there are any."""
    if not names:
        return []
    whose = counted(len(names), f"{noun} is", f"{noun}s are")
    return [Finding(code, f"{whose} {fact}: {listed(names)}.", where, fix, level)]


def case_faults(cases: pd.DataFrame, where: str = CASES_TABLE) -> list[Finding]:
    """Return what keeps a table of cases from being split: one finding a kind of fault.

    Codes: COLUMN_MISSING, CASES_EMPTY, CASE_NULL, PATIENT_NULL, ID_NOT_TEXT, CASE_DUPLICATED, CASE_TWO_PATIENTS.
    """
    faults = column_faults(cases, ("case", "patient"), where)
    if faults:
        return faults
    if not len(cases):
        return [Finding("CASES_EMPTY", "there are no cases.", where, "check the filters before this step.")]
    for name in ("case", "patient"):
        faults += _id_faults(cases[name], name, where)
    first: dict[str, str] = {}
    torn: set[str] = set()
    again: set[str] = set()
    for case, patient in zip(cases["case"].tolist(), cases["patient"].tolist(), strict=True):
        if isinstance(case, str) and isinstance(patient, str):
            if case in first:
                (again if first[case] == patient else torn).add(case)
            else:
                first[case] = patient
    place, fix = f"{where}, column patient", "mend the patient of the case."
    faults += faults_of(torn, "CASE_TWO_PATIENTS", "case", "of two patients", place, fix)
    place, fix = f"{where}, column case", "keep one row a case."
    return faults + faults_of(again - torn, "CASE_DUPLICATED", "case", "in more than one row", place, fix)


def _id_faults(ids: pd.Series, name: str, where: str) -> list[Finding]:
    faults = []
    values = ids.tolist()
    rows = [row for row, value in enumerate(values, start=1) if pd.isna(value) or value == ""]
    numbers = {str(value) for value in values if not pd.isna(value) and not isinstance(value, str)}
    place = f"{where}, column {name}"
    if rows:
        fact = f"{counted(len(rows), 'row has', 'rows have')} no {name}: row {listing(rows)}."
        faults.append(Finding(f"{name.upper()}_NULL", fact, place, f"give each row its {name}, or exclude it."))
    fix = "read the column as text, so that 007 stays 007."
    return faults + faults_of(numbers, "ID_NOT_TEXT", f"{name} id", "not text", place, fix)


def column_faults(table: pd.DataFrame, columns: Iterable[str], where: str = CASES_TABLE) -> list[Finding]:
    """Return a COLUMN_MISSING finding for each column that the table lacks."""
    known = ", ".join(map(str, table.columns)) or "none"
    return [
        Finding("COLUMN_MISSING", f"there is no column '{name}'.", where, f"columns: {known}.")
        for name in columns
        if name not in table.columns
    ]


def stranger_faults(splits: pd.DataFrame, cases: pd.DataFrame) -> list[Finding]:
    """Return SPLIT_CASE_UNKNOWN when a split has cases that the cases table lacks."""
    absent = set(splits["case"].tolist()) - set(cases["case"].tolist())
    where, fix = "splits table, column case", "give the table that the split was made from."
    return faults_of(absent, "SPLIT_CASE_UNKNOWN", "case", "in the split and not in the cases table", where, fix)


def levels(column: pd.Series) -> list[Level]:
    """Return a column's values as text, None where there is none (null, or an empty text)."""
    codes, values = pd.factorize(column)  # few levels, many rows: each level is one text
    texts = [*(str(value) or None for value in values.tolist()), None]
    return [texts[code] for code in codes.tolist()]


def by_case(table: pd.DataFrame, columns: Sequence[str]) -> dict[str, tuple[Level, ...]]:
    """Return the levels of the columns for each case, in sorted case order."""
    cases = table["case"].tolist()
    shared: dict[tuple[Level, ...], tuple[Level, ...]] = {}
    own = zip(*(levels(table[name]) for name in columns), strict=True) if columns else repeat((), len(cases))
    found = {case: shared.setdefault(row, row) for case, row in zip(cases, own, strict=True)}
    return {case: found[case] for case in sorted(found)}


def first_known(
    patient_of: Mapping[str, str], levels_of: Mapping[str, tuple[Level, ...]]
) -> dict[str, tuple[Level, ...]]:
    """Return each patient's levels: of each attribute that of the first case, in sorted order, which has one."""
    known: dict[str, tuple[Level, ...]] = {}
    for case in sorted(patient_of):
        patient, own = patient_of[case], levels_of[case]
        earlier = known.get(patient)
        known[patient] = (
            own if earlier is None else tuple(a if a is not None else b for a, b in zip(earlier, own, strict=True))
        )
    return known


def patients_of(cases: pd.DataFrame) -> dict[str, str]:
    """Return the patient of each case."""
    return dict(zip(cases["case"].tolist(), cases["patient"].tolist(), strict=True))


def keyed_order(ids: Collection[str], seed: int, purpose: str) -> list[str]:
    """Return ids in the order of SHA-256 over purpose, seed and id: the same on every machine, for ever."""
    prefix = f"{purpose}\0{seed}\0".encode()
    return sorted(ids, key=lambda name: (hashlib.sha256(prefix + name.encode("utf-8", "surrogatepass")).digest(), name))


def digest(rows: Iterable[Sequence[str]]) -> str:
    """Return the SHA-256 of sorted rows, fields joined by a null character and rows by a line feed."""
    lines = sorted("\0".join(row) for row in rows)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
