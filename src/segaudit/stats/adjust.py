"""Adjusted comparisons: regression with robust errors, and the rank test within strata.

Ordinary least squares is a page of linear algebra, so statsmodels is not imported here; the tests hold every number to
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtr, stdtrit

from segaudit.stats.tests import midranks

Floats = NDArray[np.float64]
ErrorKind = Literal["HC3", "cluster"]

_COLLINEAR = 1e-9  # share of a column that earlier ones leave unexplained
_LEVERAGE_ONE = 1e-10


@dataclass(frozen=True, slots=True)
class RegressionResult:
    """A linear regression of scores.

    Attributes
    ----------
    status : {"ok", "collinear", "too_few_cases"}
        collinear: the columns named in `collinear` follow from those before them; all numbers are NaN.
        too_few_cases: no more cases than columns, or fewer than two clusters.
    names : tuple of str
        Columns of the design, in order.
    coefficients, se, t, p, low, high : arrays (columns)
        Two-sided p and 95 % limits (or the level asked for) from Student's t with `df` degrees of freedom. A column
        that one case alone determines has no HC3 error: se and what follows from it are NaN.
    errors : {"HC3", "cluster"}
    df : int
        Cases minus columns, or clusters minus one.
    r_squared : float
        Share of variance explained; NaN when all scores are the same.
    n_cases, n_clusters : int
    collinear : tuple of str
    """

    status: Literal["ok", "collinear", "too_few_cases"]
    names: tuple[str, ...]
    coefficients: Floats
    se: Floats
    t: Floats
    p: Floats
    low: Floats
    high: Floats
    errors: ErrorKind
    df: int
    r_squared: float
    n_cases: int
    n_clusters: int
    collinear: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StratifiedRankTest:
    """Van Elteren's test: z is positive when the group scores higher within strata; NaN when no stratum has both."""

    z: float
    p: float
    effect: float
    n_strata: int
    n: int


def ols(
    y: ArrayLike, X: ArrayLike, names: Sequence[str], clusters: ArrayLike | None = None, level: float = 0.95
) -> RegressionResult:
    """Return the ordinary least squares regression of y on X with HC3 or patient-clustered errors.

    Parameters
    ----------
    y : array (cases)
        Finite scores.
    X : array (cases, columns)
        The design, its intercept included.
    names : sequence of str
        One name a column.
    clusters : array (cases), optional
        The patient of each case. When some patient has several cases the errors are clustered by patient, with the
        factor G/(G-1) (n-1)/(n-p) and G-1 degrees of freedom; otherwise they are HC3 with n-p.
    level : float

    Raises
    ------
    ValueError
        When shapes differ or a number is not finite: a fault of the program, not of the input.

    References
    ----------
    mackinnon1985, cameron2015

    Examples
    --------
    >>> fit = ols([1.0, 2.0, 4.0, 5.0], [[1, 0], [1, 0], [1, 1], [1, 1]], ["intercept", "b"])
    >>> fit.coefficients.round(3).tolist(), fit.errors, fit.df
    ([1.5, 3.0], 'HC3', 2)
    """
    response, design = np.asarray(y, dtype=np.float64), np.asarray(X, dtype=np.float64)
    if design.shape != (response.size, len(names)):
        raise ValueError(f"a design of {response.size} cases and {len(names)} columns is needed, not {design.shape}")
    if not (np.isfinite(response).all() and np.isfinite(design).all()):
        raise ValueError("scores and design must be finite")
    n, p = design.shape
    codes = np.arange(n) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1].ravel()
    n_clusters = int(codes.max(initial=-1)) + 1
    errors: ErrorKind = "HC3" if n_clusters == n else "cluster"
    df = n - p if errors == "HC3" else n_clusters - 1
    collinear = tuple(name for name, free in zip(names, _independent(design), strict=True) if not free)
    if df < 1 or n <= p or collinear:
        status: Literal["collinear", "too_few_cases"] = "too_few_cases" if df < 1 or n <= p else "collinear"
        unknown = (np.full(p, np.nan),) * 6
        return RegressionResult(status, tuple(names), *unknown, errors, df, np.nan, n, n_clusters, collinear)
    coefficients, residuals, covariance = _fit(response, design, codes, errors)
    se = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = coefficients / se
    half, p_values = float(stdtrit(df, (1 + level) / 2)) * se, 2 * stdtr(df, -np.abs(t))
    spread = float(((response - response.mean()) ** 2).sum())
    r_squared = 1 - float((residuals**2).sum()) / spread if spread > 0 else np.nan
    numbers = (coefficients, se, t, p_values, coefficients - half, coefficients + half)
    return RegressionResult("ok", tuple(names), *numbers, errors, df, r_squared, n, n_clusters)


