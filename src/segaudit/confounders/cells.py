"""What the confounders are looked for in: groups and covariates laid over the cases, and the scores of each cell."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.attributes import listing
from segaudit.errors import AuditError, Finding, counted, did_you_mean, raise_errors
from segaudit.groupings import MANY_VALUES, Grouping, assign, attribute_names, crossing, cuts_needed, resolve
from segaudit.metrics import METRICS, Metric

Floats = NDArray[np.float64]
KEY = ["model", "ruler", "label", "metric"]
VOLUME, PROVENANCE = "volume", "provenance"
MACRO = "macro"
VOLUME_METRIC = "volume_reference_mm3"
_INFINITE = ("prediction_empty", "reference_empty")
_ABSENT = ("reference_missing", "not_scored")


class Rules(Protocol):
    """What is fixed before a score is seen; `segaudit.Plan` is one."""

    @property
    def groupings(self) -> Sequence[Grouping]:
        """How the cases are divided into groups."""

    @property
    def alpha(self) -> float:
        """Level of the tests."""

    @property
    def level(self) -> float:
        """Confidence of the intervals."""

    @property
    def min_patients(self) -> int:
        """Groups with fewer patients are not tested."""

    @property
    def both_empty(self) -> str:
        """What a case counts as when both masks are empty: exclude, best or worst."""

    @property
    def prediction_missing(self) -> str:
        """Whether a missing prediction is a failure, or to exclude."""

    @property
    def seed(self) -> int:
        """Seed of what is drawn."""


class ScoreTable(Protocol):
    """Anything with a score table; `segaudit.Scores` is one."""

    @property
    def table(self) -> pd.DataFrame:
        """The table in the columns of `segaudit.tables.SCORES`."""


@dataclass(frozen=True)
class Cell:
    """The scores of one model, ruler, label and metric.

    Attributes
    ----------
    model, ruler, label, metric : str
    values : array (cases of the cohort)
        NaN where a case has no score that counts; infinite where a mask is empty.
    """

    model: str
    ruler: str
    label: str
    metric: str
    values: Floats

    def named(self) -> dict[str, str]:
        """Return the key by column name."""
        return {"model": self.model, "ruler": self.ruler, "label": self.label, "metric": self.metric}


@dataclass(frozen=True)
class Covariate:
    """A covariate over the cases of a cell.

    Attributes
    ----------
    name : str
    numbers : array or None
        NaN where missing; the volume is there as its natural logarithm.
    levels : array of str or None, or None
        None where missing.
    """

    name: str
    numbers: Floats | None = None
    levels: NDArray[np.object_] | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which cases have a value."""
        if self.numbers is not None:
            return np.isfinite(self.numbers)
        return self.codes >= 0

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """The code of each case's level, in sorted order; -1 where missing, or for numbers."""
        if self.levels is None:
            return np.full(0, -1, dtype=np.intp)
        return np.asarray(pd.factorize(self.levels, sort=True)[0], dtype=np.intp)


@dataclass(frozen=True)
class Ground:
    """The cases of a cohort, sorted, with their groups.

    Attributes
    ----------
    cases : DataFrame
    groupings : tuple of Grouping
        Resolved.
    groups : mapping of grouping to array of str
        Empty where a case has no group.
    patients : integer array
    kinds : mapping of (ruler, case) to str
        Provenance of each reference, where it is known.
    volumes : mapping of (ruler, label) to array
        Volume of the reference in mm3; NaN where it is not known.
    """

    cases: pd.DataFrame
    groupings: tuple[Grouping, ...]
    groups: Mapping[str, NDArray[np.object_]]
    patients: NDArray[np.intp]
    kinds: Mapping[tuple[str, str], str]
    volumes: Mapping[tuple[str, str], Floats]

    def covariate(self, name: str, cell: Cell) -> Covariate:
        """Return a covariate of the cases: an attribute, or the volume or the provenance of the cell's reference."""
        if name in self.cases.columns:
            return attribute(self.cases, name)
        if name == VOLUME:
            volume: Floats = self.volumes.get((cell.ruler, cell.label), np.full(len(self.cases), np.nan))
            logarithm: Floats = np.full(volume.shape, np.nan)
            np.log(volume, out=logarithm, where=volume > 0)
            return Covariate(name, numbers=logarithm)
        kinds = [self.kinds.get((cell.ruler, case)) for case in self.cases["case"]]
        return Covariate(name, levels=np.array(kinds, dtype=object))


