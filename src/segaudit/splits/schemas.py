"""The tables of splits, folds, leaks and Table 1."""

from __future__ import annotations

from segaudit.tables import Schema, count, number, text

_CASE = (text("case", "one exam"), text("patient", "the statistical unit"))
_STRATUM = text("stratum", "stratum of the patient in which it was dealt, after pooling")

SPLITS = Schema("splits", ("case",), (*_CASE, text("split", "part of the split"), _STRATUM))
FOLDS = Schema("folds", ("case",), (*_CASE, count("fold", "fold in which the case is validated, from 0"), _STRATUM))
BALANCE = Schema(
    "balance",
    ("attribute", "level", "split"),
    (
        text("attribute", "attribute, (stratum), or (all)"),
        text("level", "level of the attribute; (missing) where there is none"),
        text("split", "part of the split, or fold"),
        count("n_cases", "cases of the level in the part"),
        count("n_patients", "patients of the level in the part"),
        number("share", "share of the part's patients that have the level; for (all) the part's share of the patients"),
        number("target_share", "share of all patients that have the level; for (all) the ratio asked for"),
        number("std_difference", "standardised difference of share and target_share"),
    ),
)
DROPPED = Schema(
    "dropped",
    ("case", "rule"),
    (
        *_CASE,
        text("split", "part that it was dropped from"),
        text("rule", "which rule left it out"),
        text("reason", "why, with the counts"),
    ),
)
LEAKS = Schema(
    "leaks",
    ("left", "right"),
    (
        text("left", "a named set of patients"),
        text("right", "a later one"),
        count("n_left", "patients of the left set"),
        count("n_right", "patients of the right set"),
        count("n_shared", "patients in both"),
        text("examples", "up to five of them"),
    ),
)
DUPLICATES = Schema(
    "duplicates",
    ("digest",),
    (
        text("digest", "digest of the content"),
        count("n_cases", "cases with this content"),
        count("n_patients", "patients of those cases"),
        text("splits", "parts they stand in"),
        text("cases", "up to five of them"),
    ),
)
COMPOSITION = Schema(
    "composition",
    ("part", "attribute", "level"),
    (
        text("part", "part of the cohort, or (all)"),
        text("attribute", "attribute; (all) for the size of the part"),
        text("level", "level; (number) for a number, (missing), (top-coded)"),
        count("n_cases", "cases"),
        number("pct_cases", "per cent of the part's cases"),
        count("n_patients", "patients, each by the first of its cases that has a value"),
        number("pct_patients", "per cent of the part's patients"),
        number("mean", "mean over cases, (number) rows only, top-coded values left out; so are the next six"),
        number("sd", "standard deviation, ddof 1"),
        number("median", "median"),
        number("q25", "lower quartile, linear between neighbours"),
        number("q75", "upper quartile"),
        number("min", "smallest value"),
        number("max", "largest value"),
        number(
            "max_std_difference", "(all) rows: largest absolute standardised difference between two parts, patients"
        ),
    ),
)
COMPARABILITY = Schema(
    "comparability",
    ("attribute",),
    (
        text("attribute", "attribute"),
        text("test", "chi2, chi2_yates, mann_whitney, kruskal_wallis or none"),
        number("statistic", "chi square, U of the second part, or H"),
        count("dof", "degrees of freedom"),
        number("p", "two-sided p value"),
        number("q", "Benjamini-Hochberg adjusted p over the planned tests of the table"),
        text("effect_name", "cramers_v, rank_biserial or epsilon_squared"),
        number("effect", "size; a positive rank_biserial says that the second part has the higher values"),
        number("min_expected", "smallest expected count of a chi-square test"),
        text("n", "members with a value, by part"),
        text("missing", "members without a usable value, by part; empty where only counts were given"),
        number("alpha", "threshold on q"),
        text("verdict", "gap found (q below alpha), inconclusive, or not assessable"),
        text("status", "ok, one_group (fewer than two parts or levels with members)"),
    ),
)
