"""nnU-Net's splits_final.json: written whole or not at all, read strictly, and checked for what spoils a result."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from segaudit.errors import AuditError, Finding, Level, counted, raise_errors
from segaudit.splits.crossvalidation import Folds, TrainVal
from segaudit.splits.identities import faults_of, listed

MAX_BYTES = 256 * 1024 * 1024
_SHAPE = 'the file is a list with one {"train": [...], "val": [...]} a fold, of case names as text.'


def write_nnunet_splits(folds: Folds | Sequence[TrainVal], path: Path) -> None:
    """Write folds as nnU-Net's splits_final.json, in one step.

    Raises
    ------
    AuditError
        FILE_UNWRITABLE.
    """
    pairs = folds.pairs() if isinstance(folds, Folds) else folds
    text = json.dumps([{"train": list(pair.train), "val": list(pair.val)} for pair in pairs], indent=4) + "\n"
    draft = None
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).chmod(0o644)
        Path(draft).replace(path)
    except OSError as error:
        if draft is not None:
            Path(draft).unlink(missing_ok=True)
        fact = f"{path} cannot be written: {error.strerror}."
        raise AuditError(Finding("FILE_UNWRITABLE", fact, str(path), "check the folder and its rights.")) from None


def read_nnunet_splits(path: Path) -> tuple[TrainVal, ...]:
    """Return the folds of a splits_final.json; keys other than train and val are ignored, as nnU-Net does.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE, FOLDS_TOO_LARGE, FOLDS_MALFORMED, or one FOLDS_SHAPE a fault.
    """
    where = str(path)
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MAX_BYTES else b""
    except FileNotFoundError:
        raise AuditError(Finding("FILE_MISSING", f"there is no file {path}.", where, "check the path.")) from None
    except OSError as error:
        raise AuditError(Finding("FILE_UNREADABLE", f"{path} cannot be read: {error.strerror}.", where)) from None
    if size > MAX_BYTES:
        fact = f"{path} has {size} bytes; the limit is {MAX_BYTES}."
        raise AuditError(Finding("FOLDS_TOO_LARGE", fact, where, "check that it is the right file."))
    try:
        data = json.loads(raw.decode("utf-8-sig"), object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        fact = f"{path} is no valid JSON: {error}."
        raise AuditError(Finding("FOLDS_MALFORMED", fact, where, _SHAPE)) from None
    raise_errors(_shape_faults(data, where))
    return tuple(TrainVal(tuple(fold["train"]), tuple(fold["val"])) for fold in data)


class _Object(dict[str, Any]):
    """A JSON object that knows which keys were given twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.doubled = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)


def _shape_faults(data: Any, where: str) -> list[Finding]:
    if not isinstance(data, list):
        named = "an object" if isinstance(data, dict) else "no list"
        return [Finding("FOLDS_SHAPE", f"the file holds {named} where a list of folds is due.", where, _SHAPE)]
    if not data:
        return [Finding("FOLDS_SHAPE", "the list of folds is empty.", where, _SHAPE)]
    return [
        Finding("FOLDS_SHAPE", fact, f"{where}, {place}", _SHAPE)
        for number, fold in enumerate(data)
        for place, fact in _fold_faults(number, fold)
    ]


def _fold_faults(number: int, fold: Any) -> list[tuple[str, str]]:
    place = f"fold {number}"
    if not isinstance(fold, _Object):
        return [(place, f"fold {number} is no object with 'train' and 'val'.")]
    faults = [(place, f"'{key}' is given twice in fold {number}.") for key in fold.doubled]
    for side in ("train", "val"):
        names = fold.get(side)
        if side not in fold:
            faults.append((place, f"fold {number} has no '{side}' (it has {listed(fold) or 'no key'})."))
        elif not isinstance(names, list):
            faults.append((f"{place}, {side}", f"'{side}' of fold {number} is no list."))
        elif wrong := [name for name in names if not isinstance(name, str) or not name]:
            fact = f"{len(wrong)} of {len(names)} cases are no text: {listed(json.dumps(name) for name in wrong)}."
            faults.append((f"{place}, {side}", fact))
    return faults


