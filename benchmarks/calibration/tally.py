"""Counts of what happened in simulated cohorts, and the table that they become."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pandas as pd

Measure = Literal["level", "coverage 95", "coverage 90", "power", "share", "record"]

MOST_LEVEL, LEAST_COVERAGE = 0.075, 0.92
NAMED = (
    "inflation, mean (t)",
    "MnAD ratio, all cases",
    "MnAD ratio, within groups",
    "gap ratio, where estimable",
    "SNR ratio, where estimable",
    "differential inflation, shift",
    "shared-error bound",
    "noise ratio (bootstrap)",
)
"""Intervals known to hold the truth in less than 92 % somewhere; docs/calibration.md says where and what to read."""
_SURE = 3.0  # standard errors


class Key(NamedTuple):
    """One number of the table.

    Attributes
    ----------
    measure : str
        level: rejections of a nominal 5 % test where nothing is to be found. coverage 95, coverage 90: intervals that
        hold the truth. power: rejections where something is to be found. share: of a word or a class. record: of a
        number that the product prints for the record only, or prints not at all (groups under ten).
    quantity, situation : str
    n : str
        Cases, or the sizes of two groups.
    """

    measure: Measure
    quantity: str
    situation: str
    n: str


class Published(NamedTuple):
    """A value to reproduce, or the range of several.

    Attributes
    ----------
    low, high : float
    reps : int
        Cohorts that it came from; 0 where it was computed.
    slack : float
        What else may lie between two simulations: half of the last digit, or an unstated correlation of the rulers.
    """

    low: float
    high: float
    reps: int
    slack: float


class Tally:
    """Hits and trials by key."""

    def __init__(self):
        self.counts: dict[Key, list[int]] = defaultdict(lambda: [0, 0])

    def add(self, key: Key, hit: object) -> None:
        """Count a trial, and whether it hit."""
        cell = self.counts[key]
        cell[0] += bool(hit)
        cell[1] += 1

    def merge(self, other: dict[Key, tuple[int, int]]) -> None:
        """Add the counts of another process."""
        for key, (hits, trials) in other.items():
            self.counts[key][0] += hits
            self.counts[key][1] += trials

    def plain(self) -> dict[Key, tuple[int, int]]:
        """Return the counts in a form that travels between processes."""
        return {key: (hits, trials) for key, (hits, trials) in self.counts.items()}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; se and trials are 0 where a number was computed exactly."""

    key: Key
    value: float
    se: float
    trials: int
    published: Published | None

    @property
    def agrees(self) -> str:
        """Whether the value lies within three standard errors (of both simulations) and the slack of the other."""
        if self.published is None:
            return ""
        low, high, reps, slack = self.published
        nearest = min(max(self.value, low), high)
        if not self.trials:
            return "yes" if abs(self.value - nearest) <= slack + 1e-9 else "no"
        pooled = (self.value * self.trials + nearest * reps) / (self.trials + reps)
        pooled = min(max(pooled, 1 / self.trials), 1 - 1 / self.trials)
        se = math.sqrt(pooled * (1 - pooled) * (1 / self.trials + 1 / reps))
        return "yes" if abs(self.value - nearest) <= _SURE * se + slack else "no"

    @property
    def rule(self) -> str:
        """Whether a level is at most 7.5 %, a coverage at least 92 %.

        `broken` is beyond three standard errors, and so is `named`, where docs/calibration.md says so; `near` is on the
        wrong side, within them.
        """
        beyond = {"level": self.value - MOST_LEVEL, "coverage 95": LEAST_COVERAGE - self.value}.get(self.key.measure)
        if beyond is None:
            return ""
        if beyond > _SURE * self.se:
            return "named" if self.key.quantity in NAMED else "broken"
        return "near" if beyond > 0 else "kept"


def rows_of(tally: Tally, published: dict[Key, Published]) -> list[Row]:
    """Return the rows of all counts, in the order of their keys' first appearance."""
    rows = []
    for key, (hits, trials) in tally.counts.items():
        share = hits / trials
        rows.append(
            Row(key, share, math.sqrt(max(share * (1 - share), 1 / trials) / trials), trials, published.get(key))
        )
    return rows


def frame(rows: list[Row]) -> pd.DataFrame:
    """Return the table."""
    return pd.DataFrame(
        {
            **row.key._asdict(),
            "value": round(row.value, 4),
            "se": round(row.se, 4),
            "trials": row.trials,
            "published": _told(row.published),
            "agrees": row.agrees,
            "rule": row.rule,
        }
        for row in rows
    )


def _told(published: Published | None) -> str:
    if published is None:
        return ""
    low, high = f"{published.low:g}", f"{published.high:g}"
    return low if low == high else f"{low} to {high}"
