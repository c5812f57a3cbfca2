"""Bootstrap and permutation of success rates by counts: the law of resampling rows, at a cost flat in their number.

A cell of an audit is a table of patients, group by type, a type being (successes, cases) of one patient. Resampling
patients draws its counts from a multinomial law, shuffling their groups from a hypergeometric one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtr, ndtri

from segaudit.stats.disparity import demographic_parity_difference, disparate_impact_ratio, median_gap
from segaudit.stats.intervals import medians_of_resamples
from segaudit.stats.tests import blocks

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_TIE = 1e-9
_MAX_OUTCOMES = 20_000  # outcomes of a permutation that are counted rather than drawn
_MAX_SHUFFLED = 2_000  # values whose groups are shuffled one by one


@dataclass(frozen=True, slots=True)
class RateTable:
    """Patients by group and type.

    Attributes
    ----------
    patients : integer array (k, types)
        Patients of each group and type.
    successes, cases : integer arrays (types)
        Successes and cases of one patient of the type.
    """

    patients: Counts
    successes: Counts
    cases: Counts

    @property
    def group_successes(self) -> Counts:
        """Successes of each group (k)."""
        return np.asarray(self.patients @ self.successes)

    @property
    def group_cases(self) -> Counts:
        """Cases of each group (k)."""
        return np.asarray(self.patients @ self.cases)

    @property
    def rates(self) -> Floats:
        """Success rate of each group (k); NaN for a group without cases."""
        return _rate(self.group_successes, self.group_cases)


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """Bootstrap limits, by BCa, or by percentiles where BCa is undefined; NaN and `none` where the estimate is."""

    low: float
    high: float
    method: Literal["bca", "percentile", "none"]


@dataclass(frozen=True, slots=True)
class RateBootstrap:
    """Bootstrap limits of DIR and DPD of one cell."""

    dir: BootstrapInterval
    dpd: BootstrapInterval


@dataclass(frozen=True, slots=True)
class RatePermutation:
    """Permutation of the groups of one cell.

    Attributes
    ----------
    p_dir, p_dpd : float
        One-sided p values of 1 - DIR and of DPD; never 0. NaN when the disparity is undefined.
    expected_dir, expected_dpd : float
        Means of DIR and DPD when the groups are alike, at these group sizes.
    draws : int
        Random permutations; 0 when every outcome was counted with its probability.
    """

    p_dir: float
    p_dpd: float
    expected_dir: float
    expected_dpd: float
    draws: int


@dataclass(frozen=True, slots=True)
class ExpectedGap:
    """The gap between group medians when the groups are alike, at these group sizes.

    Attributes
    ----------
    mean, high : float
        Mean and 95 % quantile.
    method : {"shuffle", "order_statistics"}
        Values dealt to groups at random; or, beyond 2,000 values, medians of independent samples from all values, which
        agree with the former up to terms of order 1/n.
    """

    mean: float
    high: float
    method: Literal["shuffle", "order_statistics"]


def rate_table(groups: ArrayLike, successes: ArrayLike, cases: ArrayLike, k: int) -> RateTable:
    """Return the table of patients by group and type.

    Parameters
    ----------
    groups : integer array, one entry a patient
        Position of the patient's group, 0 to k-1.
    successes, cases : integer arrays, one entry a patient
        Successes and cases with a defined score; patients without cases are left out.
    k : int
        Number of groups.
    """
    group, good, total = (np.asarray(array, dtype=np.int64) for array in (groups, successes, cases))
    group, good, total = group[total > 0], good[total > 0], total[total > 0]
    base = int(total.max(initial=0)) + 1
    codes, types = np.unique(total * base + good, return_inverse=True)
    patients = np.bincount(group * codes.size + types, minlength=k * codes.size).reshape(k, codes.size)
    return RateTable(patients.astype(np.int64), codes % base, codes // base)


def counts_table(successes: ArrayLike, cases: ArrayLike) -> RateTable:
    """Return the table of k groups in which each patient has one case, from successes (k) and cases (k)."""
    good, total = np.asarray(successes, dtype=np.int64), np.asarray(cases, dtype=np.int64)
    return RateTable(np.stack([total - good, good], axis=1), np.array([0, 1]), np.array([1, 1]))


def _rate(successes: ArrayLike, cases: ArrayLike) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.divide(successes, cases))


def bootstrap_rates(table: RateTable, draws: int, rng: np.random.Generator, *, stratified: bool = False) -> Floats:
    """Return success rates (draws, k) of resampled patients.

    Parameters
    ----------
    table : RateTable
    draws : int
    rng : numpy Generator
    stratified : bool
        Resample within each group, so that the number of its patients is fixed; otherwise all patients together, as
        the study did, so that it varies. A group that comes out empty has the rate NaN.
    """
    sizes = table.patients.sum(axis=1)
    drawn = np.tile(sizes, (draws, 1)).T if stratified else _deal(int(sizes.sum()), sizes, draws, rng)
    successes, cases = np.zeros((2, sizes.size, draws), dtype=np.int64)
    for group, row in enumerate(table.patients):
        for kind, count in _deal_types(drawn[group], row, rng):
            successes[group] += table.successes[kind] * count
            cases[group] += table.cases[kind] * count
    return _rate(successes, cases).T


def _deal(n: int, sizes: Counts, draws: int, rng: np.random.Generator) -> Counts:
    """Return group sizes (k, draws) of n resampled patients."""
    drawn = np.zeros((sizes.size, draws), dtype=np.int64)
    left, weight = np.full(draws, n), int(sizes.sum())
    for group, size in enumerate(sizes.tolist()[:-1]):
        drawn[group] = rng.binomial(n if group == 0 else left, size / weight if weight else 0.0, draws)
        if group == 0:
            # draws have no order; sorted, equal sizes meet, and NumPy prepares each binomial law once
            drawn[0].sort()
        left, weight = left - drawn[group], weight - size
    drawn[-1] = left
    return drawn


def _deal_types(size: Counts, row: Counts, rng: np.random.Generator) -> list[tuple[int, Counts]]:
    """Return (type, patients (draws)) of resampled groups of these sizes: the rarest types first, which is quick."""
    order = [int(kind) for kind in np.argsort(row, kind="stable") if row[kind]]
    dealt, left, weight = [], size, int(row.sum())
    for kind in order[:-1]:
        count = rng.binomial(left, row[kind] / weight)
        dealt.append((kind, count))
        left, weight = left - count, weight - int(row[kind])
    return [*dealt, *((kind, left) for kind in order[-1:])]


def bootstrap_disparities(table: RateTable, level: float, draws: int, rng: np.random.Generator) -> RateBootstrap:
    """Return BCa bootstrap limits of DIR and DPD as in the study, all patients resampled together.

    Notes
    -----
    Kept for comparison: these limits collapse to [1, 1] without failures and cover far less than they claim near it;
    `intervals.dir_interval` and `intervals.dpd_interval` are the ones to read. The jackknife leaves out one patient of
    each distinct cell, weighted by how many the cell has, so the limits follow exactly the law of resampling rows.
    """
    rates = bootstrap_rates(table, draws, rng)
    left_out, weights = _jackknife(table)
    observed = table.rates
    dir_, dpd = (
        bca_interval(float(fn(observed)), fn(rates), fn(left_out), weights, level)
        for fn in (disparate_impact_ratio, demographic_parity_difference)
    )
    return RateBootstrap(dir_, dpd)


def _jackknife(table: RateTable) -> tuple[Floats, Floats]:
    """Return rates (cells, k) with one patient of a cell left out, and the patients (cells) of each cell."""
    group, kind = np.nonzero(table.patients)
    cells = np.arange(group.size)
    successes, cases = (np.tile(total, (group.size, 1)) for total in (table.group_successes, table.group_cases))
    successes[cells, group] -= table.successes[kind]
    cases[cells, group] -= table.cases[kind]
    return _rate(successes, cases), table.patients[group, kind].astype(np.float64)


def bca_interval(value: float, drawn: Floats, left_out: Floats, weights: Floats, level: float) -> BootstrapInterval:
    """Return bias-corrected and accelerated limits of an estimate.

    Parameters
    ----------
    value : float
        The estimate.
    drawn : array (draws)
        Its bootstrap values; undefined ones are left out.
    left_out, weights : arrays (cells)
        Its jackknife values, and how often each occurs.
    level : float

    References
    ----------
    efron1987
    """
    ordered = np.sort(drawn[np.isfinite(drawn)])
    if not np.isfinite(value) or not ordered.size:
        return BootstrapInterval(np.nan, np.nan, "none")
    # the share below the estimate, ties counted half
    below = np.searchsorted(ordered, [value - _TIE, value + _TIE]).mean() / ordered.size
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    with np.errstate(divide="ignore", invalid="ignore"):
        bias = ndtri(below)
        influence = (weights * left_out).sum() / weights.sum() - left_out
        acceleration = (weights * influence**3).sum() / (6 * (weights * influence**2).sum() ** 1.5)
        moved = bias + ndtri(tails)
        corrected = ndtr(bias + moved / (1 - acceleration * moved))
    bca = bool(np.isfinite(bias) and np.isfinite(corrected).all())
    places = (corrected if bca else tails) * (ordered.size - 1)
    low, high = np.interp(places, np.arange(ordered.size), ordered)
    return BootstrapInterval(float(low), float(high), "bca" if bca else "percentile")


def permutation_rates(table: RateTable, draws: int, rng: np.random.Generator) -> Floats:
    """Return success rates (draws, k) with the groups of the patients shuffled.

    Patients are shuffled among those with as many cases, which are exchangeable even when groups differ in how many
    exams their patients had; so the cases of each group stay what they are.
    """
    k = len(table.patients)
    successes = np.zeros((k, draws), dtype=np.int64)
    for count in np.unique(table.cases):
        stratum = table.patients[:, table.cases == count]
        values = table.successes[table.cases == count]
        order = np.argsort(stratum.sum(axis=0), kind="stable")  # the rarest first, which is quick
        left = np.repeat(stratum.sum(axis=0)[order][:, None], draws, axis=1)
        for group, size in enumerate(stratum.sum(axis=1).tolist()):
            need = np.full(draws, size)
            for place, value in enumerate(values[order].tolist()):
                others = left[place + 1 :].sum(axis=0)
                taken = left[place] if group == k - 1 else rng.hypergeometric(left[place], others, need)
                successes[group] += value * taken
                left[place] = left[place] - taken
                need = need - taken
    return _rate(successes, table.group_cases[:, None]).T


def permute_disparities(table: RateTable, draws: int, rng: np.random.Generator) -> RatePermutation:
    """Return one-sided permutation p values of DIR and DPD, and their means when the groups are alike.

    Notes
    -----
    T is 1 - DIR or DPD, and p = (1 + number of T_b >= T) / (draws + 1). When every patient has one case and there are
    at most 20,000 outcomes, each is counted with its hypergeometric probability: p is exact and nothing is drawn.

    References
    ----------
    phipson2010
    """
    outcomes = _outcomes(table)
    rates, probability = outcomes or (permutation_rates(table, draws, rng), None)
    ratio, difference = disparate_impact_ratio(rates), demographic_parity_difference(rates)
    observed = table.rates
    return RatePermutation(
        _one_sided(1 - float(disparate_impact_ratio(observed)), 1 - ratio, probability),
        _one_sided(float(demographic_parity_difference(observed)), difference, probability),
        _mean(ratio, probability),
        _mean(difference, probability),
        0 if outcomes else draws,
    )


def _outcomes(table: RateTable) -> tuple[Floats, Floats] | None:
    """Return all rates (outcomes, k) that a shuffle can give, and their probabilities; None when there are too many."""
    sizes, good = table.group_cases, table.group_successes
    if len(sizes) < 2 or (table.cases != 1).any() or not (sizes > 0).all():
        return None
    failed = int(sizes.sum() - good.sum())
    rare = min(failed, int(good.sum()))
    widths = [int(min(rare, size)) + 1 for size in sizes]
    if float(np.prod([float(width) for width in widths[:-1]])) > _MAX_OUTCOMES:
        return None
    grid = np.indices(widths[:-1]).reshape(len(widths) - 1, -1)
    dealt = np.vstack([grid, rare - grid.sum(axis=0)])
    dealt = dealt[:, (dealt[-1] >= 0) & (dealt[-1] <= sizes[-1])]
    column = sizes[:, None]
    logs = (gammaln(column + 1) - gammaln(dealt + 1) - gammaln(column - dealt + 1)).sum(axis=0)
    probability = np.exp(logs - logs.max())
    successes = dealt if rare == int(good.sum()) else column - dealt
    return _rate(successes, column).T, probability / probability.sum()


def _one_sided(observed: float, drawn: Floats, probability: Floats | None) -> float:
    if np.isnan(observed):
        return np.nan
    beyond = drawn >= observed - _TIE
    if probability is not None:
        return float(min(1.0, probability[beyond].sum()))
    return float((1 + beyond.sum()) / (beyond.size + 1))


def _mean(values: Floats, probability: Floats | None) -> float:
    defined = np.isfinite(values)
    if not defined.any():
        return np.nan
    return float(np.average(values[defined], weights=None if probability is None else probability[defined]))


def expected_median_gap(groups: Sequence[ArrayLike], draws: int, rng: np.random.Generator) -> ExpectedGap:
    """Return the mean and the 95 % quantile of the largest minus the smallest median when the groups are alike.

    Parameters
    ----------
    groups : sequence of k one-dimensional arrays
        Scores of each group, one a patient; only their sizes and the pooled values matter.
    draws : int
    rng : numpy Generator
    """
    arrays = [array for group in groups if (array := np.asarray(group, dtype=np.float64)).size]
    pooled = np.sort(np.concatenate([np.empty(0), *arrays]))
    sizes = [array.size for array in arrays]
    shuffled = pooled.size <= _MAX_SHUFFLED
    if len(sizes) < 2:
        return ExpectedGap(np.nan, np.nan, "shuffle")
    if shuffled:
        gaps = np.concatenate([_shuffled_gaps(pooled, sizes, rows, rng) for rows in blocks(draws, pooled.size)])
    else:
        medians = [medians_of_resamples(pooled, size, draws, rng) for size in sizes]
        gaps = median_gap(np.stack(medians, axis=-1))
    defined = gaps[~np.isnan(gaps)]
    if not defined.size:
        return ExpectedGap(np.nan, np.nan, "shuffle" if shuffled else "order_statistics")
    high = float(np.quantile(defined, 0.95, method="higher"))
    return ExpectedGap(float(defined.mean()), high, "shuffle" if shuffled else "order_statistics")


def _shuffled_gaps(pooled: Floats, sizes: Sequence[int], draws: int, rng: np.random.Generator) -> Floats:
    rows = rng.permuted(np.tile(pooled, (draws, 1)), axis=1)
    medians, start = [], 0
    for size in sizes:
        part, half = rows[:, start : start + size], size // 2
        middles = sorted({(size - 1) // 2, half})
        medians.append(np.partition(part, middles, axis=1)[:, middles].mean(axis=1))
        start += size
    return median_gap(np.stack(medians, axis=-1))