def check_folds(
    folds: Folds | Sequence[TrainVal],
    patients: Mapping[str, str] | str | None = None,
    *,
    cases: Collection[str] | None = None,
    where: str = "folds",
) -> list[Finding]:
    """Return what is wrong with folds, most serious first within a fold; empty when nothing is.

    Parameters
    ----------
    folds : Folds or sequence of TrainVal
    patients : mapping of str to str, or str, optional
        Patient of each case; or a regular expression whose one group finds the patient in the case name, such as
        ``^(sub-[0-9]+)_``. Without it patients cannot be checked, and a note says so.
    cases : collection of str, optional
        The cases that there are.
    where : str
        Named in each finding, such as the path of the file.

    Returns
    -------
    list of Finding
        Errors FOLD_PATIENT_LEAK, FOLD_OVERLAP, FOLD_VAL_TWICE, FOLD_CASE_REPEATED, FOLD_EMPTY, FOLD_CASE_UNKNOWN,
        FOLD_PATIENT_UNKNOWN; warnings FOLD_NEVER_VALIDATED (a note when there is one fold), FOLD_CASE_LEFT_OUT,
        FOLD_CASE_ABSENT; note FOLD_PATIENTS_UNCHECKED.

    Raises
    ------
    AuditError
        PATIENT_RULE_MALFORMED.
    """
    pairs = folds.pairs() if isinstance(folds, Folds) else tuple(folds)
    named = {case for pair in pairs for case in (*pair.train, *pair.val)}
    patient_of = _patients(named, patients)
    found: list[Finding] = []
    for number, pair in enumerate(pairs):
        found += _of_fold(pair, patient_of, named, f"{where}, fold {number}")
    found += _across(pairs, named, where)
    if cases is not None:
        unknown, absent = named - set(cases), set(cases) - named
        fix = "remove them, or mend the names."
        found += faults_of(unknown, "FOLD_CASE_UNKNOWN", "case", "not in the cohort", where, fix)
        fix = "add them to the folds, or exclude them with a reason."
        found += faults_of(absent, "FOLD_CASE_ABSENT", "case", "in no fold", where, fix, "warning")
    if patient_of is None:
        fact = "without patients it cannot be seen whether one stands on both sides of a fold."
        found.append(Finding("FOLD_PATIENTS_UNCHECKED", fact, where, "give the patients, or a rule.", "note"))
    else:
        fix = "mend the rule, or add the cases to the table."
        found += faults_of(named - set(patient_of), "FOLD_PATIENT_UNKNOWN", "case", "without a patient", where, fix)
    return found


def _patients(named: Collection[str], patients: Mapping[str, str] | str | None) -> Mapping[str, str] | None:
    if not isinstance(patients, str):
        return patients
    try:
        rule = re.compile(patients)
    except re.error as error:
        fact = f"'{patients}' is no regular expression: {error}."
        raise AuditError(Finding("PATIENT_RULE_MALFORMED", fact, "patient rule", "mend it.")) from None
    if rule.groups != 1:
        fact = f"'{patients}' has {rule.groups} groups; it needs one, around the patient."
        raise AuditError(Finding("PATIENT_RULE_MALFORMED", fact, "patient rule", "for example ^(sub-[0-9]+)_."))
    found = {case: rule.search(case) for case in named}
    return {case: match.group(1) for case, match in found.items() if match and match.group(1)}


def _of_fold(pair: TrainVal, patient_of: Mapping[str, str] | None, named: Collection[str], where: str) -> list[Finding]:
    train, val = set(pair.train), set(pair.val)
    found: list[Finding] = []
    if patient_of is not None:
        sides = [{patient_of[case] for case in side if case in patient_of} for side in (train, val)]
        shared = sides[0] & sides[1]
        cases = counted(sum(patient_of.get(case) in shared for case in val), "case")
        fix = "make the folds by patient; scores of this fold are too good."
        found += faults_of(shared, "FOLD_PATIENT_LEAK", "patient", f"in train and, with {cases}, in val", where, fix)
    fix = "keep each case on one side; it is scored by a model that has seen it."
    found += faults_of(train & val, "FOLD_OVERLAP", "case", "in train and in val", where, fix)
    for side, names in (("train", pair.train), ("val", pair.val)):
        again = {case for case, times in Counter(names).items() if times > 1}
        place, fix = f"{where}, {side}", "list each once."
        found += faults_of(again, "FOLD_CASE_REPEATED", "case", "listed more than once", place, fix)
        if not names:
            found.append(Finding("FOLD_EMPTY", f"'{side}' is empty.", place, "remove the fold, or fill it."))
    if pair.train and pair.val:
        left_out = set(named) - train - val
        fix = "leave cases out on purpose only, and say why."
        fact = "in other folds and in neither list of this one"
        found += faults_of(left_out, "FOLD_CASE_LEFT_OUT", "case", fact, where, fix, "warning")
    return found


def _across(pairs: Sequence[TrainVal], named: Collection[str], where: str) -> list[Finding]:
    times = Counter(case for pair in pairs for case in set(pair.val))
    twice = {case for case, n in times.items() if n > 1}
    fix = "validate each case in one fold; else its pooled score is not unique."
    found = faults_of(twice, "FOLD_VAL_TWICE", "case", "validated in more than one fold", where, fix)
    single = len(pairs) == 1
    fix = "a hold-out needs no mending." if single else "let each case be validated once."
    never = set(named) - set(times)
    level: Level = "note" if single else "warning"
    return found + faults_of(never, "FOLD_NEVER_VALIDATED", "case", "validated in no fold", where, fix, level)
