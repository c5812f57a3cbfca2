"""Deal patients to parts: one stratum a patient, rare strata pooled, cases of one patient never apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pandas as pd

from segaudit.errors import Finding
from segaudit.splits.identities import (
    MISSING,
    POOLED,
    Level,
    by_case,
    column_faults,
    digest,
    faults_of,
    first_known,
    keyed_order,
    listed,
    patients_of,
)
from segaudit.splits.quotas import Key, round_quotas

RULE = "segaudit.splits/1"


@dataclass(frozen=True)
class Deal:
    """The part and the stratum of each patient, and the strata that were pooled with their patients."""

    part_of: Mapping[str, int]
    stratum_of: Mapping[str, str]
    pooled: Mapping[str, int]
    min_patients: int


def deal(patient_of: Mapping[str, str], strata: pd.DataFrame, weights: Sequence[int], seed: int, purpose: str) -> Deal:
    """Return the part of each patient, by number, for checked cases and weights."""
    columns = [name for name in strata.columns if name != "case"]
    known = first_known(patient_of, by_case(strata, columns))
    total = sum(weights)
    needed = -(-total // min(weights))
    fine = {patient: stratum_key(own) for patient, own in known.items()}
    sizes = Counter(fine.values())
    pool_of = _pools(sizes, needed)
    members: dict[Key, list[str]] = {}
    for patient in keyed_order(fine, seed, purpose):
        members.setdefault(pool_of[fine[patient]], []).append(patient)
    seats = round_quotas({key: len(group) for key, group in members.items()}, weights)
    n_cases = Counter(patient_of.values())
    seating = _Seating(fine, n_cases, weights)
    plain = [key for key in sorted(members) if POOLED not in key]
    for key in plain:
        seating.foresee(key, seats[key])
    for key in plain:
        seating.choose([patient for patient in members[key] if n_cases[patient] > 1], seats[key], foreseen=1)
        seating.fill([patient for patient in members[key] if n_cases[patient] == 1], seats[key])
    for key in sorted(set(members) - set(plain)):
        seating.choose(members[key], seats[key], foreseen=0)
    names = {key: _name(columns, pool_of[key]) for key in fine.values()}
    pooled = {_name(columns, key): size for key, size in sorted(sizes.items()) if pool_of[key] != key}
    return Deal(seating.part_of, {patient: names[key] for patient, key in fine.items()}, pooled, needed)


def stratum_key(levels: Sequence[Level]) -> Key:
    """Return the key of a stratum: its levels, a missing one named; of no attribute, one empty level."""
    return tuple(level or MISSING for level in levels) or ("",)


def _pools(sizes: Mapping[Key, int], needed: int) -> dict[Key, Key]:
    """Return the pool of each stratum: itself, or with its last levels given up while the pool is too small."""
    pool_of = {key: key for key in sizes}
    for place in reversed(range(len(next(iter(sizes))))):
        held: Counter[Key] = Counter()
        for key, pool in pool_of.items():
            held[pool] += sizes[key]
        small = {pool for pool in held if held[pool] < needed}
        if len(held) > 1:
            pool_of = {
                key: (*pool[:place], POOLED, *pool[place + 1 :]) if pool in small else pool
                for key, pool in pool_of.items()
            }
    return pool_of


class _Seating:
    """The parts of the patients seated so far, and the cases that each part has of each stratum, level and in all."""

    def __init__(self, key_of: Mapping[str, Key], n_cases: Mapping[str, int], weights: Sequence[int]) -> None:
        self.part_of: dict[str, int] = {}
        self._key_of = key_of
        self._n_cases = n_cases
        self._weights = weights
        self._got: dict[object, list[int]] = {}

    def foresee(self, key: Key, seats: Sequence[int]) -> None:
        """Count one case for each seat of a stratum that was not pooled."""
        for part, n in enumerate(seats):
            self._add(key, part, n)

    def choose(self, members: Sequence[str], seats: list[int], foreseen: int) -> None:
        """Seat members one by one where cases like theirs are most wanting, and take the seats away."""
        for patient in sorted(members, key=lambda patient: -self._n_cases[patient]):
            key, n = self._key_of[patient], self._n_cases[patient] - foreseen
            part = max((part for part, free in enumerate(seats) if free), key=lambda part: self._want(key, part, n))
            self.part_of[patient] = part
            seats[part] -= 1
            self._add(key, part, n)

    def fill(self, members: Sequence[str], seats: Sequence[int]) -> None:
        """Seat members in order, part by part."""
        waiting = iter(members)
        for part, free in enumerate(seats):
            self.part_of |= dict.fromkeys(islice(waiting, free), part)

    def _add(self, key: Key, part: int, n: int) -> None:
        for term in _terms(key):
            self._got.setdefault(term, [0] * len(self._weights))[part] += n

    def _want(self, key: Key, part: int, n: int) -> int:
        none = [0] * len(self._weights)
        got = [self._got.get(term, none) for term in _terms(key)]
        return sum(self._weights[part] * (sum(held) + n) - sum(self._weights) * held[part] for held in got)


def _terms(key: Key) -> tuple[object, ...]:
    return ((), key, *enumerate(key))


def _name(columns: Sequence[str], key: Key) -> str:
    return "; ".join(f"{column}={level}" for column, level in zip(columns, key, strict=False))


def dealt_rows(cases: pd.DataFrame, dealt: Deal) -> pd.DataFrame:
    """Return case, patient, part (its number) and stratum of every case, sorted by case."""
    pairs = sorted(patients_of(cases).items())
    patients = [patient for _, patient in pairs]
    columns: dict[str, list[Any]] = {
        "case": [case for case, _ in pairs],
        "patient": patients,
        "part": [dealt.part_of[patient] for patient in patients],
        "stratum": [dealt.stratum_of[patient] for patient in patients],
    }
    return pd.DataFrame(columns)


def made_from(cases: pd.DataFrame, dealt: Deal, seed: int) -> dict[str, Any]:
    """Return what a manifest says of the input."""
    pairs = patients_of(cases)
    held = Counter(pairs.values())
    return {
        "seed": seed,
        "n_cases": len(pairs),
        "n_patients": len(held),
        "n_patients_with_several_cases": sum(n > 1 for n in held.values()),
        "ids_digest": digest(pairs.items()),
        "min_patients_of_a_stratum": dealt.min_patients,
        "n_strata": len(set(dealt.stratum_of.values())),
        "pooled_strata": dict(dealt.pooled),
    }


def describe(table: pd.DataFrame, part: str = "split") -> dict[str, Any]:
    """Return what a manifest says of the result: counts of each part and a digest."""
    counted = table.groupby(part).agg(cases=("case", "size"), patients=("patient", "nunique"))
    rows = zip(table["case"].tolist(), table["patient"].tolist(), map(str, table[part].tolist()), strict=True)
    return {
        "parts": {str(name): {"cases": int(n), "patients": int(m)} for name, n, m in counted.itertuples()},
        "assignment_digest": digest(rows),
    }


def strata_or_none(cases: pd.DataFrame, strata: pd.DataFrame | None) -> pd.DataFrame:
    """Return the strata of the cases alone, or a table without attributes."""
    if strata is None:
        return pd.DataFrame({"case": sorted(cases["case"].tolist())})
    kept = strata[strata["case"].isin(set(cases["case"].tolist()))]
    return kept.sort_values("case").reset_index(drop=True)


def strata_faults(cases: pd.DataFrame, strata: pd.DataFrame | None) -> list[Finding]:
    """Return what keeps a table of strata from meeting the cases."""
    where = "strata table"
    if strata is None:
        return []
    faults = column_faults(strata, ["case"], where)
    if faults or "case" not in cases.columns:
        return faults
    if list(strata.columns) == ["case"]:
        fix = "give at least one attribute, or no table."
        faults.append(Finding("STRATA_EMPTY", "the strata have no attribute.", where, fix))
    given = Counter(map(str, strata["case"].tolist()))
    doubled = {case for case, rows in given.items() if rows > 1}
    absent = {case for case in map(str, cases["case"].dropna().tolist()) if case not in given}
    place, fix = f"{where}, column case", "keep one row a case."
    faults += faults_of(doubled, "STRATA_CASE_DUPLICATED", "case", "in more than one row", place, fix)
    if absent:
        fact = f"{len(absent)} of {len(cases)} cases have no stratum: {listed(absent)}."
        fix = "give each case a row; a level may be empty."
        faults.append(Finding("STRATA_CASE_MISSING", fact, f"{where}, column case", fix))
    return faults
