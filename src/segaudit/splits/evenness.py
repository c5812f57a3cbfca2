"""How even the parts are: counts and shares of each level in each part, beside the target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.splits.identities import ALL, MISSING, STRATUM
from segaudit.splits.identities import levels as levels_of
from segaudit.splits.schemas import BALANCE

Codes = NDArray[np.intp]


def balance_table(
    table: pd.DataFrame, attributes: pd.DataFrame, targets: Mapping[str, float], part: str = "split"
) -> pd.DataFrame:
    """Return the balance table of cases with a part and a stratum.

    Parameters
    ----------
    table : DataFrame
        case, patient, stratum and the column named by `part`.
    attributes : DataFrame
        case, then one text column an attribute; may hold more cases than the table.
    targets : mapping of str to float
        Parts in order, each with its share of the patients.
    """
    ordered = table.sort_values("case", ignore_index=True)
    patients = pd.factorize(ordered["patient"])[0]
    names = list(targets)
    parts = pd.Index(names).get_indexer(pd.Index(ordered[part].astype(str)))
    part_of = np.empty(patients.max(initial=-1) + 1, dtype=np.intp)
    part_of[patients] = parts
    sizes = np.bincount(part_of, minlength=len(names))
    rows: list[dict[str, Any]] = []
    for attribute, own, of_patient, levels in _views(ordered, attributes, patients, part_of.size):
        shape = (len(levels), len(names))
        n_cases, n_patients = _counts(own, parts, shape), _counts(of_patient, part_of, shape)
        for place in sorted(range(len(levels)), key=levels.__getitem__):
            if not n_cases[place].any() and not n_patients[place].any():
                continue
            for number, (name, ratio) in enumerate(targets.items()):
                n, size = int(n_patients[place, number]), int(sizes[number])
                target = float(n_patients[place].sum() / part_of.size)
                if attribute == ALL:
                    size, target = part_of.size, ratio
                share = n / size if size else nan
                row: dict[str, Any] = {"attribute": attribute, "level": levels[place], "split": name}
                row |= {"n_cases": int(n_cases[place, number]), "n_patients": n, "share": share}
                rows.append(row | {"target_share": target, "std_difference": std_difference(share, target)})
    return BALANCE.frame(rows)


def _counts(levels: Codes, parts: Codes, shape: tuple[int, int]) -> Codes:
    """Return how many stand at each level in each part."""
    return np.bincount(levels * shape[1] + parts, minlength=shape[0] * shape[1]).reshape(shape)


def _views(
    table: pd.DataFrame, attributes: pd.DataFrame, patients: Codes, n_patients: int
) -> Iterator[tuple[str, Codes, Codes, list[str]]]:
    """Yield each attribute with the codes of the levels of every case and of every patient, and the levels."""
    yield ALL, np.zeros(len(table), dtype=np.intp), np.zeros(n_patients, dtype=np.intp), [ALL]
    columns = [name for name in attributes.columns if name != "case"]
    at = pd.Index(attributes["case"]).get_indexer(table["case"])
    for name in columns:
        own, levels = _coded(attributes[name])
        yield name, own[at], _first_known(own[at], patients, n_patients), levels
    if columns:
        own, levels = _coded(table["stratum"])
        yield STRATUM, own, _first_known(own, patients, n_patients), levels


def _coded(column: pd.Series) -> tuple[Codes, list[str]]:
    """Return the code of each value and the levels in order of code, (missing) first."""
    codes, levels = pd.factorize(np.array([MISSING, *(level or MISSING for level in levels_of(column))], dtype=object))
    return codes[1:], levels.tolist()


def _first_known(own: Codes, patients: Codes, n_patients: int) -> Codes:
    """Return the code of each patient: that of its first case that has a level."""
    known = np.flatnonzero(own)
    held, first = np.unique(patients[known], return_index=True)
    found = np.zeros(n_patients, dtype=np.intp)
    found[held] = own[known[first]]
    return found


def std_difference(left: float, right: float) -> float:
    """Return the standardised difference of two shares, left minus right; 0 where they are equal."""
    if left == right:
        return 0.0
    spread = (left * (1 - left) + right * (1 - right)) / 2
    return (left - right) / sqrt(spread) if spread > 0 else nan
