"""write_phantoms: a synthetic sagittal T2-like cohort with known truth, to train real networks on in minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.attributes import listing
from segaudit.config.toml_text import toml_text
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.simulate.phantoms import LABELS, Triple, macro_dice
from segaudit.simulate.scores import share_out
from segaudit.store import atomic
from segaudit.study import spines
from segaudit.study.spines import Setting, Spine
from segaudit.volumes import write_labels

BANDS = ((18, 39), (40, 59), (60, 89))
"""Lowest and highest age of the three age groups."""
BAND_SHARES = (0.2, 0.4, 0.4)
SEXES = ("Female", "Male")
FEWEST = 15
"""Cases of a part in which every sex is there in every age group."""
CASES_A_PAIR = 12
"""Of so many cases two are of one patient."""
RATER_ERROR, RATER_SPREAD = 0.078, 0.42
"""Mean over the cases of 1 - Dice of the rater against the truth, and standard deviation of its logarithm."""
IMAGES, TRUTH, EXPERT = _FOLDERS = ("images", "truth", "expert")
_PEOPLE, _IMAGE, _RATER = range(3)  # streams of random numbers, so that none depends on another's length
_COLUMNS = ["case", "patient", "age", "sex", "provenance", "part"]
_COHORT = {
    "name": "phantom cervical spines",
    "images": IMAGES,
    "labels": LABELS,
    "participants": {"file": "participants.tsv", "key": "case", "patient": "patient"},
    "attributes": {
        "age": {"kind": "age", "of": "case"},
        "sex": {"kind": "level", "of": "patient"},
        "provenance": {"kind": "level", "of": "case"},
        "part": {"kind": "level", "of": "patient"},
    },
    "mask_sets": [
        {"name": TRUTH, "folder": TRUTH, "kind": "unknown", "made_by": "phantom"},
        {"name": EXPERT, "folder": EXPERT, "kind": "expert", "made_by": "simulated rater"},
    ],
}


@dataclass(frozen=True, slots=True)
class Exam:
    """One case, and what decides its files.

    Attributes
    ----------
    case, patient : str
    age : int
    sex : str
    provenance : {"gold", "silver"}
        Whether it gets an expert's outline.
    part : {"development", "test"}
    spine : Spine
        Two exams of one patient have the same.
    setting : Setting
    """

    case: str
    patient: str
    age: int
    sex: str
    provenance: str
    part: str
    spine: Spine
    setting: Setting


@dataclass(frozen=True, slots=True, eq=False)
class PhantomCohort:
    """A cohort of phantoms on disk.

    Attributes
    ----------
    path : Path
        Its cohort.toml.
    cases : DataFrame
        A row a case: case, patient, age, sex, provenance, part as in participants.tsv, and what was planted: size (of
        the bodies, relative to the mean), disc_mm (mean height of the discs), contrast (signal of the discs less that
        of the marrow, where fluid has 200), noise (its standard deviation), rater_dice (Dice of the expert's outline
        against the truth, mean over the labels; no number for silver cases, which have none).
    """

    path: Path
    cases: pd.DataFrame


def write_phantoms(
    folder: Path,
    *,
    gold: int,
    silver: int,
    test: int,
    seed: int,
    shape: tuple[int, int, int] = (8, 80, 64),
    spacing_mm: Triple = (4.0, 0.9, 0.9),
) -> PhantomCohort:
    """Return a synthetic cohort, written with all its files: images, true outlines, an expert's outlines, participants.

    Discs lose height and signal with age, so that the oldest are the hardest to outline; women have smaller bodies.
    The expert's error depends on neither. Silver cases have an image and a true outline only: their labels are a
    network's to make.

    Parameters
    ----------
    folder : Path
        Absent, or without images and masks but this cohort's own, which are then written anew with the same bytes.
        Other files in it stay.
    gold, silver, test : int
        Cases of the development part with and without an expert's outline, and of the test part (all with one).
    seed : int
        0 or more. The same seed and sizes give the same bytes.
    shape : tuple of int
        Slices, rows (bottom to top) and columns (front to back), the order in which nnU-Net sees the array.
    spacing_mm : tuple of float
        Size of a voxel in mm along the same axes.

    Raises
    ------
    AuditError
        SIMULATION_VALUE for a number outside its range, SIMULATION_GRID when the grid is too small for a column,
        FOLDER_NOT_EMPTY when images or masks of another cohort lie there; FOLDER_NOT_WRITTEN, RUN_UNWRITABLE, DISK_FULL
        or IMAGE_NOT_WRITTEN when the disk refuses.

    Notes
    -----
    cohort.toml comes last: where it stands, all files do.
    """
    folder = Path(folder)
    _check(gold=gold, silver=silver, test=test, seed=seed, shape=shape, spacing_mm=spacing_mm)
    people = exams(gold=gold, silver=silver, test=test, seed=seed, bodies=spines.bodies_that_fit(shape, spacing_mm))
    _prepare(folder, people)
    affine = _affine(shape, spacing_mm)
    rows = []
    for number, exam in enumerate(people):
        drawn = draw(exam, shape, spacing_mm, seed=seed, number=number)
        for name in _sets(exam):
            # the axes of the file run front to back, bottom to top, and across the slices
            write_labels(folder / name / f"{exam.case}.nii.gz", drawn[name].T, affine=affine)
        rows.append(_row(exam, drawn))
    cases = pd.DataFrame(rows)
    _write(folder / "participants.tsv", cases[_COLUMNS].to_csv(sep="\t", index=False, lineterminator="\n"))
    _write(folder / "cohort.toml", toml_text(_COHORT))
    return PhantomCohort(folder / "cohort.toml", cases)


def exams(*, gold: int, silver: int, test: int, seed: int, bodies: int) -> list[Exam]:
    """Return the exams, sorted by case: the development part with its gold cases first, then the test part."""
    found: list[Exam] = []
    people = 0
    parts = (("gold", "development", gold), ("silver", "development", silver), ("gold", "test", test))
    for number, (provenance, part, n) in enumerate(parts):
        rng = np.random.default_rng([seed, number, _PEOPLE])
        pairs = n // CASES_A_PAIR
        strata = _strata(n - pairs, rng)
        again = set(rng.choice(n - pairs, pairs, replace=False).tolist())
        for i, (band, sex) in enumerate(strata):
            people += 1
            lowest, highest = BANDS[band]
            age = int(rng.integers(lowest, highest + 1))
            spine = _spine(age, sex, bodies, rng)
            for exam in range(1 + (i in again)):
                patient = f"p{people:03d}"
                row = (f"{patient}-{exam + 1}", patient, min(age + exam, highest), sex, provenance, part)
                found.append(Exam(*row, spine, _setting(rng)))
    return found


def draw(
    exam: Exam, shape: tuple[int, int, int], spacing_mm: Triple, *, seed: int, number: int
) -> dict[str, NDArray[Any]]:
    """Return image, truth and expert's outline of an exam, each as slices by rows by columns.

    Parameters
    ----------
    exam : Exam
    shape, spacing_mm : tuple
        As of write_phantoms.
    seed, number : int
        Of the cohort, and of the case in it.
    """
    of_image, of_rater = (np.random.default_rng([seed, number, stream]) for stream in (_IMAGE, _RATER))
    placed = spines.place(exam.spine, exam.setting, shape, spacing_mm)
    true = placed.surfaces
    care = np.clip(of_rater.standard_normal(), -2.0, 2.0)  # nobody draws at random
    error = RATER_ERROR * np.exp(RATER_SPREAD * care - 0.5 * RATER_SPREAD**2)
    return {
        IMAGES: spines.image(exam.spine, exam.setting, placed, spacing_mm, of_image),
        TRUTH: true.outline(),
        EXPERT: spines.draw_by_hand(true, spacing_mm, float(error), of_rater),
    }


def _strata(patients: int, rng: np.random.Generator) -> list[tuple[int, str]]:
    """Return age group and sex of each patient in random order; the sexes are halves of every age group."""
    strata = []
    for band, n in enumerate(share_out(patients, BAND_SHARES).tolist()):
        first = int(rng.integers(2))  # the sex that has one more where the number is odd
        strata += [(band, SEXES[(first + i) % 2]) for i in range(n)]
    return [strata[i] for i in rng.permutation(len(strata))]


def _spine(age: int, sex: str, bodies: int, rng: np.random.Generator) -> Spine:
    """Return a patient's column: years take height and signal from the discs, and women have smaller bodies."""
    years = age - BANDS[0][0]
    size = (1.02 if sex == "Male" else 0.94) - 0.0004 * years + 0.02 * rng.standard_normal()
    discs = 7.2 - 0.016 * years + rng.normal(0.0, 0.25) + rng.normal(0.0, 0.15, bodies - 1)
    curvature, tilt, roll, disc, bone = rng.standard_normal(5)
    return Spine(
        size=float(np.clip(size, 0.85, spines.LARGEST)),
        discs_mm=tuple(np.clip(discs, spines.LOWEST_MM, spines.HIGHEST_MM).tolist()),
        curvature=float(0.004 + 0.003 * curvature),
        tilt=float(0.08 * tilt),
        roll=float(0.03 * roll),
        disc=float(165.0 - 0.68 * years + 7.0 * disc),
        bone=float(84.0 + 0.12 * years + 4.0 * bone),
    )


