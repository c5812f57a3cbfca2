"""Page one: the verdict, the rulers, the gaps, two figures, and whether the result can be trusted."""

from __future__ import annotations

from segaudit.errors import counted
from segaudit.reports import figures
from segaudit.reports.descriptions import described_gaps, described_scores
from segaudit.reports.document import Beside, Block, Cell, Column, Facts, Figure, Section, Table, Verdict, prose
from segaudit.reports.looks import legend
from segaudit.reports.numbers import (
    NONE,
    count,
    difference,
    difference_span,
    is_number,
    of,
    p_value,
    ratio,
    ratio_span,
    score,
)
from segaudit.reports.reading import Reading, Row, number
from segaudit.reports.verdicts import (
    SPREADS,
    TONES,
    closeness,
    collapse,
    conclude,
    first_sentence,
    listed,
    mechanism,
    not_evidence,
    second_sentence,
)

GAPS_SHOWN = 6  # of two rulers; a sheet holds one fewer for each further ruler
_DRAWN_BY_PEOPLE = ("expert", "consensus")
_BY_PEOPLE, _NOT_SHARED = "no, drawn by people", "none"
EFFECTS = {"rank_biserial": "r", "epsilon_squared": "ε²"}


def summary(reading: Reading) -> Section:
    """Return page one of a model."""
    several = len(reading.audit.scores.models) > 1
    name = f"summary-{reading.audit.scores.models.index(reading.model) + 1}" if several else "summary"
    shown = groupings_shown(reading)
    blocks: list[Block] = [
        Verdict((first_sentence(reading), *second_sentence(reading))),
        rulers_table(reading, name),
        gaps_table(reading, name, shown),
        *_figures(reading, name, shown),
        trust(reading),
        prose(*_footnote(reading), role="note"),
    ]
    title = f"Summary: {reading.model}" if several else "Summary"
    return Section(name, title, tuple(blocks), page=True)


def groupings_shown(reading: Reading) -> list[str]:
    """Return the groupings on page one: all in the plan's order, or those with the widest gaps where they are many."""
    names = [grouping.name for grouping in reading.groupings]
    room = max(3, GAPS_SHOWN - max(0, len(reading.rulers) - 2))
    if len(names) <= room:
        return names
    width = {name: abs(number(reading.widest(reading.trusted, name), "value")) for name in names}
    return sorted(names, key=lambda name: -width[name] if is_number(width[name]) else 0.0)[:room]


def rulers_table(reading: Reading, name: str) -> Table:
    """Return the table of what the model was measured against."""
    columns = (
        Column("ruler"),
        Column("made by"),
        Column("shares the model’s training patients?"),
        Column("exams", "right"),
        Column("mean score", "right"),
        Column("spread (SD)", "right"),
        Column("status"),
    )
    rows = tuple(_ruler_row(reading, ruler) for ruler in reading.rulers)
    caption = (
        f"Score: {reading.title()}. Under a mean: its difference to the trusted ruler. Under an SD: the Walsh ratio of "
        "the spreads with its interval, which one odd case cannot move."
    )
    return Table(f"{name}-rulers", "What was the model measured against?", columns, rows, caption)


def _ruler_row(reading: Reading, ruler: str) -> tuple[Cell, ...]:
    whole, card = reading.overall(ruler), reading.card
    shift = reading.compared(ruler, "inflation")
    spread = reading.compared(ruler, "walsh_ratio")
    change = difference(number(shift, "value"), card).text
    times = ratio(number(spread, "value")).text
    limits = ratio_span(number(spread, "low"), number(spread, "high"))
    mean, sd = score(number(whole, "mean"), card), score(number(whole, "sd"), card)
    return (
        Cell(ruler),
        Cell(*made_by(reading, ruler)),
        Cell(shared_training(reading, ruler)),
        Cell(
            count(whole.get("n_cases")).text,
            number(whole, "n_cases"),
            f"{count(whole.get('n_patients')).text} patients",
        ),
        Cell(mean.text, mean.value, change if change != NONE else ""),
        Cell(sd.text, sd.value, f"×{times} ({limits})" if times != NONE else ""),
        _status(reading, ruler),
    )


def _status(reading: Reading, ruler: str) -> Cell:
    if ruler == reading.trusted:
        return Cell("trusted", note="" if len(reading.rulers) > 1 else "only ruler")
    found = collapse(reading, ruler)
    note = mechanism(reading, ruler)
    if not_evidence(reading, ruler):
        head = closeness(reading, ruler) or found
        rest = (found if head != found else "", note)
        return Cell(head, note=", ".join(part for part in rest if part), tone="warning")
    return Cell(f"spread: {SPREADS.get(found, found)}" if found else "not compared", note=note)


