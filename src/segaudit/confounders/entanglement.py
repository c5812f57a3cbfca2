"""Entanglement: which attributes, scanners and sites go together, so that one could pass for the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from segaudit.confounders.anatomy import adjust_tests
from segaudit.confounders.associations import spearman
from segaudit.confounders.cells import Covariate, Floats, Ground, Rules, attribute, lay
from segaudit.confounders.schemas import ENTANGLEMENT
from segaudit.splits import comparability_of

_COPIED = ("test", "statistic", "dof", "p", "effect_name", "effect", "min_expected", "status")


@dataclass(frozen=True)
class _Variable:
    """A grouping or an attribute over the cases: levels in order, or numbers."""

    name: str
    attributes: tuple[str, ...]
    covariate: Covariate
    order: tuple[str, ...] = ()


def entanglement(
    cases: pd.DataFrame, rules: Rules, attributes: Sequence[str] = (), *, numbers: bool = True
) -> pd.DataFrame:
    """Return how every two of the groupings and attributes go together: one row a pair.

    Parameters
    ----------
    cases : DataFrame
        case, patient and the attributes.
    rules : Plan
        Its groupings and seed.
    attributes : sequence of str
        More columns of the cases, such as a scanner or a site.
    numbers : bool
        Whether the attribute of a grouping by cuts enters as a number (top-coded ages left out) rather than in groups.

    Returns
    -------
    DataFrame
        In the columns of `segaudit.tables.ENTANGLEMENT`. Levels with levels: chi square without continuity correction,
        Cramer's V; levels with numbers: Mann-Whitney or Kruskal-Wallis; numbers with numbers: Spearman.

    Raises
    ------
    AuditError
        CASE_DOUBLED, UNKNOWN_ATTRIBUTE, GROUPING_NOT_NUMERIC.
    """
    return entanglement_of(lay(cases, rules.groupings), rules, attributes, numbers=numbers)


def entanglement_of(ground: Ground, rules: Rules, attributes: Sequence[str], *, numbers: bool = True) -> pd.DataFrame:
    """Return the table of `entanglement` for cases that are already laid out."""
    variables = _variables(ground, attributes, numbers=numbers)
    rows = [
        _row(first, second, ground, rules)
        for first, second in combinations(variables, 2)
        if not set(first.attributes) & set(second.attributes)
    ]
    table = ENTANGLEMENT.frame(rows)
    table["q"] = adjust_tests(table)
    return table


def _variables(ground: Ground, attributes: Sequence[str], *, numbers: bool) -> list[_Variable]:
    found: dict[str, _Variable] = {}
    for grouping in ground.groupings:
        if grouping.cuts and numbers:
            name = grouping.attribute
            found[name] = _Variable(name, (name,), attribute(ground.cases, name))
        else:
            levels = np.array([group or None for group in ground.groups[grouping.name]], dtype=object)
            one = Covariate(grouping.name, levels=levels)
            found[grouping.name] = _Variable(grouping.name, grouping.attributes, one, grouping.levels)
    for name in attributes:
        if name in ground.cases.columns and name not in found:
            one = attribute(ground.cases, name)
            order = () if one.levels is None else tuple(sorted({level for level in one.levels if level is not None}))
            found[name] = _Variable(name, (name,), one, order)
    return list(found.values())


def _row(first: _Variable, second: _Variable, ground: Ground, rules: Rules) -> dict[str, Any]:
    known = first.covariate.known & second.covariate.known
    once = np.unique(ground.patients[known], return_index=True)[1]
    kept = np.flatnonzero(known)[once]  # each patient at the first of its cases that has both
    base = {"first": first.name, "second": second.name, "n_patients": kept.size, "q": np.nan}
    numbers = [one.covariate.numbers for one in (first, second)]
    if numbers[0] is not None and numbers[1] is not None:
        return {**base, **_both_numbers(numbers[0][kept], numbers[1][kept], rules)}
    by, of = (second, first) if second.covariate.levels is not None else (first, second)
    levels, values = by.covariate.levels, of.covariate
    assert levels is not None
    sample: dict[str, Any] = {}
    for level in by.order:
        inside = kept[levels[kept] == level]
        sample[level] = values.numbers[inside] if values.numbers is not None else _counts(values, inside)
    found = comparability_of({"pair": sample}, seed=rules.seed).iloc[0]
    return {**base, **{name: found[name] for name in _COPIED}}


def _counts(values: Covariate, inside: np.ndarray[Any, np.dtype[np.intp]]) -> dict[str, int]:
    assert values.levels is not None
    levels, counts = np.unique(values.levels[inside].astype(str), return_counts=True)
    return dict(zip(levels.tolist(), counts.tolist(), strict=True))


def _both_numbers(first: Floats, second: Floats, rules: Rules) -> dict[str, Any]:
    found = spearman(first, second, rules.level)
    return {
        "test": "spearman",
        "statistic": found.rho,
        "dof": None,
        "p": found.p,
        "effect_name": "spearman",
        "effect": found.rho,
        "min_expected": np.nan,
        "status": "ok" if np.isfinite(found.rho) else "undefined",
    }
