"""Pairs: the same cases scored twice (under two rulers, or by two models), joined by case."""

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
from segaudit.stats.clusters import LARGE_SAMPLE
from segaudit.stats.variance import WalshRatio

Row = dict[str, Any]


@dataclass(frozen=True)
class Pair:
    """One label and metric of the same cases, scored twice: a model under two rulers, or two models under one ruler.

    Attributes
    ----------
    trusted_cell, other_cell : Cell
        Every defined score of either side; they differ in the ruler, or in the model.
    x, y : array of n_cases
        Scores of the trusted side (the baseline, of two models) and of the other one: the same cases, both finite.
    cases, patients : array of n_cases integers
    n_left_out : int
        Cases scored on both sides of which one score is infinite: they are left out of every paired quantity.
    """

    trusted_cell: Cell
    other_cell: Cell
    x: Floats
    y: Floats
    cases: Codes
    patients: Codes
    n_left_out: int

    @property
    def of_models(self) -> bool:
        """Whether two models are compared, not two rulers."""
        return self.trusted_cell.key[0] != self.other_cell.key[0]

    @property
    def held(self) -> str:
        """What both sides share: the model of two rulers, the ruler of two models."""
        return self.trusted_cell.key[self.of_models]

    @property
    def trusted(self) -> str:
        """The name of the trusted side."""
        return self.trusted_cell.key[not self.of_models]

    @property
    def other(self) -> str:
        """The name of the other side."""
        return self.other_cell.key[not self.of_models]

    @property
    def label(self) -> str:
        """The structure."""
        return self.trusted_cell.key[2]

    @property
    def metric(self) -> str:
        """The name of the metric card."""
        return self.trusted_cell.key[3]

    @property
    def card(self) -> Metric:
        """The metric card."""
        return self.trusted_cell.card

    @property
    def sign(self) -> float:
        """1 where higher scores are better, -1 where lower ones are."""
        return 1.0 if self.card.better == "higher" else -1.0

    def base(self, grouping: str) -> Row:
        """Return the key of a row of `rulers` but for its quantity."""
        return {
            "model": self.held,
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
        enough = [code for code in range(len(names)) if _n_distinct(self.patients[codes == code]) >= minimum]
        kept = np.isin(codes, enough)
        return kept, names[codes[kept]] if len(names) else np.empty(0, dtype=np.str_)


def _n_distinct(codes: Codes) -> int:
    return int(np.count_nonzero(np.bincount(codes)))


def pairs(audit: Audit, trusted: str, other: str) -> Iterator[Pair]:
    """Yield the pairs of two rulers in the order of the scores; a score that only one ruler has is left out."""
    for cell, partner in _matched(audit, 1, trusted, other):
        if (pair := joined(cell, partner)) is not None:
            yield pair


def model_pairs(audit: Audit, baseline: str, other: str, ruler: str) -> Iterator[Pair]:
    """Yield the pairs of two models under one ruler; a score that only one model has is left out."""
    for cell, partner in _matched(audit, 0, baseline, other):
        if cell.key[1] == ruler and (pair := joined(cell, partner)) is not None:
            yield pair


def _matched(audit: Audit, place: int, first: str, second: str) -> Iterator[tuple[Cell, Cell]]:
    """Yield the cells of one name and those of another whose keys differ in that place alone."""
    found = {cell.key: cell for cell in cells(audit.scores, audit.cases, audit.plan)}
    for key, cell in found.items():
        model, ruler, label, metric = (second if i == place else name for i, name in enumerate(key))
        if key[place] == first and (partner := found.get((model, ruler, label, metric))) is not None:
            yield cell, partner


def joined(cell: Cell, partner: Cell) -> Pair | None:
    """Return two cells joined by case; None where no case has a finite score in both."""
    shared, left, right = np.intersect1d(cell.cases, partner.cases, assume_unique=True, return_indices=True)
    x, y = cell.values[left], partner.values[right]
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return None
    n_left_out = int(np.count_nonzero(~finite))
    return Pair(cell, partner, x[finite], y[finite], shared[finite], cell.patients[left][finite], n_left_out)


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


def estimable(value: float) -> str:
    """Return the status of a quantity that some scores do not give."""
    return "ok" if np.isfinite(value) else "not_estimable"


def walsh_row(base: Row, name: str, found: WalshRatio, detail: str) -> Row:
    """Return the row of `rulers` of a Walsh ratio."""
    limits = {"low": found.low, "high": found.high, "p": found.p}
    return quantity(base, name, found.ratio, **limits, status=estimable(found.ratio), detail=detail)


def large_note(n: int) -> str:
    """Return what the detail of an interval says where a large-sample law stood in for the draws of patients."""
    return "; interval by the large-sample law of the bootstrap" if n > LARGE_SAMPLE else ""


def lookup(table: pd.DataFrame, **key: str) -> pd.DataFrame:
    """Return the rows of a table with these values."""
    chosen = np.ones(len(table), dtype=bool)
    for column, wanted in key.items():
        chosen &= (table[column] == wanted).to_numpy()
    return table[chosen]
