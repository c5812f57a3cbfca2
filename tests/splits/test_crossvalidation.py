"""Folds: golden, and as even as another way of making them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import folds

ATTRIBUTES = ["sex", "race", "age_band"]


def test_folds__golden_folds_never_change():
    patients = [f"p{number:02d}" for number in range(12)]
    cases = pd.DataFrame({"case": [f"{p}-0" for p in patients], "patient": patients, "sex": ["F", "M"] * 6})
    made = folds(cases, 3, cases[["case", "sex"]], seed=2025)
    assert made.table["fold"].tolist() == GOLDEN
    assert made.manifest["rule"] == "segaudit.splits/1 folds"


GOLDEN = [1, 1, 2, 1, 0, 0, 0, 2, 2, 0, 1, 2]


def test_folds__pairs_are_complements(study_cases):
    made = folds(study_cases, 5, seed=1)
    everyone = set(study_cases["case"])
    for fold, pair in enumerate(made.pairs()):
        assert set(pair.val) == set(made.table.loc[made.table["fold"] == fold, "case"])
        assert set(pair.train) == everyone - set(pair.val)


def _dealt_in_turn(cases, n_folds, seed):
    """Deal shuffled patients of each stratum in turn, going on where the last stratum stopped."""
    rng = np.random.default_rng(seed)
    fold_of, turn = {}, 0
    for _, group in cases.groupby(ATTRIBUTES):
        for patient in rng.permutation(sorted(set(group["patient"]))):
            fold_of[patient] = turn % n_folds
            turn += 1
    return cases["patient"].map(fold_of)


def _unevenness(cases, fold):
    """Return the mean distance of exams by level and fold from an equal share."""
    found = []
    for name in ATTRIBUTES:
        counts = pd.crosstab(cases[name], fold)
        found.append(counts.sub(counts.sum(axis=1) / counts.shape[1], axis=0).abs().to_numpy().ravel())
    return np.concatenate(found).mean()


def test_folds__are_more_even_than_dealing_in_turn(study_cases):
    ours, other = [], []
    for seed in range(4):
        made = folds(study_cases, 5, study_cases[["case", *ATTRIBUTES]], seed=seed)
        fold = study_cases["case"].map(dict(zip(made.table["case"], made.table["fold"], strict=True)))
        ours.append(_unevenness(study_cases, fold))
        other.append(_unevenness(study_cases, _dealt_in_turn(study_cases, 5, seed)))
    assert max(ours) < min(other)
    assert max(ours) < 0.75


def test_folds__are_as_even_as_those_of_scikit_learn(study_cases):
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is not installed")
    strata = study_cases[ATTRIBUTES].agg("|".join, axis=1)
    ours, theirs = [], []
    for seed in range(4):
        made = folds(study_cases, 5, study_cases[["case", *ATTRIBUTES]], seed=seed)
        fold = study_cases["case"].map(dict(zip(made.table["case"], made.table["fold"], strict=True)))
        ours.append(_unevenness(study_cases, fold))
        other = pd.Series(-1, study_cases.index)
        maker = selection.StratifiedGroupKFold(5, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of strata that have fewer cases than there are folds
            for number, (_, held) in enumerate(maker.split(study_cases, strata, study_cases["patient"])):
                other.iloc[held] = number
        assert (other >= 0).all()
        theirs.append(_unevenness(study_cases, other))
    assert np.mean(ours) < np.mean(theirs)
    assert max(ours) <= max(theirs)


def test_folds__impossible_requests_are_refused():
    cases = pd.DataFrame({"case": ["a", "b"], "patient": ["p", "q"]})
    with pytest.raises(AuditError, match="PATIENTS_TOO_FEW: 2 patient"):
        folds(cases, 3, seed=1)
    with pytest.raises(AuditError, match="FOLDS_TOO_FEW"):
        folds(cases, 1, seed=1)
