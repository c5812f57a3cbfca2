"""The short form of the miniature: the whole study with real training, as a user runs it."""

import csv
import subprocess
import sys

import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.miniatures import FULL, GOLD, MIXED, SHORT, check_learned, dice_table, study_of, verdicts_table
from segaudit.study.locks import read_lock

pytest.importorskip("nnunetv2", reason="segaudit[study] is not installed")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    folder = tmp_path_factory.mktemp("miniature") / "mini"
    done = subprocess.run(
        [sys.executable, "-m", "segaudit", "study", "mini", "--short", "-o", str(folder)],
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


@pytest.mark.slow
def test_miniature__learns_and_shows_every_ruler(short):
    folder, text = short
    home = folder / "study"
    lock = read_lock(home)
    assert sum(step.verb == "train" for step in lock.steps) == 12
    dice = dice_table(home, lock).set_index(["regime", "prediction", "ruler"]).sort_index()
    for regime in (MIXED, GOLD):
        assert dice.loc[(regime, "final", "truth"), "mean"] >= SHORT.least_dice
        for stage in ("2d", "3d_fullres", "ensemble", "final"):
            expert, truth = (dice.loc[(regime, stage, ruler), "mean"] for ruler in ("expert", "truth"))
            # the rater errs by itself: against the truth every network is better than against the rater
            assert truth > expert
    # the ruler that shares the model's labels flatters it, and its scores spread less
    mixed = dice.xs((MIXED, "final"))
    assert mixed.loc[GOLD, "mean"] > mixed.loc["truth", "mean"] > mixed.loc["expert", "mean"]
    assert mixed.loc[GOLD, "sd"] < mixed.loc["expert", "sd"]
    assert set(verdicts_table(home)["ruler"]) == {"expert", GOLD, "age-below-40", "truth"}
    assert "report:" in text
    assert "Macro Dice" in text


@pytest.mark.slow
def test_miniature__reports_what_its_makers_learned_from(short):
    home = short[0] / "study"
    people = pd.read_csv(short[0] / "phantoms" / "participants.tsv", sep="\t")
    with (home / "trained_on.csv").open() as file:
        rows = list(csv.DictReader(file))
    learned = {
        name: {row["patient"] for row in rows if row["regime"] == name} for name in {row["regime"] for row in rows}
    }
    development = people[people["part"] == "development"]
    assert learned[MIXED] == set(development["patient"])
    assert learned[GOLD] == set(development.loc[development["provenance"] == "gold", "patient"])
    assert learned["age-below-40"] <= set(development.loc[development["age"] < 40, "patient"])
    assert not learned[MIXED] & set(people.loc[people["part"] == "test", "patient"])


def test_miniature__that_has_not_learned_fails_with_its_reason():
    dice = pd.DataFrame(
        {"regime": [MIXED, GOLD], "prediction": "final", "ruler": "truth", "mean": [0.9, 0.4], "sd": 0.1}
    )
    with pytest.raises(AuditError, match=r"regime 'gold' reaches a macro Dice of 0\.400 against the truth; 0\.85"):
        check_learned(dice, SHORT)
    check_learned(dice.assign(mean=0.9), FULL)


def test_miniature__full_form_is_twenty_trainings_and_those_of_the_rulers():
    study = study_of(FULL, 1)
    assert (study["n_folds"], FULL.gold, FULL.silver, FULL.test) == (5, 30, 45, 76)
    assert [one["name"] for one in study["regimes"]] == [MIXED, GOLD, "origin"]
