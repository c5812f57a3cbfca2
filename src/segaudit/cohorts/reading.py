"""Make a cohort from its parts, and read cohort.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TypeVar

import pandas as pd

from segaudit.attributes import MISSING_CODES, Declaration, listing
from segaudit.cohorts.base import Cohort, Labels, MaskSet
from segaudit.cohorts.listed import read_listed
from segaudit.cohorts.masks import check_labels, discover_masks, read_labels
from segaudit.config import read_toml
from segaudit.config.cohort import CohortFile, LabelTable, MaskSetEntry
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.participants import Participants, join_participants, patients_by_rule, read_participants, stem
from segaudit.sheets import read_sheet
from segaudit.tables import EXCLUDED

NO_MASKS = "no_masks"
BY_HAND = "excluded by hand"

Exclusion = tuple[str, str, str]  # case, rule, reason
T = TypeVar("T")


def make_cohort(
    name: str,
    mask_sets: Iterable[MaskSet] = (),
    participants: Participants | None = None,
    *,
    patients: Mapping[str, str] | None = None,
    case_to_patient: str | None = None,
    labels: Labels | None = None,
    exclude: Sequence[Exclusion] = (),
    findings: Sequence[Finding] = (),
    rows_are_cases: bool = False,
) -> Cohort:
    """Return a cohort; every row, file and exclusion is in its cases or counted with a reason.

    Cases are the files of the mask sets, and without mask sets the rows of the participants table. A row whose key
    names a case that no mask set has is excluded under the rule `no_masks`; a file without a row stays, its attributes
    missing.

    Parameters
    ----------
    name : str
    mask_sets : iterable of MaskSet
    participants : Participants, optional
    patients : mapping of str to str, optional
        Patient of each case.
    case_to_patient : str, optional
        Regular expression whose one group is the patient in the name of a case; the key then names the patient.
    labels : mapping of str to tuple of int, optional
    exclude : sequence of (case, rule, reason)
    findings : sequence of Finding
        What was found while the parts were read.
    rows_are_cases : bool
        The rows of the table are the cases that stay, with or without a mask. An exclusion may then name a case without
        a row: it is left out already.

    Raises
    ------
    AuditError
        COHORT_EMPTY, CASES_NEEDED, and what `join_participants` raises.
    """
    sets = list(mask_sets)
    files = {case for mask_set in sets for case in mask_set.masks["case"]} if not rows_are_cases else set()
    by_case = participants is not None and case_to_patient is None and patients is None
    rows = {stem(key) for key in participants.keys} if participants is not None and by_case else set()
    if not (sets and not rows_are_cases) and not by_case:
        fix = "name a mask set, or a table whose key names the case."
        raise AuditError(Finding("CASES_NEEDED", "nothing names the cases.", f"cohort '{name}'", fix))
    written = participants.keys if participants is not None and rows_are_cases else files or rows
    known = {stem(case): case for case in written}
    out, notes = _exclusions(exclude, known.keys() | rows, name, rows_are_cases=rows_are_cases)
    excluded_cases = {stem(case) for case, *_ in out}
    kept = sorted(case for key, case in known.items() if key not in excluded_cases)
    if sets:
        idle = sorted(rows - known.keys() - excluded_cases)
        out += [(case, NO_MASKS, "no mask set has a file for it") for case in idle]
    if not kept:
        fact = f"no case is left: {len(known)} were found, and all are excluded."
        raise AuditError(Finding("COHORT_EMPTY", fact, f"cohort '{name}'", "exclude fewer cases."))
    if participants is not None:
        joined = join_participants(participants, kept, patients, case_to_patient=case_to_patient)
        cases, missing, attributes = joined.cases, joined.missing, participants.attributes
        notes = [*notes, *joined.findings]
    else:
        cases, patient_notes = _without_table(kept, patients, case_to_patient, name)
        missing, attributes = pd.DataFrame(columns=["case", "attribute", "raw", "reason"]), {}
        notes = [*notes, *patient_notes]
    excluded = EXCLUDED.frame(pd.DataFrame(out, columns=EXCLUDED.names()))
    cohort = Cohort(name, cases, labels or {}, {}, attributes, excluded, missing, (*findings, *notes))
    return with_mask_sets(cohort, sets)


def with_mask_sets(cohort: Cohort, mask_sets: Iterable[MaskSet]) -> Cohort:
    """Return the cohort with these mask sets for its cases; masks of no case are counted in a finding."""
    inside, sets, notes = {stem(case): case for case in cohort.cases["case"]}, {}, []
    known = inside.keys() | set(cohort.excluded["case"].map(stem))
    for mask_set in mask_sets:
        stems = mask_set.masks["case"].map(stem)
        stray = sorted(set(stems) - known)
        if stray:
            fact = f"{counted(len(stray), 'mask belongs', 'masks belong')} to no case ({listing(stray)})."
            fix = "add the cases, or remove the files."
            notes.append(Finding("MASK_WITHOUT_CASE", fact, f"mask set '{mask_set.name}'", fix, "warning"))
        masks = mask_set.masks.assign(case=stems.map(inside))[stems.isin(inside.keys())]
        sets[mask_set.name] = replace(mask_set, masks=masks.astype({"case": "str"}).reset_index(drop=True))
    return replace(cohort, mask_sets={**cohort.mask_sets, **sets}, findings=(*cohort.findings, *notes))


def _exclusions(
    exclude: Sequence[Exclusion], known: Iterable[str], name: str, *, rows_are_cases: bool
) -> tuple[list[Exclusion], list[Finding]]:
    """Return the exclusions that name a case, each (case, rule) once, and a warning for those that do not.

    Where the rows are the cases, an exclusion that names none of them stands: its case is left out already.
    """
    names = set(known)
    unknown = sorted({case for case, *_ in exclude if stem(case) not in names})
    beyond = {case: case for case in unknown if rows_are_cases}
    found = {
        (beyond.get(case, stem(case)), rule): reason
        for case, rule, reason in exclude
        if stem(case) in names or case in beyond
    }
    rows = [(case, rule, reason) for (case, rule), reason in sorted(found.items())]
    if not unknown or rows_are_cases:
        return rows, []
    fact = f"{counted(len(unknown), 'exclusion names', 'exclusions name')} no case ({listing(unknown)})."
    fix = did_you_mean(unknown[0], names)
    return rows, [Finding("EXCLUDED_UNKNOWN", fact, f"cohort '{name}'", fix, "warning")]


def _without_table(
    cases: Sequence[str], patients: Mapping[str, str] | None, rule: str | None, name: str
) -> tuple[pd.DataFrame, list[Finding]]:
    known = patients_by_rule(cases, rule) if rule is not None else dict(patients or {})
    lacking = [case for case in cases if not known.get(case)]
    table = pd.DataFrame({"case": cases, "patient": [known.get(case) or case for case in cases]})
    if not lacking:
        return table, []
    fact = f"no patient is named for {len(lacking)} of {len(cases)} cases ({listing(lacking, 3)}): each counts as one."
    fix = "give a participants table, or the rule case_to_patient."
    return table, [Finding("PATIENT_IS_CASE", fact, f"cohort '{name}'", fix, "warning")]


def read_cohort(path: str | PathLike[str]) -> Cohort:
    """Return the cohort that a cohort.toml describes; paths in it are relative to it.

    A path that the file or one of its tables names may lead anywhere. What lies in a folder that it names may not: a
    link in a mask folder that leads out of that folder and of the folder of cohort.toml is refused.

    Raises
    ------
    AuditError
        Every fault of the file, its tables, folders and labels at once; docs/cohorts.md lists the codes.
    """
    path = Path(path)
    file = read_toml(path, CohortFile)
    home = path.parent
    faults: list[Finding] = []
    labels, ignore = _labels(file, home, faults)
    sets = [_attempt(faults, partial(_mask_set, entry, home, labels, ignore)) for entry in file.mask_sets]
    participants = _attempt(faults, partial(_participants, file, home))
    exclude = [
        (case, entry.rule, entry.reason)
        for entry in file.exclude
        for case in [*([entry.case] if entry.case else []), *entry.cases]
    ]
    if file.excluded is not None:
        exclude += _attempt(faults, partial(_excluded, _at(home, file.excluded))) or []
    images = _attempt(faults, partial(_images, file, home)) or {}
    raise_errors(faults)
    cohort = make_cohort(
        file.name or path.resolve().parent.name or "cohort",
        [mask_set for mask_set in sets if mask_set is not None],
        participants,
        case_to_patient=file.participants.case_to_patient if file.participants else None,
        labels=labels,
        exclude=exclude,
        rows_are_cases=file.cases_from == "participants",
    )
    read = _files(file, path)
    return replace(cohort, models=tuple(file.models), rulers=tuple(file.rulers), images=images, files=read)


def _files(file: CohortFile, path: Path) -> tuple[Path, ...]:
    """Return cohort.toml and the tables and documents that it names."""
    written = [file.labels_from, file.excluded]
    written += [file.images] if file.images is not None and _is_table(_at(path.parent, file.images)) else []
    for one in file.mask_sets:
        written += [one.files, one.trained_on if isinstance(one.trained_on, str) else None]
    entry = file.participants
    if entry is not None and entry.file is not None:
        beside = str(Path(entry.file).with_suffix(".json"))
        auto = entry.sidecar is True and entry.file.lower().endswith(".tsv") and _at(path.parent, beside).is_file()
        written += [entry.file, beside if auto else entry.sidecar if isinstance(entry.sidecar, str) else None]
    return (path, *(_at(path.parent, name) for name in written if name is not None))


def _images(file: CohortFile, home: Path) -> dict[str, str]:
    """Return the image of each case, from a table, or from a folder (then without nnU-Net's channel suffix)."""
    if file.images is None:
        return {}
    place = _at(home, file.images)
    if _is_table(place):
        found = read_listed(place)
        return dict(zip(found["case"], found["path"], strict=True))
    found = discover_masks(place, within=home)
    return dict(zip(found["case"].str.replace(r"_\d{4}$", "", regex=True), found["path"], strict=True))


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in {".csv", ".tsv"} and not path.is_dir()


def _attempt(faults: list[Finding], step: Callable[[], T]) -> T | None:
    try:
        return step()
    except AuditError as error:
        faults += error.findings
        return None


def _at(home: Path, written: str) -> Path:
    return home / Path(written).expanduser()


def _tuples(labels: LabelTable) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(dict.fromkeys(values)) if isinstance(values, list) else (values,) for name, values in labels.items()
    }


