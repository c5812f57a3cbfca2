"""What is concluded of each gap, and the two sentences of the verdict box, in the fixed words only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from segaudit.attributes import listing
from segaudit.audits.cells import Group, cells, divide
from segaudit.audits.compare import tested_groups
from segaudit.audits.margins import within_margin
from segaudit.errors import counted
from segaudit.metrics import METRICS
from segaudit.reports.document import Sentence, Tone
from segaudit.reports.numbers import difference, is_number, magnitude, p_value, ratio
from segaudit.reports.reading import Reading, Row, number, word
from segaudit.stats.equivalence import effective_noise, minimal_detectable_gap

FOUND, EQUIVALENT, INCONCLUSIVE, NOT_ASSESSABLE = (
    "gap found",
    "equivalent within the margin",
    "inconclusive",
    "not assessable",
)
TONES: dict[str, Tone] = {
    FOUND: "found",
    EQUIVALENT: "equivalent",
    INCONCLUSIVE: "inconclusive",
    NOT_ASSESSABLE: "not-assessable",
}
# What changing the ruler does; the order is that in which one is named first.
MODES = ("false magnitude", "false confidence", "masking", "saturation", "undetermined", "agreement")
SPREADS = {"inflation": "wider", "inconclusive": "whether it changed is open"}
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A word on one gap, and the reason for it."""

    word: str
    reason: str


def conclude(reading: Reading, ruler: str, grouping: str) -> Conclusion:
    """Return what is concluded of a grouping under a ruler, for the score in front, whatever other rulers say."""
    test = reading.omnibus(ruler, grouping)
    if test is None or test["status"] in ("too_few_patients", "one_group", "undefined"):
        return Conclusion(NOT_ASSESSABLE, _why_not(reading, test))
    plan = reading.audit.plan
    margin = plan.margin.get(reading.metric)
    groups = _groups(reading, ruler, grouping)
    inside = _inside(reading, grouping, groups)
    if is_number(test["q"]) and test["q"] < plan.alpha:
        reason = f"q {p_value(test['q']).text}"
        return Conclusion(FOUND, f"{reason}; inside the margin" if inside else reason)
    if margin is not None and inside:
        level = round(100 * (1 - 2 * plan.alpha), 6)
        return Conclusion(EQUIVALENT, f"margin {magnitude(margin, reading.card).text}, {level:g} % interval")
    if test["status"] == "saturated":
        return Conclusion(INCONCLUSIVE, "every score is the same")
    return Conclusion(INCONCLUSIVE, _how_small(reading, ruler, grouping, groups))


def _groups(reading: Reading, ruler: str, grouping: str) -> list[Group]:
    """Return the tested groups of a grouping with their scores as the plan counts them."""
    audit = reading.audit
    table = reading.scores
    own = table[(table["ruler"] == ruler) & (table["metric"] == reading.metric) & (table["label"] == reading.label)]
    found = next(cells(replace(audit.scores, table=own), audit.cases, audit.plan))
    plan = replace(audit.plan, groupings=tuple(g for g in reading.groupings if g.name == grouping))
    return tested_groups(found, divide(plan, audit.cases)[0], audit.plan)


def _inside(reading: Reading, grouping: str, groups: list[Group]) -> bool:
    """Return whether every pair of groups lies inside the margin with its whole interval."""
    found = within_margin(
        reading.audit.plan,
        (reading.label, reading.metric),
        grouping,
        np.concatenate([group.values for group in groups]),
        np.repeat([group.name for group in groups], [group.values.size for group in groups]),
        np.concatenate([group.patients for group in groups]),
    )
    return found is not None and found.word == EQUIVALENT


def _why_not(reading: Reading, test: Row | None) -> str:
    if test is not None and test["status"] == "undefined":
        return "the score is undefined"
    if test is not None and test["status"] == "one_group":
        return "only one group has cases"
    return f"fewer than two groups of {reading.audit.plan.min_patients} patients"


def _how_small(reading: Reading, ruler: str, grouping: str, groups: list[Group]) -> str:
    """Return the size of the smaller group of the widest pair, and the gap that such groups would show."""
    pair = reading.widest(ruler, grouping)
    if pair is None:
        return "no gap could be estimated"
    sizes = {group.name: group.n_patients for group in groups}
    n1, n2 = sizes[pair["group"]], sizes[pair["reference_group"]]
    finite = [group.values[np.isfinite(group.values)] for group in groups]
    noise = effective_noise(np.concatenate(finite), np.repeat(list(sizes), [values.size for values in finite]))
    found = minimal_detectable_gap(noise, n1, n2, alpha=reading.audit.plan.alpha)
    return f"n = {min(n1, n2)}, detectable gap {magnitude(found, reading.card).text}"


