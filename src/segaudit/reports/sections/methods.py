"""The methods paragraph, written from the plan, with its references."""

from __future__ import annotations

from segaudit import __version__
from segaudit.errors import counted
from segaudit.metrics import METRICS
from segaudit.reports.bibliography import bibtex, cited, reference
from segaudit.reports.document import Cite, Code, Prose, References, Section, Text
from segaudit.reports.reading import OMNIBUS, Reading
from segaudit.reports.verdicts import listed

_METHODS = {
    "bh": ("Benjamini-Hochberg", "benjamini1995"),
    "by": ("Benjamini-Yekutieli", "benjamini2001"),
    "holm": ("Holm", "holm1979"),
}


def methods(reading: Reading) -> Section:
    """Return the methods of this audit in words that a paper can take, references and BibTeX."""
    paragraphs = [_scores(reading), _groups(reading), _rates(reading), _rulers(reading)]
    texts = [Prose(tuple(parts)) for parts in paragraphs if parts]
    keys = cited(texts)
    references = References(tuple((key, reference(key)) for key in keys))
    return Section("methods", "Methods", (*texts, references, Code("BibTeX", bibtex(keys), "bibtex")))


def _scores(reading: Reading) -> list[Text]:
    audit = reading.audit
    labels = [label for label in dict.fromkeys(label for _, label in reading.cells) if label != "macro"]
    what = (
        f"The predictions of {reading.model} on {counted(len(audit.cases), 'exam')} of "
        f"{counted(audit.cases['patient'].nunique(), 'patient')} were scored against {listed(list(reading.rulers))}"
        f" for {listed(labels)} with segaudit {__version__}: "
    )
    parts: list[Text] = [what]
    metrics = list(dict.fromkeys(metric for metric, _ in reading.cells))
    for i, metric in enumerate(metrics):
        card = METRICS[metric]
        parts += [("; " if i else "") + card.title + (f" ({card.unit})" if card.unit != "1" else ""), Cite(card.source)]
    both = {"exclude": "left out", "best": "counted as the best score", "worst": "counted as the worst score"}
    missing = {"failure": "counted as failures", "exclude": "left out"}[audit.plan.prediction_missing]
    parts.append(
        f". Cases with both masks empty were {both[audit.plan.both_empty]}, missing predictions were {missing}, and an "
        f"infinite distance ranked last. The patient was the unit. The plan has the digest {audit.plan.digest()[:12]}."
    )
    return parts


def _groups(reading: Reading) -> list[Text]:
    plan = reading.audit.plan
    if not plan.groupings:
        return ["No grouping was given, so no disparity was assessed."]
    used = set(reading.audit.tests["test"]) & {*OMNIBUS, "dunn"}
    what = (
        f"Groups were formed by {listed([g.name for g in plan.groupings], 12)}; groups of fewer than "
        f"{plan.min_patients} patients were described and not tested. "
    )
    parts: list[Text] = [what]
    if "mann_whitney" in used:
        parts += ["Two groups were compared by the Mann-Whitney test", Cite("mann1947"), ". "]
    if "kruskal_wallis" in used:
        parts += ["Three or more groups were compared by the Kruskal-Wallis test", Cite("kruskal1952")]
        parts += [" with ε² as its effect", Cite("tomczak2014")]
        parts += [", and their pairs by Dunn's test", Cite("dunn1964"), ". "] if "dunn" in used else [". "]
    name, key = _METHODS[plan.method]
    each = "the tests of each ruler" if plan.scope == "ruler" else "the tests of all rulers together"
    size = reading.family_size(reading.trusted)
    family = f"the primary family ({plan.primary_metric}, {plan.primary_label})" if plan.primary_metric else each
    parts += [
        f"P values were adjusted by {name}",
        Cite(key),
        f" over {family} ({counted(size, 'test')}, α {plan.alpha:g}). ",
    ]
    parts += [f"Gaps are differences of group medians with bootstrap intervals ({plan.resamples:,} draws of patients)"]
    parts += [" and Hodges-Lehmann shifts", Cite("hodges1963"), "."]
    margins = [f"{METRICS[m].title} {value:g}" for m, value in plan.margin.items()]
    parts.append(
        f" Margins of equivalence: {', '.join(margins)}." if margins else " No margin of equivalence was declared."
    )
    return parts


def _rates(reading: Reading) -> list[Text]:
    plan = reading.audit.plan
    scored = {metric for metric, _ in reading.cells}
    success = {metric: value for metric, value in plan.success.items() if metric in scored}
    if not plan.groupings or not success:
        return []
    said = ", ".join(
        f"{METRICS[m].title} {'>' if METRICS[m].better == 'higher' else '<'} {value:g} {METRICS[m].unit}".removesuffix(
            " 1"
        )
        for m, value in success.items()
    )
    passes = f"A case passes with {said}. The disparate impact ratio (DIR) is the smallest over the largest pass rate, "
    return [
        passes + "with MOVER-R intervals",
        Cite("donner2012"),
        " on Wilson limits",
        Cite("wilson1927"),
        "; the difference of the rates (DPD) has Newcombe's intervals",
        Cite("newcombe1998"),
        "; patients with several exams count by their effective number",
        Cite("rao1992"),
        ". BCa bootstrap intervals",
        Cite("efron1987"),
        " and permutation p values",
        Cite("phipson2010"),
        " stand beside them in the tables.",
    ]


def _rulers(reading: Reading) -> list[Text]:
    if not reading.comparisons:
        return []
    others = [one.other for one in reading.comparisons]
    were = "was" if len(others) == 1 else "were"
    text = (
        f"{listed(others)} {were} compared with {reading.trusted} on the same cases. The noise ratio is the median of "
        "the Walsh ratios of absolute deviations from the group medians, with the interval that inverts the "
        "signed-rank test of exchanging the rulers within a case; the same ratio of log errors tells compression "
        "towards the ceiling from a collapse beyond it. Whether groups separate more under one ruler was tested by "
        "exchanging ranks within patients; a change of verdict alone was never taken as evidence."
    )
    return [text]
