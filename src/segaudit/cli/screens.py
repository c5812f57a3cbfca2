"""What a person sees in the terminal: results on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from segaudit.audits.families import OMNIBUS
from segaudit.cohorts import Cohort
from segaudit.errors import Finding
from segaudit.lines import Result
from segaudit.metrics import METRICS
from segaudit.rulers.pairs import lookup
from segaudit.runs import audit_document
from segaudit.scores import MACRO, Scores

_SHOWN_NOTES = 8


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that shows how far each step is, on stderr, when that is a terminal."""
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    tasks: dict[str, int] = {}

    def told(what: str, done: int, total: int) -> None:
        if what not in tasks:
            tasks[what] = int(bar.add_task(what, total=total))
        bar.update(tasks[what], completed=done)  # type: ignore[arg-type]

    if not console.is_terminal:
        yield lambda _what, _done, _total: None
        return
    with bar:
        yield told


def _out() -> Console:
    # a file or a pipe has no width of its own: tables keep their lines there
    return Console(highlight=False, width=None if Console().is_terminal else 120)


def show(result: Result, *, as_json: bool = False) -> None:
    """Print an audit: the verdict first, then rulers, gaps and what to know."""
    if as_json:
        sys.stdout.write(
            json.dumps(audit_document(result.audit, result.comparisons), ensure_ascii=False, allow_nan=False) + "\n"
        )
        return
    out = _out()
    audit = result.audit
    out.print(f"[bold]{len(audit.cases)} cases, {audit.cases['patient'].nunique()} patients[/bold]")
    for comparison in result.comparisons:
        out.print(_rulers_table(comparison.table, comparison.trusted, comparison.other))
    if audit.plan.groupings:
        for model in audit.scores.models:
            out.print(_gaps_table(result, model))
        told = audit.families[audit.families["method"] == audit.plan.method]
        for row in told[~told["family"].str.startswith("attribute: ")].to_dict("records"):
            which = f": {row['rejected_attributes']}" if row["n_rejected"] else ""
            tests = f"{row['n_rejected']} of {row['n_planned']} tests below {row['alpha']:g} ({row['method']})"
            out.print(escape(f"{row['model']} against {row['ruler']}, family '{row['family']}': {tests}{which}"))
    else:
        out.print("No grouping was audited: nothing is said about disparities.")
    _notes(out, [*audit.findings, *(f for comparison in result.comparisons for f in comparison.findings)])
    if result.run is not None:
        out.print(f"run:    {escape(str(result.run))}")
    if result.report is not None:
        out.print(f"report: {escape(str(result.report))}")


