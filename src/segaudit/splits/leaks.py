"""Who, or what image, is on two sides: patients shared by named sets, equal content across parts, faults of a split."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations

import pandas as pd

from segaudit.errors import Finding, counted, raise_errors
from segaudit.splits.identities import case_faults, column_faults, faults_of, patients_of
from segaudit.splits.schemas import DUPLICATES, LEAKS

_SPLITS = "splits table"


def leak(sets: Mapping[str, Collection[str]]) -> pd.DataFrame:
    """Return the patients that each two of the named sets share: one row a pair, also where none is shared.

    Parameters
    ----------
    sets : mapping of str to collection of str
        Patients by name: parts of a split, folds, the patients that a model or a ruler was trained on.
    """
    rows = []
    for left, right in combinations(sets, 2):
        shared = set(sets[left]) & set(sets[right])
        rows.append(
            {
                "left": left,
                "right": right,
                "n_left": len(set(sets[left])),
                "n_right": len(set(sets[right])),
                "n_shared": len(shared),
                "examples": ", ".join(sorted(shared)[:5]),
            }
        )
    return LEAKS.frame(rows)


def patients_by_part(table: pd.DataFrame, part: str = "split") -> dict[str, frozenset[str]]:
    """Return the patients of each part of a splits table, or of each fold of a folds table (`part="fold"`)."""
    return {str(name): frozenset(group["patient"].tolist()) for name, group in table.groupby(part)}


def duplicates(digests: Mapping[str, str], splits: pd.DataFrame) -> pd.DataFrame:
    """Return contents that stand in more than one part: one row a digest.

    Parameters
    ----------
    digests : mapping of str to str
        Digest of the content (image or mask) of a case. Cases without one are not compared.
    splits : DataFrame
        case, patient, split.

    Notes
    -----
    Only equal content is found: a re-saved, cropped or resampled copy has another digest.
    """
    held: dict[str, list[tuple[str, str, str]]] = {}
    rows = zip(splits["case"].tolist(), splits["patient"].tolist(), splits["split"].tolist(), strict=True)
    for case, patient, part in rows:
        if case in digests:
            held.setdefault(digests[case], []).append((case, patient, part))
    return DUPLICATES.frame(
        {
            "digest": digest,
            "n_cases": len(members),
            "n_patients": len({patient for _, patient, _ in members}),
            "splits": ", ".join(sorted({part for _, _, part in members})),
            "cases": ", ".join(sorted(case for case, _, _ in members)[:5]),
        }
        for digest, members in sorted(held.items())
        if len({part for _, _, part in members}) > 1
    )


def check_split(splits: pd.DataFrame, cases: pd.DataFrame, *, where: str = _SPLITS) -> list[Finding]:
    """Return what is wrong with a split that somebody made; empty when nothing is.

    Parameters
    ----------
    splits : DataFrame
        case and split; patient too where the table has it.
    cases : DataFrame
        case and patient of the cohort, which says whose a case is.
    where : str
        Named in each finding, such as the path of the file.

    Returns
    -------
    list of Finding
        Errors SPLIT_PATIENT_LEAK, SPLIT_CASE_TWICE, SPLIT_CASE_UNKNOWN, SPLIT_PATIENT_DIFFERS, SPLIT_NULL,
        COLUMN_MISSING; warning SPLIT_CASE_ABSENT.

    Raises
    ------
    AuditError
        The codes of `assign` on cases.
    """
    raise_errors(case_faults(cases))
    found = column_faults(splits, ("case", "split"), where)
    if found:
        return found
    patient_of = patients_of(cases)
    whole = splits[splits["case"].notna() & splits["split"].notna()]
    if len(whole) < len(splits):
        fact = f"{counted(len(splits) - len(whole), 'row has', 'rows have')} no case or no split."
        found.append(Finding("SPLIT_NULL", fact, where, "fill them, or remove the rows."))
    rows = list(zip(whole["case"].tolist(), map(str, whole["split"].tolist()), strict=True))
    found += _across_parts(rows, patient_of, where)
    if "patient" in whole.columns:
        given = zip(whole["case"].tolist(), whole["patient"].tolist(), strict=True)
        other = {case for case, patient in given if case in patient_of and patient_of[case] != patient}
        fix = "take the patients of the cases table."
        fact = "of another patient than in the cases table"
        found += faults_of(other, "SPLIT_PATIENT_DIFFERS", "case", fact, where, fix)
    named = {case for case, _ in rows}
    fix = "remove them, or mend the names."
    found += faults_of(named - set(patient_of), "SPLIT_CASE_UNKNOWN", "case", "not in the cohort", where, fix)
    absent = set(patient_of) - named
    fix = "put them in a part, or exclude them with a reason."
    return found + faults_of(absent, "SPLIT_CASE_ABSENT", "case", "in no part", where, fix, "warning")


def _across_parts(rows: list[tuple[str, str]], patient_of: Mapping[str, str], where: str) -> list[Finding]:
    parts_of_case: dict[str, list[str]] = {}
    parts_of_patient: dict[str, set[str]] = {}
    for case, part in rows:
        parts_of_case.setdefault(case, []).append(part)
        if case in patient_of:
            parts_of_patient.setdefault(patient_of[case], set()).add(part)
    torn = {patient for patient, parts in parts_of_patient.items() if len(parts) > 1}
    twice = {case for case, parts in parts_of_case.items() if len(parts) > 1}
    fix = "make the split by patient; scores across these parts are too good."
    found = faults_of(torn, "SPLIT_PATIENT_LEAK", "patient", "in more than one part", where, fix)
    fix = "list each case once."
    return found + faults_of(twice, "SPLIT_CASE_TWICE", "case", "in more than one row", where, fix)