def _setting(rng: np.random.Generator) -> Setting:
    x, z, y = rng.uniform(-1.0, 1.0, 3) * (2.0, 1.0, 2.0)
    noise, gain = np.exp((0.15, 0.25) * rng.standard_normal(2)) * (9.5, 2.5)
    return Setting((float(x), float(z), float(y)), float(noise), float(gain))


def _sets(exam: Exam) -> list[str]:
    """Return the folders that hold a file of the exam."""
    return [IMAGES, TRUTH, *([EXPERT] if exam.provenance == "gold" else [])]


def _row(exam: Exam, drawn: dict[str, NDArray[Any]]) -> dict[str, Any]:
    seen = exam.provenance == "gold"
    return {
        **{name: getattr(exam, name) for name in _COLUMNS},
        "size": exam.spine.size,
        "disc_mm": float(np.mean(exam.spine.discs_mm)),
        "contrast": exam.spine.disc - exam.spine.bone,
        "noise": exam.setting.noise,
        "rater_dice": macro_dice(drawn[TRUTH], drawn[EXPERT]) if seen else np.nan,
    }


def _affine(shape: tuple[int, int, int], spacing_mm: Triple) -> NDArray[np.float64]:
    """Return the affine of a file whose axes run to the back, up and to the left, with its middle at 0."""
    across, up, back = spacing_mm
    affine = np.array([[0, 0, -across, 0], [-back, 0, 0, 0], [0, up, 0, 0], [0, 0, 0, 1]], dtype=np.float64)
    affine[:3, 3] = -affine[:3, :3] @ (np.array(shape[::-1]) - 1) / 2
    return affine


