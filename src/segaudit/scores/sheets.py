"""Scores from a table of per-case values that somebody has: long, or wide with columns `<metric>_<label>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from segaudit.attributes import listing
from segaudit.errors import Finding, counted, did_you_mean, raise_errors
from segaudit.metrics import METRICS
from segaudit.scores.base import MACRO, Scores
from segaudit.scores.finish import macro
from segaudit.sheets import Sheet, read_sheet
from segaudit.tables import SCORES, mapped

STATUSES = (
    "ok",
    "both_empty",
    "prediction_empty",
    "reference_empty",
    "prediction_missing",
    "reference_missing",
    "not_scored",
)
SINGLE = "all"
_BLANK = {"", "nan", "na", "n/a", "none", "null", "-"}
_SHOWN = 5
_PERCENT = 1.5  # the median of percentages lies above, that of shares below


@dataclass
class _Reading:
    """What is gathered from one file."""

    where: str
    findings: list[Finding] = field(default_factory=list)

    def fault(self, code: str, fact: str, place: str, fix: str) -> None:
        self.findings.append(Finding(code, fact, f"{self.where}, {place}", fix))


def read_score_table(
    path: Path,
    *,
    ruler: str,
    model: str = "model",
    columns: Mapping[str, str] | None = None,
) -> Scores:
    """Return the scores of a per-case table under one ruler.

    Parameters
    ----------
    path : Path
        CSV, TSV or XLSX. Long: case, metric, value (label, patient, model, status as far as there). Wide: case and
        columns named `<metric>_<label>` such as dice_vb, or the metric alone.
    ruler : str
        The reference that the scores were computed against.
    model : str
        Name of the model where the table has no column `model`.
    columns : mapping of str to str, optional
        Our name to the table's, e.g. {"case": "case_id", "dice_tumour": "dsc"}. When scores are named here, no other
        column is read as one.

    Returns
    -------
    Scores
        A blank value has the status not_scored; an infinite HD95 is stored empty with the status prediction_empty,
        which stands for either mask being empty. Macro rows are the table's own (`dice_macro`), else computed.

    Raises
    ------
    AuditError
        SCORES_NO_CASE, SCORES_NO_COLUMNS, SCORES_TWICE, SCORES_VALUE, SCORES_BOUNDS, SCORES_STATUS, UNKNOWN_COLUMN,
        UNKNOWN_METRIC: all that are wrong in the file at once.
    """
    sheet = read_sheet(path)
    reading = _Reading(str(path), [f for f in sheet.findings if f.level != "note"])
    table = _renamed(sheet, columns or {}, reading)
    if "case" not in table:
        fix = f"name it: --column case=NAME; {did_you_mean('case', sheet.table.columns)}"
        reading.fault("SCORES_NO_CASE", "there is no column 'case'.", "header", fix)
    raise_errors(reading.findings)
    long = {"metric", "value"} <= set(table.columns)
    rows = _long(table, sheet, reading) if long else _wide(table, sheet, columns or {}, reading)
    raise_errors(reading.findings)
    rows["ruler"] = ruler
    rows["model"] = rows["model"].where(rows["model"] != "", model)
    rows["patient"] = rows["patient"].where(rows["patient"] != "", rows["case"])
    _refuse_doubles(rows, reading)
    raise_errors(reading.findings)
    rows = rows.drop(columns="line")
    if not (rows["label"] == MACRO).any():
        rows = pd.concat([rows, macro(rows)], ignore_index=True)
    return Scores(SCORES.frame(rows[SCORES.names()]), inputs=(path,), findings=tuple(reading.findings))


def _renamed(sheet: Sheet, columns: Mapping[str, str], reading: _Reading) -> pd.DataFrame:
    table = sheet.table
    for ours, theirs in columns.items():
        if theirs not in table.columns:
            fact = f"there is no column '{theirs}' (for '{ours}')."
            reading.fault("UNKNOWN_COLUMN", fact, "header", did_you_mean(theirs, table.columns))
    raise_errors(reading.findings)
    taken = {theirs: ours for ours, theirs in columns.items()}
    # a column that the mapping replaces keeps out of the way
    kept = [name for name in table.columns if name in taken or name not in columns]
    return table[kept].rename(columns=taken)


def _long(table: pd.DataFrame, sheet: Sheet, reading: _Reading) -> pd.DataFrame:
    rulers = sorted(set(table["ruler"]) - {""}) if "ruler" in table else []
    if len(rulers) > 1:
        fact = f"it holds several rulers: {', '.join(rulers[:_SHOWN])}."
        reading.fault("SCORES_RULERS", fact, "column ruler", "give one file a ruler, or the run directory itself.")
    lines = np.asarray(sheet.line_numbers)
    unknown = sorted(set(table["metric"]) - set(METRICS.names()))
    for name in unknown:
        reading.fault(
            "UNKNOWN_METRIC", f"no metric is named '{name}'.", "column metric", did_you_mean(name, METRICS.names())
        )
    rows = pd.DataFrame({"case": table["case"].str.strip(), "line": lines})
    for name, default in (("patient", ""), ("model", ""), ("label", SINGLE), ("status", "")):
        rows[name] = table[name].str.strip() if name in table else default
    rows["metric"] = table["metric"]
    raise_errors(reading.findings)
    stated = rows["status"].copy()
    for bad in sorted(set(stated) - {"", *STATUSES}):
        reading.fault("SCORES_STATUS", f"'{bad}' is no status.", "column status", did_you_mean(bad, STATUSES))
    values, status = _parsed(table["value"], lines, "value", reading)
    rows["value"], rows["status"] = values, stated.where(stated != "", status)
    _check_stated(rows, stated, reading)
    for name in rows["metric"].unique():
        chosen = (rows["metric"] == name).to_numpy()
        _check_bounds(rows.loc[chosen, "value"], lines[chosen], str(name), f"column value, metric {name}", reading)
    return _without_infinity(rows)


def _check_stated(rows: pd.DataFrame, stated: pd.Series, reading: _Reading) -> None:
    """Refuse a value beside a status that says there is none, and `ok` beside no value."""
    faults = (
        (stated.isin(["prediction_missing", "reference_missing", "not_scored"]) & rows["value"].notna(), "has a value"),
        ((stated == "ok") & rows["value"].isna(), "has no value"),
    )
    for wrong, what in faults:
        for row in rows[wrong].head(_SHOWN).to_dict("records"):
            fact = f"the {row['metric']} of case '{row['case']}' has the status {row['status']} and {what}."
            reading.fault("SCORES_STATUS", fact, f"line {row['line']}, column status", "mend the status or the value.")


def _wide(table: pd.DataFrame, sheet: Sheet, columns: Mapping[str, str], reading: _Reading) -> pd.DataFrame:
    named = [name for name in columns if name not in ("case", "patient", "model")]
    scores = {name: parsed for name in (named or table.columns) if (parsed := metric_and_label(name)) is not None}
    for name in named:
        if name not in scores:
            fix = f"write <metric>_<label>, such as dice_vb; metrics: {', '.join(METRICS.names())}."
            reading.fault("UNKNOWN_METRIC", f"'{name}' is no metric with a label.", f"--column {name}", fix)
    if not scores and not reading.findings:
        fact = f"no column is a score (found: {', '.join(list(table.columns)[:12])})."
        fix = "name columns <metric>_<label>, such as dice_vb, or map them: --column dice_vb=NAME."
        reading.fault("SCORES_NO_COLUMNS", fact, "header", fix)
    raise_errors(reading.findings)
    other = [name for name in table.columns if name not in scores and name not in ("case", "patient", "model")]
    if other and not named:
        fact = f"columns that are no scores were not read: {listing(other, _SHOWN)}."
        reading.findings.append(Finding("SCORES_IGNORED", fact, reading.where, "", "note"))
    lines = np.asarray(sheet.line_numbers)
    parts = []
    for name, (metric, label) in scores.items():
        values, status = _parsed(table[name], lines, name, reading)
        _check_bounds(values, lines, metric, f"column {name}", reading)
        part = {"case": table["case"].str.strip(), "metric": metric, "label": label, "value": values, "status": status}
        parts.append(pd.DataFrame({**part, "line": lines}))
        for fixed in ("patient", "model"):
            parts[-1][fixed] = table[fixed].str.strip() if fixed in table else ""
    return _without_infinity(pd.concat(parts, ignore_index=True))


def metric_and_label(name: str) -> tuple[str, str] | None:
    """Return metric and label of a column name, or None when it is no score: `dice_vb` -> ('dice', 'vb').

    Examples
    --------
    >>> metric_and_label("hd95_left_lung"), metric_and_label("age")
    (('hd95', 'left_lung'), None)
    """
    for metric in sorted(METRICS.names(), key=len, reverse=True):
        if name == metric:
            return metric, SINGLE
        if name.startswith(f"{metric}_") and len(name) > len(metric) + 1:
            return metric, name[len(metric) + 1 :]
    return None


def _parsed(column: pd.Series, lines: np.ndarray, name: str, reading: _Reading) -> tuple[pd.Series, pd.Series]:
    words = column.str.strip()
    blank = words.str.lower().isin(_BLANK)
    values = pd.to_numeric(words.where(~blank), errors="coerce").astype("float64")
    wrong = values.isna() & ~blank
    if wrong.any():
        shown = ", ".join(
            f"{w!r} (line {n})" for w, n in zip(words[wrong][:_SHOWN], lines[wrong][:_SHOWN], strict=True)
        )
        fix = "write a number with a decimal point, or leave it blank."
        fact = f"{counted(int(wrong.sum()), 'value is no number', 'values are no numbers')}: {shown}."
        reading.fault("SCORES_VALUE", fact, f"column {name}", fix)
    return values, pd.Series(np.where(blank, "not_scored", "ok"), index=column.index)


def _check_bounds(values: pd.Series, lines: np.ndarray, metric: str, place: str, reading: _Reading) -> None:
    low, high = METRICS[metric].bounds
    wrong = ((values < low) | (values > high)).to_numpy()
    if wrong.any():
        shown = ", ".join(
            f"{v:g} (line {n})" for v, n in zip(values[wrong][:_SHOWN], lines[wrong][:_SHOWN], strict=True)
        )
        percent = high == 1 and float(np.nanmedian(values)) > _PERCENT and float(np.nanmax(values)) <= 100
        fix = "percentages: divide by 100." if percent else "correct them, or map the column to another metric."
        outside = counted(int(wrong.sum()), "value lies", "values lie")
        fact = f"{outside} outside {metric}'s bounds {low:g} to {high:g}: {shown}."
        reading.fault("SCORES_BOUNDS", fact, place, fix)


def _without_infinity(rows: pd.DataFrame) -> pd.DataFrame:
    infinite = np.isinf(rows["value"])
    rows["status"] = rows["status"].where(~(infinite & (rows["status"] == "ok")), "prediction_empty")
    rows["value"] = rows["value"].where(~infinite)
    rows["unit"] = mapped(rows["metric"], {card.name: card.unit for card in METRICS})
    return rows


def _refuse_doubles(rows: pd.DataFrame, reading: _Reading) -> None:
    blank = rows["case"] == ""
    for line in sorted(set(rows.loc[blank, "line"]))[:_SHOWN]:
        reading.fault("SCORES_NO_CASE", "the case is blank.", f"line {line}", "name the case or remove the row.")
    key = ["case", "model", "metric", "label"]
    doubled = rows[rows.duplicated(key, keep=False) & ~blank]
    for name in list(dict.fromkeys(doubled["case"]))[:_SHOWN]:
        lines = sorted(set(doubled.loc[doubled["case"] == name, "line"]))
        fact = f"case '{name}' occurs {len(lines)} times."
        reading.fault("SCORES_TWICE", fact, f"lines {', '.join(map(str, lines[:_SHOWN]))}", "keep one row a case.")
    pairs = rows[["case", "patient"]].drop_duplicates()
    torn = pairs[pairs.duplicated("case", keep=False)]
    for case, patients in torn.groupby("case", sort=False)["patient"]:
        fact = f"case '{case}' belongs to patients {', '.join(map(str, patients[:_SHOWN]))}."
        reading.fault("CASE_TWO_PATIENTS", fact, "column patient", "a case has one patient.")
