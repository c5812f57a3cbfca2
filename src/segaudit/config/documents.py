"""The JSON documents of a run directory: what is written is checked, and what is read is, too."""

from __future__ import annotations

from typing import Any, Literal

from segaudit.config.base import Strict

Value = str | int | float | bool | None
Row = dict[str, Value]


class MaskSetRecord(Strict):
    """A mask set as a run knows it."""

    name: str
    kind: Literal["expert", "expert-revised machine draft", "consensus", "machine", "unknown"]
    made_by: str
    trained_on: list[str] | None
    labels: dict[str, list[int]] | None
    ignore: int | None


class AttributeRecord(Strict):
    """An attribute as a run knows it."""

    name: str
    kind: Literal["level", "number", "age"]
    of: Literal["patient", "case"]
    column: str


class FindingRecord(Strict):
    """A finding."""

    code: str
    level: Literal["error", "warning", "note"]
    where: str
    message: str
    fix: str


class CohortDocument(Strict):
    """cohort.json: the cohort but for its tables."""

    format: Literal["segaudit-cohort"] = "segaudit-cohort"
    version: Literal[1] = 1
    name: str
    labels: dict[str, list[int]]
    attributes: list[AttributeRecord]
    mask_sets: list[MaskSetRecord]
    models: list[str] = []
    rulers: list[str] = []
    images: dict[str, str] = {}
    findings: list[FindingRecord] = []


class DataRecord(Strict):
    """What was audited."""

    name: str
    n_cases: int
    n_patients: int
    n_excluded: int
    models: list[str]
    rulers: list[str]
    labels: list[str]
    metrics: list[str]
    mask_sets: list[MaskSetRecord]


class ComparisonRecord(Strict):
    """Two rulers that were compared; their rows stand in the table `rulers`."""

    trusted: str
    other: str


class AuditDocument(Strict):
    """audit.json: the plan, what was audited, every result table and every finding.

    Rows of `tables` have the columns of the table of the same name in the run directory; null stands for an empty cell.
    `page_one` holds what the first page of the report shows, text by text, with the number behind each; null until a
    report is written.
    """

    format: Literal["segaudit-audit"] = "segaudit-audit"
    version: Literal[1] = 1
    plan: dict[str, Any]
    plan_digest: str
    data: DataRecord
    comparisons: list[ComparisonRecord]
    tables: dict[str, list[Row]]
    findings: list[FindingRecord]
    page_one: dict[str, Any] | None = None


def audit_schema() -> dict[str, Any]:
    """Return the JSON Schema of audit.json."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "segaudit audit.json, version 1",
        **{key: value for key, value in AuditDocument.model_json_schema().items() if key != "title"},
    }
