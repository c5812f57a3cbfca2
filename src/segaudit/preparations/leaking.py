"""Leaks among what people have: split tables, nnU-Net folds, training patients of mask sets, images."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import pandas as pd

from segaudit import splits
from segaudit.attributes import listing
from segaudit.cohorts import Cohort, discover_masks
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.participants import patients_by_rule, stem
from segaudit.preparations.people import NOBODY, Source, read_cases
from segaudit.sheets import read_sheet
from segaudit.splits import TrainVal
from segaudit.splits.identities import patients_of
from segaudit.splits.schemas import DUPLICATES, LEAKS
from segaudit.volumes.digests import content_digest

LEAKED = frozenset({"SPLIT_PATIENT_LEAK", "FOLD_PATIENT_LEAK", "FOLD_OVERLAP"})
_CHANNEL = re.compile(r"_\d{4}$")

Sets = dict[str, frozenset[str]]


@dataclass(frozen=True)
class Leaks:
    """What was compared, what is on two sides, and what else is wrong.

    Attributes
    ----------
    table : DataFrame
        left, right, n_left, n_right, n_shared, examples: one row for every two sets that must not share a patient.
    duplicates : DataFrame
        digest, n_cases, n_patients, splits, cases: images that stand in two parts.
    findings : tuple of Finding
    """

    table: pd.DataFrame
    duplicates: pd.DataFrame = field(default_factory=lambda: DUPLICATES.frame([]))
    findings: tuple[Finding, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 where a patient or an image is on two sides, 2 where another error stands in what was read, else 0."""
        codes = {finding.code for finding in self.findings}
        if (self.table["n_shared"] > 0).any() or len(self.duplicates) or codes & LEAKED:
            return 1
        return 2 if any(finding.level == "error" for finding in self.findings) else 0


@dataclass(frozen=True)
class _Table:
    """A split table: case and split as text, null where empty; patient where it has one."""

    path: Path
    rows: pd.DataFrame


@dataclass(frozen=True)
class _FoldFile:
    path: Path
    pairs: tuple[TrainVal, ...]


def find_leaks(
    files: Sequence[Path],
    people: Source = NOBODY,
    *,
    rule: str | None = None,
    columns: Mapping[str, str] | None = None,
    images: Path | None = None,
    held_out: str = "test",
) -> Leaks:
    """Return the patients, and the images, that are on two sides.

    Compared are the parts of a split table with each other; train with val of each fold; the patients that a mask set
    of a cohort was trained on with those that are audited, and a model's with a ruler's; and with the held-out part of
    a split table whatever another file trains on.

    Parameters
    ----------
    files : sequence of Path
        cohort.toml, splits_final.json (any .json), or split tables.
    people : Source
        Says whose a case is; else the split tables themselves do.
    rule : str, optional
        Regular expression whose one group is the patient in the name of a case; comes before every table.
    columns : mapping of str to str, optional
        Our names (case, patient, split) to those of the split tables.
    images : Path, optional
        Folder of images to compare across the parts, by their content.
    held_out : str
        Part of a split table that nothing may be trained on.

    Raises
    ------
    AuditError
        LEAK_NOTHING, IMAGES_WITHOUT_PARTS, IMAGES_UNMATCHED, PATIENTS_NEEDED, and the codes of reading.
    """
    tables, folds, cohorts = _read(files, columns or {})
    if not (tables or folds or cohorts):
        fix = "give a split table, a splits_final.json or a cohort.toml."
        raise AuditError(Finding("LEAK_NOTHING", "there is nothing to compare.", "command line", fix))
    if images is not None and len(tables or folds) != 1:
        fact = f"images are compared across the parts of one file, and {len(tables or folds)} have parts."
        fix = "give one split table, or one splits_final.json."
        raise AuditError(Finding("IMAGES_WITHOUT_PARTS", fact, "--images", fix))
    whose = _Whose.of(tables, folds, cohorts, people, rule)
    findings = [finding for one in tables for finding in whose.check_table(one)]
    findings += [finding for one in folds for finding in whose.check_folds(one)]
    findings += [finding for one in cohorts for finding in _training_unknown(one)]
    rows = [splits.leak({left: a, right: b}) for left, a, right, b in _pairs(tables, folds, cohorts, whose, held_out)]
    table = pd.concat([LEAKS.frame([]), *rows], ignore_index=True)
    if images is None:
        return Leaks(table, findings=tuple(findings))
    twice, notes = _same_images(images, _parts_of_table(tables[0]) if tables else _parts_of_folds(folds[0]), whose)
    return Leaks(table, twice, (*findings, *notes))


