"""The ledger: what was measured, case by case, in one SQLite file, so that nothing is measured twice."""

from __future__ import annotations

import inspect
import json
import math
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from segaudit.errors import AuditError, Finding
from segaudit.metrics import METRICS, Counts, Measured
from segaudit.provenance import digest_file, digest_json
from segaudit.scores.tasks import Done, FileFacts, PairFacts, Source, Stamp, Task, code_version

LEDGER = "ledger.sqlite"
_FORMAT = 1
_BUSY_S = 60
_RETRY_S = 1.0
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

_TABLES = (
    # the digest of a file whose stamp has not changed since
    """CREATE TABLE stamps (
        path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, ctime_ns INTEGER, inode INTEGER, sha256 TEXT
    ) WITHOUT ROWID""",
    # what reading a file says; messages hold its name
    """CREATE TABLE files (
        sha256 TEXT, name TEXT, size INTEGER, findings TEXT, voxels TEXT, PRIMARY KEY (sha256, name)
    ) WITHOUT ROWID""",
    # model and ruler tell a person what was measured; the key is the content, the coding and the code
    """CREATE TABLE pairs (
        pair INTEGER PRIMARY KEY, "case" TEXT, model TEXT, ruler TEXT, prediction TEXT, reference TEXT, setting TEXT,
        extras TEXT, findings TEXT, measured_times INTEGER, UNIQUE ("case", prediction, reference, setting, extras)
    )""",
    """CREATE TABLE labels (
        pair INTEGER, label TEXT, tp INTEGER, fp INTEGER, fn INTEGER, tn INTEGER, voxel_mm3 REAL, hd95 REAL,
        components_prediction INTEGER, components_reference INTEGER, others TEXT, PRIMARY KEY (pair, label)
    ) WITHOUT ROWID""",
)


