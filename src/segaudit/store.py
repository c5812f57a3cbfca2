"""A run directory: tables, JSON documents and steps by name, each written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from segaudit.errors import AuditError, Finding
from segaudit.provenance import Input, Step, digest_file, versions
from segaudit.tables import Schema

STEPS = "steps.json"
_LOCK = ".lock"
_LOCK_WAIT_S = 0.1


class RunDirectory:
    """The directory of one run.

    Parameters
    ----------
    path : Path
    create : bool
        Make the directory when it is absent.

    Raises
    ------
    AuditError
        RUN_MISSING when it is absent and not to be made, RUN_UNWRITABLE when it cannot be.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._made = create and not path.exists()
        if create:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _unwritable(path, error) from None
        elif not path.is_dir():
            fix = "give the directory that `segaudit score` or `segaudit audit` wrote."
            raise AuditError(Finding("RUN_MISSING", f"there is no run directory {path}.", str(path), fix))

    def told(self, path: Path) -> str:
        """Return a path as the run records it: one given from the working directory is told from the run directory.

        So the run is found to match, and its masks are found, wherever a later command starts.
        """
        if path.is_absolute():
            return str(path)
        return os.path.relpath(path.parent.resolve() / path.name, self.path.resolve())

    def found(self, told: str) -> Path:
        """Return where a recorded path lies."""
        path = Path(told)
        return path if path.is_absolute() else Path(os.path.normpath(self.path.resolve() / path))

    @contextmanager
    def alone(self, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the directory against other processes while it is worked in: a second one waits for the first to end.

        The lock is the system's and ends with its process, however that ends. What a killed process left half-written
        is removed. A file system without locks gives none: then one process at a time is the user's to see to.

        Parameters
        ----------
        waiting : callable
            Called once when another process holds the directory.
        """
        try:
            lock = (self.path / _LOCK).open("a+b")
        except OSError as error:
            raise _unwritable(self.path / _LOCK, error) from None
        with lock:
            told = False
            while not lock_file(lock):
                if not told:
                    waiting()
                    told = True
                time.sleep(_LOCK_WAIT_S)
            for left in self.path.glob(".*.part"):
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink(missing_ok=True)
            yield

    def has(self, name: str) -> bool:
        """Return whether a file of this name is there."""
        return (self.path / name).is_file()

    @contextmanager
    def writing(self, step: Step, *, first: bool = False) -> Iterator[RunDirectory]:
        """Give a directory to write a step's files to; they become the run's, and the step is recorded, all at once.

        When the block or the disk fails, the run stays as it was.
        """
        try:
            with tempfile.TemporaryDirectory(prefix=".", suffix=".part", dir=self.path) as folder:
                stage = RunDirectory(Path(folder))
                yield stage
                names = sorted(path.name for path in stage.path.iterdir())
                kept, stale = self._steps_with(
                    step, {name: digest_file(stage.path / name) for name in names}, first=first
                )
                stage.write_json(STEPS, kept)
                for name in (*names, STEPS):
                    (stage.path / name).replace(self.path / name)
            self._remove(stale)
        except OSError as error:
            self._unmake()
            raise _unwritable(self.path, error) from None
        except AuditError:
            self._unmake()
            raise

    def _unmake(self) -> None:
        """Remove the directory when this run made it and nothing came to lie in it."""
        if self._made and {path.name for path in self.path.iterdir()} <= {_LOCK}:
            with suppress(OSError):
                (self.path / _LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def write_table(self, schema: Schema, frame: pd.DataFrame) -> list[str]:
        """Write a table as CSV and as Parquet; return the file names."""
        frame = schema.frame(frame)
        return self.write_frame(schema.name, frame, [c.name for c in schema.columns if c.kind == "mixed"])

    def write_frame(self, name: str, frame: pd.DataFrame, mixed: list[str] | None = None) -> list[str]:
        """Write a table without a schema of its own (participants, for one) as CSV and as Parquet."""
        csv = frame.to_csv(index=False, lineterminator="\n").encode()
        self.write_bytes(f"{name}.csv", csv)
        stored = frame.copy(deep=False)
        for column in mixed or []:
            stored[column] = pd.Series([None if pd.isna(v) else str(v) for v in frame[column]], dtype="str")
        with atomic(self.path / f"{name}.parquet") as temporary:
            stored.to_parquet(temporary, index=False)
        return [f"{name}.csv", f"{name}.parquet"]

    def read_table(self, schema: Schema) -> pd.DataFrame:
        """Return a table as it was written.

        Raises
        ------
        AuditError
            RUN_TABLE_MISSING, or RUN_TABLE_MALFORMED when its columns are not the schema's.
        """
        path = self._existing(f"{schema.name}.csv")
        words = {c.name: "str" for c in schema.columns if c.kind in ("text", "mixed")}
        blank = {c.name: "" for c in schema.columns if c.kind != "text"}
        try:
            frame = pd.read_csv(path, dtype=words, keep_default_na=False, na_values=blank)
            for column in schema.columns:
                if column.kind == "mixed" and column.name in frame:
                    frame[column.name] = _number_or_word(frame[column.name])
            return schema.frame(frame)
        except (ValueError, OSError, pd.errors.ParserError) as error:
            fix = "run the step that writes it again."
            raise AuditError(Finding("RUN_TABLE_MALFORMED", f"{path.name}: {error}", str(path), fix)) from None

    def read_frame(self, name: str) -> pd.DataFrame:
        """Return a table without a schema of its own, with the types that it was written with."""
        path = self._existing(f"{name}.parquet")
        try:
            return pd.read_parquet(path)
        except (ValueError, OSError) as error:
            fix = "run the step that writes it again."
            raise AuditError(Finding("RUN_TABLE_MALFORMED", f"{path.name}: {error}", str(path), fix)) from None

    def write_json(self, name: str, value: Any) -> list[str]:
        """Write a JSON document; return its file name."""
        self.write_bytes(name, (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
        return [name]

    def read_json(self, name: str) -> Any:
        """Return a JSON document."""
        path = self._existing(name)
        try:
            return json.loads(path.read_bytes())
        except (ValueError, OSError, RecursionError) as error:
            fact = f"{name} is no valid JSON: {error}."
            raise AuditError(
                Finding("RUN_JSON_MALFORMED", fact, str(path), "run the step that writes it again.")
            ) from None

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all."""
        with atomic(self.path / name) as temporary:
            temporary.write_bytes(data)

    def steps(self) -> list[Step]:
        """Return the recorded steps in order."""
        if not self.has(STEPS):
            return []
        try:
            return [
                Step(**{**step, "inputs": tuple(Input(**i) for i in step["inputs"])}) for step in self.read_json(STEPS)
            ]
        except (TypeError, KeyError) as error:
            fact, where = f"{STEPS} is no list of steps: {error}.", str(self.path / STEPS)
            raise AuditError(Finding("RUN_JSON_MALFORMED", fact, where, "run the steps again.")) from None

    def record(self, step: Step, outputs: list[str], *, first: bool = False, last: bool = False) -> None:
        """Record a step with the digests of what it wrote.

        An earlier step of its verb goes with all that followed it, and so do their files: they no longer follow from
        what the run holds. A first step begins the run anew; from a last one nothing follows, so others stay.
        """
        written = {name: digest_file(self.path / name) for name in sorted(outputs)}
        kept, stale = self._steps_with(step, written, first=first, last=last)
        self.write_json(STEPS, kept)
        self._remove(stale)

    def _steps_with(
        self, step: Step, written: dict[str, str], *, first: bool, last: bool = False
    ) -> tuple[list[dict[str, Any]], set[str]]:
        """Return the steps with this one added, and the files that no step accounts for any more."""
        done = replace(step, outputs=written, versions=versions())
        steps = self.steps()
        again = next((i for i, old in enumerate(steps) if first or old.verb == step.verb), len(steps))
        kept = steps[:again] + ([old for old in steps[again:] if old.verb != step.verb] if last else [])
        stale = {name for old in steps for name in old.outputs}
        stale -= written.keys() | {name for old in kept for name in old.outputs}
        return [asdict(s) for s in (*kept, done)], stale

    def _remove(self, stale: set[str]) -> None:
        for name in sorted(stale):
            if (self.path / name).resolve().is_relative_to(self.path.resolve()):  # steps.json may come from anywhere
                (self.path / name).unlink(missing_ok=True)

    def verify(self) -> list[Finding]:
        """Return what no longer matches: outputs changed or absent, inputs changed or absent, other versions."""
        findings = [] if self.has(STEPS) else [Finding("RUN_NO_STEPS", f"{self.path} has no {STEPS}.", str(self.path))]
        now = versions()
        steps = self.steps()
        last = {name: step.verb for step in steps for name in step.outputs}  # a later step may write a file anew
        for step in steps:
            own = {name: sha for name, sha in step.outputs.items() if last[name] == step.verb}
            files = [(self.path / name, sha, "OUTPUT", step.verb) for name, sha in own.items()]
            files += [(self.found(i.path), i.sha256, "INPUT", step.verb) for i in step.inputs]
            findings += [finding for file in files if (finding := _changed(*file)) is not None]
            other = {k: (v, now.get(k)) for k, v in step.versions.items() if now.get(k) != v}
            if other:
                told = ", ".join(f"{name} {old} (now {new})" for name, (old, new) in sorted(other.items()))
                findings.append(Finding("VERSION_CHANGED", f"step '{step.verb}' ran with {told}.", level="note"))
        return findings

    def _existing(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            fix = "run the step that writes it (score, audit, rulers)."
            raise AuditError(Finding("RUN_TABLE_MISSING", f"{self.path} has no {name}.", str(path), fix))
        return path


def lock_file(file: BinaryIO) -> bool:
    """Lock a file for this process; return False when another one holds it. Child processes inherit no such lock."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` when the block ends well, else remove it.

    Raises
    ------
    AuditError
        DISK_FULL or RUN_UNWRITABLE.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise _unwritable(path, error) from None
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Raise RUN_UNWRITABLE when a run directory cannot be made or written there: asked before the work starts."""
    existing = next((p for p in (path, *path.absolute().parents) if p.exists()), Path("/"))
    if not existing.is_dir():
        raise _unwritable(path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))
    if not os.access(existing, os.W_OK | os.X_OK):
        raise _unwritable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def _unwritable(path: Path, error: OSError) -> AuditError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return AuditError(
            Finding("DISK_FULL", f"no space is left to write {path}.", str(path), "free space and run again.")
        )
    fact = f"{path} cannot be written: {error.strerror or error}."
    return AuditError(Finding("RUN_UNWRITABLE", fact, str(path), "give another directory with -o."))


def _changed(path: Path, sha256: str, what: str, verb: str) -> Finding | None:
    if not path.is_file():
        return Finding(f"{what}_MISSING", f"{path} of step '{verb}' is gone.", str(path), "run the step again.")
    if digest_file(path) != sha256:
        return Finding(
            f"{what}_CHANGED", f"{path} is not what step '{verb}' recorded.", str(path), "run the step again."
        )
    return None


def _number_or_word(values: pd.Series) -> pd.Series:
    as_numbers = pd.to_numeric(values, errors="coerce").astype(object)
    return as_numbers.where(as_numbers.notna(), values.astype(object))
