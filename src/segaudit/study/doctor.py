"""Whether this machine can run the study: packages, device, memory, disk; each finding says what to do about it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import chain
from pathlib import Path

from segaudit.errors import Finding, Level

GB = 1e9
PACKAGES = ("torch", "nnunetv2", "snakemake")
BUILT_IN = ("local", "dryrun", "touch")
"""Snakemake's executors that need no plugin."""
INSTALL = "pip install 'segaudit[study]'"
_SHARED = Path("/dev/shm")  # noqa: S108 - the size of the mount is asked, nothing is written
_CGROUP = Path("/sys/fs/cgroup/memory.max")
# Another process asks torch: importing it takes seconds and gigabytes, and a driver may hang.
_PROBE = """
import json, torch
told = {"cuda": torch.cuda.is_available(), "built_for": torch.version.cuda, "mps": torch.backends.mps.is_available()}
count = torch.cuda.device_count() if told["cuda"] else 0
boards = [torch.cuda.get_device_properties(i) for i in range(count)]
told["boards"] = [[board.name, board.total_memory] for board in boards]
try:
    import torchvision
except (ImportError, RuntimeError, OSError) as error:
    told["torchvision"] = str(error).splitlines()[0]
print(json.dumps(told))
"""


@dataclass(frozen=True)
class Needs:
    """What a study asks of a machine.

    Attributes
    ----------
    executor : str
        Snakemake's, as a profile names it: local, slurm, cluster-generic, lsf, ...
    disk_gb : float
        Estimate of what the study writes.
    gpu_memory_gb, memory_gb, shared_gb : float
        Of one training: on the board (24 for nnU-Net's ResEnc-L), of main memory, and of shared memory, through which
        the augmenting processes hand over batches.
    jobs : int
        Trainings at a time on this machine.
    """

    executor: str = "local"
    disk_gb: float = 0.0
    gpu_memory_gb: float = 24.0
    memory_gb: float = 32.0
    shared_gb: float = 2.0
    jobs: int = 1


@dataclass(frozen=True)
class Torch:
    """What torch says of itself, or why it does not."""

    fault: str = ""
    cuda: bool = False
    built_for: str = ""
    mps: bool = False
    boards: tuple[tuple[str, float], ...] = ()
    torchvision: str = ""


@dataclass(frozen=True)
class Machine:
    """The facts of a machine; sizes in bytes, None where they cannot be known."""

    folder: Path
    writable: bool
    free: float
    memory: float | None
    shared: float | None
    versions: Mapping[str, str]
    torchvision_wants: str
    torch: Torch
    variables: Mapping[str, str] = field(default_factory=dict)


def checks(home: Path, device: str, needs: Needs | None = None) -> list[Finding]:
    """Return what stands in the way of a study on this machine, errors first, and what was found, as notes.

    Parameters
    ----------
    home : Path
        Folder of the study; it may be absent.
    device : {"cuda", "cpu", "mps"}
        What the networks are trained on.
    needs : Needs, optional

    Notes
    -----
    Codes: DOCTOR_PACKAGE_MISSING, DOCTOR_EXECUTOR_MISSING, DOCTOR_TORCH_BROKEN, DOCTOR_TORCHVISION, DOCTOR_DEVICE,
    DOCTOR_GPU_MEMORY, DOCTOR_MEMORY, DOCTOR_SHARED_MEMORY, DOCTOR_DISK, DOCTOR_FOLDER, DOCTOR_VARIABLES, DOCTOR_FOUND.
    On a cluster the jobs run elsewhere, so what this machine lacks in device, memory and shared memory is a note.
    """
    needs = needs or Needs()
    return judge(look(home, needs.executor), device, needs)


