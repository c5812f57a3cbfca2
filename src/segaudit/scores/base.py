"""Scores: every planned value of every case, with its unit and its status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from segaudit.errors import Finding, counted
from segaudit.metrics import METRICS
from segaudit.tables import SCORES, as_html, mapped

MACRO = "macro"


@dataclass(frozen=True)
class Scores:
    """The scores of models under rulers: one row a case, model, ruler, label and metric.

    Attributes
    ----------
    table : DataFrame
        Dense (every planned row is there) in the columns of `segaudit.tables.SCORES`; no infinity is stored.
    loads : DataFrame
        ruler, label, load: mean share of reference voxels over the evaluated cases, which nDSC was computed with.
    inputs : tuple of Path
        Files that the scores came from.
    findings : tuple of Finding
    digests : mapping of Path to (str, int)
        sha256 and size in bytes of the inputs as they were when they were scored, where a ledger was kept.
    """

    table: pd.DataFrame
    loads: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["ruler", "label", "load"]))
    inputs: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()
    digests: Mapping[Path, tuple[str, int]] = field(default_factory=dict)

    @property
    def rulers(self) -> list[str]:
        """Rulers in the order of the table."""
        return list(self.table["ruler"].unique())

    @property
    def models(self) -> list[str]:
        """Models in the order of the table."""
        return list(self.table["model"].unique())

    def patients(self) -> pd.DataFrame:
        """Return the cases with their patients, sorted by case."""
        pairs = self.table[["case", "patient"]].drop_duplicates()
        return pairs.sort_values("case", ignore_index=True)

    def of(self, cases: pd.DataFrame) -> Scores:
        """Return the scores with each case's patient as a table of cases (case, patient) has it."""
        patients = dict(zip(cases["case"].tolist(), cases["patient"].tolist(), strict=True))
        patient = mapped(self.table["case"], patients).fillna(self.table["patient"]).astype("str")
        return replace(self, table=self.table.assign(patient=patient))

    def wide(self, model: str, ruler: str) -> pd.DataFrame:
        """Return one row a case and one column a metric and label (`dice_vb`), for one model under one ruler."""
        chosen = self.table[(self.table["model"] == model) & (self.table["ruler"] == ruler)]
        column = chosen["metric"] + "_" + chosen["label"]
        return chosen.assign(column=column).pivot_table(index="case", columns="column", values="value").reset_index()

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __str__(self) -> str:
        table = self.table
        cases, labels = table["case"].nunique(), [label for label in table["label"].unique() if label != MACRO]
        patients = counted(table["patient"].nunique(), "patient")
        head = f"{counted(cases, 'case')}, {patients}; structures: {', '.join(labels)}"
        tested = table[table["metric"].isin([card.name for card in METRICS if card.better != "neither"])]
        lines = []
        for (model, ruler, metric, label), rows in tested.groupby(["model", "ruler", "metric", "label"], sort=False):
            odd = rows["status"][rows["status"] != "ok"].value_counts()
            note = "; " + ", ".join(f"{n} {status}" for status, n in odd.items()) if len(odd) else ""
            unit = "" if METRICS[str(metric)].unit == "1" else f" {METRICS[str(metric)].unit}"
            found = rows["value"].dropna()
            mean = f"mean {found.mean():.4f}{unit}" if len(found) else "no mean"
            of = "" if len(found) == len(rows) else f" of {len(found)} of {len(rows)}"
            lines.append(f"  {model} against {ruler}: {metric} {label} {mean}{of}{note}")
        return "\n".join([head, *lines])


def merge(parts: Sequence[Scores]) -> Scores:
    """Return the scores of several rulers or models as one."""
    return Scores(
        SCORES.frame(pd.concat([part.table for part in parts], ignore_index=True)),
        pd.concat([part.loads for part in parts], ignore_index=True),
        tuple(path for part in parts for path in part.inputs),
        tuple(finding for part in parts for finding in part.findings),
        {path: digest for part in parts for path, digest in part.digests.items()},
    )
