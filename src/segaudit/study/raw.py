"""The raw data set of a regime: every file checked before it is used, and a fresh folder that holds nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from segaudit.attributes import listing
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.files import read_file
from segaudit.provenance import digest_file, digest_json
from segaudit.splits import TrainVal, check_folds, write_nnunet_splits
from segaudit.store import atomic
from segaudit.study.environments import folder_in_one
from segaudit.volumes import Grid, LabelVolume, on_grid, read_header, read_labels, write_labels
from segaudit.volumes.digests import content_digest

ENDING = ".nii.gz"
MANIFEST = "manifest.json"
LABELS = "labelsTr"
SPLITS = "splits_final.json"
_MOST_BYTES = 1 << 28
_MOST_PROCESSES = 8
_PERPENDICULAR = 1e-4
"""Largest cosine between two axes of an image that nnU-Net's reader (ITK) takes for perpendicular."""
_ALONE = 200
"""Cases up to which one process reads them all."""
_ONE_CHANNEL = "give one 3-D volume of one channel."
_COPIED_WHEN = {"GRID_REORIENTED", "IMAGE_ROUNDED", "IMAGE_EXTENSION"}
AGAIN = "run the study again: the step that makes it begins anew."


@dataclass(frozen=True)
class RawCase:
    """A case with its files.

    Attributes
    ----------
    case : str
    image : Path
    label : Path or None
        None for a case that is only predicted.
    coding : mapping of str to tuple of int
        The values that stand for each label in the label file.
    """

    case: str
    image: Path
    label: Path | None
    coding: Mapping[str, tuple[int, ...]]


def check_volumes(cases: Sequence[RawCase], labels: Mapping[str, Sequence[int]]) -> list[Finding]:
    """Return what is wrong with images and labels, every file read to its end.

    Parameters
    ----------
    cases : sequence of RawCase
    labels : mapping of str to sequence of int
        The labels that a network shall learn.

    Returns
    -------
    list of Finding
        Errors: the codes of `read_labels` on files that cannot be read; STUDY_IMAGE_CHANNELS, STUDY_IMAGE_SHEARED,
        GRID_MISMATCH, STUDY_LABEL_VALUE, STUDY_LABEL_UNCODED. Warning STUDY_LABEL_EMPTY.
    """
    names = tuple(labels)
    if len(cases) <= _ALONE:
        return [finding for one in cases for finding in _check(one, names)]
    with ProcessPoolExecutor(min(os.cpu_count() or 1, _MOST_PROCESSES), get_context("spawn")) as pool:
        found = pool.map(_check, cases, [names] * len(cases), chunksize=8)
        return [finding for some in found for finding in some]


def _check(one: RawCase, names: Sequence[str]) -> list[Finding]:
    """Return what is wrong with a case, each fault with the case's name."""
    found: list[Finding] = []
    grid = None
    try:
        grid = read_header(one.image)
        content_digest(one.image)
    except AuditError as error:
        found += [_of_image(one, finding) for finding in error.findings]
    if grid is not None and len(grid.shape) != 3:
        fact = f"the image of case '{one.case}' has {len(grid.shape)} dimensions."
        found.append(Finding("STUDY_IMAGE_CHANNELS", fact, str(one.image), _ONE_CHANNEL))
    elif grid is not None and (cosine := _cosine(grid)) > _PERPENDICULAR:
        fact = f"the axes of the image of case '{one.case}' are not perpendicular (cosine {cosine:.2g})."
        fix = "resample it to perpendicular axes, for nnU-Net does not read it; or leave the case out with a reason."
        found.append(Finding("STUDY_IMAGE_SHEARED", fact, str(one.image), fix))
    if one.label is None:
        return found
    try:
        volume = read_labels(one.label)
        if grid is not None:
            volume = on_grid(volume, grid, str(one.label))
    except AuditError as error:
        return found + [_named(finding, f"label of case '{one.case}'") for finding in error.findings]
    return found + list(_check_values(one, volume, names))


def _of_image(one: RawCase, finding: Finding) -> Finding:
    if finding.code == "IMAGE_DIMENSIONS":
        fact = f"image of case '{one.case}': {finding.message}"
        return Finding("STUDY_IMAGE_CHANNELS", fact, finding.where, _ONE_CHANNEL)
    return _named(finding, f"image of case '{one.case}'")


def _cosine(grid: Grid) -> float:
    """Return the largest cosine between two axes of a grid."""
    axes = np.array(grid.affine)[:3, :3] / np.array(grid.spacing_mm)
    return float(np.abs(axes.T @ axes - np.eye(3)).max())


def _named(finding: Finding, whose: str) -> Finding:
    return Finding(finding.code, f"{whose}: {finding.message}", finding.where, finding.fix, finding.level)


