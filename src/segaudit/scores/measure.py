"""From masks to entries: each case is measured for every model and ruler, or found in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from segaudit.cohorts import Cohort, MaskSet
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.scores.finish import Entry
from segaudit.scores.ledger import Ledger
from segaudit.scores.pools import run
from segaudit.scores.tasks import Done, FileFacts, Source, Task, code_version, pair_place

Progress = Callable[[int, int], None]
_SHOWN = 8
_EXAMPLES = 3


@dataclass(frozen=True)
class Found:
    """What measuring a cohort gave.

    Attributes
    ----------
    entries : list of Entry
        Dense over models, rulers, cases and labels.
    findings : list of Finding
    digests : mapping of path to (str, int)
        sha256 and size in bytes of the files read; empty where no ledger was kept.
    unread : frozenset of path
        Files that could not be read.
    """

    entries: list[Entry]
    findings: list[Finding]
    digests: Mapping[Path, tuple[str, int]]
    unread: frozenset[Path]


def measure_cohort(
    cohort: Cohort,
    models: Sequence[str],
    rulers: Sequence[str],
    metrics: Sequence[str],
    *,
    workers: int,
    executor: Executor | None,
    progress: Progress | None,
    ledger: Ledger | None,
    keep_going: bool,
    max_bytes: int,
) -> Found:
    """Return what is measured of a cohort, and what was found on the way.

    Raises
    ------
    AuditError
        Every unreadable mask, every pair of grids that do not match and every case that killed its worker, at once and
        after all others were measured; with `keep_going` these are warnings, and their entries are not_scored.
    """
    home = str(Path.cwd()) if executor is not None else ""
    common = Task("", (), tuple(metrics), ledger is not None, home, max_bytes)
    tasks = _tasks(cohort, models, rulers, common)
    results = _measured(tasks, workers, executor, progress, ledger)
    findings = [finding for task in tasks for finding in _placed(task, results[task.case])]
    failed = [task.case for task in tasks if results[task.case].errors]
    if failed:
        errors = [finding for case in failed for finding in results[case].errors]
        findings += _failure(errors, failed, len(tasks), ledger, keep_going=keep_going)
    if ledger is not None:
        findings += ledger.finish()
    files = {path: facts for done in results.values() for path, facts in done.files.items()}
    findings += _coding(tasks, results, cohort)
    digests = {Path(path): (facts.sha256, facts.size) for path, facts in files.items() if facts.sha256}
    unread = {source.path for task in tasks if results[task.case].errors for pair in task.pairs for source in pair}
    entries = _entries(cohort, models, rulers, results)
    return Found(entries, _gathered(findings), digests, frozenset(Path(path) for path in unread - files.keys()))


def _measured(
    tasks: list[Task], workers: int, executor: Executor | None, progress: Progress | None, ledger: Ledger | None
) -> dict[str, Done]:
    """Return the results by case: what the ledger knows from there, the rest measured and kept in it."""
    results: dict[str, Done] = {}

    def end(done: Done) -> None:
        results[done.case] = done
        if progress is not None:
            progress(len(results), len(tasks))

    partly: dict[str, Done] = {}

    def missing() -> Iterator[Task]:
        for task in tasks:
            if ledger is None:
                yield task
                continue
            known, left = ledger.known(task)
            if left is None:
                end(known)
            else:
                partly[task.case] = known
                yield left

    own = code_version()
    with closing(run(missing(), 1 if len(tasks) == 1 else workers, executor)) as ended:
        for task, done in ended:
            if done.version not in ("", own):
                fact = "a worker runs another version of segaudit, or of what it computes with."
                raise AuditError(Finding("WORKER_VERSION", fact, "executor", "install the same versions everywhere."))
            if ledger is not None:
                ledger.keep(task, done)
            end(done if ledger is None else done.with_known(partly.pop(task.case)))
    return results


def _failure(
    errors: list[Finding], failed: list[str], n_cases: int, ledger: Ledger | None, *, keep_going: bool
) -> list[Finding]:
    """Return the errors as warnings when the others go on without these cases, else raise them."""
    told = ", ".join(f"'{case}'" for case in failed[:_SHOWN]) + (" and others" if len(failed) > _SHOWN else "")
    fact = f"{len(failed)} of {n_cases} cases could not be measured: {told}."
    if keep_going:
        fix = "mend what the warnings say and score again; these rows have the status not_scored."
        warnings = [replace(error, level="warning") for error in errors]
        return [*warnings, Finding("CASES_NOT_SCORED", fact, "", fix, "warning")]
    if ledger is None:
        raise AuditError(errors)
    lost = ledger.finish()
    fix = "mend them and run again: the others are kept and not measured anew. Or go on without them: --keep-going."
    summary = Finding("CASES_NOT_SCORED", fact, str(ledger.path), fix)
    raise AuditError([*errors, *(replace(finding, level="error") for finding in lost), summary])


def _entries(cohort: Cohort, models: Sequence[str], rulers: Sequence[str], results: Mapping[str, Done]) -> list[Entry]:
    masks = {name: set(cohort.mask_sets[name].masks["case"]) for name in {*models, *rulers}}
    entries: list[Entry] = []
    for model in models:
        for ruler in rulers:
            for case in cohort.cases["case"]:
                done = results.get(case)
                facts = done.pairs.get((model, ruler)) if done is not None else None
                if facts is not None:
                    entries += [(case, model, ruler, label, facts.measured[label]) for label in cohort.labels]
                    continue
                status = "not_scored"
                if case not in masks[ruler]:
                    status = "reference_missing"
                elif case not in masks[model]:
                    status = "prediction_missing"
                entries += [(case, model, ruler, label, status) for label in cohort.labels]
    return entries


def _placed(task: Task, done: Done) -> Iterator[Finding]:
    """Give the warnings and notes of a case with their places: of each file once, of each pair."""
    sources = dict.fromkeys(source.path for pair in task.pairs for source in (pair[1], pair[0]))
    for path in sources:
        if path in done.files:
            yield from (replace(finding, where=path) for finding in done.files[path].findings)
    for model, ruler in task.pairs:
        if (model.name, ruler.name) in done.pairs:
            found = done.pairs[model.name, ruler.name].findings
            yield from (replace(finding, where=pair_place(task.case, model)) for finding in found)


def _gathered(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings, the notes that many masks share as one of each code with its count and examples."""
    notes: dict[str, list[Finding]] = {}
    for finding in dict.fromkeys(findings):
        if finding.level == "note":
            notes.setdefault(finding.code, []).append(finding)
    many = {code: own for code, own in notes.items() if len(own) > _EXAMPLES}
    rest = [finding for finding in findings if finding.level != "note" or finding.code not in many]
    return rest + [
        replace(own[0], message=f"{len(own)} of them; the first: {own[0].message}", where=_places(own))
        for own in many.values()
    ]


