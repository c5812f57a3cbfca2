"""A simulated cohort on disk: images, outlines of a model and of several rulers, participants, and what was planted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.simulate.makers import EXPERT, GAP_SHARES, MODEL, RULERS, Maker, draw, generator
from segaudit.simulate.people import AGE_BANDS, FEWEST, Exam, exams
from segaudit.simulate.phantoms import LABELS, bodies_that_fit, build, intensity, macro_dice, outline
from segaudit.store import atomic
from segaudit.volumes import write_labels

MOST_POINTS = 8.0
"""Largest gap that can be planted: beyond it the biased ruler would have no disc left."""
ANATOMY = "anatomy"
_COLUMNS = ("case", "patient", "sex", "age", "race")
_Scores = dict[str, list[float]]


def simulate_cohort(
    folder: Path,
    *,
    patients: int = 120,
    seed: int = 3,
    gap_points: float = 3.5,
    rulers: Sequence[str] = tuple(RULERS),
    shape: tuple[int, int, int] = (16, 80, 96),
    spacing_mm: tuple[float, float, float] = (4.0, 0.9, 0.9),
    images: bool = True,
) -> Path:
    """Return the cohort.toml of a simulated cohort, written with all its files into a new folder.

    The cases are sagittal images of a column of vertebral bodies (`vb`) and discs (`disc`). The model errs more the
    older the patient is. The expert reads with small errors of its own; the other rulers have planted faults.

    Parameters
    ----------
    folder : Path
        Absent or empty.
    patients : int
        At least 12; two of them have two exams.
    seed : int
        0 or more. The same seed and options give the same bytes; what a mask shows does not depend on `rulers`.
    gap_points : float
        How far the Dice of patients from 60 on lies below that of patients under 40 against the expert, mean over the
        labels, in Dice points (hundredths), 0 to 8; those between lie half as far. Nothing else is planted.
    rulers : sequence of str
        Any of "clone", "biased", "noisy" and "equal"; the expert is always there.
    shape : tuple of int
        Voxels: left to right, back to front, bottom to top.
    spacing_mm : tuple of float
        Size of a voxel in mm along the same axes.
    images : bool
        Write an image of each case as well (for people to look at; no score needs it).

    Returns
    -------
    Path
        `folder / "cohort.toml"`. Beside it lie participants.tsv, audit.toml (a plan for `segaudit run`), truth.json
        (what was planted and what came out of it) and one folder of NIfTI files a mask set.

    Raises
    ------
    AuditError
        SIMULATION_VALUE for a number outside its range, SIMULATION_GRID when the grid is too small for a column,
        UNKNOWN_RULER, FOLDER_NOT_EMPTY; FOLDER_NOT_WRITTEN or IMAGE_NOT_WRITTEN when the disk refuses.

    Notes
    -----
    Each maker moves the true surfaces by a smooth random field whose size is solved for, so that the expected Dice is
    the planned one; what a case really gets is random about it. docs/simulation.md has the measured figures.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = simulate_cohort(Path(folder), patients=12, rulers=["clone"], images=False)
    ...     sorted(entry.name for entry in path.parent.iterdir())
    ['audit.toml', 'clone', 'cohort.toml', 'expert', 'model', 'participants.tsv', 'truth.json']
    """
    folder = Path(folder)
    _check(
        folder,
        patients=patients,
        seed=seed,
        gap_points=gap_points,
        rulers=rulers,
        shape=shape,
        spacing_mm=spacing_mm,
    )
    makers = (MODEL, EXPERT, *(RULERS[name] for name in rulers))
    _make_folders(folder, [maker.name for maker in makers] + ["images"] * images)
    people = exams(patients, np.random.default_rng(seed))
    scores: _Scores = {name: [] for name in (ANATOMY, EXPERT.name, *rulers)}
    for number, exam in enumerate(people):
        anatomy = build(exam.column, shape, spacing_mm)
        truth = outline(anatomy, 0.0)
        maps = draw(exam, anatomy, makers, gap_points=gap_points, seed=seed, number=number)
        files = dict(maps)
        if images:
            files["images"] = intensity(anatomy, truth, age=exam.age, rng=generator(seed, number, "image"))
        for name, values in files.items():
            write_labels(folder / name / f"{exam.case}.nii.gz", values, spacing_mm=spacing_mm)
        for name, found in scores.items():
            found.append(macro_dice(maps[MODEL.name], truth if name == ANATOMY else maps[name]))
    rows = [_COLUMNS, *(exam.row for exam in people)]
    planted = _planted(people, scores, makers, patients=patients, seed=seed, gap_points=gap_points)
    _write(folder / "participants.tsv", "".join("\t".join(row) + "\n" for row in rows))
    _write(folder / "truth.json", json.dumps(planted, indent=2) + "\n")
    _write(folder / "audit.toml", _plan_toml([EXPERT.name, *rulers]))
    _write(folder / "cohort.toml", _cohort_toml(makers, images=images))
    return folder / "cohort.toml"


def _make_folders(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fact = f"{folder / name} cannot be made: {error.strerror or error}."
            fix = "give another folder."
            raise AuditError(Finding("FOLDER_NOT_WRITTEN", fact, str(folder), fix)) from None


def _planted(
    people: Sequence[Exam], scores: _Scores, makers: Sequence[Maker], *, patients: int, seed: int, gap_points: float
) -> dict[str, Any]:
    """Return what truth.json holds: the plan, each maker's fault, and the model's Dice as it came out."""
    bands = np.array([exam.band for exam in people])
    return {
        "seed": seed,
        "patients": patients,
        "cases": len(people),
        "planted": {
            "attribute": AGE_BANDS.attribute,
            "gap_points": gap_points,
            "against": EXPERT.name,
            "share_of_gap": dict(zip(AGE_BANDS.levels, GAP_SHARES, strict=True)),
        },
        "makers": {maker.name: maker.planted for maker in makers},
        "realised": {name: _summary(np.array(found), bands) for name, found in scores.items()},
    }


def _summary(dice: NDArray[np.float64], bands: NDArray[np.int64]) -> dict[str, Any]:
    """Return level, spread and age gap of the model's Dice (mean over the labels) against one reference."""
    medians = [float(np.median(dice[bands == band])) for band in range(len(AGE_BANDS.levels))]
    noise = float(np.mean(np.abs(dice - np.array(medians)[bands])))
    return {
        "mean_dice": round(float(dice.mean()), 6),
        "sd_dice": round(float(dice.std(ddof=1)), 6),
        "median_dice": {level: round(value, 6) for level, value in zip(AGE_BANDS.levels, medians, strict=True)},
        "gap_points": round(100.0 * (medians[0] - medians[-1]), 4),
        "noise_points": round(100.0 * noise, 4),
    }


