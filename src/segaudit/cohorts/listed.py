"""Files of cases that a table lists: where the mask or the image of each case lies, and whose it is."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from typing import get_args

import pandas as pd

from segaudit.attributes import listing
from segaudit.cohorts.base import Kind
from segaudit.errors import Finding, counted, did_you_mean, raise_errors
from segaudit.participants import stem
from segaudit.sheets import Sheet, read_sheet

KINDS: tuple[str, ...] = get_args(Kind)


def read_listed(path: str | PathLike[str], kind: Kind | None = None) -> pd.DataFrame:
    """Return the files that a table lists, one row a case (case, path and, for masks, kind), sorted by case.

    Parameters
    ----------
    path : path
        CSV, TSV or XLSX with the columns case, path and, for masks if wanted, kind. A path is absolute or starts from
        the folder of the table, and may lead anywhere; it is taken as written, blanks and all. An image suffix of a
        case does not count.
    kind : str, optional
        Of the masks whose row has none; None when the files are no masks.

    Raises
    ------
    AuditError
        What reading the sheet raises; UNKNOWN_COLUMN, KEY_BLANK, PATH_BLANK, MASK_DOUBLED, MASK_DANGLING,
        UNKNOWN_KIND: every fault of the table at once, with its lines.
    """
    sheet = read_sheet(path)
    table, where = sheet.table, str(sheet.path)
    raise_errors(
        Finding("UNKNOWN_COLUMN", f"there is no column '{name}'.", where, did_you_mean(name, table.columns))
        for name in ("case", "path")
        if name not in table.columns
    )
    cases = [stem(cell) for cell in table["case"].tolist()]
    paths = list(_places(sheet.path.parent, table["path"].tolist()))
    kinds = [cell.strip() or str(kind) for cell in table.get("kind", [""] * len(table))]
    raise_errors(_faults(sheet, cases, paths, kinds if kind is not None else []))
    found = pd.DataFrame({"case": cases, "path": paths, "kind": kinds}).sort_values("case", ignore_index=True)
    return found if kind is not None else found[["case", "path"]]


def _places(folder: Path, written: Iterable[str]) -> Iterator[str]:
    """Yield where each path leads that starts from a folder, without its `..` where that is the same place."""

    @cache
    def start(parent: str) -> str:
        place = folder / parent
        tidy = Path(os.path.normpath(place))
        found = tidy if os.path.realpath(place) == os.path.realpath(tidy) else place
        return "" if found == Path() else str(found).rstrip(os.sep) + os.sep

    for cell in written:
        parent, slash, name = cell.rpartition("/")
        yield start(parent + slash) + name if cell.strip() else ""


def _is_file(path: str) -> bool:
    try:
        return Path(path).is_file()
    except OSError:  # a name that is too long for the file system
        return False


def _faults(sheet: Sheet, cases: Sequence[str], paths: Sequence[str], kinds: Sequence[str]) -> Iterator[Finding]:
    where = str(sheet.path)
    lines = sheet.line_numbers
    nameless = [line for line, case in zip(lines, cases, strict=True) if not case]
    if nameless:
        fact = f"{counted(len(nameless), 'row names', 'rows name')} no case (lines {listing(nameless)})."
        yield Finding("KEY_BLANK", fact, f"{where}, column 'case'", "name the case in each row, or remove the row.")
    blank = [line for line, path in zip(lines, paths, strict=True) if not path]
    if blank:
        fact = f"{counted(len(blank), 'row has', 'rows have')} no path (lines {listing(blank)})."
        fix = "write the path of the file, or remove the row: a case without a row has no file."
        yield Finding("PATH_BLANK", fact, f"{where}, column 'path'", fix)
    at: defaultdict[str, list[int]] = defaultdict(list)
    for line, case in zip(lines, cases, strict=True):
        at[case].append(line)
    doubled = [f"'{case}' in lines {listing(found)}" for case, found in at.items() if case and len(found) > 1]
    if doubled:
        fact = f"{counted(len(doubled), 'case has', 'cases have')} two files or more ({'; '.join(doubled[:5])})."
        yield Finding("MASK_DOUBLED", fact, f"{where}, column 'case'", "keep one row a case.")
    gone = [f"line {line}: {path}" for line, path in zip(lines, paths, strict=True) if path and not _is_file(path)]
    if gone:
        fact = f"{len(gone)} of {len(paths)} paths lead to no file ({listing(gone, 3)})."
        fix = "mend them; a path that is not absolute starts from the folder of the table."
        yield Finding("MASK_DANGLING", fact, f"{where}, column 'path'", fix)
    unknown: defaultdict[str, list[int]] = defaultdict(list)
    for line, kind in zip(lines, kinds, strict=False):
        if kind not in KINDS:
            unknown[kind].append(line)
    for kind, found in unknown.items():
        fact = f"'{kind}' is no kind of mask (lines {listing(found)})."
        yield Finding("UNKNOWN_KIND", fact, f"{where}, column 'kind'", did_you_mean(kind, KINDS))
