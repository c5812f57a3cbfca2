"""Rulers with planted faults, from masks to verdict: each fault is called by its name."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest

from calibration.planted import Outcome, faults, outcomes

PATIENTS, SHAPE = 60, (9, 34, 46)


@pytest.mark.slow
def test_planted__every_fault_is_called_by_its_name():
    small = partial(outcomes, patients=PATIENTS, shape=SHAPE)
    with ProcessPoolExecutor(2) as pool:
        found = [one for cohort in pool.map(small, (1, 2), (3.5, 3.5)) for one in cohort]
    assert faults(found) == []
    assert {one.told for one in found if one.ruler == "clone"} <= {"agreement, compressed", "false confidence"}


@pytest.mark.parametrize(
    "ruler,word,trusted,other,broken,why",
    [
        ("clone", "false magnitude", "gap found", "gap found", True, "a clone shrinks the gap"),
        ("clone", "false confidence", "no gap shown", "gap found", False, "less noise, a gap found"),
        ("biased", "agreement", "gap found", "gap found", True, "the gap is three times as large"),
        ("noisy", "agreement", "gap found", "gap found", False, "the gap was still found"),
        ("noisy", "inconclusive", "gap found", "no gap shown", True, "the noise hid the gap"),
        ("noisy", "masking (noise)", "gap found", "no gap shown", False, "and is named"),
        ("equal", "inconclusive", "gap found", "no gap shown", True, "a ruler as good"),
    ],
)
def test_faults__tell_a_wrong_name(ruler, word, trusted, other, broken, why):
    assert bool(faults([Outcome(ruler, 3.5, 1, word, "", trusted, other)])) == broken, why
