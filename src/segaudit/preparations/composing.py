"""Table 1 and the comparability of parts: as data, and as tables for a page and for LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit import splits
from segaudit.attributes import ALIASES, listing
from segaudit.cohorts import Cohort
from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.participants import stem
from segaudit.preparations.people import (
    MANY_VALUES,
    Source,
    column_of,
    declarations,
    fitted,
    levels,
    parse_options,
    read_cases,
)
from segaudit.provenance import Step, inputs
from segaudit.reports.document import Cell, Column, Document, Section, Table, prose
from segaudit.reports.html_pages import to_html
from segaudit.reports.latex_tables import table_to_latex
from segaudit.reports.numbers import count, p_value, ratio
from segaudit.sheets import read_sheet
from segaudit.splits.balances import Unit
from segaudit.splits.compositions import NUMBER, TOP_CODED
from segaudit.splits.identities import ALL, column_faults, stranger_faults
from segaudit.store import RunDirectory

_HTML, _STEP = "cohort.html", "cohort"


@dataclass(frozen=True)
class Composition:
    """Table 1 and, where parts were compared, how alike they are.

    Attributes
    ----------
    table : DataFrame
        Columns of `segaudit.splits.composition`.
    comparability : DataFrame or None
        Columns of `segaudit.splits.comparability`.
    by : tuple of str
        What makes the parts of Table 1.
    compared : str
        What makes the parts that are compared; empty without.
    findings : tuple of Finding
    """

    table: pd.DataFrame
    comparability: pd.DataFrame | None
    by: tuple[str, ...]
    compared: str
    findings: tuple[Finding, ...]

    def parts(self) -> list[str]:
        """Return the parts in order, (all) first."""
        return list(dict.fromkeys(self.table["part"].tolist()))


def compose(
    source: Source,
    attributes: Sequence[str] = (),
    by: Sequence[str] = (),
    *,
    compare: str | None = None,
    split: Path | None = None,
    unit: Unit = "patient",
    yates: bool = False,
    seed: int,
) -> Composition:
    """Return Table 1 of a cohort and the comparability of its parts.

    Parameters
    ----------
    source : Source
    attributes : sequence of str
        Short forms of groupings; a name alone is a text with its levels, or a number that is summarised. By default
        every attribute that can be tabulated, sex, age, race and ethnicity first.
    by : sequence of str
        Short forms of the groupings whose crossing makes the parts of Table 1.
    compare : str, optional
        Short form of the grouping whose parts are compared.
    split : Path, optional
        A table with case and split: only its cases are tabulated, and `split` is an attribute.
    unit : {"patient", "case"}
        What is counted when parts are compared.
    yates : bool
        Correct chi square of two by two tables for continuity.
    seed : int
        As in `segaudit.splits.comparability`.

    Raises
    ------
    AuditError
        ATTRIBUTES_NONE, and the codes of reading, groupings, `composition` and `comparability`.
    """
    named = parse_options({"--attribute": attributes, "--by": by, "--compare": [compare] if compare else []})
    cohort = read_cases(source, declarations(g for some in named.values() for g in some), every=True)
    notes = list(cohort.findings)
    cases = cohort.cases if split is None else _in_split(cohort.cases, split, notes)
    plain = [g for g in named["--attribute"] if not (g.parts or g.cuts or g.levels)]
    grouped = {**named, "--attribute": [g for g in named["--attribute"] if g not in plain]}
    raise_errors(fault for g in plain if (fault := column_of(g.attribute, cases, f"--attribute {g.name}")))
    parts = fitted(grouped, cases)
    making = [*parts["--by"], *parts["--compare"]]
    taken = {g.name for g in making}
    kept = [g.name for g in named["--attribute"]] or _usual(cohort, cases, taken, notes)
    table = cases.assign(**{g.name: levels(g, cases) for g in (*making, *parts["--attribute"])})
    by_names = tuple(g.name for g in parts["--by"])
    made = splits.composition(table, [name for name in kept if name not in by_names], by=by_names)
    compared = parts["--compare"][0].name if compare else ""
    alike = None
    if compared:
        own = [name for name in kept if name != compared]
        if not own:
            fact = f"no attribute but '{compared}' is tabulated: there is nothing to compare."
            raise AuditError(Finding("ATTRIBUTES_NONE", fact, f"--compare {compared}", "name more with --attribute."))
        alike = splits.comparability(table, compared, own, unit=unit, seed=seed, yates=yates)
    used = {name for option in parts.values() for g in option for name in g.attributes} | set(kept)
    return Composition(made, alike, by_names, compared, tuple(_on(notes, cohort, used)))


def _on(notes: Sequence[Finding], cohort: Cohort, used: set[str]) -> list[Finding]:
    """Return the findings but for those on columns that are in no table; those on unexplained codes as one."""
    idle = tuple(f"column '{one.column}'" for name, one in cohort.attributes.items() if name not in used)
    found = [finding for finding in notes if not finding.where.endswith(idle)]
    codes = [finding for finding in found if finding.code == "LEVEL_CODES_UNEXPLAINED"]
    if len(codes) < 2:
        return found
    columns = listing([finding.where.rpartition(", ")[2].removeprefix("column ") for finding in codes], 12)
    fact = f"{len(codes)} columns hold few numbers, which no data dictionary explains; kept as levels ({columns})."
    one = replace(codes[0], message=fact, where=codes[0].where.rpartition(", ")[0])
    return [one, *(finding for finding in found if finding not in codes)]


def _in_split(cases: pd.DataFrame, path: Path, notes: list[Finding]) -> pd.DataFrame:
    """Return the cases of a split table, with their part as an attribute; those in no part are counted in a note."""
    read = read_sheet(path).table
    raise_errors(column_faults(read, ("case", "split"), str(path)))
    part_of = {stem(case): part.strip() for case, part in zip(read["case"], read["split"], strict=True)}
    raise_errors(stranger_faults(pd.DataFrame({"case": list(part_of)}), cases))
    inside = cases.assign(split=cases["case"].map(part_of)).dropna(subset=["split"])
    if len(inside) < len(cases):
        fact = f"{len(cases) - len(inside)} of {len(cases)} cases are in no part and are not tabulated."
        notes.append(Finding("CASES_IN_NO_PART", fact, str(path), "see its dropped.csv.", "warning"))
    return inside.reset_index(drop=True)


def _usual(cohort: Cohort, cases: pd.DataFrame, taken: set[str], notes: list[Finding]) -> list[str]:
    """Return the attributes that can be tabulated; a note names those with too many levels."""
    first = [name for name in ALIASES if name in cohort.attributes]
    names = [name for name in dict.fromkeys([*first, *cohort.attributes]) if name not in taken]
    left = [name for name in names if not _is_short(cases[name])]
    if left:
        fact = f"{len(left)} columns of many levels are not in the table ({listing(left)})."
        notes.append(Finding("ATTRIBUTES_LEFT_OUT", fact, "Table 1", "name them with --attribute.", "note"))
    if len(left) == len(names):
        fix = "name attributes with --attribute."
        raise AuditError(Finding("ATTRIBUTES_NONE", "no attribute can be tabulated.", "Table 1", fix))
    return [name for name in names if name not in left]


def _is_short(column: pd.Series) -> bool:
    """Return whether an attribute is a number, or has few levels that cases share."""
    return pd.api.types.is_float_dtype(column) or column.nunique() <= min(MANY_VALUES, max(2, column.count() // 2))


def tabulated(made: Composition) -> Table:
    """Return Table 1 as it is printed: a row a level, two columns a part."""
    parts = made.parts()
    columns = [Column("attribute", filter=True), Column("level")]
    columns += [Column(f"{part}: {unit}", "right") for part in parts for unit in ("cases", "patients")]
    differ = len(parts) > 2
    if differ:
        columns.append(Column("largest std. difference", "right"))
    by_level: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in made.table.to_dict("records"):
        by_level.setdefault((str(row["attribute"]), str(row["level"])), {})[str(row["part"])] = {
            str(name): value for name, value in row.items()
        }
    rows = []
    for (attribute, level), own in by_level.items():
        if level in {"(missing)", TOP_CODED} and not own[ALL]["n_cases"]:
            continue  # nothing is missing
        cells = [cell for part in parts for cell in _cells(own.get(part), attribute, level)]
        rows.append((Cell(_words(attribute)), Cell(_words(level)), *cells))
        if differ:
            rows[-1] = (*rows[-1], ratio(own[ALL]["max_std_difference"]))
    caption = "Count (per cent of the part). A number: mean (standard deviation), with median, quartiles and range."
    return Table("table1", "Table 1", tuple(columns), tuple(rows), caption, sortable=True)


def _words(name: str) -> str:
    return {ALL: "all", NUMBER: "mean (SD)", "(missing)": "missing", TOP_CODED: "top-coded"}.get(name, name)


def _cells(row: Mapping[str, Any] | None, attribute: str, level: str) -> tuple[Cell, Cell]:
    if row is None:
        return count(0), count(0)
    if level == NUMBER and not pd.isna(row["mean"]):
        sd = "" if pd.isna(row["sd"]) else f" ({row['sd']:.1f})"
        spread = f"median {row['median']:g} [{row['q25']:g}, {row['q75']:g}], {row['min']:g} to {row['max']:g}"
        return Cell(f"{row['mean']:.1f}{sd}", float(row["mean"]), spread), count(row["n_patients"])
    if attribute == ALL:
        return count(row["n_cases"]), count(row["n_patients"])
    found = []
    for unit in ("cases", "patients"):
        n, share = int(row[f"n_{unit}"]), row[f"pct_{unit}"]
        found.append(Cell(f"{n:,} ({share:.1f})", float(n)))
    return found[0], found[1]


def compared_table(made: Composition) -> Table:
    """Return the comparability as it is printed: test, size, q and verdict of each attribute."""
    heads = ("attribute", "test", "statistic", "p", "q", "effect", "size", "n", "verdict")
    columns = tuple(Column(name, "right" if name in {"statistic", "p", "q", "size"} else "left") for name in heads)
    told = made.comparability if made.comparability is not None else pd.DataFrame()
    rows = tuple(
        (
            Cell(str(row["attribute"])),
            Cell(str(row["test"]).replace("_", " ")),
            ratio(row["statistic"]),
            p_value(row["p"]),
            p_value(row["q"]),
            Cell(str(row["effect_name"]).replace("_", " ")),
            ratio(row["effect"], 3),
            Cell(str(row["n"]), note=f"missing: {row['missing']}"),
            Cell(str(row["verdict"])),
        )
        for row in told.to_dict("records")
    )
    alpha = f"{told['alpha'].iloc[0]:g}" if len(told) else ""
    caption = f"q: Benjamini-Hochberg over all rows; gap found: q below {alpha}. A large q does not say that parts are "
    return Table("comparability", f"Comparability by {made.compared}", columns, rows, f"{caption}alike.")


def document(made: Composition) -> Document:
    """Return both tables as a document."""
    tables = [tabulated(made), *([compared_table(made)] if made.comparability is not None else [])]
    whole = made.table.iloc[0]
    facts = (("cases", count(whole["n_cases"])), ("patients", count(whole["n_patients"])))
    sections = tuple(Section(f"s-{table.name}", table.title, (table,)) for table in tables)
    warned = [finding for finding in made.findings if finding.level == "warning"]
    if warned:
        notes = tuple(prose(f"{finding.code}: {finding.message}", role="note") for finding in warned)
        sections = (*sections, Section("notes", "Notes", notes))
    return Document("Cohort", facts, sections)


def write_composition(
    made: Composition, source: Source, out: Path, options: Mapping[str, Any], split: Path | None = None
) -> list[str]:
    """Write table1 and comparability as CSV and LaTeX, and both as cohort.html; return their names."""
    page = document(made)
    files = {_HTML: to_html(page)}
    frames = {"table1": made.table} | ({} if made.comparability is None else {"comparability": made.comparability})
    for block in page.blocks():
        if isinstance(block, Table):
            files[f"{block.name}.tex"] = table_to_latex(block)
            files[f"{block.name}.csv"] = frames[block.name].to_csv(index=False, lineterminator="\n")
    run = RunDirectory(out, create=True)
    for name, text in files.items():
        run.write_bytes(name, text.encode())
    read = inputs([*source.files(), *([split] if split else [])], run.told)
    run.record(Step(_STEP, dict(options), read), list(files))
    return [*sorted(files), "steps.json"]
