"""What a finished run gives to its readers: the report, and the gate of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from segaudit.config.base import read_toml
from segaudit.config.limits import Limits
from segaudit.confounders import Confounders
from segaudit.confounders.schemas import ADJUSTED, ANATOMY, ASSOCIATIONS, ENTANGLEMENT
from segaudit.gates import Gate, gate
from segaudit.lines import WAITING, Progress, Result, silent
from segaudit.provenance import Step
from segaudit.runs import image_limit, read_audit, write_page_one
from segaudit.store import RunDirectory
from segaudit.tables import DISPARITIES, GROUPS, RULERS

if TYPE_CHECKING:  # charts and templates are loaded when a report is made
    from segaudit.reports import Report


def report_run(
    folder: Path, formats: Sequence[str], *, show_cases: bool = False, progress: Progress = silent
) -> list[Path]:
    """Write the report of an audited run directory into it, its page one into audit.json, too, and record the step."""
    run = RunDirectory(folder)
    with run.alone(lambda: progress(WAITING, 0, 1)):
        made = _report(run, show_cases=show_cases)
        written = made.write(folder, formats)
        names = [str(path.relative_to(folder)) for path in written]
        names += write_page_one(run, made.page_one())
        run.record(Step("report", {"formats": list(formats), "show_cases": show_cases}), names, last=True)
    return written


def _report(run: RunDirectory, *, show_cases: bool) -> Report:
    from segaudit.reports import report

    found, comparisons = read_audit(run)
    steps = run.steps()
    read = {i.path: i for step in steps for i in step.inputs}
    declared = [step.options.get("digest") for step in steps if step.verb == "plan"]
    return report(
        found,
        comparisons,
        show_cases=show_cases,
        inputs=tuple(read[path] for path in sorted(read)),
        declared_first=found.plan.digest() in declared if declared else None,
        images={case: Path(path) for case, path in found.cohort.images.items()} if found.cohort else None,
        confounders=read_confounders(run, found.plan.alpha),
        max_bytes=image_limit(run),
    )


def read_confounders(run: RunDirectory, alpha: float = 0.05) -> Confounders | None:
    """Return the confounders of a run directory, or None where none were computed."""
    schemas = (ANATOMY, ENTANGLEMENT, ASSOCIATIONS, ADJUSTED)
    if not all(run.has(f"{schema.name}.csv") for schema in schemas):
        return None
    anatomy, entanglement, associations, adjusted = (run.read_table(schema) for schema in schemas)
    return Confounders(anatomy, entanglement, associations, adjusted, alpha=alpha)


def confound_figures(folder: Path, found: Confounders) -> list[Path]:
    """Draw the confounders as SVG beside their tables, add the files to the step that wrote these, and return them."""
    from segaudit.reports.confounder_figures import confounder_charts
    from segaudit.reports.svg import to_svg

    run = RunDirectory(folder)
    names = []
    for drawn in confounder_charts(found):
        name = f"confound-{drawn.name}.svg"
        run.write_bytes(name, to_svg(drawn.chart, drawn.title, drawn.alt, drawn.name).encode())
        names.append(name)
    step = next(step for step in run.steps() if step.verb == "confound")
    run.record(step, [*step.outputs, *names])
    return [folder / name for name in names]


def with_report(
    result: Result, formats: Sequence[str] = ("html", "latex", "json"), progress: Progress = silent
) -> Result:
    """Write the report of a result that has a run directory, and return the result with the report's page."""
    if result.run is None:
        return result
    progress("writing the report", 0, 1)
    written = report_run(result.run, formats, progress=progress)
    progress("writing the report", 1, 1)
    return replace(result, report=next(path for path in written if path.suffix == ".html"))


def gate_run(folder: Path, limits: Path) -> Gate:
    """Return whether an audited run directory keeps the limits of a limits.toml."""
    run = RunDirectory(folder)
    tables = {schema.name: run.read_table(schema) for schema in (GROUPS, DISPARITIES)}
    if run.has(f"{RULERS.name}.csv"):
        tables[RULERS.name] = run.read_table(RULERS)
    return gate(tables, read_toml(limits, Limits))
