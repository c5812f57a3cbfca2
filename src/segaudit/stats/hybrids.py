"""The shares of a change of H over resampled patients, where there are too many cases to rank each resample.

The rank sums of a hybrid move with the patients drawn, and with the medians and scales that are estimated anew. Both
are linear but for terms of order one over the root of the cases; so rank sums, medians and scales are drawn from their
joint normal law, and H is computed from the drawn rank sums as from any others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from segaudit.stats.clusters import LARGE_SAMPLE, Codes, Floats, Layout, group_medians, residuals, untied
from segaudit.stats.large import below_middle, median_at
from segaudit.stats.tests import midranks

_MIN_GROUP = 100  # patients
_HYBRIDS = tuple(np.ndindex(2, 2, 2))  # ruler of gap, of scale, of pattern


@dataclass(frozen=True, slots=True)
class _Parts:
    """What hybrids are made of: scores (2 by n_cases), group medians (2 by n_groups) and noise (2) of both rulers."""

    scores: Floats
    medians: Floats
    noise: Floats

    def values(self, hybrid: tuple[int, ...], group: Codes) -> Floats:
        """Return the scores of a hybrid."""
        gap, size, shape = hybrid
        pattern = (self.scores[shape] - self.medians[shape][group]) / self.noise[shape]
        return untied(self.medians[gap][group] + self.noise[size] * pattern)


def is_large(x: Floats, y: Floats, cases: Layout) -> bool:
    """Return whether the law of `drawn_hybrids` holds: many cases, no small group, noise under both rulers."""
    if cases.n_cases <= LARGE_SAMPLE or min(np.unique(cases.patient[m]).size for m in cases.members()) < _MIN_GROUP:
        return False
    return all(bool(residuals(values, cases).any()) for values in (x, y))


def drawn_hybrids(x: Floats, y: Floats, cases: Layout, draws: int, rng: np.random.Generator) -> Floats:
    """Return H (draws by 2 by 2 by 2) of every hybrid when patients are drawn within their group.

    Both rulers have noise, and every group many patients (`is_large`).
    """
    scores = np.stack([x, y])
    medians = np.stack([group_medians(x, cases), group_medians(y, cases)])
    away = np.abs(scores - medians[:, cases.group])
    parts = _Parts(scores, medians, away.mean(axis=1))
    ranked = [midranks(parts.values(hybrid, cases.group)).values for hybrid in _HYBRIDS]
    columns = np.concatenate([*(_moves(ranks, cases) for ranks in ranked), away, [np.ones(x.size)]])
    k, width = cases.n_groups, cases.n_groups + 1
    total, counts = np.zeros((len(columns), draws)), np.empty((k, draws))
    middles = np.empty((2, k, draws))
    for j, members in enumerate(cases.members()):
        patients, patient = np.unique(cases.patient[members], return_inverse=True)
        of_group = [values[members] for values in scores]
        own = np.concatenate([columns[:, members], [below_middle(values, patient) for values in of_group]])
        law = patients.size * np.cov([np.bincount(patient, weights=column) for column in own], bias=True)
        moved = rng.multivariate_normal(np.zeros(len(own)), law, draws, method="eigh", check_valid="ignore").T
        total += moved[:-2]
        counts[j] = members.size + moved[-3]
        for r, (values, below) in enumerate(zip(of_group, moved[-2:], strict=True)):
            middles[r, j] = median_at(values, 1 - (members.size / 2 + below) / counts[j])
    n = counts.sum(axis=0)
    noise = (away.sum(axis=1)[:, None] + total[-3:-1]) / n
    h = np.empty((draws, 2, 2, 2))
    for i, hybrid in enumerate(_HYBRIDS):
        moves = total[i * width : (i + 1) * width]
        sums: Floats = _rank_sums(ranked[i], cases)[:, None] + moves[:k]
        for slope, change in _slopes(parts, hybrid, cases, middles - medians[:, :, None], noise - parts.noise[:, None]):
            sums = sums + np.multiply.outer(slope, change)
        ties = np.sum(_tied(ranked[i]) ** 2) + 3 * moves[-1] - n
        between = ((sums - counts * n / 2) ** 2 / counts).sum(axis=0)
        h[(slice(None), *hybrid)] = 12 * between / (n * (n + 1)) / np.maximum(1 - ties / (n**3 - n), 1e-12)
    return h


def _moves(ranks: Floats, cases: Layout) -> Floats:
    """Return what each case adds to each group's rank sum (groups by n_cases), and to a third of the ties (one row).

    A case adds its own rank to its group, and one to the rank of every case above it.
    """
    order = np.argsort(ranks)
    rows = []
    for members in cases.members():
        part = np.sort(ranks[members])
        below, upto = (np.searchsorted(part, ranks[order], side=side) for side in ("left", "right"))
        above = np.empty(ranks.size)
        above[order] = part.size - (below + upto) / 2
        above[members] += ranks[members] - 0.5
        rows.append(above)
    return np.stack([*rows, _tied(ranks) ** 2])


def _tied(ranks: Floats) -> Floats:
    """Return how many cases share the rank of each case."""
    _, place, times = np.unique(ranks, return_inverse=True, return_counts=True)
    return times[place].astype(np.float64)


def _rank_sums(ranks: Floats, cases: Layout) -> Floats:
    return np.bincount(cases.group, weights=ranks, minlength=cases.n_groups) - cases.sizes / 2


def _slopes(
    parts: _Parts, hybrid: tuple[int, ...], cases: Layout, moved_medians: Floats, moved_noise: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """Yield, for each median and scale that a hybrid rests on, its rank sums' slope and the drawn changes of it.

    The slope is taken over one standard deviation of the changes on either side: that far the ranks are resolved.
    """
    gap, size, shape = hybrid
    if gap == size == shape:  # a ruler's own scores
        return

    def slope(kind: str, at: tuple[int, ...], step: float) -> Floats:
        sums = []
        for sign in (1, -1):
            changed = {"medians": parts.medians.copy(), "noise": parts.noise.copy()}
            changed[kind][at] += sign * step
            moved = _Parts(parts.scores, changed["medians"], changed["noise"])
            sums.append(_rank_sums(midranks(moved.values(hybrid, cases.group)).values, cases))
        found: Floats = (sums[0] - sums[1]) / (2 * step)
        return found

    for ruler in sorted({gap, shape}):
        for j in range(cases.n_groups):
            if (step := float(moved_medians[ruler, j].std())) > 0:
                yield slope("medians", (ruler, j), step), moved_medians[ruler, j]
    if size != shape:
        for ruler in (0, 1):
            if (step := float(moved_noise[ruler].std())) > 0:
                yield slope("noise", (ruler,), step), moved_noise[ruler]
