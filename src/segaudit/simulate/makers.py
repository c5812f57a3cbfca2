"""Makers of outlines with planted faults: the model, the expert, and four other rulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from segaudit.cohorts import Kind
from segaudit.simulate.people import Exam
from segaudit.simulate.phantoms import Anatomy, Labels, error_field, outline

BASE_ERROR = 0.095
"""Mean Dice error of the model against the expert, over the labels, in the youngest group."""
SPREAD = 0.26
"""Standard deviation of its logarithm over the cases of a group."""
READER_SHARE = 0.5
"""Dice error of an expert reading against the true anatomy, in parts of the model's against that reading."""
CLONE_RHO = 0.95
"""Correlation of the clone's error with the model's."""
BIASED_GAP = 3.0
"""Gap against the biased ruler in parts of the gap against the expert."""
NOISY_ERROR, NOISY_SPREAD = 0.20, 0.33
"""As BASE_ERROR and SPREAD, for the model against the noisy ruler; chosen for 2.5 times the noise."""
GAP_SHARES = (0.0, 0.5, 1.0)
"""Part of the planted gap that each age group bears, from the youngest on."""
_TINY_MM = 1e-3
_LARGEST_MM = 4.0


@dataclass(frozen=True, slots=True)
class Maker:
    """One maker of outlines, as cohort.toml states it, and what is planted in it.

    Attributes
    ----------
    name, made_by : str
    kind : str
        As of a mask set.
    trained_on : tuple of str
        Patients, none of them of the cohort; empty for a person.
    planted : str
        What is wrong with it, in words.
    """

    name: str
    kind: Kind
    made_by: str
    trained_on: tuple[str, ...]
    planted: str


_DEVELOPMENT = tuple(f"dev{i:03d}" for i in range(1, 25))
_YOUNG_DEVELOPMENT = tuple(f"dev{i:03d}" for i in range(101, 113))

MODEL = Maker("model", "machine", "simulated network", _DEVELOPMENT, "errs more the older the patient")
EXPERT = Maker("expert", "expert", "simulated reader 1", (), "nothing: small errors of its own, alike in all groups")
RULERS: Mapping[str, Maker] = {
    maker.name: maker
    for maker in (
        Maker(
            *("clone", "machine", "simulated network, another run on the model's training patients", _DEVELOPMENT),
            "shares most of the model's errors: scores are inflated, and gap and noise collapse alike",
        ),
        Maker(
            *("biased", "machine", "simulated network trained on patients under 40", _YOUNG_DEVELOPMENT),
            "counts the rim of the discs of older patients as bone: the gap between the age groups is about 3 times "
            "that against the expert",
        ),
        Maker(
            *("noisy", "expert", "simulated hurried reader", ()),
            "errs much, and more in some cases than in others: the noise within a group is about 2.5 times that "
            "against the expert",
        ),
        Maker(*("equal", "expert", "simulated reader 2", ()), "nothing: a second reading as good as the expert's"),
    )
}
"""The rulers beside the expert, by name."""
_STREAMS = {name: i for i, name in enumerate((MODEL.name, EXPERT.name, *RULERS, "image"))}


def generator(seed: int, number: int, stream: str) -> np.random.Generator:
    """Return the generator of one maker's part in one case, so that no maker depends on which others there are."""
    return np.random.default_rng([seed, number, _STREAMS[stream]])


def draw(
    exam: Exam, anatomy: Anatomy, makers: Sequence[Maker], *, gap_points: float, seed: int, number: int
) -> dict[str, Labels]:
    """Return the label map of each maker for one case.

    Parameters
    ----------
    exam : Exam
    anatomy : Anatomy
        Its true structures.
    makers : sequence of Maker
    gap_points : float
        How far the oldest group is to score below the youngest against the expert, in Dice points.
    seed, number : int
        Of the cohort, and of the case in it.

    Returns
    -------
    dict of str to array of uint8
        On the whole grid, by the name of the maker.
    """
    plan = _plan(exam, anatomy, gap_points)
    model = plan.model_mm * error_field(anatomy, generator(seed, number, MODEL.name))
    maps = {}
    for maker in makers:
        rng = generator(seed, number, maker.name)
        if maker is MODEL:
            error = model
        elif maker.name == "clone":
            own = plan.model_mm * error_field(anatomy, rng)
            error = CLONE_RHO * model + np.sqrt(1.0 - CLONE_RHO**2) * own
        elif maker.name == "biased":
            error = plan.biased_mm() + plan.reader_mm * error_field(anatomy, rng)
        elif maker.name == "noisy":
            error = plan.noisy_mm(float(rng.standard_normal())) * error_field(anatomy, rng)
        else:
            error = plan.reader_mm * error_field(anatomy, rng)
        maps[maker.name] = outline(anatomy, error)
    return maps


@dataclass(frozen=True, slots=True)
class _Plan:
    """Sizes of the errors of one case that give the planned Dice.

    Attributes
    ----------
    anatomy : Anatomy
    target, gap : float
        Planned Dice error of the model against the expert, and the part of it that is the planted gap.
    reader_mm, model_mm : float
        Standard deviation of the error of an expert reading and of the model.
    """

    anatomy: Anatomy
    target: float
    gap: float
    reader_mm: float
    model_mm: float

    def biased_mm(self) -> float:
        """Return the constant error of the biased ruler."""
        wanted = self.target + (BIASED_GAP - 1.0) * self.gap
        return _solve(lambda mm: self.anatomy.expected_error(self.model_mm, self.reader_mm, shift_mm=mm), wanted)

    def noisy_mm(self, carelessness: float) -> float:
        """Return the standard deviation of the noisy ruler's error; how careless it was is a standard normal."""
        wanted = _lognormal(NOISY_ERROR, NOISY_SPREAD, carelessness) + self.gap
        return _solve(lambda mm: self.anatomy.expected_error(self.model_mm, mm), wanted)


def _plan(exam: Exam, anatomy: Anatomy, gap_points: float) -> _Plan:
    base = _lognormal(BASE_ERROR, SPREAD, exam.difficulty)
    gap = gap_points / 100.0 * GAP_SHARES[exam.band]
    reader = _solve(lambda mm: anatomy.expected_error(_TINY_MM, mm), READER_SHARE * base)
    model = _solve(lambda mm: anatomy.expected_error(mm, reader), base + gap)
    return _Plan(anatomy, base + gap, gap, reader, model)


def _lognormal(mean: float, spread: float, z: float) -> float:
    return float(mean * np.exp(spread * z - 0.5 * spread**2))


def _solve(error_of: Callable[[float], float], wanted: float) -> float:
    """Return the size in mm at which a growing error is the wanted one, or the nearest end of the range."""
    low, high = _TINY_MM, _LARGEST_MM
    for _ in range(13):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if error_of(middle) < wanted else (low, middle)
    return 0.5 * (low + high)
