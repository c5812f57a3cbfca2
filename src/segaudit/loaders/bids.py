"""BIDS derivatives: masks with sidecars that say who or what made them become a cohort."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from segaudit.attributes import listing
from segaudit.cohorts import Cohort, Kind, Labels, MaskSet, make_cohort
from segaudit.errors import AuditError, Finding, counted, raise_errors
from segaudit.loaders.base import LOADERS, Loader, existing_folder
from segaudit.participants import read_json, read_participants
from segaudit.sheets import read_sheet

LABEL_SUFFIXES = ("seg", "dseg", "mask", "label", "dlabel")
COLUMNS = ("file", "case", "patient", "label", "desc", "suffix", "kind", "made_by")
_ONE_STRUCTURE = ("seg", "mask", "label")
_MASK_ENDINGS = (".nii.gz", ".nii")
_HUMAN = ("manual", "human", "expert", "rater", "radiologist", "annotator")
_OTHERWISE = re.compile(r"\b(staple|consensus|majority|corrected|revised|edited)\b", re.IGNORECASE)
_FIX = 'write "GeneratedBy": [{"Name": "...", "Author": "..."}], one entry a step, the first step first.'


@dataclass(frozen=True)
class _Name:
    """What a BIDS file name says: the image that a label belongs to, its patient, and which label it is."""

    case: str
    patient: str
    label: str
    desc: str
    suffix: str

    @property
    def mask_set(self) -> str:
        """Return the name of the mask set: label, description and suffix, as far as there are such."""
        return "_".join(part for part in (self.label, self.desc, self.suffix) if part)


def kind_of(steps: Sequence[Mapping[str, Any]]) -> Kind:
    """Return what made a label, from its steps in order: each a machine's or a human's.

    Machines alone: machine. Humans alone: expert. A human last, after a machine: expert-revised machine draft. A
    machine last, after a human: unknown, since it may have moved the outline or drawn it anew.

    Examples
    --------
    >>> kind_of([{"Name": "sct_deepseg_sc"}, {"Name": "Manual", "Author": "annotator"}])
    'expert-revised machine draft'
    """
    human = [_is_human(step) for step in steps]
    if not human:
        return "unknown"
    if all(human):
        return "expert"
    if not any(human):
        return "machine"
    return "expert-revised machine draft" if human[-1] and not human[0] else "unknown"


def maker_of(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return who or what made a label, in words: each step once, the first step first.

    Examples
    --------
    >>> maker_of([{"Name": "sct_deepseg_sc", "Version": "SCT v6.2"}, {"Name": "Manual", "Author": "annotator"}])
    'sct_deepseg_sc SCT v6.2, then Manual (annotator)'
    """
    return ", then ".join(dict.fromkeys(_told(step) for step in steps))


def _is_human(step: Mapping[str, Any]) -> bool:
    return str(step.get("Name", "")).strip().casefold() in _HUMAN


def _told(step: Mapping[str, Any]) -> str:
    name = str(step.get("Name", "")).strip() or "unnamed"
    if _is_human(step):
        author = str(step.get("Author", "")).strip()
        return f"{name} ({author})" if author else name
    # the command line of one file names that file: what made all of them is the program and its options
    name = re.sub(r"\s-(?:i|o|qc|qc-subject)\s+\S+", "", name)
    version = str(step.get("Version", "")).strip()
    return f"{name} {version}".strip()


def read_label_sidecars(folder: str | PathLike[str]) -> tuple[pd.DataFrame, tuple[Finding, ...]]:
    """Return kind and maker of every label with a JSON sidecar in a BIDS folder, and what was found on the way.

    Parameters
    ----------
    folder : path
        Sidecars are looked for in it and in all folders below.

    Returns
    -------
    table : DataFrame
        file (relative to the folder, without .json), case (the image that the label belongs to), patient, label, desc,
        suffix, kind, made_by; sorted by file. A sidecar that names no maker has kind unknown.
    findings : tuple of Finding
        SIDECAR_NO_MAKER, SIDECAR_ORDER, SIDECAR_DESCRIPTION.

    Raises
    ------
    AuditError
        FOLDER_MISSING; JSON_MALFORMED and its like, and SIDECAR_FORMAT, of every sidecar at once.
    """
    home = existing_folder(Path(folder), "of label sidecars")
    rows, steps_of = [], {}
    faults: list[Finding] = []
    for path in _visible(home, (".json",)):
        name = _parsed(path.name.removesuffix(".json"))
        if name is None:
            continue
        file = path.relative_to(home).as_posix().removesuffix(".json")
        try:
            steps_of[file] = _steps(path)
        except AuditError as error:
            faults += error.findings
            continue
        own = steps_of[file]
        made = (kind_of(own), maker_of(own))
        rows.append((file, name.case, name.patient, name.label, name.desc, name.suffix, *made))
    raise_errors(faults)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("file", ignore_index=True)
    return table, tuple(_notes(steps_of, str(home)))


