"""A process that has imported torch and nnU-Net once, and forks a child for each command instead of importing anew.

`python -m segaudit.study.warm serve SOCKET` waits for commands, and `... ask SOCKET HOME STEP` has
one step of a study done and ends with its exit status. A child is given the asking process's working directory,
environment and standard streams, so that asking stands for running. When the asking process dies, of SIGKILL too, the
child and its children are killed; when the process that started the server dies, so is the server.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import runpy
import selectors
import signal
import socket as sockets
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from segaudit.errors import AuditError, Finding
from segaudit.study.environments import MODULES, WORKERS, installed

_TICK_S = 0.05
_MOST_BYTES = 1 << 20
_STREAMS = 3
_KILLED = 128
_LOST = 70
# What the steps of a study import; nothing is computed before a fork, for threads do not survive it.
_WARMED = (*MODULES, "segaudit.study.networks", "segaudit.study.jobs")


@dataclass
class _Server:
    """The server's state: children by process number, each with the connection that waits for it."""

    listening: sockets.socket
    waiting: dict[int, sockets.socket] = field(default_factory=dict)

    def accept(self) -> None:
        """Fork a child for a new connection."""
        connection, _ = self.listening.accept()
        connection.settimeout(10)
        try:
            request, streams = _received(connection)
        except (OSError, ValueError):
            connection.close()
            return
        child = os.fork()
        if child == 0:
            self.listening.close()
            for other in (connection, *self.waiting.values()):
                other.close()
            _become(request, streams)
        with suppress(OSError):  # the child does the same: whoever comes first
            os.setpgid(child, child)
        for stream in streams:
            os.close(stream)
        self.waiting[child] = connection

    def reap(self) -> None:
        """Tell how children ended, and end those whose asker is gone."""
        for child, connection in list(self.waiting.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                with suppress(OSError):
                    connection.sendall(bytes([code if code >= 0 else _KILLED - code]))
                self._forget(child)
            elif _gone(connection):
                _kill(child)
                os.waitpid(child, 0)
                self._forget(child)

    def _forget(self, child: int) -> None:
        _kill(child)  # what it may have left behind
        self.waiting.pop(child).close()

    def end(self) -> None:
        """Kill every child."""
        for child in list(self.waiting):
            self._forget(child)
            os.waitpid(child, 0)


def serve(socket: Path) -> None:
    """Import what trains, then fork a child for each command until SIGTERM, or until the starting process is gone.

    The socket appears when the first command can be taken.

    Raises
    ------
    AuditError
        STUDY_EXTRA_MISSING.
    """
    parent = os.getppid()
    os.environ[WORKERS] = "1"  # a default that is read at import; each step says its own number
    with installed():
        for name in _WARMED:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children share what is there
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    with sockets.socket(sockets.AF_UNIX) as listening, selectors.DefaultSelector() as selector:
        draft = socket.with_name(f"{socket.name}.part")
        draft.unlink(missing_ok=True)
        listening.bind(str(draft))
        draft.chmod(0o600)  # whoever can write to it can start a step
        listening.listen()
        draft.replace(socket)
        selector.register(listening, selectors.EVENT_READ)
        server = _Server(listening)
        try:
            while os.getppid() == parent:
                if selector.select(_TICK_S):
                    server.accept()
                server.reap()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            server.end()
            socket.unlink(missing_ok=True)


def ask(socket: Path, argv: Sequence[str]) -> int:
    """Have `python -m argv...` done by a fork of the server, as if this process ran it; return its exit status.

    A child that a signal ended gives 128 and the signal's number, as in a shell; a server that ended gives 70.

    Raises
    ------
    AuditError
        STUDY_WARM_GONE.
    """
    parent = os.getppid()
    request = json.dumps({"argv": list(argv), "cwd": str(Path.cwd()), "environ": dict(os.environ)}).encode()
    with sockets.socket(sockets.AF_UNIX) as connection:
        try:
            connection.connect(str(socket))
        except OSError as error:
            fact = f"no process that steps are forked from listens at {socket}: {error.strerror}."
            raise AuditError(Finding("STUDY_WARM_GONE", fact, str(socket), "run the study again.")) from None
        header = len(request).to_bytes(4, "big")
        sockets.send_fds(connection, [header], list(range(_STREAMS)))
        connection.sendall(request)
        connection.settimeout(1.0)
        while os.getppid() == parent:
            try:
                told = connection.recv(1)
            except TimeoutError:
                continue
            return told[0] if told else _LOST
    return _LOST  # whoever asked is gone: closing the connection ends the child


def _received(connection: sockets.socket) -> tuple[dict[str, object], list[int]]:
    header, streams, _, _ = sockets.recv_fds(connection, 4, _STREAMS)
    size = int.from_bytes(header, "big")
    if not 0 < size <= _MOST_BYTES or len(streams) != _STREAMS:
        raise ValueError("no request")
    held = b""
    while len(held) < size:
        piece = connection.recv(size - len(held))
        if not piece:
            raise ValueError("half a request")
        held += piece
    found: dict[str, object] = json.loads(held)
    return found, streams


def _gone(connection: sockets.socket) -> bool:
    """Tell whether the other end of a connection is closed; it never sends anything after its request."""
    connection.settimeout(0)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _stop(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(0)


def _become(request: dict[str, object], streams: Sequence[int]) -> NoReturn:
    """Run a command in this child, and end with its exit status; nothing of the server runs on."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        argv, environ = request["argv"], request["environ"]
        assert isinstance(argv, list)
        assert isinstance(environ, dict)
        os.chdir(str(request["cwd"]))
        os.environ.clear()
        os.environ.update(environ)
        _other_numbers()
        sys.argv = argv
        try:
            runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as end:
            status = _status(end)
    except BaseException:  # noqa: BLE001  (the last line of a process: Python itself would do the same)
        traceback.print_exc()
    finally:
        for written in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                written.flush()
        os._exit(status)


def _status(end: SystemExit) -> int:
    if isinstance(end.code, int):
        return end.code & 255
    if end.code is not None:
        sys.stderr.write(f"{end.code}\n")
    return int(end.code is not None)


def _other_numbers() -> None:
    """Draw other random numbers than the other children, which all begin with the server's."""
    import numpy as np
    import torch

    random.seed()
    np.random.seed()  # noqa: NPY002  (the state that nnU-Net draws from)
    torch.seed()


def main(argv: Sequence[str]) -> int:
    """Serve, or ask for a step of a study."""
    verb, socket, *rest = argv
    try:
        if verb == "serve":
            serve(Path(socket))
            return 0
        return ask(Path(socket), ["segaudit", "study", "step", *rest])
    except AuditError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return _KILLED + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
