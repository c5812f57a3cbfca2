"""Split a cohort: assign, balance, derive label regimes and folds, and write each whole or not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit import splits
from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.groupings import Grouping
from segaudit.groupings import assign as groups_of
from segaudit.preparations.people import (
    Source,
    column_of,
    declarations,
    differing,
    fitted,
    level_table,
    parse_options,
    read_cases,
)
from segaudit.provenance import Step, inputs
from segaudit.splits import Folds, Split
from segaudit.splits.balances import Unit
from segaudit.splits.schemas import DROPPED, SPLITS
from segaudit.store import RunDirectory

DEVELOPMENT = ("train", "val")
_REGIME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Request:
    """What a split is to be.

    Attributes
    ----------
    ratios : mapping of str to float
        Share of the patients of each part.
    seed : int
    stratify, keep : sequence of str
        Short forms of groupings; the most important stratum first.
    balance : str, optional
        Short form of the grouping whose levels are made equally many in each part.
    unit : {"patient", "case"}
        What is counted and dropped to balance.
    folds : int, optional
    fold_parts : sequence of str
        Parts that the folds are made of.
    regimes : mapping of str to sequence of str
        Name of a label regime to the provenances that it allows.
    provenance : str
        Attribute that says where the label of a case comes from.
    """

    ratios: Mapping[str, float]
    seed: int
    stratify: Sequence[str] = ()
    balance: str | None = None
    unit: Unit = "patient"
    keep: Sequence[str] = ()
    folds: int | None = None
    fold_parts: Sequence[str] = DEVELOPMENT
    regimes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    provenance: str = "provenance"


@dataclass(frozen=True)
class Part:
    """A split with its folds: the whole one, without a name, or that of a label regime."""

    name: str
    split: Split
    folds: Folds | None


@dataclass(frozen=True)
class Prepared:
    """Everything that a split command made, before anything is written."""

    parts: tuple[Part, ...]
    strata: tuple[Grouping, ...]
    findings: tuple[Finding, ...]
    request: Request
    source: Source

    @property
    def whole(self) -> Split:
        """The split that everything else is derived from."""
        return self.parts[0].split


def split_cases(source: Source, request: Request) -> Prepared:
    """Return the split, its balance, its regimes and their folds; nothing is written.

    Raises
    ------
    AuditError
        FOLD_PART_UNKNOWN, KEEP_WITHOUT_BALANCE, REGIME_NAME, and the codes of reading, groupings and splits.
    """
    raise_errors(_request_faults(request))
    asked = {"--stratify": request.stratify, "--keep": request.keep}
    named = parse_options(asked | {"--balance": [request.balance] if request.balance else []})
    extra = [request.provenance] if request.regimes else []
    cohort = read_cases(source, declarations([g for some in named.values() for g in some], extra))
    cases = cohort.cases
    raise_errors(fault for name in extra if (fault := column_of(name, cases, "--provenance")))
    groupings = fitted(named, cases)
    strata = level_table(groupings["--stratify"], cases)
    whole = splits.assign(cases, request.ratios, strata, seed=request.seed)
    whole = replace(whole, dropped=_excluded(cohort.excluded))
    even = _Evening(request, cases, groupings["--balance"], level_table(groupings["--keep"], cases))
    whole = even.balanced(whole)
    made = {"": whole} | {name: even.balanced(one) for name, one in _regimes(whole, cases, request).items()}
    parts = tuple(Part(name, one, _folds(name, one, request)) for name, one in made.items())
    found = (*cohort.findings, *differing(strata, cases))
    return Prepared(parts, tuple(groupings["--stratify"]), found, request, source)


def _request_faults(request: Request) -> list[Finding]:
    faults = []
    if request.keep and request.balance is None:
        fact = f"the shares of {', '.join(request.keep)} are to be kept, but nothing is balanced."
        faults.append(Finding("KEEP_WITHOUT_BALANCE", fact, "--keep", "give --balance too."))
    faults += [
        Finding("REGIME_NAME", f"'{name}' cannot name a folder.", "--regime", "use letters, digits, - and _.")
        for name in request.regimes
        if not _REGIME_NAME.fullmatch(name)
    ]
    absent = [name for name in request.fold_parts if name not in request.ratios]
    if request.folds is not None and (absent or not request.fold_parts):
        fact = f"the folds are to be made of {', '.join(absent) or 'nothing'}, and the parts are "
        fact += f"{', '.join(request.ratios)}."
        faults.append(Finding("FOLD_PART_UNKNOWN", fact, "--fold-parts", "name the parts to train on, such as train."))
    return faults


def _excluded(excluded: pd.DataFrame) -> pd.DataFrame:
    """Return the cases that the cohort itself leaves out; they were in no part, and their patient is not asked for."""
    return DROPPED.frame(excluded[["case", "rule", "reason"]].assign(patient="", split=""))


@dataclass(frozen=True)
class _Evening:
    """How each split is balanced; without a grouping it stays as it is."""

    request: Request
    cases: pd.DataFrame
    groupings: Sequence[Grouping]
    keep: pd.DataFrame | None

    def balanced(self, split: Split) -> Split:
        for grouping in self.groupings:
            group, reason = groups_of(grouping, self.cases)
            table = self.cases[["case", "patient"]].assign(**{grouping.name: group.where(group != "", None)})
            unit, seed = self.request.unit, self.request.seed
            regime = split.manifest.get("regime")
            try:
                made = splits.balance(split, table, grouping.name, unit=unit, keep=self.keep, seed=seed)
            except AuditError as error:
                where = f"--balance {grouping.name}" + (f", regime '{regime['name']}'" if regime else "")
                raise AuditError(replace(finding, where=where) for finding in error.findings) from None
            split = replace(made, dropped=_with_reasons(made.dropped, grouping.name, self.cases["case"], reason))
        return split


def _with_reasons(dropped: pd.DataFrame, name: str, case: pd.Series, reason: pd.Series) -> pd.DataFrame:
    """Return the dropped cases, those in no group with the grouping's own reason: missing, or a value it leaves out."""
    own = {one: why for one, why in zip(case.tolist(), reason.tolist(), strict=True) if why}
    unknown = (dropped["reason"] == f"{name} is missing") & dropped["case"].isin(list(own))
    return dropped.assign(reason=dropped["reason"].where(~unknown, dropped["case"].map(own)))


