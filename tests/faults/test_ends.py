"""The program ended from outside, at any moment and in any way: what was measured stays, and the next run finishes."""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def whole(cohort: Path) -> bytes:
    return (cohort / "whole.csv").read_bytes()


def test_kill__at_ten_moments_then_finish_gives_the_same_table(two_hundred, tmp_path, bench):
    run = tmp_path / "run"
    rng = np.random.default_rng(11)
    for moment in sorted(rng.choice(np.arange(1, 190), 10, replace=False)):
        with bench.Program(two_hundred, run, "--workers", 2) as program:
            bench.wait_for(lambda moment=moment, program=program: program.kept() >= moment, f"{moment} cases kept")
            time.sleep(rng.uniform(0, 0.005))
            os.kill(program.process.pid, signal.SIGKILL)
            assert program.process.wait(10) == -signal.SIGKILL
            bench.wait_for(lambda program=program: not program.members(), "workers gone with their parent")
            assert not (run / "scores.csv").exists()
    before = bench.kept(run / "ledger.sqlite").n_pairs
    assert before >= 100
    with bench.Program(two_hundred, run, "--workers", 2) as program:
        assert program.end() == 0, program.err
    found = bench.kept(run / "ledger.sqlite")
    assert (found.n_pairs, found.most_times) == (200, 1)
    assert (run / "scores.csv").read_bytes() == whole(two_hundred)
    assert not list(run.glob(".*.part"))


def test_interrupt__ends_at_once_with_130_and_keeps_what_was_measured(two_hundred, tmp_path, bench):
    run = tmp_path / "run"
    with bench.Program(two_hundred, run, "--workers", 2) as program:
        bench.wait_for(lambda: program.kept() >= 20, "20 cases kept")
        os.killpg(program.process.pid, signal.SIGINT)  # as a terminal does: the workers get it, too
        assert program.end() == 130, program.err
        assert not program.members()
        assert program.err.strip().endswith("interrupted; run the same command again to go on")
        assert "Traceback" not in program.err
    assert 20 <= bench.kept(run / "ledger.sqlite").n_pairs < 200
    assert not (run / "scores.csv").exists()


def test_worker__killed_is_replaced_and_nothing_is_lost(two_hundred, tmp_path, bench):
    run = tmp_path / "run"
    with bench.Program(two_hundred, run, "--workers", 2) as program:
        bench.wait_for(lambda: program.kept() >= 20, "20 cases kept")
        os.kill(program.workers()[0], signal.SIGKILL)
        assert program.end() == 0, program.err
    assert bench.kept(run / "ledger.sqlite").n_pairs == 200
    assert (run / "scores.csv").read_bytes() == whole(two_hundred)


def test_two_programs__on_one_directory_take_turns(two_hundred, tmp_path, bench, command):
    run = tmp_path / "run"
    with (
        bench.Program(two_hundred, run, "--workers", 1) as one,
        bench.Program(two_hundred, run, "--workers", 1) as other,
    ):
        assert (one.end(), other.end()) == (0, 0), one.err + other.err
    found = bench.kept(run / "ledger.sqlite")
    assert (found.n_pairs, found.most_times) == (200, 1)
    assert (run / "scores.csv").read_bytes() == whole(two_hundred)
    assert command("verify", run).status == 0


@pytest.fixture
def narrow(tmp_path):
    """Return a folder on a file system of its own that holds 4 MiB."""
    folder = tmp_path / "narrow"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if made.returncode:
        pytest.skip("file systems may not be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk__every_case_is_measured_and_the_next_run_finishes(two_hundred, narrow, bench):
    filler = narrow / "filler"
    filler.write_bytes(bytes((4 << 20) - (192 << 10)))  # room for a ledger, not for 200 cases
    run = narrow / "run"
    with bench.Program(two_hundred, run, "--workers", 2) as program:
        assert program.end() == 2, program.err
    assert "DISK_FULL" in program.err
    assert "Traceback" not in program.err
    assert not (run / "scores.csv").exists()
    assert 0 < bench.kept(run / "ledger.sqlite").n_pairs < 200
    filler.unlink()
    with bench.Program(two_hundred, run, "--workers", 2) as program:
        assert program.end() == 0, program.err
    assert bench.kept(run / "ledger.sqlite").n_pairs == 200
    assert (run / "scores.csv").read_bytes() == whole(two_hundred)


def test_file_size_limit__is_told_and_leaves_a_sound_ledger(two_hundred, tmp_path, bench):
    run = tmp_path / "run"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    with bench.Program(two_hundred, run, "--workers", 1, preexec_fn=limited) as program:
        assert program.end() == 2, program.err
    assert "Traceback" not in program.err
    assert 0 < bench.kept(run / "ledger.sqlite").n_pairs < 200
    with bench.Program(two_hundred, run, "--workers", 1) as program:
        assert program.end() == 0, program.err
    assert (run / "scores.csv").read_bytes() == whole(two_hundred)
