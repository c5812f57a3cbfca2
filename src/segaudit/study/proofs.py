"""Proofs: what says that a step is done, and from what; an exit status proves nothing."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from segaudit.config.study_lock import RegimeRecord, StepRecord, StudyLock
from segaudit.provenance import digest_file, digest_json
from segaudit.store import atomic
from segaudit.study.raw import check_folder

PROOFS = "proofs"
NNUNET = "nnunet"
"""The folder of nnU-Net's own folders."""


@dataclass(frozen=True)
class Proof:
    """A step that is done.

    Attributes
    ----------
    step : str
    needs : str
        Digest of what it was told to do and of the results that it rests on.
    result : str
        Digest of what came out.
    files : mapping of str to list
        What proves it: path from the study's folder to size, time of change in ns, and sha256.
    seconds, cpu_seconds : float
        Wall time; processor time of the process and of its children.
    threads : int
    device, host, ended : str
    attempts : int
        Times that it was begun.
    """

    step: str
    needs: str
    result: str
    files: Mapping[str, list[Any]]
    seconds: float
    cpu_seconds: float
    threads: int
    device: str
    host: str
    ended: str
    attempts: int = 1
    told: Mapping[str, Any] = field(default_factory=dict)


def proof_path(home: Path, step: str) -> Path:
    """Return where the proof of a step lies."""
    return home / PROOFS / f"{step}.json"


def read_proof(home: Path, step: str) -> Proof | None:
    """Return the proof of a step; None when there is none that can be read."""
    try:
        return Proof(**json.loads(proof_path(home, step).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def write_proof(home: Path, proof: Proof) -> None:
    """Write a proof, whole or not at all."""
    path = proof_path(home, proof.step)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(asdict(proof), indent=1) + "\n", encoding="utf-8")


def needed(home: Path, lock: StudyLock, step: StepRecord) -> str | None:
    """Return the digest of what a step is to do and of the results it rests on; None before they are there."""
    proofs = {name: read_proof(home, name) for name in step.needs}
    if any(proof is None for proof in proofs.values()):
        return None
    return digest_json({"task": _task(lock, step), "from": {name: p.result for name, p in proofs.items() if p}})


def _task(lock: StudyLock, step: StepRecord) -> Any:
    """Return what decides the outcome of a step beside the results that it rests on."""
    settings, regime = lock.settings, lock.regime(step.regime) if step.regime else None
    trained = ("trainer", "seed")
    if regime is None:
        chosen = {name: settings[name] for name in ("planner", "gpu_memory_gb")}
        audited = {"collect": lock.collect, "test": lock.test, "labels": lock.labels, "codings": lock.codings}
        return {"plan": chosen, "collect": audited}.get(step.verb, {})
    tasks: dict[str, Any] = {
        "prepare": _data(lock, regime),
        "preprocess": regime.configurations,
        "train": [{name: settings[name] for name in trained}, step.configuration, step.fold],
        "predict": {case: lock.images[case] for case in regime.predicted},
        "clean": regime.name in settings["clean_up"],
    }
    return tasks.get(step.verb, {})


def _data(lock: StudyLock, regime: RegimeRecord) -> Any:
    exams = [
        [e.case, e.image, e.image_sha256, e.label, e.label_sha256, lock.coding(e), e.predicted and e.source]
        for e in regime.exams
    ]
    return [regime.dataset, exams, [fold.model_dump() for fold in regime.folds], lock.labels, lock.settings["channel"]]


def why_not(home: Path, lock: StudyLock, step: StepRecord, *, closely: bool = False) -> str:
    """Return why a step does not count as done; empty when it does.

    Parameters
    ----------
    home : Path
    lock : StudyLock
    step : StepRecord
    closely : bool
        Hash every file of the proof; else only one whose size or time of change differs.
    """
    proof = read_proof(home, step.name)
    if proof is None:
        return "not done"
    if proof.needs != needed(home, lock, step):
        return "what it rests on has changed"
    for told, (size, changed, sha256) in proof.files.items():
        path = home / told
        try:
            stat = path.stat()
        except OSError:
            return f"{told} is gone"
        same = (stat.st_size, stat.st_mtime_ns) == (size, changed)
        if (closely or not same) and (stat.st_size != size or digest_file(path) != sha256):
            return f"{told} has changed"
    if step.verb == "prepare":
        stale = [
            f for f in check_folder(home / NNUNET, lock.regime(step.regime).dataset) if f.code == "STUDY_RAW_STALE"
        ]
        return stale[0].message.rstrip(".") if stale else ""
    return ""


@contextmanager
def proving(home: Path, lock: StudyLock, step: StepRecord, threads: int) -> Iterator[dict[str, Any]]:
    """Measure a step; when its block ends well and has said what came out, write its proof.

    The mapping says whether the step `goes_on` from an attempt at the same task that did not end; the block puts into
    it `files` (paths) and, if it likes, `result` (a digest), `device` and `told`.
    """
    needs = needed(home, lock, step) or ""
    path = proof_path(home, step.name)
    before = read_proof(home, step.name)
    path.unlink(missing_ok=True)
    goes_on = needs in (begun_with(home, step.name), before.needs if before else None)
    attempts = _begun(home, step.name, needs, before)
    told: dict[str, Any] = {"files": (), "device": "cpu", "told": {}, "goes_on": goes_on}
    wall, cpu = time.monotonic(), _cpu()
    yield told
    files = recorded(home, told["files"])
    write_proof(
        home,
        Proof(
            step.name,
            needs,
            told.get("result") or digest_json({name: sha for name, (_, _, sha) in files.items()}),
            files,
            round(time.monotonic() - wall, 3),
            round(_cpu() - cpu, 3),
            threads,
            told["device"],
            platform.node(),
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            attempts,
            told["told"],
        ),
    )
    _begun_path(home, step.name).unlink(missing_ok=True)


def recorded(home: Path, paths: Iterable[Path]) -> dict[str, list[Any]]:
    """Return what is recorded of files: size, time of change, sha256."""
    found = {}
    for path in sorted(paths):
        stat = path.stat()
        found[os.path.relpath(path, home)] = [stat.st_size, stat.st_mtime_ns, digest_file(path)]
    return found


def _begun_path(home: Path, step: str) -> Path:
    return home / PROOFS / f"{step}.begun"


def begun_with(home: Path, step: str) -> str:
    """Return what an unfinished step was begun with: the digest that its proof would carry; empty when none was."""
    try:
        return str(json.loads(_begun_path(home, step).read_text(encoding="utf-8"))["needs"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _begun(home: Path, step: str, needs: str, before: Proof | None) -> int:
    """Note that a step is begun, and return how often it has been with the same task."""
    path = _begun_path(home, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    times = 0
    if begun_with(home, step) == needs:
        times = int(json.loads(path.read_text(encoding="utf-8")).get("attempts", 0))
    elif before is not None and before.needs == needs:
        times = before.attempts
    with atomic(path) as temporary:
        temporary.write_text(json.dumps({"needs": needs, "attempts": times + 1}), encoding="utf-8")
    return times + 1


def _cpu() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
