"""The worst cases of each score, and how prediction and rulers lie on the image."""

from __future__ import annotations

import pandas as pd

from segaudit.groupings import assign
from segaudit.metrics import METRICS
from segaudit.reports.document import Block, Cell, Column, Picture, Pictures, Section, Table, prose
from segaudit.reports.numbers import NONE, score
from segaudit.reports.panels import key_of_lines, panel
from segaudit.reports.reading import Reading

_CASES = 10
_PICTURES = 9
_PER_GROUP = 2


def worst(reading: Reading) -> Section:
    """Return the worst cases of the score in front; of each group when cases may be shown beside their group."""
    ranked = _ranked(reading, reading.metric)
    blocks: list[Block] = [_table(reading, ranked)]
    if not reading.show_cases:
        note = "Groups are not named beside single cases; they are when the report is asked for them (show_cases)."
        blocks.append(prose(note, role="note"))
    return Section("worst", "Worst cases", (*blocks, *_pictures(reading, ranked)))


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


def _table(reading: Reading, ranked: pd.DataFrame) -> Table:
    chosen = _of_groups(reading, ranked) if reading.show_cases else [("", case) for case in ranked["case"].head(_CASES)]
    scores = {
        (str(row.ruler), str(row.case)): float(str(row.value))
        for row in reading.scores[
            (reading.scores["metric"] == reading.metric) & (reading.scores["label"] == reading.label)
        ].itertuples()
    }
    rows = []
    for group, case in chosen:
        values = [scores.get((ruler, case), float("nan")) for ruler in reading.rulers]
        shown = [score(value, reading.card) for value in values]
        rows.append((Cell(case), *([Cell(group)] if reading.show_cases else []), *shown))
    columns = (
        Column("case"),
        *([Column("group", filter=True)] if reading.show_cases else []),
        *(Column(ruler, "right") for ruler in reading.rulers),
    )
    caption = f"{reading.title()}: the lowest ranks against {reading.trusted}, beside the other rulers."
    return Table(
        "worst-cases", "Worst cases", columns, tuple(rows), caption, sortable=True, empty="No case has a score."
    )


def _of_groups(reading: Reading, ranked: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the worst cases of each group of each grouping."""
    found = []
    for grouping in reading.groupings:
        group, _ = assign(grouping, reading.audit.cases)
        of_case = dict(zip(reading.audit.cases["case"], group, strict=True))
        own = ranked["case"].map(of_case)
        for level in grouping.levels:
            found += [
                (f"{grouping.name}: {level}", str(case)) for case in ranked["case"][own == level].head(_PER_GROUP)
            ]
    return found


def _pictures(reading: Reading, ranked: pd.DataFrame) -> list[Block]:
    cohort = reading.audit.cohort
    if cohort is None or not any("path" in m.masks and len(m.masks) for m in cohort.mask_sets.values()):
        return [prose("The audit was given scores and no masks, so no outlines are drawn.")]
    metrics = [m for m in dict.fromkeys(metric for metric, _ in reading.cells) if METRICS[m].better != "neither"]
    each = max(1, _PICTURES // len(metrics))
    pictures: list[Picture] = []
    seen: set[str] = set()
    for metric in metrics:
        cases = ranked if metric == reading.metric else _ranked(reading, metric)
        for case, value in cases.head(each).itertuples(index=False):
            if case in seen or len(pictures) == _PICTURES:
                continue
            seen.add(case)
            drawn = panel(cohort, case, reading.model, reading.rulers, reading.images)
            if drawn is not None:
                shown = score(float(value), METRICS[metric]).text
                name = reading.title(metric).split(" (")[0]
                caption = f"{case}: {name} {shown if shown != NONE else ''} against {reading.trusted}, {drawn[1]}"
                alt = f"Outlines of {reading.model} and of {', '.join(reading.rulers)} on case {case}, {drawn[1]}."
                pictures.append(Picture(drawn[0], alt, caption))
    if not pictures:
        return [prose("The masks of the worst cases could not be read, so no outlines are drawn.")]
    caption = (
        f"The slice with the most voxels in dispute between {reading.model} and {reading.trusted}. "
        f"{key_of_lines(reading.model, reading.rulers)}."
    )
    if not reading.images:
        caption += " No images were given, so the outlines stand on an empty ground."
    return [Pictures("outlines", "Outlines of the worst cases of each metric", caption, tuple(pictures))]
