"""The line, step by step, as the commands run it: each function reads, calls one verb and writes a run directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segaudit.audits import Audit, Plan, audit, plan_of
from segaudit.cohorts import Cohort, MaskSet, discover_masks, make_cohort, read_cohort
from segaudit.config.base import read_toml
from segaudit.config.plan import PlanFile
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.groupings import Grouping, parse_all
from segaudit.participants import Participants, join_participants, read_participants
from segaudit.provenance import Step
from segaudit.rulers import RulerComparison, compare_rulers
from segaudit.runs import image_limit, read_audit, read_cohort_of, read_scores_of, write_audit, write_scores
from segaudit.scores import (
    LEDGER,
    Scores,
    checked_request,
    cluster,
    merge,
    read_score_table,
    read_summary,
    remove_ledger,
    score,
)
from segaudit.store import RunDirectory, check_writable
from segaudit.volumes import DEFAULT_MAX_BYTES

Progress = Callable[[str, int, int], None]
WAITING = "waiting for another process"


def silent(_what: str, _done: int, _total: int) -> None:
    """Tell nobody how far a step is."""


@dataclass(frozen=True)
class People:
    """Where the participants stand, as plain options give it."""

    file: Path | None = None
    key: str | None = None
    patient: str | None = None
    case_to_patient: str | None = None


@dataclass(frozen=True)
class Versus:
    """Which rulers are compared: the trusted one (else the first) with each of the others (else all)."""

    trusted: str | None = None
    others: tuple[str, ...] = ()
    second: str | None = None

    def of(self, rulers: Sequence[str]) -> tuple[str, list[str]]:
        """Return the trusted ruler among these and those to be compared with it.

        Raises
        ------
        AuditError
            UNKNOWN_RULER.
        """
        raise_errors(
            Finding("UNKNOWN_RULER", f"there is no ruler '{name}'.", role, did_you_mean(name, rulers))
            for role, name in (("trusted", self.trusted), *(("other", name) for name in self.others))
            if name is not None and name not in rulers
        )
        first = self.trusted or rulers[0]
        return first, list(self.others) or [name for name in rulers if name != first]


@dataclass(frozen=True)
class Means:
    """How masks are measured, as plain options give it.

    Attributes
    ----------
    workers : int or None
        Processes; all cores when None.
    scheduler : str or None
        Address of a Dask scheduler whose workers measure in place of own processes.
    fresh : bool
        Whether the ledger of the run directory is begun anew.
    keep_going : bool
        Whether cases that cannot be measured are not_scored in place of errors.
    max_bytes : int or None
        Largest image, voxels as stored; the usual limit when None.
    """

    workers: int | None = None
    scheduler: str | None = None
    fresh: bool = False
    keep_going: bool = False
    max_bytes: int | None = None


@dataclass(frozen=True)
class Result:
    """What a command has to show: the audit, the rulers compared, and where the run was written."""

    audit: Audit
    comparisons: list[RulerComparison]
    run: Path | None = None
    report: Path | None = None
    findings: tuple[Finding, ...] = field(default=())


def cohort_of_folders(
    prediction: Path, references: Mapping[str, Path], labels: Mapping[str, Sequence[int]], people: People, model: str
) -> Cohort:
    """Return the cohort of plain options: a folder of predictions, folders of references, a participants table."""
    findings: list[Finding] = []
    if model in references:
        findings.append(
            Finding("NAME_TWICE", f"'{model}' names the model and a ruler.", "--model, --ref", "rename one.")
        )
    sets = []
    for name, folder in {model: prediction, **references}.items():
        try:
            sets.append(MaskSet(name, discover_masks(folder).assign(kind="unknown")))
        except AuditError as error:
            findings += error.findings
    participants = None
    try:
        participants = _participants(people, None)
    except AuditError as error:
        findings += error.findings
    raise_errors(findings)
    coding = {name: tuple(values) for name, values in labels.items()}
    return make_cohort("folders", sets, participants, case_to_patient=people.case_to_patient, labels=coding)


def roles(cohort: Cohort, models: Sequence[str], rulers: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return which mask sets are models and which rulers: as asked, else as the cohort says, else first and rest."""
    sets = list(cohort.mask_sets)
    asked = list(rulers or cohort.rulers)
    chosen = list(models or cohort.models) or [name for name in sets if name not in asked][:1]
    return chosen, asked or [name for name in sets if name not in chosen]