def made_by(reading: Reading, ruler: str) -> tuple[str, None, str]:
    """Return who made a ruler, and its kind beneath."""
    made = reading.mask_set(ruler)
    if made is None:
        return "not stated", None, ""
    return made.made_by or "not stated", None, "" if made.kind == "unknown" else made.kind


def shared_training(reading: Reading, ruler: str) -> str:
    """Return whether a ruler was trained on patients that the model was trained on, in words."""
    own, model = reading.mask_set(ruler), reading.mask_set(reading.model)
    if own is not None and own.kind in _DRAWN_BY_PEOPLE:
        return _BY_PEOPLE
    if own is None or model is None or own.trained_on is None or model.trained_on is None:
        return "not known"
    shared = len(own.trained_on & model.trained_on)
    return f"{shared:,} of {counted(len(own.trained_on), 'patient')}" if shared else _NOT_SHARED


def gaps_table(reading: Reading, name: str, shown: list[str]) -> Table:
    """Return the table of gaps, magnitude first, under the trusted ruler."""
    threshold = reading.audit.plan.success.get(reading.metric)
    beyond = ">" if reading.card.better == "higher" else "<"
    columns = (
        Column("attribute"),
        Column("worst → best median", "right"),
        Column("gap", "right"),
        Column("effect", "right"),
        Column(f"passes {beyond} {threshold:g}" if threshold is not None else "passes", "right"),
        Column("DIR", "right"),
        Column("p / q", "right"),
        Column("reading"),
    )
    more = len(reading.groupings) - len(shown)
    unit = f" {reading.card.unit}" if reading.card.unit != "1" else ""
    caption = (
        f"{reading.title()}{unit and ','}{unit} against {reading.trusted}. Groups: exams/patients, one where alike."
    )
    if more > 0:
        total = counted(len(reading.groupings), "grouping")
        caption += f" The {len(shown)} widest of {total}; the others are under All tests."
    rows = tuple(gap_row(reading, reading.trusted, grouping) for grouping in shown)
    empty = "No demographics were given, so no disparity was assessed."
    return Table(f"{name}-gaps", "How big are the gaps?", columns, rows, caption, empty=empty)


def gap_row(reading: Reading, ruler: str, grouping: str) -> tuple[Cell, ...]:
    """Return the row of one grouping under one ruler."""
    card, plan = reading.card, reading.audit.plan
    groups = [row for row in reading.groups(ruler, grouping) if row["status"] == "ok"]
    said = conclude(reading, ruler, grouping)
    head = Cell(grouping, note="; ".join(sizes(row) for row in reading.groups(ruler, grouping) if row["n_cases"] > 0))
    pair, test = reading.widest(ruler, grouping), reading.omnibus(ruler, grouping)
    last = Cell(said.word, note=said.reason, tone=TONES[said.word])
    if len(groups) < 2 or pair is None or test is None:
        return (head, *(Cell(NONE),) * 6, last)
    known = [row for row in groups if is_number(row["median"])]
    ordered = sorted(known, key=lambda row: row["median"], reverse=card.better == "lower")
    worst, best = ordered[0], ordered[-1]
    gap = difference(number(pair, "value"), card)
    limits = difference_span(number(pair, "low"), number(pair, "high"), card)
    rated = reading.metric in plan.success
    return (
        head,
        Cell(
            f"{score(worst['median'], card, unit=False).text} → {score(best['median'], card, unit=False).text}",
            number(worst, "median"),
            f"{worst['group']} → {best['group']}",
        ),
        Cell(gap.text, gap.value, f"({limits})" if limits else ""),
        Cell(ratio(number(test, "effect")).text, number(test, "effect"), EFFECTS.get(test["effect_name"], "")),
        Cell(*passes(worst, best)) if rated else Cell(NONE),
        dir_cell(reading.disparity(ruler, grouping, "dir")) if rated else Cell(NONE),
        Cell(p_value(number(test, "p")).text, test["p"], f"q {p_value(number(test, 'q')).text}"),
        last,
    )


def sizes(row: Row) -> str:
    """Return the size of a group: exams, and patients where they differ."""
    cases, patients = int(row["n_cases"]), int(row["n_patients"])
    return f"{row['group']} {cases:,}" + (f"/{patients:,}" if cases != patients else "")


def passes(worst: Row, best: Row) -> tuple[str, float | None, str]:
    """Return the cases beyond the threshold in the worst and in the best group."""
    low, high = of(worst["n_success"], worst["n_cases"]), of(best["n_success"], best["n_cases"])
    return f"{low.text} → {high.text}", low.value, ""