def _cohort_toml(makers: Sequence[Maker], *, images: bool) -> str:
    labels = "\n".join(f"{name} = {code}" for name, code in LABELS.items())
    sets = "\n".join(
        f"[[mask_sets]]\nname = {_quoted(maker.name)}\nfolder = {_quoted(maker.name)}\nkind = {_quoted(maker.kind)}\n"
        f"made_by = {_quoted(maker.made_by)}\n"
        + (f"trained_on = {_quoted(list(maker.trained_on))}\n" if maker.trained_on else "")
        for maker in makers
    )
    return f"""\
name = "simulated cohort"
models = ["{MODEL.name}"]
rulers = {_quoted([maker.name for maker in makers if maker.name != MODEL.name])}
{'images = "images"' if images else ""}

[participants]
file = "participants.tsv"
key = "case"
patient = "patient"

[attributes.sex]

[attributes.age]
kind = "age"
of = "case"

[attributes.race]

[labels]
{labels}

{sets}"""


def _plan_toml(rulers: Sequence[str]) -> str:
    cuts = ",".join(f"{cut:g}" for cut in AGE_BANDS.cuts)
    return f"""\
cohort = "cohort.toml"
output = "run"
models = ["{MODEL.name}"]
rulers = {_quoted(list(rulers))}
metrics = ["dice", "ndsc", "hd95"]
trusted = "{EXPERT.name}"
seed = 42
by = ["sex", "{AGE_BANDS.attribute}:{cuts}", "race"]

[success]
dice = 0.8
ndsc = 0.8
hd95 = 5.0

[margin]
dice = 0.03
"""


def _quoted(value: str | list[str]) -> str:
    """Return a string or a list of strings as TOML, which for these is also JSON."""
    return json.dumps(value)


def _write(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _check(
    folder: Path,
    *,
    patients: int,
    seed: int,
    gap_points: float,
    rulers: Sequence[str],
    shape: tuple[int, int, int],
    spacing_mm: tuple[float, float, float],
) -> None:
    def bad(fact: str, fix: str, code: str = "SIMULATION_VALUE") -> Finding:
        return Finding(code, fact, "simulate_cohort", fix)

    findings = []
    if patients < FEWEST:
        findings.append(bad(f"patients is {patients}.", f"ask for {FEWEST} or more."))
    if seed < 0:
        findings.append(bad(f"seed is {seed}.", "give 0 or more."))
    if not 0.0 <= gap_points <= MOST_POINTS:
        findings.append(bad(f"gap_points is {gap_points}.", f"give Dice points from 0 to {MOST_POINTS:g}."))
    findings += [
        bad(f"no ruler is named '{name}'.", did_you_mean(name, RULERS), "UNKNOWN_RULER")
        for name in rulers
        if name not in RULERS
    ]
    if len(set(rulers)) < len(rulers):
        findings.append(bad(f"rulers is {', '.join(rulers)}.", "name each ruler once."))
    if len(shape) != 3 or len(spacing_mm) != 3 or min(shape) < 1 or not min(spacing_mm) > 0:
        findings.append(bad(f"shape is {shape} and spacing_mm {spacing_mm}.", "give three positive numbers each."))
    elif bodies_that_fit(shape, spacing_mm) < 2:
        fact = f"{shape} voxels of {spacing_mm} mm do not hold two vertebral bodies."
        findings.append(bad(fact, "give 35 mm, 26 mm and 35 mm at least along the three axes.", "SIMULATION_GRID"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "give a new folder, so that no file of an earlier cohort stays among the new ones."
        findings.append(Finding("FOLDER_NOT_EMPTY", f"{folder} is not an empty folder.", str(folder), fix))
    raise_errors(findings)
