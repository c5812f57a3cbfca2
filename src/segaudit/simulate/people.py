"""Invented participants: who they are, and what their age does to their column and to their scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segaudit.groupings import by_cuts
from segaudit.simulate.phantoms import LARGEST, Column
from segaudit.simulate.scores import STUDY_GROUPS, share_out

AGE_BANDS = by_cuts("age", "age", 40, 60)
TOP_CODE = 89
FEWEST = 12
"""Patients below which the age groups, the second exams and the missing values would not be there."""
_RANGES = ((18, 39), (40, 59), (60, TOP_CODE - 1))
_FEMALE = 0.52
_RACES = {"White": 68, "Black or African American": 21, "Asian": 3, "Other": 3, "n/a": 5}
_SECOND_EXAMS = 2
_COMMON_DIFFICULTY = 0.8  # correlation, squared, of the difficulty of two exams of one patient is 0.64


@dataclass(frozen=True, slots=True)
class Exam:
    """One case: its row of the participants table and what decides its outlines.

    Attributes
    ----------
    case, patient, sex, race : str
    age : int
        Years; TOP_CODE stands for that age or more.
    band : int
        Group of AGE_BANDS, 0 for the youngest.
    difficulty : float
        Standard normal; how hard the case is to outline.
    column : Column
    """

    case: str
    patient: str
    sex: str
    race: str
    age: int
    band: int
    difficulty: float
    column: Column

    @property
    def row(self) -> tuple[str, str, str, str, str]:
        """Return case, patient, sex, age and race as a participants table shows them."""
        return self.case, self.patient, self.sex, f"{self.age}{'+' * (self.age >= TOP_CODE)}", self.race


def exams(patients: int, rng: np.random.Generator) -> list[Exam]:
    """Return the exams of invented patients, sorted by case: one each, and two of two patients.

    Age groups are in the study's proportions; sex and race do not depend on age. One patient's age is top-coded, and
    about one in twenty has no race.
    """
    bands = rng.permutation(np.repeat(np.arange(3), share_out(patients, STUDY_GROUPS)))
    ages = [int(rng.integers(low, high + 1)) for low, high in (_RANGES[band] for band in bands)]
    ages[int(np.argmax(ages))] = TOP_CODE
    sexes = rng.permutation(np.repeat(["Female", "Male"], share_out(patients, (_FEMALE, 1.0 - _FEMALE))))
    races = rng.permutation(np.repeat(list(_RACES), share_out(patients, list(_RACES.values()))))
    again = set(rng.choice(np.flatnonzero(bands == 1), _SECOND_EXAMS, replace=False).tolist())
    found = []
    for i in range(patients):
        size = min(LARGEST, (1.03 if sexes[i] == "Male" else 0.95) + 0.025 * float(rng.standard_normal()))
        usual = float(rng.standard_normal())
        for exam in range(1 + (i in again)):
            age = ages[i] if exam == 0 else min(ages[i] + 1, _RANGES[1][1])
            own = float(rng.standard_normal())
            found.append(
                Exam(
                    case=f"p{i + 1:04d}-{exam + 1}",
                    patient=f"p{i + 1:04d}",
                    sex=str(sexes[i]),
                    race=str(races[i]),
                    age=age,
                    band=int(bands[i]),
                    difficulty=_COMMON_DIFFICULTY * usual + float(np.sqrt(1.0 - _COMMON_DIFFICULTY**2)) * own,
                    column=Column(size, 1.0 - 0.004 * max(age - 40, 0), _centre(rng)),
                )
            )
    return found


def _centre(rng: np.random.Generator) -> tuple[float, float, float]:
    """Return where a column lies in the scanner's field: a little off its middle, in mm."""
    x, y, z = rng.uniform(-1.0, 1.0, 3) * (2.0, 1.0, 0.5)
    return float(x), float(y), float(z)
