"""Write a cohort as cohort.toml with its tables, so that reading it gives the same cohort again."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any

from segaudit.attributes import listing
from segaudit.cohorts.base import Cohort, Labels, MaskSet
from segaudit.cohorts.cells import participants_of
from segaudit.config.base import check
from segaudit.config.cohort import CohortFile
from segaudit.config.toml_text import toml_text
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.files import write_files
from segaudit.participants import stem

COHORT_FILE = "cohort.toml"
PARTICIPANTS, IMAGES, EXCLUDED = "participants.csv", "images.csv", "excluded.csv"
MASKS, TRAINED_ON = "masks", "trained_on"
_MARK = "# Written by segaudit; paths are relative to the file that they stand in.\n"
_MOST_INLINE = 20
_MOST_LETTERS = 60

Table = tuple[Sequence[str], Sequence[Sequence[str]]]  # header, rows


def write_cohort(cohort: Cohort, folder: str | PathLike[str], *, within: Path | None = None) -> Path:
    """Return the cohort.toml of the cohort, written with its tables into a folder, all files or none.

    `read_cohort` gives the same cohort back: cases, patients and attributes with what is missing and why, labels, mask
    sets with their kinds, makers, codings and training patients, roles, exclusions and images. The rows of
    participants.csv are the cases. Masks and images stay where they are and are not looked at. The findings of the
    reading are not written.

    Parameters
    ----------
    cohort : Cohort
    folder : path
        Made where it is absent. What `write_cohort` wrote there earlier is replaced, other files are not.
    within : path, optional
        Paths of files below it are relative, so that it may be moved as a whole, all others absolute; by default the
        folder that holds `folder`.

    Raises
    ------
    AuditError
        What `cohort.check()` holds as an error; COHORT_EMPTY, COHORT_EXISTS, MASKS_NONE,
        EXCLUDED_REASON, COHORT_UNWRITABLE (a text that no table holds, or that would come back as another);
        TOML_VALUE, ATTRIBUTE_NAME, ATTRIBUTE_VARIES; FILE_UNWRITABLE, DISK_FULL.
    """
    folder = Path(folder)
    raise_errors([*cohort.check(), *_unfit(cohort)])
    told = _teller(folder, within)
    participants = participants_of(cohort, folder / PARTICIPANTS)
    tables: dict[Path, Table] = {folder / PARTICIPANTS: (participants.header, participants.rows)}
    data = {
        "name": cohort.name,
        "cases_from": "participants",
        **({"models": list(cohort.models)} if cohort.models else {}),
        **({"rulers": list(cohort.rulers)} if cohort.rulers else {}),
        **_excluded(cohort, folder, tables),
        **_images(cohort, folder, told, tables),
        "participants": {"file": PARTICIPANTS, "key": "case", "patient": "patient", "delimiter": ","},
        "missing": {"extend": False},
        "attributes": participants.entries,
        "labels": _values(cohort.labels),
        "mask_sets": list(_mask_sets(cohort, folder, told, tables)),
    }
    check(data, CohortFile, f"cohort '{cohort.name}'")
    raise_errors(fault for path, table in tables.items() for fault in _untold(path, table))
    files = {path: _csv(*table).encode() for path, table in tables.items()}
    path = folder / COHORT_FILE
    _refuse_to_replace(path, files)
    write_files({**files, path: (_MARK + toml_text(data)).encode()})
    return path


def _unfit(cohort: Cohort) -> Iterator[Finding]:
    where = f"cohort '{cohort.name}'"
    if cohort.cases.empty:
        yield Finding("COHORT_EMPTY", "there is no case to write.", where, "exclude fewer cases.")
    for name, mask_set in cohort.mask_sets.items():
        if mask_set.masks.empty:
            fix = "leave the mask set out of the cohort."
            yield Finding("MASKS_NONE", "no case has a mask.", f"mask set '{name}'", fix)
    names, paths = [cohort.name, *cohort.labels, *cohort.attributes], list(map(str, cohort.images.values()))
    for mask_set in cohort.mask_sets.values():
        names += [mask_set.name, mask_set.made_by, *(mask_set.labels or {}), *(mask_set.trained_on or ())]
        paths += map(str, mask_set.masks["path"].tolist())
    levels = [level for name in cohort.cases.columns for level in cohort.cases[name].unique() if isinstance(level, str)]
    reasons = [*cohort.missing["raw"].tolist(), *cohort.missing["reason"].tolist()]
    broken = [text for text in (*names, *paths, *levels, *reasons) if not _is_unicode(text)]
    broken += [path for path in paths if "\0" in path]
    if broken:
        fact = f"{len(broken)} names, values or paths are no text in UTF-8 ({listing(map(ascii, broken))})."
        yield Finding("COHORT_UNWRITABLE", fact, where, "call them otherwise.")
    out = cohort.excluded
    blank = out.loc[out["rule"].str.strip().eq("") | out["reason"].str.strip().eq(""), "case"]
    if len(blank):
        fact = f"{len(blank)} exclusions lack a rule or a reason ({listing(blank)})."
        yield Finding("EXCLUDED_REASON", fact, where, "say why each case is left out.")
    both = sorted(set(out["case"].map(stem)) & set(cohort.cases["case"].map(stem)))
    if both:
        fact = f"{counted(len(both), 'case is', 'cases are')} in the cohort and excluded from it ({listing(both)})."
        yield Finding("COHORT_UNWRITABLE", fact, where, "keep them, or leave them out.")


def _refuse_to_replace(path: Path, others: Iterable[Path]) -> None:
    """Refuse to write over files that this module did not write: the mark at the head of cohort.toml tells."""
    try:
        with path.open("rb") as stream:
            ours = stream.read(len(_MARK)) == _MARK.encode()
    except OSError:
        ours = False
    there = [] if ours else [one for one in (path, *others) if os.path.lexists(one)]
    if there:
        names = listing(one.relative_to(path.parent).as_posix() for one in there)
        fact = f"{path.parent} holds files that this would replace ({names})."
        raise AuditError(Finding("COHORT_EXISTS", fact, str(path.parent), "give a folder of its own."))


def _mask_sets(
    cohort: Cohort, folder: Path, told: Callable[[str, Path], str], tables: dict[Path, Table]
) -> Iterator[dict[str, Any]]:
    for name, mask_set in zip(_file_names(cohort.mask_sets), cohort.mask_sets.values(), strict=True):
        entry: dict[str, Any] = {"name": mask_set.name, "files": f"{MASKS}/{name}", "kind": mask_set.kind}
        table = folder / MASKS / name
        tables[table] = (("case", "path", "kind"), _rows(mask_set, told, table.parent))
        if mask_set.made_by:
            entry["made_by"] = mask_set.made_by
        patients = mask_set.trained_on
        if patients is not None:
            entry["trained_on"] = sorted(patients)
            # a table holds no blanks around a name
            if len(patients) > _MOST_INLINE and all(one and one == one.strip() for one in patients):
                entry["trained_on"] = f"{TRAINED_ON}/{name}"
                tables[folder / TRAINED_ON / name] = (("patient",), [(one,) for one in sorted(patients)])
        if mask_set.ignore is not None:
            entry["ignore"] = mask_set.ignore
        if mask_set.labels is not None:
            entry["labels"] = _values(mask_set.labels)
        yield entry


def _rows(mask_set: MaskSet, told: Callable[[str, Path], str], home: Path) -> Sequence[Sequence[str]]:
    masks = mask_set.masks
    kinds = masks["kind"].tolist() if "kind" in masks.columns else [mask_set.kind] * len(masks)
    rows = zip(masks["case"].tolist(), masks["path"].tolist(), kinds, strict=True)
    return sorted((case, told(path, home), kind) for case, path, kind in rows)


def _excluded(cohort: Cohort, folder: Path, tables: dict[Path, Table]) -> dict[str, str]:
    if cohort.excluded.empty:
        return {}
    rows = cohort.excluded[["case", "rule", "reason"]].itertuples(index=False, name=None)
    tables[folder / EXCLUDED] = (("case", "rule", "reason"), sorted(rows))
    return {"excluded": EXCLUDED}


def _images(
    cohort: Cohort, folder: Path, told: Callable[[str, Path], str], tables: dict[Path, Table]
) -> dict[str, str]:
    if not cohort.images:
        return {}
    rows = sorted((case, told(path, folder)) for case, path in cohort.images.items())
    tables[folder / IMAGES] = (("case", "path"), list(rows))
    return {"images": IMAGES}


def _values(labels: Labels) -> dict[str, Any]:
    return {name: values[0] if len(values) == 1 else list(values) for name, values in labels.items()}


def _file_names(names: Iterable[str]) -> list[str]:
    """Return a file name a mask set: its own in plain letters, and no two alike, in capitals or not."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9_.+-]+", "_", name)[:_MOST_LETTERS].strip("._") or "masks"
        numbered = (plain if n == 1 else f"{plain}-{n}" for n in count(1))
        taken = {one.casefold() for one in found}
        found.append(next(f"{one}.csv" for one in numbered if f"{one}.csv".casefold() not in taken))
    return found


