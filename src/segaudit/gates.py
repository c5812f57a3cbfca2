"""Gates: whether the tables of a run keep declared limits, for pipelines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import pandas as pd

from segaudit.config.limits import Limit, Limits
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.tables import numbers

Outcome = Literal["pass", "broken", "not enough evidence"]
EXIT_CODES: Mapping[Outcome, int] = {"pass": 0, "broken": 1, "not enough evidence": 3}

_DISPARITIES = ("dir", "dpd", "median_gap")
_GROUPS = ("success_rate", "mean", "median", "n_patients")
_KEYS = ("model", "ruler", "label", "metric", "grouping", "group")
_UNTESTED = ("too_few_patients", "one_group", "undefined", "not_estimable")


@dataclass(frozen=True, slots=True)
class Check:
    """A limit at one place of the tables.

    Attributes
    ----------
    limit : Limit
    where : str
        Model, ruler, score, grouping and group.
    value, low, high : float
        NaN where there is none.
    outcome : {"pass", "broken", "not enough evidence"}
    reason : str
    """

    limit: Limit
    where: str
    value: float
    low: float
    high: float
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Gate:
    """Every check of every limit, and what follows.

    Attributes
    ----------
    checks : tuple of Check
    """

    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Outcome:
        """One broken limit breaks the gate; else one without enough evidence leaves it open."""
        found = {check.outcome for check in self.checks}
        return "broken" if "broken" in found else "pass" if found == {"pass"} else "not enough evidence"

    @property
    def exit_code(self) -> int:
        """0 pass, 1 a limit broken, 3 not enough evidence (2 is for bad input)."""
        return EXIT_CODES[self.outcome]

    def junit(self) -> str:
        """Return the checks as JUnit XML: a broken limit fails, one without enough evidence is an error."""
        n = {outcome: sum(check.outcome == outcome for check in self.checks) for outcome in EXIT_CODES}
        counts = f'tests="{len(self.checks)}" failures="{n["broken"]}" errors="{n["not enough evidence"]}"'
        lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="segaudit gate" {counts}>']
        tags = {"broken": "failure", "not enough evidence": "error"}
        for check in self.checks:
            head = f'  <testcase classname="{_xml(check.limit.title)}" name="{_xml(check.where)}"'
            if check.outcome == "pass":
                lines.append(f"{head}/>")
            else:
                tag = tags[check.outcome]
                lines.append(f'{head}><{tag} message="{_xml(check.reason)}"/></testcase>')
        return "\n".join([*lines, "</testsuite>", ""])

    def markdown(self) -> str:
        """Return a short summary for the page of a pipeline: the outcome, and each check that did not pass."""
        passed = sum(check.outcome == "pass" for check in self.checks)
        lines = [f"**segaudit gate: {self.outcome}** ({passed} of {len(self.checks)} checks passed)", ""]
        rest = [check for check in self.checks if check.outcome != "pass"]
        if rest:
            lines += ["| limit | where | outcome | why |", "|---|---|---|---|"]
            lines += [
                f"| {_md(c.limit.title)} | {_md(c.where)} | {c.outcome} | {_md(c.reason)} |"
                for c in sorted(rest, key=lambda check: check.outcome)
            ]
        return "\n".join([*lines, ""])

    def __str__(self) -> str:
        lines = [f"{check.outcome}: {check.limit.title}, {check.where}: {check.reason}" for check in self.checks]
        return "\n".join([*lines, f"gate: {self.outcome}"])


def gate(tables: Mapping[str, pd.DataFrame], limits: Limits) -> Gate:
    """Return whether the tables of a run keep the limits.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        groups and disparities, and rulers where rulers were compared, by the names in `segaudit.tables`.
    limits : Limits

    Raises
    ------
    AuditError
        LIMIT_UNKNOWN_NAME for a model, ruler, label, metric, grouping or group that the tables do not know;
        LIMIT_NO_TABLE for a limit on rulers in a run without a comparison.
    """
    findings: list[Finding] = []
    checks: list[Check] = []
    for i, limit in enumerate(limits.limits):
        where = f"limits[{i}] ({limit.title})"
        try:
            checks += _checks(tables, limit, where)
        except AuditError as error:
            findings += error.findings
    raise_errors(findings)
    return Gate(tuple(checks))


def _checks(tables: Mapping[str, pd.DataFrame], limit: Limit, where: str) -> list[Check]:
    rows = _rows(tables, limit, where)
    for key in _KEYS:
        wanted = getattr(limit, key)
        if wanted is None or key not in rows.columns:
            continue
        known = set(rows[key])
        if wanted not in known:
            fact = f"there is no {key} '{wanted}'."
            fix = did_you_mean(wanted, known - {""})
            raise AuditError(Finding("LIMIT_UNKNOWN_NAME", fact, f"{where}, {key}", fix))
        rows = rows[rows[key] == wanted]
    if limit.quantity in ("inflation", "walsh_ratio", "shared_error_bound") and limit.grouping is None:
        rows = rows[rows["grouping"] == ""]
    found = list(_judged(rows, limit))
    if not found:
        return [Check(limit, "the run", math.nan, math.nan, math.nan, "not enough evidence", "no row to check")]
    return found


def _rows(tables: Mapping[str, pd.DataFrame], limit: Limit, where: str) -> pd.DataFrame:
    """Return the rows of the limit's quantity with value, low, high and status."""
    if limit.quantity in _DISPARITIES:
        table = tables["disparities"]
        return table[table["disparity"] == limit.quantity]
    if limit.quantity in _GROUPS:
        table = tables["groups"]
        values = table[limit.quantity].astype("float64")
        return table.assign(value=values, low=math.nan, high=math.nan)
    table = tables.get("rulers", pd.DataFrame())
    if table.empty:
        fix = "compare two rulers first: segaudit rulers."
        raise AuditError(Finding("LIMIT_NO_TABLE", "the run has no comparison of rulers.", where, fix))
    table = table[table["quantity"] == limit.quantity]
    return table.assign(ruler=table["other"], value=numbers(table["value"]))


