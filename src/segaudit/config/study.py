"""study.toml: which networks are trained on which labels, and against which rulers they are audited."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from segaudit.config.base import Strict
from segaudit.config.carbon import CarbonEntry
from segaudit.config.cohort import MaskKind, Text
from segaudit.config.plan import PlanFile

Name = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)]
Folds = Literal["each", "all"]


class RegimeEntry(Strict):
    """Networks that share their training labels.

    `labels` names mask sets of the cohort, or other regimes whose predictions are the labels; of a case the first that
    has it is used. `kinds`, `where` and `cases` (a table with a column case, such as the splits.csv of a regime of
    `segaudit split`) narrow the cases. `folds` is "each" for one network a fold, or "all" for one
    network of all development cases.
    """

    name: Name
    labels: Annotated[list[Text], Field(min_length=1)]
    kinds: list[MaskKind] = []
    where: list[Text] = []
    cases: Text | None = None
    configurations: list[Text] | None = None
    folds: Folds = "each"
    audited: bool = True


class RulerEntry(Strict):
    """A reference beside the trusted one: predictions of a regime, of a regime made for it, or a mask set."""

    made_by: Name | None = None
    trained_on: Text | None = None
    mask_set: Text | None = None
    name: Name | None = None
    labels: list[Text] = []
    configurations: list[Text] | None = None
    folds: Folds = "each"

    @model_validator(mode="after")
    def _one_maker(self) -> RulerEntry:
        given = [name for name in ("made_by", "trained_on", "mask_set") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of made_by, trained_on and mask_set")
        if self.trained_on is None and (self.labels or self.configurations or self.folds != "each"):
            raise ValueError("labels, configurations and folds belong to trained_on")
        return self


class NetworkEntry(Strict):
    """How nnU-Net plans and trains: its own class names, or module:Class for classes of yours."""

    configurations: Annotated[list[Text], Field(min_length=1)] = ["2d", "3d_fullres"]
    planner: Text = "nnUNetPlannerResEncL"
    trainer: Text = "nnUNetTrainer"
    plan_from: Name | None = None
    channel: Text = "T2"
    first_dataset: Annotated[StrictInt, Field(ge=1, le=900)] = 501
    gpu_memory_gb: Annotated[float, Field(gt=0)] | None = None


class MachineEntry(Strict):
    """What the jobs run on."""

    device: Literal["cuda", "cpu", "mps"] = "cuda"
    threads: Annotated[StrictInt, Field(ge=1)] = 8
    augmenters: Annotated[StrictInt, Field(ge=0)] = 8
    exporters: Annotated[StrictInt, Field(ge=1)] = 4
    pools: Literal["processes", "threads"] = "processes"
    warm: bool = False
    jobs: Annotated[StrictInt, Field(ge=1)] = 1
    gpus: Annotated[StrictInt, Field(ge=1)] = 1
    hours_a_fold: Annotated[float, Field(gt=0)] = 35.0


class StudyFile(Strict):
    """study.toml."""

    cohort: Text = "cohort.toml"
    split: Text = "splits.csv"
    output: Text = "study"
    development: Annotated[list[Text], Field(min_length=1)] = ["train", "val"]
    test: Annotated[list[Text], Field(min_length=1)] = ["test"]
    reference: Annotated[list[Text], Field(min_length=1)]
    trusted: Text | None = None
    stratify: list[Text] = []
    n_folds: Annotated[StrictInt, Field(ge=2, le=20)] = 5
    seed: Annotated[StrictInt, Field(ge=0)] = 42
    clean_up: list[Name] = []
    regimes: Annotated[list[RegimeEntry], Field(min_length=1)]
    rulers: list[RulerEntry] = []
    network: NetworkEntry = NetworkEntry()
    machine: MachineEntry = MachineEntry()
    audit: PlanFile = PlanFile()
    carbon: CarbonEntry = CarbonEntry()

    @field_validator("regimes")
    @classmethod
    def _names_differ(cls, entries: list[RegimeEntry]) -> list[RegimeEntry]:
        twice = sorted(name for name, n in Counter(entry.name for entry in entries).items() if n > 1)
        if twice:
            raise ValueError(f"two regimes are named '{twice[0]}'")
        return entries

    @model_validator(mode="after")
    def _regimes_are_known(self) -> StudyFile:
        known = {entry.name for entry in self.regimes}
        asked = [*self.clean_up, *(r.made_by for r in self.rulers if r.made_by), self.network.plan_from]
        unknown = sorted({name for name in asked if name is not None} - known)
        if unknown:
            raise ValueError(f"'{unknown[0]}' is no regime")
        return self

    @field_validator("audit")
    @classmethod
    def _audit_is_a_plan_only(cls, plan: PlanFile) -> PlanFile:
        given = sorted(
            {"cohort", "scores", "participants", "models", "rulers", "trusted", "output"} & plan.model_fields_set
        )
        if given:
            raise ValueError(
                f"'{given[0]}' is the study's to say; the [audit] table holds groupings, metrics and the like"
            )
        return plan
