"""What is concluded of each gap, and the two sentences of the verdict box, in the fixed words only."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np

from segaudit.groupings import assign
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
    """Return what is concluded of a grouping under a ruler, for the score in front."""
    test = reading.omnibus(ruler, grouping)
    if test is None or test["status"] in ("too_few_patients", "one_group", "undefined"):
        return Conclusion(NOT_ASSESSABLE, _why_not(reading, test))
    margin = reading.audit.plan.margin.get(reading.metric)
    inside = margin is not None and _inside(reading, ruler, grouping, margin)
    if is_number(test["q"]) and test["q"] < reading.audit.plan.alpha:
        reason = f"q {p_value(test['q']).text}"
        return Conclusion(FOUND, f"{reason}; inside the margin" if inside else reason)
    if margin is not None and inside:
        return Conclusion(
            EQUIVALENT,
            f"margin {magnitude(margin, reading.card).text}, {_level_of_margin(reading, ruler, grouping):g} % interval",
        )
    if test["status"] == "saturated":
        return Conclusion(INCONCLUSIVE, "every score is the same")
    return Conclusion(INCONCLUSIVE, _how_small(reading, ruler, grouping))


def _inside(reading: Reading, ruler: str, grouping: str, margin: float) -> bool:
    """Return whether the groups are equivalent: by the comparison of rulers, else by the interval of every pair."""
    said = _of_ruler(reading, ruler, grouping, "equivalence")
    if isinstance(said, str):
        return said in ("equivalent within the margin", "detectable but negligible")
    pairs = reading.pairs(ruler, grouping, "median_difference")
    limits = [(number(pair, "low"), number(pair, "high")) for pair in pairs]
    return bool(limits) and all(low > -margin and high < margin for low, high in limits)


def _level_of_margin(reading: Reading, ruler: str, grouping: str) -> float:
    """Return the level in per cent of the intervals that equivalence was judged by."""
    plan = reading.audit.plan
    judged = isinstance(_of_ruler(reading, ruler, grouping, "equivalence"), str)
    return round(100 * (1 - 2 * plan.alpha if judged else plan.level), 6)


def _of_ruler(reading: Reading, ruler: str, grouping: str, quantity: str) -> object:
    """Return what a comparison holds of one of its two rulers."""
    others = [ruler] if ruler != reading.trusted else [one for one in reading.rulers if one != ruler]
    rows = [row for other in others if (row := reading.compared(other, quantity, grouping)) is not None]
    return rows[0]["trusted_value" if ruler == reading.trusted else "other_value"] if rows else None


def _why_not(reading: Reading, test: Row | None) -> str:
    if test is not None and test["status"] == "undefined":
        return "the score is undefined"
    if test is not None and test["status"] == "one_group":
        return "only one group has cases"
    return f"fewer than two groups of {reading.audit.plan.min_patients} patients"


def _how_small(reading: Reading, ruler: str, grouping: str) -> str:
    """Return the size of the smaller group of the widest pair, and the gap that such groups would show."""
    pair = reading.widest(ruler, grouping)
    if pair is None:
        return "no gap could be estimated"
    sizes = {row["group"]: row["n_patients"] for row in reading.groups(ruler, grouping)}
    n1, n2 = int(sizes[pair["group"]]), int(sizes[pair["reference_group"]])
    known = _of_ruler(reading, ruler, grouping, "minimal_detectable_gap")
    if isinstance(known, float) and is_number(known):
        found = known
    else:
        noise = _noise(reading, ruler, grouping)
        found = minimal_detectable_gap(noise, n1, n2, alpha=reading.audit.plan.alpha)
    size = f"n = {min(n1, n2)}"
    return f"{size}, detectable gap {magnitude(found, reading.card).text}" if found else size


def _noise(reading: Reading, ruler: str, grouping: str) -> float:
    chosen = next(g for g in reading.groupings if g.name == grouping)
    group, _ = assign(chosen, reading.audit.cases)
    group_of = dict(zip(reading.audit.cases["case"], group, strict=True))
    table = reading.scores
    own = table[
        (table["ruler"] == ruler) & (table["metric"] == reading.metric) & (table["label"] == reading.label)
    ].dropna(subset=["value"])
    groups = own["case"].map(group_of).fillna("")
    kept = (groups != "").to_numpy()
    if kept.sum() < 2:
        return 0.0
    return effective_noise(own["value"].to_numpy(dtype=np.float64)[kept], groups.to_numpy(dtype=str)[kept])


def first_sentence(reading: Reading) -> Sentence:
    """Return what the trusted ruler says of gaps between groups."""
    against = f"Against {reading.trusted}"
    if not reading.groupings:
        return _sentence(NOT_ASSESSABLE, "no grouping was given, so no disparity was assessed.")
    found = reading.rejected(reading.trusted)
    if found:
        return _sentence(FOUND, f"{against}, {_gaps(reading, found)}.")
    names = [grouping.name for grouping in reading.groupings]
    words = {name: conclude(reading, reading.trusted, name).word for name in names}
    open_ones = [name for name, said in words.items() if said == INCONCLUSIVE]
    assessed = [name for name, said in words.items() if said != NOT_ASSESSABLE]
    if not assessed:
        fact = (
            f"no grouping has two groups of at least {reading.audit.plan.min_patients} patients, so no disparity was "
        )
        return _sentence(NOT_ASSESSABLE, f"{fact}assessed.")
    margin = reading.audit.plan.margin.get(reading.metric)
    within = magnitude(margin, reading.card).text if margin is not None else ""
    asked = counted(len(assessed), "grouping")
    if not open_ones:
        fact = f"{against}, every gap of {reading.title()} lies within {within} in {listed(assessed)}."
        return _sentence(EQUIVALENT, fact)
    short_of = f"gaps below {within} were not shown for {listed(open_ones)}" if within else "no margin was declared"
    fact = f"{against}, no gap was found in {asked}, which is no evidence of none: {short_of}."
    return _sentence(INCONCLUSIVE, fact)


def _gaps(reading: Reading, found: list[Row]) -> str:
    by_grouping: dict[str, Row] = {}
    for row in found:
        by_grouping.setdefault(row["grouping"], row)
    parts = []
    for name, row in list(by_grouping.items())[:_NAMED]:
        card = METRICS[row["metric"]]
        pair = reading.widest(reading.trusted, name, row["metric"], row["label"])
        front = (row["metric"], row["label"]) == (reading.metric, reading.label)
        where = "" if front else f" by {reading.title(row['metric'], row['label'])}"
        size = difference(number(pair, "value"), card).text if pair else ""
        groups = f"{pair['group']} minus {pair['reference_group']}: {size}, " if pair else ""
        parts.append(f"{name}{where} ({groups}q {p_value(row['q']).text})")
    more = f" and {counted(len(by_grouping) - _NAMED, 'other grouping')}" if len(by_grouping) > _NAMED else ""
    planned = reading.family_size(reading.trusted)
    return f"groups differ in {'; '.join(parts)}{more}; {len(found)} of {counted(planned, 'test')} found a gap"


def second_sentence(reading: Reading) -> tuple[Sentence, ...]:
    """Return what changing the ruler does, one sentence for each other ruler."""
    others = [one for one in reading.rulers if one != reading.trusted]
    compared = {one.other for one in reading.comparisons}
    if not others:
        fact = f"{reading.trusted} is the only ruler, so what another would say is not known."
        return (Sentence("undetermined", "inconclusive", fact),)
    return tuple(
        _changed(reading, other)
        if other in compared
        else Sentence("undetermined", "inconclusive", f"{other} was not compared with {reading.trusted}.")
        for other in others
    )


def _changed(reading: Reading, other: str) -> Sentence:
    classes = [row for row in reading.comparison_rows("verdict_class") if row["other"] == other and word(row)]
    modes = Counter(mode_of(word(row)) for row in classes)
    changed = {mode: n for mode, n in modes.items() if mode != "agreement"}
    flat = [r for r in reading.comparison_rows("rates") if r["other"] == other and word(r) == "saturation"]
    mode = next((name for name in MODES if changed.get(name)), "agreement" if classes else "undetermined")
    mode = "saturation" if flat and mode == "agreement" else mode
    told = _told(changed, len(classes)) if classes else "no verdict on groups could be compared"
    if flat:
        told += f"; pass rates are saturated under one ruler in {len(flat)} of them"
    tone: Tone = "equivalent" if mode == "agreement" else "inconclusive" if mode == "undetermined" else "found"
    return Sentence(
        mode, tone, f"Scored against {other} instead, {told}{_level(reading, other)}{_use(reading, other)}."
    )


def _told(changed: dict[str, int], n: int) -> str:
    if not changed:
        return f"{'the verdict stays' if n == 1 else f'all {n} verdicts stay'} the same"
    kinds = ", ".join(f"{name} {k}" for name in MODES if (k := changed.get(name)))
    total = sum(changed.values())
    return f"{total} of {counted(n, 'verdict')} {'change' if total > 1 else 'changes'} ({kinds})"


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


def _use(reading: Reading, other: str) -> str:
    return f"; {other} is not to be used as evidence on groups" if not_evidence(reading, other) else ""


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


def counted(n: int, noun: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def listed(names: list[str], shown: int = 4) -> str:
    """Return names in a row, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(itertools.islice(names, shown)) + more


def _sentence(said: str, text: str) -> Sentence:
    return Sentence(said, TONES[said], text)
