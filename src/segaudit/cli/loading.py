"""The command that takes a folder as others deliver it: load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from segaudit.cli.app import Json, Key, Participants, Patient, Rule, app


@app.command()
def load(
    loader: Annotated[str, typer.Argument(help="cspineseg, nnunet, bids or table.")],
    place: Annotated[Path, typer.Argument(help="Folder of the delivery; with table, the table.")],
    out: Annotated[Path, typer.Option("-o", "--output", help="Folder to write cohort.toml and its tables to.")],
    gold: Annotated[Path | None, typer.Option("--gold", help="cspineseg: text file of expert series.")] = None,
    most_slices: Annotated[
        int | None, typer.Option("--most-slices", min=1, help="cspineseg: a series with more is a localizer.")
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="nnunet: kind of the labels: expert, machine, ...")] = None,
    made_by: Annotated[str | None, typer.Option("--made-by", help="nnunet: who or what drew the labels.")] = None,
    predictions: Annotated[
        list[str] | None, typer.Option("--pred", help="nnunet: folder of a model's predictions.", metavar="NAME=DIR")
    ] = None,
    case_to_patient: Rule = None,
    participants: Participants = None,
    masks: Annotated[
        list[str] | None, typer.Option("--masks", help="table: column of a mask set's paths.", metavar="NAME=COLUMN")
    ] = None,
    labels: Annotated[str | None, typer.Option("--labels", help="table: structures, vb=1,disc=2.")] = None,
    key: Key = None,
    patient: Patient = None,
    *,
    as_json: Json = False,
) -> None:
    """Write a delivery as cohort.toml, which every other command reads, and say what is found in it.

    --case-to-patient goes with nnunet, --participants with bids, --key and --patient with table.
    """
    from segaudit.cli import screens, words
    from segaudit.cohorts import write_cohort
    from segaudit.loaders import load_delivery

    found = load_delivery(
        loader,
        place,
        gold=gold,
        most_slices=most_slices,
        kind=kind,
        made_by=made_by,
        predictions=words.paths(predictions or [], "--pred") or None,
        case_to_patient=case_to_patient,
        participants=participants,
        masks=words.pairs(masks or [], "--masks") or None,
        labels={name: tuple(values) for name, values in words.labels(labels).items()} or None,
        key=key,
        patient=patient,
    )
    written = write_cohort(found, out)
    screens.show_findings(found.check(), summary=f"{found}\n{written}", as_json=as_json)
