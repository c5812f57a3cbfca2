"""One step of a study as one process does it: begun where it was left, proved when it is done."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segaudit.config.study_lock import RegimeRecord, StepRecord, StudyLock
from segaudit.errors import AuditError, Finding, did_you_mean
from segaudit.provenance import digest_file, digest_json
from segaudit.splits import TrainVal
from segaudit.store import lock_file
from segaudit.study import nnunet
from segaudit.study.collecting import collect
from segaudit.study.environments import having_room
from segaudit.study.locks import read_lock
from segaudit.study.proofs import NNUNET, PROOFS, proving, read_proof, why_not
from segaudit.study.raw import RawCase, check_raw, write_raw
from segaudit.study.regimes import final_masks

DONE = "done"
STOP = ".stop"
"""A file that an interrupted run leaves, so that its steps end wherever they run."""
_WATCH_S = 1.0
_WAIT_S = 20.0
_REASON_CHARACTERS = 4096

Audit = Callable[[Path], None]


@dataclass(frozen=True)
class Job:
    """A step with all that its body reads."""

    home: Path
    lock: StudyLock
    step: StepRecord

    @property
    def network(self) -> Path:
        """The folder of nnU-Net's own folders."""
        return self.home / NNUNET

    @property
    def regime(self) -> RegimeRecord:
        """The regime of the step."""
        return self.lock.regime(self.step.regime)

    @property
    def settings(self) -> nnunet.Settings:
        """What nnU-Net is told."""
        own, machine = self.lock.settings, self.lock.machine
        return nnunet.Settings(
            planner=own["planner"],
            trainer=own["trainer"],
            device=machine["device"],
            seed=own["seed"],
            threads=machine["threads"],
            augmenters=machine["augmenters"],
            exporters=machine["exporters"],
            pools=machine["pools"],
            gpu_memory_gb=own["gpu_memory_gb"],
        )

    def predictions(self, configuration: str) -> Path:
        """Return the folder of predictions of the regime."""
        return self.home / "predictions" / self.step.regime / configuration


def do_step(home: Path, name: str, audit: Audit) -> str:
    """Do a step unless its proof holds; return what was done, in a word.

    Parameters
    ----------
    home : Path
        Folder of the study.
    name : str
    audit : callable
        Audits a folder with cohort.toml and audit.toml; the study itself knows no audit.

    Raises
    ------
    AuditError
        STUDY_STEP_UNKNOWN, STUDY_STEP_HELD, STUDY_STEP_EARLY, and the codes of the step.
    """
    lock = read_lock(home)
    step = lock.step(name)
    if step is None:
        fix = did_you_mean(name, [one.name for one in lock.steps])
        raise AuditError(Finding("STUDY_STEP_UNKNOWN", f"the study has no step '{name}'.", str(home), fix))
    with _alone(home, name):
        if not why_not(home, lock, step):
            mark(home, name)
            return "held"
        early = [need for need in step.needs if (other := lock.step(need)) and why_not(home, lock, other)]
        if early:
            fact = f"step '{name}' needs {', '.join(early)}, not done yet."
            raise AuditError(Finding("STUDY_STEP_EARLY", fact, str(home), "do these first: segaudit study run."))
        with _failing(home, name), _gpu(home, lock), proving(home, lock, step, lock.machine["threads"]) as told:
            _BODIES[step.verb](Job(home, lock, step), told, audit)
        mark(home, name)
    return "done"


def mark(home: Path, name: str) -> None:
    """Mark a step as done for Snakemake, which goes by times: newer than what it rests on."""
    path = home / DONE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def reason_of(home: Path, name: str) -> str:
    """Return why the last attempt at a step failed, as it was told; empty when none did."""
    try:
        return (home / PROOFS / f"{name}.failed").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


