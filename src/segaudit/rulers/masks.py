"""Ruler independence from masks: where model and ruler err against the trusted reference, voxel by voxel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segaudit.audits.compare import generator
from segaudit.audits.plan import Plan
from segaudit.cohorts import Cohort, Labels
from segaudit.errors import AuditError, Finding
from segaudit.stats import independence
from segaudit.stats.error_maps import adjudication_counts, error_counts, shell_counts
from segaudit.volumes import DEFAULT_MAX_BYTES, on_grid, read_labels

Row = dict[str, Any]
_DRAWS = 2_000
_COUNTS = (
    "a",  # voxels where the model errs
    "b",  # where the ruler errs
    "c",  # where both err alike
    "d",  # where they differ
    "phi",
    "gold",  # volumes in voxels
    "model",
    "ruler",
    "shell_c",
    "expected",
    "smaller",
    "upheld",
    "shared",
)


@dataclass(frozen=True)
class Task:
    """One case: the files of gold, model, ruler and perhaps a second reading, each with its coding."""

    case: str
    files: tuple[tuple[str, Labels], ...]
    labels: tuple[str, ...]
    max_bytes: int = DEFAULT_MAX_BYTES


def independence_rows(
    cohort: Cohort,
    plan: Plan,
    key: tuple[str, str, str],
    *,
    second: str | None,
    inflation_low: dict[str, float],
    workers: int,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> tuple[list[Row], list[Finding]]:
    """Return the rows of `independence` of one model, trusted and other ruler (and an optional second expert reading).

    Parameters
    ----------
    cohort : Cohort
        With mask sets of these names.
    key : (model, trusted, other)
    second : str, optional
        Mask set of a second expert reading; it tells a ruler that copies the model from a gold that errs.
    inflation_low : dict of label to float
        Lower limit of the mean Dice inflation, for the word.
    workers : int
    max_bytes : int
        A mask that takes more as stored is not read, and its case takes no part.
    """
    names = [key[1], key[0], key[2], *([second] if second else [])]
    tasks = list(_tasks(cohort, names, max_bytes))
    found, findings = _counted(tasks, workers)
    patient_of = dict(zip(cohort.cases["case"], cohort.cases["patient"], strict=True))
    rows: list[Row] = []
    for i, label in enumerate(cohort.labels):
        cases = [case for case in found if not np.isnan(found[case][i]).all()]
        if cases:
            counts = np.array([found[case][i] for case in cases])
            patients = np.array([patient_of[case] for case in cases])
            rows += _label_rows(counts, patients, plan, (*key, label), inflation_low.get(label, np.nan), second=second)
    return rows, findings


def _tasks(cohort: Cohort, names: Sequence[str], max_bytes: int) -> Iterator[Task]:
    sets = [cohort.mask_sets[name] for name in names]
    paths = [dict(zip(s.masks["case"], s.masks["path"].map(str), strict=True)) for s in sets]
    for case in cohort.cases["case"]:
        if all(case in p for p in paths):
            files = tuple((p[case], s.labels or cohort.labels) for p, s in zip(paths, sets, strict=True))
            yield Task(case, files, tuple(cohort.labels), max_bytes)


def _counted(tasks: list[Task], workers: int) -> tuple[dict[str, NDArray[np.float64]], list[Finding]]:
    """Return per case an array of labels by counts, and a warning on the cases that could not be read."""
    if workers > 1 and len(tasks) > 1:
        with ProcessPoolExecutor(workers) as pool:
            results = list(pool.map(count_case, tasks, chunksize=4))
    else:
        results = [count_case(task) for task in tasks]
    by_case = {task.case: result for task, result in zip(tasks, results, strict=True)}
    found = {case: result for case, result in by_case.items() if not isinstance(result, str)}
    skipped = {case: result for case, result in by_case.items() if isinstance(result, str)}
    if not skipped:
        return found, []
    case, why = next(iter(skipped.items()))
    fact = f"{len(skipped)} of {len(by_case)} cases take no part in ruler independence, such as '{case}': {why}"
    return found, [
        Finding("INDEPENDENCE_SKIPPED", fact, f"case '{case}'", "put the masks back, and run again.", "warning")
    ]


def count_case(task: Task) -> NDArray[np.float64] | str:
    """Return labels by counts (`_COUNTS` names them), or why they cannot be had.

    A label that all three leave empty is NaN. Runs in a worker process.
    """
    try:
        gold, *others = [read_labels(Path(path), max_bytes=task.max_bytes) for path, _ in task.files]
        aligned = [gold, *(on_grid(volume, gold.grid, f"case '{task.case}'") for volume in others)]
    except AuditError as error:
        return error.findings[0].message
    rows = np.full((len(task.labels), len(_COUNTS)), np.nan)
    for i, label in enumerate(task.labels):
        binary = [
            np.isin(volume.labels, coding[label]).astype(np.int8)
            for volume, (_, coding) in zip(aligned, task.files, strict=True)
        ]
        truth, model, ruler = binary[:3]
        if not any(mask.any() for mask in binary[:3]):
            continue
        counts = error_counts(model, ruler, truth)
        rows[i, :4] = counts.a, counts.b, counts.c, counts.d
        rows[i, 4:8] = (counts.phi, *(np.count_nonzero(mask) for mask in (truth, model, ruler)))
        if truth.any():
            shells = shell_counts(model, ruler, truth, 1)
            rows[i, 8:11] = shells.c, shells.expected, shells.smaller
        if len(binary) > 3:
            rows[i, 11:] = adjudication_counts(model, ruler, truth, binary[3])
    return rows


def _label_rows(
    counts: NDArray[np.float64],
    patients: NDArray[np.str_],
    plan: Plan,
    key: tuple[str, str, str, str],
    inflation_low: float,
    *,
    second: str | None,
) -> Iterator[Row]:
    model, trusted, other, label = key
    base = {"model": model, "trusted": trusted, "other": other, "label": label, "n_cases": len(counts)}
    rng = generator(plan, label, "independence")
    given: dict[str, Any] = {
        "patients": patients,
        "level": plan.level,
        "draws": min(_DRAWS, plan.resamples),
        "rng": rng,
    }
    of = dict(zip(_COUNTS, counts.T, strict=True))
    yield from _agreement_rows(base, of)
    errors = independence.shared_errors(of["a"], of["b"], of["c"], of["d"], **given)
    near = np.isfinite(of["shell_c"])
    pieces = (of[name][near] for name in ("shell_c", "expected", "smaller"))
    kappa = independence.kappa_err(*pieces, **{**given, "patients": patients[near]})
    told = {
        "shared_error": (errors.of_model, "share of the model's error voxels that the ruler has too"),
        "shared_error_of_ruler": (
            errors.of_ruler,
            "share of the ruler's error voxels that the model has too; above 0.5 it inflates",
        ),
        "shared_error_cosine": (errors.cosine, "shared errors over the root of both"),
        "shared_error_bound": (errors.bound, "least possible share, from the two distances alone"),
        "kappa_err": (
            kappa,
            "shared errors beyond chance at the same distance from the boundary: 0 independent, 1 nested",
        ),
    }
    for name, (share, detail) in told.items():
        yield _row(base, name, share.value, share.low, share.high, detail)
    defined = of["phi"][np.isfinite(of["phi"])]
    yield _row(
        base,
        "phi",
        defined.mean() if defined.size else np.nan,
        detail="mean correlation of the error maps; descriptive",
    )
    low, high = np.nan, np.nan
    if second:
        used = np.isfinite(of["shared"])
        pieces = (of[name][used] for name in ("upheld", "shared"))
        share = independence.adjudication_share(*pieces, **{**given, "patients": patients[used]})
        low, high = share.low, share.high
        detail = f"where model and ruler agree against {trusted}, how often {second} upholds {trusted}"
        yield _row(base, "adjudication_share", share.value, low, high, detail)
    word = independence.band(kappa_low=kappa.low, inflation_low=inflation_low, bound_low=errors.bound.low)
    yield _row(base, "independence", word, detail=independence.adjudication(low, high))


def _agreement_rows(base: Row, of: dict[str, NDArray[np.float64]]) -> Iterator[Row]:
    """Yield the mean Dice of each two of the three, and how many masks are the same to the voxel."""
    model, trusted, other = base["model"], base["trusted"], base["other"]
    pairs = {
        "dice_model_trusted": ("a", "model", "gold", f"{model} against {trusted}"),
        "dice_model_other": ("d", "model", "ruler", f"{model} against {other}"),
        "dice_rulers": ("b", "ruler", "gold", f"{other} against {trusted}"),
    }
    for name, (apart, left, right, told) in pairs.items():
        volumes = of[left] + of[right]
        scored = volumes > 0
        dice = 1 - of[apart][scored] / volumes[scored]
        same = int(np.count_nonzero(of[apart][scored] == 0))
        yield _row(
            base, name, dice.mean() if dice.size else np.nan, detail=f"mean Dice of {told}; {same} masks identical"
        )


def nearness(rows: Sequence[Row]) -> Iterator[Finding]:
    """Yield a warning for each ruler and label that agrees more with the model than with the other ruler.

    Of the trusted ruler this says little, since the other one may just be noisy: there it is told only when a tenth of
    its masks are the model's to the voxel.
    """
    by = {(row["label"], row["quantity"]): row for row in rows if isinstance(row["value"], float)}
    for label in dict.fromkeys(row["label"] for row in rows):
        apart = by.get((label, "dice_rulers"))
        for quantity, role, against in (
            ("dice_model_trusted", "trusted", "other"),
            ("dice_model_other", "other", "trusted"),
        ):
            near = by.get((label, quantity))
            if near is None or apart is None or near["value"] <= apart["value"]:
                continue
            identical = int(near["detail"].rsplit("; ", 1)[1].split()[0])
            if role == "trusted" and identical < 0.1 * near["n_cases"]:
                continue
            fact = (
                f"'{near[role]}' agrees more with the model '{near['model']}' on {label} (mean Dice "
                f"{near['value']:.4f}, {identical} of {near['n_cases']} masks identical) than with '{near[against]}' "
                f"({apart['value']:.4f})."
            )
            fix = "ask how it was made: a ruler drawn over the model's draft is no independent benchmark."
            yield Finding("RULER_NEAR_MODEL", fact, f"ruler '{near[role]}', label '{label}'", fix, "warning")


def _row(
    base: Row, quantity: str, value: float | str, low: float = np.nan, high: float = np.nan, detail: str = ""
) -> Row:
    known = isinstance(value, str) or bool(np.isfinite(value))
    stored = value if isinstance(value, str) else float(value) if known else None
    status = "ok" if known else "undefined"
    return {**base, "quantity": quantity, "value": stored, "low": low, "high": high, "status": status, "detail": detail}


def training_rows(cohort: Cohort, key: tuple[str, str, str]) -> Iterator[Row]:
    """Yield how many training patients model and ruler share, and how many audited patients either was trained on."""
    model, trusted, other = key
    base = {"model": model, "trusted": trusted, "other": other, "label": "", "low": np.nan, "high": np.nan}
    patients = frozenset(cohort.cases["patient"])
    ours, theirs = (s.trained_on if (s := cohort.mask_sets.get(name)) else None for name in (model, other))
    pairs = {
        "training_shared": (ours, theirs, f"training patients of {model} that {other} was trained on too"),
        "training_audited_model": (ours, patients, f"audited patients that {model} was trained on"),
        "training_audited_ruler": (theirs, patients, f"audited patients that {other} was trained on"),
    }
    for name, (left, right, detail) in pairs.items():
        known = left is not None and right is not None
        shared = sorted(left & right) if left is not None and right is not None else []
        shown = f"; such as {', '.join(shared[:3])}" if shared else ""
        yield {
            **base,
            "quantity": name,
            "value": float(len(shared)) if known else None,
            "n_cases": len(cohort.cases),
            "status": "ok" if known else "undefined",
            "detail": detail + shown if known else f"{detail}: not known, trained_on is not given",
        }
