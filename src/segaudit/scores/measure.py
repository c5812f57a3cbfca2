"""From masks to the ledger: each case is read once, brought onto one grid and measured for every model and ruler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from segaudit.cohorts import Cohort, Labels, MaskSet
from segaudit.errors import AuditError, Finding
from segaudit.metrics import METRICS, measure
from segaudit.scores.finish import Entry
from segaudit.volumes import LabelVolume, on_grid, read_labels

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Source:
    """One mask of a case: whose it is, where it lies, how its labels are coded."""

    name: str
    path: str
    labels: Labels
    ignore: int | None


@dataclass(frozen=True)
class Task:
    """A case with the masks of its models and rulers (those that exist)."""

    case: str
    models: tuple[Source, ...]
    rulers: tuple[Source, ...]
    metrics: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """What came out of a task: entries, errors, and the voxels that no label of the coding explains."""

    case: str
    entries: list[Entry]
    findings: list[Finding]
    foreign: Mapping[str, Mapping[int, int]]
    known: frozenset[str]


def measure_cohort(
    cohort: Cohort,
    models: Sequence[str],
    rulers: Sequence[str],
    metrics: Sequence[str],
    *,
    workers: int,
    executor: Executor | None,
    progress: Progress | None,
) -> tuple[list[Entry], list[Finding]]:
    """Return the ledger of a cohort, dense over cases, models, rulers and labels, and what was found on the way.

    Raises
    ------
    AuditError
        Every unreadable mask and every pair of grids that do not match, at once.
    """
    tasks = _tasks(cohort, models, rulers, metrics)
    results = _run(tasks, workers, executor, progress)
    errors = [finding for done in results for finding in done.findings if finding.level == "error"]
    if errors:
        raise AuditError(errors)
    measured = {entry[:4]: entry for done in results for entry in done.entries}
    referenced = {ruler: set(cohort.mask_sets[ruler].masks["case"]) for ruler in rulers}

    def absent(case: str, ruler: str) -> str:
        return "prediction_missing" if case in referenced[ruler] else "reference_missing"

    entries = [
        measured.get((case, model, ruler, label), (case, model, ruler, label, absent(case, ruler)))
        for model in models
        for ruler in rulers
        for case in cohort.cases["case"]
        for label in cohort.labels
    ]
    findings = [finding for done in results for finding in done.findings]
    return entries, [*findings, *_coding(results, cohort)]


def measure_case(task: Task) -> Done:
    """Return what one case gives. Runs in a worker process: it takes paths and returns small records."""
    findings: list[Finding] = []
    foreign: dict[str, dict[int, int]] = {}
    known: set[str] = set()
    read = _reader(findings, foreign, known)
    entries: list[Entry] = []
    references = [(source, read(source)) for source in task.rulers]
    for model in task.models:
        prediction = read(model)
        for ruler, reference in references:
            if prediction is None or reference is None:
                continue
            try:
                aligned = on_grid(prediction, reference.grid, f"case '{task.case}', {model.name} ({model.path})")
            except AuditError as error:
                findings += error.findings
                continue
            found = measure(
                aligned.labels,
                reference.labels,
                model.labels,
                ruler.labels,
                reference.grid.spacing_mm,
                ignore=ruler.ignore,
                boundary="hd95" in task.metrics,
                components=any(name.startswith("components") for name in task.metrics),
                others=[METRICS[name] for name in task.metrics if METRICS[name].fn is not None],
            )
            entries += [(task.case, model.name, ruler.name, label, value) for label, value in found.items()]
    return Done(task.case, entries, findings, foreign, frozenset(known))


def _reader(
    findings: list[Finding], foreign: dict[str, dict[int, int]], known: set[str]
) -> Callable[[Source], LabelVolume | None]:
    """Return a function that reads each file once and keeps book of its labels."""
    volumes: dict[str, LabelVolume | None] = {}

    def read(source: Source) -> LabelVolume | None:
        if source.path not in volumes:
            try:
                volume = read_labels(Path(source.path))
            except AuditError as error:
                findings.extend(error.findings)
                volumes[source.path] = None
                return None
            findings.extend(volume.findings)
            volumes[source.path] = volume
            coded = {value for values in source.labels.values() for value in values}
            present = _values(volume.labels)
            foreign[source.name] = {v: n for v, n in present.items() if v not in coded and v not in (0, source.ignore)}
            if coded & present.keys():
                known.add(source.name)
        return volumes[source.path]

    return read


def _values(labels: np.ndarray) -> dict[int, int]:
    """Return how many voxels hold each value that occurs."""
    if labels.dtype == np.uint8:
        counts = np.zeros(256, dtype=np.int64)
        for block in np.array_split(labels.reshape(-1, order="A"), max(1, labels.size // (1 << 18))):
            if block.any():
                counts += np.bincount(block, minlength=256)
        return {int(v): int(counts[v]) for v in np.flatnonzero(counts) if v}
    values, numbers = np.unique(labels, return_counts=True)
    return {int(v): int(n) for v, n in zip(values, numbers, strict=True) if v}


def _tasks(cohort: Cohort, models: Sequence[str], rulers: Sequence[str], metrics: Sequence[str]) -> list[Task]:
    paths = {name: dict(_paths(cohort.mask_sets[name])) for name in {*models, *rulers}}

    def sources(names: Sequence[str], case: str) -> tuple[Source, ...]:
        return tuple(
            Source(name, paths[name][case], mask_set.labels or cohort.labels, mask_set.ignore)
            for name in names
            if case in paths[name] and (mask_set := cohort.mask_sets[name])
        )

    names = tuple(metrics)
    tasks = (Task(case, sources(models, case), sources(rulers, case), names) for case in cohort.cases["case"])
    return [task for task in tasks if task.models and task.rulers]


def _paths(mask_set: MaskSet) -> list[tuple[str, str]]:
    return list(zip(mask_set.masks["case"], mask_set.masks["path"].map(str), strict=True))


def _run(tasks: list[Task], workers: int, executor: Executor | None, progress: Progress | None) -> list[Done]:
    """Return the results in the order of the tasks, whatever the order in which they end."""
    if executor is None and (workers == 1 or len(tasks) == 1):
        return [_told(measure_case(task), i, len(tasks), progress) for i, task in enumerate(tasks, 1)]
    if executor is not None:
        return _gather(executor, tasks, progress)
    with ProcessPoolExecutor(workers) as pool:
        return _gather(pool, tasks, progress)


def _gather(executor: Executor, tasks: list[Task], progress: Progress | None) -> list[Done]:
    futures = {executor.submit(measure_case, task): task.case for task in tasks}
    done = {}
    for i, future in enumerate(as_completed(futures), 1):
        done[futures[future]] = _told(future.result(), i, len(tasks), progress)
    return [done[task.case] for task in tasks]


def _told(done: Done, i: int, total: int, progress: Progress | None) -> Done:
    if progress is not None:
        progress(i, total)
    return done


def _coding(results: list[Done], cohort: Cohort) -> list[Finding]:
    """Return a warning for each mask set with values outside its coding; an error where no coded value ever occurs."""
    findings = []
    for name in sorted({name for done in results for name in done.foreign}):
        cases = [done.case for done in results if done.foreign.get(name)]
        if not cases:
            continue
        voxels: Counter[int] = Counter()
        for done in results:
            voxels.update(done.foreign.get(name, {}))
        values = ", ".join(f"{value} ({voxels[value]} voxels)" for value in sorted(voxels)[:8])
        coded = dict(cohort.mask_sets[name].labels or cohort.labels)
        fact = f"{name} holds values outside its labels in {len(cases)} cases: {values}; they count as background."
        where = f"mask set '{name}', case '{cases[0]}'" + (" and others" if len(cases) > 1 else "")
        fix = f"if they are structures, name them in the labels of '{name}' (now {coded}), or set `ignore`."
        if any(name in done.known for done in results):
            findings.append(Finding("LABEL_OUTSIDE", fact, where, fix, "warning"))
        else:
            none = f"none of the labels {coded} occurs in {name}, but other values do: {values}."
            raise AuditError(Finding("LABEL_CODING", none, where, fix))
    return findings