def check_split(file: Path, people: Source, *, columns: Mapping[str, str] | None = None) -> Leaks:
    """Return what is wrong with an existing split: a split table or, as .json, nnU-Net's folds."""
    return find_leaks([file], people, columns=columns)


def _read(files: Sequence[Path], columns: Mapping[str, str]) -> tuple[list[_Table], list[_FoldFile], list[Cohort]]:
    tables, folds, cohorts = [], [], []
    faults: list[Finding] = []
    for path in files:
        try:
            if path.suffix == ".toml":
                cohorts.append(read_cases(Source(path), {}))
            elif path.suffix == ".json":
                folds.append(_FoldFile(path, _stems(splits.read_nnunet_splits(path))))
            else:
                tables.append(_split_table(path, columns))
        except AuditError as error:
            faults += error.findings
    raise_errors(faults)
    return tables, folds, cohorts


def _stems(pairs: Sequence[TrainVal]) -> tuple[TrainVal, ...]:
    """Return folds with their cases as they meet those of tables."""
    return tuple(TrainVal(tuple(map(stem, pair.train)), tuple(map(stem, pair.val))) for pair in pairs)


def _split_table(path: Path, columns: Mapping[str, str]) -> _Table:
    sheet = read_sheet(path)
    known = list(sheet.table.columns)
    names = {ours: columns.get(ours, ours) for ours in ("case", "patient", "split")}
    faults = [
        Finding("OPTION_FORM", f"a split table has no '{ours}'.", "--column", "ours are case, patient and split.")
        for ours in columns
        if ours not in names
    ]
    faults += [
        Finding("COLUMN_MISSING", f"there is no column '{name}'.", str(path), did_you_mean(name, known))
        for ours, name in names.items()
        if name not in known and (ours != "patient" or ours in columns)
    ]
    raise_errors(faults)
    found = {ours: sheet.table[name] for ours, name in names.items() if name in known}
    rows = pd.DataFrame({ours: [cell.strip() or None for cell in cells] for ours, cells in found.items()}, dtype=object)
    rows["case"] = rows["case"].map(stem, na_action="ignore")
    return _Table(path, rows)