def dir_cell(row: Row | None) -> Cell:
    """Return a disparate impact ratio with its interval and what parity would give at these group sizes."""
    value = ratio(number(row, "value"))
    if row is None or value.text == NONE:
        return Cell(NONE)
    limits = ratio_span(number(row, "low"), number(row, "high"))
    expected = ratio(number(row, "expected_under_parity")).text
    kind = "saturated; " if row["status"] == "saturated" else ""
    return Cell(f"{value.text} ({limits})" if limits else value.text, value.value, f"{kind}parity: {expected}")


def _figures(reading: Reading, name: str, shown: list[str]) -> list[Block]:
    left = Figure(
        f"{name}-scores",
        "The same predictions under every ruler",
        figures.rulers_chart(reading),
        described_scores(reading),
        f"A dot is a case, the bar the median{_left_out(reading)}.",
    )
    forest = figures.gaps_chart(reading, shown)
    if forest is None:
        return [left]
    margin = reading.audit.plan.margin.get(reading.metric)
    band = "shaded: the margin" if margin is not None else "no margin was declared"
    right = Figure(
        f"{name}-gaps-figure",
        "Gaps of each attribute under every ruler",
        forest,
        described_gaps(reading, shown),
        f"Line: {reading.audit.plan.level * 100:g} % interval; {legend(reading)}; {band}.",
    )
    return [Beside((left, right))]


def _left_out(reading: Reading) -> str:
    lost = [int(n) for r in reading.rulers if is_number(n := reading.overall(r).get("n_infinite")) and n]
    return f"; {counted(max(lost), 'infinite score')} not drawn" if lost and reading.card.better == "lower" else ""


def trust(reading: Reading) -> Facts:
    """Return the strip that says whether the result can be trusted."""
    audit, model = reading.audit, reading.mask_set(reading.model)
    patients = set(audit.cases["patient"])
    trained = None if model is None or model.trained_on is None else len(model.trained_on & patients)
    scores = reading.scores.drop_duplicates(["case", "ruler", "label"]).groupby("case")["status"].agg(set)
    expected = int(scores.map(lambda found: found not in ({"reference_missing"}, {"not_scored"})).sum())
    missing = int(scores.map(lambda found: "prediction_missing" in found).sum())
    empty = int(scores.map(lambda found: bool(found & {"both_empty", "prediction_empty", "reference_empty"})).sum())
    top = sum(int(audit.cases[c].eq(other=True).sum()) for c in map(str, audit.cases) if c.endswith("_top_coded"))
    few = audit.coverage[audit.coverage["status"] == "described_only"]
    shared: dict[str, list[str]] = {}
    for ruler in reading.rulers[1:]:
        shared.setdefault(shared_training(reading, ruler), []).append(ruler)
    apart = (_BY_PEOPLE, _NOT_SHARED)
    told = "; ".join(f"{listed(names)}: {said}" for said, names in shared.items() if said not in apart)
    whole = "not known" if trained is None else f"{trained:,} of {len(patients):,}"
    items = (
        ("audited patients the model was trained on", Cell(whole, tone="warning" if trained else "")),
        ("training patients shared with a ruler", Cell((told or _NOT_SHARED) if shared else "one ruler only")),
        ("predictions found / expected", of_counts(expected - missing, expected)),
        ("cases with an empty mask", Cell(f"{empty:,}", empty, f"both empty: {_both_empty(reading)}")),
        ("top-coded ages", count(top)),
        ("groups described, not tested", count(len(few))),
    )
    return Facts("Can this result be trusted?", items, "strip")


def of_counts(found: int, expected: int) -> Cell:
    """Return found of expected, marked where some are missing."""
    return Cell(f"{found:,} / {expected:,}", float(found), tone="warning" if found < expected else "")


def _both_empty(reading: Reading) -> str:
    rule = reading.audit.plan.both_empty
    return {"exclude": "left out", "best": "counted as best", "worst": "counted as worst"}[rule]


def _footnote(reading: Reading) -> tuple[str, ...]:
    plan = reading.audit.plan
    size = reading.family_size(reading.trusted)
    family = f"q: adjusted ({plan.method.upper()}) over {counted(size, 'test')} a ruler. " if size else ""
    ratio_note = (
        "DIR: smallest over largest pass rate of the groups. Its usual 0.8 is the United States four-fifths screen for "
        "employment, not a clinical limit. parity: the DIR to expect at these group sizes if groups were alike. "
    )
    return ratio_note, f"{family}Gap: median of the group minus that of the reference group, the pair furthest apart."
