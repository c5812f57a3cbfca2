"""The cells of a participants table that read back as the attributes of a cohort."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.attributes import (
    UNUSABLE,
    Attribute,
    AttributeKind,
    Declaration,
    fold,
    listing,
    parse_ages,
    parse_numbers,
)
from segaudit.cohorts.base import Cohort
from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.participants import Participants, join_participants, participants_from
from segaudit.sheets import Sheet

_FEW_LEVELS = 20
_UNEXPLAINED = "LEVEL_CODES_UNEXPLAINED"


@dataclass(frozen=True)
class Written:
    """A participants table as it is written, and the entries of cohort.toml by which it is read."""

    header: list[str]
    rows: list[Sequence[str]]
    entries: dict[str, dict[str, Any]]


def participants_of(cohort: Cohort, path: Path) -> Written:
    """Return the participants table of a cohort: one row a case, one column an attribute, and how to read it.

    Raises
    ------
    AuditError
        COHORT_UNWRITABLE with every value that would come back as another; ATTRIBUTE_NAME, ATTRIBUTE_VARIES and what
        else joining raises.
    """
    cases = cohort.cases.sort_values("case", ignore_index=True)
    table: dict[str, list[str]] = {name: cases[name].tolist() for name in ("case", "patient")}
    declared = {}
    for attribute in _attributes(cohort):
        column = _column(attribute.name, table)
        table[column], codes = _cells(cohort, cases, attribute)
        own = None if column == attribute.name else column
        declared[attribute.name] = Declaration(own, attribute.kind, attribute.of, missing=codes)
    sheet = Sheet(pd.DataFrame(table, dtype="str"), path, tuple(range(2, len(cases) + 2)), delimiter=",")
    people = _read(sheet, declared)
    for name in people.attributes:
        levels = _levels_to_name(people, name, cases[name], cohort.findings)
        declared[name] = replace(declared[name], values=levels)
    raise_errors(_changed(cohort, cases, _read(sheet, declared)))
    rows: list[Sequence[str]] = list(zip(*table.values(), strict=True))
    return Written(list(table), rows, {name: _entry(one) for name, one in declared.items()})


def _attributes(cohort: Cohort) -> Iterator[Attribute]:
    """Yield the attributes, and as the case's what stands among the cases undeclared."""
    yield from cohort.attributes.values()
    names = list(cohort.cases.columns)
    own = {"case", "patient", *cohort.attributes, *(f"{name}_top_coded" for name in names)}
    for name in names:
        if name not in own:
            is_number = pd.api.types.is_float_dtype(cohort.cases[name])
            kind: AttributeKind = "age" if f"{name}_top_coded" in names else "number" if is_number else "level"
            yield Attribute(name, kind, "case", name)


def _column(name: str, taken: Mapping[str, object]) -> str:
    """Return the name of an attribute as that of its column, or another where a header would not keep it."""
    if name and name == name.strip() and not set("[](){}") & set(name) and name not in taken:
        return name
    return next(other for n in count(1) if (other := f"attribute {n}") not in taken)


def _read(sheet: Sheet, declared: Mapping[str, Declaration]) -> Participants:
    # no usual missing codes: a case, a patient and a level may be called anything
    return participants_from(sheet, key="case", patient="patient", attributes=declared, missing={})


def _cells(cohort: Cohort, cases: pd.DataFrame, attribute: Attribute) -> tuple[list[str], dict[str, str]]:
    """Return the cells of an attribute, and the codes in them that mean missing, each with its reason.

    A missing value is written as it was in its own table, unless that text means something else here, too.
    """
    name, kind = attribute.name, attribute.kind
    own = cohort.missing[cohort.missing["attribute"] == name]
    rows = zip(*(own[column].tolist() for column in ("case", "raw", "reason")), strict=True)
    told = {case: (raw, reason) for case, raw, reason in rows}
    top = cases.get(f"{name}_top_coded", pd.Series(data=False, index=cases.index))
    cells: list[str | None] = []
    for case, value, is_top in zip(cases["case"].tolist(), cases[name].tolist(), top.tolist(), strict=True):
        raw, reason = told.get(case, ("", ""))
        if pd.notna(value):
            cells.append(_lower_bound(value, raw) if kind == "age" and is_top else _text(value, kind))
        else:
            cells.append(raw if reason in UNUSABLE and _reason(raw, kind) == reason else None)
    meant = {_met(cell, kind) for cell in cells if cell is not None}
    codes: dict[str, tuple[str, str]] = {}  # as compared: as written, reason
    for position, case in enumerate(cases["case"].tolist()):
        if cells[position] is None:
            raw, reason = told.get(case, ("", "missing"))
            cells[position] = _code(raw, reason or "missing", kind, meant, codes)
    return [cell or "" for cell in cells], dict(codes.values())


