"""Findings: what is wrong, where, and how to mend it; and the one error that carries them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]
_SHOWN_NAMES = 12


@dataclass(frozen=True)
class Finding:
    """One fact about the input or the result, for a person to act on.

    Attributes
    ----------
    code : str
        Stable name SUBJECT_PROBLEM; docs/errors.md explains each.
    message : str
        The fact, with the value.
    where : str
        File, row, column; or the cell of the audit.
    fix : str
        What to do.
    level : {"error", "warning", "note"}
        Errors stop a step, warnings stand in the report, notes in the record.
    """

    code: str
    message: str
    where: str = ""
    fix: str = ""
    level: Level = "error"

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  fix:   {self.fix}")
        return "\n".join(lines)


class AuditError(Exception):
    """Raised with every error finding of a step at once.

    Attributes
    ----------
    findings : tuple of Finding
        At least one, each of level error.
    """

    def __init__(self, findings: Finding | Iterable[Finding]) -> None:
        self.findings = (findings,) if isinstance(findings, Finding) else tuple(findings)
        super().__init__("\n\n".join(str(finding) for finding in self.findings))


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise one AuditError with all findings of level error, if there are any."""
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise AuditError(errors)


def counted(n: int, one: str, many: str = "") -> str:
    """Return a number with its words, of which `many` says the plural where an s does not make it.

    Examples
    --------
    >>> counted(1, "case"), counted(2, "case has", "cases have")
    ('1 case', '2 cases have')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the fix text for an unknown name: the nearest known one, and the known ones."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1) or [n for n in names if n.lower() == name.lower()]
    shown = ", ".join(names[:_SHOWN_NAMES]) + (f" and {len(names) - _SHOWN_NAMES} more" * (len(names) > _SHOWN_NAMES))
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}known: {shown}." if names else "none is known."