def _labels(file: CohortFile, home: Path, faults: list[Finding]) -> tuple[dict[str, tuple[int, ...]], int | None]:
    if file.labels_from is None:
        return _tuples(file.labels), None
    return _attempt(faults, partial(read_labels, _at(home, file.labels_from))) or ({}, None)


def _participants(file: CohortFile, home: Path) -> Participants | None:
    entry = file.participants
    if entry is None or entry.file is None:
        return None
    declared = None
    if file.attributes is not None:
        declared = {
            name: Declaration(
                one.column,
                one.kind,
                one.of,
                one.values,
                tuple(one.missing) if isinstance(one.missing, list) else one.missing,
            )
            for name, one in file.attributes.items()
        }
    codes = file.missing.__pydantic_extra__
    sidecar = _at(home, entry.sidecar) if isinstance(entry.sidecar, str) else "auto" if entry.sidecar else None
    return read_participants(
        _at(home, entry.file),
        key=entry.key,
        patient=entry.patient,
        attributes=declared,
        missing={**MISSING_CODES, **codes} if file.missing.extend else codes,
        sidecar=sidecar,
        sheet=entry.sheet,
        delimiter=entry.delimiter,
        encoding=entry.encoding,
    )


def _mask_set(entry: MaskSetEntry, home: Path, labels: Labels, ignore: int | None) -> MaskSet:
    faults: list[Finding] = []
    masks = _attempt(faults, partial(_masks, entry, home))
    trained_on = entry.trained_on
    if isinstance(trained_on, str):
        trained_on = _attempt(faults, partial(_listed_patients, _at(home, trained_on)))
    coding = _tuples(entry.labels) if entry.labels is not None else None
    value = entry.ignore if entry.ignore is not None else ignore
    faults += check_labels(labels, coding, value, f"mask set '{entry.name}'")
    raise_errors(faults)
    table = masks if masks is not None else pd.DataFrame(columns=["case", "path", "kind"])
    patients = frozenset(trained_on) if trained_on is not None else None
    return MaskSet(entry.name, table, entry.kind, entry.made_by, patients, coding, value)