class Ledger:
    """What was measured before, in a file that is made when it is absent. Use it in a `with` block.

    A row is found again by the digests of both files, the coding of their labels, the ignore value and the version of
    the code that measured; a name, a folder or a date does not matter. A case is written when it is done, in one
    transaction: whatever ends the process, what was written stays.

    Parameters
    ----------
    path : Path
        Several processes may use one file.

    Raises
    ------
    AuditError
        LEDGER_UNUSABLE when the file cannot be made or opened, or another version of segaudit made it;
        LEDGER_DAMAGED when it is no ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[tuple[Task, Done]] = []
        self._failed_at = -math.inf
        self._settings: dict[Any, str] = {}
        try:
            self._db = sqlite3.connect(path, timeout=_BUSY_S)
            self._prepare()
        except sqlite3.Error as error:
            raise self._refusal(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def known(self, task: Task) -> tuple[Done, Task | None]:
        """Return what the ledger holds of a task, and the rest of it, None when nothing is left to measure."""
        try:
            return self._known(task)
        except sqlite3.Error as error:
            raise self._refusal(error) from None

    def keep(self, task: Task, done: Done) -> None:
        """Write what came out of a task. What finds no room waits in memory and is tried again with later ones."""
        self._waiting.append((task, done))
        if len(self._waiting) == 1 or time.monotonic() - self._failed_at > _RETRY_S:
            self._write()

    def finish(self) -> list[Finding]:
        """Write what waits; return a warning when there still is no room for it."""
        if self._waiting:
            self._write()
        if not self._waiting:
            return []
        fact = f"{len(self._waiting)} measured cases could not be written: no room, or the disk fails."
        fix = "free space; a later run measures these cases again."
        return [Finding("LEDGER_FULL", fact, str(self.path), fix, "warning")]

    def _prepare(self) -> None:
        db = self._db
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")  # a loss of power may take the last cases, never the file
        db.execute("PRAGMA wal_autocheckpoint = 200")  # pages: what is not yet in the file takes less than 1 MiB
        if self._format() == 0:
            with db:
                db.execute("BEGIN IMMEDIATE")
                if self._format() == 0:  # no other process came first
                    for table in _TABLES:
                        db.execute(table)
                    db.execute(f"PRAGMA user_version = {_FORMAT}")
        if self._format() != _FORMAT:
            fact = f"it has the format {self._format()}, this version of segaudit writes {_FORMAT}."
            raise AuditError(Finding("LEDGER_UNUSABLE", fact, str(self.path), "begin a new one with --fresh."))

    def _format(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _known(self, task: Task) -> tuple[Done, Task | None]:
        if not self._row('SELECT 1 FROM pairs WHERE "case" = ? LIMIT 1', task.case):
            return Done(task.case), task
        files: dict[str, FileFacts] = {}
        pairs: dict[tuple[str, str], PairFacts] = {}
        left = []
        for model, ruler in task.pairs:
            found = {source.path: self._file(source.path) for source in (model, ruler)}
            prediction, reference = found[model.path], found[ruler.path]
            facts = None
            if prediction is not None and reference is not None:
                facts = self._pair(task, model, ruler, (prediction.sha256, reference.sha256))
            if facts is None:
                left.append((model, ruler))
            else:
                pairs[model.name, ruler.name] = facts
                files.update({path: facts for path, facts in found.items() if facts is not None})
        return Done(task.case, files, pairs), replace(task, pairs=tuple(left)) if left else None

    def _file(self, path: str) -> FileFacts | None:
        """Return what reading this file would say, None when that is not known."""
        sha256 = self._digest(path)
        query = "SELECT size, findings, voxels FROM files WHERE sha256 = ? AND name = ?"
        row = self._row(query, sha256, Path(path).name)
        if row is None:
            return None
        voxels = {int(value): count for value, count in json.loads(row[2]).items()}
        return FileFacts(_findings(row[1]), voxels, str(sha256), row[0])

    def _digest(self, path: str) -> str | None:
        """Return the digest of a file: from its stamp where that can be trusted, else from its bytes."""
        stamp = Stamp.of(path)
        if stamp is None:
            return None
        row = self._row("SELECT size, mtime_ns, ctime_ns, inode, sha256 FROM stamps WHERE path = ?", _full(path))
        if row is not None and Stamp(*row[:4]) == stamp:
            return str(row[4])
        try:
            sha256 = digest_file(Path(path))
        except AuditError:  # who reads it says what is wrong
            return None
        now_ns = time.time_ns()
        if Stamp.of(path) != stamp:
            return None
        if stamp.settled(now_ns):
            self._attempt(partial(self._stamp, path, stamp, sha256))
        return sha256

    def _pair(self, task: Task, model: Source, ruler: Source, digests: tuple[str, str]) -> PairFacts | None:
        asked = _extras(task.metrics)
        query = (
            'SELECT pair, extras, findings FROM pairs WHERE "case" = ? AND prediction = ? AND reference = ? '
            "AND setting = ? ORDER BY pair"
        )
        setting = self._setting(model, ruler)
        for pair, extras, findings in self._db.execute(query, (task.case, *digests, setting)):
            if asked.items() <= json.loads(extras).items():
                rows = self._db.execute("SELECT * FROM labels WHERE pair = ?", (pair,))
                return PairFacts({row[1]: _measured(row[2:], asked) for row in rows}, _findings(findings))
        return None

    def _setting(self, model: Source, ruler: Source) -> str:
        """Return the digest of all that decides a measured value besides the two files."""
        key = (repr(model.labels), repr(ruler.labels), ruler.ignore)
        if key not in self._settings:
            coding = {"prediction": dict(model.labels), "reference": dict(ruler.labels), "ignore": ruler.ignore}
            self._settings[key] = digest_json({**coding, "code": code_version()})
        return self._settings[key]

    def _write(self) -> None:
        if self._attempt(self._write_waiting):
            self._waiting.clear()
        else:
            self._failed_at = time.monotonic()

    def _write_waiting(self) -> None:
        for task, done in self._waiting:
            for path, facts in done.files.items():
                if facts.stamp is not None:
                    self._stamp(path, facts.stamp, facts.sha256)
                row = (facts.sha256, Path(path).name, facts.size, _told(facts.findings), json.dumps(facts.voxels))
                self._db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", row)
            for model, ruler in task.pairs:
                if (model.name, ruler.name) in done.pairs:
                    self._add(task, done, model, ruler)

    def _add(self, task: Task, done: Done, model: Source, ruler: Source) -> None:
        facts = done.pairs[model.name, ruler.name]
        extras = _extras(task.metrics)
        row = (
            task.case,
            model.name,
            ruler.name,
            done.files[model.path].sha256,
            done.files[ruler.path].sha256,
            self._setting(model, ruler),
            json.dumps(extras, sort_keys=True),
            _told(facts.findings),
        )
        insert = (
            'INSERT INTO pairs ("case", model, ruler, prediction, reference, setting, extras, findings, '
            "measured_times) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT DO UPDATE SET measured_times = measured_times + 1 RETURNING pair"
        )
        with closing(self._db.execute(insert, row)) as cursor:
            pair = cursor.fetchone()[0]
        for label, measured in facts.measured.items():
            values = (pair, label, *_row(measured))
            self._db.execute("INSERT OR REPLACE INTO labels VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

    def _stamp(self, path: str, stamp: Stamp, sha256: str) -> None:
        row = (_full(path), stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, sha256)
        self._db.execute("INSERT OR REPLACE INTO stamps VALUES (?, ?, ?, ?, ?, ?)", row)

    def _attempt(self, write: Callable[[], None]) -> bool:
        """Write in one transaction; return whether there was room for it."""
        try:
            with self._db:
                write()
        except sqlite3.Error as error:
            if _primary(error) not in _NO_ROOM:
                raise self._refusal(error) from None
            return False
        return True

    def _row(self, query: str, *values: object) -> Any:
        return self._db.execute(query, values).fetchone()

    def _refusal(self, error: sqlite3.Error) -> AuditError:
        where = str(self.path)
        if _primary(error) in _DAMAGED:
            fix = "remove it, or begin a new one with --fresh: it holds nothing that cannot be measured again."
            return AuditError(Finding("LEDGER_DAMAGED", f"the ledger cannot be read: {error}.", where, fix))
        if _primary(error) in _NO_ROOM:
            return AuditError(
                Finding("DISK_FULL", f"no room to write it: {error}.", where, "free space and run again.")
            )
        fix = "give a folder that may be written to, on a local disk."
        return AuditError(Finding("LEDGER_UNUSABLE", f"the ledger cannot be used: {error}.", where, fix))


def remove_ledger(path: Path) -> None:
    """Remove a ledger with what SQLite keeps beside it. No process may have it open."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _primary(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _full(path: str) -> str:
    return str(Path(path).absolute())