@dataclass(frozen=True)
class _Whose:
    """Whose a case is; with `complete`, a case that is not named does not belong to the cohort."""

    patient_of: Mapping[str, str]
    complete: bool = False

    @classmethod
    def of(
        cls,
        tables: Sequence[_Table],
        folds: Sequence[_FoldFile],
        cohorts: Sequence[Cohort],
        people: Source,
        rule: str | None,
    ) -> _Whose:
        if rule is not None:
            named = {case for one in tables for case in one.rows["case"].dropna()}
            return cls(patients_by_rule(sorted(named | {case for one in folds for case in _cases(one)}), rule))
        if people.given():
            return cls(patients_of(read_cases(people, {}).cases), complete=True)
        stated: dict[str, str] = {}
        faults = [fault for one in tables if "patient" in one.rows for fault in _torn(one, stated)]
        for cohort in cohorts:
            stated = patients_of(cohort.cases) | stated
        fix = "give --participants, --case-to-patient, or the table a column of the patient."
        faults += [
            Finding("PATIENTS_NEEDED", f"{one.path.name} does not say whose its cases are.", str(one.path), fix)
            for one in tables
            if "patient" not in one.rows and not stated.keys() & set(one.rows["case"])
        ]
        raise_errors(faults)
        return cls(stated)

    def check_table(self, one: _Table) -> list[Finding]:
        inside = [case for case in self.patient_of if self.complete or case in set(one.rows["case"])]
        cases = pd.DataFrame({"case": inside, "patient": [self.patient_of[case] for case in inside]}, dtype=object)
        return splits.check_split(one.rows, cases, where=str(one.path))

    def check_folds(self, one: _FoldFile) -> list[Finding]:
        said = self.patient_of if self.complete or self.patient_of.keys() & _cases(one) else None
        cases = set(self.patient_of) if self.complete else None
        found = splits.check_folds(one.pairs, said, cases=cases, where=str(one.path))
        # folds alone are the usual case, and silence on their patients must not be taken for an answer
        return [replace(f, level="warning") if f.code == "FOLD_PATIENTS_UNCHECKED" else f for f in found]

    def patients(self, cases: Collection[str]) -> frozenset[str]:
        """Return the patients of cases; a case of which nothing is known counts as one."""
        return frozenset(self.patient_of.get(case, case) for case in cases)


def _torn(one: _Table, stated: dict[str, str]) -> list[Finding]:
    """Add a table's patients to those stated; return a fault where two rows disagree or a patient is missing."""
    torn, blank = set(), 0
    for case, patient in zip(one.rows["case"], one.rows["patient"], strict=True):
        if case is not None and patient is None:
            blank += 1
        elif case is not None and stated.setdefault(case, patient) != patient:
            torn.add(case)
    faults = []
    if torn:
        fact = f"{counted(len(torn), 'case belongs', 'cases belong')} to two patients ({listing(sorted(torn))})."
        faults.append(Finding("CASE_TWO_PATIENTS", fact, str(one.path), "mend the patient of the case."))
    if blank:
        fact = f"{counted(blank, 'row has', 'rows have')} no patient."
        faults.append(Finding("PATIENT_NULL", fact, str(one.path), "name the patient in each row."))
    return faults


def _cases(one: _FoldFile) -> set[str]:
    return {case for pair in one.pairs for case in (*pair.train, *pair.val)}


def _pairs(
    tables: Sequence[_Table],
    folds: Sequence[_FoldFile],
    cohorts: Sequence[Cohort],
    whose: _Whose,
    held_out: str,
) -> Iterator[tuple[str, frozenset[str], str, frozenset[str]]]:
    """Yield every two sets of patients that must not share one, each with its name."""
    parts = [("" if len(tables) == 1 else f"{one.path}: ", _parts(one, whose)) for one in tables]
    for prefix, own in parts:
        yield from ((f"{prefix}{a}", own[a], f"{prefix}{b}", own[b]) for a, b in combinations(own, 2))
    sides = [_sides(one, whose, alone=len(folds) == 1) for one in folds]
    for side in sides:
        names = list(side)
        yield from ((a, side[a], b, side[b]) for a, b in zip(names[::2], names[1::2], strict=True))
    trained = [_trained(one) for one in cohorts]
    for sets, cohort in zip(trained, cohorts, strict=True):
        audited = frozenset(cohort.cases["patient"])
        yield from ((name, sets[name], "audited patients", audited) for name in sets)
        models = [name for name in sets if name.startswith("model ")]
        yield from ((a, sets[a], b, sets[b]) for a in models for b in sets if b not in models)
    for number, (prefix, own) in enumerate(parts):
        if held_out in own:
            others = [other for i, other in enumerate(parts) if i != number]
            training = [{f"{p}{name}": s for name, s in other.items() if name != held_out} for p, other in others]
            for sets in (*training, *sides, *trained):
                yield from ((name, sets[name], f"{prefix}{held_out}", own[held_out]) for name in sets)