def _visible(home: Path, endings: tuple[str, ...]) -> list[Path]:
    found = (path for ending in endings for path in home.rglob(f"*{ending}"))
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(home).parts))


def _parsed(name: str) -> _Name | None:
    """Return what the name of a label says; None when it is the name of no label."""
    *parts, suffix = name.split("_")
    entities = dict(part.split("-", 1) for part in parts if "-" in part)
    if suffix not in LABEL_SUFFIXES or not entities.get("sub"):
        return None
    image = [part for part in parts if part.split("-", 1)[0] not in {"label", "desc", "space", "res"}]
    label, desc = entities.get("label", ""), entities.get("desc", "")
    return _Name("_".join(image), f"sub-{entities['sub']}", label, desc, suffix)


def _steps(path: Path) -> list[dict[str, Any]]:
    data = read_json(path, "repair it.")
    steps = data.get("GeneratedBy", []) if isinstance(data, dict) else None
    steps = [steps] if isinstance(steps, dict) else steps
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        raise AuditError(Finding("SIDECAR_FORMAT", "GeneratedBy is no list of steps.", str(path), _FIX))
    return steps


def _notes(steps_of: Mapping[str, Sequence[Mapping[str, Any]]], where: str) -> Iterator[Finding]:
    nobody = sorted(file for file, steps in steps_of.items() if not steps)
    if nobody:
        named = counted(len(nobody), "sidecar names", "sidecars name")
        fact = f"{named} no maker ({listing(nobody, 3)}): the kind is unknown."
        yield Finding("SIDECAR_NO_MAKER", fact, where, _FIX, "warning")
    late = sorted(file for file, steps in steps_of.items() if steps and kind_of(steps) == "unknown")
    if late:
        went = f"{counted(len(late), 'label')} went to a machine after a human"
        fact = f"{went} ({listing(late, 3)}): the kind is unknown."
        yield Finding("SIDECAR_ORDER", fact, where, "say what the last step did, and set the kind by hand.", "warning")
    words: defaultdict[str, list[str]] = defaultdict(list)
    for file, steps in steps_of.items():
        for word in {w.lower() for step in steps for w in _OTHERWISE.findall(str(step.get("Description", "")))}:
            words[word].append(file)
    for word, files in sorted(words.items()):
        fact = (
            f"{len(files)} descriptions say '{word}' ({listing(sorted(files), 2)}); the kind rests on the steps alone."
        )
        fix = "read them: a consensus or a corrected draft may need its kind set by hand."
        yield Finding("SIDECAR_DESCRIPTION", fact, where, fix, "note")


def load_bids(folder: str | PathLike[str], *, participants: str | PathLike[str] | None = None) -> Cohort:
    """Return the cohort of a folder of BIDS derivatives: a mask set for each label, description and suffix.

    Parameters
    ----------
    folder : path
        A derivative data set (with sub-* folders), a folder of several, or a data set whose derivatives/ hold several;
        the names of the mask sets then start with that of the derivative.
    participants : path, optional
        By default the participants.tsv in the folder, or in one of the two folders above it.

    Returns
    -------
    Cohort
        A case is the image that a label belongs to, `sub-01_T2w` for sub-01_T2w_label-SC_seg.nii.gz; its patient is
        sub-01. Kind and maker of each mask are those of its sidecar, else those of dataset_description.json beside the
        sub-* folders. A label is named by its entity `label`; the table of levels beside a dseg (index, name) names
        its structures.

    Raises
    ------
    AuditError
        What `read_label_sidecars`, `read_participants` and `make_cohort` raise; MASKS_NONE.
    """
    home = existing_folder(Path(folder), "of BIDS derivatives")
    sets: list[MaskSet] = []
    findings: list[Finding] = []
    labels: dict[str, tuple[int, ...]] = {}
    patients: dict[str, str] = {}
    for prefix, root in _roots(home).items():
        made, notes = read_label_sidecars(root)
        findings += notes
        found = [(path, name) for path in _visible(root, _MASK_ENDINGS) if (name := _parsed(_stem(path))) is not None]
        findings += _without_mask(made, {path.relative_to(root).as_posix() for path, _ in found}, root)
        patients |= {name.case: name.patient for _, name in found}
        for mask_set in _mask_sets(found, made, prefix, root):
            sets.append(mask_set)
            labels |= mask_set.labels or {}
    findings += _unnamed(sets, home)
    if not sets:
        fact = "there is no file such as sub-01_T2w_label-SC_seg.nii.gz."
        alone = next(home.rglob("sub-*_label-*.json"), None)
        fix = "read sidecars without masks by read_label_sidecars." if alone else "check the folder."
        raise AuditError(Finding("MASKS_NONE", fact, str(home), fix))
    table = Path(participants) if participants is not None else _participants_beside(home)
    people = read_participants(table, key="participant_id") if table is not None else None
    return make_cohort(home.name, sets, people, patients=patients, labels=labels, findings=findings)


