"""From the ledger (what was measured, case by case) to the score table."""

from __future__ import annotations

import numpy as np
import pandas as pd

from segaudit.metrics import METRICS, Counts, Measured, effective_load, value
from segaudit.scores.base import MACRO
from segaudit.tables import SCORES

# One entry a case, model, ruler and label: what was measured, or the status that says why nothing was.
Entry = tuple[str, str, str, str, Measured | str]
_INFINITE = ("prediction_empty", "reference_empty")


def finish(entries: list[Entry], patients: dict[str, str], metrics: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the score table and the loads that nDSC was computed with.

    Parameters
    ----------
    entries : list of (case, model, ruler, label, Measured or status)
    patients : dict of case to patient
    metrics : list of str
        Names of the metric cards to compute.
    """
    loads = _loads(entries)
    cards = [METRICS[name] for name in metrics]
    numbers: list[float] = []
    statuses: list[str] = []
    for _, _, ruler, label, measured in entries:
        for card in cards:
            if isinstance(measured, str):
                number, status = np.nan, measured
            else:
                number, status = value(card, measured, loads.get((ruler, label), np.nan))
            numbers.append(number)
            statuses.append(status)
    own = pd.DataFrame([entry[:4] for entry in entries], columns=["case", "model", "ruler", "label"])
    table = own.loc[own.index.repeat(len(cards))].reset_index(drop=True)
    table["patient"] = table["case"].map(patients)
    table["metric"] = [card.name for card in cards] * len(entries)
    table["unit"] = [card.unit for card in cards] * len(entries)
    table["value"], table["status"] = numbers, statuses
    table = table[SCORES.names()]
    table = pd.concat([table, macro(table)], ignore_index=True)
    table["value"] = table["value"].where(np.isfinite(table["value"]))
    ordered = [(ruler, label, load) for (ruler, label), load in loads.items()]
    return SCORES.frame(table), pd.DataFrame(ordered, columns=["ruler", "label", "load"])


def _loads(entries: list[Entry]) -> dict[tuple[str, str], float]:
    """Return the mean share of reference voxels by ruler and label; a case counts once, whatever the models."""
    counts: dict[tuple[str, str], dict[str, Counts]] = {}
    for case, _, ruler, label, measured in entries:
        if isinstance(measured, Measured):
            counts.setdefault((ruler, label), {}).setdefault(case, measured.counts)
    return {key: effective_load(list(by_case.values())) for key, by_case in counts.items()}


def macro(table: pd.DataFrame) -> pd.DataFrame:
    """Return the macro rows: the mean over the structures of a case, where there are two or more.

    A structure that is undefined (both masks empty) is left out; one infinite or missing structure makes the case so.
    """
    scored = table[table["metric"].isin([card.name for card in METRICS if card.better != "neither"])]
    if scored["label"].nunique() < 2:
        return table.iloc[:0]
    key = ["case", "patient", "model", "ruler", "metric", "unit"]
    infinite = scored["status"].isin(_INFINITE) & ~np.isfinite(scored["value"])
    absent = ~scored["status"].isin(("ok", "both_empty", *_INFINITE))
    ranked = scored.assign(
        _value=scored["value"].where(~infinite, np.nan),
        # the status that weighs most names the macro row
        _infinite=scored["status"].where(infinite),
        _absent=scored["status"].where(absent),
        _empty=scored["status"].where(scored["status"].isin(_INFINITE)),
        _defined=scored["status"] != "both_empty",
    )
    by_case = ranked.groupby(key, sort=False)
    found = by_case.agg(
        value=("_value", "mean"),
        infinite=("_infinite", "first"),
        absent=("_absent", "first"),
        empty=("_empty", "first"),
        defined=("_defined", "any"),
    ).reset_index()
    status = found["absent"].fillna(found["infinite"]).fillna(found["empty"])
    found["status"] = status.fillna("ok").where(found["defined"], "both_empty")
    found["value"] = found["value"].where(found["absent"].isna() & found["infinite"].isna() & found["defined"])
    return found.assign(label=MACRO)[SCORES.names()]
