"""Fixtures that every test folder shares."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_configure() -> None:
    """Let programs under test be interrupted also where the tests run behind an `&`, which ignores Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real inputs that lies beside the project, or skip."""
    folder = Path(os.environ.get("SEGAUDIT_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("the folder of real inputs is not here (set SEGAUDIT_SHARED)")
    return folder.resolve()


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it wrote to the two streams."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(capsys, monkeypatch) -> Callable[..., Outcome]:
    """Return a function that runs one command line in this process, as the installed program would."""
    from segaudit.cli import main

    def run(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["segaudit", *map(str, words)])
        status = 0
        capsys.readouterr()
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
        written = capsys.readouterr()
        return Outcome(status, written.out, written.err)

    return run