def _prepare(folder: Path, people: list[Exam]) -> None:
    """Make the folders, take away the sign that all is there, and refuse files that are not of this cohort."""
    ours = {folder / name / f"{exam.case}.nii.gz" for exam in people for name in _sets(exam)}
    found = (path for name in _FOLDERS for path in (folder / name).rglob("*") if not path.name.startswith("."))
    foreign = sorted(str(path.relative_to(folder)) for path in found if path not in ours)
    if foreign:
        fact = f"{folder} holds {counted(len(foreign), 'file')} not of this cohort ({listing(foreign)})."
        raise AuditError(Finding("FOLDER_NOT_EMPTY", fact, str(folder), "give a new folder."))
    try:
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "cohort.toml").unlink(missing_ok=True)
    except OSError as error:
        fact = f"{folder} cannot be written: {error.strerror or error}."
        raise AuditError(Finding("FOLDER_NOT_WRITTEN", fact, str(folder), "give another folder.")) from None


def _write(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def _check(*, gold: int, silver: int, test: int, seed: int, shape: tuple[int, int, int], spacing_mm: Triple) -> None:
    def bad(fact: str, fix: str, code: str = "SIMULATION_VALUE") -> Finding:
        return Finding(code, fact, "write_phantoms", fix)

    findings = [
        bad(f"{name} is {n}.", f"give {fewest} or more.")
        for name, n, fewest in (("gold", gold, 1), ("silver", silver, 0), ("test", test, FEWEST), ("seed", seed, 0))
        if n < fewest
    ]
    if len(shape) != 3 or len(spacing_mm) != 3 or min(shape) < 1 or not min(spacing_mm) > 0:
        findings.append(bad(f"shape is {shape} and spacing_mm {spacing_mm}.", "give three positive numbers each."))
    elif spines.bodies_that_fit(shape, spacing_mm) < spines.FEWEST_BODIES:
        fact = f"{shape} voxels of {spacing_mm} mm do not hold two vertebral bodies."
        findings.append(bad(fact, "give 27 mm, 35 mm and 54 mm at least along the three axes.", "SIMULATION_GRID"))
    raise_errors(findings)
