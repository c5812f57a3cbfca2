"""The commands of a study: init, plan, run, status, collect, mini and doctor; and `step`, which its jobs call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segaudit.cli.app import Json, app

if TYPE_CHECKING:
    from segaudit.study.plans import StudyPlan

study = typer.Typer(
    help="Train label regimes with nnU-Net and audit them: study.toml in, masks and reports out.", no_args_is_help=True
)
app.add_typer(study, name="study")

StudyToml = Annotated[Path, typer.Argument(help="study.toml")]
Profile = Annotated[
    str, typer.Option("--profile", help="Where jobs run: local, slurm, generic, or a folder with config.yaml.")
]


@study.command()
def init(path: Annotated[Path, typer.Argument(help="File to write.")] = Path("study.toml")) -> None:
    """Write a commented study.toml."""
    from segaudit.study.templates import write_example

    write_example(path)
    typer.echo(f"{path}: fill in cohort, split and regimes, then: segaudit study plan {path}")


@study.command()
def plan(
    path: StudyToml,
    *,
    commands: Annotated[bool, typer.Option("--commands", help="Print every step as a command.")] = False,
    as_json: Json = False,
) -> None:
    """Say what would run: regimes, folds, trainings, hours, disk. Nothing is written."""
    from segaudit.cli import studied

    studied.show_plan(_planned(path), commands=commands, as_json=as_json)


@study.command()
def run(
    path: StudyToml,
    profile: Profile = "local",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Steps at a time.")] = None,
    *,
    renew: Annotated[
        bool, typer.Option("--renew", help="Accept what has changed; what rests on it is done again.")
    ] = False,
    option: Annotated[
        list[str] | None, typer.Option("--snakemake", help="One more option for Snakemake.", metavar="OPTION")
    ] = None,
) -> None:
    """Run what is left of a study; after an interruption the same command goes on."""
    from segaudit.cli import screens, studied
    from segaudit.study.workflow import run_study

    _planned(path)
    with screens.progress() as told:
        states = run_study(path, profile=profile, jobs=jobs, renew=renew, options=option or (), progress=told)
    studied.show_done(path, states)


@study.command()
def status(
    path: StudyToml,
    *,
    closely: Annotated[
        bool, typer.Option("--closely", help="Hash every file: proofs, images, labels, tables.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show every step, its proof and what is left, and the carbon account so far."""
    from segaudit.cli import studied
    from segaudit.study.accounts import carbon_of
    from segaudit.study.locks import differences, freeze, read_lock
    from segaudit.study.plans import plan_study
    from segaudit.study.workflow import status as states_of

    planned = plan_study(path)
    lock = read_lock(planned.home)
    states = states_of(planned.home, lock, closely=closely)
    changes = differences(lock, freeze(planned)) if closely else []
    studied.show_status(planned, states, carbon_of(planned.home, lock, planned), changes, as_json=as_json)


@study.command()
def collect(path: StudyToml) -> None:
    """Write the cohorts and plans of the audits from the predictions that are there, with who learned from whom."""
    from segaudit.study.collecting import collect as collected
    from segaudit.study.locks import read_lock
    from segaudit.study.plans import plan_study

    planned = plan_study(path)
    for written in collected(planned.home, read_lock(planned.home)):
        typer.echo(written)


@study.command()
def doctor(path: StudyToml, profile: Profile = "local", *, as_json: Json = False) -> None:
    """Say what this machine lacks for a study. Exit 1 when something does."""
    from segaudit.cli import screens, studied
    from segaudit.study.accounts import estimate
    from segaudit.study.doctor import Needs, checks
    from segaudit.study.workflow import executor_of

    planned = _planned(path)
    file = planned.file
    needs = Needs(
        executor=executor_of(profile),
        disk_gb=estimate(planned, studied.voxels(planned)).disk_gb,
        gpu_memory_gb=file.network.gpu_memory_gb or Needs.gpu_memory_gb,
        jobs=file.machine.jobs,
    )
    found = checks(planned.home, file.machine.device, needs)
    lacking = any(finding.level != "note" for finding in found)
    screens.show_findings(found, summary="" if lacking else "nothing is lacking.", as_json=as_json)
    if any(finding.level == "error" for finding in found):
        raise typer.Exit(1)


@study.command()
def mini(
    out: Annotated[Path, typer.Option("-o", "--output", help="Folder to write.")] = Path("segaudit-study-mini"),
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the phantoms and the networks.")] = 1,
    *,
    short: Annotated[bool, typer.Option("--short", help="Two folds and fewer phantoms.")] = False,
) -> None:
    """Run the whole study in small, with real training: phantoms, two regimes, ensembles, both audits."""
    from segaudit.cli import screens, studied
    from segaudit.miniatures import run_miniature

    with screens.progress() as told:
        made = run_miniature(out, short=short, seed=seed, progress=told)
    studied.show_miniature(made)


@study.command(hidden=True)
def step(home: Path, name: str) -> None:
    """Do one step of a study, as its workflow calls it."""
    from segaudit.study.jobs import do_step, end_with_parent

    end_with_parent()
    log = home / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab", buffering=0) as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
        do_step(home, name, audit_folder)


def _planned(path: Path) -> StudyPlan:
    """Return the plan of a study whose audits would run: what they would refuse is told before anything is trained."""
    from segaudit.audits import plan_of
    from segaudit.errors import Finding, did_you_mean, raise_errors
    from segaudit.metrics import METRICS
    from segaudit.study.plans import plan_study

    planned = plan_study(path)
    asked, cases = planned.file.audit, planned.cohort.cases
    raise_errors(
        Finding(
            "UNKNOWN_METRIC", f"no metric is named '{name}'.", "audit, metrics", did_you_mean(name, METRICS.names())
        )
        for name in asked.metrics
        if name not in METRICS
    )
    declared = plan_of(asked)
    for audited in (planned.test, planned.outlined):
        declared.resolved(cases[cases["case"].isin(audited)].reset_index(drop=True))
    return planned


def audit_folder(folder: Path) -> None:
    """Audit a collected folder and compare its models, as `segaudit run` and `segaudit models` do."""
    from segaudit.lines import Means, run_plan
    from segaudit.publications import with_report
    from segaudit.runs import models_of_run

    result = run_plan(folder / "audit.toml", means=Means(workers=1))
    first, *others = result.audit.scores.models
    for other in others:
        models_of_run(folder / "run", other, first, result.audit.scores.rulers[0])
    with_report(result, ("html", "json", "latex"))
