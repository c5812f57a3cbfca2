"""What a worker does: read the masks of one case, each once, and measure every pair that is asked for."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path

from segaudit.cohorts import Labels
from segaudit.errors import AuditError, Finding
from segaudit.metrics import METRICS, Measured, count_values, measure
from segaudit.provenance import digest_bytes, digest_file
from segaudit.volumes import DEFAULT_MAX_BYTES, LabelVolume, on_grid, read_labels

# What decides a measured value: the files of these packages, and these libraries.
_DECIDING = {"segaudit.metrics": "*", "segaudit.volumes": "*", "segaudit.scores": "tasks.py"}
_DECIDING_LIBRARIES = ("numpy", "scipy", "isal")
# A file changed less than this before it was read may change again without its times showing it.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Source:
    """One mask of a case: whose it is, where it lies, how its labels are coded."""

    name: str
    path: str
    labels: Labels
    ignore: int | None


@dataclass(frozen=True, slots=True)
class Task:
    """The pairs of model and ruler of one case that are to be measured.

    Attributes
    ----------
    case : str
    pairs : tuple of (Source, Source)
        Model and ruler.
    metrics : tuple of str
    digests : bool
        Whether the files' content is to be named by its digest.
    home : str
        Folder that relative paths start from, where a worker may have another one.
    max_bytes : int
        Largest image, voxels as stored.
    """

    case: str
    pairs: tuple[tuple[Source, Source], ...]
    metrics: tuple[str, ...]
    digests: bool = False
    home: str = ""
    max_bytes: int = DEFAULT_MAX_BYTES


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the file system says of a file without reading it: while it stays the same, so does the content."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Stamp | None:
        """Return the stamp of a file, None when there is none to be had."""
        try:
            found = os.stat(path)  # noqa: PTH116  # many files are asked
        except (OSError, ValueError):
            return None
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def settled(self, now_ns: int) -> bool:
        """Return whether the last change lies so far back that a later one would show; a time to come never does."""
        return max(self.mtime_ns, self.ctime_ns) < now_ns - _SETTLED_NS


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What reading a mask file says of it, whoever it belongs to and wherever it lies.

    Attributes
    ----------
    findings : tuple of Finding
        Warnings and notes; where they are found is left open.
    voxels : mapping of int to int
        Voxels of each value that occurs, background left out.
    sha256 : str
        Of the bytes of the file; empty when it was not asked for.
    size : int
        Of the file in bytes.
    stamp : Stamp or None
        Stands for the content from now on; None when the file changed too short a time ago.
    """

    findings: tuple[Finding, ...]
    voxels: Mapping[int, int]
    sha256: str = ""
    size: int = 0
    stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What a prediction and a reference say of each other: by label, and warnings and notes on their grids."""

    measured: Mapping[str, Measured]
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What came out of a task.

    Attributes
    ----------
    case : str
    files : mapping of path to FileFacts
    pairs : mapping of (model, ruler) to PairFacts
        Those that could be measured.
    errors : tuple of Finding
        Why the others could not.
    version : str
        Of the code that measured.
    """

    case: str
    files: Mapping[str, FileFacts] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], PairFacts] = field(default_factory=dict)
    errors: tuple[Finding, ...] = ()
    version: str = ""

    def with_known(self, known: Done) -> Done:
        """Return this together with what was known of the case before."""
        return replace(self, files={**known.files, **self.files}, pairs={**known.pairs, **self.pairs})


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return the digest of the code that decides what is measured: any change of it gives another one."""
    parts = [f"{name} {metadata.version(name)}" for name in _DECIDING_LIBRARIES]
    for package, pattern in _DECIDING.items():
        files = sorted(resources.files(package).iterdir(), key=lambda file: file.name)
        code = [f for f in files if f.name.endswith((".py", ".so", ".pyd")) and fnmatch(f.name, pattern)]
        parts += [f"{package} {file.name} {digest_bytes(file.read_bytes())}" for file in code]
    return digest_bytes("\n".join(parts).encode())


def pair_place(case: str, model: Source) -> str:
    """Return where a finding on a pair is found."""
    return f"case '{case}', {model.name} ({model.path})"


def measure_case(task: Task) -> Done:
    """Return what one case gives. Runs in a worker process: it takes paths and returns small records."""
    volumes: dict[str, LabelVolume | None] = {}
    files: dict[str, FileFacts] = {}
    pairs: dict[tuple[str, str], PairFacts] = {}
    errors: list[Finding] = []

    def read(source: Source) -> LabelVolume | None:
        if source.path not in volumes:
            volumes[source.path] = None
            try:
                path = os.path.join(task.home, source.path)  # noqa: PTH118  # a path as it was given, "./" and all
                volumes[source.path], files[source.path] = _read(path, task)
            except AuditError as error:
                errors.extend(replace(finding, where=source.path) for finding in error.findings)
        return volumes[source.path]

    for model, ruler in task.pairs:
        reference, prediction = read(ruler), read(model)
        if prediction is None or reference is None:
            continue
        try:
            pairs[model.name, ruler.name] = _pair(task, model, ruler, prediction, reference)
        except AuditError as error:
            errors += error.findings
        except MemoryError:
            fact = f"there is not enough memory to measure case '{task.case}'."
            where = pair_place(task.case, model)
            errors.append(Finding("CASE_MEMORY", fact, where, "use fewer workers, or a machine with more memory."))
    return Done(task.case, files, pairs, tuple(errors), code_version())


def _read(path: str, task: Task) -> tuple[LabelVolume, FileFacts]:
    before = Stamp.of(path)
    volume = read_labels(Path(path), max_bytes=task.max_bytes)
    findings = tuple(replace(finding, where="") for finding in volume.findings)
    voxels = count_values(volume.labels)
    if not task.digests:
        return volume, FileFacts(findings, voxels)
    sha256 = digest_file(Path(path))
    now_ns = time.time_ns()
    after = Stamp.of(path)
    if before is None or before != after:
        fact = "the file changed while it was read."
        raise AuditError(Finding("FILE_CHANGED", fact, path, "let it be written to its end, then run again."))
    return volume, FileFacts(findings, voxels, sha256, after.size, after if after.settled(now_ns) else None)


def _pair(task: Task, model: Source, ruler: Source, prediction: LabelVolume, reference: LabelVolume) -> PairFacts:
    aligned = on_grid(prediction, reference.grid, pair_place(task.case, model))
    own = aligned.findings[len(prediction.findings) :]  # those of the file come first
    measured = measure(
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
    return PairFacts(measured, tuple(replace(finding, where="") for finding in own))
