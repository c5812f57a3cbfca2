"""Westfall-Young: the tests of a model under a ruler adjusted together, by moving people between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from segaudit.audits.cells import Cell, Codes, Division, Floats
from segaudit.audits.compare import generator
from segaudit.audits.plan import Plan

MAX_PATIENTS = 20_000
MIN_DRAWS, MAX_DRAWS = 199, 2_000
_RANKED = 10_000_000  # scores that all draws of a family may rank together: one to two seconds
_TEST = ["label", "metric", "grouping"]

_NO_UNITS = (np.empty((0, 0)), np.empty((0, 0), dtype=np.intp), np.empty(0, dtype=np.intp))

Test = tuple[str, str, str]


@dataclass(frozen=True)
class Permuted:
    """The tests of one family adjusted together.

    Attributes
    ----------
    q : mapping of (label, metric, grouping) to float
        Step-down adjusted p; empty when the family was not permuted.
    draws : int
    reason : str
        Why the family was not permuted; empty when it was.
    """

    q: Mapping[Test, float] = field(default_factory=dict)
    draws: int = 0
    reason: str = ""

    def of(self, tests: pd.DataFrame) -> Floats:
        """Return the adjusted p of each test of this family; NaN where the audit has no p."""
        keys = tests[_TEST].itertuples(index=False, name=None)
        found = np.array([self.q.get(key, np.nan) for key in keys], dtype=np.float64)
        return np.where(tests["p"].notna(), found, np.nan)


def adjusted_together(
    family: tuple[str, str, str],
    tests: pd.DataFrame,
    found: Sequence[Cell],
    divisions: Sequence[Division],
    plan: Plan,
) -> Permuted:
    """Return the Westfall-Young adjustment of a family: tests of one model under one ruler.

    Parameters
    ----------
    family : (model, ruler, name of the family)
    tests : DataFrame
        The omnibus tests of the family; every label and metric in it meets every grouping in it.
    found : sequence of Cell
        Among them the family's.
    divisions : sequence of Division

    Notes
    -----
    The unit is the patient, as in the tests themselves: one mean score a patient, and a patient in two groups of a
    grouping (an age band that changes between two exams) is one unit in each, which move together. A group with fewer
    patients than the plan asks for takes no part. The draws are `MAX_DRAWS`, or fewer (never under `MIN_DRAWS`) where
    that would rank more than ten million scores; beyond `MAX_PATIENTS` patients the family is not permuted.
    """
    from segaudit.stats.westfall import min_p

    keys = {(*family[:2], *test[:2]) for test in tests[_TEST].itertuples(index=False, name=None)}
    cells = [cell for cell in found if cell.key in keys]
    over = [division for division in divisions if division.grouping.name in set(tests["grouping"])]
    most = max(np.unique(cell.patients).size for cell in cells)
    scores, codes, patients = _units(cells, over, plan) if most <= MAX_PATIENTS else _NO_UNITS
    if (n_units := max(most, len(patients))) > MAX_PATIENTS:
        return Permuted(reason=f"{n_units} patients, more than the {MAX_PATIENTS} that are permuted")
    if not len(patients):
        return Permuted(reason="no score is defined")
    wanted = _RANKED // (len(patients) * len(cells) * len(over))
    draws = int(np.clip(wanted, MIN_DRAWS, min(MAX_DRAWS, max(plan.resamples, MIN_DRAWS))))
    rng = generator(plan, family[-1], "westfall_young")
    adjusted = min_p(scores, codes, patients=patients, alpha=plan.alpha, draws=draws, rng=rng).step_down
    q = {
        (cell.key[2], cell.key[3], division.grouping.name): float(adjusted[i, j])
        for i, division in enumerate(over)
        for j, cell in enumerate(cells)
    }
    return Permuted(q, draws)


def _units(cells: Sequence[Cell], divisions: Sequence[Division], plan: Plan) -> tuple[Floats, Codes, Codes]:
    """Return mean scores (units by cells), group codes (units by groupings) and the patient of each unit.

    A unit is the cases of one patient that are in the same group of every grouping.
    """
    cases, first = np.unique(np.concatenate([cell.cases for cell in cells]), return_index=True)
    patients = np.concatenate([cell.patients for cell in cells])[first]
    codes = np.stack([_large_groups(division.codes[cases], patients, plan) for division in divisions], axis=1)
    units, unit = np.unique(np.column_stack([patients, codes]), axis=0, return_inverse=True)
    unit_of = unit.ravel()
    scores = np.full((len(units), len(cells)), np.nan)
    for j, cell in enumerate(cells):
        at = unit_of[np.searchsorted(cases, cell.cases)]
        n = np.bincount(at, minlength=len(units))
        total = np.bincount(at, weights=cell.values, minlength=len(units))
        scores[n > 0, j] = total[n > 0] / n[n > 0]
    return scores, units[:, 1:].astype(np.intp), units[:, 0].astype(np.intp)


def _large_groups(codes: Codes, patients: Codes, plan: Plan) -> Codes:
    pairs = np.unique(np.column_stack([codes, patients])[codes >= 0], axis=0)
    large = np.flatnonzero(np.bincount(pairs[:, 0], minlength=1) >= plan.min_patients)
    return np.where(np.isin(codes, large), codes, -1)
