"""CSpineSeg: the folder as MIDRC delivers it becomes a cohort of exams with scanner, geometry and provenance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.attributes import AttributeKind, Declaration, Of, listing
from segaudit.cohorts import Cohort, MaskSet
from segaudit.errors import AuditError, Finding, Level, counted, did_you_mean, raise_errors
from segaudit.loaders.base import LOADERS, Exclusion, Loader, cohort_from, existing_folder
from segaudit.sheets import Sheet, read_sheet
from segaudit.volumes import read_header

LABELS = {"vb": (1,), "disc": (2,)}
REFERENCE = "reference"
LOCALIZER = "localizer"
MOST_SLICES = 40
"""Sagittal series have 12 to 25 slices; a series with more than this many is a localizer."""
# Each table with the columns that join it to the others; `submitter_id` names a patient, a study or a series.
LINKS: Mapping[str, tuple[str, ...]] = {
    "case": ("submitter_id",),
    "imaging_study": ("submitter_id",),
    "mr_series": ("submitter_id", "imaging_studies.submitter_id"),
    "annotation_file": ("file_name", "mr_series_files.submitter_id"),
}
MANIFESTS = ("image_manifest", "clinical_manifest")
_IMAGE, _MASK = ".nii.gz", "_SEG.nii.gz"
_FILE_NAME = re.compile(r"(?P<patient>.+?)_Study-")


@dataclass(frozen=True)
class _Column:
    """A column of the delivery and the attribute that it becomes; it is looked for in its own table first."""

    table: str
    column: str
    attribute: str
    kind: AttributeKind
    of: Of = "case"


_AGE, _OVER_89 = "age_at_imaging", "age_at_imaging_gt89"
_FIELD = "field_strength_t"
_COLUMNS = (
    _Column("case", "sex", "sex", "level", "patient"),
    _Column("case", "race", "race", "level", "patient"),
    _Column("case", "ethnicity", "ethnicity", "level", "patient"),
    _Column("imaging_study", _AGE, "age", "age"),
    _Column("imaging_study", _OVER_89, "", "level"),
    _Column("mr_series", "manufacturer", "manufacturer_as_written", "level"),
    _Column("mr_series", "manufacturer_model_name", "model", "level"),
    _Column("mr_series", "magnetic_field_strength", _FIELD, "level"),
    _Column("mr_series", "slice_thickness", "slice_thickness_mm", "number"),
    _Column("mr_series", "pixel_spacing", "pixel_spacing_mm", "number"),
    _Column("mr_series", "spacing_between_slices", "spacing_between_slices_mm", "number"),
    _Column("mr_series", "echo_time", "echo_time_ms", "number"),
    _Column("mr_series", "repetition_time", "repetition_time_ms", "number"),
)
_GEOMETRY = ("n_slices", "height", "width", "spacing_slice_mm", "spacing_row_mm", "spacing_column_mm")

Rows = Mapping[str, Mapping[str, str]]  # the row of each key


def load_cspineseg(
    folder: str | PathLike[str],
    *,
    gold: Iterable[str] | PathLike[str] | None = None,
    most_slices: int = MOST_SLICES,
) -> Cohort:
    """Return the cohort of a CSpineSeg folder: a case is an imaged series, its labels are the mask set `reference`.

    Parameters
    ----------
    folder : path
        Holds annotation/ (images), segmentation/ (masks) and structured/ (tables with the suffix of the release).
    gold : sequence of str, or path, optional
        Series outlined by experts, by file name, case or series id; or a text file with one of these a line. The
        attribute `provenance` is then gold or silver, and the kind of each mask expert or machine. The delivery itself
        does not say.
    most_slices : int
        Series with more slices are excluded under the rule `localizer`.

    Returns
    -------
    Cohort
        Attributes: sex, race, ethnicity (of the patient); age (redacted ones, above 89, are top-coded at 89);
        manufacturer in capitals and as written, model, field strength and the other settings of the series; and from
        the image header the numbers of slices, rows and columns with their spacing in mm. The slices lie along the
        axis with the widest spacing, of equal ones that with the fewest voxels. Every row and file that finds no
        partner is counted in a finding.

    Raises
    ------
    AuditError
        FOLDER_MISSING, TABLE_MISSING, TABLE_DOUBLED, COLUMN_MISSING, ID_DOUBLED, PATIENT_CONFLICT, FILES_NONE,
        GOLD_UNKNOWN; what reading a table or an image header raises, and what `make_cohort` raises.
    """
    home = existing_folder(Path(folder), "of a CSpineSeg delivery")
    findings: list[Finding] = []
    tables = _tables(home / "structured", findings)
    images, masks = _listed(home / "annotation", _IMAGE), _listed(home / "segmentation", _MASK)
    cases = sorted(images.keys() | masks.keys())
    if not cases:
        fact = f"there is no file <case>{_IMAGE} in annotation/, and none <case>{_MASK} in segmentation/."
        raise AuditError(Finding("FILES_NONE", fact, str(home), "check the folder."))
    findings += _lone_files(images, masks, home)
    located = _located(tables, findings)
    chains = _chains(cases, tables, home, findings)
    experts = None if gold is None else _experts(gold, chains, findings)
    raise_errors(findings)
    rows = []
    for case, geometry in zip(cases, _headers([images.get(c) or masks[c] for c in cases]), strict=True):
        row = {"case": case, "patient": chains[case].patient, **_attributes(chains[case], located), **geometry}
        rows.append(row if experts is None else {**row, "provenance": "gold" if case in experts else "silver"})
    cohort = cohort_from(
        "cspineseg",
        pd.DataFrame(rows),
        home / "structured",
        _declared(located, rows),
        mask_sets=[_reference(masks, experts)],
        labels=LABELS,
        exclude=_localizers(rows, most_slices),
        findings=findings,
    )
    return replace(cohort, images={case: str(images[case]) for case in cohort.cases["case"] if case in images})


def _tables(folder: Path, findings: list[Finding]) -> dict[str, Sheet]:
    """Return the tables by name without the suffix of the release; those that are absent or ambiguous are faults."""
    existing_folder(folder, "of the tables of the delivery")
    names, found = sorted(path.name for path in folder.glob("*.tsv")), {}
    for table in (*LINKS, *MANIFESTS):
        fits = [name for name in names if re.fullmatch(rf"{table}(_RSNA.*|_\d+)?\.tsv", name)]
        if len(fits) > 1:
            fact = f"{len(fits)} files could be table '{table}' ({listing(fits)})."
            findings.append(Finding("TABLE_DOUBLED", fact, str(folder), "keep the tables of one release."))
        elif not fits:
            level: Level = "error" if table in LINKS else "note"
            fix = "fetch it" if table in LINKS else "it is not needed"
            fact = f"there is no table {table}_<release>.tsv (there are {listing(names, 8) or 'none'})."
            findings.append(Finding("TABLE_MISSING", fact, str(folder), f"{fix}.", level))
        elif table in LINKS:
            try:
                found[table] = read_sheet(folder / fits[0], delimiter="\t")
            except AuditError as error:
                findings += error.findings
                continue
            findings += _missing_links(table, found[table])
    raise_errors(findings)
    return found


def _missing_links(table: str, sheet: Sheet) -> Iterator[Finding]:
    columns = list(sheet.table.columns)
    for column in LINKS[table]:
        if column not in columns:
            fact = f"there is no column '{column}', which joins table '{table}' to the others."
            yield Finding("COLUMN_MISSING", fact, str(sheet.path), did_you_mean(column, columns))


def _listed(folder: Path, ending: str) -> dict[str, Path]:
    paths = existing_folder(folder, "of the delivery").iterdir()
    return {p.name.removesuffix(ending): p for p in paths if p.name.endswith(ending) and not p.name.startswith(".")}


def _lone_files(images: Mapping[str, Path], masks: Mapping[str, Path], home: Path) -> Iterator[Finding]:
    for code, what, cases in (
        ("IMAGE_WITHOUT_LABEL", "images have no mask", images.keys() - masks.keys()),
        ("LABEL_WITHOUT_IMAGE", "masks have no image", masks.keys() - images.keys()),
    ):
        if cases:
            fact = f"{len(cases)} {what} ({listing(sorted(cases))})."
            yield Finding(code, fact, str(home), "fetch the other file of the pair.", "warning")


@dataclass(frozen=True)
class _Chain:
    """A case with the rows that lead from its file to its patient; empty where a row is missing."""

    patient: str
    series: str
    rows: Rows


def _located(tables: Mapping[str, Sheet], findings: list[Finding]) -> dict[_Column, str]:
    """Return the table in which each column stands, and warn of those that stand nowhere."""
    found = {}
    for one in _COLUMNS:
        order = (one.table, *(table for table in ("mr_series", "imaging_study", "case") if table != one.table))
        at = next((table for table in order if one.column in tables[table].table.columns), None)
        if at is None:
            fact = f"no table has a column '{one.column}'."
            fix = "the attribute is left out; give a delivery that has it."
            findings.append(Finding("COLUMN_MISSING", fact, str(tables[one.table].path), fix, "warning"))
        else:
            found[one] = at
    return found


def _chains(
    cases: Sequence[str], tables: Mapping[str, Sheet], home: Path, findings: list[Finding]
) -> dict[str, _Chain]:
    """Return the rows of each case, followed from its files to series, study and patient."""
    rows = {table: _by_key(sheet, "submitter_id", findings) for table, sheet in tables.items() if table in _ENTITIES}
    files = _by_key(tables["annotation_file"], "file_name", findings)
    chains, apart = {}, []
    for case in cases:
        entry = files.get(f"{case}{_IMAGE}") or files.get(f"{case}{_MASK}") or {}
        series_id = _plain(entry.get("mr_series_files.submitter_id", ""))
        series = rows["mr_series"].get(series_id, {})
        study = rows["imaging_study"].get(_plain(series.get("imaging_studies.submitter_id", "")), {})
        named = _FILE_NAME.match(case)
        stated = [
            _plain(series.get("case_ids", "")),
            _plain(study.get("case_ids", "")),
            named["patient"] if named else "",
        ]
        patients = list(dict.fromkeys(name for name in stated if name))
        if len(patients) > 1:
            apart.append(f"{case}: {' and '.join(patients)}")
        patient = patients[0] if patients else case
        chains[case] = _Chain(
            patient,
            series_id,
            {"mr_series": series, "imaging_study": study, "case": rows["case"].get(patient, {})},
        )
    if apart:
        fact = f"{counted(len(apart), 'case has', 'cases have')} two patients ({listing(apart, 3)})."
        fix = "mend the series, the study or the file name."
        findings.append(Finding("PATIENT_CONFLICT", fact, str(home / "structured"), fix))
    if not any("case_ids" in tables[table].table.columns for table in ("mr_series", "imaging_study")):
        fact = "no table has a column 'case_ids', which names the patient of a series."
        fix = "the patients are those in the names of the files."
        findings.append(Finding("COLUMN_MISSING", fact, str(tables["imaging_study"].path), fix, "warning"))
    findings += _unjoined(chains, rows, files, tables)
    return chains


_ENTITIES = ("mr_series", "imaging_study", "case")


def _by_key(sheet: Sheet, key: str, findings: list[Finding]) -> dict[str, dict[str, str]]:
    columns = list(sheet.table.columns)
    found: dict[str, dict[str, str]] = {}
    twice = []
    for cells in sheet.table.itertuples(index=False, name=None):
        record = dict(zip(columns, cells, strict=True))
        name = _plain(record[key])
        if found.setdefault(name, record) is not record:
            twice.append(name)
    if twice:
        fact = f"{counted(len(twice), 'row repeats', 'rows repeat')} an earlier '{key}' ({listing(twice)})."
        findings.append(Finding("ID_DOUBLED", fact, str(sheet.path), "keep one row each."))
    return found


def _plain(cell: str) -> str:
    """Return an id as it stands, or out of a list with one element: some exports write ['593973-000001']."""
    return cell.strip().strip("[]").strip("'\" ")


def _unjoined(
    chains: Mapping[str, _Chain], rows: Mapping[str, Rows], files: Rows, tables: Mapping[str, Sheet]
) -> Iterator[Finding]:
    """Yield a finding for each table with rows that no case uses, or that cases lack."""
    present = {f"{case}{ending}" for case in chains for ending in (_IMAGE, _MASK)}
    keys = {
        "annotation_file": set(files) - present,
        "mr_series": set(rows["mr_series"]) - {chain.series for chain in chains.values()},
        "imaging_study": set(rows["imaging_study"])
        - {_plain(chain.rows["imaging_study"].get("submitter_id", "")) for chain in chains.values()},
        "case": set(rows["case"]) - {chain.patient for chain in chains.values()},
    }
    for table, idle in keys.items():
        if idle:
            n_rows = len(tables[table].table)
            fact = f"{len(idle)} of {n_rows} rows of table '{table}' lead to no file ({listing(sorted(idle), 3)})."
            fix = "fetch the files, if they are to be used."
            yield Finding("ROWS_WITHOUT_CASE", fact, str(tables[table].path), fix, "warning")
    for table in _ENTITIES:
        lost = sorted(case for case, chain in chains.items() if not chain.rows[table])
        if lost:
            fact = f"{len(lost)} of {len(chains)} cases have no row in table '{table}' ({listing(lost, 3)})."
            fix = "their attributes are missing; add the rows, or remove the files."
            yield Finding("CASES_WITHOUT_ROW", fact, str(tables[table].path), fix, "warning")


def _experts(gold: Iterable[str] | PathLike[str], chains: Mapping[str, _Chain], findings: list[Finding]) -> set[str]:
    """Return the cases that a list of expert-outlined series names."""
    where = "gold"
    if isinstance(gold, (str, PathLike)):
        where = str(gold)
        try:
            gold = Path(gold).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            fact = f"{where} cannot be read: {getattr(error, 'strerror', None) or error}."
            raise AuditError(Finding("FILE_UNREADABLE", fact, where, "give a text file.")) from None
    names = [name.strip() for name in gold if name.strip()]
    by_series = {chain.series: case for case, chain in chains.items() if chain.series}
    found = {name: by_series.get(plain, plain) for name in names for plain in [_case_named(name)]}
    unknown = sorted(name for name, case in found.items() if case not in chains)
    if unknown:
        every = len(unknown) == len(found)
        fact = f"{len(unknown)} of {len(found)} gold series are not in the delivery ({listing(unknown, 3)})."
        fix = did_you_mean(_case_named(unknown[0]), chains)
        findings.append(Finding("GOLD_UNKNOWN", fact, where, fix, "error" if every else "warning"))
    return {case for case in found.values() if case in chains}


def _case_named(name: str) -> str:
    file = name.replace("\\", "/").rsplit("/", 1)[-1]
    return file.removesuffix(".nii.gz").removesuffix("_SEG")


def _attributes(chain: _Chain, located: Mapping[_Column, str]) -> dict[str, str]:
    cells = {one.column: chain.rows[table].get(one.column, "").strip() for one, table in located.items()}
    row = {one.attribute: cells[one.column] for one in located if one.attribute}
    if _AGE in cells and not cells[_AGE] and cells.get(_OVER_89, "").casefold() == "yes":
        row["age"] = ">89"
    if "manufacturer_as_written" in row:
        row["manufacturer"] = row["manufacturer_as_written"].upper()
    if _FIELD in row:
        row[_FIELD] = _one_decimal(row[_FIELD])
    if "pixel_spacing_mm" in row:
        row["pixel_spacing_mm"] = re.split(r"[,\\ ]+", row["pixel_spacing_mm"].strip("[]() "))[0]
    return row


def _one_decimal(cell: str) -> str:
    """Return 3 and 3.0 as one level."""
    try:
        return f"{float(cell):.1f}"
    except ValueError:
        return cell


def _headers(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Return slices, rows, columns and spacing of each image; every header that cannot be read is a fault."""
    found: list[dict[str, Any]] = []
    faults: list[Finding] = []
    for path in paths:
        try:
            grid = read_header(path)
        except AuditError as error:
            faults += error.findings
            continue
        shape, spacing = (*grid.shape, 1)[:3], (*grid.spacing_mm, math.inf)[:3]  # a 2-D image is one slice
        along = max(range(3), key=lambda axis: (spacing[axis], -shape[axis]))
        axes = [along, *(axis for axis in range(len(shape)) if axis != along)]
        sizes = [f"{shape[axis]}" for axis in axes] + [f"{spacing[axis]:.6g}".replace("inf", "") for axis in axes]
        found.append(dict(zip(_GEOMETRY, sizes, strict=True)))
    raise_errors(faults)
    return iter(found)


