"""What a cell says of a person: missing codes, ages, levels and numbers; nothing is dropped without a reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from segaudit.errors import AuditError, Finding
from segaudit.groupings import unknown_attribute

AttributeKind = Literal["level", "number", "age"]
Of = Literal["patient", "case"]

MAX_AGE_YEARS = 130.0
NOT_UNDERSTOOD = "not understood"
OUT_OF_RANGE = "out of range"
BOTTOM_CODED = "bottom-coded"
TOP_CODED = "top-coded"
NO_ROW = "no participant row"
UNUSABLE = (NOT_UNDERSTOOD, OUT_OF_RANGE, BOTTOM_CODED)

# Compared without regard to case and blanks. Codes that are numbers count for numbers and ages only: a level may be
# called 999; where it means missing, the attribute's own codes say so. "Other" is a level, never missing.
MISSING_CODES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("", "n/a", "n.a.", "na", "n-a", "#n/a", "nan", "null", "none", "nil"), "missing"),
        **dict.fromkeys(("-", "--", "---", ".", "..", "?", "missing", "<na>", "nat", "no data"), "missing"),
        **dict.fromkeys(("unknown", "unk", "not known", "undetermined", "indeterminate"), "unknown"),
        **dict.fromkeys(
            ("not reported", "not available", "not recorded", "not stated", "not collected"), "not reported"
        ),
        **dict.fromkeys(("not specified", "unspecified", "unreported", "not provided"), "not reported"),
        **dict.fromkeys(("unknown / not reported", "unknown/not reported"), "unknown or not reported"),
        **dict.fromkeys(("declined", "refused", "prefer not to say", "prefer not to answer"), "declined"),
        **dict.fromkeys(("not applicable",), "not applicable"),
        **dict.fromkeys(("-1", "-9", "-99", "-999", "-9999", "999", "9999"), "missing"),
    }
)
# DICOM writes O (other, a level) and U (unknown) beside M and F.
SEX_LEVELS: Mapping[str, str] = MappingProxyType({"M": "Male", "male": "Male", "F": "Female", "female": "Female"})
SEX_MISSING: Mapping[str, str] = MappingProxyType({"u": "unknown"})

# Names under which tables hold an attribute, in letters and digits only.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sex": ("gender", "patientsex", "patientgender", "participantsex", "biologicalsex", "sexatbirth"),
        "age": ("patientage", "participantage", "ageatimaging", "ageatscan", "ageatexam", "ageyears", "ageinyears"),
        "race": ("patientrace",),
        "ethnicity": ("patientethnicity", "ethnicgroup"),
    }
)

# 1,234 may be a thousand or a fraction: it is not understood
_NUMBER = r"(?!-?\d{1,3},\d{3}(?!\d))-?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:e[-+]?\d+)?"
_UNITS = {"d": 1 / 365.25, "w": 7 / 365.25, "m": 1 / 12, "y": 1.0}
_UNIT = r"d|days?|w|wks?|weeks?|m|mos?|mths?|months?|y|yo|y/o|yrs?|years?(?: old)?"
_OVER = r">=?|≥|over|above|older than|more than"
_UNDER = r"<=?|≤|under|below|younger than|less than"
_OR_OVER = r"\+|plus|(?:or|and) (?:older|over|above|more|up)"
_AGE = re.compile(
    rf"(?:(?P<over>{_OVER})|(?P<under>{_UNDER}))?\s*(?P<number>{_NUMBER})\s*(?P<plus>\+)?\s*(?P<unit>{_UNIT})?\.?"
    rf"\s*(?P<or_over>{_OR_OVER})?",
    re.ASCII | re.IGNORECASE,
)
_PLAIN_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_SHOWN_VALUES = 10


@dataclass(frozen=True)
class Attribute:
    """What is known of a patient or of a case: where it was read and how.

    Attributes
    ----------
    name : str
    kind : {"level", "number", "age"}
        An age may be top-coded: then `<name>_top_coded` is true and the value is its lower bound in years.
    of : {"patient", "case"}
    column : str
        Column of the participants table.
    """

    name: str
    kind: AttributeKind
    of: Of
    column: str


@dataclass(frozen=True)
class Declaration:
    """What the user says of an attribute; what is left out is inferred from its name and the data dictionary.

    Attributes
    ----------
    column : str, optional
        Column of the participants table, where it is not the attribute's name.
    kind : {"level", "number", "age"}, optional
    of : {"patient", "case"}, optional
        By default an attribute is the patient's; an age is the case's, since a patient ages between exams.
    values : mapping of str to str
        Code as written to level; a code named here is never missing.
    missing : tuple of str, or mapping of str to str
        More codes that mean missing here, or these codes and their reasons (a blank one: that of the usual codes).
    """

    column: str | None = None
    kind: AttributeKind | None = None
    of: Of | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] | Mapping[str, str] = ()


@dataclass(frozen=True, slots=True)
class ParsedAges:
    """Ages in years (float64, NaN where unusable), which are lower bounds, and why a value is unusable (else '')."""

    years: NDArray[np.float64]
    top_coded: NDArray[np.bool_]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedNumbers:
    """Numbers (float64, NaN where unusable), and why a value is unusable ('' where it is usable)."""

    values: NDArray[np.float64]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedLevels:
    """Levels (None where missing), why each is missing, and the counts of values that no dictionary explains."""

    levels: tuple[str | None, ...]
    reasons: tuple[str, ...]
    unexplained: Mapping[str, int]


def fold(text: str) -> str:
    """Return the text without regard to case and blanks, for comparison only."""
    return " ".join(text.split()).casefold()


def letters(name: str) -> str:
    """Return the letters and digits of a column name, lower case, for comparison only."""
    return "".join(character for character in name.casefold() if character.isalnum())


def listing(names: Iterable[object], shown: int = 5) -> str:
    """Return the first names and how many more there are."""
    items = [str(name) for name in names]
    more = f" and {len(items) - shown} more" if len(items) > shown else ""
    return ", ".join(items[:shown]) + more


def tallied(values: Iterable[str]) -> str:
    """Return each distinct value with its count, the most frequent first."""
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return listing([f"'{value}' ({count})" for value, count in counts], _SHOWN_VALUES)


def codes_for(missing: Mapping[str, str], kind: AttributeKind, declared: Declaration | None = None) -> dict[str, str]:
    """Return the missing codes of one attribute: those of the dictionary that fit its kind, and its own."""
    own = declared or Declaration()
    codes = {fold(code): reason for code, reason in missing.items()}
    if kind == "level":
        codes = {code: reason for code, reason in codes.items() if not _PLAIN_NUMBER.fullmatch(code)}
    for code in own.values:
        codes.pop(fold(code), None)
    reasons = own.missing if isinstance(own.missing, Mapping) else {}
    return codes | {fold(code): reasons.get(code) or codes.get(fold(code), "missing") for code in own.missing}


def parse_ages(values: Sequence[str], missing: Mapping[str, str] = MISSING_CODES, *, unit: str = "years") -> ParsedAges:
    """Return ages in years from text as people and machines write it.

    '61', '61.0', '61,5', '61Y', '061Y', '42 years', '018M' (months), '012W' (weeks), '001D' (days); top-coded '89+',
    '>89', '90 or older'. A month is 1/12 and a day 1/365.25 of a year.

    Parameters
    ----------
    values : sequence of str
        One value a row, as written.
    missing : mapping of str to str
        Code to reason.
    unit : str
        Unit of numbers without one: years, months, weeks or days.

    Returns
    -------
    ParsedAges
        A reason that is no missing code's: not understood, out of range (below 0 or above 130 years) or bottom-coded
        ('<1': only an upper bound is known, so it is not used).
    """
    codes = _folded_codes(missing)
    parsed = {value: _age(value, codes, unit.strip()[:1].lower()) for value in set(values)}
    years, top, reasons = zip(*(parsed[value] for value in values), strict=True) if values else ((), (), ())
    return ParsedAges(np.array(years, dtype=np.float64), np.array(top, dtype=np.bool_), tuple(reasons))


def _age(value: str, codes: Mapping[str, str], unit: str) -> tuple[float, bool, str]:
    text = fold(value)
    reason = _missing_reason(text, codes)
    if reason:
        return np.nan, False, reason
    found = _AGE.fullmatch(text)
    tops = [mark for mark in ("over", "plus", "or_over") if found and found[mark]]
    if not found or len(tops) > 1 or (found["under"] and tops):
        return np.nan, False, NOT_UNDERSTOOD
    if found["under"]:
        return np.nan, False, BOTTOM_CODED
    years = float(found["number"].replace(",", ".")) * _UNITS[(found["unit"] or unit)[0]]
    # written as a comparison that NaN fails
    return (years, bool(tops), "") if 0 <= years <= MAX_AGE_YEARS else (np.nan, False, OUT_OF_RANGE)


def parse_numbers(
    values: Sequence[str], missing: Mapping[str, str] = MISSING_CODES, *, decimal: str = "."
) -> ParsedNumbers:
    """Return numbers from text; with `decimal=","` a comma may stand for the point.

    A number with a thousands separator, a unit or a comparison sign is not understood.
    """
    codes = _folded_codes(missing)
    parsed = {value: _number(value, codes, decimal) for value in set(values)}
    numbers, reasons = zip(*(parsed[value] for value in values), strict=True) if values else ((), ())
    return ParsedNumbers(np.array(numbers, dtype=np.float64), tuple(reasons))


def _number(value: str, codes: Mapping[str, str], decimal: str) -> tuple[float, str]:
    text = fold(value)
    if decimal == "," and "." not in text:
        text = text.replace(",", ".", 1)
    reason = _missing_reason(text, codes)
    if reason:
        return np.nan, reason
    number = float(text) if _PLAIN_NUMBER.fullmatch(text) else np.nan
    return (number, "") if np.isfinite(number) else (np.nan, NOT_UNDERSTOOD)


def _folded_codes(missing: Mapping[str, str]) -> dict[str, str]:
    """Return the codes folded, and numbers among them by value, so that -1.0 is found where -1 is a code."""
    codes = {fold(code): reason for code, reason in missing.items()}
    return {str(float(code)): reason for code, reason in codes.items() if _PLAIN_NUMBER.fullmatch(code)} | codes


def _missing_reason(text: str, codes: Mapping[str, str]) -> str:
    if text in codes:
        return codes[text]
    return codes.get(str(float(text)), "") if _PLAIN_NUMBER.fullmatch(text) else ""


def parse_levels(
    values: Sequence[str], dictionary: Mapping[str, str] | None = None, missing: Mapping[str, str] = MISSING_CODES
) -> ParsedLevels:
    """Return levels: each value as written without surrounding blanks, or what the dictionary calls it.

    Parameters
    ----------
    values : sequence of str
        One value a row, as written.
    dictionary : mapping of str to str, optional
        Code to level. A code is found as written, else without regard to case where that is unambiguous.
    missing : mapping of str to str
        Code to reason; looked up for the value, and for what the dictionary calls it.
    """
    book = dict(dictionary or {})
    folds = Counter(fold(code) for code in book)
    by_fold = {fold(code): level for code, level in book.items() if folds[fold(code)] == 1}
    named = {fold(level) for level in book.values()}
    codes = {fold(code): reason for code, reason in missing.items()}
    parsed: dict[str, tuple[str | None, str]] = {}
    unexplained: Counter[str] = Counter()
    for value, count in Counter(values).items():
        text = value.strip()
        level = book.get(text, by_fold.get(fold(text), text)).strip() or text
        reason = codes.get(fold(text)) or codes.get(fold(level), "")
        parsed[value] = (None, reason) if reason else (level, "")
        if not reason and text not in book and fold(text) not in by_fold and fold(text) not in named:
            unexplained[text] += count
    return ParsedLevels(
        tuple(parsed[value][0] for value in values), tuple(parsed[value][1] for value in values), dict(unexplained)
    )


def sex_dictionary(dictionary: Mapping[str, str]) -> dict[str, str]:
    """Return a data dictionary of sex whose levels are called Male and Female however they are written."""
    usual = {fold(code): level for code, level in SEX_LEVELS.items()}
    ours = {code: usual.get(fold(level), level) for code, level in dictionary.items()}
    known = {fold(code) for code in ours}
    return {code: level for code, level in SEX_LEVELS.items() if fold(code) not in known} | ours


def canonical(column: str) -> str | None:
    """Return the name under which a column is usually asked for (sex, age, race, ethnicity), or None."""
    plain = letters(column)
    return next((name for name, aliases in ALIASES.items() if plain == name or plain in aliases), None)


def resolve_column(name: str, columns: Sequence[str], where: str) -> tuple[str, Finding | None]:
    """Return the column that holds an attribute, and a note where it has another name.

    The exact name wins; then the name but for case and punctuation; then the names in `ALIASES`.

    Raises
    ------
    AuditError
        UNKNOWN_ATTRIBUTE, or ATTRIBUTE_AMBIGUOUS when two columns fit equally well.
    """
    if name in columns:
        return name, None
    plain = letters(name)
    same = [column for column in columns if letters(column) == plain]
    fits = same or [column for column in columns if letters(column) in ALIASES.get(plain, ())]
    if not fits:
        raise AuditError(unknown_attribute(name, columns, where))
    if len(fits) > 1:
        fact = f"columns {' and '.join(repr(column) for column in fits)} both fit attribute '{name}'."
        raise AuditError(Finding("ATTRIBUTE_AMBIGUOUS", fact, where, "name the column."))
    fact = f"attribute '{name}' is read from column '{fits[0]}'."
    return fits[0], Finding("ATTRIBUTE_ALIAS", fact, where, "name the column if this is the wrong one.", "note")
