"""XLSX workbooks, guarded against archives that unpack to too much and against XML entities."""

from __future__ import annotations

import datetime as dt
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import ParseError  # only the exception: openpyxl parses, and _guard refuses entities

from segaudit.errors import AuditError, Finding, did_you_mean
from segaudit.sheets.base import Record, bounded

MAX_XLSX_BYTES = 256 * 1024 * 1024  # unpacked


def workbook(raw: bytes, path: Path, sheet: str | None) -> tuple[list[Record], list[Finding]]:
    """Return the rows of a worksheet as text, and what was assumed."""
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    where = str(path)
    try:
        notes = _guard(raw, where)
        with warnings.catch_warnings():  # openpyxl warns of styles and validations, which are not read here
            warnings.simplefilter("ignore")
            book = load_workbook(io.BytesIO(raw), read_only=True, data_only=True)
            try:
                titles = [page.title for page in book.worksheets]
                chosen = _chosen(titles, sheet, where, notes)
                page = book.worksheets[titles.index(chosen)]
                page.reset_dimensions()  # the stated size of a page may be wrong
                numbered = enumerate(page.iter_rows(values_only=True), 1)
                records = bounded(((line, [_as_text(value) for value in row]) for line, row in numbered), path)
            finally:
                book.close()
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, InvalidFileException, ParseError) as error:
        raise _no_workbook(where, error) from None
    except (KeyError, ValueError, IndexError, TypeError, AttributeError, NotImplementedError) as error:
        raise _no_workbook(where, error) from None
    return bounded(_squared(records), path), notes


def _no_workbook(where: str, error: BaseException) -> AuditError:
    fact = f"the workbook cannot be read: {error}."
    return AuditError(Finding("SHEET_FORMAT", fact, where, "save it again as .xlsx, or the page as .csv."))


def _guard(raw: bytes, where: str) -> list[Finding]:
    """Refuse a workbook that unpacks to too much, or whose XML declares entities; note what was never computed."""
    uncomputed = 0
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        if "xl/workbook.xml" not in archive.namelist():
            raise AuditError(Finding("SHEET_FORMAT", "the zip archive holds no workbook.", where, "give a .xlsx file."))
        size = sum(member.file_size for member in archive.infolist())
        if size > MAX_XLSX_BYTES:
            fact = f"the workbook unpacks to {size} bytes; the limit is {MAX_XLSX_BYTES}."
            raise AuditError(Finding("SHEET_TOO_LARGE", fact, where, "save the page as .csv."))
        for member in archive.namelist():
            if member.endswith((".xml", ".rels")):
                content = archive.read(member)
                # a workbook never has a document type; without one there are no entities (NULs: UTF-16)
                if re.search(rb"<!(DOCTYPE|ENTITY)", content.replace(b"\0", b""), re.IGNORECASE):
                    fact = f"part {member} of the workbook declares XML entities."
                    raise AuditError(Finding("SHEET_ENTITIES", fact, where, "save the page as .csv."))
                uncomputed += len(re.findall(rb"</f>\s*(?:<v\s*/>|<v></v>)?\s*</c>", content))
    if not uncomputed:
        return []
    fact = f"{uncomputed} formulas have no stored result and read as blank."
    fix = "open and save the workbook in a spreadsheet program, or save the page as .csv."
    return [Finding("SHEET_FORMULAS", fact, where, fix, "warning")]


def _chosen(titles: list[str], sheet: str | None, where: str, notes: list[Finding]) -> str:
    if not titles or (sheet is not None and sheet not in titles):
        fact = f"there is no sheet named '{sheet}'." if titles else "the workbook has no worksheet."
        raise AuditError(Finding("UNKNOWN_SHEET", fact, where, did_you_mean(str(sheet), titles)))
    if sheet is None and len(titles) > 1:
        fact = f"the workbook has {len(titles)} sheets ({', '.join(titles)}); '{titles[0]}' was read."
        notes.append(Finding("SHEET_ASSUMED", fact, where, "name the sheet.", "note"))
    return sheet or titles[0]


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)


def _squared(records: list[Record]) -> Iterator[Record]:
    """Give rows of equal length: a page stores no blank cells at the end of a row."""
    width = max((1 + i for _, row in records for i, cell in enumerate(row) if cell.strip()), default=0)
    return ((line, [*row[:width], *[""] * (width - len(row))]) for line, row in records)