def attribute(cases: pd.DataFrame, name: str) -> Covariate:
    """Return an attribute of the cases; a top-coded age is missing, since only a lower bound is known.

    A text of many values that are all numbers is a number: as levels it would leave nothing to compare.
    """
    column = cases[name]
    if not pd.api.types.is_numeric_dtype(column):
        numeric = pd.to_numeric(column, errors="coerce")
        if (numeric.notna() == column.notna()).all() and numeric.nunique() > MANY_VALUES:
            column = numeric
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        top = cases.get(f"{name}_top_coded", pd.Series(data=False, index=cases.index)).fillna(value=False).astype(bool)
        numbers: Floats = np.asarray(column.astype("float64").mask(top), dtype=np.float64)
        return Covariate(name, numbers=numbers)
    levels = np.array([None if pd.isna(value) else str(value) for value in column], dtype=object)
    return Covariate(name, levels=levels)


def lay(
    cases: pd.DataFrame,
    groupings: Sequence[Grouping],
    *,
    kinds: Mapping[tuple[str, str], str] | None = None,
    scores: pd.DataFrame | None = None,
) -> Ground:
    """Return the cases with their groups, and the volumes that a score table has.

    Raises
    ------
    AuditError
        CASE_DOUBLED, SCORES_NO_MATCH, GROUPING_NEEDS_CUTS and the codes of `segaudit.groupings.resolve`.
    """
    cases = cases.sort_values("case", ignore_index=True)
    doubled = cases["case"][cases["case"].duplicated()]
    if len(doubled):
        fact = f"{counted(len(doubled), 'case occurs', 'cases occur')} twice, such as '{doubled.iloc[0]}'."
        raise AuditError(Finding("CASE_DOUBLED", fact, "cases", "keep one row a case."))
    if scores is not None and not scores["case"].isin(cases["case"]).any():
        shown = listing(scores["case"].unique(), 1) or "there is none"
        fact = f"no scored case ({shown}) is a case of the cohort ({listing(cases['case'], 1)})."
        raise AuditError(Finding("SCORES_NO_MATCH", fact, "scores, cases", "check the column of the cases."))
    resolved = _resolved(groupings, cases)
    groups = {grouping.name: assign(grouping, cases)[0].to_numpy(dtype=object) for grouping in resolved}
    patients = pd.factorize(cases["patient"])[0].astype(np.intp)
    volumes = {} if scores is None else _volumes(scores, cases)
    return Ground(cases, tuple(resolved), groups, patients, kinds or {}, volumes)


def _resolved(groupings: Sequence[Grouping], cases: pd.DataFrame) -> list[Grouping]:
    """Return the groupings with their levels: declared ones as they are, else the group with most patients first."""
    faults: list[Finding] = []
    found = []
    for grouping in groupings:
        try:
            one = resolve(grouping, cases)
        except AuditError as error:
            faults += error.findings
            continue
        where = f"grouping '{grouping.name}'"
        faults += [cuts_needed(p.attribute, cases, where) for p in open_parts(grouping) if _is_scale(p, cases)]
        found.append(_led(grouping, one, cases))
    raise_errors(faults)
    return found


def open_parts(grouping: Grouping) -> list[Grouping]:
    """Return the parts of a grouping that name no levels: theirs are those that occur."""
    return [part for part in grouping.parts or (grouping,) if not part.levels]


def _is_scale(part: Grouping, cases: pd.DataFrame) -> bool:
    column = cases[part.attribute]
    return pd.api.types.is_float_dtype(column) and column.nunique() > MANY_VALUES


