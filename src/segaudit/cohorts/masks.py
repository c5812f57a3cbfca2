"""Find the masks in a folder, and read what their values mean."""

from __future__ import annotations

import glob
import re
import unicodedata
from collections import defaultdict
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from segaudit.attributes import listing
from segaudit.cohorts.base import Labels
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.participants import read_json

MASK_SUFFIXES = (".nii.gz", ".nii", ".png")


def discover_masks(
    folder: str | PathLike[str], pattern: str | None = None, *, within: Path | None = None
) -> pd.DataFrame:
    """Return the masks in a folder, one row a case (case, path), sorted by case.

    Parameters
    ----------
    folder : path
        Hidden files in it are passed over.
    pattern : str, optional
        Where the mask of a case lies, such as "{case}.nii.gz", "{case}/seg.nii.gz" or "sub-*/{case}_mask.nii.gz"; by
        default every .nii.gz, .nii and .png file in the folder itself.
    within : Path, optional
        A link may lead anywhere in this folder or the mask folder, not out of both; by default anywhere.

    Raises
    ------
    AuditError
        FOLDER_MISSING, FOLDER_UNREADABLE, MASK_PATTERN, MASKS_NONE, MASK_DOUBLED, MASK_DANGLING, MASK_NAME or
        PATH_ESCAPES.
    """
    folder = Path(folder)
    names = _listed(folder, pattern)
    found: defaultdict[str, list[Path]] = defaultdict(list)
    rule = _rule(pattern, str(folder)) if pattern is not None else None
    for name in names:
        if any(part.startswith(".") for part in name.parts):
            continue
        case = _case(name, rule)
        if case is not None:
            found[unicodedata.normalize("NFC", case)].append(folder / name)
    if not found:
        what = f"matches '{pattern}'" if pattern else f"ends in {', '.join(MASK_SUFFIXES)}"
        fact = f"no file {what} among {len(names)}" + (f" ({listing(sorted(names), 3)})." if names else ".")
        raise AuditError(Finding("MASKS_NONE", fact, str(folder), "check the folder and the pattern."))
    raise_errors(_faults(found, folder, within))
    cases = sorted(found)
    return pd.DataFrame({"case": cases, "path": [str(found[case][0]) for case in cases]})


def _listed(folder: Path, pattern: str | None) -> list[Path]:
    """Return the files that may be masks, relative to the folder; a link counts whatever it leads to."""
    where = str(folder)
    try:
        if not folder.exists():
            raise AuditError(Finding("FOLDER_MISSING", f"there is no folder {folder}.", where, "check the path."))
        listed = list(folder.iterdir())  # says why, where the folder cannot be read; glob would find nothing
        if pattern is not None:
            _check_pattern(pattern, where)
            wild = "*".join("*".join(map(glob.escape, part.split("*"))) for part in pattern.split("{case}"))
            listed = list(folder.glob(wild))
        return [path.relative_to(folder) for path in listed if path.is_symlink() or path.is_file()]
    except (OSError, ValueError) as error:
        fact = f"{folder} cannot be read: {getattr(error, 'strerror', None) or error}."
        raise AuditError(Finding("FOLDER_UNREADABLE", fact, where, "give a folder that you may read.")) from None


def _check_pattern(pattern: str, where: str) -> None:
    path = PurePosixPath(pattern)
    rest = pattern.replace("{case}", "")
    if "{case}" not in pattern or set("{}") & set(rest) or path.is_absolute() or ".." in path.parts:
        fact = f"'{pattern}' does not say where the mask of a case lies in the folder."
        fix = 'write {case} where the name of the case stands, such as "{case}.nii.gz"; no ".." and no leading "/".'
        raise AuditError(Finding("MASK_PATTERN", fact, where, fix))


def _rule(pattern: str, where: str) -> re.Pattern[str]:
    _check_pattern(pattern, where)
    first, *others = [re.escape(part).replace(r"\*", "[^/]*") for part in pattern.split("{case}")]
    # a second {case} is the same case again
    return re.compile(first + "(?P<case>[^/]+)" + "(?P=case)".join(others))


