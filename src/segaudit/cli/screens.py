"""What a person sees in the terminal: results on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from segaudit.audits.families import OMNIBUS
from segaudit.cli.drawing import console, new_table
from segaudit.cohorts import Cohort
from segaudit.errors import Finding, counted
from segaudit.explain import EXPLANATIONS, explained
from segaudit.lines import Result
from segaudit.metrics import METRICS
from segaudit.rulers import ModelComparison, RulerComparison
from segaudit.rulers.pairs import lookup
from segaudit.runs import audit_document
from segaudit.scores import MACRO, Scores

_SHOWN_NOTES = 8
_LINE = 80  # columns of an explanation
_GROUP_WIDTH = 14
UNSHOWN = "no dependence shown"


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


def show(result: Result, *, as_json: bool = False) -> None:
    """Print an audit: the verdicts first, then how big the gaps are, then what the model was measured against."""
    if as_json:
        told = json.dumps(audit_document(result.audit, result.comparisons), ensure_ascii=False, allow_nan=False)
        sys.stdout.write(told + "\n")
        return
    out = console()
    audit = result.audit
    rulers = ", ".join(audit.scores.rulers)
    people = f"{counted(len(audit.cases), 'case')}, {counted(audit.cases['patient'].nunique(), 'patient')}"
    out.print(f"[bold]{people}[/bold]; rulers: {escape(rulers)}; plan {audit.plan.digest()[:12]}")
    for model in audit.scores.models:
        if audit.plan.groupings:
            _print_verdicts(out, result, model)
            out.print(_gaps_table(result, model))
        for comparison in result.comparisons:
            out.print(_rulers_table(comparison, model, audit.scores, whole=len(result.comparisons) == 1))
    if not audit.plan.groupings:
        out.print("No grouping was audited: nothing is said about disparities.")
    _print_families(out, result)
    _notes(out, [*audit.findings, *(f for comparison in result.comparisons for f in comparison.findings)])
    if result.run is not None:
        out.print(f"run:    {escape(str(result.run))}")
    if result.report is not None:
        out.print(f"report: {escape(str(result.report))}")


def _print_verdicts(out: Console, result: Result, model: str) -> None:
    """Print, for each grouping of the headline score, the verdict of the trusted ruler and what each other one does."""
    audit = result.audit
    metric, label = headline(audit.scores)
    trusted = result.comparisons[0].trusted if result.comparisons else audit.scores.rulers[0]
    out.print(f"\n[bold]Verdicts on {escape(model)}, {metric} {escape(label)}[/bold]")
    for grouping in audit.plan.groupings:
        key = {"model": model, "label": label, "metric": metric, "grouping": grouping.name}
        tests = lookup(audit.tests, ruler=trusted, **key)
        test = tests[tests["test"].isin(OMNIBUS)].iloc[0]
        q = float(test["q"])
        said = str(test["status"]) if pd.isna(q) else "gap found" if q < audit.plan.alpha else "no gap shown"
        parts = [f"{trusted}: {said}" + ("" if pd.isna(q) else f" (q = {q:.4f})")]
        for comparison in result.comparisons:
            rows = lookup(comparison.table, quantity="verdict_class", **key)
            row = rows.iloc[0] if len(rows) else None
            if row is not None:
                word = row["status"] if row["value"] is None or pd.isna(row["value"]) else row["value"]
                detail = f" ({row['detail']})" if row["detail"] else ""
                parts.append(f"{comparison.other}: {word}{detail}")
        out.print(escape(f"  {grouping.name}: " + "; ".join(parts)), soft_wrap=True)


def _print_families(out: Console, result: Result) -> None:
    audit = result.audit
    told = audit.families[audit.families["method"] == audit.plan.method]
    for row in told[told["family"].isin(("all", "primary", "joint"))].to_dict("records"):
        which = f": {row['rejected_attributes']}" if row["n_rejected"] else ""
        tests = f"{row['n_rejected']} of {row['n_planned']} tests below {row['alpha']:g} ({row['method']})"
        out.print(escape(f"{row['model']} against {row['ruler']}, family '{row['family']}': {tests}{which}"))


def _rulers_table(comparison: RulerComparison, model: str, scores: Scores, *, whole: bool) -> Table:
    """Return level and spread under both rulers: of the whole of the scores, or of the headline metric."""
    trusted, other = comparison.trusted, comparison.other
    names = ("score", trusted, other, "inflation [95 %]", "SD ratio", "Walsh ratio [95 %]", "noise")
    shown = new_table(f"{other} beside {trusted} (trusted)", names, ("score",))
    overall = lookup(comparison.table, grouping="", model=model)
    if not whole:
        overall = overall[overall["metric"] == headline(scores)[0]]
    words: dict[str, str] = {}
    mechanisms: dict[str, list[str]] = {}
    for (metric, label), rows in overall.groupby(["metric", "label"], sort=False):
        by = {str(row["quantity"]): row for row in rows.to_dict("records")}
        if "sd_ratio" not in by:
            continue
        level, walsh, spread = by["inflation"], by["walsh_ratio"], by["sd_ratio"]["value"]
        shrunk = isinstance(spread, float) and 0 < spread < 1
        inflated = [_number(level[name], 4, sign=True) for name in ("value", "low", "high")]
        ratio = [_number(walsh["value"], 3), _number(walsh["low"], 2), _number(walsh["high"], 2)]
        cells = (
            f"{metric} {label}",
            _number(level["trusted_value"]),
            _number(level["other_value"]),
            f"{inflated[0]} [{inflated[1]}, {inflated[2]}]",
            f"1/{1 / spread:.2f}" if shrunk else _number(spread, 2),
            f"{ratio[0]} [{ratio[1]}, {ratio[2]}]",
            str(by["collapse"]["value"]),
        )
        shown.add_row(*map(escape, cells))
        if metric == "dice":
            words[str(label)] = str(by["independence"]["value"])
        log = by.get("walsh_ratio_log")
        if log is not None and log["detail"]:
            mechanisms.setdefault(str(log["detail"]).split(":")[0], []).append(f"{metric} {label}")
    if words:
        labels_of = {word: [label for label in words if words[label] == word] for word in words.values()}
        told = "; ".join(f"{word} ({', '.join(labels)})" for word, labels in labels_of.items())
        doubt = (
            ""
            if set(words.values()) == {UNSHOWN}
            else "; copying and noise of the trusted ruler cannot be told apart here"
        )
        lines = [f"{other} and {model}: {told}{doubt}"]
        lines += [f"{mechanism}: {', '.join(scores_so)}" for mechanism, scores_so in mechanisms.items()]
        shown.caption = escape("\n".join(lines))
        shown.caption_justify = "left"
    return shown


def _gaps_table(result: Result, model: str) -> Table:
    """Return the gaps of the headline score: magnitude first, q last."""
    audit = result.audit
    metric, label = headline(audit.scores)
    names = ("grouping", "ruler", "worst median", "best median", "gap [95 %]", "chance", "DIR [95 %]", "effect", "q")
    shown = new_table(f"Gaps of {model}: {metric} {label}", names, ("grouping", "ruler", "worst median", "best median"))
    for grouping in audit.plan.groupings:
        for ruler in audit.scores.rulers:
            key = {"model": model, "ruler": ruler, "label": label, "metric": metric, "grouping": grouping.name}
            first = ruler == audit.scores.rulers[0]
            shown.add_row(*map(escape, [grouping.name if first else "", ruler, *_gap_cells(result, key)]))
    shown.caption = "chance: the gap to expect when groups are alike, at these group sizes"
    shown.caption_justify = "left"
    return shown


def _gap_cells(result: Result, key: dict[str, str]) -> list[str]:
    audit = result.audit
    groups = lookup(audit.groups, **key)
    groups = groups[groups["status"] == "ok"].sort_values("median", kind="stable")
    gaps = lookup(audit.disparities, **key)
    tests = lookup(audit.tests, **key)
    tests = tests[tests["test"].isin(OMNIBUS)]
    if tests.empty or tests["p"].isna().all():
        return [str(tests["status"].iloc[0]) if len(tests) else "not scored", *[""] * 6]
    if METRICS[key["metric"]].better == "lower":
        groups = groups[::-1]
    gap, ratio = (gaps[gaps["disparity"] == name] for name in ("median_gap", "dir"))
    test = tests.iloc[0]
    return [
        *(f"{_short(row['group'])} {_number(row['median'])}" for row in (groups.iloc[0], groups.iloc[-1])),
        _interval(gap, 4),
        _number(gap["expected_under_parity"].iloc[0]) if len(gap) else "",
        _interval(ratio, 2),
        f"{_number(test['effect'], 2, sign=True)} {'r' if test['effect_name'] == 'rank_biserial' else 'ε²'}",
        _number(test["q"], 4),
    ]


def headline(scores: Scores) -> tuple[str, str]:
    """Return the score that a summary shows: dice if there is one, macro if there is one."""
    table = scores.table[scores.table["metric"].map(lambda name: METRICS[name].better != "neither").astype(bool)]
    metric = "dice" if (table["metric"] == "dice").any() else str(table["metric"].iloc[0])
    labels = table.loc[table["metric"] == metric, "label"]
    return metric, MACRO if (labels == MACRO).any() else str(labels.iloc[0])


def _short(name: str) -> str:
    return name if len(name) <= _GROUP_WIDTH else name[: _GROUP_WIDTH - 1] + "…"


def _interval(rows: pd.DataFrame, digits: int) -> str:
    if rows.empty:
        return ""
    row = rows.iloc[0]
    note = {"ok": "", "saturated": " sat."}.get(row["status"], f" {row['status']}")
    return f"{_number(row['value'], digits)} [{_number(row['low'], digits)}, {_number(row['high'], digits)}]{note}"


def _number(value: object, digits: int = 4, *, sign: bool = False) -> str:
    if value is None or pd.isna(value):  # type: ignore[call-overload]
        return "-"
    return f"{float(str(value)):{'+' if sign else ''}.{digits}f}"


def show_models(found: ModelComparison, run: Path, *, as_json: bool = False) -> None:
    """Print what another model does to levels and gaps, under one ruler."""
    if as_json:
        sys.stdout.write(found.table.to_json(orient="records", double_precision=15) + "\n")
        return
    out = console()
    out.print(escape(str(found)), soft_wrap=True)
    out.print(f"table:  {escape(str(run / 'models.csv'))}")


def show_explanation(name: str | None, *, as_json: bool = False) -> None:
    """Print an explanation, or a line on each when no name is given; at most 80 columns wide."""
    chosen = [explained(name)] if name else list(EXPLANATIONS)
    if as_json:
        told = [{**asdict(item), "citations": item.citations()} for item in chosen]
        sys.stdout.write(json.dumps(told[0] if name else told, ensure_ascii=False) + "\n")
        return
    out = console()
    if not name:
        width = max(len(item.name) for item in chosen)
        for item in chosen:
            out.print(f"[bold]{escape(item.name.ljust(width))}[/bold]  {escape(item.title)}", soft_wrap=True)
        return
    out.print(f"[bold]{escape(chosen[0].name)}[/bold]: {escape(chosen[0].title)}")
    for heading, text in chosen[0].sections():
        out.print(f"\n[bold]{heading}[/bold]" if heading else "")
        indent = "  " if heading else ""
        for line in text.splitlines():
            hanging = indent + " " * (len(line) - len(line.lstrip()))
            wrapped = textwrap.fill(
                line.strip(), _LINE, initial_indent=hanging, subsequent_indent=hanging + "  " * (heading == "formula")
            )
            out.print(escape(wrapped), soft_wrap=True)


def show_scores(scores: Scores, cohort: Cohort, run: Path, *, as_json: bool = False) -> None:
    """Print the means of each model under each ruler, and the cases that have none."""
    if as_json:
        told = {"run": str(run), "scores": len(scores.table), "findings": [asdict(f) for f in scores.findings]}
        sys.stdout.write(json.dumps(told) + "\n")
        return
    out = console()
    for line in str(scores).splitlines():
        out.print(escape(line))
    _notes(out, [*cohort.findings, *scores.findings])
    out.print(f"run:    {escape(str(run))}")


def show_findings(findings: Sequence[Finding], *, summary: str = "", as_json: bool = False) -> None:
    """Print findings in full."""
    if as_json:
        sys.stdout.write(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False) + "\n")
        return
    out = console()
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
        out.print(f"and {counted(len(warnings) - _SHOWN_NOTES, 'more warning')} in findings.csv")
