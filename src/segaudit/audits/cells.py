"""A cell: the scores of one model, ruler, label and metric, and how a grouping divides them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.audits.plan import Plan
from segaudit.groupings import Grouping, assign
from segaudit.metrics import METRICS, Metric
from segaudit.scores import Scores
from segaudit.stats.clusters import layout
from segaudit.tables import mapped

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
KEY = ["model", "ruler", "label", "metric"]
_INFINITE = ("prediction_empty", "reference_empty")
_ABSENT = ("reference_missing", "not_scored")


@dataclass(frozen=True)
class Division:
    """A grouping laid over the cases of the cohort: the code of each case's group, -1 where it has none."""

    grouping: Grouping
    codes: Codes
    reasons: NDArray[np.object_]


@dataclass(frozen=True)
class Group:
    """The cases of one group in a cell.

    Attributes
    ----------
    name : str
    values : array of n_cases
        Defined scores; infinite where one mask is empty or the prediction is missing.
    patients : array of n_cases integers
    """

    name: str
    values: Floats
    patients: Codes

    @cached_property
    def _units(self) -> tuple[Codes, Codes]:
        """The patient of each case as 0 to n_patients - 1, and the cases of each patient."""
        cases = layout(self.patients.size, patients=self.patients)
        return cases.patient, np.bincount(cases.patient, minlength=cases.n_patients)

    @property
    def n_patients(self) -> int:
        """How many patients it has."""
        return self._units[1].size

    def patient_means(self) -> Floats:
        """Return one score a patient: the mean over the patient's cases in this group."""
        unit, n_cases = self._units
        return np.bincount(unit, weights=self.values) / n_cases

    def patient_successes(self, card: Metric, threshold: float) -> tuple[Codes, Codes]:
        """Return the successful cases and the cases of each patient."""
        unit, n_cases = self._units
        succeeded = card.succeeds(self.values, threshold)
        return np.bincount(unit, weights=succeeded).astype(np.intp), n_cases


@dataclass(frozen=True)
class Cell:
    """The scores of one model, ruler, label and metric.

    Attributes
    ----------
    key : tuple of str
        model, ruler, label, metric.
    card : Metric
    values : array of float
        Defined scores of the cell; infinite ones are in, undefined ones are out.
    cases, patients : array of int
        Rows of the cohort's cases, and patients as codes, beside each value.
    undefined : array of int
        Rows of the cases whose score is undefined (not counting cases that were never to be scored).
    """

    key: tuple[str, str, str, str]
    card: Metric
    values: Floats
    cases: Codes
    patients: Codes
    undefined: Codes

    @property
    def drawn_by(self) -> tuple[str, str]:
        """Names that seed its draws: label and metric. Not model and ruler: a new name for them changes no number."""
        return self.key[2:]

    def named(self) -> dict[str, str]:
        """Return the key by column name."""
        return dict(zip(KEY, self.key, strict=True))

    def groups(self, division: Division | None) -> list[Group]:
        """Return the groups of a division in order (all cases as one group without a division)."""
        if division is None:
            return [Group("", self.values, self.patients)]
        codes = division.codes[self.cases]
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(division.grouping.levels) + 1))
        parts = [order[a:b] for a, b in itertools.pairwise(bounds)]
        return [
            Group(name, self.values[part], self.patients[part])
            for name, part in zip(division.grouping.levels, parts, strict=True)
        ]

    def undefined_of(self, division: Division | None, code: int) -> int:
        """Return how many undefined cases a group has."""
        if division is None:
            return int(self.undefined.size)
        return int(np.count_nonzero(division.codes[self.undefined] == code))


def divide(plan: Plan, cases: pd.DataFrame) -> list[Division]:
    """Return each grouping of a resolved plan laid over the cases."""
    divisions = []
    for grouping in plan.groupings:
        group, reason = assign(grouping, cases)
        code = {level: i for i, level in enumerate(grouping.levels)}
        codes = group.map(code).fillna(-1).to_numpy().astype(np.intp)
        divisions.append(Division(grouping, codes, reason.to_numpy(dtype=object)))
    return divisions


def cells(scores: Scores, cases: pd.DataFrame, plan: Plan) -> Iterator[Cell]:
    """Yield the cells of a score table in its order, descriptive quantities left out.

    Parameters
    ----------
    scores : Scores
    cases : DataFrame
        case, patient; sorted by case. Scores of other cases are left out.
    plan : Plan
    """
    table = scores.table
    patients = pd.factorize(cases["patient"])[0].astype(np.intp)
    case, scored = pd.factorize(table["case"])
    row = pd.Index(cases["case"]).get_indexer(pd.Index(scored))[case]
    value, status = table["value"].to_numpy(dtype=np.float64), table["status"]
    odd, absent = (status != "ok").to_numpy(dtype=bool), status.isin(_ABSENT).to_numpy(dtype=bool)
    for key, rows in _rows_of_cells(table, row):
        card = METRICS[key[3]]
        part = rows[~absent[rows]]  # a cell without a score keeps its rows
        values, at = value[part], row[part]
        if (other := np.flatnonzero(odd[part])).size:
            stated = status.iloc[part[other]].to_numpy(dtype=object)
            values[other] = counted(values[other], stated, card, plan)
        defined = ~np.isnan(values)
        yield Cell(
            key,
            card,
            values[defined],
            at[defined],
            patients[at[defined]],
            at[~defined],
        )


def _rows_of_cells(table: pd.DataFrame, row: Codes) -> Iterator[tuple[tuple[str, str, str, str], Codes]]:
    """Yield the key of each cell and its rows of the table, in the order of the cohort's (where not negative)."""
    tested = mapped(table["metric"], {card.name: card.better != "neither" for card in METRICS}).to_numpy(dtype=bool)
    kept = np.flatnonzero(tested & (row >= 0))
    parts = [pd.factorize(table[name]) for name in KEY]
    together = np.zeros(kept.size, dtype=np.int64)
    for codes, names in parts:
        together = together * len(names) + codes[kept]
    cell, keys = pd.factorize(together)
    ordered = kept[np.argsort(cell * (row.max(initial=0) + 1) + row[kept], kind="stable")]
    bounds = np.cumsum(np.bincount(cell, minlength=len(keys)))
    for rows in np.split(ordered, bounds[:-1])[: len(keys)]:
        model, ruler, label, metric = (str(names[codes[rows[0]]]) for codes, names in parts)
        yield (model, ruler, label, metric), rows


def counted(values: Floats, status: NDArray[np.object_], card: Metric, plan: Plan) -> Floats:
    """Return the scores as the plan counts them: infinite and missing ones as the worst, undefined ones as NaN."""
    counts = values.copy()
    counts[np.isin(status, _INFINITE) & np.isnan(values)] = card.worst
    both = {"exclude": np.nan, "best": card.best, "worst": card.worst}[plan.both_empty]
    counts[status == "both_empty"] = both
    missing = card.worst if plan.prediction_missing == "failure" else np.nan
    counts[status == "prediction_missing"] = missing
    return counts
