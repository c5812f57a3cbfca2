"""lock.json: what a study is, down to the digest of every file, as its steps read it."""

from __future__ import annotations

from typing import Any

from segaudit.config.base import Strict


class ExamRecord(Strict):
    """A development exam of a regime; the label of another regime has no digest before it is predicted."""

    case: str
    patient: str
    image: str
    label: str
    source: str
    kind: str
    predicted: bool
    image_sha256: str
    label_sha256: str


class FoldRecord(Strict):
    """Cases that a fold's network learns from, and those it is validated on."""

    train: list[str]
    val: list[str]


class RegimeRecord(Strict):
    """A regime."""

    name: str
    dataset: str
    exams: list[ExamRecord]
    folds: list[FoldRecord]
    configurations: list[str]
    predicted: dict[str, str]
    audited: bool


class StepRecord(Strict):
    """A step and those that it needs."""

    name: str
    verb: str
    needs: list[str]
    regime: str
    configuration: str
    fold: str


class StudyLock(Strict):
    """The whole of lock.json.

    `settings` holds what decides the numbers: planner, trainer, seed and the like; `machine` what does not.
    `codings` gives, of each mask set, the values that stand for each label; predictions number the labels from 1.
    """

    version: int
    settings: dict[str, Any]
    machine: dict[str, Any]
    labels: dict[str, list[int]]
    codings: dict[str, dict[str, list[int]]]
    regimes: list[RegimeRecord]
    images: dict[str, str]
    test: list[str]
    collect: dict[str, Any]
    steps: list[StepRecord]

    def regime(self, name: str) -> RegimeRecord:
        """Return a regime by its name."""
        return next(one for one in self.regimes if one.name == name)

    def coding(self, exam: ExamRecord) -> dict[str, tuple[int, ...]]:
        """Return the values that stand for each label in the label file of an exam."""
        if exam.predicted:
            return {name: (i,) for i, name in enumerate(self.labels, 1)}
        return {name: tuple(values) for name, values in self.codings[exam.source].items()}

    def step(self, name: str) -> StepRecord | None:
        """Return a step by its name."""
        return next((one for one in self.steps if one.name == name), None)
