"""A run, step by step, in its directory: cohort, scores, audit and rulers written and read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.audits import Audit, Plan
from segaudit.cohorts import Attribute, Cohort, MaskSet
from segaudit.config.base import check
from segaudit.config.documents import AuditDocument, CohortDocument, FindingRecord
from segaudit.errors import Finding
from segaudit.groupings import Grouping
from segaudit.provenance import Step, inputs
from segaudit.rulers import ModelComparison, RulerComparison, compare_models
from segaudit.scores import Scores
from segaudit.store import RunDirectory
from segaudit.tables import (
    COVERAGE,
    DISPARITIES,
    EXCLUDED,
    FAMILIES,
    FINDINGS,
    GROUPS,
    INDEPENDENCE,
    MODELS,
    REGRESSION,
    RULERS,
    SCORES,
    SENSITIVITY,
    SWEEPS,
    TESTS,
)
from segaudit.volumes import DEFAULT_MAX_BYTES

COHORT = "cohort.json"
AUDIT = "audit.json"
_MASK_COLUMNS = ["mask_set", "case", "path", "kind"]


def write_scores(
    run: RunDirectory, scores: Scores, cohort: Cohort, options: Mapping[str, Any], files: Iterable[Path]
) -> None:
    """Write a cohort and its scores, and record the step `score` with every file that it read."""
    findings = [*cohort.findings, *scores.findings]
    # first, for a file that has gone stops here, before anything is written
    read = inputs({*files, *scores.inputs}, run.told, scores.digests)
    with run.writing(Step("score", dict(options), read)) as stage:
        stage.write_json(COHORT, _cohort_document(cohort, findings))
        stage.write_frame("cases", cohort.cases)
        stage.write_frame("missing", cohort.missing)
        stage.write_frame("masks", _masks(cohort, run))
        stage.write_table(EXCLUDED, cohort.excluded)
        stage.write_table(SCORES, scores.table)
        stage.write_frame("loads", scores.loads)
        write_findings(stage, findings)


def image_limit(run: RunDirectory) -> int:
    """Return how many bytes an image of this run may take: as it was scored with, else the default."""
    options = [step.options.get("max_image_bytes") for step in run.steps()]
    return max((most for most in options if isinstance(most, int)), default=DEFAULT_MAX_BYTES)


def read_cohort_of(run: RunDirectory) -> Cohort:
    """Return the cohort of a run directory."""
    document = check(run.read_json(COHORT), CohortDocument, str(run.path / COHORT))
    masks = run.read_frame("masks")
    masks["path"] = masks["path"].map(lambda told: str(run.found(told))).astype("str")
    sets = {
        record.name: MaskSet(
            record.name,
            masks.loc[masks["mask_set"] == record.name, ["case", "path", "kind"]].reset_index(drop=True),
            record.kind,
            record.made_by,
            None if record.trained_on is None else frozenset(record.trained_on),
            None if record.labels is None else {k: tuple(v) for k, v in record.labels.items()},
            record.ignore,
        )
        for record in document.mask_sets
    }
    return Cohort(
        document.name,
        run.read_frame("cases"),
        {name: tuple(values) for name, values in document.labels.items()},
        sets,
        {a.name: Attribute(a.name, a.kind, a.of, a.column) for a in document.attributes},
        run.read_table(EXCLUDED),
        run.read_frame("missing"),
        tuple(_finding(record) for record in document.findings),
        tuple(document.models),
        tuple(document.rulers),
        document.images,
    )


def read_scores_of(run: RunDirectory) -> Scores:
    """Return the scores of a run directory."""
    return Scores(run.read_table(SCORES), run.read_frame("loads"))


def write_audit(
    run: RunDirectory,
    audit: Audit,
    comparisons: Sequence[RulerComparison],
    options: Mapping[str, Any],
    files: Iterable[Path],
) -> None:
    """Write the result tables and audit.json, and record the step `audit` (with the rulers compared, if any)."""
    seen = [run.path / f"{name}.csv" for name in ("scores", "cases") if run.has(f"{name}.csv")]
    step = Step("audit", dict(options), inputs({*files, *seen}, run.told), seed=audit.plan.seed)
    with run.writing(step) as stage:
        for schema, table in audit.tables():
            stage.write_table(schema, table)
        if comparisons:
            stage.write_table(RULERS, pd.concat([c.table for c in comparisons], ignore_index=True))
            stage.write_table(INDEPENDENCE, pd.concat([c.independence for c in comparisons], ignore_index=True))
        write_findings(stage, _all_findings(audit, comparisons))
        stage.write_json(AUDIT, audit_document(audit, comparisons))


def read_audit(run: RunDirectory) -> tuple[Audit, list[RulerComparison]]:
    """Return the audit of a run directory and the rulers compared in it."""
    document = check(run.read_json(AUDIT), AuditDocument, str(run.path / AUDIT))
    cohort = read_cohort_of(run)
    plan = plan_from_json(document.plan)
    schemas = (GROUPS, DISPARITIES, TESTS, SWEEPS, REGRESSION, COVERAGE, FAMILIES, SENSITIVITY)
    tables = {schema.name: run.read_table(schema) for schema in schemas}
    findings = tuple(_finding(record) for record in document.findings)
    audit = Audit(plan, read_scores_of(run), cohort.cases, **tables, findings=findings, cohort=cohort)
    comparisons = []
    if document.comparisons:
        rulers, independence = run.read_table(RULERS), run.read_table(INDEPENDENCE)
        for c in document.comparisons:
            chosen, own = (t[(t["trusted"] == c.trusted) & (t["other"] == c.other)] for t in (rulers, independence))
            comparisons.append(
                RulerComparison(c.trusted, c.other, chosen.reset_index(drop=True), own.reset_index(drop=True))
            )
    return audit, comparisons


def models_of_run(folder: Path, baseline: str, other: str, ruler: str) -> ModelComparison:
    """Compare two models of an audited run directory under one ruler, by the plan it was audited by."""
    run = RunDirectory(folder)
    found = compare_models(read_audit(run)[0], baseline, other, ruler)
    write_models(run, found)
    return found


def write_models(run: RunDirectory, found: ModelComparison) -> None:
    """Write models.csv, beside the models compared earlier in this run, and record the step `models`."""
    kept = run.read_table(MODELS) if run.has(f"{MODELS.name}.csv") else MODELS.frame([])
    key = ["ruler", "baseline", "other"]
    same = (kept[key] == [found.ruler, found.baseline, found.other]).all(axis=1)
    table = pd.concat([part for part in (kept[~same], found.table) if len(part)], ignore_index=True)
    compared = table[key].drop_duplicates().to_dict("records")
    seen = [run.path / f"{name}.csv" for name in ("scores", "tests")]
    run.record(Step("models", {"compared": compared}, inputs(seen, run.told)), run.write_table(MODELS, table))


def plan_from_json(value: Mapping[str, Any]) -> Plan:
    """Return the plan that `Plan.as_json` wrote."""
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    fields["groupings"] = tuple(_grouping_from_json(grouping) for grouping in value["groupings"])
    fields["sweep"] = {metric: tuple(thresholds) for metric, thresholds in value["sweep"].items()}
    return Plan(**fields)


def _grouping_from_json(value: Mapping[str, Any]) -> Grouping:
    return Grouping(
        value["name"],
        value["attribute"],
        tuple(value["levels"]),
        tuple(value["cuts"]),
        {level: tuple(raw) for level, raw in value["values"].items()},
        tuple(_grouping_from_json(part) for part in value["parts"]),
    )


def audit_document(audit: Audit, comparisons: Sequence[RulerComparison]) -> dict[str, Any]:
    """Return audit.json: the plan, what was audited, every result table and every finding."""
    scores = audit.scores.table
    tables = {schema.name: rows_of(table) for schema, table in audit.tables()}
    tables["rulers"] = [row for comparison in comparisons for row in rows_of(comparison.table)]
    tables["independence"] = [row for comparison in comparisons for row in rows_of(comparison.independence)]
    sets = _cohort_document(audit.cohort)["mask_sets"] if audit.cohort else []
    document = {
        "plan": audit.plan.as_json(),
        "plan_digest": audit.plan.digest(),
        "data": {
            "name": audit.cohort.name if audit.cohort else "scores",
            "n_cases": len(audit.cases),
            "n_patients": int(audit.cases["patient"].nunique()),
            "n_excluded": len(audit.cohort.excluded) if audit.cohort else 0,
            "models": audit.scores.models,
            "rulers": audit.scores.rulers,
            "labels": list(scores["label"].unique()),
            "metrics": list(scores["metric"].unique()),
            "mask_sets": sets,
        },
        "comparisons": [{"trusted": c.trusted, "other": c.other} for c in comparisons],
        "tables": tables,
        "findings": [asdict(finding) for finding in _all_findings(audit, comparisons)],
    }
    return check(document, AuditDocument, AUDIT).model_dump()


def write_page_one(run: RunDirectory, shown: Mapping[str, Any]) -> list[str]:
    """Write what page one of the report shows into audit.json, so that every number on it stands there."""
    document = check(run.read_json(AUDIT), AuditDocument, str(run.path / AUDIT))
    return run.write_json(AUDIT, document.model_copy(update={"page_one": dict(shown)}).model_dump())


def write_findings(run: RunDirectory, findings: Sequence[Finding]) -> list[str]:
    """Write findings.csv, each finding once."""
    rows = [asdict(finding) for finding in dict.fromkeys(findings)]
    return run.write_table(
        FINDINGS, FINDINGS.frame(pd.DataFrame(rows, columns=FINDINGS.names()).drop_duplicates(list(FINDINGS.key)))
    )


def _finding(record: FindingRecord) -> Finding:
    return Finding(record.code, record.message, record.where, record.fix, record.level)


def _all_findings(audit: Audit, comparisons: Sequence[RulerComparison]) -> list[Finding]:
    return list(dict.fromkeys([*audit.findings, *(f for c in comparisons for f in c.findings)]))


def rows_of(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON rows: empty cells null."""
    columns = {}
    for name in table.columns:
        values = table[name].astype(object)
        columns[name] = values.where(values.notna(), None).tolist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _cohort_document(cohort: Cohort, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    document = {
        "name": cohort.name,
        "labels": {name: list(values) for name, values in cohort.labels.items()},
        "attributes": [asdict(attribute) for attribute in cohort.attributes.values()],
        "mask_sets": [
            {
                "name": s.name,
                "kind": s.kind,
                "made_by": s.made_by,
                "trained_on": None if s.trained_on is None else sorted(s.trained_on),
                "labels": None if s.labels is None else {k: list(v) for k, v in s.labels.items()},
                "ignore": s.ignore,
            }
            for s in cohort.mask_sets.values()
        ],
        "models": list(cohort.models),
        "rulers": list(cohort.rulers),
        "images": dict(cohort.images),
        "findings": [asdict(finding) for finding in findings],
    }
    return check(document, CohortDocument, COHORT).model_dump()


def _masks(cohort: Cohort, run: RunDirectory) -> pd.DataFrame:
    parts = [
        s.masks.assign(
            mask_set=s.name,
            path=[run.told(Path(path)) for path in s.masks["path"]],
            kind=s.masks.get("kind", s.kind),
        )
        for s in cohort.mask_sets.values()
    ]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_MASK_COLUMNS)
    return table[_MASK_COLUMNS].astype("str")
