"""All differences of two groups, and their order statistics, without a list of them."""

from __future__ import annotations

import bisect
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_WINDOW = 300_000  # beyond, differences that are sorted in the end
_GRID = 400  # evenly spaced values of each group, whose differences tell where to look


class Differences:
    """Differences of two sorted arrays up to trial values, counted in O(n log n) a trial: order statistics come of it.

    The trials of one order statistic are kept for the next one: those of an interval lie close together.
    """

    def __init__(self, first: Floats, second: Floats) -> None:
        self._first, self._second = first, second
        self._grid = np.sort(np.subtract.outer(_spaced(first), _spaced(second)), axis=None)
        # No difference lies up to the first of these, all lie up to the last: trial values, ascending, with how many
        # differences lie up to each, and how many of `second` lie below first minus the trial.
        self._at = [np.nextafter(first[0] - second[-1], -np.inf), first[-1] - second[0]]
        self._upto = [0, first.size * second.size]
        self._cuts = [np.full(first.size, second.size), np.zeros(first.size, dtype=np.int64)]
        self._seen = (math.nan, math.nan), first  # two limits, and the differences between them

    def at_rank(self, rank: int) -> float:
        """Return the rank-th smallest difference: narrow (low, high] until few enough lie in it, then sort those.

        Trials are read off the line between the two limits, now a little beyond the rank and now a little short of it,
        so that both limits close in; where that gains little (many equal differences), the interval is halved.
        """
        place = rank / self._upto[-1] * self._grid.size
        steps = self._grid.size / 500, -self._grid.size / 500
        trials = [float(self._grid[np.clip(int(place + step), 0, self._grid.size - 1)]) for step in steps]
        side, halve = 1, False
        while True:
            i = bisect.bisect_left(self._upto, rank)
            low, high, below = self._at[i - 1], self._at[i], self._upto[i - 1]
            count = self._upto[i] - below
            if count <= _WINDOW:
                return self._inside(i, rank - below)
            margin = max(0.05 * count, _WINDOW / 4)
            share = 0.5 if halve else (rank - below + side * margin) / count
            while trials and not low < trials[0] < high:
                trials.pop(0)
            trial = trials.pop(0) if trials else low + (high - low) * min(max(share, 0.001), 0.999)
            if not low < trial < high:
                trial = low + (high - low) / 2
                if not low < trial < high:
                    return float(high)
            cut = np.searchsorted(self._second, self._first - trial)
            upto = self._upto[-1] - int(cut.sum())
            self._at.insert(i, trial)
            self._upto.insert(i, upto)
            self._cuts.insert(i, cut)
            left = self._upto[i] - below if upto >= rank else self._upto[i + 1] - upto
            side, halve = -side, left > 0.5 * count and not halve

    def _inside(self, i: int, rank: int) -> float:
        """Return the rank-th smallest of the differences between a trial value and the one before it."""
        limits = self._at[i - 1], self._at[i]
        if self._seen[0] != limits:
            start, lengths = self._cuts[i], self._cuts[i - 1] - self._cuts[i]
            at = np.repeat(start - (np.cumsum(lengths) - lengths), lengths)
            at += np.arange(at.size)
            self._seen = limits, np.repeat(self._first, lengths) - self._second[at]
        inside = self._seen[1]
        inside.partition(rank - 1)
        return float(inside[rank - 1])


def _spaced(ordered: Floats) -> Floats:
    return ordered[((np.arange(_GRID) + 0.5) * ordered.size / _GRID).astype(np.int64)]
