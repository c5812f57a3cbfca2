"""What a person sees of a study: its plan, its progress, its account, and the miniature's figures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console
from rich.markup import escape

from segaudit.cli.drawing import console, new_table, print_findings, print_json, records
from segaudit.errors import AuditError, Finding, counted
from segaudit.study.accounts import Estimate, by_verb, estimate, folds_table, regimes_table
from segaudit.study.byhand import commands as by_hand
from segaudit.study.carbon import Account
from segaudit.study.plans import StudyPlan
from segaudit.study.steps import steps_of
from segaudit.study.workflow import StepState

if TYPE_CHECKING:
    from segaudit.miniatures import Miniature

_SHOWN_FOLDS = 40
_COLOURS = {"done": "green", "running": "cyan", "begun": "yellow", "stale": "yellow", "failed": "red", "left": "dim"}


def show_plan(plan: StudyPlan, *, commands: bool, as_json: bool) -> None:
    """Print regimes, folds, steps and the estimate; or every step as a command."""
    if commands:
        sys.stdout.write("\n".join(by_hand(plan)) + "\n")
        return
    regimes, folds, told = regimes_table(plan), folds_table(plan), estimate(plan, voxels(plan))
    counts = by_verb([step.name for step in steps_of(plan)])
    if as_json:
        print_json(
            {
                "regimes": records(regimes),
                "folds": records(folds),
                "steps": dict(counts),
                "estimate": asdict(told),
                "test": {"cases": len(plan.test)},
                "rulers": [plan.trusted, *(name for name, _ in plan.rulers)],
                "findings": [asdict(finding) for finding in plan.findings],
            }
        )
        return
    out = console()
    numbers = regimes["data set"].str.removeprefix("Dataset").str[:3]  # the name is long, and the regime's
    _draw(out, f"Study in {plan.home}", regimes.assign(**{"data set": numbers}), folding=("labels",))
    _draw(out, "Folds: grouped by patient", folds.head(_SHOWN_FOLDS))
    if len(folds) > _SHOWN_FOLDS:
        out.print(f"and {len(folds) - _SHOWN_FOLDS} more (--json shows all)")
    rulers = ", ".join([plan.trusted, *(name for name, _ in plan.rulers)])
    out.print(f"test: {counted(len(plan.test), 'case')}; rulers: {rulers}")
    out.print("steps: " + ", ".join(f"{n} {verb}" for verb, n in counts.items()))
    out.print(_estimated(plan, told), soft_wrap=True)
    print_findings(out, plan.findings)


def voxels(plan: StudyPlan) -> float:
    """Return the mean number of voxels of a few images; 0 when none can be read."""
    from math import prod

    from segaudit.volumes import read_header

    found = []
    for path in list(plan.cohort.images.values())[:20]:
        try:
            found.append(prod(read_header(Path(path)).shape))
        except AuditError:
            continue
    return sum(found) / len(found) if found else 0.0


def _estimated(plan: StudyPlan, told: Estimate) -> str:
    machine = plan.file.machine
    boards = f"{machine.gpus} GPU{'s' if machine.gpus > 1 else ''}" if machine.device == "cuda" else machine.device
    return (
        f"{told.trainings} trainings at {machine.hours_a_fold:g} h a fold ({machine.device}): about"
        f" {told.training_hours:,.0f} device hours, {told.training_hours / machine.gpus / 24:,.1f} days on"
        f" {boards}; about {told.disk_gb:,.0f} GB of disk"
    )


def show_status(
    plan: StudyPlan, states: Sequence[StepState], carbon: Account, changes: Sequence[Finding], *, as_json: bool
) -> None:
    """Print the state of every kind of step, what is not done and why, what has changed, and the account so far."""
    if as_json:
        steps = [{"step": s.step.name, "state": s.state, "reason": s.reason, "seconds": s.seconds} for s in states]
        changed = [asdict(finding) for finding in changes]
        print_json({"steps": steps, "changes": changed, "carbon": records(carbon.table)})
        return
    out = console()
    rows = []
    for verb in by_verb([s.step.name for s in states]):
        own = [s for s in states if s.step.verb == verb]
        counts = {state: sum(s.state == state for s in own) for state in _COLOURS}
        rows.append({"step": verb, **counts, "hours": f"{sum(s.seconds for s in own if s.state == 'done') / 3600:.2f}"})
    _draw(out, f"Study in {plan.home}", pd.DataFrame(rows))
    for one in states:
        if one.state not in ("done", "left"):
            colour = _COLOURS[one.state]
            reason = one.reason or ("an attempt did not end; the next run goes on from it" * (one.state == "begun"))
            told = f"{one.step.name}: {reason}" if reason else one.step.name
            out.print(f"[{colour}]{one.state}[/{colour}] {escape(told)}", soft_wrap=True)
    print_findings(out, changes)
    left = [s for s in states if s.state != "done"]
    trainings = sum(s.step.verb == "train" for s in left)
    hours = trainings * plan.file.machine.hours_a_fold
    out.print(
        f"{len(states) - len(left)} of {len(states)} steps are done"
        + (f"; left: {len(left)}, {trainings} of them trainings (about {hours:,.0f} h)" if left else "")
    )
    out.print(escape(carbon_line(carbon)), soft_wrap=True)


def carbon_line(carbon: Account) -> str:
    """Return energy and emissions so far in a line."""
    total = carbon.table[carbon.table["scope"] == "total"]
    if total.empty or not total["n_jobs"].iloc[0]:
        return "carbon: no job is done yet"
    row = total.iloc[0]
    if row["status"] == "undefined":
        devices = carbon.table.loc[carbon.table["scope"] == "device", "device"]
        return f"carbon: not known, for no power is declared for {', '.join(devices)} ([carbon] watts in study.toml)"
    part = "" if row["status"] == "ok" else f" (without {row['n_unknown']} jobs on devices of unknown power)"
    return (
        f"carbon: {row['hours']:.2f} h, {row['energy_kwh']:.3g} kWh,"
        f" {row['co2e_kg_low']:.3g} to {row['co2e_kg_high']:.3g} kg CO2e{part}"
    )


def show_done(path: Path, states: Sequence[StepState]) -> None:
    """Print that a study has ended, and where its reports are."""
    from segaudit.study.plans import plan_study

    out = console()
    home = plan_study(path).home
    out.print(f"{sum(s.state == 'done' for s in states)} of {len(states)} steps are done")
    for page in sorted(home.glob("audit/*/run/report.html")):
        out.print(f"report: {page}", soft_wrap=True)


def show_miniature(made: Miniature) -> None:
    """Print what the miniature's networks reached under each ruler, and where the reports are."""
    out = console()
    for title, frame in made.tables():
        _draw(out, title, frame)
    for line in made.lines():
        out.print(escape(line), soft_wrap=True)


def _draw(out: Console, title: str, frame: pd.DataFrame, folding: Sequence[str] = ()) -> None:
    shown = new_table(title, list(frame.columns), folding)
    for row in frame.itertuples(index=False):
        shown.add_row(*("" if pd.isna(cell) else escape(str(cell)) for cell in row))
    out.print(shown)