def _code(raw: str, reason: str, kind: AttributeKind, meant: set[str], codes: dict[str, tuple[str, str]]) -> str:
    """Return the text that stands for a missing value: as it was, or the reason itself, numbered if need be."""
    for text in (raw, reason, *(f"{reason} ({n})" for n in range(2, len(meant) + len(codes) + 4))):
        key = _met(text, kind)
        if key not in meant and codes.setdefault(key, (text, reason))[1] == reason:
            return text
    raise AssertionError("one of so many texts is free")


def _met(text: str, kind: AttributeKind) -> str:
    """Return a text as missing codes are compared: folded, and numbers by value."""
    folded = fold(text)
    try:
        return folded if kind == "level" else str(float(folded))
    except ValueError:
        return folded


def _text(value: object, kind: AttributeKind) -> str:
    return str(value) if kind == "level" else repr(float(str(value))).removesuffix(".0")


def _lower_bound(value: float, raw: str) -> str:
    read = parse_ages([raw], {})
    return raw if read.top_coded[0] and read.years[0] == value else f"{_text(value, 'age')}+"


def _reason(raw: str, kind: AttributeKind) -> str:
    """Return why a text that is no missing code is unusable; of levels none is."""
    if kind == "level":
        return ""
    return (parse_ages([raw], {}) if kind == "age" else parse_numbers([raw], {})).reasons[0]


def _levels_to_name(people: Participants, name: str, values: pd.Series, findings: Sequence[Finding]) -> dict[str, str]:
    """Return the levels to be named in cohort.toml: all, where some would be read otherwise or as unknown codes."""
    read = people.attribute(name)
    if read.attribute.kind != "level":
        return {}
    levels = [str(value) if pd.notna(value) else None for value in values.tolist()]
    distinct = sorted({level for level in levels if level})
    warned = any(f.code == _UNEXPLAINED and f.message.startswith(f"{name}:") for f in findings)
    doubtful = any(f.code == _UNEXPLAINED for f in read.findings) and not warned and len(distinct) <= _FEW_LEVELS
    return {level: level for level in distinct} if doubtful or list(read.values) != levels else {}


def _changed(cohort: Cohort, cases: pd.DataFrame, people: Participants) -> Iterator[Finding]:
    """Yield what would come back as something else: of a cohort that was read, nothing."""
    where = f"cohort '{cohort.name}'"
    fix = "call it otherwise in the cohort."
    try:
        again = join_participants(people, cases["case"].tolist())
    except AuditError as error:
        yield from error.findings
        return
    same = again.cases["case"].tolist() == cases["case"].tolist() == list(people.keys)
    if not same:
        lost = [f"'{case}'" for case, key in zip(cases["case"], people.keys, strict=False) if case != key]
        fact = f"{len(lost)} names of cases would not come back ({listing(lost)})."
        yield Finding("COHORT_UNWRITABLE", fact, where, "name them without blanks around, each once.")
        return
    for name in ("patient", *again.cases.columns[2:]):
        old = cases[name] if name in cases else pd.Series(data=False, index=cases.index)  # no age is top-coded
        new = again.cases[name]
        pairs = zip(cases["case"].tolist(), _plain(old, new), _plain(new, new), strict=True)
        other = [f"{case}: {was!r} as {comes!r}" for case, was, comes in pairs if was != comes]
        if other:
            fact = f"{len(other)} values of '{name}' would come back as others ({listing(other, 3)})."
            yield Finding("COHORT_UNWRITABLE", fact, where, fix)


def _plain(values: pd.Series, like: pd.Series) -> list[object]:
    """Return values as they are compared: numbers where the other column holds numbers, else text; None is null."""
    kind = float if pd.api.types.is_float_dtype(like) else str
    return [kind(value) if pd.notna(value) else None for value in values.tolist()]


def _entry(declared: Declaration) -> dict[str, Any]:
    """Return a declaration as a table of cohort.toml."""
    entry = {"column": declared.column, "of": declared.of, "kind": declared.kind}
    found: dict[str, Any] = {name: value for name, value in entry.items() if value is not None}
    codes = dict(declared.missing) if isinstance(declared.missing, Mapping) else {}
    if declared.values:
        found["values"] = dict(declared.values)
    return found | ({"missing": codes} if codes else {})