@contextmanager
def _failing(home: Path, name: str) -> Iterator[None]:
    """Leave the reason of a failure where the workflow finds it, whatever machine the step ran on."""
    path = home / PROOFS / f"{name}.failed"
    try:
        with having_room(home):
            # its room is taken beforehand, for a full disk has none for the reason
            path.write_text(" " * _REASON_CHARACTERS, encoding="utf-8")
            yield
            path.unlink()
    except AuditError as error:
        with suppress(OSError), path.open("r+", encoding="utf-8") as file:
            file.write(str(error).ljust(_REASON_CHARACTERS)[: _REASON_CHARACTERS // 4])
        raise


@contextmanager
def _alone(home: Path, name: str) -> Iterator[None]:
    path = _lock_path(home, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        until = time.monotonic() + _WAIT_S  # a job whose workflow was killed takes a moment to end
        while not lock_file(file):
            if time.monotonic() > until:
                fact = f"another process does step '{name}' at this moment."
                raise AuditError(Finding("STUDY_STEP_HELD", fact, str(path), "wait for it, or end it."))
            time.sleep(0.2)
        yield


def is_held(home: Path, name: str) -> bool:
    """Tell whether a process does a step at this moment."""
    try:
        with _lock_path(home, name).open("r+b") as file:
            return not lock_file(file)
    except OSError:  # no lock yet, or none that may be opened
        return False


def _lock_path(home: Path, name: str) -> Path:
    return home / PROOFS / f"{name}.lock"


def end_with_parent() -> None:
    """End this process and its children when the process that started it is gone, or its run was interrupted.

    The steps of a run work in the study's folder.
    """
    parent, stop = os.getppid(), Path(STOP).absolute()
    earlier = stop.exists()

    def watch() -> None:
        while os.getppid() == parent and (earlier or not stop.exists()):
            time.sleep(_WATCH_S)
        os.killpg(os.getpgid(0), signal.SIGKILL)

    if os.getpgid(0) != os.getpid():
        os.setpgid(0, 0)
    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _gpu(home: Path, lock: StudyLock) -> Iterator[None]:
    """Take one of the machine's GPUs for the time of a step, unless a scheduler has handed one out."""
    n_gpus = lock.machine["gpus"]
    if lock.machine["device"] != "cuda" or n_gpus == 1 or "CUDA_VISIBLE_DEVICES" in os.environ:
        yield
        return
    folder = home / ".gpus"
    folder.mkdir(exist_ok=True)
    while True:
        for number in range(n_gpus):
            with (folder / str(number)).open("a+b") as file:
                if lock_file(file):
                    os.environ["CUDA_VISIBLE_DEVICES"] = str(number)
                    yield
                    return
        time.sleep(_WATCH_S)


def _prepare(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    regime, lock = job.regime, job.lock
    cases = [RawCase(exam.case, Path(exam.image), Path(exam.label), lock.coding(exam)) for exam in regime.exams]
    changed = [
        Finding("STUDY_FILE_CHANGED", f"the {what} of case '{exam.case}' has changed since the study began.", path)
        for exam in regime.exams
        for what, path, sha256 in (
            ("image", exam.image, exam.image_sha256),
            ("label", exam.label, exam.label_sha256),
        )
        if sha256 and digest_file(Path(path)) != sha256
    ]
    if changed:
        raise AuditError(changed)
    labels = {name: tuple(values) for name, values in lock.labels.items()}
    pairs = [TrainVal(tuple(fold.train), tuple(fold.val)) for fold in regime.folds]
    told["result"] = write_raw(job.network, regime.dataset, cases, labels, pairs, lock.settings["channel"])
    folder = job.network / "raw" / regime.dataset
    told["files"] = [path for path in folder.iterdir() if path.is_file()]


def _plan(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    lock = job.lock
    dataset = lock.regime(lock.settings["plan_from"]).dataset
    path = nnunet.plan(job.network, dataset, job.settings)
    # of all regimes, before any of them is preprocessed
    asked = dict.fromkeys(name for one in lock.regimes for name in one.configurations)
    nnunet.check_configurations(job.network, dataset, list(asked), job.settings)
    told["files"] = [path]


def _preprocess(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    lock, regime = job.lock, job.regime
    source = lock.regime(lock.settings["plan_from"]).dataset
    faults = check_raw(job.network, regime.dataset)
    if regime.dataset != source:
        nnunet.share_plan(job.network, source, regime.dataset, job.settings)
        faults += nnunet.same_plan(job.network, [source, regime.dataset], job.settings)
    if faults:
        raise AuditError(faults)
    nnunet.preprocess(job.network, regime.dataset, regime.configurations, job.settings)
    folder = job.network / "preprocessed" / regime.dataset
    told["files"] = [path for path in folder.iterdir() if path.is_file()]
    # the files above name the cases; what is learned from them is what was prepared, under this plan
    told["result"] = digest_json(
        [regime.configurations, *(proof.result for name in job.step.needs if (proof := read_proof(job.home, name)))]
    )


def _train(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    step, dataset = job.step, job.regime.dataset
    where = (job.network, dataset, step.configuration, _fold(step.fold), job.settings)
    folder = nnunet.fold_folder(*where)
    if not told["goes_on"]:
        shutil.rmtree(folder, ignore_errors=True)
    told["device"] = nnunet.device_name(job.settings)
    nnunet.train(*where)
    faults = nnunet.training_faults(*where)
    if faults:
        fact = f"step '{step.name}' ended, and is not finished: {'; '.join(faults)}."
        raise AuditError(Finding("STUDY_TRAINING_UNFINISHED", fact, str(folder), "read its log, and run again."))
    told["files"] = [folder / "checkpoint_final.pth", folder / "validation" / "summary.json"]


def _predict(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    step, regime = job.step, job.regime
    images = {case: Path(path) for case, path in regime.predicted.items()}
    changed = [
        Finding("STUDY_FILE_CHANGED", f"the image of case '{case}' has changed since the study began.", str(path))
        for case, path in images.items()
        if digest_file(path) != job.lock.images[case]
    ]
    if changed:
        raise AuditError(changed)
    out = job.predictions(step.configuration)
    folds = [_fold(str(i)) for i in range(len(regime.folds))] or [_fold("all")]
    told["device"] = nnunet.device_name(job.settings)
    nnunet.predict(job.network, regime.dataset, step.configuration, folds, images, out, job.settings)
    told["files"] = _masks(out)


def _ensemble(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    out = job.predictions("ensemble")
    nnunet.ensemble([job.predictions(c) for c in job.regime.configurations], out, job.settings)
    told["files"] = _masks(out)


def _clean(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    ensembled, out = job.predictions("ensemble"), final_masks(job.home, job.step.regime)
    if job.step.regime in job.lock.settings["clean_up"]:
        removed = nnunet.clean_up(ensembled, out, list(job.lock.labels), job.settings)
        table = out.parent / "removed.csv"
        removed.to_csv(table, index=False, lineterminator="\n")
        told["told"] = {"cases": len(removed), "changed": int((removed["voxels_removed"] > 0).sum())}
    else:
        draft = out.with_name(f".{out.name}.part")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for path in _masks(ensembled):
            shutil.copyfile(path, draft / path.name)
        shutil.rmtree(out, ignore_errors=True)
        draft.rename(out)
    told["files"] = _masks(out)


def _collect(job: Job, told: dict[str, Any], _audit: Audit) -> None:
    told["files"] = collect(job.home, job.lock)


def _audited(job: Job, told: dict[str, Any], audit: Audit) -> None:
    folder = job.home / "audit" / job.step.name.split("/")[1]
    audit(folder)
    told["files"] = [folder / "run" / name for name in ("scores.csv", "audit.json", "report.html")]


def _fold(name: str) -> int | str:
    return name if name == "all" else int(name)


def _masks(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.nii.gz"))


_BODIES: Mapping[str, Callable[[Job, dict[str, Any], Audit], None]] = {
    "prepare": _prepare,
    "plan": _plan,
    "preprocess": _preprocess,
    "train": _train,
    "predict": _predict,
    "ensemble": _ensemble,
    "clean": _clean,
    "collect": _collect,
    "audit": _audited,
}
