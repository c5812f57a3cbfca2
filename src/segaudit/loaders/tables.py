"""A plain table of cases with the paths of their masks becomes a cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import pandas as pd

from segaudit.attributes import MISSING_CODES, fold, listing
from segaudit.cohorts import Cohort, Kind, Labels, MaskSet, make_cohort, with_mask_sets
from segaudit.errors import Finding, did_you_mean, raise_errors
from segaudit.loaders.base import LOADERS, Loader
from segaudit.participants import Participants, read_participants, stem


def load_table(
    path: str | PathLike[str],
    masks: Sequence[str] | Mapping[str, str],
    *,
    labels: Labels | None = None,
    kinds: Mapping[str, Kind] | None = None,
    key: str | None = None,
    patient: str | None = None,
    root: str | PathLike[str] | None = None,
) -> Cohort:
    r"""Return the cohort of one table: a row a case, a column a mask set, every other column an attribute.

    Parameters
    ----------
    path : path
        CSV, TSV or XLSX.
    masks : names of columns, or mapping of mask set to column
        Columns that hold paths of masks. An empty cell says that there is no mask.
    labels : mapping of str to tuple of int, optional
    kinds : mapping of mask set to kind, optional
    key, patient : str, optional
        As in `segaudit.read_participants`.
    root : path, optional
        Folder that relative paths start from; by default that of the table.

    Raises
    ------
    AuditError
        What `read_participants` and `make_cohort` raise; UNKNOWN_COLUMN, UNKNOWN_MASK_SET; MASK_DANGLING with every
        path that leads to no file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "c1.nii.gz").write_bytes(b"")
    >>> _ = (folder / "cases.csv").write_text("case,patient,sex,expert\nc1,p1,F,c1.nii.gz\nc2,p2,M,\n")
    >>> cohort = load_table(folder / "cases.csv", ["expert"], labels={"vb": (1,)})
    >>> list(cohort.cases.columns), len(cohort.mask_sets["expert"].masks)
    (['case', 'patient', 'sex'], 1)
    """
    columns = dict(masks) if isinstance(masks, Mapping) else {name: name for name in masks}
    participants = read_participants(path, key=key, patient=patient)
    source, home = participants.sheet.path, Path(root) if root is not None else Path(path).parent
    faults = _request_faults(columns, kinds or {}, participants)
    raise_errors(faults)
    sets = []
    for name, column in columns.items():
        sets.append(_mask_set(participants, name, column, (kinds or {}).get(name, "unknown"), home, faults))
    raise_errors(faults)
    own = {name: one for name, one in participants.attributes.items() if one.column not in columns.values()}
    cohort = make_cohort(source.stem, (), replace(participants, attributes=own), labels=labels)
    return with_mask_sets(cohort, sets)


def _request_faults(columns: Mapping[str, str], kinds: Mapping[str, Kind], participants: Participants) -> list[Finding]:
    known, where = list(participants.sheet.table.columns), str(participants.sheet.path)
    faults = []
    for name, column in columns.items():
        if column not in known:
            fact = f"there is no column '{column}' for mask set '{name}'."
            faults.append(Finding("UNKNOWN_COLUMN", fact, where, did_you_mean(column, known)))
    for name in kinds:
        if name not in columns:
            fact = f"a kind is given for '{name}'."
            faults.append(Finding("UNKNOWN_MASK_SET", fact, "kinds", did_you_mean(name, columns)))
    return faults


def _mask_set(
    participants: Participants, name: str, column: str, kind: Kind, home: Path, faults: list[Finding]
) -> MaskSet:
    cells = [cell.strip() for cell in participants.sheet.table[column]]
    pairs = zip(participants.keys, cells, strict=True)
    found = {stem(key): home / cell for key, cell in pairs if fold(cell) not in MISSING_CODES}
    gone = sorted(f"{case}: {path}" for case, path in found.items() if not path.is_file())
    if gone:
        fact = f"{len(gone)} of {len(found)} paths lead to no file ({listing(gone, 3)})."
        fix = "mend them, or name the folder that they start from as root."
        faults.append(Finding("MASK_DANGLING", fact, f"{participants.sheet.path}, column '{column}'", fix))
    cases = sorted(found)
    table = pd.DataFrame({"case": cases, "path": [str(found[case]) for case in cases], "kind": kind})
    return MaskSet(name, table, kind)


LOADERS.register(Loader("table", "table of cases with the paths of their masks", load_table))