def _declared(located: Mapping[_Column, str], rows: Sequence[Mapping[str, str]]) -> dict[str, Declaration]:
    names = {one.attribute: (one.kind, one.of) for one in located if one.attribute}
    if "manufacturer_as_written" in names:
        names["manufacturer"] = ("level", "case")
    names |= dict.fromkeys(_GEOMETRY, ("number", "case"))
    if "provenance" in rows[0]:
        names["provenance"] = ("level", "case")
    fields = {row[_FIELD]: row[_FIELD] for row in rows if row.get(_FIELD)}  # numbers, but levels: not unexplained codes
    return {
        name: Declaration(kind=kind, of=of, values=fields if name == _FIELD else {})
        for name, (kind, of) in names.items()
    }


def _localizers(rows: Sequence[Mapping[str, str]], most_slices: int) -> list[Exclusion]:
    return [
        (
            row["case"],
            LOCALIZER,
            f"{row['n_slices']} slices of {row['height']} x {row['width']}, more than {most_slices}: a localizer",
        )
        for row in rows
        if int(row["n_slices"]) > most_slices
    ]


def _reference(masks: Mapping[str, Path], experts: set[str] | None) -> MaskSet:
    cases = sorted(masks)
    kinds = ["unknown" if experts is None else "expert" if case in experts else "machine" for case in cases]
    table = pd.DataFrame({"case": cases, "path": [str(masks[case]) for case in cases], "kind": kinds})
    return MaskSet(REFERENCE, table)


LOADERS.register(Loader("cspineseg", "CSpineSeg as MIDRC delivers it", load_cspineseg))
