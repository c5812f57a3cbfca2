"""The regimes of a study: for each its exams with their labels, its folds, and what it predicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from segaudit.attributes import listing
from segaudit.cohorts import Cohort
from segaudit.config.study import RegimeEntry, RulerEntry, StudyFile
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.preparations.people import fitted, level_table, parse_options
from segaudit.sheets import read_sheet
from segaudit.splits import TrainVal, folds
from segaudit.study.conditions import condition, ruler_regime

ALL = "all"


@dataclass(frozen=True)
class Exam:
    """A development exam with the label that its regime trains on.

    Attributes
    ----------
    case, patient : str
    image, label : Path
        The label of another regime lies where that regime will predict it.
    source : str
        Mask set that the label comes from, or regime.
    kind : str
        Kind of the label; that of a regime is machine.
    predicted : bool
        Whether the source is a regime, which has yet to predict it.
    """

    case: str
    patient: str
    image: Path
    label: Path
    source: str
    kind: str
    predicted: bool


@dataclass(frozen=True)
class Regime:
    """Networks that share their training labels.

    Attributes
    ----------
    name, dataset : str
        The second is nnU-Net's name of the data set, such as Dataset501_mixed.
    exams : tuple of Exam
        Sorted by case.
    pairs : tuple of TrainVal
        Training and validation cases of each fold; empty when one network learns from all.
    configurations : tuple of str
    predicted : mapping of str to Path
        Cases that it predicts, with their images.
    audited : bool
        Whether it is a model of the audit.
    where : tuple of str
        Conditions on its cases.
    """

    name: str
    dataset: str
    exams: tuple[Exam, ...]
    pairs: tuple[TrainVal, ...]
    configurations: tuple[str, ...]
    predicted: Mapping[str, Path]
    audited: bool
    where: tuple[str, ...] = ()

    @property
    def folds(self) -> tuple[str, ...]:
        """Names of its folds, as nnU-Net takes them."""
        return tuple(str(i) for i in range(len(self.pairs))) or (ALL,)

    @property
    def makers(self) -> tuple[str, ...]:
        """Regimes whose predictions are its labels."""
        return tuple(dict.fromkeys(exam.source for exam in self.exams if exam.predicted))

    def trained_on(self, fold: str | None = None) -> frozenset[str]:
        """Return the patients that a fold's network, or any of its networks, learns from."""
        seen = {c for p in self.pairs for c in p.train} if fold is None else set(self.pair(fold).train)
        return frozenset(exam.patient for exam in self.exams if not self.pairs or exam.case in seen)

    def pair(self, fold: str) -> TrainVal:
        """Return training and validation cases of a fold; of `all` every case is on both sides."""
        everyone = tuple(exam.case for exam in self.exams)
        return self.pairs[int(fold)] if self.pairs else TrainVal(everyone, everyone)


def final_masks(home: Path, regime: str) -> Path:
    """Return the folder of a regime's predictions, cleaned up where that is asked for."""
    return home / "predictions" / regime / "final"


