"""A reading of an audit: one model, one score in front, every row found by its key."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from segaudit.audits import Audit
from segaudit.cohorts import MaskSet
from segaudit.confounders import Confounders
from segaudit.groupings import Grouping
from segaudit.metrics import METRICS, Metric
from segaudit.reports.numbers import is_number
from segaudit.rulers import RulerComparison
from segaudit.scores import MACRO
from segaudit.volumes import DEFAULT_MAX_BYTES

Row = dict[str, Any]
OMNIBUS = ("mann_whitney", "kruskal_wallis")
_SHORT = {"hd95": "HD95", "ndsc": "nDSC"}
_EXPERT = ("expert", "consensus", "expert-revised machine draft")


@dataclass(frozen=True)
class Reading:
    """An audit as one model's page reads it.

    Attributes
    ----------
    audit : Audit
    comparisons : tuple of RulerComparison
    model : str
    metric, label : str
        The score in front.
    show_cases : bool
        Whether a case's score may stand beside its group.
    images : mapping of case to Path
        Images to draw outlines on.
    confounders : Confounders or None
        What anatomy, scanner and site have to do with the groups, where that was computed.
    max_bytes : int
        Largest image that is read to draw outlines, voxels as stored.
    """

    audit: Audit
    comparisons: tuple[RulerComparison, ...]
    model: str
    metric: str
    label: str
    show_cases: bool = False
    images: Mapping[str, Path] = field(default_factory=dict)
    confounders: Confounders | None = None
    max_bytes: int = DEFAULT_MAX_BYTES

    @property
    def card(self) -> Metric:
        """The metric in front."""
        return METRICS[self.metric]

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """The groupings of the plan."""
        return tuple(self.audit.plan.groupings)

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The model's rows of the score table."""
        table = self.audit.scores.table
        return table[table["model"] == self.model]

    @cached_property
    def rulers(self) -> tuple[str, ...]:
        """Rulers that scored the model, the trusted one first."""
        names = list(self.scores["ruler"].unique())
        return (self.trusted, *(name for name in names if name != self.trusted))

    @cached_property
    def trusted(self) -> str:
        """The ruler that the comparison trusts; without one, the first that experts made, else the first."""
        names = list(self.scores["ruler"].unique())
        if self.comparisons and self.comparisons[0].trusted in names:
            return self.comparisons[0].trusted
        made = [name for name in names if (own := self.mask_set(name)) is not None and own.kind in _EXPERT]
        return str((made or names)[0])

    @cached_property
    def cells(self) -> list[tuple[str, str]]:
        """(metric, label) of every tested score, the one in front first."""
        pairs = self.audit.groups[self.audit.groups["model"] == self.model][["metric", "label"]].drop_duplicates()
        found = list(pairs.itertuples(index=False, name=None))
        return sorted(found, key=lambda cell: cell != (self.metric, self.label))

    def mask_set(self, name: str) -> MaskSet | None:
        """Return the mask set of a ruler or model, where the cohort is known."""
        cohort = self.audit.cohort
        return cohort.mask_sets.get(name) if cohort is not None else None

    def title(self, metric: str = "", label: str = "") -> str:
        """Return a score in words, such as 'Dice (mean over structures)'."""
        label = label or self.label
        name = metric or self.metric
        return f"{_SHORT.get(name, METRICS[name].title)} ({'mean over structures' if label == MACRO else label})"

    def groups(self, ruler: str, grouping: str = "", metric: str = "", label: str = "") -> list[Row]:
        """Return the groups of a grouping in their order; all cases as one without a grouping."""
        return self._groups.get((ruler, label or self.label, metric or self.metric, grouping), [])

    def overall(self, ruler: str, metric: str = "", label: str = "") -> Row:
        """Return all cases together."""
        rows = self.groups(ruler, "", metric, label)
        return rows[0] if rows else {}

    def pairs(self, ruler: str, grouping: str, name: str, metric: str = "", label: str = "") -> list[Row]:
        """Return the rows of one disparity of a grouping (one over all groups, or one a pair)."""
        return self._disparities.get((ruler, label or self.label, metric or self.metric, grouping, name), [])

    def disparity(self, ruler: str, grouping: str, name: str, metric: str = "", label: str = "") -> Row | None:
        """Return a disparity over all groups of a grouping."""
        rows = self.pairs(ruler, grouping, name, metric, label)
        return rows[0] if rows else None

    def widest(self, ruler: str, grouping: str, metric: str = "", label: str = "") -> Row | None:
        """Return the pair of groups whose medians lie furthest apart."""
        rows = self.pairs(ruler, grouping, "median_difference", metric, label)
        known = [row for row in rows if is_number(row["value"])]
        return max(known, key=lambda row: abs(float(row["value"])), default=None)

    def same_pair(self, ruler: str, pair: Row) -> Row | None:
        """Return the same pair of groups under another ruler."""
        rows = self.pairs(ruler, pair["grouping"], pair["disparity"], pair["metric"], pair["label"])
        same = [r for r in rows if (r["group"], r["reference_group"]) == (pair["group"], pair["reference_group"])]
        return same[0] if same else None

    def omnibus(self, ruler: str, grouping: str, metric: str = "", label: str = "") -> Row | None:
        """Return the test over all groups of a grouping."""
        return self._tests.get((ruler, label or self.label, metric or self.metric, grouping))

    def rejected(self, ruler: str) -> list[Row]:
        """Return the tests that stand below alpha in the declared family: the primary one, or all."""
        family = "primary" if self.audit.plan.primary_metric else ""
        rows = [row for key, row in self._tests.items() if key[0] == ruler and (not family or row["family"] == family)]
        found = [row for row in rows if is_number(row["q"]) and row["q"] < self.audit.plan.alpha]
        return sorted(found, key=lambda row: ((row["metric"], row["label"]) != (self.metric, self.label), row["q"]))

    def family_size(self, ruler: str) -> int:
        """Return how many tests are adjusted together under a ruler."""
        name = "primary" if self.audit.plan.primary_metric else "all" if self.audit.plan.scope == "ruler" else "joint"
        table = self.audit.families
        rows = table[(table["model"] == self.model) & (table["ruler"] == ruler) & (table["family"] == name)]
        return int(rows["n_planned"].iloc[0]) if len(rows) else 0

    def compared(self, other: str, quantity: str, grouping: str = "", metric: str = "", label: str = "") -> Row | None:
        """Return a quantity of the comparison of the trusted ruler with another."""
        return self._rulers.get((other, label or self.label, metric or self.metric, grouping, quantity))

    def comparison_rows(self, quantity: str) -> list[Row]:
        """Return every row of one quantity."""
        return [row for key, row in self._rulers.items() if key[4] == quantity]

    @cached_property
    def _groups(self) -> dict[tuple[Any, ...], list[Row]]:
        return _index(self._own(self.audit.groups), ("ruler", "label", "metric", "grouping"))

    @cached_property
    def _disparities(self) -> dict[tuple[Any, ...], list[Row]]:
        return _index(self._own(self.audit.disparities), ("ruler", "label", "metric", "grouping", "disparity"))

    @cached_property
    def _tests(self) -> dict[tuple[Any, ...], Row]:
        table = self._own(self.audit.tests)
        found = _index(table[table["test"].isin(OMNIBUS)], ("ruler", "label", "metric", "grouping"))
        return {key: rows[0] for key, rows in found.items()}

    @cached_property
    def _rulers(self) -> dict[tuple[Any, ...], Row]:
        tables = [self._own(one.table) for one in self.comparisons if one.trusted == self.trusted]
        if not tables:
            return {}
        found = _index(pd.concat(tables, ignore_index=True), ("other", "label", "metric", "grouping", "quantity"))
        return {key: rows[0] for key, rows in found.items()}

    def _own(self, table: pd.DataFrame) -> pd.DataFrame:
        return table[table["model"] == self.model]


