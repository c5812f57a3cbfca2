"""Delimited text: bytes to text, the delimiter found, text to records."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from segaudit.errors import AuditError, Finding
from segaudit.sheets.base import DELIMITERS, Record, merged, usual_width

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BINARY = {
    b"\xd0\xcf\x11\xe0": "an old or an encrypted Excel workbook",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
}
_SNIFFED_RECORDS = 200


def decode(raw: bytes, path: Path, encoding: str | None) -> tuple[str, list[Finding]]:
    """Return the bytes as text, and a note where the encoding was assumed."""
    where, notes = str(path), []
    for magic, kind in _BINARY.items():
        if raw.startswith(magic):
            fix = "save the table as .csv, .tsv or .xlsx."
            raise AuditError(Finding("SHEET_FORMAT", f"this is {kind}, not a table of text.", where, fix))
    if path.suffix.lower() in {".xlsx", ".xlsm"}:
        raise AuditError(Finding("SHEET_FORMAT", "this is no XLSX file.", where, "save the table again, or as .csv."))
    used = encoding or next((name for bom, name in _BOMS if raw.startswith(bom)), "utf-8")
    try:
        text = raw.decode(used)
    except LookupError:
        fact = f"there is no encoding '{encoding}'."
        raise AuditError(Finding("SHEET_ENCODING", fact, where, "use utf-8, utf-16, windows-1252, ...")) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        fact = f"byte {error.object[error.start]:#04x} is not {used}."
        fault = Finding(
            "SHEET_ENCODING", fact, f"{where}, line {line}", "save the file as UTF-8, or name its encoding."
        )
        if used != "utf-8" or encoding is not None or b"\0" in raw:
            raise AuditError(fault) from None
        try:
            text = raw.decode("windows-1252")
        except UnicodeDecodeError:
            raise AuditError(fault) from None
        notes.append(
            Finding(
                "SHEET_ENCODING_ASSUMED",
                f"the file is not UTF-8 (first at line {line}); it was read as Windows-1252.",
                where,
                "save it as UTF-8 if letters look wrong.",
                "note",
            )
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        fix = "save the file as UTF-8 text; name the encoding if it is UTF-16 without a byte order mark."
        raise AuditError(Finding("SHEET_NUL", "the file holds NUL bytes.", f"{where}, line {line}", fix))
    return text.removeprefix("\ufeff"), notes


def records_of(text: str, delimiter: str, path: Path) -> Iterator[Record]:
    """Yield the records with the line at which each starts; line breaks inside quotes belong to their field."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            code, fact = "SHEET_QUOTES", f"the quotes do not pair up: {error}."
            if "limit" in str(error):
                code, fact = "SHEET_FIELD", f"a field has more than {csv.field_size_limit()} characters."
            fix = 'close the quote that this row opens; a quote inside a quoted field is written "".'
            raise AuditError(Finding(code, fact, f"{path}, line {line}", fix)) from None


def checked_delimiter(delimiter: str, path: Path) -> str:
    """Return the delimiter if it is one character that can separate fields."""
    if len(delimiter) != 1 or delimiter in '"\r\n':
        fact = f"{delimiter!r} cannot separate fields."
        raise AuditError(Finding("SHEET_DELIMITER", fact, str(path), "use one character, such as ',' or a tab."))
    return delimiter


def sniff(text: str, path: Path) -> str:
    """Return the delimiter under which header and rows agree best on their number of fields."""
    best, best_score = ",", (False, False, 0.0, 0)
    for delimiter in DELIMITERS:
        try:
            records = [fields for _, fields in islice(records_of(text, delimiter, path), _SNIFFED_RECORDS) if fields]
        except AuditError:
            continue
        width = usual_width(records[1:]) if len(records) > 1 else len(records[0])
        agree = [len(fields) == width for fields in records[1:]]
        agree.append(width in {len(records[0]), len(merged(records[0], delimiter))})
        if width > 1 or len(records[0]) > 1:
            is_tsv = delimiter == "\t" and path.suffix.lower() in {".tsv", ".tab"}
            score = (all(agree), is_tsv, sum(agree) / len(agree), width)
            if score > best_score:
                best, best_score = delimiter, score
    return best
