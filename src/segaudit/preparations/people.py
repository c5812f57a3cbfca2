"""Who is in the study: cases from a cohort.toml or a participants table, and their levels under groupings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from segaudit.attributes import UNUSABLE, Declaration, canonical, listing
from segaudit.cohorts import Cohort, make_cohort, read_cohort
from segaudit.config.base import read_toml
from segaudit.config.cohort import CohortFile
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.groupings import JOIN, Grouping, assign, cuts_needed, parse, resolve, unknown_attribute
from segaudit.participants import Participants, read_participants

MISSING = "(missing)"
OTHER = "(other)"
TOP_CODED = "(top-coded)"
MANY_VALUES = 20
"""A column of numbers with more distinct values is summarised; one of words with more is no attribute to tabulate."""


@dataclass(frozen=True)
class Source:
    """Where the cases stand: in a cohort.toml, or in a participants table with its key and its patient column."""

    cohort: Path | None = None
    participants: Path | None = None
    key: str | None = None
    patient: str | None = None

    def given(self) -> bool:
        """Return whether a file is named."""
        return self.cohort is not None or self.participants is not None

    def files(self) -> list[Path]:
        """Return the files that the cases are read from."""
        if self.participants is not None:
            return [self.participants]
        if self.cohort is None:
            return []
        entry = read_toml(self.cohort, CohortFile).participants
        table = [self.cohort.parent / Path(entry.file).expanduser()] if entry and entry.file else []
        return [self.cohort, *table]


NOBODY = Source()


def read_cases(source: Source, declared: Mapping[str, Declaration], *, every: bool = False) -> Cohort:
    """Return the cohort of a source.

    Of a participants table the declared attributes are read, with `every` all columns; each is the case's, since the
    exams of a patient may differ. A cohort.toml says for itself what it holds.

    Raises
    ------
    AuditError
        CASES_NEEDED, and the codes of `read_cohort` or `read_participants`.
    """
    if source.cohort is not None:
        return read_cohort(source.cohort)
    if source.participants is None:
        fix = "give a cohort.toml, or --participants with --key and --patient."
        raise AuditError(Finding("CASES_NEEDED", "nothing names the cases.", "command line", fix))
    path, key, patient = source.participants, source.key, source.patient
    if every:
        declared = _every_column(read_participants(path, key=key, patient=patient), declared)
    return make_cohort(path.stem, (), read_participants(path, key=key, patient=patient, attributes=declared))


def _every_column(read: Participants, declared: Mapping[str, Declaration]) -> dict[str, Declaration]:
    """Return every attribute of a table, under the name that is asked for; what holds many numbers is a number."""
    columns = dict(read.attributes)
    for name in declared.keys() - columns.keys():
        try:
            asked = read.attribute(name).attribute
        except AuditError:
            continue  # the option that asks for it says so
        columns = {own: one for own, one in columns.items() if own in declared or one.column != asked.column}
        columns[name] = asked
    found = {}
    for name, attribute in columns.items():
        kind = (declared[name].kind if name in declared else None) or attribute.kind
        if kind == "level" and _holds_numbers(read, name):
            kind = "number"
        found[name] = Declaration(attribute.column, kind, "case")
    return found


def _holds_numbers(read: Participants, name: str) -> bool:
    numbers = read.attribute(name, "number")
    known = {value for value in numbers.values if value is not None}
    return len(known) > MANY_VALUES and not any(reason in UNUSABLE for reason in numbers.reasons)


def parse_options(asked: Mapping[str, Sequence[str]]) -> dict[str, tuple[Grouping, ...]]:
    """Return the groupings of each option.

    A bare name that an earlier option has grouped (`age` after `age:40,60`) means that grouping; another grouping of a
    taken name is named by its form.

    Parameters
    ----------
    asked : mapping of option to short forms
        Such as {"--stratify": ["sex", "age:40,60"], "--keep": ["age"]}.

    Raises
    ------
    AuditError
        GROUPING_SPEC, GROUPING_CUTS, GROUPING_LEVELS, GROUPING_TWICE: all of them at once.
    """
    known: dict[str, Grouping] = {}
    found: dict[str, tuple[Grouping, ...]] = {}
    faults: list[Finding] = []
    for option, forms in asked.items():
        own: dict[str, Grouping] = {}
        earlier = dict(known)
        for form in forms:
            where = f"{option} {form}"
            try:
                grouping = earlier.get(form.strip()) or parse(form)
            except AuditError as error:
                faults += [replace(finding, where=where) for finding in error.findings]
                continue
            if known.get(grouping.name, grouping) != grouping:
                grouping = replace(grouping, name=form.replace(" ", ""))
            if grouping.name in own:
                faults.append(Finding("GROUPING_TWICE", f"'{form}' is asked for twice.", where, "remove one."))
            own[grouping.name] = known[grouping.name] = grouping
        found[option] = tuple(own.values())
    raise_errors(faults)
    return found


def declarations(groupings: Iterable[Grouping], columns: Iterable[str] = ()) -> dict[str, Declaration]:
    """Return how a participants table is read for groupings: what has cuts as a number, unless it is an age."""
    declared = {name: Declaration(of="case") for name in columns}
    for grouping in groupings:
        for part in grouping.parts or (grouping,):
            if part.cuts and canonical(part.attribute) != "age":
                declared[part.attribute] = Declaration(kind="number", of="case")
            else:
                declared.setdefault(part.attribute, Declaration(of="case"))
    return declared


def fitted(groupings: Mapping[str, Sequence[Grouping]], cases: pd.DataFrame) -> dict[str, list[Grouping]]:
    """Return the groupings of each option with their levels.

    Raises
    ------
    AuditError
        UNKNOWN_ATTRIBUTE, GROUPING_NOT_NUMERIC, GROUPING_NEEDS_CUTS, ATTRIBUTE_EMPTY: all of them at once.
    """
    found: dict[str, list[Grouping]] = {option: [] for option in groupings}
    faults: dict[Finding, None] = {}
    for option, asked in groupings.items():
        for grouping in asked:
            try:
                one = resolve(grouping, cases)
            except AuditError as error:
                faults |= {replace(finding, where=f"{option} {grouping.name}"): None for finding in error.findings}
                continue
            faults |= dict.fromkeys(_unfit(one, cases, option))
            found[option].append(one)
    raise_errors(faults)
    return found


def _unfit(grouping: Grouping, cases: pd.DataFrame, option: str) -> list[Finding]:
    faults = []
    for part in grouping.parts or (grouping,):
        column, name = cases[part.attribute], part.attribute
        where = f"{option} {grouping.name}"
        if not column.notna().any():
            fact = f"no case has a value of '{name}' that can be used" + (" as a number." if part.cuts else ".")
            faults.append(Finding("ATTRIBUTE_EMPTY", fact, where, "check the column, or its missing codes."))
        elif pd.api.types.is_float_dtype(column) and not part.cuts:
            faults.append(cuts_needed(name, cases, where))
    return faults


def levels(grouping: Grouping, cases: pd.DataFrame) -> pd.Series:
    """Return the level of each case as text, null where the value is missing.

    A value that is in no group of the grouping is (other), an age that is top-coded below the last cut (top-coded).
    """
    if grouping.parts:
        parts = [levels(part, cases).fillna(MISSING).tolist() for part in grouping.parts]
        rows = zip(*parts, strict=True)
        joined = [None if all(level == MISSING for level in row) else JOIN.join(row) for row in rows]
        return pd.Series(joined, cases.index, dtype=object)
    group, _ = assign(grouping, cases)
    unknown = pd.Series(TOP_CODED if grouping.cuts else OTHER, cases.index)
    return group.where(group != "", unknown).where(cases[grouping.attribute].notna(), None).astype(object)


def level_table(groupings: Sequence[Grouping], cases: pd.DataFrame) -> pd.DataFrame | None:
    """Return case and one column of levels a grouping; None without groupings."""
    if not groupings:
        return None
    return pd.DataFrame({"case": cases["case"], **{one.name: levels(one, cases) for one in groupings}})


def differing(table: pd.DataFrame | None, cases: pd.DataFrame) -> list[Finding]:
    """Return a warning for each attribute in which the cases of a patient differ: one of them decides."""
    found: list[Finding] = []
    if table is None:
        return found
    patients = cases.set_index("case")["patient"]
    for name in table.columns.drop("case"):
        own = pd.DataFrame({"patient": table["case"].map(patients), "level": table[name]}).dropna()
        counts = own.drop_duplicates().groupby("patient").size()
        torn = sorted(counts[counts > 1].index.tolist())
        if torn:
            whose = f"{counted(len(torn), 'patient')} differ ({listing(torn)})"
            fact = f"{name}: the cases of {whose}; the first case decides."
            found.append(Finding("STRATUM_VARIES", fact, f"attribute '{name}'", "mend what is wrong.", "warning"))
    return found


def column_of(name: str, cases: pd.DataFrame, option: str) -> Finding | None:
    """Return UNKNOWN_ATTRIBUTE where the cases have no such column."""
    return None if name in cases.columns else unknown_attribute(name, cases.columns, option)
