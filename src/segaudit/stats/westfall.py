"""Westfall and Young's minP: p values adjusted for many dependent rank tests, by permuting people."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc

from segaudit.stats.clusters import Codes, Floats, kruskal_rows, layout, untied
from segaudit.stats.tests import DRAWN, blocks


@dataclass(frozen=True, slots=True)
class MinP:
    """Adjusted p values of every grouping by every score.

    Attributes
    ----------
    p : array of n_groupings by n_scores
        Kruskal-Wallis p from the chi-squared law; nan where fewer than two groups have scores.
    single_step : array of n_groupings by n_scores
        Share of permutations whose smallest p is at most this p.
    step_down : array of n_groupings by n_scores
        The same with the tests already rejected left out; never larger.
    critical : float
        A raw p at or below it is rejected by the single step at level alpha.
    draws : int
        Permutations.
    """

    p: Floats
    single_step: Floats
    step_down: Floats
    critical: float
    draws: int


def min_p(
    scores: ArrayLike,
    groupings: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    alpha: float = 0.05,
    draws: int = 2000,
    rng: np.random.Generator,
) -> MinP:
    """Return p values adjusted for all tests together, whatever their dependence.

    The whole row of group memberships moves from patient to patient, so that the scores of a patient stay together and
    so do the memberships; only the link between them is broken. Patients trade with patients that have as many cases.

    Parameters
    ----------
    scores : array of n_cases by n_scores
        nan where a score is undefined; inf ranks beyond every number.
    groupings : array of n_cases by n_groupings
        Group codes; a negative code means that the case is in no group of this grouping.
    patients : array of n_cases, optional
        The units that trade places; without, each case is one.
    alpha : float
        Level of the critical p value.

    Raises
    ------
    ValueError
        When scores and groupings are not tables with the same number of rows.

    Notes
    -----
    Each cell's p comes from the chi-squared law for its tie-corrected H (for two groups: the normal law, without
    continuity correction), as the scale on which cells are compared; the adjusted p values come from the permutations,
    so a wrong law shifts weight between cells but does not break the level.

    References
    ----------
    westfall1993
    """
    table, codes = np.asarray(scores, dtype=np.float64), np.asarray(groupings).astype(np.intp)
    if table.ndim != 2 or codes.ndim != 2 or len(table) != len(codes):
        raise ValueError(f"scores {table.shape} and groupings {codes.shape} must be tables with the same rows")
    observed = _p_values(table, codes[None])[0]
    smallest, at_least = np.empty(draws), np.zeros(observed.size)
    order = np.argsort(np.where(np.isnan(observed), np.inf, observed), axis=None, kind="stable")
    tested, done = int(np.count_nonzero(~np.isnan(observed))), 0
    ordered = observed.ravel()[order]
    for rows in blocks(draws, 4 * len(table), DRAWN):
        moved = codes[_permutations(len(table), patients, rows, rng)]
        drawn = _p_values(table, moved).reshape(rows, -1)[:, order[:tested]]
        drawn = np.where(np.isnan(drawn), 1.0, drawn)
        running = np.minimum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
        smallest[done : done + rows] = running[:, 0] if tested else 1.0
        at_least[:tested] += np.count_nonzero(running <= ordered[:tested] * (1 + 1e-9), axis=0)
        done += rows
    return MinP(
        p=observed,
        single_step=_single_step(observed, smallest),
        step_down=_step_down(observed.shape, order, at_least, tested, draws),
        critical=_critical(smallest, alpha),
        draws=draws,
    )


def _single_step(observed: Floats, smallest: Floats) -> Floats:
    ordered = np.sort(smallest)
    beyond = np.searchsorted(ordered, np.nan_to_num(observed, nan=2.0) * (1 + 1e-9), side="right")
    return np.where(np.isnan(observed), np.nan, (1 + beyond) / (smallest.size + 1))


def _critical(smallest: Floats, alpha: float) -> float:
    """Return the largest drawn p that is still rejected at alpha; 0 when none is."""
    allowed = int(alpha * (smallest.size + 1)) - 1
    if allowed < 0:
        return 0.0
    return float(np.max(smallest, initial=0.0, where=smallest < np.sort(smallest)[allowed]))


def _step_down(shape: tuple[int, ...], order: Codes, at_least: Floats, tested: int, draws: int) -> Floats:
    adjusted = np.full(order.size, np.nan)
    adjusted[order[:tested]] = np.maximum.accumulate((1 + at_least[:tested]) / (draws + 1))
    return adjusted.reshape(shape)


def _permutations(n_cases: int, patients: ArrayLike | None, rows: int, rng: np.random.Generator) -> Codes:
    """Return, row by row, whose memberships each case takes: patients with as many cases trade places, whole."""
    cases = layout(n_cases, None, patients)
    count = np.bincount(cases.patient, minlength=cases.n_patients)
    by_patient = np.argsort(cases.patient, kind="stable")
    starts = np.cumsum(count) - count
    taken = np.empty((rows, n_cases), dtype=np.intp)
    for size in np.unique(count):
        same = np.flatnonzero(count == size)
        block = by_patient[starts[same][:, None] + np.arange(size)]
        shuffled = rng.permuted(np.tile(np.arange(same.size), (rows, 1)), axis=1)
        taken[:, block.ravel()] = block[shuffled].reshape(rows, -1)
    return taken


def _p_values(table: Floats, codes: Codes) -> Floats:
    """Return p (draws by groupings by scores) for memberships (draws by cases by groupings)."""
    draws, _, n_groupings = codes.shape
    p = np.full((draws, n_groupings, table.shape[1]), np.nan)
    everywhere = np.flatnonzero(~np.isnan(table).any(axis=0))
    whole = [grouping for grouping in range(n_groupings) if everywhere.size and codes[:, :, grouping].min() >= 0]
    if whole:  # no draw leaves a case out: the ranks stay, and only their sums are drawn
        ranks, untied_share = _ranks(table[:, everywhere])
        for grouping in whole:
            h = _h_of_sums(ranks, untied_share, codes[:, :, grouping])
            n_groups = np.count_nonzero(np.bincount(codes[0, :, grouping]))
            p[:, grouping, everywhere] = chdtrc(n_groups - 1, h) if n_groups > 1 else np.nan
    for column in range(table.shape[1]):
        left = [grouping for grouping in range(n_groupings) if grouping not in whole or column not in everywhere]
        known = np.flatnonzero(~np.isnan(table[:, column]))
        if not (known.size and left):
            continue
        ranked = _ordered_codes(table[known, column])
        for grouping in left:
            labels = codes[:, known, grouping]
            k = int(labels.max(initial=-1)) + 1
            present = np.sum([np.any(labels == j, axis=1) for j in range(k)], axis=0) if k else np.zeros(draws)
            h = np.maximum(kruskal_rows(ranked, labels, k), 0.0)
            p[:, grouping, column] = np.where(present > 1, chdtrc(np.maximum(present - 1, 1), h), np.nan)
    return p


def _ranks(table: Floats) -> tuple[Floats, Floats]:
    """Return the midranks of each column (cases by scores), and the factor by which its ties lower H."""
    n = len(table)
    ranks, untied_share = np.empty_like(table), np.empty(table.shape[1])
    for column, values in enumerate(table.T):
        ordered = _ordered_codes(values)
        counts = np.bincount(ordered).astype(np.float64)
        ranks[:, column] = (np.cumsum(counts) - (counts - 1) / 2)[ordered]
        untied_share[column] = 1 - (np.sum(counts**3) - n) / max(float(n) ** 3 - n, 1)
    return ranks, untied_share


def _h_of_sums(ranks: Floats, untied_share: Floats, labels: Codes) -> Floats:
    """Return Kruskal-Wallis H (draws by scores) when labels (draws by cases) divide all cases; 0 where all is tied."""
    n = len(ranks)
    between = np.zeros((len(labels), ranks.shape[1]))
    for j in np.unique(labels[0]):
        inside = (labels == j).astype(np.float64)
        size = inside.sum(axis=1)[:, None]
        between += (inside @ ranks - size * (n + 1) / 2) ** 2 / size
    h = 12 * between / max(n * (n + 1), 1)
    return np.divide(h, untied_share, out=np.zeros_like(h), where=untied_share > 1e-12)


def _ordered_codes(values: Floats) -> NDArray[np.intp]:
    rounded = np.where(np.isfinite(values), values, 0.0)
    rounded = np.where(np.isfinite(values), untied(rounded), values)
    return np.unique(rounded, return_inverse=True)[1].astype(np.intp)
