"""Groupings: how an attribute divides the cases into groups; data, not code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from segaudit.errors import AuditError, Finding, Level, did_you_mean

JOIN = " & "
MANY_VALUES = 20  # a number of more values makes no groups by itself
_SPEC = re.compile(r"^(?P<attribute>[^=:*]+?)\s*(?:=(?P<levels>[^=:*]+)|:(?P<cuts>[-+0-9.,\s]+))?$")


@dataclass(frozen=True)
class Grouping:
    """A rule that puts a case into a group.

    Attributes
    ----------
    name : str
    attribute : str
        Column of the cases; empty for a crossing.
    levels : tuple of str
        Groups in order, the first is the reference group. Empty until `resolve` takes them from the participants.
    cuts : tuple of float
        Ascending; group i holds values from cut i-1 up to, not including, cut i.
    values : mapping of str to tuple of str
        Raw values of a level, where they are not the level itself.
    parts : tuple of Grouping
        Of a crossing.
    """

    name: str
    attribute: str = ""
    levels: tuple[str, ...] = ()
    cuts: tuple[float, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: tuple[Grouping, ...] = ()

    @property
    def attributes(self) -> tuple[str, ...]:
        """Columns of the cases that it reads."""
        return tuple(a for part in self.parts for a in part.attributes) if self.parts else (self.attribute,)


def by_level(
    name: str, *levels: str, attribute: str | None = None, values: Mapping[str, Sequence[str]] | None = None
) -> Grouping:
    """Return a grouping by the levels of an attribute.

    Parameters
    ----------
    name : str
        Name of the grouping and, unless `attribute` is given, of the attribute.
    *levels : str
        Groups, the first is the reference group; none for all levels that occur among the participants, sorted.
    values : mapping of str to sequence of str, optional
        Raw values that a level stands for, e.g. {"Other": ["Asian", "Native Hawaiian"]}.

    Raises
    ------
    AuditError
        GROUPING_LEVELS when a level is named twice.

    Examples
    --------
    >>> by_level("sex", "Female", "Male").levels
    ('Female', 'Male')
    """
    _refuse_doubles(name, levels)
    stands = {level: tuple(raw) for level, raw in (values or {}).items()}
    return Grouping(name, attribute or name, tuple(levels), values=stands)


def by_cuts(name: str, attribute: str, *cuts: float, labels: Sequence[str] | None = None) -> Grouping:
    """Return a grouping of a number by cuts: below the first, from each up to the next, from the last on.

    Raises
    ------
    AuditError
        GROUPING_CUTS when there is no cut, one is no number, or they do not ascend; GROUPING_LEVELS when the labels
        do not fit.

    Examples
    --------
    >>> by_cuts("age_band", "age", 40, 60).levels
    ('<40', '40-60', '60+')
    """
    numbers = tuple(float(cut) for cut in cuts)
    if not numbers or not all(np.isfinite(numbers)) or any(a >= b for a, b in itertools.pairwise(numbers)):
        fact = f"the cuts of '{name}' are {', '.join(f'{cut:g}' for cut in numbers) or 'not given'}."
        raise AuditError(Finding("GROUPING_CUTS", fact, f"grouping '{name}'", "give ascending numbers."))
    shown = [f"{cut:g}" for cut in numbers]
    levels = tuple(labels or (f"<{shown[0]}", *(f"{a}-{b}" for a, b in itertools.pairwise(shown)), f"{shown[-1]}+"))
    _refuse_doubles(name, levels)
    if len(levels) != len(numbers) + 1:
        fact = f"'{name}' has {len(numbers)} cuts and {len(levels)} labels."
        raise AuditError(Finding("GROUPING_LEVELS", fact, f"grouping '{name}'", f"give {len(numbers) + 1} labels."))
    return Grouping(name, attribute, levels, numbers)


def crossing(*parts: Grouping, name: str | None = None) -> Grouping:
    """Return the grouping whose groups are the combinations of the parts' groups.

    Raises
    ------
    AuditError
        GROUPING_TWICE when two parts divide the same attribute.

    Examples
    --------
    >>> crossing(by_level("sex", "Female", "Male"), by_cuts("age", "age", 60)).levels
    ('Female & <60', 'Female & 60+', 'Male & <60', 'Male & 60+')
    """
    attributes = [attribute for part in parts for attribute in part.attributes]
    doubled = sorted({attribute for attribute in attributes if attributes.count(attribute) > 1})
    if doubled:
        fact = f"the crossing divides {', '.join(repr(one) for one in doubled)} twice."
        where = f"grouping '{name or '*'.join(part.name for part in parts)}'"
        raise AuditError(Finding("GROUPING_TWICE", fact, where, "cross attributes that differ."))
    levels = tuple(JOIN.join(combination) for combination in itertools.product(*(part.levels for part in parts)))
    return Grouping(name or "*".join(part.name for part in parts), levels=levels, parts=parts)


def parse(spec: str) -> Grouping:
    """Return the grouping of a short form: `sex`, `race=White,Black`, `age:40,60` or `sex*age:60`.

    Raises
    ------
    AuditError
        GROUPING_SPEC when the form is none of these; the codes of `by_level` and `by_cuts`.
    """
    if "*" in spec:
        return crossing(*(parse(part) for part in spec.split("*")))
    match = _SPEC.match(spec.strip())
    if match is None:
        raise _bad_spec(spec)
    attribute = match["attribute"].strip()
    if match["cuts"] is not None:
        try:
            return by_cuts(attribute, attribute, *(float(cut) for cut in match["cuts"].split(",")))
        except ValueError:
            raise _bad_spec(spec) from None
    levels = [level.strip() for level in match["levels"].split(",")] if match["levels"] else []
    if any(not level for level in levels):
        raise _bad_spec(spec)
    return by_level(attribute, *levels)


def parse_all(specs: Sequence[str]) -> tuple[Grouping, ...]:
    """Return the groupings of several short forms; a second grouping of one name is named by its form."""
    groupings: list[Grouping] = []
    for spec in specs:
        grouping = parse(spec)
        taken = {other.name for other in groupings}
        if grouping.name in taken:
            grouping = replace(grouping, name=spec.replace(" ", ""))
        if grouping.name in taken:
            raise AuditError(Finding("GROUPING_TWICE", f"'{spec}' is asked for twice.", f"--by {spec}", "remove one."))
        groupings.append(grouping)
    return tuple(groupings)


def resolve(grouping: Grouping, cases: pd.DataFrame) -> Grouping:
    """Return the grouping with its levels: declared ones as they are, else those that occur, sorted.

    Raises
    ------
    AuditError
        UNKNOWN_ATTRIBUTE when the cases have no such column; GROUPING_NOT_NUMERIC when cuts meet words.
    """
    if grouping.parts:
        return replace(crossing(*(resolve(part, cases) for part in grouping.parts)), name=grouping.name)
    if grouping.attribute not in cases.columns:
        raise AuditError(unknown_attribute(grouping.attribute, cases.columns, f"grouping '{grouping.name}'"))
    column = cases[grouping.attribute]
    if grouping.cuts and not pd.api.types.is_numeric_dtype(column):
        words = column.dropna()
        held = f"words, such as '{words.iloc[0]}'" if len(words) else "nothing"
        fact = f"cuts need numbers, and '{grouping.attribute}' holds {held}."
        fix = "declare it as kind = 'number' or 'age', or group it by levels."
        raise AuditError(Finding("GROUPING_NOT_NUMERIC", fact, f"grouping '{grouping.name}'", fix))
    if grouping.levels:
        _refuse_strangers(grouping, column)
        return grouping
    return replace(grouping, levels=tuple(sorted(_as_text(column.dropna()).unique())))


def attribute_names(columns: Iterable[str]) -> list[str]:
    """Return the columns of the cases that a grouping may name."""
    return [name for name in columns if name not in ("case", "patient") and not name.endswith("_top_coded")]


def unknown_attribute(name: str, columns: Iterable[str], where: str) -> Finding:
    """Return what to say where the cases have no such column."""
    fix = did_you_mean(name, attribute_names(columns))
    return Finding("UNKNOWN_ATTRIBUTE", f"there is no attribute '{name}'.", where, fix)


def cuts_needed(name: str, cases: pd.DataFrame, where: str, level: Level = "error") -> Finding:
    """Return what to say where a number of many values is to make groups."""
    fact = f"'{name}' is a number with {cases[name].nunique()} values, and no cuts such as {name}:40,60 are given."
    return Finding("GROUPING_NEEDS_CUTS", fact, where, f"write its cuts: {name}:40,60.", level)


def assign(grouping: Grouping, cases: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the group of each case and, where it has none, the reason.

    Parameters
    ----------
    grouping : Grouping
        Resolved.
    cases : DataFrame
        One row a case.

    Returns
    -------
    group, reason : Series of str
        Aligned with the rows of `cases`; an empty group stands beside a reason, and an empty reason beside a group.
    """
    if grouping.parts:
        return _assign_crossing(grouping, cases)
    column = cases[grouping.attribute]
    missing = column.isna()
    if grouping.cuts:
        group, reason = _assign_cuts(grouping, cases)
    else:
        level_of = {raw: level for level in grouping.levels for raw in grouping.values.get(level, (level,))}
        group = _as_text(column).map(level_of).fillna("")
        reason = "'" + _as_text(column) + "' is no group of this grouping"
    group = group.where(~missing, "").astype("str")
    reason = reason.where(~missing, f"{grouping.attribute} is missing").astype("str")
    return group, reason.where(group == "", "")


