"""nnU-Net: a raw data set folder (imagesTr, labelsTr, imagesTs, labelsTs, dataset.json) becomes a cohort."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.attributes import Attribute, listing
from segaudit.cohorts import Cohort, Kind, MaskSet, discover_masks, make_cohort, read_labels, with_mask_sets
from segaudit.errors import AuditError, Finding, Level, counted, raise_errors
from segaudit.loaders.base import LOADERS, Exclusion, Loader, excluded_table, existing_folder
from segaudit.participants import read_json

REFERENCE = "reference"
NO_LABEL = "no_label"
_FIX_JSON = "write dataset.json as nnU-Net version 2 reads it."
_CHANNEL = re.compile(r"(?P<case>.+)_(?P<channel>\d{4})")
_LINKED: tuple[tuple[str, str, Level], ...] = (
    ("images", "IMAGE_DANGLING", "warning"),
    ("labels", "MASK_DANGLING", "error"),
)
_PARTS = {"Tr": "training", "Ts": "test"}


@dataclass(frozen=True)
class _Files:
    """The files of one part: the channels of each image, the label of each case, and the names that are neither."""

    images: Mapping[str, frozenset[str]]
    labels: Mapping[str, Path]
    foreign: tuple[str, ...]


def load_nnunet(
    folder: str | PathLike[str],
    *,
    kind: Kind = "unknown",
    made_by: str = "",
    predictions: Mapping[str, str | PathLike[str]] | None = None,
    case_to_patient: str | None = None,
) -> Cohort:
    """Return the cohort of an nnU-Net raw data set folder: its labels are the mask set `reference`.

    Parameters
    ----------
    folder : path
        Holds dataset.json, and imagesTr, labelsTr, imagesTs, labelsTs as far as there are such; or, in place of these
        folders, the map `dataset` in dataset.json, with paths relative to it.
    kind, made_by : str
        Of the reference; the folder does not say.
    predictions : mapping of str to path, optional
        A mask set each: the folder of a model's predictions, named by case.
    case_to_patient : str, optional
        Regular expression whose one group is the patient in the name of a case; without it each case counts as a
        patient, with a warning.

    Returns
    -------
    Cohort
        The attribute `part` is training or test. An image without a label is excluded under the rule `no_label`; the
        findings count channels, images and files that are missing or too many.

    Raises
    ------
    AuditError
        FOLDER_MISSING; what reading dataset.json, its labels or a folder of masks raises; DATASET_FORMAT,
        LABELS_NONE, and what `make_cohort` raises.
    """
    home = existing_folder(Path(folder), "of an nnU-Net data set")
    file = home / "dataset.json"
    labels, ignore = read_labels(file)
    about = read_json(file, _FIX_JSON)
    channels, ending = _channels(about, file), str(about.get("file_ending", ".nii.gz"))
    parts = _listed(about, home, file) if "dataset" in about else _found(home, ending)
    masks = [(case, part, path) for part, files in parts.items() for case, path in sorted(files.labels.items())]
    findings = [note for part, files in parts.items() for note in _gaps(files, channels, part, home)]
    findings += [*_counts(about, parts, file), *_dangling(home)]
    if not masks:
        fact = f"there is no label in labelsTr or labelsTs that ends in '{ending}'."
        raise AuditError(Finding("LABELS_NONE", fact, str(home), "check the folder and file_ending."))
    findings += _doubled(masks, home)
    raise_errors(findings)
    reference = _set(REFERENCE, {case: path for case, _, path in masks}, kind, made_by, ignore)
    models = [
        MaskSet(name, discover_masks(path).assign(kind="machine"), "machine", ignore=ignore)
        for name, path in (predictions or {}).items()
    ]
    cohort = make_cohort(home.name, [reference], case_to_patient=case_to_patient, labels=labels, findings=findings)
    cohort = replace(
        _with_parts(cohort, {case: part for case, part, _ in masks}), excluded=excluded_table(_bare(parts))
    )
    return with_mask_sets(cohort, models)


def _set(name: str, paths: Mapping[str, Path], kind: Kind, made_by: str, ignore: int | None) -> MaskSet:
    cases = sorted(paths)
    table = pd.DataFrame({"case": cases, "path": [str(paths[case]) for case in cases], "kind": kind})
    return MaskSet(name, table, kind, made_by, ignore=ignore)


def _with_parts(cohort: Cohort, part_of: Mapping[str, str]) -> Cohort:
    cases = cohort.cases.assign(part=[_PARTS[part_of[case]] for case in cohort.cases["case"]])
    attributes = {**cohort.attributes, "part": Attribute("part", "level", "case", "")}
    return replace(cohort, cases=cases, attributes=attributes)


def _channels(about: Any, file: Path) -> frozenset[str]:
    """Return the channel suffixes that dataset.json declares (`modality` in the first nnU-Net)."""
    names = about.get("channel_names", about.get("modality"))
    numbers = [str(key) for key in names] if isinstance(names, dict) else []
    if not numbers or not all(number.isdigit() for number in numbers):
        fact = "channel_names does not number the channels."
        fix = 'write "channel_names": {"0": "T2"}.'
        raise AuditError(Finding("DATASET_FORMAT", fact, str(file), fix))
    return frozenset(f"{int(number):04d}" for number in numbers)


def _found(home: Path, ending: str) -> dict[str, _Files]:
    return {part: _files(home / f"images{part}", home / f"labels{part}", ending) for part in _PARTS}


def _files(images: Path, labels: Path, ending: str) -> _Files:
    channels: defaultdict[str, set[str]] = defaultdict(set)
    foreign, found = [], {}
    for path in _visible(images):
        match = _CHANNEL.fullmatch(path.name.removesuffix(ending)) if path.name.endswith(ending) else None
        if match:
            channels[match["case"]].add(match["channel"])
        else:
            foreign.append(f"{images.name}/{path.name}")
    for path in _visible(labels):
        if path.name.endswith(ending) and path.name != ending:
            found[path.name.removesuffix(ending)] = path
        else:
            foreign.append(f"{labels.name}/{path.name}")
    return _Files({case: frozenset(own) for case, own in channels.items()}, found, tuple(foreign))


def _visible(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _listed(about: Any, home: Path, file: Path) -> dict[str, _Files]:
    """Return the training cases that the map `dataset` of dataset.json lists."""
    entries, faults = about["dataset"], []
    fix = 'write "dataset": {"case": {"images": ["..."], "label": "..."}}.'
    if not isinstance(entries, dict):
        raise AuditError(Finding("DATASET_FORMAT", "dataset is no map of cases.", str(file), fix))
    images, labels = {}, {}
    for case, entry in entries.items():
        label = entry.get("label") if isinstance(entry, dict) else None
        own = entry.get("images") if isinstance(entry, dict) else None
        if not isinstance(label, str) or not isinstance(own, list) or not all(isinstance(one, str) for one in own):
            faults.append(Finding("DATASET_FORMAT", f"case '{case}' lacks images or a label.", str(file), fix))
            continue
        images[case] = frozenset(f"{i:04d}" for i, one in enumerate(own) if (home / one).is_file())
        labels[case] = home / label
        if not labels[case].is_file():
            fact = f"the label of case '{case}' is not there ({label})."
            faults.append(Finding("MASK_DANGLING", fact, str(file), "fetch it, or remove the case."))
    raise_errors(faults)
    return {"Tr": _Files(images, labels, ())}


def _gaps(files: _Files, channels: frozenset[str], part: str, home: Path) -> Iterator[Finding]:
    where = f"{home}, images{part} and labels{part}"
    alone = sorted(files.images.keys() - files.labels.keys())
    bare = sorted(files.labels.keys() - files.images.keys())
    if alone:
        fact = f"{counted(len(alone), 'image has', 'images have')} no label ({listing(alone)})."
        fix = "add the labels; these cases are excluded."
        yield Finding("IMAGE_WITHOUT_LABEL", fact, where, fix, "warning" if part == "Tr" else "note")
    if bare:
        fact = f"{counted(len(bare), 'label has', 'labels have')} no image ({listing(bare)})."
        yield Finding("LABEL_WITHOUT_IMAGE", fact, where, "add the images, or remove the labels.", "warning")
    lacking = [
        f"{case}: {', '.join(sorted(channels - own))}" for case, own in sorted(files.images.items()) if channels - own
    ]
    surplus = [
        f"{case}: {', '.join(sorted(own - channels))}" for case, own in sorted(files.images.items()) if own - channels
    ]
    for code, what, cases in (("CHANNEL_MISSING", "without", lacking), ("CHANNEL_UNKNOWN", "with undeclared", surplus)):
        if cases:
            images = counted(len(cases), "image")
            fact = f"{images} {what} channels ({listing(cases)}); declared: {', '.join(sorted(channels))}."
            yield Finding(code, fact, where, "name the files <case>_0000, or mend channel_names.", "warning")
    if files.foreign:
        are = counted(len(files.foreign), "file is", "files are")
        fact = f"{are} neither image nor label ({listing(files.foreign)})."
        yield Finding("FILES_FOREIGN", fact, where, "remove them, or mend file_ending.", "warning")


def _dangling(home: Path) -> Iterator[Finding]:
    """Yield the links that lead to no file: left from an earlier build, or data that was moved."""
    for kind, code, level in _LINKED:
        gone = [f"{path.parent.name}/{path.name}" for part in _PARTS for path in _visible(home / f"{kind}{part}")
                if not path.exists()]  # fmt: skip
        if gone:
            fact = f"{counted(len(gone), 'link leads', 'links lead')} to no file ({listing(gone)})."
            yield Finding(code, fact, str(home), "build the folder anew, or fetch the files.", level)


def _counts(about: Any, parts: Mapping[str, _Files], file: Path) -> Iterator[Finding]:
    declared, held = about.get("numTraining"), len(parts["Tr"].labels)
    if declared is not None and declared != held:
        fact = f"numTraining is {declared}, and there are {held} training labels."
        fix = "a folder that was built twice holds files of both: build it anew, or mend numTraining."
        yield Finding("TRAINING_COUNT", fact, str(file), fix, "warning")


def _doubled(masks: list[tuple[str, str, Path]], home: Path) -> Iterator[Finding]:
    cases = [case for case, *_ in masks]
    twice = sorted({case for case in cases if cases.count(case) > 1}) if len(set(cases)) < len(cases) else []
    if twice:
        fact = f"{counted(len(twice), 'case is', 'cases are')} both training and test ({listing(twice)})."
        yield Finding("CASE_IN_TWO_PARTS", fact, str(home), "keep each case in one part.")


def _bare(parts: Mapping[str, _Files]) -> list[Exclusion]:
    return [
        (case, NO_LABEL, f"images{part} has its image, labels{part} no label")
        for part, files in parts.items()
        for case in files.images.keys() - files.labels.keys()
    ]


LOADERS.register(Loader("nnunet", "nnU-Net raw data set folder", load_nnunet))
