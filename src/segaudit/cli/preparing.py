"""The commands before an audit: cohort, split, leak."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from segaudit.cli.app import Json, Key, Participants, Patient, Rule, app

if TYPE_CHECKING:
    from segaudit.preparations.people import Source

_GROUPING = "GROUPING"


class Unit(StrEnum):
    """What is counted."""

    patient = "patient"
    case = "case"


Cohort = Annotated[Path | None, typer.Argument(help="cohort.toml, in place of --participants.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Our column (case, patient, split) to the split table's.", metavar="OURS=THEIRS"),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Names the draw; the same seed gives the same result.")]


@app.command()
def split(
    cohort: Cohort = None,
    participants: Participants = None,
    key: Key = None,
    patient: Patient = None,
    ratios: Annotated[
        str, typer.Option("--ratios", help="Share of the patients of each part.", metavar="PART=SHARE,...")
    ] = "train=0.7,val=0.1,test=0.2",
    stratify: Annotated[
        list[str] | None,
        typer.Option(
            "--stratify",
            help="Attribute kept even over the parts, the most important first: sex, age:40,60 (cuts).",
            metavar=_GROUPING,
        ),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option("--balance", help="Drop cases until its levels are equally many in each part.", metavar=_GROUPING),
    ] = None,
    balance_unit: Annotated[Unit, typer.Option("--balance-unit", help="What is counted and dropped.")] = Unit.patient,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", help="Attribute whose shares the dropping keeps.", metavar=_GROUPING),
    ] = None,
    folds: Annotated[int | None, typer.Option("--folds", help="Folds of train and val, for nnU-Net too.")] = None,
    fold_parts: Annotated[str, typer.Option("--fold-parts", help="Parts that folds are made of.")] = "train,val",
    regime: Annotated[
        list[str] | None,
        typer.Option(
            "--regime", help="Label regime and the provenances it allows: gold=gold.", metavar="NAME=VALUE,..."
        ),
    ] = None,
    provenance: Annotated[
        str, typer.Option("--provenance", help="Attribute that says where the label of a case comes from.")
    ] = "provenance",
    seed: Seed = 42,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Folder to write.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", help="Check an existing split (table or splits_final.json) instead.")
    ] = None,
    columns: Columns = None,
    *,
    as_json: Json = False,
) -> None:
    """Split patients into parts, even over several attributes; balance, label regimes and folds from the one split.

    With --check: exit 1 when a patient is in two parts, 2 when that cannot be checked, else 0.
    """
    from segaudit.cli import prepared, words
    from segaudit.preparations.leaking import check_split
    from segaudit.preparations.splitting import Request, split_cases, write_split

    source = _source(cohort, participants, key, patient, needed=check is None)
    if check is not None:
        found = check_split(check, source, columns=words.pairs(columns or [], "--column"))
        prepared.show_leaks(found, as_json=as_json)
        raise typer.Exit(found.exit_code)
    if out is None:
        raise typer.BadParameter("give a folder to write with -o, or --check FILE")
    request = Request(
        words.numbers(words.names(ratios), "--ratios"),
        seed,
        stratify or (),
        balance,
        balance_unit.value,
        keep or (),
        folds,
        words.names(fold_parts),
        {name: words.names(values) for name, values in words.pairs(regime or [], "--regime").items()},
        provenance,
    )
    made = split_cases(source, request)
    written = write_split(made, out)
    prepared.show_split(made, out, written, as_json=as_json)


@app.command()
def leak(
    files: Annotated[list[Path], typer.Argument(help="Split tables, splits_final.json, cohort.toml.")],
    participants: Participants = None,
    key: Key = None,
    patient: Patient = None,
    case_to_patient: Rule = None,
    columns: Columns = None,
    images: Annotated[
        Path | None, typer.Option("--images", help="Folder of images whose content is compared across the parts.")
    ] = None,
    held_out: Annotated[
        str, typer.Option("--held-out", help="Part of a split table that nothing may be trained on.")
    ] = "test",
    *,
    as_json: Json = False,
) -> None:
    """Find patients (and images) on two sides: parts, folds, training sets. Exit 0 none, 1 a leak, 2 bad input."""
    from segaudit.cli import prepared, words
    from segaudit.preparations.leaking import find_leaks
    from segaudit.preparations.people import Source

    found = find_leaks(
        files,
        Source(None, participants, key, patient),
        rule=case_to_patient,
        columns=words.pairs(columns or [], "--column"),
        images=images,
        held_out=held_out,
    )
    prepared.show_leaks(found, as_json=as_json)
    raise typer.Exit(found.exit_code)


@app.command()
def cohort(
    cohort: Cohort = None,
    participants: Participants = None,
    key: Key = None,
    patient: Patient = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", help="Attribute to tabulate; by default all that can be.", metavar=_GROUPING),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", help="What makes the parts; twice or more: their crossing.", metavar=_GROUPING),
    ] = None,
    compare: Annotated[
        str | None, typer.Option("--compare", help="Test whether its parts are alike.", metavar=_GROUPING)
    ] = None,
    unit: Annotated[Unit, typer.Option("--unit", help="What --compare counts.")] = Unit.patient,
    splits: Annotated[
        Path | None, typer.Option("--splits", help="Table with case and split; then --by split is possible.")
    ] = None,
    seed: Seed = 42,
    out: Annotated[Path | None, typer.Option("-o", "--output", help="Folder to write.")] = None,
    *,
    yates: Annotated[
        bool, typer.Option("--yates", help="Correct chi square of two by two tables for continuity.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Tabulate who is in the study (Table 1), and test whether parts are alike."""
    from segaudit.cli import prepared
    from segaudit.preparations.composing import compose, write_composition

    source = _source(cohort, participants, key, patient, needed=True)
    made = compose(
        source, attribute or (), by or (), compare=compare, split=splits, unit=unit.value, yates=yates, seed=seed
    )
    written = []
    if out is not None:
        options = {
            "attributes": attribute or [],
            "by": by or [],
            "compare": compare,
            "unit": unit.value,
            "yates": yates,
            "seed": seed,
        }
        written = write_composition(made, source, out, options, splits)
    prepared.show_composition(made, out, written, as_json=as_json)


def _source(
    cohort: Path | None, participants: Path | None, key: str | None, patient: str | None, *, needed: bool
) -> Source:
    from segaudit.preparations.people import Source

    if cohort is not None and participants is not None:
        raise typer.BadParameter("give a cohort.toml or --participants, not both")
    if needed and cohort is None and participants is None:
        raise typer.BadParameter("give a cohort.toml, or --participants with --key and --patient")
    if participants is None and (key or patient):
        raise typer.BadParameter("--key and --patient name columns of --participants")
    return Source(cohort, participants, key, patient)
