"""Label regimes: from one split, the cases whose labels may be used under each rule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pandas as pd

from segaudit.errors import Finding, did_you_mean, raise_errors
from segaudit.splits.assignments import Split
from segaudit.splits.deals import describe
from segaudit.splits.evenness import balance_table
from segaudit.splits.identities import by_case, case_faults, column_faults, stranger_faults
from segaudit.splits.schemas import SPLITS


def regimes(
    split: Split, cases: pd.DataFrame, provenance: str, allowed: Mapping[str, Collection[str]]
) -> dict[str, Split]:
    """Return one split a regime: the same parts, with only the cases whose provenance the regime allows.

    Parameters
    ----------
    split : Split
    cases : DataFrame
        case, patient and the column of provenance, for every case of the split.
    provenance : str
        Column that says where the label of a case comes from, such as gold or silver; empty: in no regime.
    allowed : mapping of str to collection of str
        Provenances of each regime, such as ``{"mixed": ["gold", "silver"], "gold": ["gold"], "silver": ["silver"]}``.

    Raises
    ------
    AuditError
        The codes of `assign` on cases; SPLIT_CASE_UNKNOWN, REGIME_VALUE_UNKNOWN, REGIME_PART_EMPTY with the counts.
    """
    raise_errors([*case_faults(cases), *column_faults(cases, [provenance])])
    own = by_case(cases, [provenance])
    raise_errors(stranger_faults(split.splits, cases))
    known = {level for (level,) in own.values() if level is not None}
    raise_errors(
        Finding(
            "REGIME_VALUE_UNKNOWN", f"no case has {provenance} '{value}'.", f"regime {name}", did_you_mean(value, known)
        )
        for name, values in allowed.items()
        for value in sorted(set(values) - known)
    )
    made = {name: _regime(split, own, name, values, provenance) for name, values in allowed.items()}
    raise_errors(fault for name, one in made.items() for fault in _empty_parts(split, one, name, provenance))
    return made


def _regime(
    split: Split, own: Mapping[str, tuple[str | None, ...]], name: str, values: Collection[str], provenance: str
) -> Split:
    inside = [own[case][0] in set(values) for case in split.splits["case"].tolist()]
    table = SPLITS.frame(split.splits[inside])
    rule = {"name": name, "column": provenance, "allowed": sorted(values)}
    return replace(
        split,
        splits=table,
        balance=balance_table(table, split.strata, split.targets()),
        manifest={**split.manifest, "regime": rule, **describe(table)},
    )


def _empty_parts(split: Split, one: Split, name: str, provenance: str) -> list[Finding]:
    left = set(one.splits["split"].tolist())
    whole = split.splits["split"].value_counts()
    return [
        Finding(
            "REGIME_PART_EMPTY",
            f"regime '{name}' has 0 of the {whole[part]} cases of part '{part}'.",
            f"cases table, column {provenance}",
            "stratify the split on the provenance, or give the regime more values.",
        )
        for part in sorted(set(split.splits["split"].tolist()) - left)
    ]