def _case(name: Path, rule: re.Pattern[str] | None) -> str | None:
    if rule is not None:
        match = rule.fullmatch(name.as_posix())
        return match["case"] if match else None
    suffix = next((suffix for suffix in MASK_SUFFIXES if name.name.lower().endswith(suffix)), None)
    return name.name[: -len(suffix)] or None if suffix else None


def _faults(found: dict[str, list[Path]], folder: Path, within: Path | None) -> list[Finding]:
    where, faults = str(folder), []
    for case, paths in sorted(found.items()):
        if len(paths) > 1:
            fact = f"case '{case}' has {len(paths)} files ({listing(sorted(path.name for path in paths))})."
            faults.append(Finding("MASK_DOUBLED", fact, where, "keep one mask a case, or name the pattern."))
    every = [path for paths in found.values() for path in paths]
    unreadable = sorted(ascii(path.name) for path in every if not _is_text(str(path)))
    if unreadable:
        fact = f"{counted(len(unreadable), 'file name is', 'file names are')} no text in UTF-8 ({listing(unreadable)})."
        faults.append(Finding("MASK_NAME", fact, ascii(where).strip("'"), "rename the files."))
    dangling = sorted(path.name for path in every if not path.is_file())
    if dangling:
        fact = f"{counted(len(dangling), 'link leads', 'links lead')} to no file ({listing(dangling)})."
        faults.append(Finding("MASK_DANGLING", fact, where, "fetch the files they stand for."))
    if within is not None:
        roots = (folder.resolve(), within.resolve())
        away = sorted(p.name for p in every if p.is_file() and not any(p.resolve().is_relative_to(r) for r in roots))
        if away:
            links = counted(len(away), "file is a link", "files are links")
            fact = f"{links} out of the folder and of the cohort's folder ({listing(away)})."
            faults.append(Finding("PATH_ESCAPES", fact, where, "name the folder where the files lie, or copy them."))
    return faults


def _is_text(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def read_labels(path: Path) -> tuple[dict[str, tuple[int, ...]], int | None]:
    """Return the labels and regions of an nnU-Net dataset.json, and its ignore value if it has one.

    Raises
    ------
    AuditError
        What reading JSON raises, and LABELS_FORMAT.
    """
    fix = 'write "labels": {"background": 0, "name": 1, "region": [1, 2]}.'
    data = read_json(path, "repair it, or name the labels in cohort.toml.")
    labels = data.get("labels") if isinstance(data, dict) else None
    if not isinstance(labels, dict) or not labels:
        raise AuditError(Finding("LABELS_FORMAT", "there is no table of labels.", str(path), fix))
    if all(str(value).isdigit() and isinstance(name, str) for value, name in labels.items()):
        labels = {name: int(value) for value, name in labels.items()}  # the first nnU-Net wrote value to name
    found, faults = {}, []
    for name, value in labels.items():
        values = value if isinstance(value, list) else [value]
        if not values or not all(_is_value(v) for v in values):
            faults.append(Finding("LABELS_FORMAT", f"label '{name}' has no whole number: {value!r}.", str(path), fix))
        elif values != [0]:
            found[name] = tuple(dict.fromkeys(values))
    raise_errors(faults)
    ignore = found.pop("ignore", None)
    return found, ignore[0] if ignore else None


def _is_value(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_labels(labels: Labels, coding: Labels | None, ignore: int | None, where: str) -> list[Finding]:
    """Return the faults of a mask set's own coding: names that the cohort lacks, an ignore value that is a label."""
    found = []
    for name in coding or {}:
        if name not in labels:
            fix = f"name it in [labels]; known: {listing(labels, 12) or 'none'}."
            found.append(Finding("UNKNOWN_LABEL", f"no label is named '{name}'.", where, fix))
    ignored = [name for name, values in (coding or labels).items() if ignore in values]
    if ignored:
        fact = f"value {ignore} is both ignored and label '{ignored[0]}'."
        found.append(Finding("IGNORE_IS_LABEL", fact, where, "give one of the two another value."))
    return found
