"""The command on what anatomy, scanner or provenance could explain."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from segaudit.cli.app import By, Json, Key, MinPatients, Out, Participants, Seed, app


@app.command()
def confound(
    run: Annotated[Path, typer.Argument(help="Run directory with scores.")],
    by: By = None,
    adjust: Annotated[
        list[str] | None,
        typer.Option("--adjust", help="Covariate: volume, or an attribute such as site, age, provenance."),
    ] = None,
    plan: Annotated[Path | None, typer.Option("--plan", help="audit.toml, for its groupings.")] = None,
    participants: Participants = None,
    key: Key = None,
    out: Out = None,
    seed: Seed = None,
    min_patients: MinPatients = None,
    *,
    as_json: Json = False,
) -> None:
    """Set group differences beside anatomy, scanner and site: contrasts with and without adjustment.

    Where --by names no levels, the group with most patients is the reference group. --participants adds attributes
    that the run does not hold.
    """
    from segaudit.confounders import CAUTION, confound_run, reading
    from segaudit.lines import plan_of_options
    from segaudit.publications import confound_figures
    from segaudit.runs import rows_of
    from segaudit.scores import MACRO

    planned, _ = plan_of_options(plan, by or (), seed=seed, min_patients=min_patients)
    found = confound_run(run, planned, adjust=tuple(adjust or ()), participants=participants, key=key, out=out)
    confound_figures(out or run, found)
    if as_json:
        told = {schema.name: rows_of(table) for schema, table in found.tables()}
        told["findings"] = [asdict(finding) for finding in found.findings]
        typer.echo(json.dumps(told, ensure_ascii=False, allow_nan=False))
        return
    typer.echo(str(found))
    shown = found.adjusted[found.adjusted["metric"] == "dice"]
    if (shown["label"] == MACRO).any():  # the structures stand in the table
        shown = shown[shown["label"] == MACRO]
    for _, row in shown.iterrows():
        typer.echo(f"  {reading(row, alpha=found.alpha)}")
    for finding in found.findings:
        typer.echo(f"{finding.level} {finding.code}: {finding.message}" + f" {finding.fix}" * bool(finding.fix))
    typer.echo(CAUTION)
    typer.echo(f"run:    {out or run}")
