"""Audit: the tables of one plan over one score table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pandas as pd
from pandas.api.types import is_float_dtype

from segaudit.audits.cells import cells, divide
from segaudit.audits.compare import disparity_rows, sweep_rows, test_rows
from segaudit.audits.describe import coverage_rows, group_rows
from segaudit.audits.families import adjusted, family_rows, permuted, with_permuted
from segaudit.audits.plan import Plan
from segaudit.audits.regress import design, regression_rows
from segaudit.audits.sensitivity import sensitivity
from segaudit.cohorts import Cohort
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.groupings import MANY_VALUES, assign, cuts_needed
from segaudit.scores import Scores
from segaudit.tables import (
    COVERAGE,
    DISPARITIES,
    FAMILIES,
    GROUPS,
    REGRESSION,
    SENSITIVITY,
    SWEEPS,
    TESTS,
    Schema,
    as_html,
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Audit:
    """What the scores say of each group, and between groups, under every ruler.

    Attributes
    ----------
    plan : Plan
        Resolved.
    scores : Scores
    cases : DataFrame
        case, patient and the attributes, sorted by case.
    groups, disparities, tests, sweeps, regression, coverage, families, sensitivity : DataFrame
        Every cell of the plan has its row; the columns stand in `segaudit.tables`.
    findings : tuple of Finding
    cohort : Cohort or None
    """

    plan: Plan
    scores: Scores
    cases: pd.DataFrame
    groups: pd.DataFrame
    disparities: pd.DataFrame
    tests: pd.DataFrame
    sweeps: pd.DataFrame
    regression: pd.DataFrame
    coverage: pd.DataFrame
    families: pd.DataFrame
    sensitivity: pd.DataFrame
    findings: tuple[Finding, ...] = ()
    cohort: Cohort | None = field(default=None, repr=False)

    def tables(self) -> list[tuple[Schema, pd.DataFrame]]:
        """Return the result tables with their schemas, in the order of the run directory."""
        return [
            (GROUPS, self.groups),
            (DISPARITIES, self.disparities),
            (TESTS, self.tests),
            (SWEEPS, self.sweeps),
            (REGRESSION, self.regression),
            (COVERAGE, self.coverage),
            (FAMILIES, self.families),
            (SENSITIVITY, self.sensitivity),
        ]

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        patients = counted(self.cases["patient"].nunique(), "patient")
        lines = [f"{counted(len(self.cases), 'case')}, {patients}, plan {self.plan.digest()[:12]}"]
        lines += [
            f"  {row.model} against {row.ruler}, family {row.family}: {row.n_rejected} of {row.n_planned} tests "
            f"below {row.alpha:g} ({row.method})" + (f": {row.rejected_attributes}" if row.n_rejected else "")
            for row in self.families[self.families["method"] == self.plan.method].itertuples()
        ]
        if not self.plan.groupings:
            lines.append("  no grouping was audited: nothing is said about disparities")
        return "\n".join(lines)


def audit(
    scores: Scores,
    cohort: Cohort | pd.DataFrame | None = None,
    plan: Plan | None = None,
    *,
    progress: Progress | None = None,
) -> Audit:
    """Return the audit of scores by a plan.

    Parameters
    ----------
    scores : Scores
    cohort : Cohort or DataFrame, optional
        Cases with their patients and attributes (case, patient, ...); the scores' own cases, without attributes, when
        there is none.
    plan : Plan, optional
        The default plan has no grouping: then only all cases together are described.
    progress : callable, optional
        Called with (cells done, cells in all).

    Returns
    -------
    Audit

    Raises
    ------
    AuditError
        UNKNOWN_ATTRIBUTE, GROUPING_NOT_NUMERIC, CASE_DOUBLED, SCORES_NO_MATCH when no score belongs to a case of the
        cohort, CASE_TWO_PATIENTS when scores and cohort disagree on a patient.
    """
    cases = _cases(scores, cohort)
    resolved = (plan or Plan()).resolved(cases)
    divisions = divide(resolved, cases)
    matrix = design(cases, resolved.regression) if resolved.regression else None
    rows: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("groups", "disparities", "tests", "sweeps", "ols")
    }
    found = list(cells(scores, cases, resolved))
    for i, cell in enumerate(found, 1):
        rows["groups"] += group_rows(cell, divisions, resolved)
        for division in divisions:
            rows["tests"] += test_rows(cell, division, resolved)
            rows["disparities"] += disparity_rows(cell, division, resolved)
            rows["sweeps"] += sweep_rows(cell, division, resolved)
        if matrix is not None:
            rows["ols"] += regression_rows(cell, *matrix, resolved)
        if progress is not None:
            progress(i, len(found))
    tests = adjusted(TESTS.frame(rows["tests"]), resolved)
    together = permuted(tests, found, divisions, resolved)
    tests = with_permuted(tests, together)
    result = Audit(
        resolved,
        scores,
        cases,
        GROUPS.frame(rows["groups"]),
        DISPARITIES.frame(rows["disparities"]),
        tests,
        SWEEPS.frame(rows["sweeps"]),
        REGRESSION.frame(rows["ols"]),
        COVERAGE.frame(coverage_rows(divisions, cases, resolved)),
        FAMILIES.frame(family_rows(tests, resolved, together)),
        SENSITIVITY.frame([]),
        tuple(_findings(scores, cohort, cases, resolved)),
        cohort if isinstance(cohort, Cohort) else None,
    )
    return replace(result, sensitivity=sensitivity(result))


def _cases(scores: Scores, cohort: Cohort | pd.DataFrame | None) -> pd.DataFrame:
    """Return the cases of the audit: the cohort's, sorted by case."""
    if cohort is None:
        return scores.patients()
    cases = cohort.cases if isinstance(cohort, Cohort) else cohort
    cases = cases.sort_values("case", ignore_index=True)
    own = scores.patients()
    raise_errors(_case_faults(own, cases))
    if not cases["case"].isin(own["case"]).any():
        scored, listed = own["case"].iloc[0], cases["case"].iloc[0]
        fact = f"no scored case (such as '{scored}') is a case of the participants (such as '{listed}')."
        raise AuditError(
            Finding("SCORES_NO_MATCH", fact, "scores, participants", "name the column that holds the cases: --key.")
        )
    return cases


