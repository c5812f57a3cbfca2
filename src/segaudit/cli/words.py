"""Words of the command line: NAME=VALUE options, and findings as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from segaudit.errors import AuditError, Finding


def pairs(words: Sequence[str], option: str) -> dict[str, str]:
    """Return NAME=VALUE words as a dictionary.

    Raises
    ------
    AuditError
        OPTION_FORM for each word without '=', OPTION_TWICE for a repeated name.
    """
    found: dict[str, str] = {}
    findings = []
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            findings.append(
                Finding("OPTION_FORM", f"'{word}' is not NAME=VALUE.", option, f"write {option} NAME=VALUE.")
            )
        elif name in found:
            findings.append(Finding("OPTION_TWICE", f"'{name}' is given twice.", option, "give it once."))
        else:
            found[name] = value
    if findings:
        raise AuditError(findings)
    return found


def numbers(words: Sequence[str], option: str) -> dict[str, float]:
    """Return NAME=NUMBER words as a dictionary.

    Raises
    ------
    AuditError
        OPTION_FORM, OPTION_TWICE, OPTION_NUMBER.
    """
    found = {}
    for name, value in pairs(words, option).items():
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not math.isfinite(found[name]):
            fact = f"'{value}' is no number."
            raise AuditError(Finding("OPTION_NUMBER", fact, f"{option} {name}", "write a number, as 0.8."))
    return found


def labels(words: str | None) -> dict[str, list[int]]:
    """Return `vb=1,disc=2` or `lungs=1+2,heart=3` as labels and their values.

    Raises
    ------
    AuditError
        LABELS_FORM.
    """
    found: dict[str, list[int]] = {}
    for word in filter(None, (words or "").split(",")):
        name, equals, values = word.strip().partition("=")
        parts = values.split("+")
        if (
            not (name and equals)
            or not all(part.strip().isdigit() and int(part) > 0 for part in parts)
            or name == "macro"
            or len(set(parts)) < len(parts)
            or name in found
        ):
            fix = "write --labels vb=1,disc=2, lungs=1+2 for several values; macro is the mean over structures."
            raise AuditError(Finding("LABELS_FORM", f"'{word}' is no label.", "--labels", fix))
        found[name] = [int(part) for part in parts]
    return found


def names(words: str) -> list[str]:
    """Return words that are parted by commas."""
    return [word.strip() for word in words.split(",") if word.strip()]


def paths(words: Sequence[str], option: str) -> dict[str, Path]:
    """Return NAME=PATH words as a dictionary."""
    return {name: Path(value) for name, value in pairs(words, option).items()}
