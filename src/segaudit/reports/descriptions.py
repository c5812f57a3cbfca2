"""Charts in words: text alternatives, and what is read out at a mark, with the digits of the tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from segaudit.reports.looks import speech
from segaudit.reports.numbers import difference, difference_span, ratio, ratio_span, score
from segaudit.reports.reading import Reading, Row


def finite_scores(reading: Reading, ruler: str, metric: str = "", label: str = "") -> NDArray[np.float64]:
    """Return the defined, finite scores of the audited cases under a ruler, ascending."""
    table = reading.scores
    own = table[
        (table["ruler"] == ruler)
        & (table["metric"] == (metric or reading.metric))
        & (table["label"] == (label or reading.label))
        & table["case"].isin(reading.audit.cases["case"])
    ]
    return np.sort(own["value"].dropna().to_numpy(dtype=np.float64))


def scores_in_words(values: NDArray[np.float64], reading: Reading) -> str:
    """Return how many scores there are, and their median."""
    middle = score(float(np.median(values)), reading.card).text if len(values) else "none"
    return f"{len(values)} cases, median {middle}"


def gap_in_words(row: Row, reading: Reading) -> str:
    """Return a gap with its interval, as the tables write it."""
    limits = difference_span(row["low"], row["high"], reading.card)
    return difference(row["value"], reading.card).text + (f" ({limits})" if limits else "")


def sweep_in_words(row: Row) -> str:
    """Return what is read out at a threshold of a sweep."""
    limits = ratio_span(row["dir_low"], row["dir_high"])
    flat = ", saturated" if row["status"] == "saturated" else ""
    told_ratio = f"DIR {ratio(row['dir']).text}" + (f" ({limits})" if limits else "") + flat
    return speech(row["ruler"], f"threshold {row['threshold']:g}", numbers=told_ratio)


def described_scores(reading: Reading) -> str:
    """Return the text alternative of `plot_rulers`: number and median under each ruler."""
    parts = [f"{ruler}: {scores_in_words(finite_scores(reading, ruler), reading)}" for ruler in reading.rulers]
    return f"{reading.title()} of every case under each ruler. " + "; ".join(parts) + "."


def described_gaps(reading: Reading, groupings: list[str]) -> str:
    """Return the text alternative of `plot_gaps`: each gap with its interval, as in the table of gaps."""
    parts = []
    for name in groupings:
        pair = reading.widest(reading.trusted, name)
        for ruler in reading.rulers if pair else ():
            row: Row | None = reading.same_pair(ruler, pair) if pair else None
            if row is not None:
                groups = f"{row['group']} minus {row['reference_group']}"
                parts.append(f"{name}, {groups}, under {ruler}: {gap_in_words(row, reading)}")
    return "Gap of each grouping under each ruler. " + "; ".join(parts) + "."
