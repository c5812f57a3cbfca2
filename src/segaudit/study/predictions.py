"""What trained networks say of images: masks and probabilities of folds, their ensemble, and its largest piece."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.attributes import listing
from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.study.classes import model_folder, trainer_class
from segaudit.study.environments import Settings, engine, folder_in_one
from segaudit.study.raw import AGAIN, ENDING, write_json
from segaudit.study.resuming import FINAL, read_checkpoint
from segaudit.volumes import on_grid, read_header, read_labels

_DESCRIBED = ("plans.json", "dataset.json")


def predict(
    home: Path,
    dataset: str,
    configuration: str,
    folds: Sequence[int | str],
    images: Mapping[str, Path],
    out: Path,
    settings: Settings,
) -> None:
    """Predict images by the mean of some folds (nnU-Net takes that of their logits): masks and probabilities.

    The folder appears when every image is predicted.

    Parameters
    ----------
    home : Path
    dataset, configuration : str
    folds : sequence of int or str
    images : mapping of str to Path
        Image of each case; their names are free.
    out : Path
        Folder that gets <case>.nii.gz, <case>.npz and what an ensemble needs to know.
    settings : Settings

    Raises
    ------
    AuditError
        STUDY_NETWORK_MISSING, STUDY_PREDICTION_INCOMPLETE, STUDY_PREDICTION_GRID, STUDY_CLASS_UNKNOWN,
        STUDY_EXTRA_MISSING, DISK_FULL.
    """
    with engine(home, settings, out), folder_in_one(out) as draft:
        predictor = _predictor(home, dataset, configuration, folds, settings)
        write_json(draft / "dataset.json", predictor.dataset_json)
        write_json(draft / "plans.json", predictor.plans_manager.plans)
        files = [[str(path.absolute())] for path in images.values()]
        targets = [str(draft / case) for case in images]
        if files and settings.pools == "threads":
            batches = _one_by_one(files, targets, predictor)
            predictor.predict_from_data_iterator(batches, True, settings.exporters)  # noqa: FBT003
        elif files:
            predictor.predict_from_files(
                files,
                targets,
                save_probabilities=True,
                num_processes_preprocessing=settings.exporters,
                num_processes_segmentation_export=settings.exporters,
            )
            (draft / "predict_from_raw_data_args.json").unlink(missing_ok=True)  # it names the temporary folder
        raise_errors(_prediction_faults(draft, images, out))


def _one_by_one(files: Sequence[list[str]], targets: Sequence[str], predictor: Any) -> Iterator[dict[str, Any]]:
    """Yield preprocessed images as nnU-Net's processes do, without the processes."""
    import torch

    preprocessor = predictor.configuration_manager.preprocessor_class(verbose=False)
    told = (predictor.plans_manager, predictor.configuration_manager, predictor.dataset_json)
    for image, target in zip(files, targets, strict=True):
        data, _, properties = preprocessor.run_case(image, None, *told)
        yield {"data": torch.from_numpy(data).float(), "data_properties": properties, "ofile": target}


def _predictor(home: Path, dataset: str, configuration: str, folds: Sequence[int | str], settings: Settings) -> Any:
    """Return nnU-Net's predictor with the networks of some folds: built from the class itself, not from its name."""
    import torch
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
    from nnunetv2.utilities.label_handling.label_handling import determine_num_input_channels
    from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

    folder = model_folder(home, dataset, configuration, settings)
    files = [folder / f"fold_{fold}" / FINAL for fold in folds]
    found = [read_checkpoint(path) for path in files]
    raise_errors(
        Finding("STUDY_NETWORK_MISSING", f"{path.parent.name} of {folder.name}: {held}.", str(path), "train it first.")
        for path, held in zip(files, found, strict=True)
        if isinstance(held, str)
    )
    trained = [held for held in found if not isinstance(held, str)]
    described = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    described.pop("dataset", None)  # names of the training files, of no use here
    plans = PlansManager(str(folder / "plans.json"))
    chosen = plans.get_configuration(configuration)
    network = trainer_class(settings.trainer).build_network_architecture(
        plans,
        chosen,
        determine_num_input_channels(plans, chosen, described),
        plans.get_label_manager(described).num_segmentation_heads,
        enable_deep_supervision=False,
    )
    predictor = nnUNetPredictor(
        device=torch.device(settings.device), perform_everything_on_device=settings.device == "cuda", allow_tqdm=False
    )
    axes = trained[0]["inference_allowed_mirroring_axes"]
    weights = [one["network_weights"] for one in trained]
    network.load_state_dict(weights[0])
    trainer = settings.trainer.rpartition(":")[2]
    predictor.manual_initialization(network, plans, chosen, weights, described, trainer, axes)
    return predictor