def _judged(rows: pd.DataFrame, limit: Limit) -> Iterator[Check]:
    for row in rows.to_dict("records"):
        parts = (str(row[key]) for key in _KEYS if row.get(key))
        value, low, high = (_number(row[name]) for name in ("value", "low", "high"))
        outcome, reason = _judge(limit, row, value, low, high)
        yield Check(limit, ", ".join(parts) or "all cases", value, low, high, outcome, reason)


def _judge(limit: Limit, row: Mapping[Any, Any], value: float, low: float, high: float) -> tuple[Outcome, str]:
    untested = row["status"] in _UNTESTED and limit.quantity != "n_patients"  # a size is known however small it is
    if untested or math.isnan(value):
        return "not enough evidence", f"{limit.quantity} could not be had ({row['status']})"
    least = -math.inf if limit.min is None else limit.min
    most = math.inf if limit.max is None else limit.max
    if limit.by == "estimate" or math.isnan(low) or math.isnan(high):
        return ("pass" if least <= value <= most else "broken"), f"{limit.quantity} is {value:.4g}"
    told = f"{limit.quantity} is {value:.4g} ({low:.4g} to {high:.4g})"
    if least <= low and high <= most:
        return "pass", told
    return ("broken" if high < least or low > most else "not enough evidence"), told


def _number(value: Any) -> float:
    return math.nan if pd.isna(value) else float(value)


def _plain(text: str) -> str:
    return "".join(character for character in text if character.isprintable())


def _xml(text: str) -> str:
    return escape(_plain(text), quote=True)


def _md(text: str) -> str:
    """Return text that a Markdown table shows as it is: no cell, markup, link or HTML of its own."""
    plain = escape(_plain(text), quote=False)
    return "".join(f"\\{c}" if c in "\\|`*_[]()!#@" else c for c in plain)
