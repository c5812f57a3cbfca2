"""Readings: what a row of a confounders table says, in words that claim no more than its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

CAUTION = (
    "These tables describe how scores, groups and covariates go together in these cases. An adjusted contrast that is "
    "smaller, or no longer shown, does not say that the covariate causes the difference; one that stays does not say "
    "that nothing else does."
)
_CHI2 = ("chi2", "chi2_yates")


def reading(row: Mapping[str, Any] | pd.Series, *, alpha: float = 0.05) -> str:
    """Return what a row of any of the confounders tables says.

    Parameters
    ----------
    row : mapping or Series
        A row with the columns of anatomy, entanglement, associations or adjusted.
    alpha : float
        A difference or an association is called shown where q lies below it.

    Examples
    --------
    >>> row = {"first": "sex", "second": "site", "test": "chi2", "statistic": 1.2, "p": 0.27, "q": 0.4,
    ...        "effect_name": "cramers_v", "effect": 0.03, "n_patients": 1231, "status": "ok"}
    >>> reading(row)
    'sex and site: no association shown (chi2 1.2, p 0.27, q 0.4, Cramér V 0.03; 1231 patients).'
    """
    if "adjusted_for" in row:
        return _of_adjusted(row, alpha)
    if "rho" in row:
        return _of_association(row, alpha)
    if "second" in row:
        return _of_entanglement(row, alpha)
    return _of_anatomy(row, alpha)


def _of_adjusted(row: Mapping[str, Any] | pd.Series, alpha: float) -> str:
    what = f"{_score(row)}, {row['grouping']}: {row['group']} against {row['reference_group']}"
    with_it = f"with {row['adjusted_for']} in the comparison"
    people = f"{row['n_cases']} cases of {row['n_patients']} patients, {row['n_left_out']} left out"
    if row["status"] != "ok":
        plain = f" Without adjustment: {_contrast(row, '')}." if np.isfinite(row["value"]) else ""
        return f"{what}: not assessable {with_it} ({row['detail']}).{plain}"
    kind = "difference of means" if row["method"] == "ols" else f"rank-biserial over {row['n_strata']} strata"
    both = f"{_contrast(row, '')} without adjustment, {_contrast(row, 'adjusted_')} {with_it}"
    return f"{what}: {kind} {both} (the same {people}). {_changed(row, alpha)}"


def _contrast(row: Mapping[str, Any] | pd.Series, prefix: str) -> str:
    limits = ""
    if np.isfinite(row[f"{prefix}low"]):
        limits = f"{_signed(row[f'{prefix}low'])} to {_signed(row[f'{prefix}high'])}, "
    return f"{_signed(row[f'{prefix}value'])} ({limits}p {_p(row[f'{prefix}p'])}, q {_p(row[f'{prefix}q'])})"


def _changed(row: Mapping[str, Any] | pd.Series, alpha: float) -> str:
    """Return what is shown without and with the adjustment."""
    before, after = row["q"] < alpha, row["adjusted_q"] < alpha
    if before and after:
        turned = np.sign(row["value"]) != np.sign(row["adjusted_value"])
        return "A difference is shown both ways" + (", with the sign turned." if turned else ".")
    if before:
        return "A difference is shown without the adjustment and not with it."
    if after:
        return "A difference is shown with the adjustment and not without it."
    return "No difference is shown either way, which does not say that there is none."


def _of_association(row: Mapping[str, Any] | pd.Series, alpha: float) -> str:
    group = f" in {row['grouping']} {row['group']}" if row["group"] else ""
    what = f"{_score(row)} and {row['other']}{group}"
    if row["status"] != "ok":
        return f"{what}: not assessable ({row['status']}, {row['n_patients']} patients)."
    limits = f"{_signed(row['low'])} to {_signed(row['high'])}"
    direction = "higher" if row["rho"] > 0 else "lower"
    shown = "no association shown" if row["q"] >= alpha else f"the larger {row['other']}, the {direction} the score"
    tested = f"rho {_signed(row['rho'])}, {limits}, p {_p(row['p'])}, q {_p(row['q'])}"
    return f"{what}: {shown} ({tested}; {row['n_patients']} patients)."


def _of_entanglement(row: Mapping[str, Any] | pd.Series, alpha: float) -> str:
    what = f"{row['first']} and {row['second']}"
    if row["status"] != "ok":
        return f"{what}: not assessable ({row['status']})."
    name = "Cramér V" if row["effect_name"] == "cramers_v" else str(row["effect_name"]).replace("_", "-")
    size = f"{row['effect']:.2g}" if row["test"] in _CHI2 else _signed(row["effect"])
    shown = "they go together" if row["q"] < alpha else "no association shown"
    tested = f"{row['test']} {row['statistic']:.4g}, p {_p(row['p'])}, q {_p(row['q'])}"
    return f"{what}: {shown} ({tested}, {name} {size}; {row['n_patients']} patients)."


def _of_anatomy(row: Mapping[str, Any] | pd.Series, alpha: float) -> str:
    what = f"{row['label']} {row['quantity']} by {row['grouping']}"
    if row["group"]:
        limits = ""
        if np.isfinite(row["ratio_low"]):
            limits = f" ({row['ratio_low']:.3g} to {row['ratio_high']:.3g})"
        times = f", {row['ratio']:.3g}{limits} times that of the first group" if limits else ""
        return f"{what}, {row['group']}: mean {row['mean']:.4g}{times}; {row['n_patients']} patients."
    if row["status"] != "ok":
        return f"{what}: not assessable ({row['status']})."
    shown = "the groups differ" if row["q"] < alpha else "no difference shown"
    effect = f"{str(row['effect_name']).replace('_', '-')} {_signed(row['effect'])}"
    return (
        f"{what}: {shown} ({row['test']}, p {_p(row['p'])}, q {_p(row['q'])}, {effect}; {row['n_patients']} patients)."
    )


def _score(row: Mapping[str, Any] | pd.Series) -> str:
    return f"{row['metric']} {row['label']} of {row['model']} against {row['ruler']}"


def _signed(value: float) -> str:
    return f"{value:+.3f}"


def _p(value: float) -> str:
    return "below 0.0001" if value < 1e-4 else f"{value:.2g}"
