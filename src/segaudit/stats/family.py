"""Families of tests: p values adjusted for the planned number of tests."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

Adjustment = Literal["raw", "bh", "holm", "by"]


def adjust(p: ArrayLike, method: Adjustment, planned: int | None = None) -> NDArray[np.float64]:
    """Return p values adjusted within one family, in the order given.

    Parameters
    ----------
    p : array
        Raw p values of the family; NaN where a planned test could not be had. It stays NaN and counts as a test.
    method : {"raw", "bh", "holm", "by"}
        Benjamini-Hochberg (false discovery rate under independence or positive dependence), Holm (family-wise error),
        Benjamini-Yekutieli (false discovery rate under any dependence), or none.
    planned : int, optional
        Size of the family when more tests were planned than are listed; the number listed otherwise.

    Raises
    ------
    ValueError
        When the method is unknown, fewer tests are planned than listed, or a p value lies outside [0, 1].

    References
    ----------
    benjamini1995, benjamini2001, holm1979

    Examples
    --------
    >>> adjust([0.01, float("nan"), 0.04], "bh").tolist()
    [0.03, nan, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    size = values.size if planned is None else planned
    if method not in get_args(Adjustment):
        raise ValueError(f"no adjustment is named '{method}'; known: {', '.join(get_args(Adjustment))}")
    if size < values.size:
        raise ValueError(f"{size} tests are planned, but {values.size} are listed")
    tested = np.flatnonzero(~np.isnan(values))
    raw = values[tested]
    if ((raw < 0) | (raw > 1)).any():
        raise ValueError("a p value lies outside [0, 1]")
    adjusted = np.full(values.shape, np.nan)
    if method == "raw":
        adjusted[tested] = raw
        return adjusted
    order = np.argsort(raw, kind="stable")
    place = np.arange(1, raw.size + 1)
    if method == "holm":
        stepped = np.maximum.accumulate(raw[order] * (size - place + 1))
    else:
        harmonic = float((1 / np.arange(1, size + 1)).sum()) if method == "by" else 1.0
        # an untested member ranks behind every tested one, so places are those among the tested
        stepped = np.minimum.accumulate((raw[order] * (size * harmonic) / place)[::-1])[::-1]
    adjusted[tested[order]] = np.minimum(stepped, 1.0)
    return adjusted
