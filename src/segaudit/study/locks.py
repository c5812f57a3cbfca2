"""The lock of a study: frozen before its first step, and compared with what is there before every run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from segaudit.attributes import listing
from segaudit.config.base import check
from segaudit.config.study_lock import ExamRecord, FoldRecord, RegimeRecord, StepRecord, StudyLock
from segaudit.errors import AuditError, Finding, counted
from segaudit.files import read_file
from segaudit.provenance import digest_file
from segaudit.store import atomic
from segaudit.study.plans import StudyPlan
from segaudit.study.regimes import Regime
from segaudit.study.steps import steps_of

LOCK = "lock.json"
VERSION = 1
_MOST_BYTES = 1 << 28
_RENEW = "if this is meant, run again with --renew: the steps that rest on it are done again."


def freeze(plan: StudyPlan) -> StudyLock:
    """Return the lock of a plan: every image and label with its digest.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE: every file that cannot be read.
    """
    paths = {exam.label for one in plan.regimes for exam in one.exams if not exam.predicted}
    paths |= {exam.image for one in plan.regimes for exam in one.exams}
    paths |= {path for one in plan.regimes for path in one.predicted.values()}
    paths |= {Path(plan.cohort.images[case]) for case in plan.test}
    known = _digests(paths)
    file = plan.file
    labels = {name: list(values) for name, values in plan.cohort.labels.items()}
    sets = plan.cohort.mask_sets.values()
    codings = {s.name: {k: list(v) for k, v in (s.labels or plan.cohort.labels).items()} for s in sets}
    images = {case: path for one in plan.regimes for case, path in one.predicted.items()}
    return StudyLock(
        version=VERSION,
        settings={
            **file.network.model_dump(exclude={"first_dataset", "configurations", "plan_from"}),
            "plan_from": plan.plan_from,
            "seed": file.seed,
            "clean_up": sorted(file.clean_up),
        },
        machine=file.machine.model_dump(),
        labels=labels,
        codings=codings,
        regimes=[_regime(one, known) for one in plan.regimes],
        images={case: known[images[case]] for case in sorted(images)},
        test=list(plan.test),
        collect=_collected(plan),
        steps=[
            StepRecord(
                name=s.name,
                verb=s.verb,
                needs=list(s.needs),
                regime=s.regime,
                configuration=s.configuration,
                fold=s.fold,
            )
            for s in steps_of(plan)
        ],
    )


def _regime(one: Regime, known: Mapping[Path, str]) -> RegimeRecord:
    exams = [
        ExamRecord(
            case=e.case,
            patient=e.patient,
            image=_told(e.image),
            label=_told(e.label),
            source=e.source,
            kind=e.kind,
            predicted=e.predicted,
            image_sha256=known[e.image],
            label_sha256="" if e.predicted else known[e.label],
        )
        for e in one.exams
    ]
    return RegimeRecord(
        name=one.name,
        dataset=one.dataset,
        exams=exams,
        folds=[FoldRecord(train=list(pair.train), val=list(pair.val)) for pair in one.pairs],
        configurations=list(one.configurations),
        predicted={case: _told(path) for case, path in one.predicted.items()},
        audited=one.audited,
    )


def _collected(plan: StudyPlan) -> dict[str, Any]:
    file = plan.file
    tables = [*plan.cohort.files, plan.path.parent / file.split]
    return {
        "study": _told(plan.path),
        "tables": {_told(path): digest_file(path) for path in tables},
        "where": {one.name: list(one.where) for one in plan.regimes},
        "reference": list(file.reference),
        "trusted": plan.trusted,
        "rulers": {name: r.model_dump(exclude_none=True) for name, r in plan.rulers},
        "audit": file.audit.model_dump(mode="json", exclude_unset=True),
    }


def _told(path: Path) -> str:
    return os.path.abspath(path)  # noqa: PTH100  (a link stays the link that was named)


def _digests(paths: Iterable[Path]) -> dict[Path, str]:
    """Return the digest of each file; hashing lets other threads run."""
    faults: list[Finding] = []

    def one(path: Path) -> str:
        try:
            return digest_file(path)
        except AuditError as error:
            faults.extend(error.findings)
            return ""

    ordered = sorted(set(paths))
    with ThreadPoolExecutor() as pool:
        found = dict(zip(ordered, pool.map(one, ordered), strict=True))
    if faults:
        raise AuditError(sorted(faults, key=lambda fault: fault.where))
    return found


def write_lock(home: Path, lock: StudyLock) -> None:
    """Write lock.json, whole or not at all."""
    with atomic(home / LOCK) as temporary:
        temporary.write_text(json.dumps(lock.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")


def read_lock(home: Path) -> StudyLock:
    """Return the lock of a study.

    Raises
    ------
    AuditError
        STUDY_NOT_BEGUN; STUDY_LOCK_MALFORMED.
    """
    path = home / LOCK
    if not path.is_file():
        fact = f"{home} holds no study that has begun."
        raise AuditError(Finding("STUDY_NOT_BEGUN", fact, str(path), "begin it: segaudit study run study.toml."))
    try:
        data = json.loads(read_file(path, _MOST_BYTES, what="JSON"))
    except ValueError as error:
        fact = f"{path} is no valid JSON: {error}."
        raise AuditError(
            Finding("STUDY_LOCK_MALFORMED", fact, str(path), "run with --renew to write it anew.")
        ) from None
    return check(data, StudyLock, str(path))


def differences(old: StudyLock, new: StudyLock) -> list[Finding]:
    """Return what has changed since a study was begun, each file and case named; empty when nothing has.

    Codes: STUDY_FILE_CHANGED, STUDY_CASES_ADDED, STUDY_CASES_GONE, STUDY_FOLDS_CHANGED, STUDY_SETTING_CHANGED.
    """
    found = list(_settings(old, new))
    theirs = {one.name: one for one in old.regimes}
    for one in new.regimes:
        if one.name not in theirs:
            found.append(Finding("STUDY_SETTING_CHANGED", f"regime '{one.name}' is new.", "study.toml", _RENEW))
        else:
            found += _regime_changes(theirs.pop(one.name), one)
    gone = "study.toml"
    found += [Finding("STUDY_SETTING_CHANGED", f"regime '{name}' is gone.", gone, _RENEW) for name in theirs]
    changed = sorted(c for c in set(old.images) & set(new.images) if old.images[c] != new.images[c])
    if changed:
        fact = f"the images of {len(changed)} predicted cases have changed ({listing(changed)})."
        found.append(Finding("STUDY_FILE_CHANGED", fact, "images", _RENEW))
    found += [
        Finding("STUDY_FILE_CHANGED", f"{path} has changed since the study began.", path, _RENEW)
        for path, sha256 in new.collect["tables"].items()
        if old.collect["tables"].get(path, sha256) != sha256
    ]
    return found + list(_case_changes("test", set(old.test), set(new.test)))


def _settings(old: StudyLock, new: StudyLock) -> Iterator[Finding]:
    for name in sorted({*old.settings, *new.settings}):
        before, after = old.settings.get(name), new.settings.get(name)
        if before != after:
            fact = f"{name} was {before!r} when the study began, and is {after!r}."
            yield Finding("STUDY_SETTING_CHANGED", fact, f"study.toml, {name}", _RENEW)
    if old.labels != new.labels:
        fact = f"the labels were {old.labels} when the study began, and are {new.labels}."
        yield Finding("STUDY_SETTING_CHANGED", fact, "labels", _RENEW)


def _regime_changes(old: RegimeRecord, new: RegimeRecord) -> Iterator[Finding]:
    where = f"regime '{new.name}'"
    before, after = ({exam.case: exam for exam in one.exams} for one in (old, new))
    yield from _case_changes(where, set(before), set(after))
    for what in ("image", "label"):
        changed = [
            f"{case}: {getattr(after[case], what)}"
            for case in sorted(set(before) & set(after))
            if getattr(before[case], f"{what}_sha256") != getattr(after[case], f"{what}_sha256")
        ]
        if changed:
            have = counted(len(changed), f"{what} has", f"{what}s have")
            fact = f"{have} changed since preparation ({listing(changed)})."
            yield Finding("STUDY_FILE_CHANGED", fact, where, _RENEW)
    if old.configurations != new.configurations:
        fact = f"the configurations were {', '.join(old.configurations)}, and are {', '.join(new.configurations)}."
        yield Finding("STUDY_SETTING_CHANGED", fact, where, _RENEW)
    if set(before) == set(after) and old.folds != new.folds:
        yield Finding("STUDY_FOLDS_CHANGED", "the folds are others than when the study began.", where, _RENEW)


def _case_changes(where: str, before: set[str], after: set[str]) -> Iterator[Finding]:
    for code, cases, told in (
        ("STUDY_CASES_ADDED", after - before, "come in"),
        ("STUDY_CASES_GONE", before - after, "gone"),
    ):
        if cases:
            have = counted(len(cases), "case has", "cases have")
            fact = f"{have} {told} since the study began ({listing(sorted(cases))})."
            yield Finding(code, fact, where, _RENEW)