def _places(findings: Sequence[Finding]) -> str:
    shown = "; ".join(finding.where for finding in findings[:_EXAMPLES])
    return f"{shown} and {len(findings) - _EXAMPLES} more"


def _tasks(cohort: Cohort, models: Sequence[str], rulers: Sequence[str], common: Task) -> list[Task]:
    """Return a task for each case that has a prediction and a reference, with what all of them have in common."""
    paths = {name: dict(_paths(cohort.mask_sets[name])) for name in {*models, *rulers}}

    def source(name: str, case: str) -> Source:
        mask_set = cohort.mask_sets[name]
        return Source(name, paths[name][case], mask_set.labels or cohort.labels, mask_set.ignore)

    tasks = []
    for case in cohort.cases["case"]:
        ours = [source(name, case) for name in models if case in paths[name]]
        theirs = [source(name, case) for name in rulers if case in paths[name]]
        pairs = tuple((model, ruler) for model in ours for ruler in theirs)
        if pairs:
            tasks.append(replace(common, case=case, pairs=pairs))
    return tasks


def _paths(mask_set: MaskSet) -> list[tuple[str, str]]:
    return list(zip(mask_set.masks["case"], mask_set.masks["path"].map(str), strict=True))


def _coding(tasks: list[Task], results: Mapping[str, Done], cohort: Cohort) -> list[Finding]:
    """Return a warning for each mask set with values outside its coding; an error where no coded value ever occurs."""
    findings = []
    strange: list[Finding] = []
    sources: dict[str, list[tuple[str, FileFacts]]] = {}
    for task in tasks:
        files = results[task.case].files
        for source in dict.fromkeys((s.name, s.path) for pair in task.pairs for s in pair):
            if source[1] in files:
                sources.setdefault(source[0], []).append((task.case, files[source[1]]))
    for name in sorted(sources):
        mask_set = cohort.mask_sets[name]
        coding = dict(mask_set.labels or cohort.labels)
        coded = {value for values in coding.values() for value in values}
        cases, known = [], False
        voxels: Counter[int] = Counter()
        for case, facts in sources[name]:
            known = known or not coded.isdisjoint(facts.voxels)
            foreign = {v: n for v, n in facts.voxels.items() if v not in coded and v != mask_set.ignore}
            if min(foreign, default=0) < 0 and coded.isdisjoint(facts.voxels):
                negative = ", ".join(str(value) for value in sorted(foreign)[:_SHOWN])
                fact = f"the mask of case '{case}' holds {negative} and none of its labels {coding}."
                fix = "labels are whole numbers above 0; export the mask anew, or set `ignore`."
                strange.append(Finding("LABEL_NEGATIVE", fact, f"mask set '{name}', case '{case}'", fix))
            if foreign:
                cases.append(case)
                voxels.update(foreign)
        if not cases:
            continue
        values = ", ".join(f"{value} ({voxels[value]} voxels)" for value in sorted(voxels)[:_SHOWN])
        where = f"mask set '{name}', case '{cases[0]}'" + (" and others" if len(cases) > 1 else "")
        fix = f"if they are structures, name them in the labels of '{name}' (now {coding}), or set `ignore`."
        if not known:
            none = f"none of the labels {coding} occurs in {name}, but other values do: {values}."
            raise AuditError(Finding("LABEL_CODING", none, where, fix))
        held = f"{name} holds values outside its labels in {counted(len(cases), 'case')}"
        fact = f"{held}: {values}; they count as background."
        findings.append(Finding("LABEL_OUTSIDE", fact, where, fix, "warning"))
    raise_errors(strange)
    return findings
