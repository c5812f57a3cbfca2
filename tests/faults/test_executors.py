"""Workers of every kind, and their deaths."""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from segaudit import AuditError, score_folders
from segaudit.scores import clusters, tasks

LABELS = {"vb": 1, "disc": 2}
LETHAL = Path(__file__).with_name("lethal.py")


def scored(folder, **options):
    return score_folders(folder / "pred", {"gold": folder / "gold"}, labels=LABELS, **options)


def lethal(folder, ledger, *words):
    line = [sys.executable, str(LETHAL), str(folder), str(ledger), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executor__of_any_kind_gives_the_same_scores_and_is_left_open(small, kind):
    with kind(2) as executor:
        found = scored(small, executor=executor)
        assert executor.submit(abs, -1).result() == 1
    assert found.table.equals(scored(small, workers=1).table)


def test_executor__sees_the_files_from_any_folder(small, monkeypatch):
    monkeypatch.chdir(small)
    with ThreadPoolExecutor(1) as executor:
        executor.submit(os.getcwd).result()
        found = score_folders("pred", {"gold": "gold"}, labels=LABELS, executor=executor)
    assert found.table.equals(score_folders("pred", {"gold": "gold"}, labels=LABELS, workers=1).table)


def test_executor__is_given_few_tasks_at_a_time(small, monkeypatch):
    under_way, most = set(), 0

    class Slow(ThreadPoolExecutor):
        def submit(self, *args, **kwargs):
            nonlocal most
            future = super().submit(*args, **kwargs)
            under_way.add(future)
            future.add_done_callback(under_way.discard)
            most = max(most, len(under_way))
            return future

    monkeypatch.setattr("segaudit.scores.pools._WAITING_ELSEWHERE", 3)
    with Slow(1) as executor:
        scored(small, executor=executor)
    assert 1 <= most <= 3


def test_executor__that_ends_early_is_named_and_the_rest_kept(small, tmp_path, bench):
    class Ending(ThreadPoolExecutor):
        n = 0

        def submit(self, *args, **kwargs):
            self.n += 1
            if self.n == 5:
                future = Future()
                future.set_exception(BrokenProcessPool("gone"))
                return future
            return super().submit(*args, **kwargs)

    with Ending(1) as executor, pytest.raises(AuditError, match="EXECUTOR_BROKEN"):
        scored(small, executor=executor, ledger=tmp_path / "l")
    assert bench.kept(tmp_path / "l").n_pairs >= 4
    assert scored(small, ledger=tmp_path / "l", workers=1).table.equals(scored(small, workers=1).table)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ModuleNotFoundError("No module named 'segaudit'"), "EXECUTOR_IMPORT"), (None, "WORKER_VERSION")],
)
def test_executor__whose_workers_run_other_code_is_refused(small, monkeypatch, error, code):
    def other(task):
        if error is not None:
            raise error
        return tasks.Done(task.case, version="older")

    monkeypatch.setattr("segaudit.scores.pools.measure_case", other)
    with ThreadPoolExecutor(1) as executor, pytest.raises(AuditError, match=code):
        scored(small, executor=executor)


def test_fault_of_the_program__is_not_taken_for_one_of_a_case(small, monkeypatch):
    def wrong(task):
        raise ZeroDivisionError(task.case)

    monkeypatch.setattr("segaudit.scores.pools.measure_case", wrong)
    with ThreadPoolExecutor(1) as executor, pytest.raises(ZeroDivisionError):
        scored(small, executor=executor)


def test_case__that_kills_its_worker_twice_is_named_and_the_others_kept(small, tmp_path, bench):
    ended = lethal(small, tmp_path / "l", "always", "c003", "c008")
    assert ended.returncode == 2, ended.stderr
    killed = re.findall(r"WORKER_KILLED case '(\w+)'", ended.stdout)
    assert sorted(killed) == ["c003", "c008"]
    assert bench.kept(tmp_path / "l").n_pairs == 10


def test_case__that_kills_its_worker_once_is_measured_after_all(small, tmp_path, bench):
    ended = lethal(small, tmp_path / "l", "once", "c000", "c011")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert bench.kept(tmp_path / "l").n_pairs == 12
    assert bench.kept(tmp_path / "l").most_times == 1


def test_cluster__without_its_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(AuditError) as caught, clusters.cluster("tcp://127.0.0.1:1"):
        pass
    assert caught.value.findings[0].code == "CLUSTER_EXTRA_MISSING"
    assert "segaudit[dask]" in caught.value.findings[0].fix


@pytest.fixture
def scheduler(tmp_path):
    """Return the address of a Dask scheduler of its own, and a function that starts a worker process for it."""
    pytest.importorskip("distributed")
    started = []

    def start(log, *words):
        line = [sys.executable, "-W", "ignore", "-m", "dask", *words]
        with log.open("w") as stream:
            started.append(subprocess.Popen(line, stdout=stream, stderr=stream, cwd=tmp_path))
        return started[-1]

    log = tmp_path / "scheduler.log"
    start(log, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")

    def address():
        found = re.search(r"Scheduler at:\s+(tcp://[\d.:]+)", log.read_text())
        return found and found[1]

    def worker(name):
        return start(
            tmp_path / f"{name}.log", "worker", address(), "--nworkers", "1", "--nthreads", "1", "--no-nanny",
            "--no-dashboard", "--name", name, "--local-directory", str(tmp_path / name),
        )  # fmt: skip

    yield address, worker
    for process in reversed(started):
        process.kill()
        process.wait(10)


@pytest.mark.slow
def test_cluster__with_a_worker_killed_loses_nothing(two_hundred, tmp_path, bench, scheduler):
    address, worker = scheduler
    bench.wait_for(lambda: bool(address()), "scheduler up")
    victim, _ = worker("one"), worker("other")
    for name in ("one", "other"):
        log = tmp_path / f"{name}.log"
        bench.wait_for(lambda log=log: "Registered to" in log.read_text(), f"worker {name} up")
    run = tmp_path / "run"
    with bench.Program(two_hundred, run, "--scheduler", address()) as program:
        bench.wait_for(lambda: program.kept() >= 20, "20 cases kept")
        os.kill(victim.pid, signal.SIGKILL)
        assert program.end() == 0, program.err
    found = bench.kept(run / "ledger.sqlite")
    assert (found.n_pairs, found.most_times) == (200, 1)
    assert (run / "scores.csv").read_bytes() == (two_hundred / "whole.csv").read_bytes()


@pytest.mark.slow
def test_cluster__that_does_not_answer_is_an_error_that_says_so():
    pytest.importorskip("distributed")
    code = "from segaudit.scores import cluster\nwith cluster('tcp://127.0.0.1:1', timeout_s=0.2): pass"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "AuditError: CLUSTER_UNREACHABLE: no Dask scheduler answers at tcp://127.0.0.1:1" in ended.stderr
