"""What a study trains and audits, taken from study.toml, a cohort and a split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from segaudit.attributes import listing
from segaudit.cohorts import Cohort, MaskSet, read_cohort
from segaudit.config.base import read_toml
from segaudit.config.study import RegimeEntry, RulerEntry, StudyFile
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.sheets import read_sheet
from segaudit.study.conditions import ruler_regime
from segaudit.study.regimes import Making, Regime

JOINED = "reference"
"""Name of the reference of E1 where it is taken from several mask sets."""
_NO_EXPERT = ("machine", "unknown")


@dataclass(frozen=True)
class StudyPlan:
    """A study as it will run.

    Attributes
    ----------
    file : StudyFile
    path, home : Path
        Of study.toml, and of the folder that everything is written to.
    cohort : Cohort
    regimes : tuple of Regime
        Those made for a ruler come last.
    test : tuple of str
        Cases that no network may have seen; sorted.
    rulers : tuple of tuple of (str, RulerEntry)
        Name of each ruler beside the trusted one.
    findings : tuple of Finding
        Warnings of reading the cohort.
    """

    file: StudyFile
    path: Path
    home: Path
    cohort: Cohort
    regimes: tuple[Regime, ...]
    test: tuple[str, ...]
    rulers: tuple[tuple[str, RulerEntry], ...]
    findings: tuple[Finding, ...] = ()

    @property
    def trusted(self) -> str:
        """The mask set that is believed."""
        return self.file.trusted or self.file.reference[0]

    @property
    def plan_from(self) -> str:
        """The regime whose data nnU-Net plans on, for all of them."""
        return self.file.network.plan_from or self.regimes[0].name

    @property
    def makers(self) -> frozenset[str]:
        """The regimes whose predictions are rulers."""
        return frozenset(entry.made_by or ruler_regime(entry) for _, entry in self.rulers if entry.mask_set is None)

    @property
    def models(self) -> tuple[Regime, ...]:
        """The models of E1."""
        return tuple(one for one in self.regimes if one.audited)

    @property
    def independent(self) -> tuple[Regime, ...]:
        """The models of E2: a regime scored against its own outlines says nothing."""
        return tuple(one for one in self.models if one.name not in self.makers)

    @property
    def outlined(self) -> tuple[str, ...]:
        """The test cases of E2: those that a person outlined for the trusted ruler."""
        return by_people(self.cohort.mask_sets[self.trusted], self.test)

    def regime(self, name: str) -> Regime:
        """Return a regime by its name."""
        return next(one for one in self.regimes if one.name == name)

    def trainings(self) -> list[tuple[Regime, str, str]]:
        """Return every training: regime, configuration, fold."""
        return [(one, c, f) for one in self.regimes for c in one.configurations for f in one.folds]


def plan_study(path: Path) -> StudyPlan:
    """Return the plan of a study.toml; nothing is written and no image is opened.

    Raises
    ------
    AuditError
        Every fault at once: the codes of TOML, cohort and split; STUDY_PART_UNKNOWN, STUDY_CASE_UNKNOWN,
        STUDY_PATIENT_LEAK, STUDY_SOURCE_UNKNOWN, STUDY_CYCLE, STUDY_CONDITION, STUDY_IMAGE_MISSING,
        STUDY_REGIME_EMPTY, STUDY_REFERENCE_MISSING, STUDY_RULER_NAME, STUDY_NO_MODEL, STUDY_NO_EXPERT.
    """
    file = read_toml(path, StudyFile)
    cohort = read_cohort(path.parent / file.cohort)
    raise_errors(finding for finding in cohort.check() if finding.level == "error")
    parts = _parts(path.parent / file.split, file, cohort)
    entries, rulers = _entries(file)
    home = path.parent / file.output
    regimes = Making(file, path.parent, home, cohort, parts["development"], parts["test"], entries, rulers).regimes()
    warnings = tuple(finding for finding in cohort.findings if finding.level == "warning")
    plan = StudyPlan(file, path, home, cohort, regimes, tuple(parts["test"]), rulers, warnings)
    raise_errors(_audit_faults(plan))
    return plan


def _entries(file: StudyFile) -> tuple[list[RegimeEntry], tuple[tuple[str, RulerEntry], ...]]:
    """Return the regimes with those made for a ruler, and the rulers by name."""
    entries, rulers = list(file.regimes), []
    for ruler in file.rulers:
        name = ruler.name or ruler.made_by or ruler.mask_set or ruler_regime(ruler)
        rulers.append((name, ruler))
        if ruler.trained_on is not None:
            entries.append(
                RegimeEntry(
                    name=ruler_regime(ruler),
                    labels=ruler.labels or [file.trusted or file.reference[0]],
                    where=[ruler.trained_on],
                    configurations=ruler.configurations,
                    folds=ruler.folds,
                    audited=False,
                )
            )
    twice = [name for name, n in Counter(entry.name for entry in entries).items() if n > 1]
    raise_errors(_named_twice(name, "two regimes") for name in twice)
    return entries, tuple(rulers)


def _named_twice(name: str, what: str) -> Finding:
    return Finding("STUDY_RULER_NAME", f"{what} are named '{name}'.", "study.toml", "give `name`.")


def _audit_faults(plan: StudyPlan) -> Iterator[Finding]:
    """Yield what would end an audit once everything is trained."""
    reference = plan.file.reference
    rulers = [plan.trusted, *(name for name, _ in plan.rulers)]
    for models, against, audit in (
        (plan.models, [reference[0] if len(reference) == 1 else JOINED], "E1"),
        (plan.independent, rulers, "E2"),
    ):
        if not models:
            fact = f"{audit} has no model: every regime is a ruler, or is not audited."
            yield Finding("STUDY_NO_MODEL", fact, "study.toml, regimes", "add a regime, or take a ruler out.")
        names = Counter([*(one.name for one in models), *against])
        yield from (_named_twice(name, f"two models or rulers of {audit}") for name, n in names.items() if n > 1)
    if not plan.outlined:
        fact = f"0 of {len(plan.test)} test cases have a mask of '{plan.trusted}' that a person drew."
        fix = "say the kind of the mask set in cohort.toml (expert, consensus), or name another as trusted."
        yield Finding("STUDY_NO_EXPERT", fact, "trusted", fix)


def _parts(path: Path, file: StudyFile, cohort: Cohort) -> dict[str, list[str]]:
    """Return the cases of the development and of the test parts of the split."""
    table = read_sheet(path).table
    absent = [name for name in ("case", "split") if name not in table.columns]
    raise_errors(
        Finding("UNKNOWN_COLUMN", f"there is no column '{name}'.", str(path), did_you_mean(name, table.columns))
        for name in absent
    )
    known, patient_of = set(table["split"]), dict(zip(cohort.cases["case"], cohort.cases["patient"], strict=True))
    faults = [
        Finding("STUDY_PART_UNKNOWN", f"the split has no part '{name}'.", str(path), did_you_mean(name, known))
        for name in [*file.development, *file.test]
        if name not in known
    ]
    rows = table[table["split"].isin([*file.development, *file.test])]
    strangers = sorted(set(rows["case"]) - set(patient_of))
    if strangers:
        fact = f"the cohort does not have {counted(len(strangers), 'case')} of the split ({listing(strangers)})."
        fix = "split this cohort, or exclude the cases with a reason."
        faults.append(Finding("STUDY_CASE_UNKNOWN", fact, f"{path}, column case", fix))
    raise_errors(faults)
    found = {
        side: sorted(rows.loc[rows["split"].isin(names), "case"])
        for side, names in (("development", file.development), ("test", file.test))
    }
    shared = {patient_of[c] for c in found["development"]} & {patient_of[c] for c in found["test"]}
    if shared:
        are = counted(len(shared), "patient is", "patients are")
        fact = f"{are} in development and in test ({listing(sorted(shared))})."
        raise AuditError(Finding("STUDY_PATIENT_LEAK", fact, str(path), "split by patient: `segaudit split`."))
    return found


def by_people(masks: MaskSet, cases: Sequence[str]) -> tuple[str, ...]:
    """Return those of some cases whose mask a person drew."""
    drawn = set(masks.masks.loc[~masks.masks["kind"].isin(_NO_EXPERT), "case"])
    return tuple(case for case in cases if case in drawn)