def _check_values(one: RawCase, volume: LabelVolume, names: Sequence[str]) -> Iterator[Finding]:
    where = str(one.label)
    uncoded = [name for name in names if not one.coding.get(name)]
    if uncoded:
        fact = f"no value of case '{one.case}' stands for {listing(uncoded)}."
        yield Finding("STUDY_LABEL_UNCODED", fact, where, "name the values of each label: labels of the mask set.")
    held = {int(value) for value in np.unique(volume.labels)} - {0}
    known = {value for name in names for value in one.coding.get(name, ())}
    if strange := sorted(held - known):
        fact = (
            f"the label of case '{one.case}' holds {listing([str(v) for v in strange])}; known are"
            f" {listing([str(v) for v in sorted(known)])}."
        )
        yield Finding("STUDY_LABEL_VALUE", fact, where, "mend the file, or name the value in the labels of the set.")
    if not held & known:
        fact = f"the label of case '{one.case}' holds no voxel of {listing(list(names))}."
        yield Finding("STUDY_LABEL_EMPTY", fact, where, "check that it is meant to be empty.", "warning")


def write_raw(
    home: Path,
    dataset: str,
    cases: Sequence[RawCase],
    labels: Mapping[str, Sequence[int]],
    pairs: Sequence[TrainVal],
    channel: str,
) -> str:
    """Write the raw data set of nnU-Net anew, and return the digest of what it holds, wherever its files lie.

    Images and labels stay where they are and are named in dataset.json; only a label whose values, order of voxels or
    kind of file nnU-Net would not read as meant is written again.

    Parameters
    ----------
    home : Path
        Folder with nnU-Net's folder `raw`.
    dataset : str
        Such as Dataset501_mixed.
    cases : sequence of RawCase
    labels : mapping of str to sequence of int
        The labels in the order of their numbers: the first is 1.
    pairs : sequence of TrainVal
        A pair a fold; empty when one network learns from all cases.
    channel : str
        Name of the image's channel; it decides how nnU-Net normalises (CT differs from all others).

    Raises
    ------
    AuditError
        The codes of `check_folds`, those of files that cannot be read, GRID_MISMATCH, STUDY_RAW_COUNT, DISK_FULL.
    """
    names = sorted(one.case for one in cases)
    check_pairs(pairs, names, f"folds of {dataset}")
    folder = home / "raw" / dataset
    with folder_in_one(folder) as draft:
        (draft / LABELS).mkdir()
        rows = [_row(one, folder, draft, list(labels)) for one in sorted(cases, key=lambda one: one.case)]
        told = {
            "channel_names": {"0": channel},
            "labels": {"background": 0, **{name: i for i, name in enumerate(labels, 1)}},
            "numTraining": len(rows),
            "file_ending": ENDING,
            "dataset": {row["case"]: {"images": [row["image"]], "label": row["used"]} for row in rows},
        }
        if not any((draft / LABELS).iterdir()):
            (draft / LABELS).rmdir()
        write_json(draft / "dataset.json", told)
        write_json(draft / MANIFEST, {"dataset": dataset, "channel": channel, "labels": list(labels), "cases": rows})
        if pairs:
            write_nnunet_splits(pairs, draft / SPLITS)
        raise_errors(_counts(draft, dataset, read_manifest(draft)))
    held = [[row["case"], *(row[f"{what}_sha256"] for what in ("image", "label", "used"))] for row in rows]
    return digest_json([dataset, channel, list(labels), held])


def check_pairs(pairs: Sequence[TrainVal], cases: Sequence[str], where: str) -> None:
    """Raise the faults of folds that nnU-Net itself would pass over: unknown cases, a case on both sides, no case."""
    raise_errors(check_folds(pairs, None, cases=cases, where=where) if pairs else [])


def _row(one: RawCase, folder: Path, draft: Path, labels: Sequence[str]) -> dict[str, Any]:
    """Return the row of the manifest of a case; write its label again where that is needed."""
    if one.label is None:
        raise AuditError(Finding("FILE_MISSING", f"case '{one.case}' has no label.", one.case, "give its label."))
    grid = read_header(one.image)
    volume = on_grid(read_labels(one.label), grid, str(one.label))
    used = one.label.absolute()
    if not _as_it_is(one, volume, labels):
        used = folder / LABELS / f"{one.case}{ENDING}"
        write_labels(draft / LABELS / used.name, _recoded(volume, one, labels), affine=grid.affine)
    written = draft / LABELS / used.name if used.parent == folder / LABELS else used
    return {
        "case": one.case,
        "image": str(one.image.absolute()),
        "image_sha256": digest_file(one.image),
        "label": str(one.label.absolute()),
        "label_sha256": digest_file(one.label),
        "used": f"{LABELS}/{used.name}" if written != used else str(used),
        "used_sha256": digest_file(written),
    }


