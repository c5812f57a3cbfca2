"""The tables of the confounders."""

from __future__ import annotations

from segaudit.tables import Schema, count, number, text

_MODEL = text("model", "mask set under audit")
_RULER = text("ruler", "reference it was scored against")
_LABEL = text("label", "structure; macro is all structures of a case together")
_GROUPING = text("grouping", "name of the grouping; empty for all cases together")
_CELL = (_MODEL, _RULER, _LABEL, text("metric", "name of the metric card"))
_STATUS = text("status", "ok, too_few_patients, one_group or undefined")
_RANKED = (
    text("effect_name", "rank_biserial, epsilon_squared, cramers_v or spearman"),
    number("effect", "size of the effect; positive rank_biserial: the second group, or the group, has higher values"),
)
_LIMITS = (number("low", "lower limit"), number("high", "upper limit"), number("p", "two-sided p value"))
ANATOMY = Schema(
    "anatomy",
    ("ruler", "label", "quantity", "grouping", "group"),
    (
        _RULER,
        _LABEL,
        text("quantity", "volume_mm3, voxels or components, of the reference"),
        _GROUPING,
        text("group", "group; empty in the row of the test between all groups"),
        count("n_patients", "patients; a patient counts with the mean over its cases"),
        number("mean", "mean over patients"),
        number("median", "median over patients"),
        number("sd", "standard deviation over patients, ddof 1"),
        number("ratio", "mean over the mean of the reference group, which comes first"),
        *(number(f"ratio_{end}", f"{side} limit") for end, side in (("low", "lower"), ("high", "upper"))),
        text("test", "mann_whitney or kruskal_wallis"),
        number("statistic", "U of the second group, or H"),
        number("p", "two-sided p value"),
        number("q", "Benjamini-Hochberg adjusted p over the table"),
        *_RANKED,
        _STATUS,
    ),
)
ENTANGLEMENT = Schema(
    "entanglement",
    ("first", "second"),
    (
        text("first", "attribute, scanner or site"),
        text("second", "another one"),
        text("test", "chi2, mann_whitney, kruskal_wallis or spearman"),
        number("statistic", "chi square without continuity correction, U of the second level, H, or rho"),
        count("dof", "degrees of freedom"),
        number("p", "two-sided p value"),
        number("q", "Benjamini-Hochberg adjusted p over the table"),
        *_RANKED,
        number("min_expected", "smallest expected count of a chi-square test"),
        count("n_patients", "patients, each at the first of its cases that has both"),
        _STATUS,
    ),
)
ASSOCIATIONS = Schema(
    "associations",
    ("model", "ruler", "label", "metric", "other", "grouping", "group"),
    (
        *_CELL,
        text("other", "what the score is set against: a covariate, or another metric"),
        _GROUPING,
        text("group", "group; empty for all cases together"),
        count("n_patients", "patients; a patient counts with the mean over its cases"),
        number("mean", "mean of the score over patients"),
        number("other_mean", "mean of the other over patients"),
        number("rho", "Spearman's rank correlation of the two"),
        *_LIMITS,
        number("q", "Benjamini-Hochberg adjusted p over the rows of the model and ruler"),
        _STATUS,
    ),
)
ADJUSTED = Schema(
    "adjusted",
    ("model", "ruler", "label", "metric", "grouping", "group", "reference_group", "method", "adjusted_for"),
    (
        *_CELL,
        _GROUPING,
        text("group", "group of the contrast"),
        text("reference_group", "group it is set against"),
        text("method", "ols: difference of means; van_elteren: rank_biserial within strata"),
        text("adjusted_for", "covariates of the adjusted contrast, joined by +"),
        number("value", "the contrast without adjustment, on the same cases"),
        *_LIMITS,
        number("q", "Benjamini-Hochberg adjusted p over the rows of model, ruler, method and covariates"),
        *(number(f"adjusted_{name}", f"{name} with adjustment") for name in ("value", "low", "high", "p", "q")),
        text("errors", "HC3 or cluster (patient)"),
        count("n_cases", "cases in both contrasts"),
        count("n_patients", "patients of those cases"),
        count("n_left_out", "scored cases of the groups left out: a covariate missing, or no stratum shared"),
        count("n_strata", "strata with both groups"),
        _STATUS,
        text("detail", "why there is no value"),
    ),
)
