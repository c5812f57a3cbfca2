"""Table 1: who is in a cohort and in its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import nan, sqrt
from typing import Any

import numpy as np
import pandas as pd

from segaudit.errors import raise_errors
from segaudit.splits.evenness import std_difference
from segaudit.splits.identities import (
    ALL,
    MISSING,
    Level,
    by_case,
    case_faults,
    column_faults,
    first_known,
    levels,
    patients_of,
)
from segaudit.splits.schemas import COMPOSITION

NUMBER = "(number)"
TOP_CODED = "(top-coded)"
_QUIET = dict.fromkeys(("mean", "sd", "median", "q25", "q75", "min", "max", "max_std_difference"), nan)


@dataclass(frozen=True)
class _Part:
    """Cases and patients of a part, with their level of one attribute and, for a number, its value."""

    level_of_case: Mapping[str, Level]
    level_of_patient: Mapping[str, Level]
    values: np.ndarray[Any, np.dtype[np.float64]]
    patient_values: np.ndarray[Any, np.dtype[np.float64]]


def composition(cases: pd.DataFrame, attributes: Sequence[str], *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return Table 1: counts, shares and summaries of attributes over all cases and in each part.

    Parameters
    ----------
    cases : DataFrame
        case, patient, the attributes and the columns of `by`. A text attribute is counted by level, a number is
        summarised; values whose `<name>_top_coded` is true are counted apart and enter no summary.
    attributes : sequence of str
    by : sequence of str
        Columns whose crossing makes the parts, such as ``["split"]`` or ``["split", "provenance"]``.

    Returns
    -------
    DataFrame
        part, attribute, level, n_cases, pct_cases, n_patients, pct_patients, mean, sd, median, q25, q75, min, max,
        max_std_difference. Part (all) comes first. Missing values have a row of their own in every part.

    Raises
    ------
    AuditError
        The codes of `assign` on cases.
    """
    raise_errors([*case_faults(cases), *column_faults(cases, [*attributes, *by])])
    parts = _parts(cases, by)
    sizes = {name: (len(own), len(set(own["patient"].tolist()))) for name, own in parts.items()}
    rows = [_counts(name, ALL, ALL, size, size) for name, size in sizes.items()]
    for attribute in attributes:
        rows += _rows_of(attribute, parts, sizes)
    return COMPOSITION.frame(rows)


def _parts(cases: pd.DataFrame, by: Sequence[str]) -> dict[str, pd.DataFrame]:
    parts = {ALL: cases}
    if by:
        names = pd.Series(
            [
                " / ".join(level or MISSING for level in row)
                for row in zip(*(levels(cases[c]) for c in by), strict=True)
            ],
            index=cases.index,
        )
        parts |= {name: cases[names == name] for name in sorted(set(names.tolist()))}
    return parts


def is_number(column: pd.Series) -> bool:
    """Return whether a column is summarised as a number rather than counted by level."""
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def known_numbers(cases: pd.DataFrame, attribute: str) -> pd.Series:
    """Return the values of a number, without those that are top-coded."""
    values = cases[attribute].astype("float64")
    top = f"{attribute}_top_coded"
    return values.mask(cases[top].fillna(value=False).astype(bool)) if top in cases.columns else values


def _rows_of(
    attribute: str, parts: Mapping[str, pd.DataFrame], sizes: Mapping[str, tuple[int, int]]
) -> Iterator[dict[str, Any]]:
    number = is_number(parts[ALL][attribute])
    read = _number_part if number else _text_part
    held = {name: read(own, attribute) for name, own in parts.items()}
    if number:
        order = [NUMBER, *([TOP_CODED] if f"{attribute}_top_coded" in parts[ALL].columns else [])]
    else:
        whole = Counter(level for level in held[ALL].level_of_case.values() if level is not None)
        order = sorted(whole, key=lambda level: (-whole[level], level))
    for name, part in held.items():
        in_cases, in_patients = Counter(part.level_of_case.values()), Counter(part.level_of_patient.values())
        for level in (*order, None):
            row = _counts(name, attribute, level or MISSING, (in_cases[level], in_patients[level]), sizes[name])
            if number and level == NUMBER:
                row |= _summary(part.values)
            if name == ALL:
                others = [one for key, one in held.items() if key != ALL]
                row["max_std_difference"] = _largest(others, level, means=number and level == NUMBER)
            yield row


def _text_part(cases: pd.DataFrame, attribute: str) -> _Part:
    own = by_case(cases, [attribute])
    none = np.empty(0)
    return _Part({case: level for case, (level,) in own.items()}, _of_patients(cases, own), none, none)


def _number_part(cases: pd.DataFrame, attribute: str) -> _Part:
    values = known_numbers(cases, attribute)
    kinds = [
        NUMBER if known else TOP_CODED if given else None
        for known, given in zip(values.notna().tolist(), cases[attribute].notna().tolist(), strict=True)
    ]
    if (top := f"{attribute}_top_coded") in cases.columns:
        coded = cases[top].fillna(value=False).astype(bool).tolist()
        kinds = [TOP_CODED if is_top else kind for is_top, kind in zip(coded, kinds, strict=True)]
    own = dict(sorted(zip(cases["case"].tolist(), ((kind,) for kind in kinds), strict=True)))
    first = pd.DataFrame({"case": cases["case"], "patient": cases["patient"], "value": values}).dropna()
    one_each = first.sort_values("case").drop_duplicates("patient")["value"]
    return _Part(
        {case: kind for case, (kind,) in own.items()},
        _of_patients(cases, own),
        values.dropna().to_numpy(dtype=np.float64),
        one_each.to_numpy(dtype=np.float64),
    )


def _of_patients(cases: pd.DataFrame, own: Mapping[str, tuple[Level, ...]]) -> dict[str, Level]:
    return {patient: level for patient, (level,) in first_known(patients_of(cases), own).items()}


def _counts(part: str, attribute: str, level: str, n: tuple[int, int], of: tuple[int, int]) -> dict[str, Any]:
    return {
        "part": part,
        "attribute": attribute,
        "level": level,
        "n_cases": n[0],
        "pct_cases": 100 * n[0] / of[0],
        "n_patients": n[1],
        "pct_patients": 100 * n[1] / of[1],
        **_QUIET,
    }


def _summary(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float]:
    if not len(values):
        return {}
    q25, median, q75 = np.quantile(values, (0.25, 0.5, 0.75))
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)) if len(values) > 1 else nan,
        "median": float(median),
        "q25": float(q25),
        "q75": float(q75),
        "min": float(values.min()),
        "max": float(values.max()),
    }


def _largest(parts: Sequence[_Part], level: Level, *, means: bool) -> float:
    """Return the largest absolute standardised difference between two parts, patients counted once."""
    differ: Callable[[_Part, _Part], float] = (
        _mean_difference if means else lambda a, b: std_difference(_share(a, level), _share(b, level))
    )
    found = [abs(differ(left, right)) for left, right in combinations(parts, 2)]
    return max((value for value in found if value == value), default=nan)  # noqa: PLR0124 - NaN


def _share(part: _Part, level: Level) -> float:
    return sum(own == level for own in part.level_of_patient.values()) / len(part.level_of_patient)


def _mean_difference(left: _Part, right: _Part) -> float:
    a, b = left.patient_values, right.patient_values
    if min(len(a), len(b)) < 2:
        return nan
    spread = float(a.var(ddof=1) + b.var(ddof=1)) / 2
    return float(a.mean() - b.mean()) / sqrt(spread) if spread > 0 else nan
