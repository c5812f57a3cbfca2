"""What a person sees of a split, of leaks and of Table 1; for machines the same as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.markup import escape
from rich.table import Table

from segaudit.attributes import listing
from segaudit.cli.drawing import console, new_table, print_findings, print_json, records
from segaudit.errors import counted
from segaudit.preparations.leaking import Leaks
from segaudit.preparations.splitting import Prepared
from segaudit.splits.identities import ALL, STRATUM

if TYPE_CHECKING:  # Table 1 is drawn by the report, which split and leak need not wait for
    from segaudit.preparations.composing import Composition
    from segaudit.reports import document

_HEADS = {"(all): cases": "cases", "(all): patients": "patients", "largest std. difference": "std. diff."}
_SHOWN_LEVELS = 24
_SHOWN_LEAKS = 30
_SHOWN_POOLS = 5
_SHOWN_PARTS = 5
_WIDTH_OF_WHOLE, _WIDTH_OF_PART = 68, 17
_IN_TABLE = ("FOLD_PATIENT_LEAK", "SPLIT_PATIENT_LEAK")


def show_split(made: Prepared, folder: Path, written: Sequence[str], *, as_json: bool = False) -> None:
    """Print parts with counts and shares against their targets, what was dropped and why, and what was pooled."""
    if as_json:
        parts = {
            part.name: {"manifest": dict(part.split.manifest), "balance": records(part.split.balance)}
            for part in made.parts
        }
        findings = [asdict(finding) for finding in made.findings]
        print_json({"folder": str(folder), "written": list(written), "splits": parts, "findings": findings})
        return
    out = console()
    patients = counted(made.whole.manifest["n_patients"], "patient")
    for part in made.parts:
        title = f"Label regime '{part.name}'" if part.name else f"Split of {patients}"
        out.print(_parts_table(title, part.split.balance, part.split.dropped))
        if part.folds is not None:
            out.print(escape(_folds_line(part.folds.table)), soft_wrap=True)
    if made.strata:
        out.print(_levels_table(made.whole.balance))
    pooled = made.whole.manifest["pooled_strata"]
    if pooled:
        least = made.whole.manifest["min_patients_of_a_stratum"]
        names = listing((f"{name} ({n})" for name, n in pooled.items()), _SHOWN_POOLS)
        few = f"of fewer than {least} patients"
        fact = f"{counted(len(pooled), f'stratum {few} was', f'strata {few} were')} pooled: {names}"
        out.print(escape(fact), soft_wrap=True)
    for rule, n in sorted(Counter(made.whole.dropped["rule"].tolist()).items()):
        out.print(escape(f"dropped by '{rule}': {counted(n, 'case')} (dropped.csv says why)"), soft_wrap=True)
    print_findings(out, made.findings)
    out.print(escape(f"{folder}: {', '.join(written)}"), soft_wrap=True)


def _parts_table(title: str, balance: pd.DataFrame, dropped: pd.DataFrame) -> Table:
    names = ("part", "patients", "share", "target", "cases", "cases left out")
    shown = new_table(title, names)
    gone = Counter(dropped["split"].tolist())
    for row in balance[balance["attribute"] == ALL].to_dict("records"):
        share, target = f"{100 * row['share']:.1f} %", f"{100 * row['target_share']:.1f} %"
        cells = (row["split"], row["n_patients"], share, target, row["n_cases"], gone[row["split"]])
        shown.add_row(*(escape(str(cell)) for cell in cells))
    return shown


def _levels_table(balance: pd.DataFrame) -> Table:
    """Return the share of each level in each part, beside its share of all patients."""
    own = balance[~balance["attribute"].isin((ALL, STRATUM))]
    parts = list(dict.fromkeys(own["split"].tolist()))
    shown = new_table("Shares of patients, per cent", ("attribute", "level", "all", *parts), ("level",))
    groups = list(own.groupby(["attribute", "level"], sort=False))
    for (attribute, level), rows in groups[:_SHOWN_LEVELS]:
        shares = dict(zip(rows["split"], rows["share"], strict=True))
        cells = [f"{100 * share:.1f}" for share in (rows["target_share"].iloc[0], *(shares[part] for part in parts))]
        shown.add_row(escape(str(attribute)), escape(str(level)), *cells)
    if len(groups) > _SHOWN_LEVELS:
        shown.caption = f"and {len(groups) - _SHOWN_LEVELS} more levels in balance.csv"
    return shown


def _folds_line(table: pd.DataFrame) -> str:
    sizes = table.groupby("fold").agg(cases=("case", "size"), patients=("patient", "nunique"))
    told = ", ".join(f"{patients} ({cases})" for cases, patients in sizes.itertuples(index=False))
    return f"{len(sizes)} folds of patients (cases): {told}"


def show_leaks(found: Leaks, *, as_json: bool = False) -> None:
    """Print what was compared and shared, the images that stand twice, and what else is wrong."""
    shared = found.table[found.table["n_shared"] > 0]
    if as_json:
        tables = {"leaks": records(found.table), "duplicates": records(found.duplicates)}
        findings = [asdict(finding) for finding in found.findings]
        print_json({**tables, "findings": findings, "exit_code": found.exit_code})
        return
    out = console()
    names = ("patients of", "number", "and of", "number", "in both", "such as")
    unknown = any(finding.code == "FOLD_PATIENTS_UNCHECKED" for finding in found.findings)
    title = "Patients on two sides" + " (folds by case: whose a case is, nobody says)" * unknown
    shown = new_table(title, names, ("patients of", "and of", "such as"))
    for row in found.table.sort_values("n_shared", ascending=False, kind="stable").to_dict("records")[:_SHOWN_LEAKS]:
        cells = [row[name] for name in ("left", "n_left", "right", "n_right", "n_shared", "examples")]
        shown.add_row(*(escape(str(cell)) for cell in cells))
    out.print(shown)
    if len(found.table) > _SHOWN_LEAKS:
        out.print(f"and {len(found.table) - _SHOWN_LEAKS} more comparisons")
    if len(found.duplicates):
        twice = new_table("Images in two parts", ("cases", "patients", "parts", "such as"), ("parts", "such as"))
        for row in found.duplicates.head(_SHOWN_LEAKS).to_dict("records"):
            twice.add_row(*(escape(str(row[name])) for name in ("n_cases", "n_patients", "splits", "cases")))
        out.print(twice)
    print_findings(out, [finding for finding in found.findings if finding.code not in _IN_TABLE])
    images = f", {counted(len(found.duplicates), 'image')} in two parts" if len(found.duplicates) else ""
    verdict = {0: "no leak found", 1: "leak found", 2: "no leak found, but what was read has errors"}[found.exit_code]
    what = "cases; whose they are is not known" if unknown else "patients"
    out.print(f"{verdict}: {len(shared)} of {len(found.table)} comparisons share {what}{images}")


def show_composition(made: Composition, folder: Path | None, written: Sequence[str], *, as_json: bool = False) -> None:
    """Print Table 1 and the comparability of the parts."""
    from segaudit.preparations.composing import compared_table, tabulated

    if as_json:
        alike = None if made.comparability is None else records(made.comparability)
        told = {"folder": None if folder is None else str(folder), "written": list(written)}
        findings = [asdict(finding) for finding in made.findings]
        print_json(told | {"table1": records(made.table), "comparability": alike, "findings": findings})
        return
    out = console()
    fit = max(1, min(_SHOWN_PARTS, (out.width - _WIDTH_OF_WHOLE) // _WIDTH_OF_PART))
    out.print(_drawn(_narrow(tabulated(made), len(made.parts()), fit), ("attribute", "level")))
    if made.comparability is not None:
        out.print(_drawn(compared_table(made), ("attribute", "n")))
    print_findings(out, made.findings)
    if folder is not None:
        out.print(escape(f"{folder}: {', '.join(written)}"), soft_wrap=True)


def _narrow(block: document.Table, n_parts: int, fit: int) -> document.Table:
    """Return Table 1 for a terminal: patients of the whole only, the first parts, each attribute named once."""
    last = [len(block.columns) - 1] if n_parts > 2 else []
    kept = [0, 1, 2, 3, *(2 * part + 2 for part in range(1, min(n_parts, fit + 1))), *last]
    columns = [
        replace(block.columns[i], title=_HEADS.get(block.columns[i].title, block.columns[i].title)) for i in kept
    ]
    rows, before = [], ""
    for row in block.rows:
        name = replace(row[0], text="") if row[0].text == before else row[0]
        before = row[0].text
        rows.append((name, *(row[i] for i in kept[1:])))
    more = f" {n_parts - 1 - fit} more parts are in table1.csv (-o FOLDER)." if n_parts - 1 > fit else ""
    return replace(block, columns=tuple(columns), rows=tuple(rows), caption=block.caption + more)


def _drawn(block: document.Table, folding: Sequence[str]) -> Table:
    shown = new_table(block.title, [column.title for column in block.columns], folding)
    for row in block.rows:
        shown.add_row(*(escape(cell.text) for cell in row))
    for column, about in zip(shown.columns, block.columns, strict=True):
        column.justify = about.align
    shown.caption = escape(block.caption)
    shown.caption_justify = "left"
    return shown