def first_sentence(reading: Reading) -> Sentence:
    """Return what the trusted ruler says of gaps between groups."""
    against = f"Against {reading.trusted}"
    if not reading.groupings:
        return _sentence(NOT_ASSESSABLE, "No grouping was given, so no disparity was assessed.")
    found = reading.rejected(reading.trusted)
    if found:
        return _sentence(FOUND, f"{against}, {_gaps(reading, found)}.")
    names = [grouping.name for grouping in reading.groupings]
    words = {name: conclude(reading, reading.trusted, name).word for name in names}
    open_ones = [name for name, said in words.items() if said == INCONCLUSIVE]
    assessed = [name for name, said in words.items() if said != NOT_ASSESSABLE]
    if not assessed:
        fact = (
            f"No grouping has two groups of at least {reading.audit.plan.min_patients} patients, so no disparity was "
        )
        return _sentence(NOT_ASSESSABLE, f"{fact}assessed.")
    margin = reading.audit.plan.margin.get(reading.metric)
    within = magnitude(margin, reading.card).text if margin is not None else ""
    lost = [name for name in names if name not in assessed]
    untold = f"; {listed(lost)} {'was' if len(lost) == 1 else 'were'} not assessable" if lost else ""
    if not open_ones:
        fact = f"{against}, every gap of {reading.title()} lies within {within} in {listed(assessed)}{untold}."
        return _sentence(EQUIVALENT, fact)
    open_gap = f"gaps of {within} or more are not ruled out for {listed(open_ones)}"
    why = open_gap if within else "no margin was declared to rule one out by"
    asked = counted(len(assessed), "grouping")
    fact = f"{against}, no gap was found in {asked}, which is no evidence that there is none: {why}{untold}."
    return _sentence(INCONCLUSIVE, fact)


def _gaps(reading: Reading, found: list[Row]) -> str:
    """Return which scores differ by which groupings, and how many tests found it."""
    by_grouping: dict[str, Row] = {}
    for row in found:
        by_grouping.setdefault(row["grouping"], row)
    named = list(by_grouping.items())[:_NAMED]
    in_front = all((row["metric"], row["label"]) == (reading.metric, reading.label) for _, row in named)
    parts = []
    for name, row in named:
        pair = reading.widest(reading.trusted, name, row["metric"], row["label"])
        size = difference(number(pair, "value"), METRICS[row["metric"]]).text
        groups = f"{pair['group']} minus {pair['reference_group']}: {size}, " if pair else ""
        score = "" if in_front else f" in {reading.title(row['metric'], row['label'])}"
        parts.append(f"by {name}{score} ({groups}q {p_value(row['q']).text})")
    what = f"{reading.title()} differs" if in_front else "scores differ"
    more = f" and by {counted(len(by_grouping) - _NAMED, 'other grouping')}" if len(by_grouping) > _NAMED else ""
    planned = counted(reading.family_size(reading.trusted), "test")
    return f"{what} {', '.join(parts)}{more}; {len(found)} of {planned} found a gap"


def second_sentence(reading: Reading) -> tuple[Sentence, ...]:
    """Return what changing the ruler does: a sentence for each other ruler, one for those that do the same."""
    others = [one for one in reading.rulers if one != reading.trusted]
    compared = {one.other for one in reading.comparisons}
    if not others:
        fact = f"{reading.trusted} is the only ruler, so what another would say is not known."
        return (Sentence("undetermined", "inconclusive", fact),)
    alike: dict[tuple[str, Tone, str, bool], list[str]] = {}
    for other in others:
        if other in compared:
            alike.setdefault((*_changed(reading, other), not_evidence(reading, other)), []).append(other)
    sentences = [_of_rulers(reading, names, key) for key, names in alike.items()]
    left = [other for other in others if other not in compared]
    if left:
        fact = f"{listed(left)} {'was' if len(left) == 1 else 'were'} not compared with {reading.trusted}."
        sentences.append(Sentence("undetermined", "inconclusive", fact))
    return tuple(sentences)


def _of_rulers(reading: Reading, names: list[str], change: tuple[str, Tone, str, bool]) -> Sentence:
    """Return the sentence on rulers that do the same; of several rulers the table beneath tells level and spread."""
    mode, tone, told, refused = change
    level = _level(reading, names[0]) if len(reading.rulers) == 2 else ""
    are = "is" if len(names) == 1 else "are"
    use = f"; {listed(names)} {are} not to be used as evidence on groups" if refused else ""
    return Sentence(mode, tone, f"Scored against {' or '.join(names)} instead, {told}{level}{use}.")