def _roots(home: Path) -> dict[str, Path]:
    """Return the derivatives in a folder, each with what its mask sets' names start with."""
    inner = home / "derivatives"
    outer = inner if inner.is_dir() else home
    several = {f"{path.name}/": path for path in sorted(outer.iterdir()) if any(path.glob("sub-*"))}
    return several if several and (outer is inner or not any(home.glob("sub-*"))) else {"": home}


def _stem(path: Path) -> str:
    ending = next(ending for ending in _MASK_ENDINGS if path.name.endswith(ending))
    return path.name.removesuffix(ending)


def _without_mask(made: pd.DataFrame, masks: set[str], root: Path) -> Iterator[Finding]:
    alone = [file for file in made["file"] if not any(f"{file}{ending}" in masks for ending in _MASK_ENDINGS)]
    if alone:
        fact = f"{counted(len(alone), 'sidecar has', 'sidecars have')} no mask ({listing(alone, 3)})."
        yield Finding("SIDECAR_WITHOUT_MASK", fact, str(root), "fetch the masks, or remove the sidecars.", "warning")


def _mask_sets(found: Sequence[tuple[Path, _Name]], made: pd.DataFrame, prefix: str, root: Path) -> Iterator[MaskSet]:
    """Yield each mask set of a derivative; its labels are None where nothing says what its values mean."""
    description = root / "dataset_description.json"
    usual = _steps(description) if description.is_file() else []
    maker = {row.file: (row.kind, row.made_by) for row in made.itertuples()}
    grouped: defaultdict[str, list[tuple[Path, _Name]]] = defaultdict(list)
    for path, parsed in found:
        grouped[parsed.mask_set].append((path, parsed))
    for name, files in sorted(grouped.items()):
        files.sort(key=lambda file: file[1].case)
        stems = [path.relative_to(root).with_name(_stem(path)).as_posix() for path, _ in files]
        told = [maker.get(stem, (kind_of(usual), maker_of(usual))) for stem in stems]
        table = pd.DataFrame(
            {
                "case": [one.case for _, one in files],
                "path": [str(path) for path, _ in files],
                "kind": [kind for kind, _ in told],
                "made_by": [by for _, by in told],
            }
        )
        raise_errors(_doubled(table, f"{root}, {name}"))
        kinds = set(table["kind"])
        kind: Kind = next(k for k in get_args(Kind) if k in kinds) if len(kinds) == 1 else "unknown"
        makers = "; ".join(sorted(set(table["made_by"]) - {""}))
        yield MaskSet(prefix + name, table, kind, makers, labels=_levels(*files[0]))


def _unnamed(sets: Sequence[MaskSet], home: Path) -> Iterator[Finding]:
    names = [mask_set.name for mask_set in sets if mask_set.labels is None]
    if names:
        fact = f"nothing says what the values of {listing(names)} mean."
        fix = "put a table of levels (index, name) beside the masks, named as they are or dseg.tsv."
        yield Finding("LABELS_UNNAMED", fact, str(home), fix, "warning")


def _doubled(table: pd.DataFrame, where: str) -> Iterator[Finding]:
    twice = sorted(table["case"][table["case"].duplicated()].unique())
    if twice:
        have = counted(len(twice), "case has", "cases have")
        fact = f"{have} two masks of one name, but for space or resolution ({listing(twice)})."
        yield Finding("MASK_DOUBLED", fact, where, "keep one of them.")


def _levels(path: Path, name: _Name) -> Labels | None:
    """Return the structures of a label: the levels in a table beside it, else the one structure of a binary mask."""
    tables = (path.with_name(f"{_stem(path)}.tsv"), path.with_name(f"{name.suffix}.tsv"))
    beside = next((table for table in tables if table.is_file()), None)
    if beside is None:
        return {name.label or name.suffix: (1,)} if name.suffix in _ONE_STRUCTURE else None
    levels = read_sheet(beside).table
    if not {"index", "name"} <= set(levels.columns):
        fact = f"there is no column 'index' or 'name' ({', '.join(levels.columns)})."
        raise AuditError(Finding("UNKNOWN_COLUMN", fact, str(beside), "write index and name of each level."))
    wrong = [value for value in levels["index"] if not value.strip().isdigit()]
    if wrong:
        fact = f"{len(wrong)} levels have no whole number ({listing(wrong)})."
        raise AuditError(Finding("LABELS_FORMAT", fact, str(beside), "write the value of each level."))
    pairs = zip(levels["name"], levels["index"], strict=True)
    return {title.strip(): (int(value),) for title, value in pairs if int(value) != 0}


def _participants_beside(home: Path) -> Path | None:
    folders = (home, *home.resolve().parents[:2])
    return next((table for folder in folders if (table := folder / "participants.tsv").is_file()), None)


LOADERS.register(Loader("bids", "BIDS derivatives with sidecars", load_bids))
