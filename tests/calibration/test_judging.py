"""The short way to a verdict on a drawn cohort says what compare_rulers says of it."""

import numpy as np
import pandas as pd
import pytest

import segaudit as sa
from calibration.judging import judge
from calibration.situations import VERDICTS
from segaudit.audits.compare import generator
from segaudit.rulers.pairs import lookup
from segaudit.tables import SCORES

DRAWS = 499
N = 76


def compared(draw, margin):
    """Return the plan, and the rows of one drawn cohort by quantity, through score tables, audit and compare_rulers."""
    cases = [f"c{i:03d}" for i in range(N)]
    rows = [
        {"case": case, "patient": case, "model": "m", "ruler": ruler, "label": "macro", "metric": "dice"}
        | {"value": value, "unit": "1", "status": "ok"}
        for ruler, values in (("expert", draw.trusted), ("silver", draw.other))
        for case, value in zip(cases, values, strict=True)
    ]
    people = pd.DataFrame({"case": cases, "patient": cases, "band": draw.group.astype(str)})
    plan = sa.Plan(groupings=[sa.by_level("band", "0", "1", "2")], resamples=DRAWS, margin={"dice": margin})
    table = sa.compare_rulers(sa.audit(sa.Scores(SCORES.frame(rows)), people, plan), "expert", "silver").table
    return plan, lookup(table, grouping="band").set_index("quantity")


@pytest.mark.slow
@pytest.mark.parametrize("situation", VERDICTS, ids=lambda situation: situation.name)
def test_judge__is_compare_rulers_to_the_last_digit(situation):
    draw = situation.draw(N, np.random.default_rng(13))
    plan, by = compared(draw, margin=0.03)
    rng = generator(plan, "macro", "dice", "band", "rulers")
    judged = judge(draw, rng=rng, draws=DRAWS, margin=0.03)

    verdict = by.loc["verdict_class"]
    assert judged.found.word == verdict["value"]
    established = judged.found.established
    told = [] if established is None else ["established" if established else "not established"]
    told += [judged.found.mechanism] if judged.found.mechanism else []
    assert "; ".join([*told, *judged.found.flags]) == verdict["detail"]
    assert judged.p == tuple(by.loc["p", ["trusted_value", "other_value"]])
    for quantity, found in (("walsh_ratio", judged.walsh), ("walsh_ratio_log", judged.excess)):
        assert (found.ratio, found.low, found.high, found.p) == tuple(by.loc[quantity, ["value", "low", "high", "p"]])
    inflated = judged.inflated
    expected = tuple(by.loc["differential_inflation", ["value", "low", "high", "p"]])
    assert (inflated.shift, inflated.low, inflated.high, inflated.p) == expected
    assert (judged.change.change, judged.change.p) == tuple(by.loc["delta_h", ["value", "p"]])
    assert judged.ratios.estimable == (by.loc["gap_ratio", "status"] == "ok")
    assert (judged.ratios.gap_change_low, judged.ratios.gap_change_high) == tuple(by.loc["gap_change", ["low", "high"]])
    assert tuple(one.word for one in judged.margins) == tuple(by.loc["equivalence", ["trusted_value", "other_value"]])
