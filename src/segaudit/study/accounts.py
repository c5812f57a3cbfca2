"""What a study costs: what its plan will take, and what its jobs took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from segaudit.config.study_lock import StudyLock
from segaudit.store import atomic
from segaudit.study.carbon import Account, account
from segaudit.study.plans import StudyPlan
from segaudit.study.proofs import read_proof

_CHECKPOINTS_GB = 0.8
"""Final and best checkpoint of one ResEnc-L training."""
_PREPROCESSED, _PROBABILITIES = 6.0, 12.0
"""Bytes a voxel of an image: preprocessed (one configuration), and softmax of three classes as stored."""


@dataclass(frozen=True)
class Estimate:
    """What a study will take, roughly.

    Attributes
    ----------
    trainings : int
    training_hours : float
        Device hours: trainings times the declared hours of a fold.
    disk_gb : float
        Checkpoints, preprocessed images and probabilities.
    """

    trainings: int
    training_hours: float
    disk_gb: float


def estimate(plan: StudyPlan, voxels: float = 0.0) -> Estimate:
    """Return what a study will take; `voxels` is the mean number of voxels of an image, 0 when not known."""
    trainings = plan.trainings()
    exams = sum(len(one.exams) * len(one.configurations) for one in plan.regimes)
    predicted = sum(len(one.predicted) * (len(one.configurations) + 1) for one in plan.regimes)
    stored = voxels * (exams * _PREPROCESSED + (predicted + exams) * _PROBABILITIES) / 1e9
    hours = len(trainings) * plan.file.machine.hours_a_fold
    return Estimate(len(trainings), hours, len(trainings) * _CHECKPOINTS_GB + stored)


def jobs_table(home: Path, lock: StudyLock) -> pd.DataFrame:
    """Return the finished jobs of a study: step, device, seconds, units.

    A job on a processor counts its processor time; one on a GPU the wall time of its board. What an attempt took that
    was killed is not known.
    """
    rows = []
    for step in lock.steps:
        proof = read_proof(home, step.name)
        if proof is not None:
            seconds = proof.cpu_seconds if proof.device == "cpu" else proof.seconds
            rows.append({"step": step.name, "device": proof.device, "seconds": seconds, "units": 1})
    return pd.DataFrame(rows, columns=["step", "device", "seconds", "units"])


def carbon_of(home: Path, lock: StudyLock, plan: StudyPlan) -> Account:
    """Return the carbon account of the jobs that are done."""
    return account(jobs_table(home, lock), plan.file.carbon)


def write_carbon(plan: StudyPlan, lock: StudyLock) -> None:
    """Write the carbon account of the jobs that are done to carbon.csv of the study."""
    with atomic(plan.home / "carbon.csv") as temporary:
        carbon_of(plan.home, lock, plan).table.to_csv(temporary, index=False, lineterminator="\n")


def regimes_table(plan: StudyPlan) -> pd.DataFrame:
    """Return one row a regime: exams, patients, kinds of labels, configurations, folds, trainings, cases predicted."""
    rows = []
    for one in plan.regimes:
        kinds = Counter(f"{exam.source} ({exam.kind})" for exam in one.exams)
        rows.append(
            {
                "regime": one.name,
                "data set": one.dataset,
                "exams": len(one.exams),
                "patients": len(one.trained_on()),
                "labels": ", ".join(f"{n} {kind}" for kind, n in kinds.items()),
                "configurations": ", ".join(one.configurations),
                "folds": len(one.pairs) or "all",
                "trainings": len(one.configurations) * len(one.folds),
                "predicted": len(one.predicted),
            }
        )
    return pd.DataFrame(rows)


def folds_table(plan: StudyPlan) -> pd.DataFrame:
    """Return one row a regime and fold: exams and patients that its network learns from, and test patients in it."""
    cases = plan.cohort.cases
    tested = set(cases.loc[cases["case"].isin(plan.test), "patient"])
    rows = [
        {
            "regime": one.name,
            "fold": fold,
            "exams trained": len(one.pair(fold).train),
            "exams validated": len(one.pair(fold).val),
            "patients trained": len(one.trained_on(fold)),
            "test patients in it": len(one.trained_on(fold) & tested),
        }
        for one in plan.regimes
        for fold in one.folds
    ]
    return pd.DataFrame(rows)


def by_verb(names: Sequence[str]) -> Counter[str]:
    """Return how many steps of each kind there are."""
    return Counter(name.split("/", 1)[0] for name in names)
