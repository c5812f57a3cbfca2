"""What the loaders share: the registry, and a cohort from a table that was joined in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path

import pandas as pd

from segaudit.attributes import Declaration
from segaudit.cohorts import Cohort, Labels, MaskSet, make_cohort, with_mask_sets
from segaudit.errors import AuditError, Finding, did_you_mean, raise_errors
from segaudit.participants import participants_from
from segaudit.registry import Registry
from segaudit.sheets import Sheet
from segaudit.tables import EXCLUDED

Exclusion = tuple[str, str, str]  # case, rule, reason


@dataclass(frozen=True)
class Loader:
    """A way to read a folder as others deliver it.

    Attributes
    ----------
    name, title : str
    load : callable
        (path, **options) -> Cohort.
    """

    name: str
    title: str
    load: Callable[..., Cohort]


LOADERS: Registry[Loader] = Registry("loader")


def load_delivery(name: str, place: Path, **options: object) -> Cohort:
    """Return the cohort of a delivery by the name of its loader; an option that is None is not given.

    A mask set without any mask is left out with a warning, since cohort.toml has no word for it.

    Raises
    ------
    AuditError
        UNKNOWN_LOADER; OPTION_UNKNOWN for each option that the loader does not know, OPTION_NEEDED for each that it
        lacks; and what the loader raises.
    """
    load, given = LOADERS[name].load, {option: value for option, value in options.items() if value is not None}
    _, *known = signature(load).parameters.values()
    names = [option.name for option in known]
    where = f"loader '{name}'"
    faults = [
        Finding(
            "OPTION_UNKNOWN", f"the loader '{name}' knows no option '{option}'.", where, did_you_mean(option, names)
        )
        for option in sorted(given.keys() - set(names))
    ]
    faults += [
        Finding("OPTION_NEEDED", f"the loader '{name}' needs the option '{option.name}'.", where, "give it.")
        for option in known
        if option.default is option.empty and option.name not in given
    ]
    raise_errors(faults)
    cohort = load(place, **given)
    empty = [one for one, mask_set in cohort.mask_sets.items() if mask_set.masks.empty]
    notes = [
        Finding(
            "MASKS_NONE", "no case has a mask; it is left out.", f"mask set '{one}'", "check the folder.", "warning"
        )
        for one in empty
    ]
    kept = {one: mask_set for one, mask_set in cohort.mask_sets.items() if one not in empty}
    return replace(cohort, mask_sets=kept, findings=(*cohort.findings, *notes))


def cohort_from(
    name: str,
    cases: pd.DataFrame,
    source: Path,
    declared: Mapping[str, Declaration],
    *,
    mask_sets: Iterable[MaskSet] = (),
    labels: Labels | None = None,
    exclude: Sequence[Exclusion] = (),
    findings: Sequence[Finding] = (),
) -> Cohort:
    """Return the cohort of a table of text with the columns case, patient and those declared as attributes.

    The cells are read as any participants table's: missing codes, ages and numbers alike. A case with a row stays even
    where no mask set has a file for it; `Cohort.check` counts those.
    """
    out = {case for case, *_ in exclude}
    table = cases[~cases["case"].isin(out)].sort_values("case", ignore_index=True).astype("str")
    if table.empty:
        fact = f"no case is left: {len(cases)} were found, and all are excluded."
        raise AuditError(Finding("COHORT_EMPTY", fact, str(source), "exclude fewer cases."))
    lines = tuple(range(2, len(table) + 2))
    participants = participants_from(Sheet(table, source, lines), key="case", patient="patient", attributes=declared)
    cohort = make_cohort(name, (), participants, labels=labels, findings=findings)
    return with_mask_sets(replace(cohort, excluded=excluded_table(exclude)), mask_sets)


def excluded_table(rows: Iterable[Exclusion]) -> pd.DataFrame:
    """Return exclusions as the table of a cohort, sorted."""
    return EXCLUDED.frame(pd.DataFrame(sorted(rows), columns=EXCLUDED.names()))


def existing_folder(folder: Path, what: str) -> Path:
    """Return the folder, or say that there is none.

    Raises
    ------
    AuditError
        FOLDER_MISSING.
    """
    if folder.is_dir():
        return folder
    fact = f"there is no folder {folder} ({what})."
    raise AuditError(Finding("FOLDER_MISSING", fact, str(folder), "check the path."))