def score_line(
    cohort: Cohort,
    out: Path,
    *,
    models: Sequence[str] = (),
    rulers: Sequence[str] = (),
    metrics: Sequence[str],
    means: Means = Means(),
    files: Sequence[Path] = (),
    plan: Plan | None = None,
    progress: Progress = silent,
) -> Scores:
    """Score a cohort and write the run directory; when masks have errors, only the ledger of what was measured is kept.

    A plan that is declared beforehand is recorded as the first step.
    """
    chosen, against = roles(cohort, models, rulers)
    checked_request(cohort, chosen, against, metrics)
    check_writable(out)
    run = RunDirectory(out, create=True)
    with (
        run.alone(lambda: progress(WAITING, 0, 1)),
        cluster(means.scheduler) if means.scheduler is not None else nullcontext() as executor,
    ):
        if means.fresh:
            remove_ledger(out / LEDGER)
        scores = score(
            cohort,
            models=chosen,
            rulers=against,
            metrics=metrics,
            workers=means.workers,
            executor=executor,
            progress=lambda done, total: progress("scoring", done, total),
            ledger=out / LEDGER,
            keep_going=means.keep_going,
            max_bytes=means.max_bytes or DEFAULT_MAX_BYTES,
        )
        if plan is not None:
            record_plan(run, plan)
        options: dict[str, Any] = {"models": chosen, "rulers": against, "metrics": list(metrics)}
        if means.max_bytes is not None:  # the images that may be read later, too
            options["max_image_bytes"] = means.max_bytes
        write_scores(run, scores, cohort, options, {*files, *cohort.files})
    return scores


def read_rulers(files: Mapping[str, Path], columns: Mapping[str, str], model: str) -> Scores:
    """Return the scores of one table or summary.json a ruler, every fault of all of them at once."""
    parts: list[Scores] = []
    findings: list[Finding] = []
    for name, path in files.items():
        try:
            if path.suffix == ".json":
                parts.append(read_summary(path, ruler=name, model=model))
            else:
                parts.append(read_score_table(path, ruler=name, model=model, columns=columns))
        except AuditError as error:
            findings += error.findings
    raise_errors(findings)
    return merge(parts)


def cohort_of_scores(scores: Scores, people: People, plan: Plan) -> Cohort:
    """Return the cases of a score table with what the participants table says of them."""
    cases = scores.patients()
    participants = _participants(people, plan)
    if participants is None:
        return Cohort("scores", cases)
    own = dict(zip(cases["case"], cases["patient"], strict=True))
    given = None if all(case == patient for case, patient in own.items()) else own
    joined = join_participants(participants, list(own), given, case_to_patient=people.case_to_patient)
    return Cohort("scores", joined.cases, missing=joined.missing, findings=joined.findings)


def _participants(people: People, plan: Plan | None) -> Participants | None:
    if people.file is None:
        return None
    wanted = None
    if plan is not None:
        wanted = list(dict.fromkeys([*(a for g in plan.groupings for a in g.attributes), *plan.regression])) or None
    return read_participants(people.file, key=people.key, patient=people.patient, attributes=wanted)


def audit_scores(
    scores: Scores,
    cohort: Cohort,
    plan: Plan,
    versus: Versus = Versus(),
    *,
    out: Path | None = None,
    files: Sequence[Path] = (),
    workers: int | None = None,
    progress: Progress = silent,
) -> Result:
    """Audit scores from tables, compare the other rulers with the trusted one, and write all to `out` if given."""
    if out is not None:
        check_writable(out)
    scores = scores.of(cohort.cases)
    result = _audited(scores, cohort, plan, versus, workers=workers, progress=progress)
    if out is not None:
        run = RunDirectory(out, create=True)
        with run.alone(lambda: progress(WAITING, 0, 1)):
            write_scores(run, scores, cohort, {"from": "score tables"}, files)
            _write_result(run, result, versus, files)
    return replace(result, run=out)


