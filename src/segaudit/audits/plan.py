"""The plan: what is audited, fixed and hashed before a score is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from segaudit.config.plan import GroupingEntry, PlanFile
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.groupings import (
    Grouping,
    attribute_names,
    by_cuts,
    by_level,
    crossing,
    parse_all,
    resolve,
    unknown_attribute,
)
from segaudit.metrics import METRICS
from segaudit.provenance import digest_json

SUCCESS: Mapping[str, float] = {"dice": 0.8, "ndsc": 0.8, "hd95": 5.0}
SWEEPS: Mapping[str, tuple[float, ...]] = {
    "dice": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    "ndsc": (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
    "hd95": (1.0, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0),
}


@dataclass(frozen=True)
class Plan:
    """What is audited: no default depends on the scores.

    Attributes
    ----------
    groupings : tuple of Grouping
    success : mapping of metric to threshold
        A case succeeds when its score is strictly beyond it.
    sweep : mapping of metric to thresholds
    margin : mapping of metric to float
        Gaps below it do not matter, in the metric's unit.
    method : {"bh", "holm", "by"}
        Adjustment within a family.
    scope : {"ruler", "joint"}
        Whether each ruler's tests are a family of their own.
    primary_metric, primary_label : str
        The score whose tests are the declared primary family; an empty metric declares none.
    primary_groupings : tuple of str
        Groupings of the primary family; empty for all.
    both_empty : {"exclude", "best", "worst"}
        What a case counts as when both masks are empty.
    prediction_missing : {"failure", "exclude"}
    regression : tuple of str
        Attributes of the least-squares regression of each score; empty for none.
    alpha, level : float
        Level of the tests; confidence of the intervals.
    resamples : int
        Draws of the bootstrap and of the permutation.
    min_patients : int
        Groups with fewer patients are described and not tested.
    seed : int
    """

    groupings: tuple[Grouping, ...] | list[Grouping] = ()
    success: Mapping[str, float] = field(default_factory=lambda: dict(SUCCESS))
    sweep: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: dict(SWEEPS))
    margin: Mapping[str, float] = field(default_factory=dict)
    method: Literal["bh", "holm", "by"] = "bh"
    scope: Literal["ruler", "joint"] = "ruler"
    primary_metric: str = ""
    primary_label: str = "macro"
    primary_groupings: tuple[str, ...] = ()
    both_empty: Literal["exclude", "best", "worst"] = "exclude"
    prediction_missing: Literal["failure", "exclude"] = "failure"
    regression: tuple[str, ...] = ()
    alpha: float = 0.05
    level: float = 0.95
    resamples: int = 10_000
    min_patients: int = 10
    seed: int = 42

    def __post_init__(self) -> None:
        object.__setattr__(self, "groupings", tuple(self.groupings))
        names = [grouping.name for grouping in self.groupings]
        findings = [
            Finding("GROUPING_TWICE", f"'{name}' names two groupings.", "plan", "name each grouping once.")
            for name in sorted({name for name in names if names.count(name) > 1})
        ]
        for part in ("success", "sweep", "margin"):
            for metric in getattr(self, part):
                if metric not in METRICS:
                    fact = f"no metric is named '{metric}'."
                    findings.append(
                        Finding("UNKNOWN_METRIC", fact, f"plan, {part}", did_you_mean(metric, METRICS.names()))
                    )
        findings += self._out_of_bounds()
        raise_errors(findings)

    def _out_of_bounds(self) -> list[Finding]:
        """Return an error for each threshold that no score can pass or miss, and each margin not above 0."""
        findings = []
        for part, values in (("success", self.success), ("margin", self.margin)):
            for metric, value in values.items():
                if metric not in METRICS:
                    continue
                low, high = METRICS[metric].bounds
                fits = 0 < value <= high - low if part == "margin" else low <= value <= high
                if not fits:
                    fact = f"the {part} of {metric} is {value:g}; {metric} lies from {low:g} to {high:g}."
                    fix = (
                        "a margin lies above 0."
                        if part == "margin" and value <= 0
                        else "write shares, not percentages."
                    )
                    findings.append(Finding("PLAN_BOUNDS", fact, f"plan, {part}", fix))
        return findings

    def resolved(self, cases: pd.DataFrame) -> Plan:
        """Return the plan with every grouping's levels, taken from the participants where none are declared.

        Raises
        ------
        AuditError
            UNKNOWN_ATTRIBUTE and what `segaudit.groupings.resolve` raises, all at once.
        """
        findings = [
            unknown_attribute(name, cases.columns, "plan, regression")
            for name in self.regression
            if name not in attribute_names(cases.columns)
        ]
        groupings = []
        for grouping in self.groupings:
            try:
                groupings.append(resolve(grouping, cases))
            except AuditError as error:
                findings += error.findings
        raise_errors(findings)
        return replace(self, groupings=tuple(groupings))

    def as_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value."""
        return {**asdict(self), "groupings": [asdict(grouping) for grouping in self.groupings]}

    def digest(self) -> str:
        """Return the sha256 that names this plan."""
        return digest_json(self.as_json())


def plan_of(file: PlanFile) -> Plan:
    """Return the plan of an audit.toml.

    Raises
    ------
    AuditError
        The codes of `segaudit.groupings`, UNKNOWN_GROUPING for a crossing of a grouping that is not named before.
    """
    named: dict[str, Grouping] = {}
    findings: list[Finding] = []
    for i, entry in enumerate(file.groupings):
        try:
            named[entry.name] = _grouping(entry, named, f"groupings[{i}]")
        except AuditError as error:
            findings += error.findings
    raise_errors(findings)
    primary = file.families.primary
    return Plan(
        groupings=(*named.values(), *parse_all(file.by)),
        success=file.success,
        sweep={**SWEEPS, **{metric: tuple(sorted(values)) for metric, values in file.sweep.items()}},
        margin=file.margin,
        method=file.families.method,
        scope=file.families.scope,
        primary_metric=primary.metric if primary else "",
        primary_label=primary.label if primary else "macro",
        primary_groupings=tuple(primary.groupings or ()) if primary else (),
        both_empty=file.undefined.both_empty,
        prediction_missing=file.undefined.prediction_missing,
        regression=tuple(file.regression),
        alpha=file.alpha,
        level=file.level,
        resamples=file.resamples,
        min_patients=file.min_patients,
        seed=file.seed,
    )


def _grouping(entry: GroupingEntry, named: Mapping[str, Grouping], where: str) -> Grouping:
    if entry.cross is not None:
        for name in entry.cross:
            if name not in named:
                fact = f"there is no grouping '{name}' before '{entry.name}'."
                raise AuditError(Finding("UNKNOWN_GROUPING", fact, where, did_you_mean(name, named)))
        return crossing(*(named[name] for name in entry.cross), name=entry.name)
    attribute = entry.attribute or entry.name
    if entry.cuts is not None:
        return by_cuts(entry.name, attribute, *entry.cuts, labels=entry.labels)
    return by_level(entry.name, *(entry.levels or ()), attribute=attribute, values=entry.values)
