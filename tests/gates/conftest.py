"""A small audited run: men's Dice lies 5 points lower under the expert, the silver ruler inflates it by 6."""

import numpy as np
import pandas as pd
import pytest

from segaudit.audits import Plan
from segaudit.cohorts import Cohort
from segaudit.groupings import by_level
from segaudit.lines import audit_scores
from segaudit.scores import Scores
from segaudit.tables import SCORES


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"case": [f"c{i}" for i in range(40)], "patient": [f"p{i}" for i in range(40)]})
    people = people.assign(sex=["Female", "Male"] * 20, site=["A"] * 36 + ["B"] * 4)
    dice = 0.88 - 0.05 * (people["sex"] == "Male") + rng.normal(0, 0.01, 40)
    rows = [
        (case, f"p{case[1:]}", "mix", ruler, "vb", "dice", value + lift, "1", "ok")
        for ruler, lift in (("expert", 0.0), ("silver", 0.06))
        for case, value in zip(people["case"], dice, strict=True)
    ]
    scores = Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names())))
    plan = Plan(groupings=(by_level("sex", "Female", "Male"), by_level("site", "A", "B")), resamples=99)
    folder = tmp_path_factory.mktemp("gate") / "run"
    audit_scores(scores, Cohort("bench", people), plan, out=folder)
    return folder