def rows_of(table: pd.DataFrame) -> list[Row]:
    """Return a table as rows, with NaN for every number that is not there."""
    plain = {
        name: column.astype("float64") if pd.api.types.is_numeric_dtype(column) else column
        for name, column in table.items()
    }
    return [{str(k): v for k, v in row.items()} for row in pd.DataFrame(plain).to_dict("records")]


def _index(table: pd.DataFrame, key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows_of(table):
        found.setdefault(tuple(row[name] for name in key), []).append(row)
    return found


def read(
    audit: Audit,
    rulers: RulerComparison | Iterable[RulerComparison] | None = None,
    *,
    model: str | None = None,
    metric: str | None = None,
    label: str | None = None,
    show_cases: bool = False,
    images: Mapping[str, Path] | None = None,
    confounders: Confounders | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Reading:
    """Return the reading of one model: by default the first, with the declared primary score in front.

    Without a primary score that is Dice, else the first tested metric; the mean over structures, else the first
    structure.
    """
    comparisons = (rulers,) if isinstance(rulers, RulerComparison) else tuple(rulers or ())
    model = model or str(audit.scores.models[0])
    table = audit.groups[audit.groups["model"] == model]
    metrics, plan = list(dict.fromkeys(table["metric"])), audit.plan
    wanted = (metric, plan.primary_metric, "dice", *metrics)
    chosen = next((name for name in wanted if name in metrics), "dice")
    labels = list(dict.fromkeys(table.loc[table["metric"] == chosen, "label"]))
    structure = next((name for name in (label, plan.primary_label, MACRO, *labels) if name in labels), MACRO)
    drawn = dict(images or {})
    return Reading(audit, comparisons, model, chosen, structure, show_cases, drawn, confounders, max_bytes)


def number(row: Row | None, column: str) -> float:
    """Return a number of a row, NaN where the row or the number is absent."""
    value = row.get(column) if row else None
    return float(value) if value is not None and is_number(value) else math.nan


def word(row: Row | None, column: str = "value") -> str:
    """Return a word of a row, empty where the row is absent or holds a number."""
    value = row.get(column) if row else None
    return value if isinstance(value, str) else ""
