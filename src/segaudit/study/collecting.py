"""Predictions come back as mask sets that know who they learned from, in cohorts ready for the audit."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.attributes import listing
from segaudit.cohorts import Cohort, MaskSet, read_cohort, write_cohort
from segaudit.config.base import read_toml
from segaudit.config.study import RulerEntry, StudyFile
from segaudit.config.study_lock import RegimeRecord, StudyLock
from segaudit.config.toml_text import toml_text
from segaudit.errors import AuditError, Finding
from segaudit.store import atomic
from segaudit.study.conditions import ruler_regime
from segaudit.study.plans import JOINED, by_people
from segaudit.study.regimes import final_masks
from segaudit.study.steps import AUDITS

AUDIT_FOLDER = "audit"


def collect(home: Path, lock: StudyLock) -> list[Path]:
    """Write the cohorts and plans of both audits, and which patients each network learned from; return the files.

    Raises
    ------
    AuditError
        STUDY_PREDICTIONS_MISSING, and the codes of reading the cohort.
    """
    told = Path(lock.collect["study"])
    cohort = read_cohort(told.parent / read_toml(told, StudyFile).cohort)
    written = [_trained_on(home, lock)]
    for name, made in zip(AUDITS, (_global(home, lock, cohort), _rulers(home, lock, cohort)), strict=True):
        folder = home / AUDIT_FOLDER / name
        draft = folder.with_name(f".{name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        write_cohort(made, draft, within=home)
        run = folder / "run"
        if run.is_dir():
            run.rename(draft / "run")
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
        with atomic(folder / "audit.toml") as temporary:
            temporary.write_text(toml_text(_plan(lock, made)), encoding="utf-8")
        written += [folder / "cohort.toml", folder / "audit.toml"]
    return written


def predictions(home: Path, lock: StudyLock, regime: RegimeRecord) -> MaskSet:
    """Return a regime's predictions of the test cases as a mask set, with the patients that it learned from."""
    folder = final_masks(home, regime.name)
    paths = {case: folder / f"{case}.nii.gz" for case in lock.test}
    lacking = [case for case, path in paths.items() if not path.is_file()]
    if lacking:
        fact = f"{len(lacking)} of {len(paths)} predictions are not there ({listing(lacking)})."
        fix = "finish the study: segaudit study run."
        raise AuditError(Finding("STUDY_PREDICTIONS_MISSING", fact, str(folder), fix))
    masks = pd.DataFrame({"case": list(paths), "path": [str(p.absolute()) for p in paths.values()], "kind": "machine"})
    names = list(lock.labels)
    plain = all(list(values) == [i] for i, values in enumerate(lock.labels.values(), 1))
    return MaskSet(
        regime.name,
        masks,
        "machine",
        made_by(regime, lock.collect["where"][regime.name]),
        frozenset(patients(regime)),
        None if plain else {name: (i,) for i, name in enumerate(names, 1)},
    )


def made_by(regime: RegimeRecord, where: Sequence[str] = ()) -> str:
    """Return who made a regime's predictions: nnU-Net, whose labels it learned from, and of which cases."""
    sources = " and ".join(dict.fromkeys(exam.source for exam in regime.exams))
    only = f", {' and '.join(where)} only" if where else ""
    return f"nnU-Net ({', '.join(regime.configurations)}) trained on labels of {sources}{only}"


def patients(regime: RegimeRecord, fold: str = "") -> set[str]:
    """Return the patients that a fold's network, or any network of the regime, learned from."""
    if not regime.folds or fold == "all":
        return {exam.patient for exam in regime.exams}
    chosen = [regime.folds[int(fold)]] if fold else regime.folds
    seen = {case for one in chosen for case in one.train}
    return {exam.patient for exam in regime.exams if exam.case in seen}


def _trained_on(home: Path, lock: StudyLock) -> Path:
    rows = [
        {"regime": regime.name, "fold": fold, "patient": patient}
        for regime in lock.regimes
        for fold in ([str(i) for i in range(len(regime.folds))] or ["all"])
        for patient in sorted(patients(regime, fold))
    ]
    path = home / "trained_on.csv"
    with atomic(path) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False, lineterminator="\n")
    return path


def _global(home: Path, lock: StudyLock, cohort: Cohort) -> Cohort:
    """Return E1: every test case against the first of the references that has it."""
    names = lock.collect["reference"]
    parts = [cohort.mask_sets[name] for name in names]
    reference = parts[0] if len(parts) == 1 else _first_of(parts)
    models = [predictions(home, lock, one) for one in lock.regimes if one.audited]
    return _of(cohort, lock.test, models, [reference], "global")


def _first_of(parts: Sequence[MaskSet]) -> MaskSet:
    table = pd.concat([part.masks[["case", "path", "kind"]] for part in parts], ignore_index=True)
    made_by = " or ".join(dict.fromkeys(part.made_by or part.name for part in parts))
    first = parts[0]
    return MaskSet(JOINED, table.drop_duplicates("case"), "unknown", made_by, labels=first.labels, ignore=first.ignore)


def _rulers(home: Path, lock: StudyLock, cohort: Cohort) -> Cohort:
    """Return E2: the cases that experts outlined, against the experts and every other ruler."""
    trusted = cohort.mask_sets[lock.collect["trusted"]]
    rulers, makers = [trusted], set()
    for name, entry in lock.collect["rulers"].items():
        if "mask_set" in entry:
            rulers.append(replace(cohort.mask_sets[entry["mask_set"]], name=name))
            continue
        maker = lock.regime(entry.get("made_by") or ruler_regime(RulerEntry.model_validate(entry)))
        makers.add(maker.name)
        rulers.append(replace(predictions(home, lock, maker), name=name))
    audited = [one for one in lock.regimes if one.audited]
    # a model scored against its own outlines says nothing
    models = [predictions(home, lock, one) for one in audited if one.name not in makers]
    return _of(cohort, by_people(trusted, lock.test), models, rulers, "rulers")


def _of(
    cohort: Cohort, cases: Sequence[str], models: Sequence[MaskSet], rulers: Sequence[MaskSet], name: str
) -> Cohort:
    inside = set(cases)
    sets = {
        s.name: replace(s, masks=s.masks[s.masks["case"].isin(inside)].reset_index(drop=True))
        for s in (*models, *rulers)
    }
    return replace(
        cohort,
        name=f"{cohort.name}, {name}",
        cases=cohort.cases[cohort.cases["case"].isin(inside)].reset_index(drop=True),
        mask_sets=sets,
        excluded=cohort.excluded.iloc[:0],
        missing=cohort.missing[cohort.missing["case"].isin(inside)].reset_index(drop=True),
        findings=(),
        models=tuple(s.name for s in models),
        rulers=tuple(s.name for s in rulers),
        images={case: path for case, path in cohort.images.items() if case in inside},
    )


def _plan(lock: StudyLock, cohort: Cohort) -> dict[str, Any]:
    return {
        **_without_nulls(lock.collect["audit"]),
        "cohort": "cohort.toml",
        "output": "run",
        "models": list(cohort.models),
        "rulers": list(cohort.rulers),
        "trusted": cohort.rulers[0],
    }


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