def _assign_cuts(grouping: Grouping, cases: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    column = cases[grouping.attribute].astype("float64")
    index = np.searchsorted(np.asarray(grouping.cuts), column.to_numpy(), side="right")
    group = pd.Series(
        np.asarray(grouping.levels, dtype=object)[np.minimum(index, len(grouping.cuts))], index=cases.index
    )
    # A top-coded value is a lower bound: its group is known only when no cut lies above it.
    open_ended = cases.get(f"{grouping.attribute}_top_coded", pd.Series(data=False, index=cases.index)).fillna(
        value=False
    )
    unknown = open_ended.astype(bool) & (index < len(grouping.cuts))
    reason = pd.Series(f"{grouping.attribute} is top-coded below the cut at {grouping.cuts[-1]:g}", index=cases.index)
    return group.where(~unknown, ""), reason


def _assign_crossing(grouping: Grouping, cases: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    assigned = [assign(part, cases) for part in grouping.parts]
    groups = list(zip(*(group for group, _ in assigned), strict=True))
    reasons = list(zip(*(reason for _, reason in assigned), strict=True))
    group = [JOIN.join(parts) if all(parts) else "" for parts in groups]
    reason = ["; ".join(part for part in parts if part) for parts in reasons]
    return pd.Series(group, cases.index, dtype="str"), pd.Series(reason, cases.index, dtype="str")


def _as_text(column: pd.Series) -> pd.Series:
    if pd.api.types.is_float_dtype(column):
        return column.map(lambda value: f"{value:g}", na_action="ignore").astype(object)
    return column.astype(object).map(str, na_action="ignore")


def _refuse_strangers(grouping: Grouping, column: pd.Series) -> None:
    """Raise where no declared level occurs: a typing error, or the levels of another coding."""
    if grouping.cuts:
        return
    present = set(_as_text(column.dropna()))
    if present and not any(raw in present for level in grouping.levels for raw in grouping.values.get(level, (level,))):
        fact = f"no case is {' or '.join(repr(level) for level in grouping.levels)}."
        fix = f"the levels of '{grouping.attribute}' are {', '.join(sorted(present)[:12])}."
        raise AuditError(Finding("GROUPING_LEVELS_ABSENT", fact, f"grouping '{grouping.name}'", fix))


def _refuse_doubles(name: str, levels: Sequence[str]) -> None:
    doubled = sorted({level for level in levels if levels.count(level) > 1})
    if doubled:
        fact = f"'{name}' names {', '.join(doubled)} twice."
        raise AuditError(Finding("GROUPING_LEVELS", fact, f"grouping '{name}'", "name each group once."))


def _bad_spec(spec: str) -> AuditError:
    fix = "use sex, race=White,Black (levels), age:40,60 (cuts) or sex*age:60 (crossing)."
    return AuditError(Finding("GROUPING_SPEC", f"'{spec}' is no grouping.", f"--by {spec}", fix))