def _as_it_is(one: RawCase, volume: LabelVolume, labels: Sequence[str]) -> bool:
    """Tell whether nnU-Net reads the label file as it is meant."""
    numbered = all(tuple(one.coding.get(name, ())) == (i,) for i, name in enumerate(labels, 1))
    changed = {finding.code for finding in volume.findings} & _COPIED_WHEN
    return numbered and not changed and str(one.label).endswith(ENDING) and int(volume.labels.max()) <= len(labels)


def _recoded(volume: LabelVolume, one: RawCase, labels: Sequence[str]) -> np.ndarray[Any, Any]:
    found = np.zeros(volume.labels.shape, np.uint8, order="F")
    for i, name in enumerate(labels, 1):
        found[np.isin(volume.labels, one.coding.get(name, ()))] = i
    return found


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what a raw data set holds.

    Raises
    ------
    AuditError
        STUDY_RAW_MISSING.
    """
    path = folder / MANIFEST
    try:
        found: dict[str, Any] = json.loads(read_file(path, _MOST_BYTES, what="JSON"))
    except (AuditError, ValueError):
        fact = f"{folder} holds no prepared data set."
        raise AuditError(Finding("STUDY_RAW_MISSING", fact, str(path), AGAIN)) from None
    return found


def check_folder(home: Path, dataset: str) -> list[Finding]:
    """Return where the folder of a raw data set does not hold what was written, and nothing else; no file is read.

    Codes: STUDY_RAW_MISSING, STUDY_RAW_STALE, STUDY_RAW_COUNT.
    """
    folder = home / "raw" / dataset
    try:
        return _counts(folder, dataset, read_manifest(folder))
    except AuditError as error:
        return list(error.findings)


def check_raw(home: Path, dataset: str) -> list[Finding]:
    """Return what has changed in a raw data set since it was written; empty when nothing has.

    Codes: those of `check_folder`, STUDY_FILE_CHANGED, STUDY_FILE_GONE.
    """
    folder = home / "raw" / dataset
    found = check_folder(home, dataset)
    if any(finding.code == "STUDY_RAW_MISSING" for finding in found):
        return found
    for row in read_manifest(folder)["cases"]:
        files = [("image", row["image"], row["image_sha256"]), ("label", row["label"], row["label_sha256"])]
        if row["used"] != row["label"]:
            files.append(("re-coded label", str(folder / row["used"]), row["used_sha256"]))
        found += [fault for what, path, sha in files if (fault := _file_fault(row["case"], what, Path(path), sha))]
    return found


def _file_fault(case: str, what: str, path: Path, sha256: str) -> Finding | None:
    try:
        if digest_file(path) == sha256:
            return None
    except AuditError as error:
        fact = f"the {what} of case '{case}' is gone: {error.findings[0].message}"
        return Finding("STUDY_FILE_GONE", fact, str(path), "bring it back, or leave the case out.")
    fact = f"the {what} of case '{case}' is not what was prepared."
    return Finding("STUDY_FILE_CHANGED", fact, str(path), AGAIN)


def _counts(folder: Path, dataset: str, manifest: Mapping[str, Any]) -> list[Finding]:
    """Return where the folder does not hold what its manifest says, and nothing else."""
    cases = {row["case"] for row in manifest["cases"]}
    again = {row["used"] for row in manifest["cases"] if row["used"].startswith(f"{LABELS}/")}
    expected = again | {MANIFEST, "dataset.json", SPLITS}
    held = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    found = []
    if strange := sorted(held - expected):
        fact = f"{dataset} holds {counted(len(strange), 'file')} that no case accounts for ({listing(strange)})."
        found.append(Finding("STUDY_RAW_STALE", fact, str(folder), AGAIN))
    if gone := sorted(expected - held - {SPLITS}):
        fact = f"{dataset} lacks {counted(len(gone), 'file')} ({listing(gone)})."
        found.append(Finding("STUDY_RAW_COUNT", fact, str(folder), AGAIN))
    told = _dataset(folder)
    named = set(told.get("dataset", {}))
    if named != cases or told.get("numTraining") != len(cases) or len(cases) != len(manifest["cases"]):
        fact = f"dataset.json of {dataset} names {counted(len(named), 'case')}, the manifest {len(manifest['cases'])}"
        odd = sorted(named ^ cases)
        found.append(Finding("STUDY_RAW_COUNT", f"{fact} ({listing(odd)}).", str(folder / "dataset.json"), AGAIN))
    return found


def _dataset(folder: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def write_json(path: Path, value: Any) -> None:
    """Write a JSON value, whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
