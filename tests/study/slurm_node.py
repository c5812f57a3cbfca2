"""A SLURM of one node on this machine's loopback, for as long as a test needs it."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")
# SLURM wants character devices for GPUs and opens none of them.
CARDS = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_CONF = """\
ClusterName={cluster}
SlurmctldHost={host}({address})
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MinJobAge=300
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=200000
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=node1 NodeHostname={host} NodeAddr={address} CPUs=64 RealMemory=1000000 Gres=gpu:{gpus}
PartitionName=main Nodes=node1 Default=YES State=UP
"""


def why_not() -> str:
    """Return why no SLURM can run here, empty where one can."""
    missing = [name for name in PROGRAMS if _program(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: slurmctld slurmd slurm-client munge)"
    host = _host()
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return f"the name of this machine, {host}, has no address (add it to 127.0.0.1 in /etc/hosts)"
    if not address.startswith("127."):
        return f"the name of this machine, {host}, is {address}: SLURM would leave the loopback (see /etc/hosts)"
    return ""


@dataclass(frozen=True)
class SlurmNode:
    """A running node; `environment` lets the commands of SLURM, and Snakemake, find it."""

    folder: Path
    environment: dict[str, str]

    def ask(self, *words: str) -> str:
        """Return what a command of SLURM prints."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=20, check=True)
        return done.stdout

    def jobs(self, form: str = "%i|%T", states: str = "all") -> list[list[str]]:
        """Return a row for each job that the controller remembers."""
        text = self.ask("squeue", "--noheader", f"--states={states}", "--array", f"--format={form}")
        return [line.strip().split("|") for line in text.splitlines()]

    def logs(self) -> str:
        """Return the ends of the daemons' logs."""
        tails = [f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.out"))]
        return "\n".join(tails)


@contextmanager
def slurm_node(gpus: int = len(CARDS)) -> Iterator[SlurmNode]:
    """Yield a node that waits for jobs; whatever happens inside, none of its processes is left afterwards."""
    # Not pytest's own folder: a path of a Unix socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="segaudit-slurm-"))
    node = SlurmNode(folder, _environment(folder))
    with ExitStack() as stack:
        stack.enter_context(_guard(folder))
        _configure(folder, gpus)
        munge = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "seed")]
        stack.enter_context(
            _daemon(node, "munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *munge)
        )
        _wait(node, (folder / "munge.socket").exists, "munged has no socket")
        stack.enter_context(_daemon(node, "slurmctld", "-D"))
        stack.enter_context(_daemon(node, "slurmd", "-D", "-N", "node1"))
        _wait(node, lambda: _state(node) == "idle", "the node is not idle")
        try:
            yield node
        finally:
            _cancel(node)


def _host() -> str:
    return socket.gethostname().split(".")[0]


def _program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]))


def _environment(folder: Path) -> dict[str, str]:
    """Return this process's environment without traces of another SLURM, and with the way to this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SBATCH_", "SRUN_"))}
    return {**kept, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{folder / 'bin'}{os.pathsep}{kept['PATH']}"}


def _configure(folder: Path, gpus: int) -> None:
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], two.getsockname()[1]
    host = _host()
    values = {
        "cluster": f"segaudit{os.getpid()}",
        "host": host,
        "address": socket.gethostbyname(host),
        "user": getpass.getuser(),
        "folder": folder,
        "gpus": gpus,
    }
    (folder / "slurm.conf").write_text(_CONF.format(ctld_port=ports[0], slurmd_port=ports[1], **values))
    (folder / "gres.conf").write_text("".join(f"NodeName=node1 Name=gpu File={card}\n" for card in CARDS[:gpus]))
    # Snakemake's plugin calls srun inside a job without SLURM_CONF: there it must find this node, too.
    srun = folder / "bin" / "srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {_program("srun")} "$@"\n')
    srun.chmod(0o755)


@contextmanager
def _guard(folder: Path) -> Iterator[None]:
    """Run a process that, once this one has ended or was killed, removes the node's processes and folder."""
    guard = subprocess.Popen([sys.executable, __file__, folder], stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate(timeout=20)


@contextmanager
def _daemon(node: SlurmNode, name: str, *options: str) -> Iterator[None]:
    """Run a daemon in a process group of its own; it ends with the block."""
    with (node.folder / f"{name}.out").open("wb") as log:
        process = subprocess.Popen(
            [str(_program(name)), *options],
            cwd=node.folder,
            env=node.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


def _state(node: SlurmNode) -> str:
    try:
        return node.ask("sinfo", "--noheader", "--format=%T").strip()
    except subprocess.CalledProcessError:
        return "no answer"


def _wait(node: SlurmNode, ready: Callable[[], bool], complaint: str, seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{complaint}\n{node.logs()}")
        time.sleep(0.1)


def _cancel(node: SlurmNode) -> None:
    """Cancel every job and wait until their processes have ended; the rest is killed later."""
    end = time.monotonic() + 8
    try:
        node.ask("scancel", f"--user={getpass.getuser()}")
        while node.jobs(states="running,completing,pending") and time.monotonic() < end:
            time.sleep(0.2)
    except subprocess.SubprocessError:
        return


def _kill_what_is_left(folder: Path) -> None:
    """Kill the processes in whose environment the node's folder stands: its daemons, steps and jobs, and no others."""
    mark = os.fsencode(folder)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":  # the guard: its input ends with the process that holds the node
    sys.stdin.read()
    _kill_what_is_left(Path(sys.argv[1]))
    shutil.rmtree(sys.argv[1], ignore_errors=True)
