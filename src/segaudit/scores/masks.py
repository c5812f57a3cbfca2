"""Score mask sets of a cohort, or plain folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from pathlib import Path

from segaudit.cohorts import Cohort, MaskSet, discover_masks, make_cohort
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.metrics import METRICS
from segaudit.scores.base import Scores
from segaudit.scores.finish import finish
from segaudit.scores.ledger import Ledger
from segaudit.scores.measure import Progress, measure_cohort
from segaudit.volumes import DEFAULT_MAX_BYTES

DEFAULT_METRICS = ("dice", "ndsc", "hd95")


def score(
    cohort: Cohort,
    *,
    models: Sequence[str],
    rulers: Sequence[str],
    metrics: Sequence[str] = DEFAULT_METRICS,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    ledger: Path | str | None = None,
    keep_going: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Scores:
    """Return the scores of models under rulers for every case of a cohort.

    Parameters
    ----------
    cohort : Cohort
    models, rulers : sequence of str
        Names of mask sets; a set may be in both, but is not scored against itself.
    metrics : sequence of str
        Metric cards to compute; counts, volumes and components always come with them.
    workers : int, optional
        Processes; all cores by default.
    executor : concurrent.futures.Executor, optional
        Runs the cases in place of own processes, any of concurrent.futures or one of a cluster; it is not shut down.
    progress : callable, optional
        Called with (cases done, cases in all).
    ledger : path, optional
        File in which each case is kept as soon as it is measured, and from which it is taken when its masks have the
        same content, coding and metrics. The scores are the same with and without it.
    keep_going : bool
        Whether a case that cannot be measured is a warning, and its rows not_scored, in place of an error.
    max_bytes : int
        Largest image that memory is taken for: its voxels as stored.

    Returns
    -------
    Scores
        A case without a prediction has the status prediction_missing, one without a reference reference_missing.

    Raises
    ------
    AuditError
        UNKNOWN_MASK_SET, UNKNOWN_METRIC, NO_LABELS, NOTHING_TO_SCORE; every image that cannot be read, every pair of
        grids that does not match and every case that killed its worker, all at once, after the others were measured;
        LEDGER_UNUSABLE, LEDGER_DAMAGED, EXECUTOR_BROKEN, EXECUTOR_IMPORT or WORKER_VERSION.
    """
    names = checked_request(cohort, models, rulers, metrics)
    with Ledger(Path(ledger)) if ledger is not None else nullcontext() as kept:
        found = measure_cohort(
            cohort,
            models,
            rulers,
            names,
            workers=workers or os.cpu_count() or 1,
            executor=executor,
            progress=progress,
            ledger=kept,
            keep_going=keep_going,
            max_bytes=max_bytes,
        )
    patients = dict(zip(cohort.cases["case"], cohort.cases["patient"], strict=True))
    table, loads = finish(found.entries, patients, names)
    paths = {Path(p) for name in {*models, *rulers} for p in cohort.mask_sets[name].masks["path"]}
    return Scores(
        table, loads, tuple(sorted(paths - found.unread)), tuple(dict.fromkeys(found.findings)), found.digests
    )


def score_folders(
    prediction: Path | str,
    references: Mapping[str, Path | str],
    *,
    labels: Mapping[str, int | Sequence[int]],
    metrics: Sequence[str] = DEFAULT_METRICS,
    workers: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    ledger: Path | str | None = None,
    keep_going: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    model: str = "model",
) -> Scores:
    """Return the scores of a folder of predictions against one or more folders of references, paired by case name.

    Parameters
    ----------
    prediction : path
        Folder of .nii, .nii.gz or .png label maps; the case is the file name without the suffix.
    references : mapping of str to path
        Ruler name to folder.
    labels : mapping of str to int or sequence of int
        Structure to its value or values, e.g. {"vb": 1, "disc": 2}.
    model : str
        Name of the model in the table.

    Returns
    -------
    Scores
        Over all cases that any folder holds; each case is taken as a patient of its own.

    Raises
    ------
    AuditError
        As `score`, and what finding the masks raises.

    Examples
    --------
    >>> import tempfile, pathlib, numpy as np, segaudit as sa
    >>> from segaudit.volumes import write_labels
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, width in (("pred", 4), ("gold", 5)):
    ...     mask = np.zeros((8, 8, 8), np.uint8)
    ...     mask[2:6, 2:6, 2 : 2 + width] = 1
    ...     (folder / name).mkdir()
    ...     write_labels(folder / name / "c1.nii.gz", mask, spacing_mm=(1.0, 1.0, 1.0))
    >>> scores = sa.score_folders(folder / "pred", {"gold": folder / "gold"}, labels={"vb": 1}, workers=1)
    >>> print(scores.wide("model", "gold")["dice_vb"].round(4).tolist())
    [0.8889]
    """
    if model in references:
        raise AuditError(Finding("NAME_TWICE", f"'{model}' names the model and a ruler.", "", "name one otherwise."))
    folders = {model: Path(prediction), **{name: Path(path) for name, path in references.items()}}
    sets: dict[str, MaskSet] = {}
    findings: list[Finding] = []
    for name, folder in folders.items():
        try:
            sets[name] = MaskSet(name, discover_masks(folder).assign(kind="unknown"))
        except AuditError as error:
            findings += error.findings
    raise_errors(findings)
    coding = {name: (value,) if isinstance(value, int) else tuple(value) for name, value in labels.items()}
    cohort = make_cohort("folders", sets.values(), labels=coding)
    return score(
        cohort,
        models=[model],
        rulers=list(references),
        metrics=metrics,
        workers=workers,
        executor=executor,
        progress=progress,
        ledger=ledger,
        keep_going=keep_going,
        max_bytes=max_bytes,
    )


def checked_request(cohort: Cohort, models: Sequence[str], rulers: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Return the metrics asked for with the descriptive ones, or raise every fault of the request."""
    findings = []
    for role, names in (("model", models), ("ruler", rulers)):
        for name in names:
            if name not in cohort.mask_sets:
                fact = f"there is no mask set '{name}'."
                findings.append(Finding("UNKNOWN_MASK_SET", fact, f"{role}s", did_you_mean(name, cohort.mask_sets)))
            if list(names).count(name) > 1 or (role == "model" and name in rulers):
                findings.append(Finding("NAME_TWICE", f"'{name}' is asked for twice.", f"{role}s", "name it once."))
    for name in metrics:
        if name not in METRICS:
            fact = f"no metric is named '{name}'."
            findings.append(Finding("UNKNOWN_METRIC", fact, "metrics", did_you_mean(name, METRICS.names())))
    if not cohort.labels:
        fix = "name the structures: [labels] in cohort.toml, or --labels vb=1,disc=2."
        findings.append(Finding("NO_LABELS", "no structure is named.", "labels", fix))
    if not models or not rulers:
        findings.append(Finding("NOTHING_TO_SCORE", "name at least one model and one ruler.", "models, rulers"))
    raise_errors(findings)
    if not any(
        set(cohort.mask_sets[m].masks["case"]) & set(cohort.mask_sets[r].masks["case"]) for m in models for r in rulers
    ):
        fact = "no case has both a prediction and a reference."
        fix = "masks are paired by file name without suffix; check the names, or give a pattern."
        raise AuditError(Finding("NOTHING_TO_SCORE", fact, ", ".join([*models, *rulers]), fix))
    return [*metrics, *(card.name for card in METRICS if card.better == "neither")]