def _teller(folder: Path, within: Path | None) -> Callable[[str, Path], str]:
    """Return what writes the path of a file for a table in a folder."""
    home = Path(os.path.realpath(folder))
    beside = home.parent if home.parent.name else home  # below the root lies everything
    near = beside if within is None else Path(os.path.realpath(within))

    @cache
    def start(parent: str, table_folder: Path) -> str:
        place = Path(os.path.realpath(parent or "."))
        if not place.is_relative_to(near):
            return place.as_posix().rstrip("/") + "/"
        return Path(os.path.relpath(place, home / table_folder.relative_to(folder))).as_posix() + "/"

    def told(path: str, table_folder: Path) -> str:
        parent, slash, name = str(path).replace(os.sep, "/").rpartition("/")
        return start(parent + slash, table_folder) + name

    return told


def _csv(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as CSV; what could be taken for a delimiter or for the end of a row stands in quotes."""
    return "".join(",".join(map(_field, row)) + "\n" for row in (header, *rows))


def _field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",;|\t\r\n]', text) else text


def _untold(path: Path, table: Table) -> Iterator[Finding]:
    """Yield what no table of text can hold: NUL, and a field beyond the limit of the reader."""
    header, rows = table
    limit = csv.field_size_limit()
    for column, name in enumerate(header):
        cells = [row[column] for row in rows]
        broken = [ascii(cell)[:80] for cell in cells if "\0" in cell or len(cell) > limit]
        if broken:
            fact = f"{len(broken)} texts hold NUL or are longer than {limit} characters ({listing(broken, 3)})."
            yield Finding("COHORT_UNWRITABLE", fact, f"{path}, column '{name}'", "write them otherwise.")


def _is_unicode(text: str) -> bool:
    return not re.search("[\ud800-\udfff]", text)