def _prediction_faults(folder: Path, images: Mapping[str, Path], out: Path) -> Iterator[Finding]:
    for case, image in images.items():
        mask = folder / f"{case}{ENDING}"
        if not mask.is_file() or not (folder / f"{case}.npz").is_file():
            fact = f"case '{case}' was not predicted."
            yield Finding("STUDY_PREDICTION_INCOMPLETE", fact, str(out), "read the log of the step, and run again.")
            continue
        try:
            on_grid(read_labels(mask), read_header(image), str(image))
        except AuditError as error:
            fact = f"the mask of case '{case}' does not lie on the grid of its image: {error.findings[0].message}"
            fix = "write the image's affine with perpendicular axes, sform and qform alike."
            yield Finding("STUDY_PREDICTION_GRID", fact, str(image), fix)


def ensemble(folders: Sequence[Path], out: Path, settings: Settings) -> None:
    """Write the masks of the mean softmax of several folders of predictions, all of them or none.

    Raises
    ------
    AuditError
        STUDY_PREDICTION_INCOMPLETE, STUDY_EXTRA_MISSING, DISK_FULL.
    """
    cases = [{path.stem for path in folder.glob("*.npz")} for folder in folders]
    everyone = set[str]().union(*cases)
    lacking = [
        [*sorted(everyone - held), *(name for name in _DESCRIBED if not (folder / name).is_file())]
        for folder, held in zip(folders, cases, strict=True)
    ]
    raise_errors(
        Finding("STUDY_PREDICTION_INCOMPLETE", f"{folder.name} lacks {listing(names)}.", str(folder), AGAIN)
        for folder, names in zip(folders, lacking, strict=True)
        if names
    )
    with engine(folders[0].parent, settings, out), folder_in_one(out) as draft:
        from nnunetv2.ensembling.ensemble import ensemble_folders

        if everyone:
            ensemble_folders([str(folder) for folder in folders], str(draft), num_processes=settings.exporters)
        for name in _DESCRIBED:
            shutil.copyfile(folders[0] / name, draft / name)


def clean_up(folder: Path, out: Path, labels: Sequence[str], settings: Settings) -> pd.DataFrame:
    """Keep of each mask the largest connected piece of its whole foreground; return what went with the rest.

    Returns
    -------
    DataFrame
        A row a case: case, voxels_before, voxels_removed.

    Raises
    ------
    AuditError
        STUDY_EXTRA_MISSING, DISK_FULL.
    """
    with engine(folder.parent, settings, out), folder_in_one(out) as draft:
        from nnunetv2.postprocessing.remove_connected_components import (
            apply_postprocessing_to_folder,
            remove_all_but_largest_component_from_segmentation,
        )

        foreground = list(range(1, len(labels) + 1))
        apply_postprocessing_to_folder(
            str(folder),
            str(draft),
            [remove_all_but_largest_component_from_segmentation],
            [{"labels_or_regions": foreground}],
            num_processes=settings.exporters,
        )
        rows = []
        for path in sorted(folder.glob(f"*{ENDING}")):
            before, after = (int((read_labels(one / path.name).labels > 0).sum()) for one in (folder, draft))
            rows.append((path.name.removesuffix(ENDING), before, before - after))
    return pd.DataFrame(rows, columns=["case", "voxels_before", "voxels_removed"])
