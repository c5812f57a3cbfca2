"""The process that steps are forked from: a fork stands for a run, and nobody outlives who asked."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from segaudit.errors import AuditError
from segaudit.study import warm

# The server does its work after importing torch; what is tested here is independent of what was imported.
SERVER = """
import sys
from pathlib import Path
from segaudit.study import warm
warm._WARMED = ("numpy", "torch")
warm.serve(Path(sys.argv[1]))
"""
ASK = """
import sys
from pathlib import Path
from segaudit.study.warm import ask
sys.exit(ask(Path(sys.argv[1]), sys.argv[2:]))
"""
JOB = """
import os, signal, subprocess, sys, time
from pathlib import Path
verb, *rest = sys.argv[1:]
if verb == "tell":
    print(Path.cwd(), os.environ["OF_ASKER"], "torch" in sys.modules, sys.argv)
    sys.stderr.write("to stderr\\n")
elif verb == "exit":
    sys.exit(int(rest[0]))
elif verb == "raise":
    raise ValueError("of the job")
elif verb == "die":
    os.kill(os.getpid(), signal.SIGTERM)
elif verb == "draw":
    import random, numpy, torch
    print(random.random(), numpy.random.rand(), torch.rand(1).item())
elif verb == "wait":
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    Path(rest[0]).write_text(f"{os.getpid()} {child.pid} {os.getpgid(0)}")
    time.sleep(100)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm", numbered=True)
    (folder / "a_job.py").write_text(JOB)
    socket = folder / "s"
    with started(folder, socket) as server:
        yield socket, folder
        server.terminate()
        assert server.wait(10) == 0
        assert not socket.exists()


@contextlib.contextmanager
def started(folder, socket):
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(socket)], env=environ)
    try:
        eventually(socket.exists, 120)
        yield server
    finally:
        server.kill()
        server.wait()


def eventually(true, seconds=20):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)


def lives(process):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def asked(served, *argv, **options):
    command = [sys.executable, "-c", ASK, str(served[0]), "a_job", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options)


@pytest.mark.slow
def test_serve__takes_commands_from_its_user_alone(served):
    assert stat.S_IMODE(served[0].stat().st_mode) == 0o600


@pytest.mark.slow
def test_ask__stands_for_running_the_command(served, tmp_path):
    told = asked(served, "tell", "x y", cwd=tmp_path, env={**os.environ, "OF_ASKER": "ours"})
    assert (told.returncode, told.stderr) == (0, "to stderr\n")
    assert told.stdout == f"{tmp_path} ours True {[str(served[1] / 'a_job.py'), 'tell', 'x y']}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "code", "why"),
    [
        (("exit", "0"), 0, "well"),
        (("exit", "7"), 7, "its own"),
        (("raise",), 1, "an error"),
        (("die",), 143, "SIGTERM"),
    ],
)
def test_ask__returns_the_exit_status(served, argv, code, why):
    told = asked(served, *argv)
    assert told.returncode == code, why
    assert ("of the job" in told.stderr) == (argv[0] == "raise")


@pytest.mark.slow
def test_ask__every_fork_draws_other_numbers(served):
    first, second = (asked(served, "draw").stdout.split() for _ in range(2))
    assert len(first) == 3
    assert not set(first) & set(second)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_ask__when_it_is_killed_the_child_and_its_children_end(served, tmp_path, number):
    note = tmp_path / "note"
    asking = subprocess.Popen([sys.executable, "-c", ASK, str(served[0]), "a_job", "wait", str(note)])
    eventually(lambda: note.exists() and len(note.read_text().split()) == 3)
    child, grandchild, group = map(int, note.read_text().split())
    assert group == child
    assert lives(child)
    assert lives(grandchild)
    asking.send_signal(number)
    asking.wait()
    eventually(lambda: not lives(child) and not lives(grandchild))
    assert asked(served, "exit", "3").returncode == 3, "the server serves on"


@pytest.mark.slow
def test_serve__ends_with_the_process_that_started_it(tmp_path):
    starter = f"import subprocess, sys, time\np = subprocess.Popen([sys.executable, '-c', {SERVER!r}, sys.argv[1]])\n"
    starter += "print(p.pid, flush=True)\ntime.sleep(100)"
    command = [sys.executable, "-c", starter, str(tmp_path / "s")]
    starting = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    server = int(starting.stdout.readline())
    eventually((tmp_path / "s").exists, 120)
    starting.kill()
    starting.wait()
    starting.stdout.close()
    eventually(lambda: not lives(server))
    assert not (tmp_path / "s").exists()


def test_ask__names_a_server_that_is_gone(tmp_path):
    with pytest.raises(AuditError) as told:
        warm.ask(tmp_path / "nobody", ["a_job"])
    assert [finding.code for finding in told.value.findings] == ["STUDY_WARM_GONE"]


def test_main__a_server_that_is_gone_gives_status_2_and_its_reason(tmp_path, capsys):
    assert warm.main(["ask", str(tmp_path / "nobody"), "home", "plan"]) == 2
    assert "STUDY_WARM_GONE" in capsys.readouterr().err