def _masks(entry: MaskSetEntry, home: Path) -> pd.DataFrame:
    if entry.files is not None:
        return read_listed(_at(home, entry.files), entry.kind)
    return discover_masks(_at(home, entry.folder or ""), entry.pattern, within=home).assign(kind=entry.kind)


def _listed_patients(path: Path) -> list[str]:
    """Return the patients in a table: its column `patient`, or its only column."""
    table = read_sheet(path).table
    column = "patient" if "patient" in table.columns else table.columns[0] if len(table.columns) == 1 else None
    if column is None:
        fact = "there is no column 'patient'."
        raise AuditError(Finding("UNKNOWN_COLUMN", fact, str(path), did_you_mean("patient", table.columns)))
    return [cell.strip() for cell in table[column] if cell.strip()]


def _excluded(path: Path) -> list[Exclusion]:
    """Return the rows of a table of exclusions: case, reason and, where there is one, rule."""
    sheet = read_sheet(path)
    table = sheet.table
    raise_errors(
        Finding("UNKNOWN_COLUMN", f"there is no column '{name}'.", str(path), did_you_mean(name, table.columns))
        for name in ("case", "reason")
        if name not in table.columns
    )
    blank = table["case"].str.strip().eq("") | table["reason"].str.strip().eq("")
    lines = [line for line, is_blank in zip(sheet.line_numbers, blank, strict=True) if is_blank]
    if lines:
        fact = f"{len(lines)} exclusions lack a case or a reason (lines {listing(lines)})."
        raise AuditError(Finding("EXCLUDED_REASON", fact, str(path), "say why each case is left out."))
    rules = table["rule"].str.strip() if "rule" in table.columns else [""] * len(table)
    each = zip(table["case"].str.strip(), rules, table["reason"].str.strip(), strict=True)
    return [(case, rule or BY_HAND, reason) for case, rule, reason in each]
