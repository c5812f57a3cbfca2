"""The steps of a study and what each needs: one job a step, one training a fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from segaudit.study.plans import StudyPlan
from segaudit.study.regimes import Regime

Verb = Literal["prepare", "plan", "preprocess", "train", "predict", "ensemble", "clean", "collect", "audit"]
AUDITS = ("global", "rulers")
"""E1: every test case against its reference; E2: the cases that experts outlined, against every ruler."""


@dataclass(frozen=True)
class Step:
    """A step: its name is also the path of its proof and of its log.

    Attributes
    ----------
    name : str
        Such as train/mixed/2d/0.
    verb : str
    needs : tuple of str
        Steps that must be done before.
    regime, configuration, fold : str
        Empty where the step has none.
    """

    name: str
    verb: Verb
    needs: tuple[str, ...] = ()
    regime: str = ""
    configuration: str = ""
    fold: str = ""


def steps_of(plan: StudyPlan) -> list[Step]:
    """Return the steps of a study, each after those that it needs."""
    found = [Step("plan", "plan", (f"prepare/{plan.plan_from}",))]
    for regime in plan.regimes:
        found += _regime_steps(regime)
    masks = tuple(f"clean/{one.name}" for one in plan.regimes if set(plan.test) <= set(one.predicted))
    found.append(Step("collect", "collect", masks))
    found += [Step(f"audit/{name}", "audit", ("collect",)) for name in AUDITS]
    return _in_order(found)


def _regime_steps(regime: Regime) -> Iterator[Step]:
    name = regime.name
    yield Step(f"prepare/{name}", "prepare", tuple(f"clean/{m}" for m in regime.makers), name)
    yield Step(f"preprocess/{name}", "preprocess", (f"prepare/{name}", "plan"), name)
    for c in regime.configurations:
        trained = tuple(f"train/{name}/{c}/{fold}" for fold in regime.folds)
        for step, fold in zip(trained, regime.folds, strict=True):
            yield Step(step, "train", (f"preprocess/{name}",), name, c, fold)
        if regime.predicted:
            yield Step(f"predict/{name}/{c}", "predict", trained, name, c)
    if regime.predicted:
        yield Step(f"ensemble/{name}", "ensemble", tuple(f"predict/{name}/{c}" for c in regime.configurations), name)
        yield Step(f"clean/{name}", "clean", (f"ensemble/{name}",), name)


def _in_order(steps: list[Step]) -> list[Step]:
    """Return the steps with each after those it needs, else in the order given."""
    left, done, found = list(steps), set[str](), list[Step]()
    while left:
        ready = [step for step in left if done.issuperset(step.needs)]
        found += ready
        done |= {step.name for step in ready}
        left = [step for step in left if step.name not in done]
    return found
