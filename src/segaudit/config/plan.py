"""audit.toml: what is audited, by which groups, against which thresholds and margins; declared before the scores."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from segaudit.config.base import Strict

Share = Annotated[float, Field(gt=0, lt=1)]


class GroupingEntry(Strict):
    """One grouping in full: by levels (all of them when none is named), by cuts, or a crossing of named groupings."""

    name: str
    attribute: str | None = None
    levels: list[str] | None = None
    values: dict[str, list[str]] | None = None
    cuts: list[float] | None = None
    labels: list[str] | None = None
    cross: list[str] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> GroupingEntry:
        if sum(part is not None for part in (self.levels, self.cuts, self.cross)) > 1:
            raise ValueError("give levels, cuts or cross, only one of them")
        return self


class Undefined(Strict):
    """What a score that is no number counts as."""

    both_empty: Literal["exclude", "best", "worst"] = "exclude"
    prediction_missing: Literal["failure", "exclude"] = "failure"


class Primary(Strict):
    """The declared primary family: these tests are corrected among themselves."""

    metric: str
    label: str = "macro"
    groupings: list[str] | None = None


class Families(Strict):
    """How p values are adjusted: the method, and whether the rulers' tests are one family or one each."""

    method: Literal["bh", "holm", "by"] = "bh"
    scope: Literal["ruler", "joint"] = "ruler"
    primary: Primary | None = None


class PlanFile(Strict):
    """audit.toml."""

    cohort: str | None = None
    scores: dict[str, str] | None = None
    columns: dict[str, str] = {}
    participants: str | None = None
    key: str | None = None
    patient: str | None = None
    output: str = "run"
    models: list[str] | None = None
    rulers: list[str] | None = None
    metrics: list[str] = ["dice", "ndsc", "hd95"]
    trusted: str | None = None
    other: str | None = None
    second: str | None = None
    by: list[str] = []
    groupings: list[GroupingEntry] = []
    success: dict[str, float] = {"dice": 0.8, "ndsc": 0.8, "hd95": 5.0}
    sweep: dict[str, list[float]] = {}
    margin: dict[str, Annotated[float, Field(gt=0)]] = {}
    families: Families = Families()
    undefined: Undefined = Undefined()
    regression: list[str] = []
    alpha: Share = 0.05
    level: Share = 0.95
    resamples: Annotated[int, Field(ge=99, le=1_000_000)] = 10_000
    min_patients: Annotated[int, Field(ge=2)] = 10
    workers: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0)] = 42