def _extras(metrics: Sequence[str]) -> dict[str, str]:
    """Return what is measured only when it is asked for, each with what names its code."""
    extras = {"boundary": ""} if "hd95" in metrics else {}
    extras |= {"components": ""} if any(name.startswith("components") for name in metrics) else {}
    own = [METRICS[name] for name in metrics if METRICS[name].fn is not None]
    return extras | {f"metric {card.name}": _code_of(card.fn) for card in own}


@lru_cache
def _code_of(function: Any) -> str:
    """Return the digest of the file that a function stands in; where there is none, what no other one has."""
    try:
        return digest_file(Path(inspect.getfile(function)))
    except (TypeError, OSError, AuditError):
        return secrets.token_hex()


def _row(measured: Measured) -> tuple[Any, ...]:
    counts = measured.counts
    return (
        int(counts.tp),
        int(counts.fp),
        int(counts.fn),
        int(counts.tn),
        float(measured.voxel_mm3),
        None if measured.hd95 is None else float(measured.hd95),
        None if measured.components_prediction is None else int(measured.components_prediction),
        None if measured.components_reference is None else int(measured.components_reference),
        json.dumps({name: float(value) for name, value in measured.others.items()}),
    )


def _measured(row: Sequence[Any], asked: Mapping[str, str]) -> Measured:
    """Return a row of labels as it was measured; what is not asked for is left out."""
    hd95, ours, theirs = row[5:8]
    if "boundary" not in asked:
        hd95 = None
    elif hd95 is None:  # SQLite stores no NaN
        hd95 = math.nan
    if "components" not in asked:
        ours = theirs = None
    others = {name: value for name, value in json.loads(row[8]).items() if f"metric {name}" in asked}
    return Measured(Counts(*row[:4]), row[4], hd95, ours, theirs, others)


def _told(findings: Iterable[Finding]) -> str:
    return json.dumps([asdict(finding) for finding in findings])


def _findings(told: str) -> tuple[Finding, ...]:
    return tuple(Finding(**record) for record in json.loads(told))
