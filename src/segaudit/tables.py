"""The tables of a run: one record per column validates it, orders it and documents it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
import pandas as pd

Kind = Literal["text", "number", "count", "mixed"]


@dataclass(frozen=True)
class Column:
    """A column: its name, what it holds, and what it means.

    `mixed` holds numbers, except in rows whose quantity is a word (a verdict); it is stored as text in Parquet.
    """

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True)
class Schema:
    """A table: its columns in order, and the columns that together name a row."""

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def names(self) -> list[str]:
        """Return the column names in order."""
        return [column.name for column in self.columns]

    def frame(self, rows: Iterable[Mapping[str, Any]] | pd.DataFrame) -> pd.DataFrame:
        """Return rows as a table of this schema: columns in order, typed, key unique.

        Raises
        ------
        ValueError
            When a column is unknown or absent, or two rows share a key: a fault of the program, not of the input.
        """
        names = self.names()
        table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows), columns=None)
        if table.empty and not len(table.columns):
            table = pd.DataFrame(columns=names)
        unknown, absent = set(table.columns) - set(names), set(names) - set(table.columns)
        if unknown or absent:
            raise ValueError(f"{self.name}: unknown columns {sorted(unknown)}, absent {sorted(absent)}")
        table = pd.DataFrame({column.name: _typed(table[column.name], column.kind) for column in self.columns})
        doubled = table.duplicated(list(self.key))
        if doubled.any():
            raise ValueError(
                f"{self.name}: two rows share the key {table.loc[doubled, list(self.key)].iloc[0].to_dict()}"
            )
        return table.reset_index(drop=True)


def _typed(values: pd.Series, kind: Kind) -> pd.Series:
    if kind == "text" and values.dtype == "str":
        return values.fillna("") if values.hasnans else values
    if kind == "text":
        return values.astype(object).where(values.notna(), "").astype(str).astype("str")
    if kind == "number":
        return pd.to_numeric(values).astype("float64")
    if kind == "count":
        return pd.to_numeric(values).astype("Int64")
    return values.astype(object).where(values.notna(), np.nan)


def mapped(values: pd.Series, known: Mapping[str, Any]) -> pd.Series:
    """Return what each text stands for (missing where it is not known), every distinct text being looked up once."""
    codes, names = pd.factorize(values)
    found = pd.Series(names, dtype=object).map(known)
    return pd.Series(found.array.take(codes, allow_fill=True), index=values.index)


def numbers(values: pd.Series) -> pd.Series:
    """Return a mixed column as float64, with NaN where a word stands."""
    return pd.to_numeric(values, errors="coerce").astype("float64")


def finite(value: float) -> float | None:
    """Return the value, or None where it is no finite number (for JSON)."""
    return float(value) if np.isfinite(value) else None


def as_html(told: str) -> str:
    """Return what an object says of itself, line by line, as a notebook shows it: the first line over a list."""
    head, *lines = (escape(line.strip()) for line in told.splitlines())
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<strong>{head}</strong><ul>{items}</ul>" if items else f"<strong>{head}</strong>"


def text(name: str, meaning: str) -> Column:
    """Return a text column."""
    return Column(name, "text", meaning)


def number(name: str, meaning: str) -> Column:
    """Return a number column (float64, empty where there is none)."""
    return Column(name, "number", meaning)


def count(name: str, meaning: str) -> Column:
    """Return a count column (nullable integer)."""
    return Column(name, "count", meaning)


_MODEL = text("model", "mask set under audit")
_RULER = text("ruler", "reference it was scored against")
_LABEL = text("label", "structure; macro is the mean over the structures of a case")
_METRIC = text("metric", "name of the metric card")
_GROUPING = text("grouping", "name of the grouping; empty for all cases together")
_CELL = (_MODEL, _RULER, _LABEL, _METRIC)
_STATUS = text("status", "ok, saturated, too_few_patients, one_group or undefined")
_QUANTITY = text("quantity", "what the row holds")
_COMPARED = text("status", "ok, saturated, too_few_patients, one_group, undefined or not_estimable")
_DETAIL = text("detail", "what stands behind the value, in words")


def _schema(name: str, key: Sequence[str], *columns: Column) -> Schema:
    return Schema(name, tuple(key), columns)


SCORES = _schema(
    "scores",
    ("case", "model", "ruler", "label", "metric"),
    text("case", "one exam"),
    text("patient", "the statistical unit"),
    *_CELL,
    number("value", "the score; empty where undefined or infinite (see status)"),
    text("unit", "unit of the value; 1 where it has none"),
    text(
        "status",
        "ok, both_empty, prediction_empty, reference_empty, prediction_missing, reference_missing or not_scored",
    ),
)
GROUPS = _schema(
    "groups",
    ("model", "ruler", "label", "metric", "grouping", "group"),
    *_CELL,
    _GROUPING,
    text("group", "group of the grouping; empty for all cases together"),
    count("n_cases", "cases with a defined score (infinite ones included)"),
    count("n_patients", "patients of those cases"),
    number("mean", "mean of the finite scores"),
    number("median", "median of the defined scores, infinite ones ranked worst"),
    number("sd", "standard deviation of the finite scores, ddof 1"),
    number("q25", "lower quartile of the defined scores"),
    number("q75", "upper quartile of the defined scores"),
    count("n_success", "cases strictly beyond the threshold"),
    number("success_rate", "n_success / n_cases"),
    number("threshold", "declared threshold of the metric"),
    _STATUS,
    count("n_infinite", "cases with an infinite score (one of the two masks empty, or the prediction missing)"),
    count("n_undefined", "cases left out because the score is undefined"),
)
DISPARITIES = _schema(
    "disparities",
    ("model", "ruler", "label", "metric", "grouping", "disparity", "group", "reference_group"),
    *_CELL,
    _GROUPING,
    text("disparity", "name of the contrast"),
    text("group", "group of a pairwise contrast; empty over all groups"),
    text("reference_group", "group it is set against"),
    number("value", "the estimate; a difference is group minus reference group"),
    number("low", "lower limit of the interval"),
    number("high", "upper limit of the interval"),
    text("method", "how the interval was made"),
    number("expected_under_parity", "mean of the estimate when groups are shuffled at these group sizes"),
    _STATUS,
    number("bca_low", "lower limit of the BCa bootstrap interval as in the study"),
    number("bca_high", "upper limit of the BCa bootstrap interval as in the study"),
    number("p_permutation", "one-sided permutation p value of a disparity this large"),
)
TESTS = _schema(
    "tests",
    ("model", "ruler", "label", "metric", "grouping", "test", "group", "reference_group"),
    *_CELL,
    _GROUPING,
    text("test", "mann_whitney, kruskal_wallis or dunn"),
    number("statistic", "U of the group, H, or z"),
    number("p", "two-sided p value"),
    number("q", "adjusted p value within the family"),
    text("family", "the declared family of tests"),
    text("effect_name", "rank_biserial, epsilon_squared, ..."),
    number("effect", "size of the effect; positive rank_biserial: the group scores higher than the reference group"),
    count("n_cases", "cases tested"),
    count("n_patients", "patients tested"),
    _STATUS,
    text("group", "second group of a two-group test"),
    text("reference_group", "first group of a two-group test"),
    text("p_method", "exact, permutation, asymptotic or none"),
    number("effect_low", "lower limit of the effect"),
    number("effect_high", "upper limit of the effect"),
    number("eta_squared_h", "(H - k + 1) / (n - k)"),
    number("q_holm", "Holm-adjusted p within the family"),
    number("q_by", "Benjamini-Yekutieli-adjusted p within the family"),
    number("q_joint", "BH-adjusted p within the family joined over all rulers"),
    number("q_wy", "Westfall-Young step-down adjusted p over all tests of the model under the ruler"),
)
SWEEPS = _schema(
    "sweeps",
    ("model", "ruler", "label", "metric", "grouping", "threshold", "group"),
    *_CELL,
    _GROUPING,
    number("threshold", "threshold of success"),
    text("group", "group"),
    count("n_cases", "cases with a defined score"),
    count("n_success", "cases strictly beyond the threshold"),
    number("success_rate", "n_success / n_cases"),
    number("dir", "smallest over largest success rate of the groups at this threshold"),
    number("dir_low", "lower limit (MOVER-R on Wilson limits)"),
    number("dir_high", "upper limit"),
    number("dpd", "largest minus smallest success rate"),
    number("dpd_low", "lower limit (Newcombe)"),
    number("dpd_high", "upper limit"),
    _STATUS,
)
REGRESSION = _schema(
    "regression",
    ("model", "ruler", "label", "metric", "term"),
    *_CELL,
    text("term", "intercept, attribute level or attribute"),
    number("coefficient", "change of the score"),
    number("se", "standard error"),
    number("t", "coefficient / se"),
    number("p", "two-sided p value"),
    number("low", "lower limit"),
    number("high", "upper limit"),
    text("errors", "HC3, or cluster (patient)"),
    count("n_cases", "cases in the regression"),
    count("n_patients", "patients in the regression"),
    number("r_squared", "share of variance explained"),
    _STATUS,
)
COVERAGE = _schema(
    "coverage",
    ("grouping", "group"),
    _GROUPING,
    text("group", "group, or (unassigned)"),
    count("n_cases", "cases"),
    count("n_patients", "patients"),
    text("reason", "why unassigned, or why not tested"),
    text("status", "tested, described_only or unassigned"),
)
FAMILIES = _schema(
    "families",
    ("model", "ruler", "family", "method"),
    _MODEL,
    _RULER,
    text("family", "which tests are counted together"),
    text("method", "bh, holm, by, raw or westfall_young"),
    count("n_planned", "size of the family: planned tests, degenerate ones included"),
    count("n_tested", "tests with a p value"),
    count("n_rejected", "tests with an adjusted p value below alpha; empty where they could not be adjusted"),
    number("alpha", "level"),
    text("rejected_attributes", "groupings among the rejected tests"),
    text("status", "ok, or undefined where the tests could not be adjusted"),
    text("detail", "draws of a permutation, or why there is none"),
)
SENSITIVITY = _schema(
    "sensitivity",
    ("model", "ruler", "label", "metric", "grouping", "change"),
    *_CELL,
    _GROUPING,
    text("change", "the choice that is made otherwise"),
    number("p_before", "raw p of the audit; empty where the change is of no test"),
    number("p_after", "raw p with the change"),
    number("q_before", "adjusted p of the audit"),
    number("q_after", "adjusted p with the change"),
    text("verdict_before", "gap found, no gap shown or not tested; or what else the audit says"),
    text("verdict_after", "the same with the change"),
    text("changes", "yes where the two verdicts differ, else no; empty where the change could not be tried"),
    text("detail", "what stands behind the change, in words"),
    _STATUS,
)
RULERS = _schema(
    "rulers",
    ("model", "label", "metric", "grouping", "trusted", "other", "quantity"),
    _MODEL,
    _LABEL,
    _METRIC,
    _GROUPING,
    text("trusted", "the trusted ruler"),
    text("other", "the ruler compared with it"),
    _QUANTITY,
    Column("trusted_value", "mixed", "the quantity under the trusted ruler"),
    Column("other_value", "mixed", "the quantity under the other ruler"),
    Column("value", "mixed", "the comparison; a word where the quantity is a verdict"),
    number("low", "lower limit"),
    number("high", "upper limit"),
    number("p", "p value of the quantity's own test"),
    _COMPARED,
    _DETAIL,
)
MODELS = _schema(
    "models",
    ("ruler", "label", "metric", "grouping", "baseline", "other", "quantity"),
    _RULER,
    _LABEL,
    _METRIC,
    _GROUPING,
    text("baseline", "the model that the other one is compared with"),
    text("other", "the model compared with it"),
    _QUANTITY,
    Column("baseline_value", "mixed", "the quantity of the baseline"),
    Column("other_value", "mixed", "the quantity of the other model"),
    Column("value", "mixed", "the comparison; a word where the quantity is a verdict"),
    number("low", "lower limit"),
    number("high", "upper limit"),
    number("p", "p value of the quantity's own test"),
    number("q", "p adjusted over all rows of the comparison with this quantity; of amplification alone"),
    _COMPARED,
    _DETAIL,
)
INDEPENDENCE = _schema(
    "independence",
    ("model", "trusted", "other", "label", "quantity"),
    _MODEL,
    text("trusted", "the trusted ruler (gold)"),
    text("other", "the ruler whose independence of the model is asked for"),
    _LABEL,
    _QUANTITY,
    Column("value", "mixed", "the estimate; a word where the quantity is a verdict"),
    number("low", "lower limit, patients resampled"),
    number("high", "upper limit"),
    count("n_cases", "cases behind it"),
    _STATUS,
    _DETAIL,
)
FINDINGS = _schema(
    "findings",
    ("code", "level", "where", "message"),
    text("code", "stable name"),
    text("level", "error, warning or note"),
    text("where", "file, row, column; or the cell of the audit"),
    text("message", "the fact"),
    text("fix", "what to do"),
)
EXCLUDED = _schema(
    "excluded",
    ("case", "rule"),
    text("case", "one exam"),
    text("rule", "which rule left it out"),
    text("reason", "why"),
)

SCHEMAS: dict[str, Schema] = {
    schema.name: schema
    for schema in (
        SCORES,
        GROUPS,
        DISPARITIES,
        TESTS,
        SWEEPS,
        REGRESSION,
        COVERAGE,
        FAMILIES,
        SENSITIVITY,
        RULERS,
        MODELS,
        INDEPENDENCE,
        FINDINGS,
        EXCLUDED,
    )
}
