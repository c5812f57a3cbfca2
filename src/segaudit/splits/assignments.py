"""Assign patients to parts: stratified, exact, and the same for ever from the same ids and seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, lcm
from typing import Any

import pandas as pd

from segaudit.errors import Finding, counted, raise_errors
from segaudit.splits.deals import RULE, Deal, deal, dealt_rows, describe, made_from, strata_faults, strata_or_none
from segaudit.splits.evenness import balance_table
from segaudit.splits.identities import ALL, case_faults, patients_of
from segaudit.splits.schemas import DROPPED, SPLITS

_TOLERANCE = Fraction(1, 10**6)


@dataclass(frozen=True, eq=False)
class Split:
    """Who is in which part, how even that is, and what it was made from.

    Attributes
    ----------
    splits : DataFrame
        case, patient, split, stratum; sorted by case.
    balance : DataFrame
        attribute, level, split, n_cases, n_patients, share, target_share, std_difference.
    manifest : mapping
        Rule version, seed, ratios, counts, pooled strata, digest of the ids and of the assignment. Ready for JSON.
    strata : DataFrame
        case, then the attributes it was stratified on.
    dropped : DataFrame
        case, patient, split, rule, reason: cases that balancing left out.
    """

    splits: pd.DataFrame
    balance: pd.DataFrame
    manifest: Mapping[str, Any]
    strata: pd.DataFrame
    dropped: pd.DataFrame

    def targets(self) -> dict[str, float]:
        """Return the share of the patients that each part was to have, parts in order."""
        whole = self.balance[self.balance["attribute"] == ALL]
        return dict(zip(whole["split"].tolist(), whole["target_share"].tolist(), strict=True))


def assign(cases: pd.DataFrame, ratios: Mapping[str, float], strata: pd.DataFrame | None = None, *, seed: int) -> Split:
    """Return an assignment of all patients, each with all its cases, to named parts.

    Parameters
    ----------
    cases : DataFrame
        case and patient (text), one row a case.
    ratios : mapping of str to float
        Share of the patients of each part; above zero, together 1. Their order breaks ties.
    strata : DataFrame, optional
        case, then one text column an attribute, the most important first; a null is a level of its own.
    seed : int
        Names the order of patients within a stratum.

    Returns
    -------
    Split
        In each stratum, in each union of strata that share their first attributes, and in the whole, a part has its
        target number of patients rounded down or up.

    Raises
    ------
    AuditError
        COLUMN_MISSING, CASES_EMPTY, CASE_NULL, PATIENT_NULL, ID_NOT_TEXT, CASE_DUPLICATED, CASE_TWO_PATIENTS,
        RATIO_NOT_POSITIVE, RATIOS_SUM, PARTS_TOO_FEW, PATIENTS_TOO_FEW, PART_EMPTY, STRATA_CASE_MISSING,
        STRATA_CASE_DUPLICATED, STRATA_EMPTY.

    Notes
    -----
    A patient has one stratum: of each attribute the level of its first case, in sorted order, that has one. A stratum
    too small to give the smallest part one patient (size * smallest ratio < 1) gives up its last attribute and is
    pooled with the others that do and share the rest; while the pool is too small the next attribute goes too. Within
    a stratum patients of several cases are dealt first, each to the open part that lacks most cases; the others follow
    in the order of SHA-256 over rule, seed and patient id.

    Examples
    --------
    >>> import pandas as pd
    >>> cases = pd.DataFrame({"case": ["a1", "a2", "b1", "c1"], "patient": ["a", "a", "b", "c"]})
    >>> assign(cases, {"train": 0.7, "test": 0.3}, seed=1).splits.groupby("split").size().to_dict()
    {'test': 1, 'train': 3}
    """
    raise_errors([*case_faults(cases), *_ratio_faults(ratios), *strata_faults(cases, strata), *_too_few(cases, ratios)])
    levels = strata_or_none(cases, strata)
    names = list(ratios)
    weights = _weights(ratios)
    dealt = deal(patients_of(cases), levels, weights, seed, f"{RULE} assign")
    raise_errors(_empty_parts(dealt, names, weights))
    rows = dealt_rows(cases, dealt)
    table = SPLITS.frame(rows.assign(split=[names[part] for part in rows.pop("part").tolist()]))
    total = sum(weights)
    targets = {name: weight / total for name, weight in zip(names, weights, strict=True)}
    manifest = {
        **made_from(cases, dealt, seed),
        "rule": f"{RULE} assign",
        "ratios": {name: float(ratio) for name, ratio in ratios.items()},
        **describe(table),
    }
    return Split(table, balance_table(table, levels, targets), manifest, levels, DROPPED.frame([]))


def _ratio_faults(ratios: Mapping[str, float]) -> list[Finding]:
    faults = []
    if len(ratios) < 2:
        fact = f"a split needs two parts or more; {len(ratios)} is given."
        faults.append(Finding("PARTS_TOO_FEW", fact, "ratios", "name each part and its share."))
    bad = [name for name, ratio in ratios.items() if not (isfinite(ratio) and ratio > 0)]
    faults += [
        Finding("RATIO_NOT_POSITIVE", f"the ratio of '{name}' is {ratios[name]}.", f"ratios, {name}", "leave it out.")
        for name in bad
    ]
    total = sum((_exact(ratio) for ratio in ratios.values() if isfinite(ratio)), Fraction(0))
    if not bad and abs(total - 1) > _TOLERANCE:
        said = " + ".join(str(ratio) for ratio in ratios.values())
        fact = f"the ratios add up to {float(total):.6g}, not 1 ({said})."
        faults.append(Finding("RATIOS_SUM", fact, "ratios", "mend them so that they add up to 1."))
    return faults


def _too_few(cases: pd.DataFrame, ratios: Mapping[str, float]) -> list[Finding]:
    if "patient" not in cases.columns or not len(cases):
        return []
    n_patients = len(set(cases["patient"].dropna().tolist()))
    if n_patients >= len(ratios):
        return []
    fact = f"{counted(n_patients, 'patient')} cannot fill {len(ratios)} parts."
    return [Finding("PATIENTS_TOO_FEW", fact, "cases table, column patient", "ask for fewer parts, or add patients.")]


def _empty_parts(dealt: Deal, names: Sequence[str], weights: Sequence[int]) -> list[Finding]:
    held = Counter(dealt.part_of.values())
    n_patients = len(dealt.part_of)
    return [
        Finding(
            "PART_EMPTY",
            f"part '{name}' gets 0 of {n_patients} patients (target {n_patients * weight / sum(weights):.3g}).",
            f"ratios, {name}",
            "give it a larger ratio, or add patients.",
        )
        for part, (name, weight) in enumerate(zip(names, weights, strict=True))
        if not held[part]
    ]


def _weights(ratios: Mapping[str, float]) -> list[int]:
    """Return the ratios as integers: the decimal number that is written, not the binary one that is stored."""
    exact = [_exact(ratio) for ratio in ratios.values()]
    scale = lcm(*(ratio.denominator for ratio in exact))
    return [int(ratio * scale) for ratio in exact]


def _exact(ratio: float) -> Fraction:
    return Fraction(repr(float(ratio)))