def _regimes(whole: Split, cases: pd.DataFrame, request: Request) -> dict[str, Split]:
    """Return the split of each regime, with the cases that it does not allow among the dropped."""
    if not request.regimes:
        return {}
    found = {}
    own = dict(zip(cases["case"].tolist(), cases[request.provenance].tolist(), strict=True))
    for name, one in splits.regimes(whole, cases, request.provenance, request.regimes).items():
        gone = whole.splits[~whole.splits["case"].isin(one.splits["case"])].drop(columns="stratum")
        why = [f"{request.provenance} is {'missing' if pd.isna(v := own[c]) else repr(v)}" for c in gone["case"]]
        out = gone.assign(rule=f"regime {name}", reason=why)
        found[name] = replace(one, dropped=DROPPED.frame(pd.concat([whole.dropped, out])))
    return found


def _folds(name: str, split: Split, request: Request) -> Folds | None:
    if request.folds is None:
        return None
    pool = split.splits[split.splits["split"].isin(request.fold_parts)]
    strata = split.strata if len(split.strata.columns) > 1 else None
    try:
        return splits.folds(pool[["case", "patient"]], request.folds, strata, seed=request.seed)
    except AuditError as error:
        where = f"--folds {request.folds}" + (f", regime '{name}'" if name else "")
        raise AuditError(replace(finding, where=where) for finding in error.findings) from None


def write_split(made: Prepared, out: Path) -> list[str]:
    """Write splits.csv, dropped.csv, balance.csv, manifest.json and the folds, and those of a regime in its folder.

    Returns
    -------
    list of str
        The files written, relative to `out`.

    Raises
    ------
    AuditError
        RUN_UNWRITABLE, DISK_FULL, FILE_UNWRITABLE.
    """
    run = RunDirectory(out, create=True)
    read = inputs(made.source.files(), run.told)
    about = {
        "strata": [_described(grouping) for grouping in made.strata],
        "fold_parts": list(made.request.fold_parts),
        "inputs": [{"path": one.path, "sha256": one.sha256, "size": one.size} for one in read],
    }
    written = []
    for part in made.parts:
        folder = RunDirectory(out / part.name, create=True)
        prefix = f"{part.name}/" if part.name else ""
        written += [f"{prefix}{name}" for name in _write_part(folder, part, about)]
    request = made.request
    options = {
        "ratios": dict(request.ratios),
        "stratify": list(request.stratify),
        "balance": request.balance,
        "balance_unit": request.unit,
        "keep": list(request.keep),
        "folds": request.folds,
        "fold_parts": list(request.fold_parts),
        "regimes": {name: list(values) for name, values in request.regimes.items()},
        "provenance": request.provenance,
    }
    run.record(Step("split", options, read, seed=request.seed), written)
    return [*written, "steps.json"]


def _write_part(folder: RunDirectory, part: Part, about: Mapping[str, Any]) -> list[str]:
    split, folds = part.split, part.folds
    own = {**split.manifest, "dropped": dict(sorted(Counter(split.dropped["rule"].tolist()).items()))}
    tables = {
        "splits.csv": SPLITS.frame(split.splits.sort_values("case")),
        "dropped.csv": split.dropped.sort_values(["case", "rule"]),
        "balance.csv": split.balance,
    }
    if folds is not None:
        tables |= {"folds.csv": folds.table, "folds_balance.csv": folds.balance}
        own["folds"] = {**folds.manifest, "made_of": list(about["fold_parts"])}
    for name, table in tables.items():
        folder.write_bytes(name, table.to_csv(index=False, lineterminator="\n").encode())
    if folds is not None:
        splits.write_nnunet_splits(folds, folder.path / "splits_final.json")
    own |= {"strata": about["strata"], "inputs": about["inputs"]}
    folder.write_json("manifest.json", own)
    return [*tables, *(["splits_final.json"] if folds is not None else []), "manifest.json"]


def _described(grouping: Grouping) -> dict[str, Any]:
    found: dict[str, Any] = {"name": grouping.name, "attributes": list(grouping.attributes)}
    return found | {"levels": list(grouping.levels), "cuts": list(grouping.cuts)}