def _case_faults(own: pd.DataFrame, cases: pd.DataFrame) -> Iterator[Finding]:
    doubled = cases["case"][cases["case"].duplicated()].unique()
    if len(doubled):
        fact = f"{counted(len(doubled), 'case occurs', 'cases occur')} twice, such as '{doubled[0]}'."
        yield Finding("CASE_DOUBLED", fact, "participants", "keep one row a case.")
        return
    if (own["case"] == own["patient"]).all():  # the scores name no patient
        return
    both = own.merge(cases[["case", "patient"]], on="case", suffixes=("", "_of_cohort"))
    apart = both[both["patient"] != both["patient_of_cohort"].astype(str)]
    if len(apart):
        case, scored, listed = apart.iloc[0][["case", "patient", "patient_of_cohort"]]
        torn = counted(len(apart), "case has", "cases have")
        fact = f"{torn} two patients, such as '{case}': '{scored}' and '{listed}'."
        yield Finding("CASE_TWO_PATIENTS", fact, "scores, participants", "mend the one that is wrong.")


def _findings(scores: Scores, cohort: Cohort | pd.DataFrame | None, cases: pd.DataFrame, plan: Plan) -> list[Finding]:
    findings = [*scores.findings, *(cohort.findings if isinstance(cohort, Cohort) else ())]
    lost = sorted(set(scores.table["case"].unique()) - set(cases["case"].unique()))
    if lost:
        strange = counted(len(lost), "scored case is no case", "scored cases are no cases")
        fact = f"{strange} of the participants and left out, such as '{lost[0]}'."
        findings.append(
            Finding("SCORES_UNJOINED", fact, "scores", "check the key, or add them to the participants.", "warning")
        )
    planned = scores.table[["case", "model", "ruler", "status"]].drop_duplicates()
    for model, rows in planned.groupby("model", sort=False):
        missing = rows.loc[rows["status"] == "prediction_missing", "case"].nunique()
        if missing:
            told = "count as failures" if plan.prediction_missing == "failure" else "are left out"
            fact = f"{missing} of {rows['case'].nunique()} predictions of '{model}' are missing; they {told}."
            findings.append(
                Finding("PREDICTIONS_MISSING", fact, f"model '{model}'", "add them, or exclude the cases.", "warning")
            )
    for grouping in plan.groupings:
        where = f"grouping '{grouping.name}'"
        findings += [
            cuts_needed(part.attribute, cases, where, "warning")
            for part in grouping.parts or (grouping,)
            if not part.cuts and len(part.levels) > MANY_VALUES and is_float_dtype(cases[part.attribute])
        ]
        if grouping.parts:
            continue
        group, reason = assign(grouping, cases)
        present = set(group.unique())
        empty = [level for level in grouping.levels if level not in present]
        if empty:
            fact = f"no case is in {', '.join(empty)}."
            findings.append(Finding("GROUP_EMPTY", fact, where, "check how the level is written.", "warning"))
        outside = reason[reason != ""].value_counts()
        if len(outside):
            why = "; ".join(f"{n}: {text}" for text, n in outside.head(4).items())
            fact = f"{int(outside.sum())} of {len(cases)} cases are in no group ({why})."
            findings.append(Finding("GROUP_UNASSIGNED", fact, where, "", "warning"))
    if not plan.groupings:
        fact = "no grouping was audited: nothing is said about disparities."
        findings.append(Finding("NO_GROUPING", fact, "plan", "name groupings with --by, or in audit.toml.", "note"))
    return list(dict.fromkeys(findings))