class Making:
    """The regimes of a study in the making; faults are gathered, to be told at once."""

    def __init__(
        self,
        file: StudyFile,
        folder: Path,
        home: Path,
        cohort: Cohort,
        development: Sequence[str],
        test: Sequence[str],
        entries: Sequence[RegimeEntry],
        rulers: Sequence[tuple[str, RulerEntry]],
    ) -> None:
        self.file, self.folder, self.home, self.cohort, self.entries = file, folder, home, cohort, entries
        self.test = test
        self.faults: list[Finding] = []
        self.cases = cohort.cases[cohort.cases["case"].isin(set(development))].reset_index(drop=True)
        self.makers = {r.made_by or ruler_regime(r) for _, r in rulers if r.mask_set is None}
        self.masks = {
            name: dict(zip(s.masks["case"], zip(s.masks["path"], s.masks["kind"], strict=True), strict=True))
            for name, s in cohort.mask_sets.items()
        }
        # a mask set goes before a regime of its name
        self.names = {entry.name for entry in entries} - set(self.masks)
        self._check_images([*development, *test])
        self._check_references()
        self._check_sources(rulers)

    def regimes(self) -> tuple[Regime, ...]:
        """Return the regimes, each with what it predicts."""
        raise_errors(self.faults)
        exams = {entry.name: self._exams(entry) for entry in self.entries}
        raise_errors(self.faults)
        wanted: dict[str, set[str]] = {
            entry.name: set(self.test) if entry.audited or entry.name in self.makers else set()
            for entry in self.entries
        }
        for own in exams.values():
            for exam in own:
                if exam.predicted:
                    wanted[exam.source].add(exam.case)
        first, default = self.file.network.first_dataset, tuple(self.file.network.configurations)
        return tuple(
            Regime(
                entry.name,
                f"Dataset{first + i:03d}_{entry.name}",
                exams[entry.name],
                self._pairs(entry, exams[entry.name]),
                tuple(entry.configurations or default),
                {case: Path(self.cohort.images[case]) for case in sorted(wanted[entry.name])},
                entry.audited,
                tuple(entry.where),
            )
            for i, entry in enumerate(self.entries)
        )

    def _check_images(self, cases: Iterable[str]) -> None:
        lacking = sorted(set(cases) - set(self.cohort.images))
        if lacking:
            fact = f"{counted(len(lacking), 'case has', 'cases have')} no image ({listing(lacking)})."
            fix = 'name the folder of images in cohort.toml (images = "images"), or leave the cases out with a reason.'
            self.faults.append(Finding("STUDY_IMAGE_MISSING", fact, f"cohort '{self.cohort.name}'", fix))

    def _check_references(self) -> None:
        self.faults += [
            Finding(
                "STUDY_SOURCE_UNKNOWN", f"there is no mask set '{name}'.", "reference", did_you_mean(name, self.masks)
            )
            for name in dict.fromkeys([*self.file.reference, *([self.file.trusted] if self.file.trusted else [])])
            if name not in self.masks
        ]
        lacking = [c for c in self.test if not any(c in self.masks.get(name, {}) for name in self.file.reference)]
        if lacking:
            fact = f"{len(lacking)} test cases have no mask in {', '.join(self.file.reference)} ({listing(lacking)})."
            fix = "name the mask sets that hold their references, or leave the cases out of the test part."
            self.faults.append(Finding("STUDY_REFERENCE_MISSING", fact, "reference", fix))

    def _check_sources(self, rulers: Sequence[tuple[str, RulerEntry]]) -> None:
        known = {*self.masks, *self.names}
        asked = [(name, f"regime '{entry.name}', labels") for entry in self.entries for name in entry.labels]
        asked += [(r.mask_set, f"ruler '{name}'") for name, r in rulers if r.mask_set is not None]
        self.faults += [
            Finding("STUDY_SOURCE_UNKNOWN", f"'{name}' is no mask set and no regime.", where, did_you_mean(name, known))
            for name, where in asked
            if name not in known
        ]
        order = {entry.name: set(entry.labels) & self.names for entry in self.entries}
        first = self.file.network.plan_from or self.entries[0].name
        if order[first]:
            fact = f"nnU-Net is to plan on '{first}', whose labels are predictions: they need the plan first."
            fix = "set plan_from in [network] to a regime with mask sets alone."
            self.faults.append(Finding("STUDY_CYCLE", fact, "network, plan_from", fix))
        while ready := [name for name, needs in order.items() if not needs & set(order)]:
            for name in ready:
                del order[name]
        if order:
            fact = f"the labels of {', '.join(order)} come from each other."
            self.faults.append(Finding("STUDY_CYCLE", fact, "regimes, labels", "name a mask set."))

    def _exams(self, entry: RegimeEntry) -> tuple[Exam, ...]:
        inside = self.cases[self._where(entry)]
        found = []
        for case, patient in zip(inside["case"], inside["patient"], strict=True):
            label = next(self._labels(entry, case), None)
            if label is not None:
                path, source, kind = label
                image = Path(self.cohort.images[case])
                found.append(Exam(case, patient, image, path, source, kind, source in self.names))
        if not found:
            fact = f"regime '{entry.name}' has 0 of the {len(self.cases)} development cases."
            fix = "check its labels, kinds and where."
            self.faults.append(Finding("STUDY_REGIME_EMPTY", fact, f"regime '{entry.name}'", fix))
        return tuple(sorted(found, key=lambda exam: exam.case))

    def _labels(self, entry: RegimeEntry, case: str) -> Iterator[tuple[Path, str, str]]:
        for source in entry.labels:
            if source in self.names:
                path, kind = final_masks(self.home, source) / f"{case}.nii.gz", "machine"
            elif case in self.masks[source]:
                told, kind = self.masks[source][case]
                path = Path(told)
            else:
                continue
            if not entry.kinds or kind in entry.kinds:
                yield path, source, kind

    def _where(self, entry: RegimeEntry) -> pd.Series:
        keep = pd.Series(data=True, index=self.cases.index)
        for text in entry.where:
            try:
                keep &= condition(text, self.cases, f"regime '{entry.name}', where")
            except AuditError as error:
                self.faults += error.findings
        return keep & self._listed(entry) if entry.cases is not None else keep

    def _listed(self, entry: RegimeEntry) -> pd.Series:
        path = self.folder / str(entry.cases)
        try:
            table = read_sheet(path).table
        except AuditError as error:
            self.faults += error.findings
            return pd.Series(data=False, index=self.cases.index)
        if "case" not in table.columns:
            fact = "there is no column 'case'."
            self.faults.append(Finding("UNKNOWN_COLUMN", fact, str(path), did_you_mean("case", table.columns)))
            return pd.Series(data=False, index=self.cases.index)
        return self.cases["case"].isin(set(table["case"]))

    def _pairs(self, entry: RegimeEntry, exams: Sequence[Exam]) -> tuple[TrainVal, ...]:
        if entry.folds == ALL:
            return ()
        own = self.cases[self.cases["case"].isin([exam.case for exam in exams])]
        groupings = fitted(parse_options({"stratify": self.file.stratify}), own)
        strata = level_table(groupings["stratify"], own)
        try:
            return folds(own, self.file.n_folds, strata, seed=self.file.seed).pairs()
        except AuditError as error:
            where = f"regime '{entry.name}'"
            raise AuditError([replace(finding, where=where) for finding in error.findings]) from None
