"""What is said of each group: counts, centre, spread and success rate; and who is in no group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from segaudit.audits.cells import Cell, Division, Floats, Group
from segaudit.audits.plan import Plan

Row = dict[str, Any]


def quantile(ordered: Floats, share: float) -> float:
    """Return a quantile of ascending values by linear interpolation; infinity is a value like another.

    Examples
    --------
    >>> quantile(np.array([1.0, 2.0, np.inf]), 0.5), quantile(np.array([1.0, 2.0, np.inf]), 0.75)
    (2.0, inf)
    """
    if not ordered.size:
        return np.nan
    at = (ordered.size - 1) * share
    low, weight = int(at), at - int(at)
    below = float(ordered[low])
    return below if weight == 0 or below == ordered[low + 1] else below + weight * float(ordered[low + 1] - below)


def group_rows(cell: Cell, divisions: list[Division], plan: Plan) -> Iterator[Row]:
    """Yield the rows of `groups` for a cell: all cases together, then each group of each grouping."""
    for division in (None, *divisions):
        groups = cell.groups(division)
        for code, group in enumerate(groups):
            yield {
                **cell.named(),
                "grouping": division.grouping.name if division else "",
                "group": group.name,
                **_described(group, cell, plan),
                "n_undefined": cell.undefined_of(division, code),
            }


def _described(group: Group, cell: Cell, plan: Plan) -> Row:
    values = np.sort(group.values)
    infinite = ~np.isfinite(values)
    finite = values[~infinite]
    threshold = plan.success.get(cell.card.name, np.nan)
    n, successes = values.size, int(cell.card.succeeds(values, threshold).sum())
    rated = n > 0 and np.isfinite(threshold)
    return {
        "n_cases": n,
        "n_patients": group.n_patients,
        "mean": _number(finite.mean() if finite.size else np.nan),
        "median": _number(quantile(values, 0.5)),
        "sd": _number(finite.std(ddof=1) if finite.size > 1 else np.nan),
        "q25": _number(quantile(values, 0.25)),
        "q75": _number(quantile(values, 0.75)),
        "n_success": successes if rated else None,
        "success_rate": successes / n if rated else np.nan,
        "threshold": threshold,
        "status": "ok" if n and group.n_patients >= plan.min_patients else "too_few_patients" if n else "undefined",
        "n_infinite": int(infinite.sum()),
    }


def _number(value: float) -> float:
    """Return a value as it is stored: no infinity."""
    return float(value) if np.isfinite(value) else np.nan


def coverage_rows(divisions: list[Division], cases: pd.DataFrame, plan: Plan) -> Iterator[Row]:
    """Yield the rows of `coverage`: the cases of each group, and those in no group with the reason."""
    for division in divisions:
        grouping = division.grouping
        for code, level in enumerate(grouping.levels):
            inside = cases[division.codes == code]
            n_patients = inside["patient"].nunique()
            few = n_patients < plan.min_patients
            yield {
                "grouping": grouping.name,
                "group": level,
                "n_cases": len(inside),
                "n_patients": n_patients,
                "reason": f"fewer than {plan.min_patients} patients" if few else "",
                "status": "described_only" if few else "tested",
            }
        outside = division.codes < 0
        reasons = pd.Series(division.reasons[outside], dtype="str")
        for reason, where in reasons.groupby(reasons).groups.items():
            inside = cases[outside].iloc[where]
            yield {
                "grouping": grouping.name,
                "group": f"(unassigned: {reason})",
                "n_cases": len(inside),
                "n_patients": inside["patient"].nunique(),
                "reason": reason,
                "status": "unassigned",
            }
