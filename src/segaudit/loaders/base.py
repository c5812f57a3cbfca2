"""What the loaders share: the registry, and a cohort from a table that was joined in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from segaudit.attributes import Declaration, listing
from segaudit.cohorts import Cohort, Labels, MaskSet, make_cohort
from segaudit.errors import AuditError, Finding
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


def with_mask_sets(cohort: Cohort, mask_sets: Iterable[MaskSet]) -> Cohort:
    """Return the cohort with these mask sets for its cases; masks of no case are counted in a finding."""
    inside, sets, notes = set(cohort.cases["case"]), {}, []
    known = inside | set(cohort.excluded["case"])
    for mask_set in mask_sets:
        stray = sorted(set(mask_set.masks["case"]) - known)
        if stray:
            fact = f"{len(stray)} masks belong to no case ({listing(stray)})."
            fix = "add the cases, or remove the files."
            notes.append(Finding("MASK_WITHOUT_CASE", fact, f"mask set '{mask_set.name}'", fix, "warning"))
        masks = mask_set.masks[mask_set.masks["case"].isin(inside)].reset_index(drop=True)
        sets[mask_set.name] = replace(mask_set, masks=masks)
    return replace(cohort, mask_sets={**cohort.mask_sets, **sets}, findings=(*cohort.findings, *notes))


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
