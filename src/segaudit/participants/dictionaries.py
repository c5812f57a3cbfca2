"""Data dictionaries in JSON: what the codes of a column mean, as BIDS sidecars say it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from segaudit.errors import AuditError, Finding
from segaudit.files import read_file

MAX_JSON_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class ColumnNotes:
    """What a data dictionary says of a column: its levels, its missing codes, its unit."""

    levels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    unit: str = ""


def read_json(path: Path, fix: str) -> Any:
    """Return what a JSON file holds.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE, JSON_TOO_LARGE or JSON_MALFORMED (with line and column).
    """
    where = str(path)
    raw = read_file(path, MAX_JSON_BYTES, what="JSON", fix=fix)
    try:
        data = json.loads(raw.decode("utf-8-sig"))
        json.dumps(data, ensure_ascii=False).encode()  # half of a surrogate pair, which JSON can write, is no text
    except json.JSONDecodeError as error:
        fact = f"this is no valid JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        place = f"{where}, line {error.lineno}, column {error.colno}"
        raise AuditError(Finding("JSON_MALFORMED", fact, place, fix)) from None
    except (ValueError, RecursionError) as error:  # no UTF-8, a number of thousands of digits
        raise AuditError(Finding("JSON_MALFORMED", f"this is no valid JSON: {error}.", where, fix)) from None
    return data


def read_dictionary(path: Path) -> dict[str, ColumnNotes]:
    """Return what a BIDS sidecar says of each column.

    Raises
    ------
    AuditError
        What `read_json` raises, and JSON_FORMAT when the file is not an object of columns.
    """
    fix = "repair it, or read the table without it: sidecar = false in cohort.toml, sidecar=None in Python."
    data = read_json(path, fix)
    if not isinstance(data, dict):
        fact = f"a data dictionary is an object of columns, not {type(data).__name__}."
        raise AuditError(Finding("JSON_FORMAT", fact, str(path), fix))
    return {column: _notes(about) for column, about in data.items() if isinstance(about, dict)}


def _notes(about: dict[str, Any]) -> ColumnNotes:
    levels, annotations = about.get("Levels"), about.get("Annotations")
    missing = annotations.get("MissingValues") if isinstance(annotations, dict) else None
    unit = about.get("Units")
    return ColumnNotes(
        {str(code): _title(meaning) or str(code) for code, meaning in levels.items()}
        if isinstance(levels, dict)
        else {},
        tuple(map(str, missing)) if isinstance(missing, list) else (),
        unit if isinstance(unit, str) else "",
    )


def _title(meaning: object) -> str:
    """Return what a level is called; newer sidecars describe it by an object."""
    if isinstance(meaning, dict):
        meaning = meaning.get("Description")
    return meaning.strip() if isinstance(meaning, str) else ""