def _audited(
    scores: Scores,
    cohort: Cohort,
    plan: Plan,
    versus: Versus,
    *,
    workers: int | None,
    progress: Progress,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Result:
    """Return the audit of scores, and the other rulers compared with the trusted one."""
    first, against = versus.of(scores.rulers)
    _check_second(versus, cohort)
    found = audit(scores, cohort, plan, progress=lambda done, total: progress("auditing", done, total))
    comparisons = []
    processes = workers or os.cpu_count() or 1
    for i, other in enumerate(against, 1):
        comparisons.append(
            compare_rulers(found, first, other, second=versus.second, workers=processes, max_bytes=max_bytes)
        )
        progress("comparing rulers", i, len(against))
    return Result(found, comparisons)


def check_two_rulers(scores: Scores) -> None:
    """Raise RULERS_ONE when there is nothing to compare."""
    if len(scores.rulers) < 2:
        fact = f"there is one ruler, '{scores.rulers[0]}': nothing to compare it with."
        fix = "score against a second reference, or give --scores NAME=FILE twice."
        raise AuditError(Finding("RULERS_ONE", fact, "rulers", fix))


def _check_second(versus: Versus, cohort: Cohort) -> None:
    if versus.second is not None and versus.second not in cohort.mask_sets:
        fact = f"there is no mask set '{versus.second}' for a second reading."
        fix = did_you_mean(versus.second, cohort.mask_sets) if cohort.mask_sets else "score masks; tables have none."
        raise AuditError(Finding("UNKNOWN_MASK_SET", fact, "second", fix))


def _write_result(run: RunDirectory, result: Result, versus: Versus, files: Sequence[Path]) -> None:
    first, against = versus.of(result.audit.scores.rulers)
    options = {"trusted": first, "others": against, "second": versus.second, "plan": result.audit.plan.digest()}
    write_audit(run, result.audit, result.comparisons, options, files)


def audit_run(
    folder: Path,
    plan: Plan,
    versus: Versus = Versus(),
    *,
    files: Sequence[Path] = (),
    workers: int | None = None,
    progress: Progress = silent,
) -> Result:
    """Audit the scores of a run directory."""
    run = RunDirectory(folder)
    with run.alone(lambda: progress(WAITING, 0, 1)):
        scores, cohort = read_scores_of(run), read_cohort_of(run)
        result = _audited(scores, cohort, plan, versus, workers=workers, progress=progress, max_bytes=image_limit(run))
        _write_result(run, result, versus, files)
    return replace(result, run=folder)


def rulers_of_run(folder: Path, versus: Versus, *, workers: int | None = None, progress: Progress = silent) -> Result:
    """Compare rulers of an audited run directory anew, by the plan it was audited by."""
    found, _ = read_audit(RunDirectory(folder))
    check_two_rulers(found.scores)
    return audit_run(folder, found.plan, versus, workers=workers, progress=progress)


def plan_of_options(
    file: Path | None,
    by: Sequence[str],
    *,
    success: Mapping[str, float] | None = None,
    margin: Mapping[str, float] | None = None,
    **changes: Any,
) -> tuple[Plan, PlanFile | None]:
    """Return the plan of an audit.toml, of plain options, or of both (options win)."""
    read = read_toml(file, PlanFile) if file is not None else None
    plan = plan_of(read) if read is not None else Plan()
    groupings: tuple[Grouping, ...] = parse_all(by) if by else tuple(plan.groupings)
    given = {name: value for name, value in changes.items() if value is not None}
    return (
        replace(
            plan,
            groupings=groupings,
            success={**plan.success, **(success or {})},
            margin={**plan.margin, **(margin or {})},
            **given,
        ),
        read,
    )


def run_plan(path: Path, out: Path | None = None, *, means: Means = Means(), progress: Progress = silent) -> Result:
    """Run an audit.toml: cohort, scores, audit, rulers. The plan is fixed before a score is computed."""
    plan, file = plan_of_options(path, ())
    if file is None or (file.cohort is None) == (file.scores is None):
        fix = "name cohort = 'cohort.toml', or [scores] with one table a ruler."
        raise AuditError(Finding("PLAN_NO_DATA", "the plan names no cohort and no scores, or both.", str(path), fix))
    home = path.parent
    folder = out or home / file.output
    versus = Versus(file.trusted, (file.other,) if file.other else (), file.second)
    if file.scores is not None:
        tables = {name: home / table for name, table in file.scores.items()}
        people = People(home / file.participants if file.participants else None, file.key, file.patient)
        scores = read_rulers(tables, file.columns, (file.models or ["model"])[0])
        cohort = cohort_of_scores(scores, people, plan)
        files = [path, *tables.values(), *([people.file] if people.file else [])]
        return audit_scores(scores, cohort, plan, versus, out=folder, files=files, progress=progress)
    toml = home / str(file.cohort)
    cohort = read_cohort(toml)
    # a plan that does not fit the cohort stops before the scoring, and is declared with the levels it found
    plan = plan.resolved(cohort.cases)
    versus.of(roles(cohort, file.models or (), file.rulers or ())[1])
    _check_second(versus, cohort)
    means = replace(means, workers=means.workers or file.workers)
    score_line(
        cohort,
        folder,
        models=file.models or (),
        rulers=file.rulers or (),
        metrics=file.metrics,
        means=means,
        files=[path],
        plan=plan,
        progress=progress,
    )
    return audit_run(folder, plan, versus, files=[path], workers=means.workers, progress=progress)


def record_plan(run: RunDirectory, plan: Plan) -> None:
    """Record the plan as the first step of a run: what is declared stands before a score is seen."""
    run.record(Step("plan", {"plan": plan.as_json(), "digest": plan.digest()}, seed=plan.seed), [], first=True)
