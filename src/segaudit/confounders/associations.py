"""Associations: how a score goes with the size of the structure, with other numbers, and with a sister score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr

from segaudit.confounders.cells import VOLUME, Cell, Floats, Ground, Rules, patient_means
from segaudit.confounders.schemas import ASSOCIATIONS
from segaudit.stats.family import adjust
from segaudit.stats.tests import midranks

SISTER = ("dice", "ndsc")
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's rho with limits and two-sided p; NaN with fewer than four pairs or without variation."""

    rho: float
    low: float
    high: float
    p: float


def spearman(first: Floats, second: Floats, level: float) -> RankCorrelation:
    """Return Spearman's rank correlation of paired numbers; infinities rank as such.

    Notes
    -----
    p from Student's t with n - 2 degrees of freedom; limits on Fisher's scale with the standard error
    sqrt((1 + rho^2 / 2) / (n - 3)) (bonett2000).

    Examples
    --------
    >>> spearman(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 3.0, 2.0, 5.0, 4.0]), 0.95).rho.__round__(3)
    0.8
    """
    n = first.size
    if n < _FEWEST:
        return RankCorrelation(np.nan, np.nan, np.nan, np.nan)
    a, b = (midranks(values).values - (n + 1) / 2 for values in (first, second))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    if scale == 0:
        return RankCorrelation(np.nan, np.nan, np.nan, np.nan)
    rho = float(np.clip(a @ b / scale, -1.0, 1.0))
    if abs(rho) == 1.0:
        return RankCorrelation(rho, rho, rho, 0.0)
    t = rho * np.sqrt((n - 2) / (1 - rho**2))
    width = float(ndtri((1 + level) / 2)) * np.sqrt((1 + rho**2 / 2) / (n - 3))
    low, high = np.tanh(np.arctanh(rho) + np.array([-width, width]))
    return RankCorrelation(rho, float(low), float(high), float(2 * stdtr(n - 2, -abs(t))))


def associations_of(found: Sequence[Cell], ground: Ground, rules: Rules, names: Sequence[str]) -> pd.DataFrame:
    """Return the rank correlation of each score with each number among the covariates, and of Dice with nDSC.

    The volume counts wherever the scores have it. All cases together come first, then each group.
    """
    by_key = {(cell.model, cell.ruler, cell.label, cell.metric): cell.values for cell in found}
    wanted = list(dict.fromkeys([*([VOLUME] if ground.volumes else []), *names]))
    rows: list[dict[str, Any]] = []
    for cell in found:
        others: dict[str, Floats] = {}
        for name in wanted:
            numbers = ground.covariate(name, cell).numbers
            if numbers is not None:
                others[name] = np.exp(numbers) if name == VOLUME and name not in ground.cases else numbers
        sister = by_key.get((cell.model, cell.ruler, cell.label, SISTER[1]))
        if cell.metric == SISTER[0] and sister is not None:
            others[SISTER[1]] = sister
        rows += _rows(cell, others, ground, rules)
    table = ASSOCIATIONS.frame(rows)
    for _, part in table.groupby(["model", "ruler"], sort=False):
        table.loc[part.index, "q"] = adjust(part["p"].to_numpy(dtype=np.float64), "bh")
    return table


def _rows(cell: Cell, others: Mapping[str, Floats], ground: Ground, rules: Rules) -> Iterator[dict[str, Any]]:
    everyone: list[tuple[str, str, NDArray[np.bool_]]] = [("", "", np.ones(len(ground.cases), dtype=bool))]
    everyone += [
        (grouping.name, level, ground.groups[grouping.name] == level)
        for grouping in ground.groupings
        for level in grouping.levels
    ]
    for other, numbers in others.items():
        for grouping, group, member in everyone:
            both = member & ~np.isnan(cell.values) & ~np.isnan(numbers)
            score, paired = (patient_means(values[both], ground.patients[both]) for values in (cell.values, numbers))
            few = score.size < rules.min_patients
            rho = spearman(score, paired, rules.level)
            blank = RankCorrelation(np.nan, np.nan, np.nan, np.nan)
            shown = blank if few else rho
            yield {
                **cell.named(),
                "other": other,
                "grouping": grouping,
                "group": group,
                "n_patients": score.size,
                "mean": _mean(score),
                "other_mean": _mean(paired),
                "rho": shown.rho,
                "low": shown.low,
                "high": shown.high,
                "p": shown.p,
                "q": np.nan,
                "status": "too_few_patients" if few else "ok" if np.isfinite(rho.rho) else "undefined",
            }


def _mean(values: Floats) -> float:
    """Return the mean of the finite values."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else np.nan
