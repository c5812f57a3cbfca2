"""The worst cases of each score, and how prediction and rulers lie on the image."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import pandas as pd

from segaudit.errors import counted
from segaudit.groupings import assign
from segaudit.metrics import METRICS
from segaudit.reports.document import Block, Cell, Column, Picture, Pictures, Section, Table, long_table, prose
from segaudit.reports.numbers import score
from segaudit.reports.panels import key_of_lines, panel
from segaudit.reports.reading import Reading
from segaudit.reports.verdicts import listed

_CASES = 10
_PER_GROUP = 2
_ROWS = 400
_LEAST = 4
_PICTURES = 18
_BYTES = 600_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """A case that is among the worst by a metric, and the groups whose worst it is."""

    metric: str
    case: str
    value: float
    groups: tuple[str, ...]


def worst(reading: Reading) -> Section:
    """Return the worst cases by each metric; of each group when cases may be shown beside their group."""
    members = _members(reading)
    ranked = {metric: _ranked(reading, metric) for metric in _metrics(reading)}
    blocks: list[Block] = [_table(reading, ranked, members)]
    if not reading.show_cases:
        note = "Groups are not named beside single cases; they are when the report is asked for them (show_cases)."
        blocks.append(prose(note, role="note"))
    return Section("worst", "Worst cases", (*blocks, *_pictures(reading, ranked, members)))


def _metrics(reading: Reading) -> list[str]:
    """Return the metrics of the structure in front that have a better and a worse, the one in front first."""
    own = dict.fromkeys(metric for metric, label in reading.cells if label == reading.label)
    return [metric for metric in own if METRICS[metric].better != "neither"]


def _members(reading: Reading) -> dict[str, frozenset[str]]:
    """Return the cases of every group that is large enough to be tested, in the order of the plan."""
    told = reading.audit.coverage
    tested = set(told.loc[told["status"] == "tested", ["grouping", "group"]].itertuples(index=False, name=None))
    cases = reading.audit.cases
    found = {}
    for grouping in reading.groupings:
        group, _ = assign(grouping, cases)
        for level in grouping.levels:
            if (grouping.name, level) in tested:
                found[f"{grouping.name}: {level}"] = frozenset(cases.loc[(group == level).to_numpy(), "case"])
    return found


def _ranked(reading: Reading, metric: str) -> pd.DataFrame:
    """Return the cases with a finite score under the trusted ruler, the worst first."""
    table = reading.scores
    own = table[
        (table["ruler"] == reading.trusted)
        & (table["metric"] == metric)
        & (table["label"] == reading.label)
        & table["case"].isin(reading.audit.cases["case"])
    ].dropna(subset=["value"])
    rising = METRICS[metric].better == "higher"
    return own.sort_values(["value", "case"], ascending=[rising, True], ignore_index=True)[["case", "value"]]


def _table(reading: Reading, ranked: dict[str, pd.DataFrame], members: dict[str, frozenset[str]]) -> Table:
    rows = []
    for metric, cases in ranked.items():
        own = reading.scores[(reading.scores["metric"] == metric) & (reading.scores["label"] == reading.label)]
        keys = zip(own["ruler"], own["case"], strict=True)
        scores = dict(zip(keys, own["value"].astype("float64"), strict=True))
        for group, case in _lowest(cases, members if reading.show_cases else {}):
            values = [score(scores.get((ruler, case), float("nan")), METRICS[metric]) for ruler in reading.rulers]
            named = [Cell(group)] if reading.show_cases else []
            rows.append((Cell(case), Cell(reading.title(metric)), *named, *values))
    columns = (
        Column("case"),
        Column("score", filter=True),
        *([Column("group", filter=True)] if reading.show_cases else []),
        *(Column(ruler, "right") for ruler in reading.rulers),
    )
    caption = f"The worst ranks of each score against {reading.trusted}, beside the other rulers."
    empty, file = "No case has a score.", "scores.csv"
    return long_table("worst-cases", "Worst cases", columns, rows, caption, most=_ROWS, file=file, empty=empty)


def _lowest(ranked: pd.DataFrame, members: dict[str, frozenset[str]]) -> list[tuple[str, str]]:
    """Return the lowest ranks of each group with its name; those of all cases where groups are not to be named."""
    if not members:
        return [("", case) for case in ranked["case"].head(_CASES)]
    return [
        (name, case)
        for name, group in members.items()
        for case in ranked.loc[ranked["case"].isin(group), "case"].head(_PER_GROUP)
    ]


def chosen(metric: str, ranked: pd.DataFrame, members: dict[str, frozenset[str]]) -> list[Chosen]:
    """Return the worst case of every group by a metric, a case once, then the next of all cases up to four.

    Walking the ranks from the worst, the first case met of a group is the worst of that group. The order is that of the
    ranks, so it says nothing of the groups.
    """
    left = dict(members)
    found: list[Chosen] = []
    rest: list[Chosen] = []
    for case, value in zip(ranked["case"], ranked["value"].astype("float64"), strict=True):
        of = tuple(name for name, group in left.items() if case in group)
        if of:
            found.append(Chosen(metric, case, value, of))
            for name in of:
                del left[name]
        elif len(rest) < _LEAST:
            rest.append(Chosen(metric, case, value, ()))
        if not left and len(found) + len(rest) >= _LEAST:
            break
    return [*found, *rest[: max(0, _LEAST - len(found))]]


def _in_turn(ranked: dict[str, pd.DataFrame], members: dict[str, frozenset[str]]) -> Iterator[Chosen]:
    """Yield what is chosen by each metric in turn, so that a cap leaves none out."""
    for turn in zip_longest(*(chosen(metric, cases, members) for metric, cases in ranked.items())):
        yield from (one for one in turn if one is not None)


def _pictures(reading: Reading, ranked: dict[str, pd.DataFrame], members: dict[str, frozenset[str]]) -> list[Block]:
    cohort = reading.audit.cohort
    if cohort is None or not any("path" in m.masks and len(m.masks) for m in cohort.mask_sets.values()):
        return [prose("The audit was given scores and no masks, so no outlines are drawn.")]
    wanted: dict[str, list[Chosen]] = {}
    for one in _in_turn(ranked, members):
        wanted.setdefault(one.case, []).append(one)
    pictures: list[Picture] = []
    tried = room = 0
    for case, found in wanted.items():
        if len(pictures) == _PICTURES or room >= _BYTES:
            break
        tried += 1
        drawn = panel(cohort, case, reading.model, reading.rulers, reading.images, max_bytes=reading.max_bytes)
        if drawn is not None:
            room += len(drawn[0])
            alt = f"Outlines of {reading.model} and of {', '.join(reading.rulers)} on case {case}, {drawn[1]}."
            pictures.append(Picture(drawn[0], alt, f"{case}: {_told(reading, found)}; {drawn[1]}"))
    if not pictures:
        return [prose("The masks of the worst cases could not be read, so no outlines are drawn.")]
    return [Pictures("outlines", "Outlines of the worst cases", _caption(reading, members, len(wanted) - tried),
                     tuple(pictures))]  # fmt: skip


def _told(reading: Reading, found: list[Chosen]) -> str:
    """Return by which metrics a case is among the worst, and of which groups where these may be named."""
    parts = []
    for one in found:
        text = f"{reading.title(one.metric).split(' (')[0]} {score(one.value, METRICS[one.metric]).text}"
        of = f" (worst of {listed(list(one.groups))})" if one.groups and reading.show_cases else ""
        parts.append(text + of)
    return ", ".join(parts)


def _caption(reading: Reading, members: dict[str, frozenset[str]], left: int) -> str:
    of = f"of each of the {counted(len(members), 'group')} that were tested" if members else "of all"
    parts = [
        f"The worst case {of}, by each metric against {reading.trusted}; a case is drawn once.",
        f"The slice with the most voxels in dispute between {reading.model} and {reading.trusted}.",
        f"{key_of_lines(reading.model, reading.rulers)}.",
    ]
    if left:
        parts.insert(1, f"{counted(left, 'more such case')} {'is' if left == 1 else 'are'} not drawn, for room.")
    if not reading.images:
        parts.append("No images were given, so the outlines stand on an empty ground.")
    return " ".join(parts)
