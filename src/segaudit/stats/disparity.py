"""Disparities between groups: named contrasts of success rates or medians, each with its card."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segaudit.registry import Registry

Floats = NDArray[np.float64]
RateStatus = Literal["ok", "saturated", "undefined", "one_group"]


@dataclass(frozen=True, slots=True)
class Disparity:
    """A disparity card.

    Attributes
    ----------
    name, title : str
    of : {"rates", "medians"}
        What is contrasted; `fn` takes these on its last axis, one a group.
    over : {"groups", "pair"}
        All groups at once, or (group, reference group).
    parity : float
        The value when all groups are alike.
    bounds : (float, float)
        For differences of medians, of scores in any unit.
    fn : callable
        (..., k) -> (...); NaN where undefined.
    """

    name: str
    title: str
    of: Literal["rates", "medians"]
    over: Literal["groups", "pair"]
    parity: float
    bounds: tuple[float, float]
    fn: Callable[[ArrayLike], Floats]


def disparate_impact_ratio(rates: ArrayLike) -> Floats:
    """Return DIR, the smallest over the largest success rate (..., k) -> (...).

    A group whose rate is NaN has no cases and takes no part. When no group has a success DIR is 0/0: NaN.

    Examples
    --------
    >>> float(disparate_impact_ratio([0.8, 1.0, 0.9]))
    0.8
    """
    values = np.asarray(rates, dtype=np.float64)
    return _ratio(np.fmin.reduce(values, axis=-1), np.fmax.reduce(values, axis=-1))


def demographic_parity_difference(rates: ArrayLike) -> Floats:
    """Return DPD, the largest minus the smallest success rate (..., k) -> (...); groups with NaN take no part."""
    values = np.asarray(rates, dtype=np.float64)
    return np.asarray(np.fmax.reduce(values, axis=-1) - np.fmin.reduce(values, axis=-1))


def rate_ratio(pair: ArrayLike) -> Floats:
    """Return the success rate of the group over that of the reference group (..., 2) -> (...)."""
    values = np.asarray(pair, dtype=np.float64)
    return _ratio(values[..., 0], values[..., 1])


def rate_difference(pair: ArrayLike) -> Floats:
    """Return the success rate of the group minus that of the reference group (..., 2) -> (...)."""
    return _difference(pair)


def median_gap(medians: ArrayLike) -> Floats:
    """Return the largest minus the smallest group median (..., k) -> (...); groups with NaN take no part."""
    values = np.asarray(medians, dtype=np.float64)
    return _minus(np.fmax.reduce(values, axis=-1), np.fmin.reduce(values, axis=-1))


def median_difference(pair: ArrayLike) -> Floats:
    """Return the median of the group minus that of the reference group (..., 2) -> (...)."""
    return _difference(pair)


def group_medians(groups: Sequence[ArrayLike]) -> Floats:
    """Return the median of each group (k); NaN for an empty one, infinite scores ranked as such."""
    return np.array([_median(np.sort(np.asarray(group, dtype=np.float64))) for group in groups])


def rate_status(successes: ArrayLike, cases: ArrayLike) -> RateStatus:
    """Return how the rates of k groups can be contrasted.

    saturated: no group has a failure, so DIR is 1 whatever the truth behind it; undefined: no group has a success,
    so DIR is 0/0; one_group: fewer than two groups have cases.
    """
    good, total = np.asarray(successes), np.asarray(cases)
    if np.count_nonzero(total) < 2:
        return "one_group"
    if good.sum() == total.sum():
        return "saturated"
    return "ok" if good.sum() > 0 else "undefined"


def _median(ordered: Floats) -> float:
    if not ordered.size:
        return np.nan
    middle = ordered.size // 2
    return float(ordered[middle] if ordered.size % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(numerator, denominator))


def _minus(left: Floats, right: Floats) -> Floats:
    with np.errstate(invalid="ignore"):  # inf - inf is undefined
        return np.asarray(left - right)


def _difference(pair: ArrayLike) -> Floats:
    values = np.asarray(pair, dtype=np.float64)
    return _minus(values[..., 0], values[..., 1])


DISPARITIES: Registry[Disparity] = Registry("disparity")
_INF = float("inf")
for _card in (
    Disparity("dir", "disparate impact ratio", "rates", "groups", 1.0, (0.0, 1.0), disparate_impact_ratio),
    Disparity(
        "dpd", "demographic parity difference", "rates", "groups", 0.0, (0.0, 1.0), demographic_parity_difference
    ),
    Disparity("median_gap", "gap between group medians", "medians", "groups", 0.0, (0.0, _INF), median_gap),
    Disparity("rate_ratio", "ratio of success rates", "rates", "pair", 1.0, (0.0, _INF), rate_ratio),
    Disparity("rate_difference", "difference of success rates", "rates", "pair", 0.0, (-1.0, 1.0), rate_difference),
    Disparity("median_difference", "difference of medians", "medians", "pair", 0.0, (-_INF, _INF), median_difference),
):
    DISPARITIES.register(_card)
