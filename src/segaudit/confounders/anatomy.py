"""Anatomy: how large the structures are and into how many pieces they fall, by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from segaudit.cohorts import Cohort
from segaudit.confounders.cells import Floats, Ground, Rules, generator, lay, patient_means
from segaudit.confounders.schemas import ANATOMY
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.groupings import Grouping
from segaudit.metrics.volume import count_components
from segaudit.stats.family import adjust
from segaudit.stats.tests import kruskal_wallis, mann_whitney
from segaudit.volumes import DEFAULT_MAX_BYTES, read_labels

COLUMNS = ("ruler", "label", "case", "quantity", "value")
QUANTITIES = {
    "volume_reference_mm3": "volume_mm3",
    "voxels_reference": "voxels",
    "components_reference": "components",
}
_BLANK = dict.fromkeys(
    ("mean", "median", "sd", "ratio", "ratio_low", "ratio_high", "statistic", "p", "q", "effect"), np.nan
)
_WORDS = {"test": "", "effect_name": ""}


def structures_of(table: pd.DataFrame) -> pd.DataFrame:
    """Return the sizes of the references that a score table holds: ruler, label, case, quantity, value."""
    rows = table[table["metric"].isin(QUANTITIES)].drop_duplicates(["ruler", "label", "case", "metric"])
    rows = rows.assign(quantity=rows["metric"].map(QUANTITIES))
    return rows.loc[rows["value"].notna(), list(COLUMNS)].reset_index(drop=True)


def measure_structures(cohort: Cohort, mask_set: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> pd.DataFrame:
    """Return the size of every structure in a mask set, before there is any model.

    Parameters
    ----------
    cohort : Cohort
    mask_set : str
    max_bytes : int
        A mask that takes more as stored is refused.

    Returns
    -------
    DataFrame
        ruler (the mask set), label, case, quantity (volume_mm3, voxels, components) and value.

    Raises
    ------
    AuditError
        UNKNOWN_MASK_SET; every mask that cannot be read, at once.
    """
    if mask_set not in cohort.mask_sets:
        fact = f"there is no mask set '{mask_set}'."
        raise AuditError(Finding("UNKNOWN_MASK_SET", fact, "", did_you_mean(mask_set, cohort.mask_sets)))
    source = cohort.mask_sets[mask_set]
    rows: list[tuple[str, str, str, str, float]] = []
    faults: list[Finding] = []
    for case, path in zip(source.masks["case"], source.masks["path"], strict=True):
        try:
            volume = read_labels(Path(path), max_bytes=max_bytes)
        except AuditError as error:
            faults += error.findings
            continue
        voxel_mm3 = float(np.prod(volume.grid.spacing_mm))
        for label, values in (source.labels or cohort.labels).items():
            mask = np.isin(volume.labels, values)
            voxels = int(mask.sum())
            found = {"volume_mm3": voxels * voxel_mm3, "voxels": voxels, "components": count_components(mask)}
            rows += [(mask_set, label, case, quantity, float(value)) for quantity, value in found.items()]
    raise_errors(faults)
    return pd.DataFrame(rows, columns=list(COLUMNS))


def anatomy(structures: pd.DataFrame, cases: pd.DataFrame, rules: Rules) -> pd.DataFrame:
    """Return the sizes of structures by group, with a test between the groups.

    Parameters
    ----------
    structures : DataFrame
        As of `measure_structures`.
    cases : DataFrame
        case, patient and the attributes.
    rules : Plan
        Its groupings, smallest group, confidence and seed.

    Returns
    -------
    DataFrame
        In the columns of `segaudit.tables.ANATOMY`: for each quantity and grouping the row of the test, then a row a
        group.

    Raises
    ------
    AuditError
        CASE_DOUBLED, UNKNOWN_ATTRIBUTE, GROUPING_NOT_NUMERIC.

    Notes
    -----
    A patient counts with the mean over its cases in the group. The ratio is of means, each group over the first; its
    limits are those of a normal law on the logarithm.
    """
    return anatomy_of(structures, lay(cases, rules.groupings), rules)


def anatomy_of(structures: pd.DataFrame, ground: Ground, rules: Rules) -> pd.DataFrame:
    """Return the table of `anatomy` for cases that are already laid out."""
    at = pd.Series(np.arange(len(ground.cases)), index=ground.cases["case"])
    rows: list[dict[str, Any]] = []
    known = structures[structures["case"].isin(at.index)]
    for key, part in known.groupby(["ruler", "label", "quantity"], sort=False):
        named = dict(zip(("ruler", "label", "quantity"), map(str, key), strict=True))
        values = np.full(len(at), np.nan)
        values[at.reindex(part["case"]).to_numpy()] = part["value"].to_numpy(dtype=np.float64)
        for grouping in ground.groupings:
            rows += _rows(named, values, grouping, ground, rules)
    table = ANATOMY.frame(rows)
    table["q"] = adjust_tests(table)
    return table


def adjust_tests(table: pd.DataFrame) -> Floats:
    """Return Benjamini-Hochberg adjusted p over the rows with a planned test; NaN in the others."""
    q = np.full(len(table), np.nan)
    planned = (table["test"] != "").to_numpy(dtype=bool)
    q[planned] = adjust(table["p"].to_numpy(dtype=np.float64)[planned], "bh")
    return q


def _rows(
    named: dict[str, str], values: Floats, grouping: Grouping, ground: Ground, rules: Rules
) -> Iterator[dict[str, Any]]:
    codes = ground.groups[grouping.name]
    units = [_units(values, codes == level, ground.patients) for level in grouping.levels]
    base = {**named, "grouping": grouping.name, **_BLANK, **_WORDS}
    yield {**base, "group": "", **_test(units, generator(rules, *named.values(), grouping.name), rules)}
    for level, own in zip(grouping.levels, units, strict=True):
        few = own.size < rules.min_patients
        yield {
            **base,
            "group": level,
            "n_patients": own.size,
            **_described(own),
            **_ratio(own, units[0], rules.level),
            "status": "too_few_patients" if few else "ok",
        }


def _units(values: Floats, member: NDArray[np.bool_], patients: NDArray[np.intp]) -> Floats:
    inside = member & np.isfinite(values)
    return patient_means(values[inside], patients[inside])


def _test(units: Sequence[Floats], rng: np.random.Generator, rules: Rules) -> dict[str, Any]:
    """Return the rank test between the groups with enough patients; of two groups the second against the first."""
    tested = [own for own in units if own.size >= rules.min_patients]
    pooled = np.concatenate([np.empty(0), *units])
    base = {
        "n_patients": pooled.size,
        **_described(pooled),
        "test": "kruskal_wallis" if len(units) > 2 else "mann_whitney",
    }
    if len(tested) < 2:
        return {**base, "status": "one_group" if len(units) < 2 else "too_few_patients"}
    found = mann_whitney(tested[1], tested[0], rng=rng) if len(tested) == 2 else kruskal_wallis(tested, rng=rng)
    return {
        **base,
        "test": found.test,
        "statistic": found.statistic,
        "p": found.p,
        "effect_name": found.effect_name,
        "effect": found.effect,
        "status": "ok",
    }


def _described(own: Floats) -> dict[str, float]:
    if not own.size:
        return {"mean": np.nan, "median": np.nan, "sd": np.nan}
    sd = float(own.std(ddof=1)) if own.size > 1 else np.nan
    return {"mean": float(own.mean()), "median": float(np.median(own)), "sd": sd}


def _ratio(own: Floats, reference: Floats, level: float) -> dict[str, float]:
    """Return the mean over the mean of the reference group, with limits from the delta method on its logarithm."""
    blank = {"ratio": np.nan, "ratio_low": np.nan, "ratio_high": np.nan}
    if own.size == 0 or reference.size == 0 or own.mean() <= 0 or reference.mean() <= 0:
        return blank
    ratio = float(own.mean() / reference.mean())
    if own is reference or min(own.size, reference.size) < 2:
        return {**blank, "ratio": ratio}
    error = np.sqrt(sum(part.var(ddof=1) / (part.size * part.mean() ** 2) for part in (own, reference)))
    width = float(ndtri((1 + level) / 2) * error)
    return {"ratio": ratio, "ratio_low": ratio * np.exp(-width), "ratio_high": ratio * np.exp(width)}