def _parts(one: _Table, whose: _Whose) -> Sets:
    cases_of: dict[str, list[str]] = {}
    for case, part in one.rows[["case", "split"]].dropna().itertuples(index=False):
        cases_of.setdefault(part, []).append(case)
    return {part: whose.patients(cases) for part, cases in cases_of.items()}


def _sides(one: _FoldFile, whose: _Whose, *, alone: bool) -> Sets:
    prefix = "" if alone else f"{one.path}: "
    return {
        f"{prefix}fold {number} {side}": whose.patients(cases)
        for number, pair in enumerate(one.pairs)
        for side, cases in (("train", pair.train), ("val", pair.val))
    }


def _role(cohort: Cohort, name: str) -> str:
    return "model" if name in cohort.models else "ruler" if name in cohort.rulers else "mask set"


def _trained(cohort: Cohort) -> Sets:
    return {
        f"{_role(cohort, name)} {name} trained on": one.trained_on
        for name, one in cohort.mask_sets.items()
        if one.trained_on is not None
    }


def _training_unknown(cohort: Cohort) -> list[Finding]:
    """Return a warning for each mask set of a machine, or in the role of a model, whose training is not known."""
    fix = "name its training patients: trained_on in cohort.toml."
    return [
        Finding(
            "TRAINING_UNKNOWN",
            f"it is not known which patients {_role(cohort, name)} '{name}' was trained on: a leak cannot be seen.",
            f"cohort '{cohort.name}'",
            fix,
            "warning",
        )
        for name, one in cohort.mask_sets.items()
        if one.trained_on is None and (name in cohort.models or one.kind == "machine")
    ]


def _same_images(folder: Path, parts: Mapping[str, Sequence[str]], whose: _Whose) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the images whose content stands in two parts; a case of several channels counts by each."""
    found = discover_masks(folder)
    case_of = {name: name if name in parts else _CHANNEL.sub("", name) for name in found["case"].tolist()}
    path_of = dict(zip(found["case"].tolist(), found["path"].tolist(), strict=True))
    digests = {}
    faults: list[Finding] = []
    for name in (name for name, case in case_of.items() if case in parts):
        try:
            digests[name] = content_digest(Path(path_of[name]))
        except AuditError as error:
            faults += error.findings
    raise_errors(faults)
    if not digests:
        fact = f"none of {len(found)} images belongs to a case of the parts ({listing(case_of, 3)})."
        fix = f"name them as the cases ({listing(sorted(parts), 3)}), with or without a channel suffix."
        raise AuditError(Finding("IMAGES_UNMATCHED", fact, str(folder), fix))
    owners = {name: whose.patient_of.get(case_of[name], case_of[name]) for name in digests}
    rows = [(name, owners[name], part) for name in digests for part in parts[case_of[name]]]
    placed = pd.DataFrame(rows, columns=["case", "patient", "split"])
    gaps = {
        "IMAGES_ABSENT": (len(parts.keys() - {case_of[name] for name in digests}), "cases of the parts have no image"),
        "IMAGES_SURPLUS": (len(found) - len(digests), "images belong to no case of the parts"),
    }
    notes = [
        Finding(code, f"{n} {fact}: they were not compared.", str(folder), "check the folder.", "warning")
        for code, (n, fact) in gaps.items()
        if n
    ]
    return splits.duplicates(digests, placed), notes


def _parts_of_table(one: _Table) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for case, part in one.rows[["case", "split"]].dropna().itertuples(index=False):
        found.setdefault(case, []).append(part)
    return found


def _parts_of_folds(one: _FoldFile) -> dict[str, list[str]]:
    """Return the fold that validates each case, or that it is only trained on."""
    found: dict[str, list[str]] = {case: [] for case in sorted(_cases(one))}
    for number, pair in enumerate(one.pairs):
        for case in set(pair.val):
            found[case].append(f"fold {number}")
    return {case: folds or ["train only"] for case, folds in found.items()}
