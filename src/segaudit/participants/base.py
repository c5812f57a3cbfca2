"""Participants: a table whose rows are people or exams, and its attributes on demand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segaudit.attributes import (
    ALIASES,
    SEX_MISSING,
    TOP_CODED,
    UNUSABLE,
    Attribute,
    AttributeKind,
    Declaration,
    canonical,
    codes_for,
    fold,
    parse_ages,
    parse_levels,
    parse_numbers,
    resolve_column,
    sex_dictionary,
    tallied,
)
from segaudit.errors import AuditError, Finding, counted, did_you_mean
from segaudit.participants.dictionaries import ColumnNotes
from segaudit.sheets import Sheet

TOP_CODED_COLUMN = "_top_coded"
"""Ends the name of the column that says which ages are lower bounds, as tables of cases have it."""
_TRUE = ("true", "yes", "1")


@dataclass(frozen=True)
class AttributeValues:
    """An attribute in the rows of a table.

    Attributes
    ----------
    attribute : Attribute
    values : tuple of str or float or None
        None where missing or unusable.
    top_coded : tuple of bool
        Ages of which only a lower bound is known; all False for other kinds.
    raw : tuple of str
        The cells as written.
    reasons : tuple of str
        Why a value is None; 'top-coded' beside a lower bound; else ''.
    findings : tuple of Finding
    """

    attribute: Attribute
    values: tuple[str | float | None, ...]
    top_coded: tuple[bool, ...]
    raw: tuple[str, ...]
    reasons: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Participants:
    """A participants table whose rows are named by a key.

    Attributes
    ----------
    sheet : Sheet
    keys : tuple of str
        The key of each row, as written but for surrounding blanks.
    key_names_patient : bool
        Whether the key column is itself a patient column, so that a row is a patient.
    patients : tuple of str or None
        The patient of each row, where a column says so.
    attributes : mapping of str to Attribute
        What a join brings along: the attributes asked for, or every column.
    declared : mapping of str to Declaration or None
        What the user said of the attributes; None when every column is to be had.
    missing : mapping of str to str
        Missing codes and their reasons.
    dictionary : mapping of str to ColumnNotes
        The data dictionary beside the table.
    findings : tuple of Finding
    """

    sheet: Sheet
    keys: tuple[str, ...]
    key_names_patient: bool
    patients: tuple[str, ...] | None
    attributes: Mapping[str, Attribute]
    declared: Mapping[str, Declaration] | None
    missing: Mapping[str, str]
    dictionary: Mapping[str, ColumnNotes]
    findings: tuple[Finding, ...] = ()

    def attribute(self, name: str, kind: AttributeKind | None = None) -> AttributeValues:
        """Return an attribute by its name, or by the name of any column; `kind` overrides what is inferred.

        Raises
        ------
        AuditError
            UNKNOWN_ATTRIBUTE or ATTRIBUTE_AMBIGUOUS.
        """
        declared = (self.declared or {}).get(name, Declaration())
        attribute = self.attributes.get(name)
        notes: list[Finding] = []
        if attribute is None:
            attribute, note = located(name, declared, list(self.sheet.table.columns), str(self.sheet.path))
            notes += [note] if note else []
        if kind is not None:
            attribute = Attribute(name, kind, attribute.of, attribute.column)
        return self._parsed(attribute, declared, notes)

    def is_asked_for(self, name: str) -> bool:
        """Return whether the user, or custom (sex, age, race, ethnicity), asks for this attribute."""
        return self.declared is not None or name in ALIASES

    def _parsed(self, attribute: Attribute, declared: Declaration, notes: list[Finding]) -> AttributeValues:
        raw = tuple(self.sheet.table[attribute.column])
        about = self.dictionary.get(attribute.column, ColumnNotes())
        is_sex = "sex" in {canonical(attribute.name), canonical(attribute.column)}
        base = dict(self.missing) | (dict(SEX_MISSING) if is_sex and not about.levels.keys() & {"U", "u"} else {})
        given = declared.missing if isinstance(declared.missing, Mapping) else dict.fromkeys(declared.missing, "")
        own = Declaration(values=declared.values, missing={**dict.fromkeys(about.missing, ""), **given})
        codes = codes_for(base, attribute.kind, own)
        where = f"{self.sheet.path}, column '{attribute.column}'"
        if attribute.kind == "level":
            described = {code: level for code, level in about.levels.items() if fold(code) not in map(fold, own.values)}
            dictionary = described | dict(own.values)
            levels = parse_levels(raw, sex_dictionary(dictionary) if is_sex else dictionary, codes)
            notes += _unexplained(levels.unexplained, attribute.name, where, has_dictionary=bool(dictionary))
            return AttributeValues(attribute, levels.levels, (False,) * len(raw), raw, levels.reasons, tuple(notes))
        if attribute.kind == "number":
            numbers = parse_numbers(raw, codes, decimal="," if self.sheet.delimiter == ";" else ".")
            values, top, reasons = numbers.values, (False,) * len(raw), numbers.reasons
        else:
            ages = parse_ages(raw, codes, unit=about.unit or "years")
            stated = self.sheet.table.get(f"{attribute.column}{TOP_CODED_COLUMN}", [""] * len(raw))
            bounds = zip(ages.top_coded, stated, ages.years, strict=True)
            top = tuple(bool(coded) or (fold(said) in _TRUE and not np.isnan(age)) for coded, said, age in bounds)
            values = ages.years
            reasons = tuple(TOP_CODED if coded else reason for coded, reason in zip(top, ages.reasons, strict=True))
        notes += _unusable(raw, reasons, attribute, where)
        kept = tuple(None if np.isnan(value) else float(value) for value in values)
        return AttributeValues(attribute, kept, top, raw, reasons, tuple(notes))


def _unexplained(unexplained: Mapping[str, int], name: str, where: str, *, has_dictionary: bool) -> list[Finding]:
    if has_dictionary and unexplained:
        fact = (
            f"{name}: the data dictionary does not explain {tallied(Counter(unexplained).elements())}; kept as levels."
        )
        return [Finding("LEVEL_UNDECLARED", fact, where, "add them to the values of the attribute.", "warning")]
    codes = {value: count for value, count in unexplained.items() if re.fullmatch(r"[-+]?\d+(\.\d+)?", value)}
    if not codes:
        return []
    fact = f"{name}: no data dictionary explains the codes {tallied(Counter(codes).elements())}; kept as levels."
    fix = 'say what they mean: values = {1 = "...", 2 = "..."} under the attribute, or kind = "number".'
    return [Finding("LEVEL_CODES_UNEXPLAINED", fact, where, fix, "warning")]


def _unusable(raw: Sequence[str], reasons: Sequence[str], attribute: Attribute, where: str) -> list[Finding]:
    bad = [(value, reason) for value, reason in zip(raw, reasons, strict=True) if reason in UNUSABLE]
    if not bad:
        return []
    each = Counter(reason for _, reason in bad)
    why = ", ".join(f"{reason} {each[reason]}" for reason in UNUSABLE if each[reason])
    values = tallied(value for value, _ in bad)
    fact = f"{attribute.name}: {counted(len(bad), 'value')} cannot be used ({why}): {values}."
    fix = 'mend them, name the missing codes, or read the attribute with kind = "level".'
    return [Finding("ATTRIBUTE_UNREADABLE", fact, where, fix, "warning")]


def located(name: str, declared: Declaration, columns: Sequence[str], where: str) -> tuple[Attribute, Finding | None]:
    """Return where an attribute stands and what it is, as declared or inferred from its name."""
    column, note = resolve_column(declared.column or name, columns, where)
    if declared.column is not None and note is not None:  # a column is named exactly, or not at all
        fact = f"there is no column '{declared.column}' for attribute '{name}'."
        raise AuditError(Finding("UNKNOWN_COLUMN", fact, where, did_you_mean(declared.column, columns)))
    is_age = "age" in {canonical(name), canonical(column)} and not declared.values
    kind = declared.kind or ("age" if is_age else "level")
    return Attribute(name, kind, declared.of or ("case" if kind == "age" else "patient"), column), note
