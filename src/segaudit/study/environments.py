"""What nnU-Net is told before it runs: its folders, numbers of workers, and whether those are processes or threads."""

from __future__ import annotations

import errno
import importlib
import multiprocessing
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from segaudit.errors import AuditError, Finding

INSTALL = (
    'pip install "segaudit[study]"; where torch is to run on a processor alone, name its build in the same command:'
    ' "torch==2.13.0" "torchvision==0.28.0".'
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_NO_ROOM_BYTES = 1 << 20
_WORKERS = "default_num_processes"
AUGMENTERS, WORKERS, COMPILED = "nnUNet_n_proc_DA", "nnUNet_def_n_proc", "nnUNet_compile"
MODULES = (
    "nnunetv2.experiment_planning.plan_and_preprocess_api",
    "nnunetv2.training.nnUNetTrainer.nnUNetTrainer",
    "nnunetv2.inference.predict_from_raw_data",
    "nnunetv2.ensembling.ensemble",
    "nnunetv2.postprocessing.remove_connected_components",
    "nnunetv2.imageio.simpleitk_reader_writer",
)
"""What nnU-Net's calls need: imported before pools are replaced, which are those of the modules that are there."""


@dataclass(frozen=True)
class Settings:
    """What nnU-Net is told.

    Attributes
    ----------
    planner, trainer : str
        A class of nnU-Net by its name, such as nnUNetPlannerResEncL, or `package.module:Class`.
    device : {"cuda", "cpu", "mps"}
    seed : int or None
        Of initial weights, batches and augmentation. On one machine, a training on a CPU with one thread and without
        augmenting processes is then the same to the bit, also when it was interrupted. With such processes or on a
        GPU it is not; and other processors may round otherwise.
    threads : int
        Of torch, on a CPU; on a GPU it has one.
    augmenters : int
        Processes that augment; 0 does it in the training process.
    exporters : int
        Workers that read, preprocess and write.
    pools : {"processes", "threads"}
        What the workers are; processes import torch anew, which takes seconds each.
    gpu_memory_gb : float or None
        What the plan may use; the planner's own number when None.
    """

    planner: str
    trainer: str
    device: Literal["cuda", "cpu", "mps"] = "cuda"
    seed: int | None = None
    threads: int = 1
    augmenters: int = 0
    exporters: int = 1
    pools: Literal["processes", "threads"] = "processes"
    gpu_memory_gb: float | None = None


def use(home: Path, settings: Settings) -> None:
    """Tell nnU-Net its folders below `home` and its workers, whatever the environment says.

    It may be imported already, as in a fork of a process that has done so: what it read then is mended.
    """
    folders = {f"nnUNet_{name}": str(home.absolute() / name) for name in ("raw", "preprocessed", "results")}
    threads = settings.threads if settings.device == "cpu" else 1
    counts = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    os.environ |= {
        **folders,
        **counts,
        AUGMENTERS: str(settings.augmenters),
        WORKERS: str(settings.exporters),
        "nnUNet_wandb_enabled": "0",
    }
    os.environ.pop(COMPILED, None)  # nnU-Net compiles what it trains on a GPU, and nothing else
    if settings.device != "cuda":
        os.environ[COMPILED] = "f"
    for module in _imported():
        if hasattr(module, _WORKERS):
            setattr(module, _WORKERS, settings.exporters)


def _imported() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "nnunetv2" and module]


class _Threads:
    """Stands for the module `multiprocessing`, with pools of threads."""

    def __getattr__(self, name: str) -> Any:
        return getattr(multiprocessing, name)

    def get_context(self, _method: str | None = None) -> _Threads:
        return self

    Pool = staticmethod(ThreadPool)


@contextmanager
def pools_of(settings: Settings) -> Iterator[None]:
    """Let the pools of nnU-Net's imported modules be threads of this process, where the settings say so."""
    found = [m for m in _imported() if getattr(m, "multiprocessing", None) is multiprocessing]
    if settings.pools == "processes":
        found = []
    for module in found:
        module.multiprocessing = _Threads()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in found:
            module.multiprocessing = multiprocessing  # type: ignore[attr-defined]


@contextmanager
def having_room(path: Path) -> Iterator[None]:
    """Raise DISK_FULL with the path when what is written in the block finds no room."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        if number not in _FULL and not (isinstance(error, RuntimeError) and _is_full(path)):
            raise
        fact = f"no space is left to write {getattr(error, 'filename', None) or path}."
        fix = "free space and run again: finished steps are kept, and a training goes on from its last checkpoint."
        raise AuditError(Finding("DISK_FULL", fact, str(path), fix)) from None


def _is_full(path: Path) -> bool:
    """Tell whether there is no room: torch and blosc2 report that as a RuntimeError without a number."""
    there = next(one for one in (path.absolute(), *path.absolute().parents) if one.exists())
    return shutil.disk_usage(there).free < _NO_ROOM_BYTES


@contextmanager
def installed() -> Iterator[None]:
    """Raise STUDY_EXTRA_MISSING when a package that trains cannot be imported in the block."""
    try:
        yield
    except ImportError as error:
        fact = f"the package '{error.name or error}' cannot be imported."
        raise AuditError(Finding("STUDY_EXTRA_MISSING", fact, sys.executable, INSTALL)) from None


@contextmanager
def engine(home: Path, settings: Settings, written: Path) -> Iterator[None]:
    """Have nnU-Net ready in the block; a lack of room is told with the path that is written.

    Raises
    ------
    AuditError
        STUDY_EXTRA_MISSING, DISK_FULL.
    """
    use(home, settings)
    with installed():
        import torch

        for name in MODULES:
            importlib.import_module(name)
    torch.set_num_threads(settings.threads if settings.device == "cpu" else 1)
    with pools_of(settings), having_room(written):
        yield


@contextmanager
def folder_in_one(out: Path) -> Iterator[Path]:
    """Give an empty folder beside `out`; it becomes `out` when the block ends well, else it is removed.

    Raises
    ------
    AuditError
        DISK_FULL.
    """
    draft, old = (out.with_name(f".{out.name}.{end}") for end in ("part", "old"))
    with having_room(out):
        for left in (draft, old):
            shutil.rmtree(left, ignore_errors=True)
        draft.mkdir(parents=True)
        try:
            yield draft
            if out.exists():
                out.rename(old)
            draft.rename(out)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
