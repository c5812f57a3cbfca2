"""The commands. They read their options, call the line and show what came out; the work is done elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from segaudit import __version__
from segaudit.cli.interrupts import Commands
from segaudit.errors import AuditError

app = typer.Typer(
    name="segaudit",
    cls=Commands,
    help="Audit segmentation models for group disparities, and the reference that they are scored against.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

Out = Annotated[Path | None, typer.Option("-o", "--output", help="Run directory to write.")]
By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        help="Grouping: sex, race=White,Black (levels), age:40,60 (cuts), sex*age:60 (crossing).",
        metavar="GROUPING",
    ),
]
Participants = Annotated[Path | None, typer.Option("--participants", help="Table of participants (CSV, TSV, XLSX).")]
Key = Annotated[str | None, typer.Option("--key", help="Column that names the case, or a template: {patient}_{study}.")]
Patient = Annotated[str | None, typer.Option("--patient", help="Column that names the patient.")]
Rule = Annotated[str | None, typer.Option("--case-to-patient", help="Regular expression whose group is the patient.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes; all cores by default.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", help="Dask scheduler whose workers measure.", metavar="tcp://HOST:PORT")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Measure every case anew; the ledger of the run goes.")]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Go on without the cases that cannot be measured; exit status 1.")
]
MaxBytes = Annotated[
    int | None, typer.Option("--max-image-bytes", min=1, help="Largest image, voxels as stored; 8 GiB by default.")
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        help="Score table of a ruler, NAME=FILE (CSV, TSV, XLSX or nnU-Net summary.json).",
        metavar="NAME=FILE",
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Our column name to the table's: dice_vb=dsc, case=case_id.", metavar="OURS=THEIRS"),
]
Success = Annotated[
    list[str] | None, typer.Option("--success", help="Threshold of success: dice=0.8.", metavar="METRIC=NUMBER")
]
Margin = Annotated[
    list[str] | None, typer.Option("--margin", help="Gap that does not matter: dice=0.03.", metavar="METRIC=NUMBER")
]
Trusted = Annotated[str | None, typer.Option("--trusted", help="The ruler that is believed; the first by default.")]
Other = Annotated[list[str] | None, typer.Option("--other", help="Ruler to compare with it; all others by default.")]
Second = Annotated[str | None, typer.Option("--second", help="Mask set of a second expert reading.")]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the resampling.")]
Resamples = Annotated[int | None, typer.Option("--resamples", min=99, help="Draws of bootstrap and permutation.")]
MinPatients = Annotated[int | None, typer.Option("--min-patients", min=2, help="Smaller groups are not tested.")]
Model = Annotated[str, typer.Option("--model", help="Name of the model.")]


@app.callback(invoke_without_command=True)
def _main(*, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"segaudit {__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")] = Path("segaudit-demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the cohort.")] = 3,
    workers: Workers = None,
) -> None:
    """Simulate a cohort with planted truths and send it through the whole line."""
    from segaudit.cli import screens
    from segaudit.lines import Means, run_plan
    from segaudit.publications import with_report
    from segaudit.simulate import simulate_cohort

    with screens.progress() as told:
        told("simulating", 0, 1)
        cohort = simulate_cohort(out, seed=seed)
        told("simulating", 1, 1)
        result = run_plan(cohort.parent / "audit.toml", means=Means(workers), progress=told)
        result = with_report(result, progress=told)
    screens.show(result)


@app.command()
def check(cohort: Annotated[Path, typer.Argument(help="cohort.toml")], *, as_json: Json = False) -> None:
    """Read a cohort and say what is found in it."""
    from segaudit.cli import screens
    from segaudit.cohorts import read_cohort

    found = read_cohort(cohort)
    screens.show_findings(found.check(), summary=str(found), as_json=as_json)


@app.command()
def score(
    cohort: Annotated[Path | None, typer.Argument(help="cohort.toml")] = None,
    out: Annotated[Path, typer.Option("-o", "--output", help="Run directory to write.")] = Path("run"),
    pred: Annotated[Path | None, typer.Option("--pred", help="Folder of predictions, in place of cohort.toml.")] = None,
    ref: Annotated[list[str] | None, typer.Option("--ref", help="Folder of references.", metavar="NAME=DIR")] = None,
    labels: Annotated[str | None, typer.Option("--labels", help="Structures: vb=1,disc=2 or lungs=1+2.")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--models", help="Mask set under audit; the first by default.")
    ] = None,
    rulers: Annotated[
        list[str] | None, typer.Option("--rulers", help="Mask set to score against; all others by default.")
    ] = None,
    metrics: Annotated[str, typer.Option("--metrics", help="Metrics, by commas.")] = "dice,ndsc,hd95",
    participants: Participants = None,
    key: Key = None,
    patient: Patient = None,
    case_to_patient: Rule = None,
    model: Model = "model",
    workers: Workers = None,
    scheduler: Scheduler = None,
    max_bytes: MaxBytes = None,
    *,
    fresh: Fresh = False,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> None:
    """Score masks against one or more references and write the run directory.

    Each case is kept as soon as it is measured: after an error or an interrupt, run it again and it goes on.
    """
    from segaudit.cli import screens, words
    from segaudit.cohorts import read_cohort
    from segaudit.lines import Means, People, cohort_of_folders, score_line

    if (cohort is None) == (pred is None):
        raise typer.BadParameter("give cohort.toml, or --pred with --ref")
    people = People(participants, key, patient, case_to_patient)
    found = (
        read_cohort(cohort)
        if cohort is not None
        else cohort_of_folders(Path(str(pred)), words.paths(ref or [], "--ref"), words.labels(labels), people, model)
    )
    files = [path for path in (cohort, participants) if path is not None]
    with screens.progress() as told:
        scores = score_line(
            found,
            out,
            models=models or (),
            rulers=rulers or (),
            metrics=words.names(metrics),
            means=Means(workers, scheduler, fresh, keep_going, max_bytes),
            files=files,
            progress=told,
        )
    screens.show_scores(scores, found, out, as_json=as_json)
    _end(scores.table["status"])


@app.command()
def audit(
    run: Annotated[Path | None, typer.Argument(help="Run directory with scores.")] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="audit.toml")] = None,
    scores: Scores = None,
    columns: Columns = None,
    participants: Participants = None,
    key: Key = None,
    patient: Patient = None,
    case_to_patient: Rule = None,
    by: By = None,
    success: Success = None,
    margin: Margin = None,
    trusted: Trusted = None,
    other: Other = None,
    second: Second = None,
    model: Model = "model",
    seed: Seed = None,
    resamples: Resamples = None,
    min_patients: MinPatients = None,
    out: Out = None,
    workers: Workers = None,
    *,
    as_json: Json = False,
) -> None:
    """Audit scores by groups, and compare the rulers when there are two or more."""
    from segaudit.cli import screens, words
    from segaudit.lines import People, Versus, audit_run, audit_scores, cohort_of_scores, plan_of_options, read_rulers

    if (run is None) == (not scores):
        raise typer.BadParameter("give a run directory, or --scores NAME=FILE")
    if run is not None and (participants or key or patient or case_to_patient or columns or out):
        own = "--participants, --key, --patient, --case-to-patient, --column and -o go with --scores"
        raise typer.BadParameter(f"{own}; the run directory holds its own cases")
    planned, file = plan_of_options(
        plan,
        by or (),
        success=words.numbers(success or [], "--success"),
        margin=words.numbers(margin or [], "--margin"),
        seed=seed,
        resamples=resamples,
        min_patients=min_patients,
    )
    named = Versus(
        trusted or (file.trusted if file else None), tuple(other or ()), second or (file.second if file else None)
    )
    files = [path for path in (plan, participants) if path is not None]
    with screens.progress() as told:
        if run is not None:
            result = audit_run(run, planned, named, files=files, workers=workers, progress=told)
        else:
            tables = words.paths(scores or [], "--scores")
            read = read_rulers(tables, words.pairs(columns or [], "--column"), model)
            cohort = cohort_of_scores(read, People(participants, key, patient, case_to_patient), planned)
            files += tables.values()
            result = audit_scores(read, cohort, planned, named, out=out, files=files, progress=told)
    screens.show(result, as_json=as_json)


@app.command()
def rulers(
    run: Annotated[Path | None, typer.Argument(help="Audited run directory.")] = None,
    trusted: Trusted = None,
    other: Other = None,
    second: Second = None,
    scores: Scores = None,
    columns: Columns = None,
    model: Model = "model",
    out: Out = None,
    workers: Workers = None,
    *,
    as_json: Json = False,
) -> None:
    """Compare rulers: level, spread and verdicts of the same predictions under two or more references."""
    from segaudit.audits import Plan
    from segaudit.cli import screens, words
    from segaudit.lines import (
        People,
        Versus,
        audit_scores,
        check_two_rulers,
        cohort_of_scores,
        read_rulers,
        rulers_of_run,
    )

    if (run is None) == (not scores):
        raise typer.BadParameter("give a run directory, or --scores NAME=FILE twice or more")
    named = Versus(trusted, tuple(other or ()), second)
    with screens.progress() as told:
        if run is not None:
            result = rulers_of_run(run, named, workers=workers, progress=told)
        else:
            tables = words.paths(scores or [], "--scores")
            read = read_rulers(tables, words.pairs(columns or [], "--column"), model)
            check_two_rulers(read)
            cohort = cohort_of_scores(read, People(), Plan())
            result = audit_scores(read, cohort, Plan(), named, out=out, files=list(tables.values()), progress=told)
    screens.show(result, as_json=as_json)


@app.command()
def models(
    run: Annotated[Path, typer.Argument(help="Audited run directory with scores of two models.")],
    baseline: Annotated[str, typer.Option("--baseline", help="The model that is compared with.")],
    other: Annotated[str, typer.Option("--other", help="The model in question.")],
    ruler: Annotated[str, typer.Option("--ruler", help="The reference that both are scored against.")],
    *,
    as_json: Json = False,
) -> None:
    """Compare two models under one ruler: level, spread, and whether one widens the gaps between groups."""
    from segaudit.cli import screens
    from segaudit.runs import models_of_run

    screens.show_models(models_of_run(run, baseline, other, ruler), run, as_json=as_json)


@app.command()
def explain(
    name: Annotated[str | None, typer.Argument(help="Metric, test, diagnostic, quantity or status.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """Say what a number of the audit is: definition, formula, source, how to read it. Without a name: list them."""
    from segaudit.cli import screens

    screens.show_explanation(name, as_json=as_json)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="audit.toml")],
    out: Out = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    max_bytes: MaxBytes = None,
    *,
    fresh: Fresh = False,
    keep_going: KeepGoing = False,
    as_json: Json = False,
) -> None:
    """Run an audit.toml: cohort, scores, audit, rulers, report."""
    from segaudit.cli import screens
    from segaudit.lines import Means, run_plan
    from segaudit.publications import with_report

    with screens.progress() as told:
        result = run_plan(plan, out, means=Means(workers, scheduler, fresh, keep_going, max_bytes), progress=told)
        result = with_report(result, progress=told)
    screens.show(result, as_json=as_json)
    if keep_going:
        _end(result.audit.scores.table["status"])


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Audited run directory.")],
    formats: Annotated[str, typer.Option("--formats", help="html, latex, json, pdf; by commas.")] = "html,latex,json",
    *,
    show_cases: Annotated[bool, typer.Option("--show-cases", help="Name cases beside their groups.")] = False,
) -> None:
    """Write the report of an audited run: a page, LaTeX tables and figures, JSON, PDF."""
    from segaudit.cli import words
    from segaudit.publications import report_run

    for path in report_run(run, words.names(formats), show_cases=show_cases):
        if path.suffix in (".html", ".tex", ".json", ".pdf") and path.parent == run:
            typer.echo(path)


@app.command()
def gate(
    run: Annotated[Path, typer.Argument(help="Audited run directory.")],
    limits: Annotated[Path, typer.Option("--limits", help="limits.toml")],
    junit: Annotated[Path | None, typer.Option("--junit", help="JUnit XML to write.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Markdown summary to write.")] = None,
) -> None:
    """Check a run against declared limits. Exit 0 pass, 1 a limit broken, 2 bad input, 3 not enough evidence."""
    from segaudit.publications import gate_run
    from segaudit.store import atomic

    found = gate_run(run, limits)
    for path, text in ((junit, found.junit()), (markdown, found.markdown())):
        if path is not None:
            with atomic(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
    typer.echo(str(found))
    raise typer.Exit(found.exit_code)


@app.command()
def verify(run: Annotated[Path, typer.Argument(help="Run directory.")], *, as_json: Json = False) -> None:
    """Say which inputs and results of a run no longer match what was recorded. Exit 1 when any does not."""
    from segaudit.cli import screens
    from segaudit.store import RunDirectory

    findings = RunDirectory(run).verify()
    screens.show_findings(findings, summary="" if findings else f"{run}: everything matches.", as_json=as_json)
    if any(finding.level != "note" for finding in findings):
        raise typer.Exit(1)


def _end(statuses: Iterable[str]) -> None:
    """End with status 1 when cases could not be measured and the others went on without them."""
    if "not_scored" in set(statuses):
        raise typer.Exit(1)


def main() -> None:
    """Run the command line; bad input ends with every finding on stderr and exit status 2, an interrupt with 130."""
    try:
        app()
    except AuditError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
