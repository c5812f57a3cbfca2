"""Conditions on cases, such as age < 40, and the names of the regimes that are trained under one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pandas as pd

from segaudit.config.study import RulerEntry
from segaudit.errors import AuditError, Finding, did_you_mean

_CONDITION = re.compile(r"^\s*(?P<name>.+?)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>.+?)\s*$")
_ORDER: Mapping[str, Callable[[pd.Series, float], pd.Series]] = {
    "<": pd.Series.lt,
    "<=": pd.Series.le,
    ">": pd.Series.gt,
    ">=": pd.Series.ge,
}


def ruler_regime(entry: RulerEntry) -> str:
    """Return the regime that makes a ruler trained on a group: age < 40 becomes age-below-40."""
    words = {"<=": " up to ", ">=": " from ", "!=": " not ", "==": " ", "=": " ", "<": " below ", ">": " above "}
    found = _CONDITION.match(entry.trained_on or "")
    told = f"{found['name']}{words[found['sign']]}{found['value']}" if found else entry.trained_on or ""
    return entry.name or re.sub(r"[^A-Za-z0-9]+", "-", told).strip("-") or "group"


def condition(text: str, cases: pd.DataFrame, where: str) -> pd.Series:
    """Return which cases meet a condition such as ``age < 40`` or ``sex = Female``; a missing value meets none.

    Raises
    ------
    AuditError
        STUDY_CONDITION, UNKNOWN_ATTRIBUTE.
    """
    found = _CONDITION.match(text)
    fix = "write attribute, one of < <= > >= = !=, and a value: age < 40."
    if found is None:
        raise AuditError(Finding("STUDY_CONDITION", f"'{text}' is no condition.", where, fix))
    name, sign, value = found["name"], found["sign"], found["value"].strip("'\"")
    if name not in cases.columns:
        known = [column for column in cases.columns if column not in ("case", "patient")]
        fact = f"there is no attribute '{name}'."
        raise AuditError(Finding("UNKNOWN_ATTRIBUTE", fact, where, did_you_mean(name, known)))
    own = cases[name]
    if sign in _ORDER:
        try:
            return _ORDER[sign](pd.to_numeric(own), float(value)) & own.notna()
        except ValueError:
            fact = f"'{text}' compares what is no number."
            raise AuditError(Finding("STUDY_CONDITION", fact, where, "use = or !=.")) from None
    same = own.astype(str) == value
    return (same if sign in ("=", "==") else ~same) & own.notna()
