"""Sheet: a table of text as it stands in a file; and how records become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from segaudit.errors import AuditError, Finding, raise_errors

# In order of trust: a comma stands in text more often than a tab does.
DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar"}
_SHOWN_ROWS = 10
MAX_CELLS = 64_000_000  # some GiB of memory; a row counts as 8 cells more than it has
_ROW = 8

Record = tuple[int, list[str]]


@dataclass(frozen=True)
class Sheet:
    """A table as it stands in a file.

    Attributes
    ----------
    table : DataFrame
        All text; cells exactly as written, column names without surrounding blanks.
    path : Path
        The file.
    line_numbers : tuple of int
        Line (row of a workbook) in the file at which each row of the table starts; the first line is 1.
    findings : tuple of Finding
        What was assumed while reading: notes and warnings.
    delimiter : str
        What separates the fields; empty for a workbook.
    """

    table: pd.DataFrame
    path: Path
    line_numbers: tuple[int, ...]
    findings: tuple[Finding, ...] = ()
    delimiter: str = ""


def sheet_of(path: Path, records: list[Record], delimiter: str, notes: list[Finding]) -> Sheet:
    """Return the records as a sheet, the first of them as its header; findings of the reading go before."""
    where = str(path)
    kept, blank = _without_blank(records)
    if len(kept) < 2:
        code, fact = ("SHEET_NO_ROWS", "there is a header but no row.") if kept else ("SHEET_EMPTY", "there is no row.")
        raise AuditError(Finding(code, fact, where, "give a file with a header and rows."))
    if blank:
        fact = f"{blank} blank rows were ignored."
        notes.append(Finding("ROWS_BLANK", fact, where, level="note"))
    head, rows = kept[0], kept[1:]
    names, header_notes = _names(head[1], usual_width(fields for _, fields in rows), delimiter, where)
    notes += header_notes
    _check_delimiter(names, delimiter, where)
    raise_errors(_ragged(rows, len(names), where))
    columns = [list(column) for column in zip(*(fields for _, fields in rows), strict=True)]
    raise_errors(_name_faults(names, columns, where, head[0]))
    unnamed = names.count("")
    if unnamed:
        notes.append(
            Finding("COLUMN_EMPTY", f"{unnamed} empty columns without a name were ignored.", where, level="note")
        )
    table = pd.DataFrame({name: column for name, column in zip(names, columns, strict=True) if name}, dtype="str")
    return Sheet(table, path, tuple(line for line, _ in rows), tuple(notes), delimiter)


def bounded(records: Iterable[Record], path: Path) -> list[Record]:
    """Return the records, unless they are more than memory should be taken for: few bytes may stand for many cells."""
    found, cells = [], 0
    for record in records:
        cells += len(record[1]) + _ROW
        if cells > MAX_CELLS:
            fact = f"the table has more than {MAX_CELLS} cells (a row counts as {_ROW} more), the limit."
            fix = "keep only the rows and columns of this cohort."
            raise AuditError(Finding("SHEET_TOO_LARGE", fact, f"{path}, line {record[0]}", fix))
        found.append(record)
    return found


def usual_width(rows: Iterable[Sequence[str]]) -> int:
    """Return the number of fields that most rows have."""
    return Counter(map(len, rows)).most_common(1)[0][0]


def _without_blank(records: list[Record]) -> tuple[list[Record], int]:
    """Return the records without empty lines and without all-blank rows at either end, and how many went."""
    kept = [record for record in records if record[1]]
    start, stop = 0, len(kept)
    while stop > start and not any(cell.strip() for cell in kept[stop - 1][1]):
        stop -= 1
    while start < stop and not any(cell.strip() for cell in kept[start][1]):
        start += 1
    return kept[start:stop], len(records) - (stop - start)


def merged(fields: Sequence[str], delimiter: str) -> list[list[str]]:
    """Return the header fields in runs, where a run holds a bracket that opens in its first and closes in its last."""
    runs: list[list[str]] = []
    position = 0
    while position < len(fields):
        stop = position + 1
        depth = _depth(fields[position])
        while depth > 0 and stop < len(fields):
            depth += _depth(fields[stop])
            stop += 1
        if depth != 0 or not delimiter:
            stop = position + 1
        runs.append(list(fields[position:stop]))
        position = stop
    return runs


def _depth(field: str) -> int:
    return sum(field.count(mark) for mark in "[({") - sum(field.count(mark) for mark in "])}")


def _names(fields: list[str], width: int, delimiter: str, where: str) -> tuple[list[str], list[Finding]]:
    """Return the column names; where a name itself holds the delimiter, the rows say how it is meant.

    `Size[Width,Height]` over one field stays one name; over two fields it becomes `Size[Width]` and `Size[Height]`.
    """
    runs = merged(fields, delimiter)
    split = [run for run in runs if len(run) > 1]
    names = list(fields)
    if split and len(fields) == width:
        names = [name for run in runs for name in _expanded(run)]
    elif split and len(runs) == width:
        names = [delimiter.join(run) for run in runs]
    names = [name.strip() for name in names]
    if names == [field.strip() for field in fields]:
        return names, []
    written = ", ".join(f"'{delimiter.join(run)}'" for run in split)
    fact = f"the header holds the delimiter inside names ({written}); the {width} columns are {', '.join(names)}."
    return names, [Finding("HEADER_BRACKETS", fact, where, "put such names into quotes.", "note")]


def _expanded(run: list[str]) -> list[str]:
    stem, opened, first = run[0].partition("[")
    if len(run) == 1 or not opened or not run[-1].rstrip().endswith("]"):
        return run
    parts = [first, *run[1:-1], run[-1].rstrip()[:-1]]
    return [f"{stem}[{part.strip()}]" for part in parts]


def _check_delimiter(names: list[str], delimiter: str, where: str) -> None:
    others = [mark for mark in DELIMITERS if mark != delimiter and mark in names[0]]
    if delimiter and len(names) == 1 and others:
        fact = f"there is a single column, '{names[0]}', and its name holds a {DELIMITERS[others[0]]}."
        fix = f"the fields are separated by a {DELIMITERS[others[0]]}: name that delimiter, or none."
        raise AuditError(Finding("SHEET_DELIMITER", fact, where, fix))


def _ragged(rows: list[Record], width: int, where: str) -> list[Finding]:
    wrong = [(line, len(fields)) for line, fields in rows if len(fields) != width]
    fix = "quote fields that hold the delimiter, and write an empty field for each value that is missing."
    found = [
        Finding("ROW_RAGGED", f"the row has {n} fields, the header {width}.", f"{where}, line {line}", fix)
        for line, n in wrong[:_SHOWN_ROWS]
    ]
    if len(wrong) > _SHOWN_ROWS:
        fact = f"{len(wrong) - _SHOWN_ROWS} more of {len(rows)} rows do not have {width} fields."
        found.append(Finding("ROW_RAGGED", fact, where, fix))
    return found


def _name_faults(names: list[str], columns: list[list[str]], where: str, line: int) -> Iterator[Finding]:
    place = f"{where}, line {line}"
    for name, count in Counter(names).items():
        if name and count > 1:
            yield Finding("COLUMN_DOUBLED", f"{count} columns are named '{name}'.", place, "give each its own name.")
    for position, (name, column) in enumerate(zip(names, columns, strict=True), 1):
        if not name and any(cell.strip() for cell in column):
            yield Finding(
                "COLUMN_UNNAMED", f"column {position} has values but no name.", place, "name it, or remove it."
            )
