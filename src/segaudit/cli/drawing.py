"""What every screen is drawn with: the console, tables, findings, and rows as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from segaudit.errors import Finding

_WIDTH = 120
_LEAST_WIDTH = 12
_ASSUMED = ("KEY_ASSUMED", "PATIENT_ASSUMED")


def console() -> Console:
    """Return the console for results; a file or a pipe has no width of its own: tables keep their lines there."""
    return Console(highlight=False, width=None if Console().is_terminal else _WIDTH)


def new_table(title: str, names: Sequence[str], folding: Sequence[str] = ()) -> Table:
    """Return an empty table; only the named columns may break their lines."""
    shown = Table(title=escape(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in names:
        # a column that may fold is the first to give way, but never to nothing
        least = _LEAST_WIDTH if name in folding else None
        shown.add_column(escape(name), overflow="fold", no_wrap=name not in folding, min_width=least)
    return shown


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON rows, empty cells null."""
    found: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return found


def print_json(told: dict[str, Any]) -> None:
    """Print a result for machines."""
    sys.stdout.write(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")


def print_findings(out: Console, findings: Sequence[Finding]) -> None:
    """Print errors and warnings, and which columns say who is who; other notes are left to --json."""
    for finding in dict.fromkeys(findings):
        if finding.level != "note" or finding.code in _ASSUMED:
            colour = {"error": "red", "warning": "yellow", "note": "dim"}[finding.level]
            said = escape(f"{finding.code}: {finding.message}" + (f" ({finding.where})" if finding.where else ""))
            out.print(f"[{colour}]{finding.level}[/{colour}] {said}", soft_wrap=True)
