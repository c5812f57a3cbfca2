"""Leave out cases until the levels of an attribute are equally many in each part, and say which and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from segaudit.errors import Finding, counted, raise_errors
from segaudit.splits.assignments import Split
from segaudit.splits.deals import RULE, describe, strata_faults, strata_or_none, stratum_key
from segaudit.splits.evenness import balance_table
from segaudit.splits.identities import (
    Level,
    by_case,
    case_faults,
    column_faults,
    first_known,
    keyed_order,
    listed,
    patients_of,
    stranger_faults,
)
from segaudit.splits.quotas import Key, round_quotas
from segaudit.splits.schemas import DROPPED, SPLITS

Unit = Literal["patient", "case"]


def balance(
    split: Split,
    cases: pd.DataFrame,
    attribute: str,
    *,
    unit: Unit = "patient",
    keep: pd.DataFrame | None = None,
    seed: int,
) -> Split:
    """Return the split with equally many patients (or cases) of each level of an attribute in each part.

    Parameters
    ----------
    split : Split
        From `assign`, `balance` or `regimes`.
    cases : DataFrame
        case, patient and the attribute, for every case of the split.
    attribute : str
        Column of `cases`. Its levels are those of the whole split.
    unit : {"patient", "case"}
        What is counted and dropped: patients with all their cases, each at the level of the first of its cases, in
        sorted order, that has one; or single cases.
    keep : DataFrame, optional
        case, then text columns: their crossed shares within each level and part are kept, each stratum within one.
    seed : int
        Names the order in which members of a stratum are kept.

    Returns
    -------
    Split
        In each part every level has the count of its rarest one. `dropped` has one row more for each case left out.

    Raises
    ------
    AuditError
        The codes of `assign` on cases and strata; SPLIT_CASE_UNKNOWN; BALANCE_LEVELS_TOO_FEW; BALANCE_LEVEL_ABSENT with
        the counts of each part that lacks a level.

    Notes
    -----
    Cases (patients) whose level is not known are dropped: they cannot be balanced.
    """
    raise_errors([*case_faults(cases), *column_faults(cases, [attribute]), *strata_faults(split.splits, keep)])
    raise_errors(stranger_faults(split.splits, cases))
    members = _members(split, cases, attribute, keep, unit)
    raise_errors(_unbalanceable(members, attribute, unit))
    rule = f"balance {attribute}"
    reasons = _reasons(members, attribute, unit, keyed_order(members.part_of, seed, f"{RULE} {rule}"))
    why = split.splits["case"].map(members.of_case).map(reasons)
    table = SPLITS.frame(split.splits[why.isna()])
    out = split.splits.assign(rule=rule, reason=why)[why.notna()].drop(columns="stratum")
    keeping = [] if keep is None else [name for name in keep.columns if name != "case"]
    step = {"rule": f"{RULE} {rule}", "unit": unit, "keep": keeping, "seed": seed, "n_dropped": len(out)}
    manifest = {**split.manifest, "balanced": [*split.manifest.get("balanced", []), step], **describe(table)}
    attributes = split.strata
    if attribute not in attributes.columns:
        attributes = attributes.merge(cases[["case", attribute]], on="case", how="left")
    return replace(
        split,
        splits=table,
        balance=balance_table(table, attributes, split.targets()),
        manifest=manifest,
        dropped=DROPPED.frame(pd.concat([split.dropped, out])),
    )


@dataclass(frozen=True)
class _Members:
    """What is counted: the member that each case belongs to, and each member's part, level and stratum to keep."""

    of_case: Mapping[str, str]
    part_of: Mapping[str, str]
    level_of: Mapping[str, Level]
    key_of: Mapping[str, Key]

    def counts(self) -> Counter[tuple[str, str]]:
        """Return the members of each part and level."""
        held = ((part, self.level_of[one]) for one, part in self.part_of.items())
        return Counter((part, level) for part, level in held if level is not None)

    def levels(self) -> list[str]:
        return sorted({level for level in self.level_of.values() if level is not None})

    def parts(self) -> list[str]:
        return sorted(set(self.part_of.values()))


def _members(split: Split, cases: pd.DataFrame, attribute: str, keep: pd.DataFrame | None, unit: Unit) -> _Members:
    table = split.splits
    part_of = dict(zip(table["case"].tolist(), table["split"].tolist(), strict=True))
    of_case = patients_of(table) if unit == "patient" else {case: case for case in part_of}
    strata = strata_or_none(table, keep)
    keys = first_known(of_case, by_case(strata, [name for name in strata.columns if name != "case"]))
    return _Members(
        of_case,
        {of_case[case]: part for case, part in part_of.items()},
        {one: level for one, (level,) in first_known(of_case, by_case(cases, [attribute])).items()},
        {one: stratum_key(own) for one, own in keys.items()},
    )


def _reasons(members: _Members, attribute: str, unit: Unit, order: Sequence[str]) -> dict[str, str]:
    """Return why each member that must go goes."""
    reasons = {one: f"{attribute} is missing" for one, level in members.level_of.items() if level is None}
    counts = members.counts()
    grouped: dict[tuple[str, str], dict[Key, list[str]]] = {}
    for one in order:
        if (level := members.level_of[one]) is not None:
            grouped.setdefault((members.part_of[one], level), {}).setdefault(members.key_of[one], []).append(one)
    for (part, level), strata in grouped.items():
        have = counts[part, level]
        least = min(members.levels(), key=lambda level: counts[part, level])
        target = counts[part, least]
        kept = round_quotas({key: len(group) for key, group in strata.items()}, (target, have - target))
        reason = f"{part} has {have} {unit}s with {attribute} {level} and {target} with {least}: {target} are kept"
        for key, group in strata.items():
            reasons |= dict.fromkeys(group[kept[key][0] :], reason)
    return reasons


def _unbalanceable(members: _Members, attribute: str, unit: Unit) -> list[Finding]:
    where = f"cases table, column {attribute}"
    levels, counts = members.levels(), members.counts()
    if len(levels) < 2:
        fact = f"{attribute} has {counted(len(levels), 'level')} in this split: {listed(levels) or 'none'}."
        return [Finding("BALANCE_LEVELS_TOO_FEW", fact, where, "balance an attribute with two levels or more.")]
    faults = []
    for part in members.parts():
        if not all(counts[part, level] for level in levels):
            held = ", ".join(f"{level} {counts[part, level]}" for level in levels)
            fact = f"part '{part}' lacks a level of {attribute} ({unit}s: {held}); nothing would be left of it."
            fix = f"stratify the split on {attribute}, or recode its rare levels."
            faults.append(Finding("BALANCE_LEVEL_ABSENT", fact, where, fix))
    return faults