def look(home: Path, executor: str = "local", *, timeout_s: float = 120.0) -> Machine:
    """Return the facts of this machine; torch is asked in a process of its own, within a time limit."""
    folder = next(path for path in (home.absolute(), *home.absolute().parents) if path.is_dir())
    versions = {name: _version(name) for name in (*PACKAGES, "torchvision", plugin(executor))}
    wants = next((w for w in map(_pinned_torch, _requires("torchvision")) if w), "")
    return Machine(
        folder,
        os.access(folder, os.W_OK),
        shutil.disk_usage(folder).free,
        _memory(),
        shutil.disk_usage(_SHARED).total if _SHARED.is_dir() else None,
        {name: found for name, found in versions.items() if found},
        wants,
        ask_torch(timeout_s) if versions["torch"] else Torch(),
        {name: value for name, value in os.environ.items() if name.startswith("nnUNet_")},
    )


def plugin(executor: str) -> str:
    """Return the package that gives Snakemake an executor; snakemake itself for those that are built in."""
    return "snakemake" if executor in BUILT_IN else f"snakemake-executor-plugin-{executor}"


def ask_torch(timeout_s: float) -> Torch:
    """Return what torch says of itself in another process."""
    command = [sys.executable, "-c", _PROBE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        return Torch(fault=f"it gave no answer within {timeout_s:g} s")
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    last = lines[-1] if lines else f"exit status {done.returncode}"
    if done.returncode != 0:
        return Torch(fault=last)
    told = json.loads(last)
    boards = tuple((str(name), float(size)) for name, size in told["boards"])
    return Torch("", told["cuda"], told["built_for"] or "", told["mps"], boards, told.get("torchvision", ""))


def judge(machine: Machine, device: str, needs: Needs) -> list[Finding]:
    """Return what the facts of a machine mean for a study, errors first."""
    here = needs.executor in BUILT_IN
    found = chain(
        _packages(machine, needs),
        _device(machine, device, needs, here=here),
        _memories(machine, device, needs, here=here),
        _disk(machine, needs),
        _variables(machine),
    )
    order = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.level))


def _packages(machine: Machine, needs: Needs) -> Iterator[Finding]:
    for name in PACKAGES:
        if name not in machine.versions:
            fact = f"the package '{name}' is not installed."
            yield Finding("DOCTOR_PACKAGE_MISSING", fact, sys.executable, INSTALL)
    wanted = plugin(needs.executor)
    if wanted not in machine.versions and wanted not in PACKAGES:
        fact = f"Snakemake's executor '{needs.executor}' is not installed."
        yield Finding("DOCTOR_EXECUTOR_MISSING", fact, sys.executable, f"pip install {wanted}")
    if machine.torch.fault:
        fact = f"torch cannot be used: {machine.torch.fault}."
        fix = "install it anew, torch and torchvision in one command; check the driver (nvidia-smi)."
        yield Finding("DOCTOR_TORCH_BROKEN", fact, sys.executable, fix)
    yield from _torchvision(machine)
    if machine.versions:
        fact = f"installed: {', '.join(f'{name} {found}' for name, found in machine.versions.items())}."
        yield Finding("DOCTOR_FOUND", fact, sys.executable, "none needed.", "note")


def _torchvision(machine: Machine) -> Iterator[Finding]:
    torch, vision = (machine.versions.get(name, "") for name in ("torch", "torchvision"))
    wants = machine.torchvision_wants
    fact = ""
    if torch and vision and wants and torch.split("+")[0] != wants:
        fact = f"torchvision {vision} is made for torch {wants}, but torch is {torch}."
    elif torch and vision and machine.torch.torchvision:
        fact = f"torchvision {vision} cannot be imported beside torch {torch}: {machine.torch.torchvision}."
    if fact:
        fix = (
            "install both in one command from one index; the study itself runs without, nnU-Net's own programs do not."
        )
        yield Finding("DOCTOR_TORCHVISION", fact, sys.executable, fix, "warning")