def _changed(reading: Reading, other: str) -> tuple[str, Tone, str]:
    """Return what one other ruler does: the mode, how it is marked, and the verdicts that change."""
    classes = [row for row in reading.comparison_rows("verdict_class") if row["other"] == other and word(row)]
    changed = [row for row in classes if mode_of(word(row)) != "agreement"]
    modes = Counter(mode_of(word(row)) for row in changed)
    flat = sum(word(row) == "saturation" for row in reading.comparison_rows("rates") if row["other"] == other)
    mode = max(MODES, key=lambda name: modes[name]) if changed else "agreement" if classes else "undetermined"
    mode = "saturation" if flat and mode == "agreement" else mode
    told = _told(changed, len(classes)) if classes else "no verdict on groups could be compared"
    if flat and (len(reading.rulers) == 2 or mode == "saturation"):
        told += f"; in {flat}, every group passes alike under one of the two rulers"
    sure = mode == "saturation" or any(mode_of(word(row)) == mode and not _by_chance(row) for row in changed)
    agreed: Tone = "inconclusive" if not_evidence(reading, other) else "equivalent"
    tone: Tone = agreed if mode == "agreement" else "found" if sure and mode != "undetermined" else "inconclusive"
    return mode, tone, told


def _told(changed: list[Row], n: int) -> str:
    if not changed:
        all_of_them = {1: "the verdict stays", 2: "both verdicts stay"}.get(n, f"all {n:,} verdicts stay")
        return f"{all_of_them} the same"
    kinds = []
    for mode in MODES:
        own = [row for row in changed if mode_of(word(row)) == mode]
        chance = sum(_by_chance(row) for row in own)
        established = (
            "" if not chance else ", none established" if chance == len(own) else f", {chance} not established"
        )
        kinds += [f"{mode} {len(own)}{established}"] if own else []
    total = len(changed)
    return f"{total} of {counted(n, 'verdict')} {'change' if total > 1 else 'changes'} ({'; '.join(kinds)})"


def _by_chance(row: Row) -> bool:
    """Return whether a change of verdict may be the crossing of a threshold by chance."""
    return str(row["detail"]).startswith("not established")


def _level(reading: Reading, other: str) -> str:
    shift = number(reading.compared(other, "inflation"), "value")
    found = collapse(reading, other)
    parts = []
    if is_number(shift):
        size = magnitude(shift, reading.card).text
        level = f"{size} {'higher' if shift > 0 else 'lower'}" if float(size.split()[0]) else "the same"
        parts.append(f"; scores are {level} on average")
    if found:
        spread = ratio(number(reading.compared(other, "walsh_ratio"), "value")).text
        words = ", ".join(part for part in (SPREADS.get(found, found), mechanism(reading, other)) if part)
        parts.append(f" and their spread is {spread} of that under {reading.trusted} ({words})")
    return "".join(parts)


def mode_of(verdict_class: str) -> str:
    """Return the mode of a verdict class, such as masking for masking (noise)."""
    return next((mode for mode in MODES if verdict_class.startswith(mode)), "undetermined")


def collapse(reading: Reading, other: str) -> str:
    """Return the word on the spread under another ruler, over all cases."""
    return word(reading.compared(other, "collapse"))


def mechanism(reading: Reading, other: str) -> str:
    """Return what kind of collapse it is, by the ratio on the log-error scale."""
    row = reading.compared(other, "walsh_ratio_log")
    if "collapse" not in collapse(reading, other) or not is_number(number(row, "high")):
        return ""
    if number(row, "low") <= 1 <= number(row, "high"):
        return "proportional compression"
    return "more than the shift to the ceiling explains" if number(row, "high") < 1 else ""


def closeness(reading: Reading, other: str) -> str:
    """Return how close a ruler is to the model, in a word; empty where nothing was shown."""
    said = word(reading.compared(other, "independence"))
    return "" if said == "no dependence shown" else said


def not_evidence(reading: Reading, other: str) -> bool:
    """Return whether a ruler is too close to the model, or has lost its spread."""
    return bool(closeness(reading, other)) or collapse(reading, other) == "strong collapse"


def listed(names: list[str], shown: int = 4) -> str:
    """Return names in a row, and how many more there are."""
    return listing(names, shown)


def _sentence(said: str, text: str) -> Sentence:
    return Sentence(said, TONES[said], text)