def _fit(response: Floats, design: Floats, codes: NDArray[np.intp], errors: ErrorKind) -> tuple[Floats, Floats, Floats]:
    """Return the coefficients, the residuals and the robust covariance of the coefficients."""
    n, p = design.shape
    orthonormal, triangle = np.linalg.qr(design)
    coefficients = np.linalg.solve(triangle, orthonormal.T @ response)
    residuals = response - design @ coefficients
    if errors == "HC3":
        meat = _hc3_meat(orthonormal, residuals)
    else:
        sums = np.zeros((int(codes.max()) + 1, p))
        np.add.at(sums, codes, orthonormal * residuals[:, None])
        meat = sums.T @ sums * len(sums) / (len(sums) - 1) * (n - 1) / (n - p)
    inverse = np.linalg.solve(triangle, np.eye(p))
    return coefficients, residuals, inverse @ meat @ inverse.T


def _hc3_meat(orthonormal: Floats, residuals: Floats) -> Floats:
    leverage = (orthonormal**2).sum(axis=1)
    weights = np.where(leverage < 1 - _LEVERAGE_ONE, residuals / np.maximum(1 - leverage, _LEVERAGE_ONE), np.nan)
    scaled = orthonormal * weights[:, None]
    meat: Floats = scaled.T @ scaled
    return meat


def _independent(design: Floats) -> list[bool]:
    """Return which columns are no combination of those before them (Gram-Schmidt, done twice)."""
    basis: list[Floats] = []
    free = []
    for column in design.T:
        rest = column.copy()
        for _ in range(2):
            for unit in basis:
                rest -= unit * (unit @ rest)
        length = float(np.linalg.norm(rest))
        free.append(length > _COLLINEAR * max(float(np.linalg.norm(column)), np.finfo(float).tiny))
        if free[-1]:
            basis.append(rest / length)
    return free


def van_elteren(values: ArrayLike, group: ArrayLike, stratum: ArrayLike) -> StratifiedRankTest:
    """Return van Elteren's stratified rank test of two groups.

    Parameters
    ----------
    values : array (cases)
        Scores; infinite ones rank as such.
    group : boolean array (cases)
        True for the group, False for the reference group.
    stratum : array (cases)
        The stratum (scanner, site) of each case. A stratum without both groups says nothing and takes no part.

    Notes
    -----
    Rank sums of the strata are added with weights 1 / (n_s + 1), which is most powerful when the shift is the same in
    all; variances are tie-corrected; no continuity correction. The effect is the rank-biserial one, averaged over
    strata with weights n_a n_b / (n_s + 1).

    References
    ----------
    vanelteren1960

    Examples
    --------
    >>> test = van_elteren([1, 2, 3, 11, 12, 13], [0, 1, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1])
    >>> round(test.z, 4), test.n_strata, test.effect
    (1.7321, 2, 1.0)
    """
    scores, chosen = np.asarray(values, dtype=np.float64), np.asarray(group, dtype=bool)
    codes = np.unique(np.asarray(stratum), return_inverse=True)[1].ravel()
    total = variance = effect = weights = 0.0
    n_strata = n_used = 0
    for code in range(int(codes.max(initial=-1)) + 1):
        inside = codes == code
        here, member = scores[inside], chosen[inside]
        n, n_a = here.size, int(member.sum())
        if n_a in {0, n}:
            continue
        ranks = midranks(here)
        excess = float(ranks.values[member].sum()) - n_a * (n + 1) / 2
        spread = n_a * (n - n_a) / 12 * (n + 1 - ranks.ties / (n * (n - 1)))
        total, variance = total + excess / (n + 1), variance + spread / (n + 1) ** 2
        effect, weights = effect + 2 * excess / (n + 1), weights + n_a * (n - n_a) / (n + 1)
        n_strata, n_used = n_strata + 1, n_used + n
    if not n_strata:
        return StratifiedRankTest(np.nan, np.nan, np.nan, 0, 0)
    z = total / float(np.sqrt(variance)) if variance > 0 else 0.0
    return StratifiedRankTest(z, float(2 * ndtr(-abs(z))), effect / weights, n_strata, n_used)
