"""A small invented folder in the shape in which MIDRC delivers CSpineSeg, for tests, examples and trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.store import atomic
from segaudit.volumes import write_labels

RELEASE = "RSNA_20250321"
FULL_EXAMS, FULL_PATIENTS = 1_255, 1_232
FEWEST = 12
_LOCALIZER_SLICES = 56
_REDACTED = 13
# Exams at full size, the localizer left out.
_MARGINALS: Mapping[str, Mapping[str, int]] = {
    "sex": {"Female": 683, "Male": 571},
    "race": {
        "White": 809,
        "Black or African American": 349,
        "Not Reported": 33,
        "Other": 28,
        "Asian": 25,
        "American Indian or Alaska Native": 9,
        "Native Hawaiian or other Pacific Islander": 1,
    },
    "ethnicity": {"Not Hispanic or Latino": 1_162, "Hispanic or Latino": 59, "Not Reported": 33},
    "age": {"18-39": 241, "40-59": 486, "60-89": 527},
    "manufacturer": {"SIEMENS": 788, "GE MEDICAL SYSTEMS": 466},
    "field": {"1.5": 746, "3.0": 508},
}
_OF_PATIENT = ("sex", "race", "ethnicity", "age")
_AGE_SHAPES = {"18-39": (2.0, 1.0), "40-59": (1.0, 1.0), "60-89": (1.0, 1.8)}  # of a beta law within the band
_MODELS = {"SIEMENS": ("Model S1", "Model S2"), "GE MEDICAL SYSTEMS": ("Model G1", "Model G2")}
_IN_PLANE = ((256, 0.69), (384, 0.64), (448, 0.56), (512, 0.47), (768, 0.43))  # voxels and mm
_IN_PLANE_SHARES = (0.12, 0.27, 0.25, 0.35, 0.01)
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "case": ("submitter_id", "sex", "race", "ethnicity"),
    "imaging_study": ("submitter_id", "case_ids", "age_at_imaging", "age_at_imaging_gt89"),
    "mr_series": (
        "submitter_id",
        "imaging_studies.submitter_id",
        "case_ids",
        "manufacturer",
        "manufacturer_model_name",
        "magnetic_field_strength",
        "slice_thickness",
        "pixel_spacing",
        "spacing_between_slices",
        "echo_time",
        "repetition_time",
    ),
    "annotation_file": ("file_name", "mr_series_files.submitter_id"),
    "image_manifest": ("file_name", "file_size"),
    "clinical_manifest": ("file_name", "file_size"),
}


@dataclass(frozen=True)
class _Exam:
    """One exam: what its rows and its files say."""

    patient: str
    study: str
    case: str
    sex: str
    race: str
    ethnicity: str
    age: int
    redacted: bool
    manufacturer: str
    model: str
    field: str
    shape: tuple[int, int, int]
    in_plane_mm: float
    slice_mm: float
    echo_ms: int
    repetition_ms: int

    @property
    def series(self) -> str:
        """Return the id of the series, which also names the files."""
        return self.case


def write_cspineseg(
    folder: str | PathLike[str],
    *,
    n_exams: int = FULL_EXAMS,
    n_patients: int = FULL_PATIENTS,
    seed: int,
    shrink: int = 16,
) -> tuple[str, ...]:
    """Write an invented CSpineSeg folder and return the names of its cases, the localizer last.

    Parameters
    ----------
    folder : path
        Absent or empty.
    n_exams, n_patients : int
        At least 12 patients, and at most two exams a patient. One exam, of a patient of its own, is the localizer of 56
        slices.
    seed : int
        0 or more; the same seed and sizes give the same bytes.
    shrink : int
        Images have 256 to 768 voxels a side, divided by this; the slices are 12 to 25 throughout. Masks hold a column
        of vertebral bodies (1) and discs (2).

    Raises
    ------
    AuditError
        SYNTHETIC_SIZE, FOLDER_NOT_EMPTY, RUN_UNWRITABLE, IMAGE_NOT_WRITTEN.

    Notes
    -----
    At 1,255 exams of 1,232 patients the counts of sex, race, ethnicity, age band (13 redacted ages in the oldest),
    manufacturer and field strength over the 1,254 exams without the localizer are the published ones; at other sizes
    they are their shares, rounded so that they add up (as far as patients with two exams allow). How one attribute goes
    with another, and everything else, is invented at random.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     cases = write_cspineseg(folder, n_exams=13, n_patients=12, seed=1)
    ...     len(cases), sorted(path.name for path in Path(folder).iterdir())
    (13, ['annotation', 'segmentation', 'structured'])
    """
    home = Path(folder)
    _check(home, n_exams, n_patients, seed, shrink)
    rng = np.random.default_rng(seed)
    exams = _exams(n_exams, n_patients, shrink, rng)
    for name in ("annotation", "segmentation", "structured"):
        _make(home / name)
    for exam in exams:
        spacing = (exam.slice_mm, exam.in_plane_mm, exam.in_plane_mm)
        mask = _column(exam, rng)
        image = (120 * mask + rng.integers(0, 60, exam.shape)).astype(np.int16)
        write_labels(home / "annotation" / f"{exam.case}.nii.gz", image, spacing_mm=spacing)
        write_labels(home / "segmentation" / f"{exam.case}_SEG.nii.gz", mask, spacing_mm=spacing)
    for table, rows in _rows(exams, home).items():
        text = "".join("\t".join(row) + "\n" for row in (_HEADERS[table], *rows))
        with atomic(home / "structured" / f"{table}_{RELEASE}.tsv") as temporary:
            temporary.write_text(text, encoding="utf-8")
    return tuple(exam.case for exam in exams)


def _check(home: Path, n_exams: int, n_patients: int, seed: int, shrink: int) -> None:
    faults = []
    # the localizer's patient has one exam
    if n_patients < FEWEST or not n_patients <= n_exams <= 2 * n_patients - 1:
        fact = f"{n_exams} exams of {n_patients} patients cannot be written."
        fix = f"give at least {FEWEST} patients, and from one to two exams each."
        faults.append(Finding("SYNTHETIC_SIZE", fact, "n_exams, n_patients", fix))
    if seed < 0 or not 1 <= shrink <= 32:
        fact = f"seed is {seed} and shrink is {shrink}."
        faults.append(Finding("SYNTHETIC_SIZE", fact, "seed, shrink", "give seed from 0, shrink from 1 to 32."))
    if home.is_dir() and any(home.iterdir()):
        faults.append(Finding("FOLDER_NOT_EMPTY", f"{home} is not empty.", str(home), "give a new folder."))
    raise_errors(faults)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fact = f"{folder} cannot be made: {error.strerror or error}."
        raise AuditError(Finding("RUN_UNWRITABLE", fact, str(folder), "give another folder.")) from None


def _exams(n_exams: int, n_patients: int, shrink: int, rng: np.random.Generator) -> list[_Exam]:
    """Return the exams in the order of their patients; the first patients have two, the localizer comes last."""
    people, twice = n_patients - 1, n_exams - n_patients
    owner = np.array([*range(people), *range(twice)])  # the second exams follow the first ones
    known = {name: _of_patients(_MARGINALS[name], people, twice, rng)[owner] for name in _OF_PATIENT}
    known |= {
        name: rng.permutation(_quotas(_MARGINALS[name], owner.size)) for name in _MARGINALS if name not in _OF_PATIENT
    }
    redacted = _redacted(known["age"], owner, rng)
    numbers = np.sort(rng.choice(900_000, n_patients, replace=False)) + 1
    places = rng.permutation(people)  # so that patients with two exams do not come first by number
    exams = [
        _exam(int(numbers[places[owner[i]]]), int(i >= people), {k: v[i] for k, v in known.items()},
              redacted=bool(redacted[i]), n_slices=0, shrink=shrink, rng=rng)
        for i in range(owner.size)
    ]  # fmt: skip
    exams.sort(key=lambda exam: exam.case)
    last = {name: values[0] for name, values in known.items()}
    slices = _LOCALIZER_SLICES
    return [*exams, _exam(int(numbers[people]), 0, last, redacted=False, n_slices=slices, shrink=shrink, rng=rng)]


def _quotas(counts: Mapping[str, int], size: int) -> NDArray[np.object_]:
    """Return levels in the shares of the counts, rounded by largest remainder."""
    exact = np.array(list(counts.values())) * size / sum(counts.values())
    whole = np.floor(exact).astype(int)
    order = np.argsort(whole - exact, kind="stable")  # largest remainder first
    whole[order[: size - int(whole.sum())]] += 1
    return np.repeat(np.array(list(counts), dtype=object), whole)


def _of_patients(counts: Mapping[str, int], people: int, twice: int, rng: np.random.Generator) -> NDArray[np.object_]:
    """Return a level a patient, so that over exams, of which the first `twice` patients have two, the shares hold."""
    over_exams = _quotas(counts, people + twice)
    pairs = _quotas(counts, twice)
    left = [max(0, int((over_exams == level).sum()) - 2 * int((pairs == level).sum())) for level in counts]
    rest = np.repeat(np.array(list(counts), dtype=object), left)[: people - twice]  # pairs cannot make odd counts
    return np.concatenate([rng.permutation(pairs), rng.permutation(rest)])


def _redacted(bands: NDArray[np.object_], owner: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which exams have a redacted age: some of the oldest band, all of patients with one exam."""
    single = np.bincount(owner)[owner] == 1
    fits = np.flatnonzero((bands == "60-89") & single)
    wanted = min(max(1, round(_REDACTED * owner.size / (FULL_EXAMS - 1))), fits.size)
    return np.isin(np.arange(owner.size), rng.choice(fits, wanted, replace=False))


