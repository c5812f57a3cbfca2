"""Adjustment: the contrast of two groups with and without a covariate in the comparison, on the same cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from segaudit.confounders.cells import Cell, Covariate, Floats, Ground, Rules, generator
from segaudit.confounders.schemas import ADJUSTED
from segaudit.groupings import Grouping
from segaudit.stats.adjust import RegressionResult, ols, van_elteren
from segaudit.stats.family import adjust
from segaudit.stats.tests import mann_whitney

JOIN = " + "
_NUMBERS = ("value", "low", "high", "p", "q")
_BLANK: dict[str, Any] = {
    **dict.fromkeys((*_NUMBERS, *(f"adjusted_{name}" for name in _NUMBERS)), np.nan),
    "errors": "",
    "n_strata": None,
    "detail": "",
}
_FAMILY = ["model", "ruler", "method", "adjusted_for"]
Members = NDArray[np.bool_]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class _Contrast:
    """One grouping in one cell, set against covariates."""

    cell: Cell
    grouping: Grouping
    groups: NDArray[np.object_]
    covariates: tuple[Covariate, ...]
    ground: Ground
    rules: Rules

    @property
    def adjusted_for(self) -> str:
        """Return the names of the covariates."""
        return JOIN.join(one.name for one in self.covariates)

    @property
    def known(self) -> Members:
        """Which cases have every covariate."""
        known: Members = np.ones(len(self.ground.cases), dtype=np.bool_)
        for one in self.covariates:
            known &= one.known
        return known

    def n_patients(self, members: Members) -> int:
        """Return how many patients these cases have."""
        return int(np.unique(self.ground.patients[members]).size)

    def base(self, group: str, method: str, used: Members, scored: Members) -> dict[str, Any]:
        """Return a row without numbers."""
        return {
            **self.cell.named(),
            "grouping": self.grouping.name,
            "group": group,
            "reference_group": self.grouping.levels[0],
            "method": method,
            "adjusted_for": self.adjusted_for,
            **_BLANK,
            "n_cases": int(used.sum()),
            "n_patients": self.n_patients(used),
            "n_left_out": int((scored & ~used).sum()),
        }


def adjusted_of(found: Sequence[Cell], ground: Ground, rules: Rules, names: Sequence[str]) -> pd.DataFrame:
    """Return every group contrast of every cell with and without adjustment, in the columns of ADJUSTED.

    Each covariate is taken alone and then all together. By least squares (finite scores, numbers and levels), and by
    ranks within strata (levels alone). A covariate is no covariate of a grouping that is made of it.
    """
    rows: list[dict[str, Any]] = []
    for cell in found:
        own = [ground.covariate(name, cell) for name in names]
        for grouping in ground.groupings:
            if len(grouping.levels) < 2:
                continue
            groups = ground.groups[grouping.name]
            other = [one for one in own if one.name not in grouping.attributes]
            for part in _sets(other):
                rows += _by_means(_Contrast(cell, grouping, groups, part, ground, rules))
            for part in _sets([one for one in other if one.levels is not None]):
                rows += _by_ranks(_Contrast(cell, grouping, groups, part, ground, rules))
    table = ADJUSTED.frame(rows)
    for _, part_rows in table.groupby(_FAMILY, sort=False):
        for p, q in (("p", "q"), ("adjusted_p", "adjusted_q")):
            table.loc[part_rows.index, q] = adjust(part_rows[p].to_numpy(dtype=np.float64), "bh")
    return table


def _sets(covariates: Sequence[Covariate]) -> list[tuple[Covariate, ...]]:
    alone: list[tuple[Covariate, ...]] = [(one,) for one in covariates]
    return alone if len(alone) < 2 else [*alone, tuple(covariates)]


def _by_means(contrast: _Contrast) -> Iterator[dict[str, Any]]:
    """Yield the difference of means of each group and the reference group, by least squares."""
    grouping, values, rules = contrast.grouping, contrast.cell.values, contrast.rules
    grouped = np.isin(contrast.groups, grouping.levels)
    scored = grouped & ~np.isnan(values)
    used = scored & np.isfinite(values) & contrast.known
    size = {level: contrast.n_patients(used & (contrast.groups == level)) for level in grouping.levels}
    tested = [level for level in grouping.levels if size[level] >= rules.min_patients]
    used &= np.isin(contrast.groups, tested)
    reference = grouping.levels[0]
    fits = _fits(contrast, used, tested[1:]) if len(tested) > 1 and tested[0] == reference else None
    for level in grouping.levels[1:]:
        base = contrast.base(level, "ols", used, scored)
        if fits is None or level not in tested:
            lacking = level if size[level] < rules.min_patients else reference
            detail = f"{lacking} has {size[lacking]} patients with a score and every covariate"
            yield {**base, "status": "too_few_patients", "detail": detail}
            continue
        plain, full = fits
        at = full.names.index(level)
        yield {
            **base,
            **{name: getattr(plain, key)[at] for name, key in _PLAIN.items()},
            **{f"adjusted_{name}": getattr(full, key)[at] for name, key in _PLAIN.items()},
            "errors": full.errors,
            "status": "ok" if full.status == "ok" and np.isfinite(full.p[at]) else "undefined",
            "detail": _detail(full) or ("" if np.isfinite(full.p[at]) else _SINGLE),
        }


_SINGLE = "a level of a covariate has a single case, so that no error can be had"
_PLAIN = {"value": "coefficients", "low": "low", "high": "high", "p": "p"}


def _fits(contrast: _Contrast, used: Members, levels: Sequence[str]) -> tuple[RegressionResult, RegressionResult]:
    """Return the regressions on the groups, and on the groups and the covariates."""
    plain = [np.ones(int(used.sum())), *((contrast.groups[used] == level).astype(np.float64) for level in levels)]
    names = ["(intercept)", *levels]
    more, titles = _columns(contrast.covariates, used)
    y, patients, confidence = contrast.cell.values[used], contrast.ground.patients[used], contrast.rules.level
    return (
        ols(y, np.column_stack(plain), names, patients, confidence),
        ols(y, np.column_stack([*plain, *more]), [*names, *titles], patients, confidence),
    )


def _columns(covariates: Sequence[Covariate], used: Members) -> tuple[list[Floats], list[str]]:
    """Return the columns of the covariates: numbers as they are, levels by indicators against the first."""
    columns: list[Floats] = []
    names: list[str] = []
    for one in covariates:
        if one.numbers is not None:
            columns.append(one.numbers[used])
            names.append(f"({one.name})")
            continue
        assert one.levels is not None
        own = one.levels[used].astype(str)
        for level in np.unique(own)[1:]:
            columns.append((own == level).astype(np.float64))
            names.append(f"({one.name}={level})")
    return columns, names


def _detail(fit: RegressionResult) -> str:
    if fit.status == "collinear":
        return f"{', '.join(fit.collinear)} follow from the groups and the other covariates: they cannot be told apart"
    return "no more cases than terms" if fit.status == "too_few_cases" else ""


def _by_ranks(contrast: _Contrast) -> Iterator[dict[str, Any]]:
    """Yield the rank-biserial effect of each group and the reference group, overall and within strata."""
    values, reference = contrast.cell.values, contrast.grouping.levels[0]
    stratum = _strata(contrast.covariates)
    for level in contrast.grouping.levels[1:]:
        pair = np.isin(contrast.groups, (reference, level))
        scored = pair & ~np.isnan(values)
        usable = scored & contrast.known
        ours = contrast.groups == level
        both = np.intersect1d(stratum[usable & ours], stratum[usable & ~ours])
        used = usable & np.isin(stratum, both)
        base = contrast.base(level, "van_elteren", used, scored)
        base["n_strata"] = len(both)
        sizes = {name: contrast.n_patients(used & (contrast.groups == name)) for name in (reference, level)}
        few = min(sizes, key=lambda name: sizes[name])
        if sizes[few] < contrast.rules.min_patients:
            detail = f"{few} has {sizes[few]} patients in a stratum with both groups"
            yield {**base, "status": "too_few_patients", "detail": detail}
            continue
        yield {**base, **_ranked(contrast, used, ours, stratum)}


def _strata(covariates: Sequence[Covariate]) -> Codes:
    """Return the code of each case's stratum, one for each combination of levels."""
    stratum = np.zeros(covariates[0].codes.size, dtype=np.intp)
    for one in covariates:
        stratum = stratum * (int(one.codes.max(initial=-1)) + 2) + one.codes + 1
    return stratum


def _ranked(contrast: _Contrast, used: Members, ours: Members, stratum: Codes) -> dict[str, Any]:
    """Return both rank tests; a patient counts once in each stratum, with the mean over its cases there."""
    member, inside = ours[used], stratum[used]
    width = int(inside.max()) + 1
    key = (contrast.ground.patients[used] * 2 + member) * width + inside
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    values = np.bincount(unit, weights=contrast.cell.values[used]) / np.bincount(unit)
    group = member[first]
    rng = generator(contrast.rules, *contrast.cell.named().values(), contrast.grouping.name, contrast.adjusted_for)
    plain = mann_whitney(values[group], values[~group], rng=rng)
    within = van_elteren(values, group, inside[first])
    return {
        "value": plain.effect,
        "p": plain.p,
        "adjusted_value": within.effect,
        "adjusted_p": within.p,
        "status": "ok",
    }