def _table(title: str, names: Sequence[str], folding: Sequence[str] = ()) -> Table:
    """Return an empty table; only the named columns may break their lines."""
    shown = Table(title=escape(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in names:
        shown.add_column(escape(name), overflow="fold", no_wrap=name not in folding)
    return shown


def _rulers_table(table: pd.DataFrame, trusted: str, other: str) -> Table:
    """Return level and spread of every score under both rulers."""
    overall = table[table["grouping"] == ""]
    several = len(overall["model"].unique()) > 1
    names = ("score", trusted, other, "inflation [95 %]", "SD ratio", "Walsh ratio [95 %]", "noise", "ruler")
    shown = _table(f"{other} beside {trusted} (trusted)", names, ("score", "noise", "ruler"))
    for (model, metric, label), rows in overall.groupby(["model", "metric", "label"], sort=False):
        by = {str(row["quantity"]): row for row in rows.to_dict("records")}
        if "sd_ratio" not in by:
            continue
        level, walsh, spread = by["inflation"], by["walsh_ratio"], by["sd_ratio"]["value"]
        shrunk = isinstance(spread, float) and 0 < spread < 1
        inflated = [_number(level[name], 4, sign=True) for name in ("value", "low", "high")]
        ratio = [_number(walsh["value"], 3), _number(walsh["low"], 2), _number(walsh["high"], 2)]
        cells = (
            (f"{model}: " if several else "") + f"{metric} {label}",
            _number(level["trusted_value"]),
            _number(level["other_value"]),
            f"{inflated[0]} [{inflated[1]}, {inflated[2]}]",
            f"1/{1 / spread:.2f}" if shrunk else _number(spread, 2),
            f"{ratio[0]} [{ratio[1]}, {ratio[2]}]",
            str(by["collapse"]["value"]),
            str(by["independence"]["value"]) if metric == "dice" else "",
        )
        shown.add_row(*map(escape, cells))
    return shown


def _gaps_table(result: Result, model: str) -> Table:
    """Return the gaps of the headline score: magnitude first, p and q last."""
    audit = result.audit
    metric, label = headline(audit.scores)
    names = ("grouping", "ruler", "worst - best", "gap [95 %]", "chance", "DIR [95 %]", "chance", "effect", "p", "q")
    shown = _table(f"Gaps of {model}: {metric} {label}", names, ("grouping", "ruler", "worst - best"))
    for grouping in audit.plan.groupings:
        for ruler in audit.scores.rulers:
            key = {"model": model, "ruler": ruler, "label": label, "metric": metric, "grouping": grouping.name}
            shown.add_row(*map(escape, _gap_cells(result, key, grouping.name, ruler)))
    return shown


def _gap_cells(result: Result, key: dict[str, str], grouping: str, ruler: str) -> list[str]:
    audit = result.audit
    groups = lookup(audit.groups, **key)
    groups = groups[groups["status"] == "ok"].sort_values("median")
    gaps = lookup(audit.disparities, **key)
    tests = lookup(audit.tests, **key)
    tests = tests[tests["test"].isin(OMNIBUS)]
    if tests.empty or tests["p"].isna().all():
        return [grouping, ruler, tests["status"].iloc[0] if len(tests) else "not planned", *[""] * 7]
    if METRICS[key["metric"]].better == "lower":
        groups = groups[::-1]
    gap, ratio = (gaps[gaps["disparity"] == name] for name in ("median_gap", "dir"))
    test = tests.iloc[0]
    worst, best = groups.iloc[0], groups.iloc[-1]
    cells = [
        grouping,
        ruler,
        f"{worst['group']} {worst['median']:.4f} - {best['group']} {best['median']:.4f}",
        _interval(gap, 4),
        _number(gap["expected_under_parity"].iloc[0]) if len(gap) else "",
        _interval(ratio, 3) if len(ratio) else "",
        _number(ratio["expected_under_parity"].iloc[0], 3) if len(ratio) else "",
        f"{_number(test['effect'], 3, sign=True)} {'r' if test['effect_name'] == 'rank_biserial' else 'ε²'}",
        _number(test["p"], 4),
        _number(test["q"], 4),
    ]
    return [str(cell) for cell in cells]


def headline(scores: Scores) -> tuple[str, str]:
    """Return the score that a summary shows: dice if there is one, macro if there is one."""
    table = scores.table[scores.table["metric"].map(lambda name: METRICS[name].better != "neither").astype(bool)]
    metric = "dice" if (table["metric"] == "dice").any() else str(table["metric"].iloc[0])
    labels = table.loc[table["metric"] == metric, "label"]
    return metric, MACRO if (labels == MACRO).any() else str(labels.iloc[0])


def _interval(rows: pd.DataFrame, digits: int) -> str:
    if rows.empty:
        return ""
    row = rows.iloc[0]
    note = "" if row["status"] == "ok" else f" {row['status']}"
    return f"{_number(row['value'], digits)} [{_number(row['low'], digits)}, {_number(row['high'], digits)}]{note}"


def _number(value: object, digits: int = 4, *, sign: bool = False) -> str:
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return "-"
    return f"{float(str(value)):{'+' if sign else ''}.{digits}f}"


def show_scores(scores: Scores, cohort: Cohort, run: Path, *, as_json: bool = False) -> None:
    """Print the means of each model under each ruler, and the cases that have none."""
    if as_json:
        told = {"run": str(run), "scores": len(scores.table), "findings": [asdict(f) for f in scores.findings]}
        sys.stdout.write(json.dumps(told) + "\n")
        return
    out = _out()
    for line in str(scores).splitlines():
        out.print(escape(line))
    _notes(out, [*cohort.findings, *scores.findings])
    out.print(f"run:    {escape(str(run))}")


def show_findings(findings: Sequence[Finding], *, summary: str = "", as_json: bool = False) -> None:
    """Print findings in full."""
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False) + "\n")
        return
    out = _out()
    if summary:
        out.print(escape(summary))
    for finding in findings:
        out.print(f"[bold]{finding.level}[/bold] {escape(str(finding))}", soft_wrap=True)


def _notes(out: Console, findings: Sequence[Finding]) -> None:
    """Print warnings in full, and how many notes there are."""
    warnings = [finding for finding in dict.fromkeys(findings) if finding.level == "warning"]
    for finding in warnings[:_SHOWN_NOTES]:
        out.print(f"[yellow]warning[/yellow] {escape(finding.code)}: {escape(finding.message)}", soft_wrap=True)
    if len(warnings) > _SHOWN_NOTES:
        out.print(f"and {len(warnings) - _SHOWN_NOTES} more warnings in findings.csv")
