"""Simulated audits of every shape that a report must bear."""

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import pytest

from segaudit.audits import Plan, audit
from segaudit.cohorts import Cohort, MaskSet
from segaudit.groupings import by_cuts, by_level
from segaudit.reports import report
from segaudit.rulers import compare_rulers
from segaudit.scores import Scores
from segaudit.simulate.scores import draw_scores
from segaudit.tables import SCORES


@cache
def made(
    n=76,
    gap=5.0,
    gap_ratio=0.5,
    noise=0.25,
    groupings=3,
    metrics=("dice", "hd95"),
    rulers=("expert", "silver"),
    models=("mix",),
    labels=("macro",),
    margin=0.03,
    with_cohort=True,
    seed=1,
    resamples=99,
    min_patients=10,
):
    """Return an audit of simulated scores and the comparisons of its rulers."""
    rng = np.random.default_rng(seed)
    names = [f"c{i:04d}" for i in range(n)]
    cases = pd.DataFrame({"case": names, "patient": [f"p{i:04d}" for i in range(n)]})
    rows = []
    for model in models:
        drawn = draw_scores(n, rng=rng, gap_points=gap, gap_ratio=gap_ratio, noise_ratio=noise)
        cases["age"] = np.array([30.0, 50.0, 70.0])[drawn.group] + rng.integers(-9, 9, n)
        for k, ruler in enumerate(rulers):
            for label in labels:
                dice = np.clip(
                    (drawn.other if k else drawn.trusted) + rng.normal(0, 0.002 * (label != "macro"), n), 0, 1
                )
                for metric in metrics:
                    values = np.round((1 - dice) * 25, 3) if metric == "hd95" else dice
                    unit = "mm" if metric == "hd95" else "1"
                    rows += [
                        (c, f"p{c[1:]}", model, ruler, label, metric, v, unit, "ok")
                        for c, v in zip(names, values, strict=True)
                    ]
    cases["sex"] = rng.choice(["Female", "Male"], n)
    cases["race"] = rng.choice(["White", "Black", "Asian"], n, p=[0.7, 0.25, 0.05])
    cases.loc[3, "race"] = None
    cases["age_top_coded"] = False
    cases.loc[0, "age_top_coded"] = True
    chosen = [by_level("sex", "Female", "Male"), by_level("race", "White", "Black"), by_cuts("age", "age", 40, 60)]
    for i in range(3, groupings):
        cases[f"attribute{i}"] = rng.choice(list("ABC"), n)
        chosen.append(by_level(f"attribute{i}"))
    scores = Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names())))
    plan = Plan(
        groupings=chosen[:groupings],
        margin={"dice": margin} if margin else {},
        resamples=resamples,
        min_patients=min_patients,
        regression=("age", "sex") if groupings else (),
    )
    found = audit(scores, cases, plan)
    comparisons = tuple(compare_rulers(found, rulers[0], other) for other in rulers[1:])
    if with_cohort:
        found = dataclasses.replace(found, cohort=_cohort(cases, rulers, models))
    return found, comparisons


def _cohort(cases, rulers, models):
    none = pd.DataFrame(columns=["case", "path", "kind"])
    trained = frozenset(f"t{i}" for i in range(80))
    sets = {name: MaskSet(name, none, "machine", "nnU-Net, both label kinds", trained) for name in models}
    sets[rulers[0]] = MaskSet(rulers[0], none, "expert", "two radiologists")
    for other in rulers[1:]:
        sets[other] = MaskSet(other, none, "machine", "nnU-Net, expert labels", frozenset(f"t{i}" for i in range(40)))
    missing = pd.DataFrame({"case": ["c0003"], "attribute": ["race"], "raw": ["n/a"], "reason": ["not reported"]})
    excluded = pd.DataFrame({"case": ["c9"], "rule": ["localizer"], "reason": ["no anatomy"]})
    return Cohort("simulated spines", cases, {"vb": (1,), "disc": (2,)}, sets, {}, excluded, missing)


@pytest.fixture(scope="session")
def simulated():
    """Return the maker of simulated audits (each made once)."""
    return made


@cache
def reported_once(**given):
    return report(*made(**given))


@pytest.fixture(scope="session")
def reported():
    """Return the maker of reports of simulated audits (each made once)."""
    return reported_once
