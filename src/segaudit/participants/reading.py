"""Read a participants table: its rows, their keys and patients, and where each attribute stands."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from segaudit.attributes import (
    ALIASES,
    MISSING_CODES,
    Attribute,
    Declaration,
    canonical,
    codes_for,
    fold,
    letters,
    listing,
)
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.participants.base import TOP_CODED_COLUMN, Participants, located
from segaudit.participants.dictionaries import ColumnNotes, read_dictionary
from segaudit.sheets import Sheet, read_sheet

PATIENT_COLUMNS = ("patient", "patientid", "participant", "participantid", "subject", "subjectid")
KEY_COLUMNS = ("case", "caseid", "imageindex", "image", "filename", *PATIENT_COLUMNS)
RESERVED = ("case", "patient")
SHOWN_FAULTS = 10


def read_participants(
    path: str | PathLike[str],
    *,
    key: str | None = None,
    patient: str | None = None,
    attributes: Sequence[str] | Mapping[str, Declaration] | None = None,
    missing: Mapping[str, str] | None = None,
    sidecar: str | PathLike[str] | None = "auto",
    sheet: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> Participants:
    """Return a participants table from CSV, TSV or XLSX.

    Parameters
    ----------
    path : path
    key : str, optional
        Column that names the case (or the patient) of a row, or a template of columns such as
        "{patient_id}_{study_id}"; by default a column of a usual name, with a note.
    patient : str, optional
        Column of the patient; by default a column of a usual name, with a note.
    attributes : names or mapping of name to Declaration, optional
        By default every column.
    missing : mapping of str to str, optional
        Missing codes in place of `MISSING_CODES`.
    sidecar : path, "auto" or None
        Data dictionary in JSON, as in BIDS; "auto" takes the .json of the same name beside a .tsv.
    sheet, delimiter, encoding : str, optional
        As in `segaudit.sheets.read_sheet`.

    Raises
    ------
    AuditError
        What reading the sheet raises; UNKNOWN_COLUMN, UNKNOWN_ATTRIBUTE, ATTRIBUTE_AMBIGUOUS,
        ATTRIBUTE_NAME, ATTRIBUTE_VALUES, KEY_NEEDED, KEY_TEMPLATE, KEY_BLANK, KEY_DOUBLED, PATIENT_BLANK; what reading
        the data dictionary raises.
    """
    read = read_sheet(path, delimiter=delimiter, encoding=encoding, sheet=sheet)
    beside: Path | None = Path(sidecar) if sidecar not in {"auto", None} else None
    if sidecar == "auto" and read.path.suffix.lower() == ".tsv" and read.path.with_suffix(".json").is_file():
        beside = read.path.with_suffix(".json")
    dictionary = read_dictionary(beside) if beside is not None else {}
    if attributes is not None and not isinstance(attributes, Mapping):
        attributes = dict.fromkeys(attributes, Declaration())
    return participants_from(
        read, key=key, patient=patient, attributes=attributes, missing=missing, dictionary=dictionary
    )


def participants_from(
    sheet: Sheet,
    *,
    key: str | None = None,
    patient: str | None = None,
    attributes: Mapping[str, Declaration] | None = None,
    missing: Mapping[str, str] | None = None,
    dictionary: Mapping[str, ColumnNotes] | None = None,
) -> Participants:
    """Return a participants table from a sheet that is already read; see `read_participants`."""
    faults: list[Finding] = []
    notes = list(sheet.findings)
    missing = MISSING_CODES if missing is None else missing
    codes = set(codes_for(missing, "level"))  # a case may be called 999
    parts = _key_parts(sheet, key, faults, notes)
    keys = _keys(sheet, parts, codes, faults)
    key_columns = [column for _, column in parts if column]
    patient = _patient_column(sheet, patient, faults, notes)
    patients = _patients(sheet, patient, codes, faults) if patient else None
    if attributes is None:
        found = _every_attribute(sheet, {*key_columns, patient}, notes)
    else:
        found = _declared_attributes(sheet, attributes, faults, notes)
    raise_errors(faults)
    key_names_patient = len(key_columns) == 1 and (key_columns[0] == patient or _is_patient_name(key_columns[0]))
    result = Participants(
        sheet,
        keys,
        key_names_patient,
        patients,
        found,
        attributes,
        missing,
        dictionary or {},
        tuple(notes),
    )
    return _without_repeats(result, key_columns)


def _is_patient_name(column: str) -> bool:
    return letters(column) in PATIENT_COLUMNS


def _unknown_column(column: str, sheet: Sheet, role: str) -> Finding:
    columns = list(sheet.table.columns)
    fact = f"there is no column '{column}' for the {role}."
    fix = did_you_mean(column, columns)
    if len(columns) == 1:
        fix += " Is it one column? Fields are separated by tab, semicolon, comma or bar."
    return Finding("UNKNOWN_COLUMN", fact, str(sheet.path), fix)


def _key_parts(
    sheet: Sheet, key: str | None, faults: list[Finding], notes: list[Finding]
) -> list[tuple[str, str | None]]:
    """Return the key as pieces of text, each followed by the column that fills in."""
    columns, where = list(sheet.table.columns), str(sheet.path)
    if key is None:
        usual = next((column for name in KEY_COLUMNS for column in columns if letters(column) == name), None)
        if usual is None:
            fix = f'name the column of the case: key = "..."; columns: {listing(columns, 12)}.'
            faults.append(Finding("KEY_NEEDED", "no column has a usual name of a key.", where, fix))
            return []
        fact = f"rows are named by column '{usual}'."
        notes.append(Finding("KEY_ASSUMED", fact, where, "name the key if it is another column.", "note"))
        return [("", usual)]
    if key in columns:
        return [("", key)]
    if "{" not in key:
        faults.append(_unknown_column(key, sheet, "key"))
        return []
    try:
        parts = [(text, column) for text, column, _, _ in string.Formatter().parse(key)]
    except ValueError as error:
        fix = 'write it as "{patient_id}_{study_id}".'
        faults.append(Finding("KEY_TEMPLATE", f"'{key}' is no template of columns: {error}.", where, fix))
        return []
    faults += [
        _unknown_column(column, sheet, "key") for _, column in parts if column is not None and column not in columns
    ]
    return [] if faults else parts


def _keys(
    sheet: Sheet, parts: Sequence[tuple[str, str | None]], codes: set[str], faults: list[Finding]
) -> tuple[str, ...]:
    pieces = [[cell.strip() for cell in sheet.table[column]] for _, column in parts if column]
    rows = list(zip(*pieces, strict=True))
    blank = [
        line for line, row in zip(sheet.line_numbers, rows, strict=False) if any(fold(cell) in codes for cell in row)
    ]
    if blank:
        fact = f"{counted(len(blank), 'row has', 'rows have')} no key (lines {listing(blank)})."
        faults.append(Finding("KEY_BLANK", fact, str(sheet.path), "name the case in each row, or remove the row."))
    if not pieces:
        return ()
    template = "".join(text.replace("{", "{{").replace("}", "}}") + ("{}" if column else "") for text, column in parts)
    return tuple(template.format(*row) for row in rows)


def _patient_column(sheet: Sheet, patient: str | None, faults: list[Finding], notes: list[Finding]) -> str | None:
    columns = list(sheet.table.columns)
    if patient is not None:
        if patient not in columns:
            faults.append(_unknown_column(patient, sheet, "patient"))
            return None
        return patient
    usual = next((column for name in PATIENT_COLUMNS for column in columns if letters(column) == name), None)
    if usual is not None:
        fact = f"patients are named by column '{usual}'."
        notes.append(
            Finding("PATIENT_ASSUMED", fact, str(sheet.path), "name the patient column if it is another.", "note")
        )
    return usual


def _patients(sheet: Sheet, column: str, codes: set[str], faults: list[Finding]) -> tuple[str, ...]:
    patients = tuple(cell.strip() for cell in sheet.table[column])
    blank = [line for line, cell in zip(sheet.line_numbers, patients, strict=True) if fold(cell) in codes]
    if blank:
        fact = f"{counted(len(blank), 'row names', 'rows name')} no patient (lines {listing(blank)})."
        where = f"{sheet.path}, column '{column}'"
        faults.append(Finding("PATIENT_BLANK", fact, where, "name the patient in each row, or name another column."))
    return patients


def _declared_attributes(
    sheet: Sheet, declared: Mapping[str, Declaration], faults: list[Finding], notes: list[Finding]
) -> dict[str, Attribute]:
    where, found = str(sheet.path), {}
    for name, declaration in declared.items():
        if name in RESERVED or name.endswith(TOP_CODED_COLUMN):
            fact = f"'{name}' cannot name an attribute: the cohort's table has a column of that name."
            faults.append(Finding("ATTRIBUTE_NAME", fact, where, f'name it otherwise, with column = "{name}".'))
            continue
        try:
            attribute, note = located(name, declaration, list(sheet.table.columns), where)
        except AuditError as error:
            faults += error.findings
            continue
        if declaration.values and attribute.kind != "level":
            fact = f"attribute '{name}' has values for its codes, but is of kind {attribute.kind}."
            faults.append(Finding("ATTRIBUTE_VALUES", fact, where, 'set kind = "level", or drop the values.'))
        found[name] = attribute
        notes += [note] if note else []
    return found


def _every_attribute(sheet: Sheet, taken: set[str | None], notes: list[Finding]) -> dict[str, Attribute]:
    """Return sex, age, race and ethnicity where a column holds them, and every other column under its own name."""
    where, found = str(sheet.path), {}
    columns = [column for column in sheet.table.columns if column not in taken]
    for name in ALIASES:
        try:
            found[name], note = located(name, Declaration(), columns, where)
            notes += [note] if note else []
        except AuditError as error:
            notes += [replace(f, level="note") for f in error.findings if f.code == "ATTRIBUTE_AMBIGUOUS"]
    for column in columns:
        if canonical(column.removesuffix(TOP_CODED_COLUMN)) == "age" and column.endswith(TOP_CODED_COLUMN):
            continue  # it goes with its age
        if column in RESERVED or column.endswith(TOP_CODED_COLUMN):
            fact = f"column '{column}' is left out: the cohort's table has a column of that name."
            notes.append(Finding("ATTRIBUTE_NAME", fact, where, "declare it as an attribute of another name.", "note"))
        elif column not in {attribute.column for attribute in found.values()}:
            # nothing is claimed of a column that nobody asked for: it may change from exam to exam
            found[column] = replace(located(column, Declaration(), columns, where)[0], of="case")
    return found


def _finer_key(sheet: Sheet, key_columns: Sequence[str]) -> str:
    """Return a key that tells the rows apart: one column, else the key with another, where there is one."""
    columns = [column for column in sheet.table.columns if column not in key_columns]
    templates = [*([column] for column in columns), *([*key_columns, column] for column in columns)]
    fits = next((own for own in templates if not sheet.table.duplicated(own).any()), [*key_columns, "another_column"])
    return fits[0] if len(fits) == 1 else "_".join(f"{{{column}}}" for column in fits)


def _without_repeats(participants: Participants, key_columns: Sequence[str]) -> Participants:
    """Return the table with each key once: rows that repeat another in every cell go, others are an error."""
    sheet = participants.sheet
    rows = list(sheet.table.itertuples(index=False, name=None))
    positions: defaultdict[str, list[int]] = defaultdict(list)
    for position, key in enumerate(participants.keys):
        positions[key].append(position)
    differing = {key: at for key, at in positions.items() if len({rows[position] for position in at}) > 1}
    fix = ""
    if differing:
        fix = f'take a key that tells them apart, such as "{_finer_key(sheet, key_columns)}", or remove rows.'
    faults = [
        Finding(
            "KEY_DOUBLED",
            f"{len(at)} rows have the key '{key}' and differ.",
            f"{sheet.path}, lines {listing(sheet.line_numbers[position] for position in at)}",
            fix,
        )
        for key, at in list(differing.items())[:SHOWN_FAULTS]
    ]
    if len(differing) > SHOWN_FAULTS:
        fact = f"{len(differing) - SHOWN_FAULTS} more keys stand in rows that differ."
        faults.append(Finding("KEY_DOUBLED", fact, str(sheet.path), fix))
    raise_errors(faults)
    repeats = [position for at in positions.values() for position in at[1:]]
    if not repeats:
        return participants
    gone = set(repeats)
    kept = [position for position in range(len(rows)) if position not in gone]
    fact = f"{counted(len(repeats), 'row repeats', 'rows repeat')} another row in every cell; alike rows count once."
    note = Finding("ROWS_REPEATED", fact, str(sheet.path), "remove the repeated rows.", "note")
    return replace(
        participants,
        sheet=replace(
            sheet,
            table=sheet.table.iloc[kept].reset_index(drop=True),
            line_numbers=tuple(sheet.line_numbers[position] for position in kept),
        ),
        keys=tuple(participants.keys[position] for position in kept),
        patients=tuple(participants.patients[position] for position in kept) if participants.patients else None,
        findings=(*participants.findings, note),
    )
