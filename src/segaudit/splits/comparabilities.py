"""Are the parts of a cohort alike? One test an attribute, with its size and the adjusted p value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.errors import Finding, raise_errors
from segaudit.splits.compositions import is_number, known_numbers
from segaudit.splits.identities import Level, case_faults, column_faults, faults_of, levels
from segaudit.splits.schemas import COMPARABILITY

Counts = Mapping[str, Mapping[str, int]]
Numbers = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class _Result:
    test: str
    statistic: float = nan
    dof: int | None = None
    p: float = nan
    effect_name: str = ""
    effect: float = nan
    min_expected: float = nan
    status: str = "ok"


def comparability(
    cases: pd.DataFrame,
    part: str,
    attributes: Sequence[str],
    *,
    unit: Literal["patient", "case"] = "patient",
    seed: int,
    yates: bool = False,
    alpha: float = 0.05,
) -> pd.DataFrame:
    """Return how alike the parts of a cohort are: one row an attribute.

    Parameters
    ----------
    cases : DataFrame
        case, patient, the column of parts and the attributes. Cases without a part are left out.
    part : str
        Column that makes the parts, in sorted order, such as split or provenance.
    attributes : sequence of str
        Text is tested by chi square, a number by its ranks (top-coded values left out: test them in bins).
    unit : {"patient", "case"}
        What is counted: each patient once in each part that it is in, at the first of its cases there, in sorted
        order, that has a value; or each case, as if cases of a patient were independent.
    seed : int
        Drawn from only where a rank test of few values cannot be counted out.
    yates : bool
        Correct chi square of two levels in two parts for continuity, and compute V from it, as the study did.
    alpha : float
        Threshold on q.

    Returns
    -------
    DataFrame
        attribute, test, statistic, dof, p, q, effect_name, effect, min_expected, n, missing, alpha, verdict, status.

    Raises
    ------
    AuditError
        The codes of `assign` on cases; COLUMN_MISSING.
    """
    raise_errors([*case_faults(cases), *column_faults(cases, [part, *attributes])])
    inside = cases[[name is not None for name in levels(cases[part])]].sort_values("case")
    names = levels(inside[part])
    owners = inside["patient" if unit == "patient" else "case"].tolist()
    held = {attribute: _first_values(inside, attribute, names, owners) for attribute in attributes}
    samples: dict[str, Counts | Numbers] = {}
    for attribute, by_part in held.items():
        known = {name: [value for value in own.values() if not pd.isna(value)] for name, own in by_part.items()}
        number = is_number(cases[attribute])
        samples[attribute] = known if number else {name: Counter(own) for name, own in known.items()}
    table = comparability_of(samples, seed=seed, yates=yates, alpha=alpha)
    missing = [_missing(held[name]) for name in table["attribute"].tolist()]
    return table.assign(missing=missing)


def _first_values(
    cases: pd.DataFrame, attribute: str, parts: Sequence[Level], owners: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return, by part, the first known value of each member there; null where none is known."""
    values: Sequence[Any] = (
        known_numbers(cases, attribute).tolist() if is_number(cases[attribute]) else levels(cases[attribute])
    )
    held: dict[str, dict[str, Any]] = {str(part): {} for part in sorted({str(part) for part in parts})}
    for part, owner, value in zip(parts, owners, values, strict=True):
        own = held[str(part)]
        if pd.isna(own.get(owner)):
            own[owner] = value
    return held


