"""What this report rests on: inputs by digest, versions, seed, findings; the checklists; the words."""

from __future__ import annotations

from segaudit import __version__
from segaudit.provenance import Input, versions
from segaudit.reports.document import Block, Cell, Code, Column, Facts, Findings, Section, Table, prose
from segaudit.reports.reading import Reading

_INPUTS_SHOWN = 40
_FINDINGS_SHOWN = 60


def manifest(reading: Reading, inputs: tuple[Input, ...] = ()) -> Section:
    """Return the manifest: plan, inputs, versions and the findings of every step."""
    import json

    audit = reading.audit
    items = [("plan digest", Cell(audit.plan.digest())), ("seed", Cell(str(audit.plan.seed)))]
    items += [(name, Cell(version)) for name, version in versions().items()]
    rows = tuple((Cell(i.path), Cell(i.sha256), Cell(f"{i.size:,}", i.size)) for i in inputs[:_INPUTS_SHOWN])
    more = (
        f" The first {_INPUTS_SHOWN} of {len(inputs):,}; steps.json holds all." if len(inputs) > _INPUTS_SHOWN else ""
    )
    columns = (Column("file"), Column("sha256"), Column("bytes", "right"))
    empty = "The inputs stand with their digests in steps.json of the run."
    found = dict.fromkeys((*audit.findings, *(f for one in reading.comparisons for f in one.findings)))
    findings = tuple((f.code, f.level, f.message, f.where, f.fix) for f in found)[:_FINDINGS_SHOWN]
    plan = json.dumps(audit.plan.as_json(), indent=1, ensure_ascii=False, sort_keys=True)
    blocks: tuple[Block, ...] = (
        Facts("Plan and versions", tuple(items)),
        Table("inputs", "Inputs", columns, rows, more.strip(), empty=empty),
        Findings(findings),
        Code("The plan", plan, "json"),
    )
    return Section("manifest", "Manifest", blocks)


_CLAIM = (
    ("Data sources, inclusion and exclusion", "Cohort", "#cohort"),
    ("How missing data were handled", "Cohort; Methods", "#cohort"),
    (
        "How the reference standard was defined and who made it",
        "Summary, what the model was measured against; Rulers",
        "#rulers",
    ),
    ("Agreement and variability of the annotations", "Rulers", "#rulers"),
    ("Partition of the data, disjoint by patient", "Summary, can this result be trusted; Manifest", "#summary"),
    ("Metrics, and statistical measures of uncertainty", "Methods; All tests", "#methods"),
    ("Robustness or sensitivity analysis", "Conventions; Thresholds", "#sensitivity"),
    ("Performance by demographic subgroup", "Summary, how big are the gaps; All tests", "#tests"),
    ("Failure analysis", "Worst cases", "#worst"),
    ("Flow and characteristics of the participants", "Cohort, Table 1", "#cohort"),
    ("Software, versions, code and data", "Manifest", "#manifest"),
)
_STANDING = (
    ("Who is in the data, by attribute, and who is not", "Cohort", "#cohort"),
    ("How attributes were recorded, grouped and why some are missing", "Cohort; Manifest (plan)", "#cohort"),
    ("Groups at risk of being served worse, named before the scores", "Manifest (plan digest)", "#manifest"),
    ("Known limits and sources of bias of the reference", "Rulers", "#rulers"),
    ("Performance by group with uncertainty", "Summary; All tests", "#tests"),
)


def checklist(_reading: Reading) -> Section:
    """Return where each item of the reporting checklists that an audit can answer stands in this report."""
    rows = [(Cell(item), Cell("CLAIM 2024"), Cell(where)) for item, where, _ in _CLAIM]
    rows += [(Cell(item), Cell("STANDING Together"), Cell(where)) for item, where, _ in _STANDING]
    columns = (Column("asked for"), Column("checklist", filter=True), Column("where it stands"))
    note = (
        "Items in our own words, and only those that an audit of scores can answer; intended use, training and "
        "deployment are for the authors to describe."
    )
    return Section(
        "checklist",
        "Checklist map",
        (Table("checklist", "Where it stands", columns, tuple(rows)), prose(note, role="note")),
    )


_WORDS = (
    ("ruler", "a reference in its role: what the predictions are scored against."),
    ("trusted ruler", "the ruler that is believed, such as the experts' outlines."),
    (
        "gap",
        "difference of group medians, group minus reference group; of several pairs, the one furthest apart.",
    ),
    ("gap found", "a test in the declared family has an adjusted p value below α."),
    ("equivalent within the margin", "every pair of groups lies within the declared margin, with its whole interval."),
    ("inconclusive", "neither was shown; it is no evidence that there is no gap."),
    ("not assessable", "there were no two groups of enough patients to compare."),
    ("false magnitude", "the other ruler makes the gap larger than it is."),
    ("false confidence", "the other ruler makes the same or a smaller gap significant because it hides the noise."),
    ("masking", "a gap under the trusted ruler is lost under the other one."),
    ("saturation", "under one ruler every group passes alike, so that no ratio can tell them apart."),
    ("agreement", "both rulers give the same verdict."),
    (
        "established, not established",
        "whether the change of a verdict was itself shown; one that was not may be chance at the threshold.",
    ),
    ("undetermined", "the verdicts differ and nothing explains it, or there was nothing to compare."),
    (
        "strong collapse, collapse, stable, wider",
        "the interval of the noise ratio lies below 0.5, below 0.8, within 0.8 to 1.25, above 1.25.",
    ),
    (
        "proportional compression",
        "errors and their spread shrank by the same factor, as the nearness of the ceiling implies.",
    ),
    ("DIR, DPD", "smallest over largest pass rate of the groups; largest minus smallest."),
    (
        "expected under parity",
        "the mean DIR when the same exams are shuffled over groups of these sizes; chance alone keeps it below 1.",
    ),
    ("detectable gap", "the gap that a test of these group sizes and this noise finds four times out of five."),
    (
        "r, ε²",
        "effects between -1 and 1 (rank-biserial: two groups) and 0 and 1 (epsilon squared: three or more); 0 is none.",
    ),
    ("q", "p value adjusted over the declared family of tests."),
    ("points", "hundredths of a score between 0 and 1."),
)


def glossary(_reading: Reading) -> Section:
    """Return the words of the report."""
    items = tuple((word, Cell(meaning)) for word, meaning in _WORDS)
    made = prose(f"Written by segaudit {__version__}.", role="note")
    return Section("glossary", "Glossary", (Facts("", items), made))
