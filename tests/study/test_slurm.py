"""The packaged SLURM profile against a real SLURM of one node: an array with killed jobs, and an interrupted run."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Self

import pytest

pytest.importorskip("snakemake_executor_plugin_slurm", reason="segaudit[study] is not installed")
pytestmark = pytest.mark.slow

STUDY = Path(str(files("segaudit.study")))
# The waits of a real cluster are too long for a test.
HASTE = ["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "10"]
TRAININGS = [f"train/mixed/{configuration}/{fold}" for configuration in ("2d", "3d_fullres") for fold in range(5)]
KILLED, CANCELLED = "train/mixed/2d/3", "train/mixed/3d_fullres/2"
# Stands for `segaudit study step HOME STEP`. Each try leaves a note: process, array, task and GPU. The first try of a
# step that the file `hang` names hangs, to be killed there.
STEP = """#!/bin/sh
mkdir -p "tries/$1" "$(dirname "done/$1")"
n=$(ls "tries/$1" | wc -l)
echo $$ "$SLURM_ARRAY_JOB_ID" "$SLURM_ARRAY_TASK_ID" "$CUDA_VISIBLE_DEVICES" > "tries/$1.new"
mv "tries/$1.new" "tries/$1/$n"
if [ "$n" = 0 ] && grep -qx "$1" hang; then exec sleep 300; fi
seq 1000 > "done/$1.new"
mv "done/$1.new" "done/$1"
"""


class Run:
    """The packaged workflow with the packaged profile on a folder of ten trainings, in a process group of its own."""

    def __init__(self, node, home: Path, hang: list[str], *options: str) -> None:
        _write_study(home, hang)
        self.home, self.log = home, home / "run.log"
        command = [sys.executable, "-m", "snakemake", "--snakefile", STUDY / "Snakefile", "--directory", home]
        command += ["--profile", STUDY / "profiles" / "slurm", "--nolock"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options, *HASTE, "--config", f"home={home}", f"command=sh {home / 'step'}"],
                env=node.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)

    def note(self, name: str, seconds: float = 60) -> list[str]:
        """Return the words of a file that a job writes, once it is there."""
        end = time.monotonic() + seconds
        while not (self.home / name).exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, f"no {name}\n{self.log.read_text()}"
            time.sleep(0.1)
        return (self.home / name).read_text().split()

    def status(self, seconds: float = 180) -> int:
        """Return the exit status, once the run has ended."""
        return self.process.wait(seconds)


def _write_study(home: Path, hang: list[str]) -> None:
    """Write what the workflow reads: ten trainings that need nothing; the two steps that every study has are done."""
    steps = [{"name": name, "needs": []} for name in [*TRAININGS, "plan", "collect"]]
    machine = {"device": "cuda", "threads": 1, "augmenters": 1}
    (home / "lock.json").write_text(json.dumps({"steps": steps, "machine": machine}))
    (home / "step").write_text(STEP)
    (home / "hang").write_text("".join(f"{name}\n" for name in hang))
    (home / "done").mkdir()
    for name in ("plan", "collect"):
        (home / "done" / name).touch()


def test_slurm_array__killed_jobs_are_retried_and_all_outputs_are_whole(node, tmp_path):
    with Run(node, tmp_path, [KILLED, CANCELLED], "--slurm-array-jobs=train") as run:
        process, *_ = run.note(f"tries/{KILLED}/0")
        os.kill(int(process), signal.SIGKILL)
        _, array, task, _ = run.note(f"tries/{CANCELLED}/0")
        node.ask("scancel", f"{array}_{task}")
        assert run.status() == 0, run.log.read_text()

    whole = "".join(f"{i}\n" for i in range(1, 1001))
    assert [name for name in TRAININGS if (tmp_path / "done" / name).read_text() != whole] == []
    tries = {name: sorted((tmp_path / "tries" / name).iterdir()) for name in TRAININGS}
    assert {name for name, found in tries.items() if len(found) == 2} == {KILLED, CANCELLED}
    assert sum(map(len, tries.values())) == 12

    first = [found[0].read_text().split() for found in tries.values()]
    assert {words[1] for words in first} == {array}, "the ten were one array"
    assert {int(words[2]) for words in first} == set(range(1, 11))
    assert {len(words[3].split(",")) for words in first} == {1}, "each saw one GPU"
    ended = {name: (state, cpus, limit) for name, state, cpus, limit in node.jobs("%i|%T|%C|%l")}
    states = [ended[f"{array}_{task}"][0] for task in range(1, 11)]
    assert sorted(states) == ["CANCELLED", *["COMPLETED"] * 8, "FAILED"]
    assert {row[1:] for row in ended.values()} == {("2", "2-00:00:00")}, "what study.toml and profile ask for"


def test_slurm_interrupt__cancels_the_jobs_of_the_run(node, tmp_path):
    with Run(node, tmp_path, TRAININGS[:2], *[f"done/{name}" for name in TRAININGS[:2]]) as run:
        processes = [int(run.note(f"tries/{name}/0")[0]) for name in TRAININGS[:2]]
        mine = {name for name, state in node.jobs() if state == "RUNNING"}
        run.process.send_signal(signal.SIGINT)
        assert run.status(40) != 0
    assert len(mine) == 2
    end = time.monotonic() + 15
    while node.jobs(states="running,completing,pending") and time.monotonic() < end:
        time.sleep(0.1)
    assert {state for name, state in node.jobs() if name in mine} == {"CANCELLED"}
    assert not any(Path(f"/proc/{process}").exists() for process in processes)
    assert not [path for path in (tmp_path / "done" / "train").rglob("*") if path.is_file()]