def _missing(by_part: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{part} {sum(bool(pd.isna(v)) for v in own.values())}" for part, own in by_part.items())


def comparability_of(
    samples: Mapping[str, Counts | Numbers], *, seed: int, yates: bool = False, alpha: float = 0.05
) -> pd.DataFrame:
    """Return how alike parts are, from counts or numbers: one row an attribute, columns as of `comparability`.

    Parameters
    ----------
    samples : mapping
        attribute -> part -> {level: count}, or attribute -> part -> numbers.
    seed : int
        As for `comparability`.
    yates : bool
        As for `comparability`.
    alpha : float
        Threshold on q.

    Raises
    ------
    AuditError
        COUNT_NEGATIVE, VALUE_NOT_FINITE.

    Notes
    -----
    q is Benjamini-Hochberg over all planned attributes, those without a p value included. V is
    sqrt(chi2 / (n (k - 1))), k the smaller number of rows or columns; rank_biserial is 2 U / (n1 n2) - 1, U of the
    second part; epsilon_squared is H / (n - 1). A large q says that no gap was found, not that there is none.
    """
    from segaudit.stats.family import adjust

    raise_errors(_sample_faults(samples))
    results = {name: _test(sample, yates=yates, seed=seed) for name, sample in samples.items()}
    q_values = adjust([result.p for result in results.values()], "bh").tolist()
    return COMPARABILITY.frame(
        {
            "attribute": name,
            "test": result.test,
            "statistic": result.statistic,
            "dof": result.dof,
            "p": result.p,
            "q": q,
            "effect_name": result.effect_name,
            "effect": result.effect,
            "min_expected": result.min_expected,
            "n": ", ".join(f"{part} {_size(own)}" for part, own in samples[name].items()),
            "missing": "",
            "alpha": alpha,
            "verdict": "not assessable" if np.isnan(q) else "gap found" if q < alpha else "inconclusive",
            "status": result.status,
        }
        for (name, result), q in zip(results.items(), q_values, strict=True)
    )


def _size(own: Mapping[str, int] | Sequence[float]) -> int:
    return sum(own.values()) if isinstance(own, Mapping) else len(own)


def _sample_faults(samples: Mapping[str, Counts | Numbers]) -> list[Finding]:
    faults = []
    for name, sample in samples.items():
        for part, own in sample.items():
            where = f"attribute {name}, part {part}"
            if isinstance(own, Mapping):
                bad = [f"{level} {n}" for level, n in own.items() if n < 0 or n != int(n)]
                code, fact, fix = "COUNT_NEGATIVE", "below 0 or not whole", "counts are whole numbers from 0."
            else:
                bad = [str(value) for value in own if not np.isfinite(value)]
                code, fact, fix = "VALUE_NOT_FINITE", "not finite", "leave missing values out."
            faults += faults_of(bad, code, "value", fact, where, fix)
    return faults


def _test(sample: Counts | Numbers, *, yates: bool, seed: int) -> _Result:
    held = {part: own for part, own in sample.items() if _size(own)}
    numbers = [np.asarray(own, dtype=np.float64) for own in held.values() if not isinstance(own, Mapping)]
    if numbers:
        return _ranks(numbers, seed)
    return _chi_square([own for own in held.values() if isinstance(own, Mapping)], yates=yates)


def _chi_square(parts: Sequence[Mapping[str, int]], *, yates: bool) -> _Result:
    from scipy.stats import chi2_contingency

    names = sorted({level for own in parts for level, n in own.items() if n})
    if len(parts) < 2 or len(names) < 2:
        return _Result("none", status="one_group")
    table = np.array([[own.get(level, 0) for level in names] for own in parts], dtype=np.int64)
    corrected = yates and table.shape == (2, 2)
    found = chi2_contingency(table, correction=corrected)
    statistic = float(found.statistic)
    size = sqrt(statistic / (int(table.sum()) * (min(table.shape) - 1)))
    name = "chi2_yates" if corrected else "chi2"
    least = float(found.expected_freq.min())
    return _Result(name, statistic, int(found.dof), float(found.pvalue), "cramers_v", size, least)


def _ranks(parts: Sequence[NDArray[np.float64]], seed: int) -> _Result:
    from segaudit.stats.tests import kruskal_wallis, mann_whitney

    if len(parts) < 2:
        return _Result("none", status="one_group")
    rng = np.random.default_rng(seed)
    found = mann_whitney(parts[1], parts[0], rng=rng) if len(parts) == 2 else kruskal_wallis(parts, rng=rng)
    dof = None if len(parts) == 2 else len(parts) - 1
    return _Result(found.test, found.statistic, dof, found.p, found.effect_name, found.effect)
