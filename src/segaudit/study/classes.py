"""The planner and trainer that the settings name, nnU-Net's own or others, and where nnU-Net puts what they make."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import cache
from pathlib import Path
from typing import Any

from segaudit.errors import AuditError, Finding
from segaudit.study.environments import Settings, installed, use

_FIX = "give the name of a class of nnU-Net, or package.module:Class."
# What torchvision's extension would declare; without it the package cannot be imported.
_OPERATORS = ("nms", "qnms")
_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@cache
def planner_class(name: str) -> Any:
    """Return a planner.

    Raises
    ------
    AuditError
        STUDY_CLASS_UNKNOWN, STUDY_EXTRA_MISSING.
    """
    with installed():
        import nnunetv2
        from nnunetv2.experiment_planning.experiment_planners.default_experiment_planner import ExperimentPlanner
        from nnunetv2.utilities.find_class_by_name import recursive_find_python_class

    if ":" in name:
        return _named(name, ExperimentPlanner)
    folder = Path(nnunetv2.__path__[0]) / "experiment_planning"
    found = recursive_find_python_class(str(folder), name, "nnunetv2.experiment_planning")
    if found is None:
        raise AuditError(Finding("STUDY_CLASS_UNKNOWN", f"nnU-Net has no planner '{name}'.", "planner", _FIX))
    return found


def plans_name(planner: str) -> str:
    """Return the name of the plans that a planner writes."""
    return str(getattr(planner_class(planner), "plans", None) or _default(planner_class(planner)))


def plans_path(home: Path, dataset: str, settings: Settings) -> Path:
    """Return where the plans of a data set lie."""
    use(home, settings)  # before nnU-Net is imported to learn the planner's name for them
    return home / "preprocessed" / dataset / f"{plans_name(settings.planner)}.json"


def model_folder(home: Path, dataset: str, configuration: str, settings: Settings) -> Path:
    """Return nnU-Net's folder of the folds of a configuration."""
    plans = plans_path(home, dataset, settings).stem
    return home / "results" / dataset / f"{settings.trainer.rpartition(':')[2]}__{plans}__{configuration}"


def _default(planner: Any) -> Any:
    return inspect.signature(planner.__init__).parameters["plans_name"].default


@cache
def trainer_class(name: str) -> Any:
    """Return a trainer; torchvision is imported for none but those that nnU-Net has to look for.

    Raises
    ------
    AuditError
        STUDY_CLASS_UNKNOWN, STUDY_EXTRA_MISSING.
    """
    with installed():
        from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
        from nnunetv2.utilities.find_objects import recursive_find_trainer_class_by_name

    if ":" in name:
        return _named(name, nnUNetTrainer)
    if name == nnUNetTrainer.__name__:
        return nnUNetTrainer
    with installed():
        declare_operators()
        try:
            return recursive_find_trainer_class_by_name(name)
        except RuntimeError:
            fact = f"nnU-Net has no trainer '{name}'."
            raise AuditError(Finding("STUDY_CLASS_UNKNOWN", fact, "trainer", _FIX)) from None


def declare_operators() -> None:
    """Let torchvision be imported where its build does not fit that of torch: nnU-Net imports it, and uses nothing."""
    import torch

    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError, OSError):
        for module in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[module]
        for operator in _OPERATORS:
            if not hasattr(torch.ops.torchvision, operator):
                torch.library.define(f"torchvision::{operator}", _SCHEMA)


def _named(name: str, base: Any) -> Any:
    """Return package.module:Class."""
    module, _, own = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), own)
    except (ImportError, AttributeError, ValueError) as error:
        raise AuditError(Finding("STUDY_CLASS_UNKNOWN", f"'{name}' cannot be had: {error}.", name, _FIX)) from None
    if not (isinstance(found, type) and issubclass(found, base)):
        fact = f"'{name}' is no {base.__name__} of nnU-Net."
        raise AuditError(Finding("STUDY_CLASS_UNKNOWN", fact, name, _FIX))
    return found
