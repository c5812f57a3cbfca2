"""The whole study in small: phantoms, real nnU-Net training on a processor, both audits, beside the planted truth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.cohorts import Cohort, MaskSet, discover_masks, read_cohort
from segaudit.config.study_lock import StudyLock
from segaudit.config.toml_text import toml_text
from segaudit.errors import AuditError, Finding
from segaudit.lines import Progress, silent
from segaudit.runs import read_audit
from segaudit.scores import MACRO, score
from segaudit.store import RunDirectory, atomic
from segaudit.study.locks import read_lock
from segaudit.study.phantoms import EXPERT, TRUTH, write_phantoms
from segaudit.study.workflow import run_study

ORIGIN, MIXED, GOLD, YOUNG = "origin", "mixed", "gold", "age-below-40"
STUDY = "study.toml"


@dataclass(frozen=True)
class Form:
    """A size of the miniature.

    Attributes
    ----------
    gold, silver, test : int
        Development cases with an expert's label, without one, and test cases, all of them outlined by the expert.
    n_folds : int
    trainer : str
    least_dice : float
        Macro Dice against the truth that every regime must reach: networks that have not learned show nothing.
    """

    gold: int
    silver: int
    test: int
    n_folds: int
    trainer: str
    least_dice: float


FULL = Form(30, 45, 76, 5, "segaudit.study.networks:MiniTrainer", 0.88)
SHORT = Form(16, 18, 40, 2, "segaudit.study.networks:QuickTrainer", 0.85)


@dataclass(frozen=True)
class Miniature:
    """What a miniature came to.

    Attributes
    ----------
    folder : Path
    dice : DataFrame
        regime, prediction (2d, 3d_fullres, ensemble, final), ruler, mean, sd: macro Dice over the test cases.
    tests : DataFrame
        grouping, ruler, p, q, verdict: rank tests of the mixed regime's macro Dice.
    seconds : float
        Wall time of the whole.
    trainings : int
    """

    folder: Path
    dice: pd.DataFrame
    tests: pd.DataFrame
    seconds: float
    trainings: int

    def tables(self) -> list[tuple[str, pd.DataFrame]]:
        """Return the tables of the result with their titles, as text."""
        told = self.dice.assign(
            told=[f"{m:.3f} ({s:.3f})" for m, s in zip(self.dice["mean"], self.dice["sd"], strict=True)]
        )
        wide = told.pivot_table(
            index=["regime", "prediction"], columns="ruler", values="told", aggfunc="first", sort=False
        ).reset_index()
        tests = self.tests.assign(
            p=[_probability(p) for p in self.tests["p"]], q=[_probability(q) for q in self.tests["q"]]
        )
        return [
            ("Macro Dice over the test cases, mean (SD), by ruler", wide.rename_axis(columns=None)),
            ("Does the mixed regime's macro Dice differ between groups? By ruler; the truth is known here", tests),
        ]

    def lines(self) -> list[str]:
        """Return the closing lines."""
        pages = [f"report: {path}" for path in sorted(self.folder.glob("study/audit/*/run/report.html"))]
        return [f"{self.trainings} trainings; this run took {self.seconds:.0f} s", *pages]


def _probability(value: float) -> str:
    return "" if pd.isna(value) else "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def run_miniature(folder: Path, *, short: bool = False, seed: int = 1, progress: Progress = silent) -> Miniature:
    """Run the miniature, or what is left of it, and return its figures.

    Raises
    ------
    AuditError
        MINIATURE_NOT_LEARNED when a regime stays below the least Dice against the truth; the codes of the study.
    """
    begun = time.monotonic()
    form = SHORT if short else FULL
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STUDY
    if not path.is_file():
        progress("drawing phantoms", 0, 1)
        _write_inputs(folder, form, seed)
        progress("drawing phantoms", 1, 1)
    run_study(path, progress=progress)
    home = folder / "study"
    lock = read_lock(home)
    dice = dice_table(home, lock)
    check_learned(dice, form)
    n_trainings = sum(step.verb == "train" for step in lock.steps)
    return Miniature(folder, dice, verdicts_table(home), time.monotonic() - begun, n_trainings)


def study_of(form: Form, seed: int) -> dict[str, Any]:
    """Return the study.toml of a form: silver labels are made by a network trained on the gold ones."""
    return {
        "cohort": "phantoms/cohort.toml",
        "split": "splits.csv",
        "development": ["development"],
        "reference": [EXPERT],
        "stratify": ["age:40,60", "sex"],
        "n_folds": form.n_folds,
        "seed": seed,
        "clean_up": [MIXED, GOLD],
        "regimes": [
            {"name": MIXED, "labels": [EXPERT, ORIGIN]},
            {"name": GOLD, "labels": [EXPERT]},
            {"name": ORIGIN, "labels": [EXPERT], "folds": "all", "audited": False},
        ],
        "rulers": [
            {"made_by": GOLD},
            {"trained_on": "age < 40", "labels": [EXPERT, ORIGIN], "folds": "all", "name": YOUNG},
            {"mask_set": TRUTH},
        ],
        "network": {
            "planner": "segaudit.study.networks:MiniPlanner",
            "trainer": form.trainer,
            "plan_from": GOLD,
        },
        "machine": {
            "device": "cpu",
            "threads": 1,
            "augmenters": 0,
            "exporters": 1,
            "pools": "threads",
            "warm": True,
            "jobs": 2,
            "hours_a_fold": 0.01,
        },
        "audit": {
            "by": ["age:40,60", "sex=Female,Male"],
            "metrics": ["dice", "hd95"],
            "success": {"dice": 0.8, "hd95": 5.0},
            "margin": {"dice": 0.03},
            "resamples": 2000,
            "min_patients": 5,
            "seed": seed,
        },
        "carbon": {"watts": {"cpu": 10.0}},
    }


def _write_inputs(folder: Path, form: Form, seed: int) -> None:
    cohort = write_phantoms(folder / "phantoms", gold=form.gold, silver=form.silver, test=form.test, seed=seed)
    table = cohort.cases[["case", "patient", "part"]].rename(columns={"part": "split"})
    with atomic(folder / "splits.csv") as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
    with atomic(folder / STUDY) as temporary:
        temporary.write_text(toml_text(study_of(form, seed)), encoding="utf-8")


def dice_table(home: Path, lock: StudyLock) -> pd.DataFrame:
    """Return macro Dice of every regime and stage against every ruler: regime, prediction, ruler, mean, sd."""
    cohort = read_cohort(home / "audit" / "rulers" / "cohort.toml")
    stages = {
        f"{one.name}|{stage}": home / "predictions" / one.name / stage
        for one in lock.regimes
        if one.audited
        for stage in (*one.configurations, "ensemble", "final")
    }
    sets = {name: _mask_set(name, folder, cohort) for name, folder in stages.items()}
    rulers = list(cohort.rulers)
    joined = replace(cohort, mask_sets={**{name: cohort.mask_sets[name] for name in rulers}, **sets})
    scores = score(joined, models=list(sets), rulers=rulers, metrics=["dice"], workers=1).table
    macro = scores[scores["label"] == MACRO]
    found = macro.groupby(["model", "ruler"], sort=False)["value"].agg(["mean", "std"]).reset_index()
    split = found["model"].str.split("|", expand=True)
    table = pd.DataFrame(
        {"regime": split[0], "prediction": split[1], "ruler": found["ruler"], "mean": found["mean"], "sd": found["std"]}
    )
    # networks against the outlines of their own regime say nothing
    return table[table["regime"] != table["ruler"]].reset_index(drop=True)


def _mask_set(name: str, folder: Path, cohort: Cohort) -> MaskSet:
    masks = discover_masks(folder)
    inside = masks[masks["case"].isin(set(cohort.cases["case"]))]
    return MaskSet(name, inside.assign(kind="machine").reset_index(drop=True), "machine")


def verdicts_table(home: Path) -> pd.DataFrame:
    """Return the rank test of each grouping under each ruler, truth among them: grouping, ruler, p, q, verdict."""
    audit, _ = read_audit(RunDirectory(home / "audit" / "rulers" / "run"))
    own = audit.tests[
        (audit.tests["model"] == MIXED)
        & (audit.tests["label"] == MACRO)
        & (audit.tests["metric"] == "dice")
        & audit.tests["test"].isin(["kruskal_wallis", "mann_whitney"])
    ]
    told = {True: "gap found", False: "no gap shown"}
    return pd.DataFrame(
        [
            {
                "grouping": row["grouping"],
                "ruler": row["ruler"],
                "p": row["p"],
                "q": row["q"],
                "verdict": told[bool(row["q"] < audit.plan.alpha)] if row["status"] == "ok" else row["status"],
            }
            for row in own.to_dict("records")
        ]
    )


def check_learned(dice: pd.DataFrame, form: Form) -> None:
    """Raise MINIATURE_NOT_LEARNED when a regime stays below the least Dice of a form against the truth."""
    reached: Mapping[str, float] = {
        row["regime"]: row["mean"]
        for row in dice.to_dict("records")
        if row["prediction"] == "final" and row["ruler"] == TRUTH
    }
    raise_for = [
        Finding(
            "MINIATURE_NOT_LEARNED",
            f"regime '{name}' reaches a macro Dice of {mean:.3f} against the truth; {form.least_dice} is the least.",
            "study",
            "its networks have not learned, so its audits say nothing: read the logs of its trainings.",
        )
        for name, mean in reached.items()
        if mean < form.least_dice
    ]
    if raise_for:
        raise AuditError(raise_for)
