"""How even the parts are: counts and shares of each level in each part, beside the target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from math import nan, sqrt

import pandas as pd

from segaudit.splits.identities import ALL, MISSING, STRATUM, by_case, first_known, patients_of
from segaudit.splits.schemas import BALANCE


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
    patient_of = patients_of(table)
    part_of = dict(zip(table["patient"].tolist(), map(str, table[part].tolist()), strict=True))
    sizes = Counter(part_of.values())
    rows = []
    for attribute, of_patient, of_case in _views(table, attributes, patient_of):
        n_patients = Counter((level, part_of[patient]) for patient, level in of_patient.items())
        n_cases = Counter((level, part_of[patient_of[case]]) for case, level in of_case.items())
        whole = Counter(of_patient.values())
        for level, (name, ratio) in product(sorted({*whole, *of_case.values()}), targets.items()):
            n, size, target = n_patients[level, name], sizes[name], whole[level] / len(part_of)
            if attribute == ALL:
                size, target = len(part_of), ratio
            share = n / size if size else nan
            row = {"attribute": attribute, "level": level, "split": name, "n_cases": n_cases[level, name]}
            row |= {"n_patients": n, "share": share, "target_share": target}
            rows.append(row | {"std_difference": std_difference(share, target)})
    return BALANCE.frame(rows)


def _views(
    table: pd.DataFrame, attributes: pd.DataFrame, patient_of: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, str], Mapping[str, str]]]:
    """Yield each attribute with the level of every patient and of every case."""
    columns = [name for name in attributes.columns if name != "case"]
    stratum_of = dict(zip(table["case"].tolist(), table["stratum"].tolist(), strict=True))
    own = by_case(attributes, columns)
    known = first_known(patient_of, own)
    yield ALL, dict.fromkeys(known, ALL), dict.fromkeys(patient_of, ALL)
    for place, name in enumerate(columns):
        of_patient = {patient: levels[place] or MISSING for patient, levels in known.items()}
        yield name, of_patient, {case: own[case][place] or MISSING for case in patient_of}
    if columns:
        yield STRATUM, {patient: stratum_of[case] for case, patient in patient_of.items()}, stratum_of


def std_difference(left: float, right: float) -> float:
    """Return the standardised difference of two shares, left minus right; 0 where they are equal."""
    if left == right:
        return 0.0
    spread = (left * (1 - left) + right * (1 - right)) / 2
    return (left - right) / sqrt(spread) if spread > 0 else nan
