"""Regression of each score on the declared attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from segaudit.audits.cells import Cell, Floats
from segaudit.audits.plan import Plan
from segaudit.stats import adjust

Row = dict[str, Any]


def design(cases: pd.DataFrame, attributes: tuple[str, ...]) -> tuple[Floats, list[str]]:
    """Return the design matrix (cases, columns) and its column names: an intercept, numbers, and levels by indicators.

    The first level in sorted order is the reference. Missing attributes and top-coded ages are NaN: a case with one
    takes no part. The attributes are columns of the cases, as a resolved plan makes sure.
    """
    columns: list[Floats] = [np.ones(len(cases))]
    names = ["intercept"]
    for attribute in attributes:
        column = cases[attribute]
        if pd.api.types.is_numeric_dtype(column):
            coded = cases.get(f"{attribute}_top_coded", pd.Series(data=False, index=cases.index)).astype(bool)
            columns.append(np.asarray(column.where(~coded), dtype=np.float64))
            names.append(attribute)
            continue
        for level in sorted(column.dropna().unique())[1:]:
            columns.append(np.where(column.isna(), np.nan, column == level).astype(np.float64))
            names.append(f"{attribute}={level}")
    return np.column_stack(columns), names


def regression_rows(cell: Cell, matrix: Floats, names: list[str], plan: Plan) -> Iterator[Row]:
    """Yield one row a term of the regression of a cell's finite scores."""
    rows = matrix[cell.cases]
    used = np.isfinite(cell.values) & np.isfinite(rows).all(axis=1)
    fit = adjust.ols(cell.values[used], rows[used], names, cell.patients[used], plan.level)
    for i, term in enumerate(fit.names):
        yield {
            **cell.named(),
            "term": term,
            "coefficient": fit.coefficients[i],
            "se": fit.se[i],
            "t": fit.t[i],
            "p": fit.p[i],
            "low": fit.low[i],
            "high": fit.high[i],
            "errors": fit.errors,
            "n_cases": fit.n_cases,
            "n_patients": fit.n_clusters,
            "r_squared": fit.r_squared,
            "status": "ok" if fit.status == "ok" else "undefined",
        }