def _device(machine: Machine, device: str, needs: Needs, *, here: bool) -> Iterator[Finding]:
    torch = machine.torch
    level: Level = "error" if here else "note"
    if "torch" not in machine.versions or torch.fault or device == "cpu":
        return
    if not {"cuda": torch.cuda, "mps": torch.mps}.get(device, False):
        why = "its build has no CUDA" if device == "cuda" and not torch.built_for else "it finds none"
        fact = f"torch {machine.versions['torch']} sees no device '{device}' here: {why}."
        fix = (
            "install torch for your driver (pytorch.org), or set machine.device."
            if here
            else "none needed, if the nodes of the cluster have one."
        )
        yield Finding("DOCTOR_DEVICE", fact, "machine.device", fix, level)
    for name, size in torch.boards if device == "cuda" else ():
        fact = f"{name} has {size / GB:.1f} GB"
        if size < needs.gpu_memory_gb * GB:
            fact += f"; one training needs about {needs.gpu_memory_gb:g} GB."
            fix = "use a larger board, or another planner (nnUNetPlannerResEncM needs about 10 GB), for all regimes."
            yield Finding("DOCTOR_GPU_MEMORY", fact, "network.planner", fix, "warning" if here else "note")
        else:
            yield Finding("DOCTOR_FOUND", f"{fact}.", "machine.device", "none needed.", "note")


def _memories(machine: Machine, device: str, needs: Needs, *, here: bool) -> Iterator[Finding]:
    at_once = f"{needs.jobs} training{'s at a time need' if needs.jobs > 1 else ' needs'} about"
    short: Level = "warning" if here else "note"
    least = needs.memory_gb * needs.jobs
    if machine.memory is not None:
        fact = f"there are {machine.memory / GB:.1f} GB of memory; {at_once} {least:g} GB."
        fits = machine.memory >= least * GB
        fix = "none needed." if fits else "take a larger machine, or fewer jobs at a time and fewer augmenters."
        yield Finding("DOCTOR_FOUND" if fits else "DOCTOR_MEMORY", fact, "machine.jobs", fix, "note" if fits else short)
    least = needs.shared_gb * needs.jobs
    if device != "cpu" and machine.shared is not None and machine.shared < least * GB:
        fact = f"{_SHARED} holds {machine.shared / GB:.3g} GB; {at_once} {least:g} GB."
        fix = f"start the container with --shm-size={least:g}g, or set machine.augmenters = 0."
        yield Finding("DOCTOR_SHARED_MEMORY", fact, str(_SHARED), fix, short)


def _disk(machine: Machine, needs: Needs) -> Iterator[Finding]:
    where = str(machine.folder)
    if not machine.writable:
        fix = "choose another output, or ask for the right to write."
        yield Finding("DOCTOR_FOLDER", f"{where} cannot be written.", where, fix)
    fact = f"{machine.free / GB:.1f} GB are free; the study is estimated to write {needs.disk_gb:.1f} GB."
    if machine.free < needs.disk_gb * GB:
        yield Finding("DOCTOR_DISK", fact, where, "free disk, or set output to a larger one; mind your quota, too.")
    else:
        yield Finding("DOCTOR_FOUND", fact, where, "mind your quota, which is not asked.", "note")


def _variables(machine: Machine) -> Iterator[Finding]:
    if machine.variables:
        names = ", ".join(sorted(machine.variables))
        fact = f"the environment sets {names}; the study uses its own folders and settings instead."
        yield Finding("DOCTOR_VARIABLES", fact, "environment", "none needed.", "note")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _requires(package: str) -> list[str]:
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


def _pinned_torch(requirement: str) -> str:
    """Return the version in `torch==2.13.0` or `torch (==2.13.0)`, else nothing."""
    found = re.fullmatch(r"torch\s*\(?==\s*([\w.]+)(?:\+\w+)?\)?", requirement.strip())
    return found[1] if found else ""


def _memory() -> float | None:
    """Return the bytes of memory that this process may use: the machine's, or less where a container says so."""
    try:
        physical = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None
    try:
        return min(physical, float(_CGROUP.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no such limit, or the word max
        return physical
