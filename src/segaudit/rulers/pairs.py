"""Pairs: the same cases of the same model under two rulers, joined by case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.audits import Audit
from segaudit.audits.cells import Cell, Codes, Division, Floats, cells, divide
from segaudit.metrics import Metric

Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """Scores of one model, label and metric under two rulers.

    Attributes
    ----------
    model, label, metric, trusted, other : str
    card : Metric
    x, y : array of n_cases
        Scores under the trusted and the other ruler: the same cases, finite under both.
    cases, patients : array of n_cases integers
    trusted_cell, other_cell : Cell
        Every defined score of either ruler.
    n_left_out : int
        Cases scored under both rulers of which one score is infinite: they are left out of every paired quantity.
    """

    model: str
    label: str
    metric: str
    trusted: str
    other: str
    card: Metric
    x: Floats
    y: Floats
    cases: Codes
    patients: Codes
    trusted_cell: Cell
    other_cell: Cell
    n_left_out: int

    @property
    def sign(self) -> float:
        """1 where higher scores are better, -1 where lower ones are."""
        return 1.0 if self.card.better == "higher" else -1.0

    def base(self, grouping: str) -> Row:
        """Return the key of a row of `rulers` but for its quantity."""
        return {
            "model": self.model,
            "label": self.label,
            "metric": self.metric,
            "grouping": grouping,
            "trusted": self.trusted,
            "other": self.other,
        }

    def in_groups(self, division: Division, minimum: int) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
        """Return which cases are in a group with enough patients, and the group of each of those."""
        codes = division.codes[self.cases]
        names = np.asarray(division.grouping.levels, dtype=np.str_)
        enough = [code for code in range(len(names)) if np.unique(self.patients[codes == code]).size >= minimum]
        kept = np.isin(codes, enough)
        return kept, names[codes[kept]] if len(names) else np.empty(0, dtype=np.str_)


def pairs(audit: Audit, trusted: str, other: str) -> Iterator[Pair]:
    """Yield the pairs of an audit in the order of its scores; a score that only one ruler has is left out."""
    found = {cell.key: cell for cell in cells(audit.scores, audit.cases, audit.plan)}
    for (model, ruler, label, metric), cell in found.items():
        partner = found.get((model, other, label, metric))
        if ruler != trusted or partner is None:
            continue
        shared, left, right = np.intersect1d(cell.cases, partner.cases, assume_unique=True, return_indices=True)
        x, y = cell.values[left], partner.values[right]
        finite = np.isfinite(x) & np.isfinite(y)
        if finite.any():
            yield Pair(
                model,
                label,
                metric,
                trusted,
                other,
                cell.card,
                x[finite],
                y[finite],
                shared[finite],
                cell.patients[left][finite],
                cell,
                partner,
                int(np.count_nonzero(~finite)),
            )


def divisions(audit: Audit) -> list[Division]:
    """Return the groupings of an audit laid over its cases."""
    return divide(audit.plan, audit.cases)


def quantity(
    base: Row,
    name: str,
    value: float | str,
    *,
    trusted: float | str = np.nan,
    other: float | str = np.nan,
    low: float = np.nan,
    high: float = np.nan,
    p: float = np.nan,
    status: str = "ok",
    detail: str = "",
) -> Row:
    """Return a row of `rulers`; numbers that are not finite are stored empty."""

    def stored(number: float | str) -> float | str | None:
        return number if isinstance(number, str) else (float(number) if np.isfinite(number) else None)

    return {
        **base,
        "quantity": name,
        "trusted_value": stored(trusted),
        "other_value": stored(other),
        "value": stored(value),
        "low": low if np.isfinite(low) else np.nan,
        "high": high if np.isfinite(high) else np.nan,
        "p": p,
        "status": status,
        "detail": detail,
    }


def lookup(table: pd.DataFrame, **key: str) -> pd.DataFrame:
    """Return the rows of a table with these values."""
    chosen = np.ones(len(table), dtype=bool)
    for column, wanted in key.items():
        chosen &= (table[column] == wanted).to_numpy()
    return table[chosen]
