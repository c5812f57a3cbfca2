"""Confounders: every table of one plan, from scores and a cohort or from a run directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from segaudit.attributes import Declaration, canonical, listing
from segaudit.cohorts import Cohort
from segaudit.confounders.adjustment import adjusted_of
from segaudit.confounders.anatomy import anatomy_of, structures_of
from segaudit.confounders.associations import associations_of
from segaudit.confounders.cells import (
    PROVENANCE,
    VOLUME,
    Ground,
    Rules,
    ScoreTable,
    attribute,
    cells,
    check_covariates,
    lay,
    open_parts,
)
from segaudit.confounders.entanglement import entanglement_of
from segaudit.confounders.schemas import ADJUSTED, ANATOMY, ASSOCIATIONS, ENTANGLEMENT
from segaudit.errors import AuditError, Finding, counted
from segaudit.groupings import Grouping
from segaudit.participants import join_participants, read_participants
from segaudit.provenance import Step, inputs
from segaudit.store import RunDirectory
from segaudit.tables import SCORES, Schema


@dataclass(frozen=True)
class Confounders:
    """What anatomy, scanner and provenance could have to do with a difference between groups.

    Attributes
    ----------
    anatomy : DataFrame
        Sizes of the structures by group.
    entanglement : DataFrame
        Groupings and covariates, two by two.
    associations : DataFrame
        Scores with numbers, and Dice with nDSC, in all and by group.
    adjusted : DataFrame
        Group contrasts without and with adjustment, side by side.
    adjusted_for : tuple of str
    alpha : float
    findings : tuple of Finding
    """

    anatomy: pd.DataFrame
    entanglement: pd.DataFrame
    associations: pd.DataFrame
    adjusted: pd.DataFrame
    adjusted_for: tuple[str, ...] = ()
    alpha: float = 0.05
    findings: tuple[Finding, ...] = ()

    def tables(self) -> list[tuple[Schema, pd.DataFrame]]:
        """Return the tables with their schemas, in the order of the run directory."""
        return [
            (ANATOMY, self.anatomy),
            (ENTANGLEMENT, self.entanglement),
            (ASSOCIATIONS, self.associations),
            (ADJUSTED, self.adjusted),
        ]

    def __str__(self) -> str:
        lines = []
        for schema, table in self.tables()[:3]:
            tests = table[table["p"].notna()]
            below = int((tests["q"] < self.alpha).sum())
            lines.append(f"{schema.name}: {below} of {len(tests)} tests with q below {self.alpha:g}")
        fits = self.adjusted[self.adjusted["status"] == "ok"]
        for method, rows in fits.groupby("method", sort=False):
            before, after = rows["q"] < self.alpha, rows["adjusted_q"] < self.alpha
            lines.append(
                f"adjusted, {method}: of {len(rows)} contrasts {(before & after).sum()} are shown both ways, "
                f"{(before & ~after).sum()} without adjustment only, {(~before & after).sum()} with it only"
            )
        return "\n".join(lines)


def confound(
    scores: ScoreTable,
    cohort: Cohort | pd.DataFrame,
    plan: Rules,
    *,
    adjust: Sequence[str] = (),
    structures: pd.DataFrame | None = None,
) -> Confounders:
    """Return what anatomy, scanner and provenance could have to do with a difference between groups.

    Parameters
    ----------
    scores : Scores
    cohort : Cohort or DataFrame
        Cases with their patients and attributes (case, patient, ...).
    plan : Plan
        Its groupings, smallest group, confidence, seed and what undefined scores count as.
    adjust : sequence of str
        Covariates: attributes of the cases (site, scanner, age); `volume`, that of the structure in the reference,
        which enters as its natural logarithm; `provenance`, the kind of each reference mask. An attribute of that name
        goes before.
    structures : DataFrame, optional
        Sizes as of `measure_structures`, where the scores hold none.

    Returns
    -------
    Confounders

    Raises
    ------
    AuditError
        NO_GROUPING, CASE_DOUBLED, SCORES_NO_MATCH, UNKNOWN_ATTRIBUTE, COVARIATE_TWICE, GROUPING_NOT_NUMERIC,
        GROUPING_NEEDS_CUTS.

    Notes
    -----
    Where a grouping names no levels, its reference group is the group with most patients.
    The patient is the unit: rank tests take the mean over a patient's cases, regressions have HC3 errors, or errors
    clustered by patient where one has several cases. Contrasts with and without adjustment are of the same cases.

    References
    ----------
    mackinnon1985, vanelteren1960, bonett2000, benjamini1995
    """
    cases = cohort.cases if isinstance(cohort, Cohort) else cohort
    kinds = _kinds(cohort) if isinstance(cohort, Cohort) else {}
    return _confounders(scores.table, cases, kinds, plan, adjust, structures)


def _confounders(
    table: pd.DataFrame,
    cases: pd.DataFrame,
    kinds: Mapping[tuple[str, str], str],
    plan: Rules,
    names: Sequence[str],
    structures: pd.DataFrame | None = None,
) -> Confounders:
    if not (plan.groupings or names):
        fix = "name groupings with --by, or covariates with --adjust."
        raise AuditError(Finding("NO_GROUPING", "no grouping and no covariate is named.", "plan", fix))
    ground = lay(cases, plan.groupings, kinds=kinds, scores=table)
    check_covariates(names, ground)
    found = list(cells(table, ground, plan))
    sizes = structures_of(table) if structures is None else structures
    return Confounders(
        anatomy_of(sizes, ground, plan),
        entanglement_of(ground, plan, names),
        associations_of(found, ground, plan, names),
        adjusted_of(found, ground, plan, names),
        tuple(names),
        plan.alpha,
        (*_reference_groups(plan.groupings, ground), *_findings(ground, names)),
    )


def _kinds(cohort: Cohort) -> dict[tuple[str, str], str]:
    return {
        (name, case): kind
        for name, mask_set in cohort.mask_sets.items()
        for case, kind in zip(mask_set.masks["case"], mask_set.masks.get("kind", [mask_set.kind] * len(mask_set.masks)),
                              strict=True)
    }  # fmt: skip


def _reference_groups(asked: Sequence[Grouping], ground: Ground) -> list[Finding]:
    """Return a note for each grouping whose reference group was not declared, and a warning for one of one group."""
    found = []
    for grouping, one in zip(asked, ground.groupings, strict=True):
        where = f"grouping '{grouping.name}'"
        if len(one.levels) < 2:
            groups = counted(len(one.levels), "group")
            fact = f"'{grouping.name}' has {groups} ({listing(one.levels)}): nothing is compared."
            found.append(Finding("GROUP_ALONE", fact, where, "name two groups or more.", "warning"))
        elif open_parts(grouping):
            fact = f"the groups of '{grouping.name}' are set against {one.levels[0]}, which has most patients."
            names = (
                f"--by {grouping.name}={','.join(one.levels[:2])},..." if not grouping.parts else "those of its parts"
            )
            fix = f"name the groups to choose, the reference group first: {names}."
            found.append(Finding("REFERENCE_GROUP", fact, where, fix, "note"))
    return found


def _findings(ground: Ground, names: Sequence[str]) -> list[Finding]:
    found = []
    for name in names:
        if name not in ground.cases.columns:
            continue
        lacking = int(np.count_nonzero(~attribute(ground.cases, name).known))
        if lacking:
            fact = f"{name} is missing or top-coded for {lacking} of {len(ground.cases)} cases."
            fix = "they are left out of both contrasts, with and without adjustment."
            found.append(Finding("COVARIATE_MISSING", fact, f"adjust, {name}", fix, "note"))
    if PROVENANCE in names and PROVENANCE not in ground.cases.columns:
        unknown = sum(kind == "unknown" for kind in ground.kinds.values())
        if unknown:
            fact = f"the kind of {unknown} masks is unknown: they are a stratum of their own."
            found.append(Finding("PROVENANCE_UNKNOWN", fact, "adjust, provenance", "name the kind.", "warning"))
    return found


def confound_run(
    folder: Path,
    plan: Rules,
    *,
    adjust: Sequence[str] = (),
    participants: Path | None = None,
    key: str | None = None,
    out: Path | None = None,
) -> Confounders:
    """Return the confounders of the scores in a run directory, and write their tables there, or to `out`.

    Parameters
    ----------
    folder : Path
        A run directory with scores.
    plan : Plan
    adjust : sequence of str
        As for `confound`.
    participants : Path, optional
        Table of the attributes that the run does not hold.
    key : str, optional
        Its column that names the case, or the patient.
    out : Path, optional
        Another directory, made where it is absent.

    Raises
    ------
    AuditError
        NO_GROUPING, RUN_MISSING, RUN_TABLE_MISSING, RUN_UNWRITABLE, what reading the participants raises, and what
        `confound` raises; then nothing is written.
    """
    run = RunDirectory(folder)
    table, cases = run.read_table(SCORES), run.read_frame("cases")
    notes: tuple[Finding, ...] = ()
    if participants is not None:
        cases, notes = _widened(cases, participants, key, plan, adjust)
    kinds = {}
    if run.has("masks.parquet"):
        masks = run.read_frame("masks")
        kinds = dict(zip(zip(masks["mask_set"], masks["case"], strict=True), masks["kind"], strict=True))
    found = _confounders(table, cases, kinds, plan, adjust)
    target = run if out is None else RunDirectory(out, create=True)
    read = [] if out is None else [folder / f"{SCORES.name}.csv", folder / "cases.csv"]
    read += [] if participants is None else [participants]
    written = [name for schema, rows in found.tables() for name in target.write_table(schema, rows)]
    options = {"adjust": list(adjust), "groupings": [asdict(grouping) for grouping in plan.groupings]}
    target.record(Step("confound", options, inputs(read, target.told), seed=plan.seed), written)
    return replace(found, findings=(*notes, *found.findings))


def _widened(
    cases: pd.DataFrame, path: Path, key: str | None, plan: Rules, adjust: Sequence[str]
) -> tuple[pd.DataFrame, tuple[Finding, ...]]:
    """Return the cases of a run with those attributes of a participants table that are asked for and not there."""
    parts = [part for grouping in plan.groupings for part in grouping.parts or (grouping,)]
    declared = {name: Declaration(of="case") for name in adjust if name not in (VOLUME, PROVENANCE)}
    for part in parts:
        number = part.cuts and canonical(part.attribute) != "age"
        declared[part.attribute] = Declaration(kind="number" if number else None, of="case")
    wanted = {name: one for name, one in declared.items() if name not in cases.columns}
    if not wanted:
        return cases, ()
    people = read_participants(path, key=key, attributes=wanted)
    patients = dict(zip(cases["case"].tolist(), cases["patient"].tolist(), strict=True))
    joined = join_participants(people, list(patients), patients)
    # strata need no meaning, and a table of more people than were scored is the usual one
    told = tuple(f for f in joined.findings if f.level != "note" and f.code != "LEVEL_CODES_UNEXPLAINED")
    return cases.merge(joined.cases.drop(columns="patient"), on="case", validate="1:1"), told
