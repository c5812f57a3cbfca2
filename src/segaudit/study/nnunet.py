"""Thin calls of nnU-Net, the same for a study and for its miniature; each checks what nnU-Net would pass over."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from segaudit.attributes import listing
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.splits import TrainVal, read_nnunet_splits
from segaudit.study.classes import model_folder, planner_class, plans_name, plans_path, trainer_class
from segaudit.study.environments import AUGMENTERS, Settings, engine, folder_in_one, installed, use
from segaudit.study.predictions import clean_up, ensemble, predict
from segaudit.study.raw import AGAIN, ENDING, SPLITS, check_pairs, read_manifest, write_json
from segaudit.study.resuming import faults_of, go_on, guard, seed_all

__all__ = [
    "Settings",
    "clean_up",
    "device_name",
    "ensemble",
    "fold_folder",
    "plan",
    "plans_name",
    "predict",
    "preprocess",
    "same_plan",
    "share_plan",
    "train",
    "training_faults",
    "use",
]

FINGERPRINT = "dataset_fingerprint.json"


def device_name(settings: Settings) -> str:
    """Return the board's name, by which its power is declared; cpu or mps where there is none."""
    if settings.device != "cuda":
        return settings.device
    with installed():
        import torch
    return str(torch.cuda.get_device_name())


def plan(home: Path, dataset: str, settings: Settings) -> Path:
    """Return the plans file made from the fingerprint of a data set; what was preprocessed for it before is removed.

    Raises
    ------
    AuditError
        STUDY_RAW_MISSING, STUDY_CLASS_UNKNOWN, STUDY_EXTRA_MISSING, DISK_FULL.
    """
    read_manifest(home / "raw" / dataset)
    folder = home / "preprocessed" / dataset
    with engine(home, settings, folder):
        trainer_class(settings.trainer)  # a name that is wrong shall not wait until everything is preprocessed
        shutil.rmtree(folder, ignore_errors=True)
        maker = planner_class(settings.planner)
        _fingerprint(dataset, settings)
        memory = {} if settings.gpu_memory_gb is None else {"gpu_memory_target_in_gb": settings.gpu_memory_gb}
        augmenters = os.environ[AUGMENTERS]
        os.environ[AUGMENTERS] = str(max(1, settings.augmenters))  # the planner takes it for a thread count
        try:
            maker(dataset, **memory).plan_experiment()
        finally:
            os.environ[AUGMENTERS] = augmenters
    return plans_path(home, dataset, settings)


def _fingerprint(dataset: str, settings: Settings) -> None:
    from nnunetv2.experiment_planning.dataset_fingerprint.fingerprint_extractor import DatasetFingerprintExtractor

    extractor = DatasetFingerprintExtractor(dataset, settings.exporters)
    extractor.show_progress_bar = False
    if voxels := getattr(planner_class(settings.planner), "fingerprint_voxels", None):
        extractor.num_foreground_voxels_for_intensitystats = voxels
    extractor.run(overwrite_existing=True)