def _led(asked: Grouping, resolved: Grouping, cases: pd.DataFrame) -> Grouping:
    """Return a grouping whose first level, the reference group, is the one with most patients, where none is declared.

    Who is set against whom must not hang on the alphabet, nor on a score.
    """
    if asked.parts:
        pairs = zip(asked.parts, resolved.parts, strict=True)
        return replace(crossing(*(_led(part, one, cases) for part, one in pairs)), name=asked.name)
    if asked.levels:
        return resolved
    held = cases["patient"].groupby(assign(resolved, cases)[0]).nunique()
    return replace(resolved, levels=tuple(sorted(resolved.levels, key=lambda level: (-int(held.get(level, 0)), level))))


def _volumes(table: pd.DataFrame, cases: pd.DataFrame) -> dict[tuple[str, str], Floats]:
    """Return the volume of each structure and, as macro, of all structures of a case together."""
    rows = table[table["metric"] == VOLUME_METRIC].drop_duplicates(["ruler", "label", "case"])
    found = {
        (str(key[0]), str(key[1])): part.set_index("case")["value"].reindex(cases["case"]).to_numpy(dtype=np.float64)
        for key, part in rows.groupby(["ruler", "label"], sort=False)
    }
    for ruler in rows["ruler"].unique():
        own = [values for (name, _), values in found.items() if name == ruler]
        found[str(ruler), MACRO] = np.sum(own, axis=0)
    return found


def check_covariates(names: Sequence[str], ground: Ground) -> None:
    """Refuse covariates that there are not.

    Raises
    ------
    AuditError
        UNKNOWN_ATTRIBUTE, COVARIATE_TWICE.
    """
    offered = {VOLUME: bool(ground.volumes), PROVENANCE: bool(ground.kinds)}
    known = attribute_names(ground.cases.columns)
    known += [name for name, there in offered.items() if there and name not in known]
    faults = []
    for name in dict.fromkeys(names):
        if name not in known:
            near = did_you_mean(name, known)
            fact = f"there is no covariate '{name}'" + (": the scores hold no volume." if name == VOLUME else ".")
            fix = near if name in offered else f"{near} A table of others is named with --participants."
            faults.append(Finding("UNKNOWN_ATTRIBUTE", fact, "adjust", fix))
        if list(names).count(name) > 1:
            faults.append(Finding("COVARIATE_TWICE", f"'{name}' is named twice.", "adjust", "name it once."))
    raise_errors(faults)


def cells(table: pd.DataFrame, ground: Ground, rules: Rules) -> Iterator[Cell]:
    """Yield the cells of a score table in its order; descriptive quantities are left out."""
    at = pd.Series(np.arange(len(ground.cases)), index=ground.cases["case"])
    scored = table["metric"].map({card.name: card.better != "neither" for card in METRICS}).astype(bool)
    kept = table[scored & table["case"].isin(at.index)]
    for (model, ruler, label, metric), rows in kept.groupby(KEY, sort=False):
        values = np.full(len(at), np.nan)
        counted = _counted(rows, METRICS[str(metric)], rules)
        values[at.reindex(rows["case"]).to_numpy()] = counted
        yield Cell(str(model), str(ruler), str(label), str(metric), values)


def _counted(rows: pd.DataFrame, card: Metric, rules: Rules) -> Floats:
    """Return the scores as the rules count them: infinite and missing ones as the worst, undefined ones as NaN."""
    values, status = rows["value"].to_numpy(dtype=np.float64).copy(), rows["status"].to_numpy(dtype=object)
    values[np.isin(status, _INFINITE) & np.isnan(values)] = card.worst
    values[status == "both_empty"] = {"exclude": np.nan, "best": card.best, "worst": card.worst}[rules.both_empty]
    values[status == "prediction_missing"] = card.worst if rules.prediction_missing == "failure" else np.nan
    values[np.isin(status, _ABSENT)] = np.nan
    return values


def patient_means(values: Floats, patients: NDArray[np.intp]) -> Floats:
    """Return one value a patient, the mean over its cases, in the order of the patients' codes."""
    _, unit = np.unique(patients, return_inverse=True)
    return np.bincount(unit, weights=values) / np.bincount(unit)


def generator(rules: Rules, *names: str) -> np.random.Generator:
    """Return the generator of one test: it depends on the seed and the names alone."""
    return np.random.default_rng([rules.seed, *(zlib.crc32(name.encode()) for name in names)])
