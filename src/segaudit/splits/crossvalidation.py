"""Folds grouped by patient and stratified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from segaudit.errors import Finding, counted, raise_errors
from segaudit.splits.deals import RULE, deal, dealt_rows, describe, made_from, strata_faults, strata_or_none
from segaudit.splits.evenness import balance_table
from segaudit.splits.identities import case_faults, patients_of
from segaudit.splits.schemas import FOLDS


@dataclass(frozen=True)
class TrainVal:
    """The cases that one fold trains on and those it is validated on."""

    train: tuple[str, ...]
    val: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold validates each case, how even the folds are, and what they were made from.

    Attributes
    ----------
    table : DataFrame
        case, patient, fold, stratum; sorted by case.
    balance : DataFrame
        As of a split; the column `split` holds the fold.
    manifest : mapping
        Ready for JSON.
    """

    table: pd.DataFrame
    balance: pd.DataFrame
    manifest: Mapping[str, Any]

    def pairs(self) -> tuple[TrainVal, ...]:
        """Return training and validation cases of each fold, sorted."""
        rows = list(zip(self.table["case"].tolist(), self.table["fold"].tolist(), strict=True))
        return tuple(
            TrainVal(tuple(c for c, held in rows if held != fold), tuple(c for c, held in rows if held == fold))
            for fold in range(int(self.manifest["n_folds"]))
        )


def folds(cases: pd.DataFrame, n_folds: int, strata: pd.DataFrame | None = None, *, seed: int) -> Folds:
    """Return folds of equal size that keep the cases of a patient together.

    Parameters
    ----------
    cases : DataFrame
        case and patient (text), one row a case: the development cases only.
    n_folds : int
        At least two.
    strata : DataFrame, optional
        case, then one text column an attribute, the most important first; as for `assign`.
    seed : int
        Names the order of patients within a stratum.

    Returns
    -------
    Folds
        In each stratum, in each union of strata that share their first attributes, and in the whole, the folds' numbers
        of patients differ by at most one.

    Raises
    ------
    AuditError
        FOLDS_TOO_FEW, PATIENTS_TOO_FEW, and the codes of `assign` on cases and strata.
    """
    faults = [*case_faults(cases), *strata_faults(cases, strata)]
    if n_folds < 2:
        faults.append(
            Finding("FOLDS_TOO_FEW", f"{counted(n_folds, 'fold')} asked for.", "n_folds", "ask for two or more.")
        )
    if "patient" in cases.columns and 0 < (n := len(set(cases["patient"].dropna().tolist()))) < n_folds:
        fact = f"{counted(n, 'patient')} cannot fill {n_folds} folds."
        faults.append(Finding("PATIENTS_TOO_FEW", fact, "cases table, column patient", "ask for fewer folds."))
    raise_errors(faults)
    levels = strata_or_none(cases, strata)
    dealt = deal(patients_of(cases), levels, [1] * n_folds, seed, f"{RULE} folds")
    table = FOLDS.frame(dealt_rows(cases, dealt).rename(columns={"part": "fold"}))
    manifest = {
        **made_from(cases, dealt, seed),
        "rule": f"{RULE} folds",
        "n_folds": n_folds,
        **describe(table, "fold"),
    }
    targets = {str(fold): 1 / n_folds for fold in range(n_folds)}
    return Folds(table, balance_table(table, levels, targets, "fold"), manifest)