def _exam(
    number: int, visit: int, known: Mapping[str, Any], *, redacted: bool, n_slices: int, shrink: int,
    rng: np.random.Generator,
) -> _Exam:  # fmt: skip
    patient = f"593973-{number:06d}"
    study = f"{patient}_Study-MR-{visit + 1}"
    low, high = (int(bound) for bound in known["age"].split("-"))
    wide, in_plane = _IN_PLANE[rng.choice(len(_IN_PLANE), p=_IN_PLANE_SHARES)]
    side = 512 // shrink if n_slices else wide // shrink
    return _Exam(
        patient,
        study,
        f"{study}_Series-{int(rng.integers(2, 12))}",
        known["sex"],
        known["race"],
        known["ethnicity"],
        low + int((high - low + 1) * rng.beta(*_AGE_SHAPES[known["age"]])),
        redacted,
        known["manufacturer"],
        str(rng.choice(_MODELS[known["manufacturer"]])),
        known["field"],
        (n_slices or int(np.clip(round(rng.normal(15.2, 1.3)), 12, 25)), side, side),
        in_plane,
        float(rng.choice((3.9, 3.96, 4.0))),
        int(rng.integers(80, 121)),
        int(rng.integers(2_500, 4_501)),
    )


def _column(exam: _Exam, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return a label map with a column of bodies (1) and discs (2) in the middle third of the slices."""
    slices, high, wide = exam.shape
    mask = np.zeros(exam.shape, np.uint8)
    body, left = max(2, high // 8), wide // 3 + int(rng.integers(0, 2))
    depth = slice(slices // 3, slices - slices // 3)
    for top in range(1, high - body - 1, body + 1):
        mask[depth, top : top + body, left : left + max(2, wide // 3)] = 1
        mask[depth, top + body : top + body + 1, left : left + max(2, wide // 3)] = 2
    return mask


def _rows(exams: Sequence[_Exam], home: Path) -> dict[str, list[tuple[str, ...]]]:
    people = {exam.patient: (exam.patient, exam.sex, exam.race, exam.ethnicity) for exam in exams}
    files = [
        (name, exam.series, folder)
        for exam in exams
        for folder, name in (("annotation", f"{exam.case}.nii.gz"), ("segmentation", f"{exam.case}_SEG.nii.gz"))
    ]
    return {
        "case": sorted(people.values()),
        "imaging_study": [
            (exam.study, exam.patient, "" if exam.redacted else str(exam.age), "Yes" if exam.redacted else "No")
            for exam in exams
        ],
        "mr_series": [_series_row(exam, i) for i, exam in enumerate(exams)],
        "annotation_file": [(name, series) for name, series, _ in files],
        "image_manifest": [(name, str((home / folder / name).stat().st_size)) for name, _, folder in files],
        "clinical_manifest": [(f"{table}_{RELEASE}.tsv", "") for table in ("case", "imaging_study", "mr_series")],
    }


def _series_row(exam: _Exam, number: int) -> tuple[str, ...]:
    written = (
        exam.manufacturer.capitalize() if exam.manufacturer == "SIEMENS" and number % 3 == 0 else exam.manufacturer
    )
    return (
        exam.series,
        exam.study,
        exam.patient,
        written,
        exam.model,
        exam.field,
        "3.0",
        f"[{exam.in_plane_mm}, {exam.in_plane_mm}]",
        f"{exam.slice_mm}",
        f"{exam.echo_ms}",
        f"{exam.repetition_ms}",
    )
