"""Trainings that may be killed: checkpoints written whole, found again, and told from finished ones by their files."""

from __future__ import annotations

import json
import os
import pickle
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from segaudit.attributes import listing
from segaudit.provenance import digest_json
from segaudit.splits import TrainVal
from segaudit.study.environments import having_room

FINAL = "checkpoint_final.pth"
ONGOING = ("checkpoint_latest.pth", "checkpoint_best.pth")
"""Of two of the same epoch the second was written later."""
_HELD = {"network_weights", "optimizer_state", "current_epoch", "init_args"}
_UNLOADABLE = (RuntimeError, OSError, EOFError, ValueError, KeyError, AttributeError, pickle.UnpicklingError)
_LOGGED = re.compile(r"split has (\d+) training and (\d+) validation cases")


def seed_all(*parts: object) -> None:
    """Seed torch, NumPy and Python from what the parts say together."""
    import torch

    number = int(digest_json(parts)[:8], 16)
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002  (the state that nnU-Net draws from)
    torch.manual_seed(number)


def guard(trainer: Any, seed: int | None, configuration: str, fold: int | str) -> None:
    """Let a trainer write checkpoints whole and, given a seed, draw the same numbers in an epoch however it came there.

    Initial weights do not depend on the data set, so that regimes differ in nothing but their data.
    """
    save, begin, make = trainer.save_checkpoint, trainer.on_epoch_start, trainer.get_training_transforms

    def whole(filename: str) -> None:
        draft = Path(f"{filename}.part")
        try:
            with having_room(Path(filename)):
                save(str(draft))
                with draft.open("rb") as file:
                    os.fsync(file.fileno())
                draft.replace(filename)
        finally:
            draft.unlink(missing_ok=True)

    def seeded() -> None:
        seed_all(seed, configuration, fold, trainer.current_epoch)
        begin()

    def steady(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        for one in made.transforms:
            inner = getattr(one, "transform", one)
            if getattr(inner, "benchmark", False):
                inner.benchmark = False  # else blurring takes the way that is faster at that moment
        return made

    trainer.save_checkpoint = whole
    if seed is not None:
        trainer.on_epoch_start, trainer.get_training_transforms = seeded, steady


def go_on(trainer: Any) -> bool:
    """Bring a trainer to the latest checkpoint that loads; return whether that is the final one."""
    folder = Path(trainer.output_folder)
    for left in folder.glob("*.pth.part"):
        left.unlink()
    for names in ((FINAL,), ONGOING):
        epochs = [(_epochs(folder / name, trainer.print_to_log_file), i, name) for i, name in enumerate(names)]
        done, _, name = max(epochs)
        if done:
            trainer.load_checkpoint(str(folder / name))
            trainer.print_to_log_file(f"Going on after {done} epochs.")
            return name == FINAL
    return False


def _epochs(path: Path, log: Callable[[str], None]) -> int:
    """Return the epochs that a checkpoint comes after, 0 when there is none; one that does not load is set aside."""
    if not path.is_file():
        return 0
    held = read_checkpoint(path)
    if not isinstance(held, str):
        return int(held["current_epoch"])
    aside = path.with_name(f"{path.name}.corrupt")
    path.replace(aside)
    log(f"{path.name} does not load ({held}); it is now {aside.name}.")
    return 0


def read_checkpoint(path: Path) -> dict[str, Any] | str:
    """Return a checkpoint, or why it does not load."""
    import torch

    try:
        held = torch.load(path, map_location="cpu", weights_only=False)
    except FileNotFoundError:
        return f"there is no {path.name}"
    except _UNLOADABLE as error:
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    if not isinstance(held, dict) or not held.keys() >= _HELD:
        return "it holds no training"
    return held


def faults_of(folder: Path, pair: TrainVal, *, logged: bool) -> list[str]:
    """Return why a fold's folder does not hold a finished training; empty when it does.

    Parameters
    ----------
    folder : Path
    pair : TrainVal
        Its cases.
    logged : bool
        Whether nnU-Net logs the numbers of cases: it does not for the fold `all`.
    """
    found = list(_checkpoint(folder / FINAL))
    if found:
        return found
    return [*_validation(folder / "validation", set(pair.val)), *(_logs(folder, pair) if logged else ())]


def _checkpoint(path: Path) -> Iterator[str]:
    if not path.is_file():
        yield f"there is no {path.name}"
    elif isinstance(fault := read_checkpoint(path), str):
        yield f"{path.name} does not load ({fault})"


def _validation(folder: Path, cases: set[str]) -> Iterator[str]:
    try:
        scored = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["metric_per_case"]
    except (OSError, ValueError, KeyError, TypeError):
        yield "there is no validation/summary.json"
        return
    held = {path.stem for path in folder.glob("*.npz")}
    if held != cases or len(scored) != len(cases):
        yield (
            f"the validation holds {len(held)} cases and scores {len(scored)}, the split has {len(cases)}"
            f" ({listing(sorted(held ^ cases))})"
        )


def _logs(folder: Path, pair: TrainVal) -> Iterator[str]:
    told = {
        (int(train), int(val))
        for path in folder.glob("training_log_*.txt")
        for train, val in _LOGGED.findall(path.read_text(encoding="utf-8", errors="replace"))
    }
    expected = (len(pair.train), len(pair.val))
    if told != {expected}:
        counts = listing([f"{train} training and {val} validation cases" for train, val in sorted(told)]) or "nothing"
        yield f"its log tells of {counts}, the split of {expected[0]} and {expected[1]}"