def share_plan(home: Path, source: str, dataset: str, settings: Settings) -> None:
    """Give a data set the plan of another, with the fingerprint that it rests on.

    Raises
    ------
    AuditError
        STUDY_PLAN_MISSING, STUDY_RAW_MISSING, STUDY_EXTRA_MISSING, DISK_FULL.
    """
    read_manifest(home / "raw" / dataset)
    plans = _plans(home, source, settings)
    folder = home / "preprocessed" / dataset
    with engine(home, settings, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copyfile(home / "preprocessed" / source / FINGERPRINT, folder / FINGERPRINT)
        write_json(plans_path(home, dataset, settings), {**plans, "dataset_name": dataset})


def same_plan(home: Path, datasets: Sequence[str], settings: Settings) -> list[Finding]:
    """Return in what the plans of data sets differ but for the data set's name; empty when in nothing."""
    first, *others = datasets
    ours = {**_plans(home, first, settings), "dataset_name": ""}
    found = []
    for name in others:
        theirs = {**_plans(home, name, settings), "dataset_name": ""}
        if different := list(_differences(ours, theirs)):
            fact = f"the plans of {first} and {name} differ in {listing(different)}."
            where = str(plans_path(home, name, settings))
            found.append(Finding("STUDY_PLAN_DIFFERS", fact, where, AGAIN))
    return found


def _differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differences(one.get(key), other.get(key), f"{place}.{key}".lstrip("."))
    elif one != other:
        yield place


def preprocess(home: Path, dataset: str, configurations: Sequence[str], settings: Settings) -> None:
    """Preprocess a data set anew for each configuration, and count what came out.

    Raises
    ------
    AuditError
        STUDY_RAW_MISSING, STUDY_PLAN_MISSING, STUDY_CONFIGURATION_UNKNOWN, STUDY_PREPROCESSED_COUNT,
        STUDY_EXTRA_MISSING, DISK_FULL.
    """
    raw, folder = home / "raw" / dataset, home / "preprocessed" / dataset
    manifest = read_manifest(raw)
    check_configurations(home, dataset, configurations, settings)
    with engine(home, settings, folder):
        from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

        (folder / SPLITS).unlink(missing_ok=True)
        for name in ("dataset.json", SPLITS):
            if (raw / name).is_file():
                shutil.copyfile(raw / name, folder / name)
        with folder_in_one(folder / "gt_segmentations") as draft:
            for row in manifest["cases"]:
                shutil.copyfile(raw / row["used"], draft / f"{row['case']}{ENDING}")
        manager = PlansManager(str(plans_path(home, dataset, settings)))
        for name in configurations:
            found = manager.get_configuration(name)
            preprocessor = found.preprocessor_class(verbose=False)
            preprocessor.show_progress_bar = False
            preprocessor.run(dataset, name, plans_name(settings.planner), num_processes=settings.exporters)
            _count_preprocessed(folder / found.data_identifier, [row["case"] for row in manifest["cases"]])


def check_configurations(home: Path, dataset: str, configurations: Sequence[str], settings: Settings) -> None:
    """Raise STUDY_CONFIGURATION_UNKNOWN for every configuration that the plan of a data set does not have."""
    known = _plans(home, dataset, settings)["configurations"]
    where = str(plans_path(home, dataset, settings))
    raise_errors(
        Finding("STUDY_CONFIGURATION_UNKNOWN", f"the plan has no '{name}'.", where, did_you_mean(name, known))
        for name in configurations
        if name not in known
    )


def _count_preprocessed(folder: Path, cases: Sequence[str]) -> None:
    """Raise when a file is not there or too many: the fold `all` learns from whatever lies in the folder."""
    expected = {f"{case}{end}" for case in cases for end in (".pkl", ".b2nd", "_seg.b2nd")}
    if odd := sorted({path.name for path in folder.glob("*")} ^ expected):
        fact = f"{folder.name} does not hold the {len(cases)} cases of the data set and nothing else ({listing(odd)})."
        raise AuditError(Finding("STUDY_PREPROCESSED_COUNT", fact, str(folder), AGAIN))


def train(home: Path, dataset: str, configuration: str, fold: int | str, settings: Settings) -> None:
    """Train a fold to its end and validate it; a fold that is finished is left as it is.

    It goes on from the latest checkpoint that loads; one that does not is set aside and named in nnU-Net's log.
    Checkpoints are written whole. What comes of a killed training depends on the settings: see `Settings.seed`.

    Raises
    ------
    AuditError
        STUDY_FOLD_UNKNOWN and the codes of `check_folds`, before anything is trained; STUDY_PLAN_MISSING,
        STUDY_CLASS_UNKNOWN, STUDY_EXTRA_MISSING, DISK_FULL.
    """
    _pair(home, dataset, fold)
    plans = _plans(home, dataset, settings)
    folder = home / "results" / dataset
    with engine(home, settings, folder):
        if not training_faults(home, dataset, configuration, fold, settings):
            return
        import torch

        described = json.loads((home / "preprocessed" / dataset / "dataset.json").read_text(encoding="utf-8"))
        if settings.seed is not None:
            seed_all(settings.seed, configuration, fold, "start")
        maker = trainer_class(settings.trainer)
        trainer = maker(
            {**plans, "continue_training": True}, configuration, fold, described, torch.device(settings.device)
        )
        guard(trainer, settings.seed, configuration, fold)
        if settings.device == "cuda":
            torch.backends.cudnn.benchmark = True
        if not go_on(trainer):
            trainer.run_training()
        shutil.rmtree(Path(trainer.output_folder) / "validation", ignore_errors=True)
        trainer.perform_actual_validation(save_probabilities=True)


def training_faults(home: Path, dataset: str, configuration: str, fold: int | str, settings: Settings) -> list[str]:
    """Return why a fold does not count as trained; empty when it does.

    It is judged by its files: the final checkpoint loads, the validation's summary and probabilities hold every
    validation case, and the logged numbers of cases are those of the split.
    """
    folder = fold_folder(home, dataset, configuration, fold, settings)
    return faults_of(folder, _pair(home, dataset, fold), logged=fold != "all")


def fold_folder(home: Path, dataset: str, configuration: str, fold: int | str, settings: Settings) -> Path:
    """Return nnU-Net's folder of a trained fold."""
    return model_folder(home, dataset, configuration, settings) / f"fold_{fold}"


def _pair(home: Path, dataset: str, fold: int | str) -> TrainVal:
    """Return the cases of a fold: nnU-Net itself would split at random where the list of folds is too short."""
    cases = [row["case"] for row in read_manifest(home / "raw" / dataset)["cases"]]
    if fold == "all":
        return TrainVal(tuple(cases), tuple(cases))
    path = home / "preprocessed" / dataset / SPLITS
    pairs = read_nnunet_splits(path)
    check_pairs(pairs, cases, str(path))
    if not (isinstance(fold, int) and 0 <= fold < len(pairs)):
        fact = f"there is no fold {fold}: {path.name} holds {len(pairs)}."
        raise AuditError(Finding("STUDY_FOLD_UNKNOWN", fact, str(path), f"give 0 to {len(pairs) - 1}."))
    return pairs[fold]


def _plans(home: Path, dataset: str, settings: Settings) -> dict[str, Any]:
    path = plans_path(home, dataset, settings)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        fact = f"there is no plan of {dataset}."
        raise AuditError(Finding("STUDY_PLAN_MISSING", fact, str(path), AGAIN)) from None
    return found
