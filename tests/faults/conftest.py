"""A cohort of tiny masks, the program as a process of its own, and what its ledger holds."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pytest

from segaudit.volumes import write_labels

SHAPE = (12, 12, 12)
LIMIT_S = 60


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, f"still not: {what}"
        time.sleep(0.002)


def write_mask(path: Path, rng: np.random.Generator) -> None:
    mask = np.zeros(SHAPE, np.uint8)
    x, y, z = rng.integers(0, 5, 3)
    mask[x : x + 5, y : y + 5, z : z + 5] = 1
    mask[9:11, 9:11, x:] = 2
    write_labels(path, mask, spacing_mm=(1.0, 1.0, 2.0))


def write_cohort(folder: Path, n_cases: int) -> Path:
    rng = np.random.default_rng(7)
    for name in ("pred", "gold"):
        (folder / name).mkdir(parents=True)
        for i in range(n_cases):
            write_mask(folder / name / f"c{i:03}.nii.gz", rng)
    return folder


@pytest.fixture
def small(tmp_path) -> Path:
    """Return a folder with twelve cases."""
    return write_cohort(tmp_path / "small", 12)


@pytest.fixture(scope="session")
def two_hundred(tmp_path_factory) -> Path:
    """Return a folder with 200 cases that nobody changes, and `whole.csv`: their scores from one run without a halt."""
    folder = write_cohort(tmp_path_factory.mktemp("two_hundred"), 200)
    with Program(folder, folder / "run", "--workers", 1) as program:
        assert program.end() == 0, program.err
    shutil.copy(folder / "run" / "scores.csv", folder / "whole.csv")
    return folder


class Program:
    """`segaudit score` in a process group of its own; what is left of it goes with the block."""

    def __init__(self, cohort: Path, run: Path, *words: object, **options: object) -> None:
        self.run = run
        line = [sys.executable, "-c", "from segaudit.cli import main; main()", "score"]
        line += ["--pred", cohort / "pred", "--ref", f"gold={cohort / 'gold'}", "--labels", "vb=1,disc=2", "-o", run]
        line += words
        self.process = subprocess.Popen(
            [str(word) for word in line],
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.out = self.err = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.members():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.end()

    def end(self) -> int:
        if self.process.stdout and not self.process.stdout.closed:
            self.out, self.err = self.process.communicate(timeout=LIMIT_S)
        return self.process.wait(LIMIT_S)

    def members(self) -> list[int]:
        """Return the living processes of the group."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(group) == self.process.pid and state != "Z":
                found.append(int(folder.name))
        return found

    def workers(self) -> list[int]:
        return [pid for pid in self.members() if pid != self.process.pid]

    def kept(self) -> int:
        return kept(self.run / "ledger.sqlite").n_pairs


@dataclass(frozen=True)
class Kept:
    """What a ledger holds: pairs, and how often the one most often measured was measured."""

    n_pairs: int = 0
    most_times: int = 0


def kept(path: Path) -> Kept:
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return Kept(*db.execute("SELECT count(*), coalesce(max(measured_times), 0) FROM pairs").fetchone())
        finally:
            db.close()
    except sqlite3.OperationalError:  # not made yet
        return Kept()


@dataclass(frozen=True)
class Bench:
    """What the tests of this folder share."""

    Program: type[Program]
    kept: Callable[[Path], Kept]
    wait_for: Callable[[Callable[[], bool], str], None]
    write_mask: Callable[[Path, np.random.Generator], None]
    write_cohort: Callable[[Path, int], Path]


@pytest.fixture
def bench() -> Iterator[Bench]:
    if not sys.platform.startswith("linux"):
        pytest.skip("processes are looked up in /proc")
    return Bench(Program, kept, wait_for, write_mask, write_cohort)
