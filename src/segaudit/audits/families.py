"""Families: which tests are counted together, their adjusted p values, and how much the choice matters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from segaudit.audits.cells import Cell, Division
from segaudit.audits.permuted import Permuted, adjusted_together
from segaudit.audits.plan import Plan
from segaudit.scores import MACRO
from segaudit.stats.family import adjust

OMNIBUS = ("mann_whitney", "kruskal_wallis")
PRIMARY = "primary"
WESTFALL_YOUNG = "westfall_young"

Permutations = Mapping[tuple[str, str, str], Permuted]


def adjusted(tests: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return the tests with their family and adjusted p values; degenerate tests stay in the family's size.

    The family of a test is the declared primary family, or all planned tests of its model under its ruler (`all`), or
    over all rulers (`joint`). Dunn's pairs keep the Holm adjustment within their own omnibus test.
    """
    tests = tests.copy()
    omnibus = tests["test"].isin(OMNIBUS).to_numpy()
    primary = omnibus & _is_primary(tests, plan)
    tests.loc[omnibus, "family"] = "all" if plan.scope == "ruler" else "joint"
    tests.loc[primary, "family"] = PRIMARY
    by = ["model", "family"] if plan.scope == "joint" else ["model", "ruler", "family"]
    for _, rows in tests[omnibus].groupby(by, sort=False):
        p = rows["p"].to_numpy(dtype=np.float64)
        tests.loc[rows.index, "q"] = adjust(p, plan.method)
        tests.loc[rows.index, "q_holm"] = adjust(p, "holm")
        tests.loc[rows.index, "q_by"] = adjust(p, "by")
    for _, rows in tests[omnibus].groupby(["model", "family"], sort=False):
        tests.loc[rows.index, "q_joint"] = adjust(rows["p"].to_numpy(dtype=np.float64), "bh")
    return tests


def permuted(
    tests: pd.DataFrame, found: Sequence[Cell], divisions: Sequence[Division], plan: Plan
) -> dict[tuple[str, str, str], Permuted]:
    """Return the Westfall-Young adjustment by (model, ruler, family), of the families `all` and `primary`."""
    omnibus = tests[tests["test"].isin(OMNIBUS)]
    families = {}
    for (model, ruler), rows in omnibus.groupby(["model", "ruler"], sort=False):
        for family, part in (("all", rows), (PRIMARY, rows[_is_primary(rows, plan)])):
            if len(part):
                key = (str(model), str(ruler), family)
                families[key] = adjusted_together(key, part, found, divisions, plan)
    return families


def with_permuted(tests: pd.DataFrame, together: Permutations) -> pd.DataFrame:
    """Return the tests with `q_wy`: adjusted by permutation within the family `all`."""
    tests = tests.copy()
    omnibus = tests[tests["test"].isin(OMNIBUS)]
    for (model, ruler), rows in omnibus.groupby(["model", "ruler"], sort=False):
        tests.loc[rows.index, "q_wy"] = together[str(model), str(ruler), "all"].of(rows)
    return tests


def _is_primary(tests: pd.DataFrame, plan: Plan) -> np.ndarray:
    if not plan.primary_metric:
        return np.zeros(len(tests), dtype=bool)
    label = plan.primary_label
    if label == MACRO and not (tests["label"] == MACRO).any():  # a single structure has no macro
        label = str(tests["label"].iloc[0]) if len(tests) else label
    chosen = (tests["metric"] == plan.primary_metric) & (tests["label"] == label)
    if plan.primary_groupings:
        chosen &= tests["grouping"].isin(plan.primary_groupings)
    return chosen.to_numpy()


def family_rows(tests: pd.DataFrame, plan: Plan, together: Permutations) -> Iterator[dict[str, Any]]:
    """Yield the rows of `families`: how many tests each family and method rejects, so that the choice can be judged.

    Families: `all` (the model under the ruler), `primary` (when declared), `attribute: X` (the tests of one attribute),
    and `joint` (over all rulers, counted for each). `all` and `primary` are adjusted by permutation, too.
    """
    omnibus = tests[tests["test"].isin(OMNIBUS)]
    attribute = {g.name: "*".join(g.attributes) for g in plan.groupings}
    for model, of_model in omnibus.groupby("model", sort=False):
        joint = {m: pd.Series(adjust(_p(of_model), m), index=of_model.index) for m in ("bh", "holm", "by")}
        for ruler, rows in of_model.groupby("ruler", sort=False):
            parts = {"all": rows, PRIMARY: rows[_is_primary(rows, plan)]}
            of = rows["grouping"].map(attribute)
            parts |= {f"attribute: {name}": rows[of == name] for name in of.unique()} if len(of.unique()) > 1 else {}
            for family, part in parts.items():
                if len(part):
                    for method in ("bh", "holm", "by", "raw"):
                        q = adjust(_p(part), method)
                        yield _family_row((str(model), str(ruler), family, method), part, q, plan)
                if (key := (str(model), str(ruler), family)) in together:
                    yield _permuted_row(key, part, together[key], plan)
            if len(of_model["ruler"].unique()) > 1:
                for method, over_rulers in joint.items():
                    row = _family_row(
                        (str(model), str(ruler), "joint", method), rows, over_rulers[rows.index].to_numpy(), plan
                    )
                    yield {**row, "n_planned": len(of_model), "n_tested": int(of_model["p"].notna().sum())}


def _family_row(key: tuple[str, str, str, str], tests: pd.DataFrame, q: np.ndarray, plan: Plan) -> dict[str, Any]:
    rejected = tests["grouping"][q < plan.alpha]
    return {
        **dict(zip(("model", "ruler", "family", "method"), key, strict=True)),
        "n_planned": len(tests),
        "n_tested": int(tests["p"].notna().sum()),
        "n_rejected": len(rejected),
        "alpha": plan.alpha,
        "rejected_attributes": ", ".join(rejected.unique()),
        "status": "ok",
        "detail": "",
    }


def _permuted_row(key: tuple[str, str, str], tests: pd.DataFrame, found: Permuted, plan: Plan) -> dict[str, Any]:
    row = _family_row((*key, WESTFALL_YOUNG), tests, found.of(tests), plan)
    if found.reason:
        return {**row, "n_tested": 0, "n_rejected": None, "status": "undefined", "detail": found.reason}
    return {**row, "detail": f"{found.draws} permutations of the patients"}


def _p(tests: pd.DataFrame) -> np.ndarray:
    return tests["p"].to_numpy(dtype=np.float64)
