"""The only door to delimited text and XLSX: a file becomes a table of text, as written, with its line numbers."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from segaudit.errors import AuditError, Finding
from segaudit.files import read_file
from segaudit.sheets.base import Sheet as Sheet
from segaudit.sheets.base import bounded, sheet_of
from segaudit.sheets.delimited import checked_delimiter, decode, records_of, sniff
from segaudit.sheets.workbooks import workbook

MAX_SHEET_BYTES = 128 * 1024 * 1024


def read_sheet(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Sheet:
    """Return the table in a CSV, TSV, semicolon-separated or XLSX file, all text as written.

    Parameters
    ----------
    path : path
        The file; its content, not its name, says what it is.
    delimiter : str, optional
        One character; by default the one that cuts header and rows into the same number of fields.
    encoding : str, optional
        By default the byte order mark, else UTF-8, else Windows-1252 with a note.
    sheet : str, optional
        Worksheet of a workbook; by default the first.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE, SHEET_TOO_LARGE, SHEET_FORMAT, SHEET_ENCODING, SHEET_NUL, SHEET_QUOTES,
        SHEET_FIELD, SHEET_DELIMITER, SHEET_EMPTY, SHEET_NO_ROWS, SHEET_ENTITIES, UNKNOWN_SHEET, COLUMN_UNNAMED,
        COLUMN_DOUBLED or ROW_RAGGED.
    """
    path = Path(path)
    raw = read_file(path, MAX_SHEET_BYTES, what="SHEET", fix="keep only the rows and columns of this cohort.")
    if raw.startswith(b"PK\x03\x04"):
        records, notes = workbook(raw, path, sheet)
        return sheet_of(path, records, "", notes)
    text, notes = decode(raw, path, encoding)
    if sheet is not None:
        raise AuditError(
            Finding("SHEET_FORMAT", f"sheet '{sheet}' is asked for, but this is no XLSX file.", str(path), "drop it.")
        )
    if not text.strip():
        raise AuditError(Finding("SHEET_EMPTY", "the file is empty.", str(path), "give a file with a header and rows."))
    used = checked_delimiter(delimiter, path) if delimiter is not None else sniff(text, path)
    return sheet_of(path, bounded(records_of(text, used, path), path), used, notes)
