"""New names for the rulers and the model change no number, drawn ones included."""

import numpy as np
import pandas as pd

from segaudit.audits import Plan, audit
from segaudit.groupings import parse_all
from segaudit.rulers import compare_rulers
from segaudit.scores import Scores
from segaudit.simulate import draw_scores
from segaudit.tables import SCORES


def _results(trusted, other, model):
    draw = draw_scores(60, rng=np.random.default_rng(5), gap_points=3.0, noise_ratio=0.5)
    cases = pd.DataFrame({"case": [f"c{i:02}" for i in range(60)], "band": draw.group.astype(str)})
    cases["patient"] = cases["case"]
    rows = [
        (case, case, model, ruler, "vb", "dice", value, "1", "ok")
        for ruler, values in ((trusted, draw.trusted), (other, draw.other))
        for case, value in zip(cases["case"], values, strict=True)
    ]
    scores = Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names())))
    plan = Plan(groupings=parse_all(["band"]), margin={"dice": 0.03}, resamples=299)
    found = audit(scores, cases, plan)
    tables = [table for _, table in found.tables()] + [compare_rulers(found, trusted, other).table]
    names = {trusted: "A", other: "B", model: "M"}
    return [table.replace(names).drop(columns="detail", errors="ignore") for table in tables]


def test_names__of_rulers_and_model_change_no_number():
    for first, second in zip(_results("expert", "silver", "net"), _results("zz", "aa", "mesh"), strict=True):
        pd.testing.assert_frame_equal(first, second)
