"""Splits, folds, balancing, label regimes, leaks and Table 1. The patient is the unit throughout."""

from segaudit.splits.assignments import Split, assign
from segaudit.splits.balances import balance
from segaudit.splits.comparabilities import comparability, comparability_of
from segaudit.splits.compositions import composition
from segaudit.splits.crossvalidation import Folds, TrainVal, folds
from segaudit.splits.label_regimes import regimes
from segaudit.splits.leaks import check_split, duplicates, leak, patients_by_part
from segaudit.splits.nnunet_files import check_folds, read_nnunet_splits, write_nnunet_splits

__all__ = [
    "Folds",
    "Split",
    "TrainVal",
    "assign",
    "balance",
    "check_folds",
    "check_split",
    "comparability",
    "comparability_of",
    "composition",
    "duplicates",
    "folds",
    "leak",
    "patients_by_part",
    "read_nnunet_splits",
    "regimes",
    "write_nnunet_splits",
]
