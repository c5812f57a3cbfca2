"""Rulers with planted faults at the level of masks: simulated cohorts through scores, audit and comparison."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import segaudit as sa
from segaudit.rulers.pairs import lookup

RULERS = ("clone", "biased", "noisy", "equal")
GAPS = (3.5, 2.0)
"""Planted gaps in Dice points: one that the expert's labels show in nearly every cohort, one they often miss."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on one ruler of one cohort."""

    ruler: str
    gap_points: float
    seed: int
    word: str
    detail: str
    trusted: str
    other: str

    @property
    def changed(self) -> bool:
        """Whether the verdicts under the two rulers differ."""
        return self.trusted != self.other

    @property
    def told(self) -> str:
        """The class, with its flags where it is an agreement."""
        compressed = self.word == "agreement" and "compressed" in self.detail
        return self.word + (", compressed" if compressed else "")


def outcomes(seed: int, gap_points: float, *, patients: int = 120, **grid: object) -> list[Outcome]:
    """Return the verdict on every ruler of one simulated cohort, by the age bands of its plan."""
    with TemporaryDirectory() as folder:
        path = sa.simulate_cohort(
            Path(folder), patients=patients, seed=seed, gap_points=gap_points, rulers=RULERS, images=False, **grid
        )
        cohort = sa.read_cohort(path)
        scores = sa.score(cohort, models=["model"], rulers=["expert", *RULERS], metrics=["dice"], workers=1)
    plan = sa.Plan(groupings=[sa.by_cuts("age_band", "age", 40, 60)], resamples=999, seed=seed)
    # the cases alone: nothing here rests on a comparison of masks
    audited = sa.audit(scores, cohort.cases, plan)
    found = []
    for ruler in RULERS:
        table = sa.compare_rulers(audited, "expert", ruler).table
        row = lookup(table, quantity="verdict_class", label="macro", grouping="age_band").iloc[0]
        words = (str(row["value"]), str(row["detail"]), str(row["trusted_value"]), str(row["other_value"]))
        found.append(Outcome(ruler, gap_points, seed, *words))
    return found


def faults(found: list[Outcome]) -> list[str]:
    """Return which promises the verdicts on planted rulers break; none when all are kept.

    Agreement with the equal ruler is asked for where the gap is plain: two readings as good as each other differ now
    and then on a gap that either of them may miss.
    """
    by = {ruler: [one for one in found if one.ruler == ruler] for ruler in RULERS}
    broken = [
        f"the clone of seed {one.seed} is called {one.word}"
        for one in by["clone"]
        if one.word in ("false magnitude", "masking (noise)")
    ]
    magnitude = [one.word == "false magnitude" for one in by["biased"]]
    if sum(magnitude) < 0.7 * len(magnitude):
        broken.append(f"false magnitude of the biased ruler in {sum(magnitude)} of {len(magnitude)}")
    broken += [
        f"the noisy ruler of seed {one.seed} hides a gap and is called {one.word}"
        for one in by["noisy"]
        if one.trusted == "gap found" and one.changed and not one.word.startswith("masking")
    ]
    alike = [one.word == "agreement" for one in by["equal"] if one.gap_points == GAPS[0]]
    if sum(alike) < 0.9 * len(alike):
        broken.append(f"agreement with the equal ruler in {sum(alike)} of {len(alike)}")
    return broken


def counted(found: list[Outcome]) -> Counter[tuple[float, str, str]]:
    """Return how often each ruler got each class, by planted gap."""
    return Counter((one.gap_points, one.ruler, one.told) for one in found)
