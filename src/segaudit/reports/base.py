"""Report: the document of an audit, and the files it is written to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segaudit.audits import Audit
from segaudit.confounders import Confounders
from segaudit.errors import AuditError, Finding, counted, did_you_mean
from segaudit.provenance import Input, digest_json
from segaudit.reports.document import Cell, Document, Figure, Section, Table
from segaudit.reports.numbers import NONE
from segaudit.reports.reading import Reading, read
from segaudit.reports.sections import SECTIONS
from segaudit.reports.sections.manifest import manifest
from segaudit.reports.sections.summary import summary
from segaudit.reports.verdicts import listed
from segaudit.rulers import RulerComparison
from segaudit.scores import MACRO
from segaudit.store import RunDirectory
from segaudit.volumes import DEFAULT_MAX_BYTES

FORMATS = ("html", "latex", "json", "pdf")


@dataclass(frozen=True)
class Report:
    """The report of an audit: one document, several ways of writing it.

    Attributes
    ----------
    document : Document
    """

    document: Document

    def write(self, folder: Path | str, formats: Sequence[str] = ("html", "latex", "json")) -> list[Path]:
        """Write the report into a folder, and return the files.

        `html` is report.html; `json` is report.json; `latex` is report.tex with a file a table in tables/ and a figure
        in figures/ (SVG and PDF); `pdf` is report.pdf, printed by Chromium.

        Raises
        ------
        AuditError
            UNKNOWN_FORMAT; PDF_NO_BROWSER when a PDF is asked for and no Chromium is found.
        """
        from segaudit.reports.html_pages import to_html
        from segaudit.reports.json_records import to_json

        unknown = [name for name in formats if name not in FORMATS]
        if unknown:
            raise AuditError(
                [
                    Finding("UNKNOWN_FORMAT", f"no format is named '{n}'.", "formats", did_you_mean(n, FORMATS))
                    for n in unknown
                ]
            )
        run = RunDirectory(Path(folder), create=True)
        written: list[str] = []
        if "html" in formats or "pdf" in formats:
            run.write_bytes("report.html", to_html(self.document).encode())
            written.append("report.html")
        if "json" in formats:
            written += run.write_json("report.json", to_json(self.document))
        if "latex" in formats:
            from segaudit.reports.latex_tables import write_latex

            written += write_latex(self.document, run.path)
        if "pdf" in formats:
            from segaudit.reports.printing import print_pdf

            print_pdf(run.path / "report.html", run.path / "report.pdf")
            written.append("report.pdf")
        return [run.path / name for name in written]

    def page_one(self) -> dict[str, Any]:
        """Return what page one shows, text by text, with the number behind each, for audit.json."""
        from segaudit.reports.json_records import page_one

        return page_one(self.document)

    def _repr_html_(self) -> str:
        from html import escape

        from segaudit.reports.html_pages import to_html

        page = escape(to_html(self.document), quote=True)
        return f'<iframe sandbox="allow-scripts allow-downloads" width="100%" height="720" srcdoc="{page}"></iframe>'

    def __str__(self) -> str:
        names = ", ".join(section.title for section in self.document.sections)
        tables = sum(isinstance(block, Table) for block in self.document.blocks())
        charts = sum(isinstance(block, Figure) for block in self.document.blocks())
        return f"{self.document.title}\n  {names}\n  {counted(tables, 'table')}, {counted(charts, 'figure')}"


def report(
    audit: Audit,
    rulers: RulerComparison | Iterable[RulerComparison] | None = None,
    *,
    show_cases: bool = False,
    inputs: tuple[Input, ...] = (),
    declared_first: bool | None = None,
    images: Mapping[str, Path] | None = None,
    confounders: Confounders | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Report:
    """Return the report of an audit and of the comparison of its rulers.

    Every model has a page one of its own, the later pages are those of each model in turn.

    Parameters
    ----------
    audit : Audit
    rulers : RulerComparison or several, optional
        Of one trusted ruler with one other each.
    show_cases : bool
        Whether a case's score and image may stand beside its group. Off by default.
    inputs : tuple of Input
        Files to name in the manifest, with their digests.
    declared_first : bool, optional
        Whether the plan was declared before a score was seen; None when that is not recorded.
    images : mapping of case to Path, optional
        Images of whole numbers (NIfTI, PNG) on which the outlines of the worst cases are drawn.
    confounders : Confounders, optional
        What anatomy, scanner and site have to do with the groups, of the same scores.
    max_bytes : int
        Largest image that is read to draw outlines, voxels as stored.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from segaudit.audits import audit
    >>> from segaudit.scores import Scores
    >>> from segaudit.tables import SCORES
    >>> rows = [("c%02d" % i, "p%02d" % i, "m", "expert", "a", "dice", 0.8 + i / 100, "1", "ok") for i in range(12)]
    >>> scores = Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names())))
    >>> print(report(audit(scores)).document.sections[0].blocks[0].sentences[0].word)
    not assessable
    """
    several = (rulers,) if isinstance(rulers, RulerComparison) else tuple(rulers or ())
    readings = [
        read(
            audit,
            several,
            model=model,
            show_cases=show_cases,
            images=images,
            confounders=confounders,
            max_bytes=max_bytes,
        )
        for model in audit.scores.models
    ]
    sections = [summary(reading) for reading in readings]
    for reading in readings:
        own = [make(reading) for make in SECTIONS]
        sections += own if len(readings) == 1 else [_of_model(section, reading, readings) for section in own]
    sections.insert(-_CLOSING, manifest(readings[0], inputs))
    return Report(
        Document(_title(readings), _subtitle(readings, declared_first=declared_first), tuple(_once(sections)))
    )


_DECLARED = {
    True: "declared before the scores",
    False: "declared after the scores",
    None: "when declared: not recorded",
}
_CLOSING = 2  # the checklist and the glossary follow the manifest


def _of_model(section: Section, reading: Reading, readings: list[Reading]) -> Section:
    """Return a section under the name of its model, its tables and figures too."""
    from segaudit.reports.document import renamed

    if section.name in ("cohort", "checklist", "glossary"):
        return section
    i = readings.index(reading) + 1
    return renamed(section, f"{section.name}-{i}", f"{section.title}: {reading.model}", f"-m{i}")


def _once(sections: list[Section]) -> Iterable[Section]:
    """Yield each section once, the closing ones last."""
    last = {section.name: i for i, section in enumerate(sections)}
    first = {section.name: i for i, section in reversed(list(enumerate(sections)))}
    for i, section in enumerate(sections):
        wanted = last if section.name in ("checklist", "glossary") else first
        if wanted[section.name] == i:
            yield section


def _title(readings: list[Reading]) -> str:
    audit = readings[0].audit
    data = audit.cohort.name if audit.cohort is not None else "scores"
    return f"Audit of {listed([r.model for r in readings])} on {data}"


def _subtitle(readings: list[Reading], *, declared_first: bool | None) -> tuple[tuple[str, Cell], ...]:
    audit, first = readings[0].audit, readings[0]
    labels = [label for label in dict.fromkeys(label for _, label in first.cells) if label != MACRO]
    run = digest_json([audit.plan.digest(), [str(r.model) for r in readings], len(audit.scores.table)])
    return (
        ("exams", Cell(f"{len(audit.cases):,}")),
        ("patients", Cell(f"{audit.cases['patient'].nunique():,}")),
        ("structures", Cell(str(len(labels)), note=listed(labels, 5)) if labels else Cell(NONE, note="the mean alone")),
        ("rulers", Cell(str(len(first.rulers)), note=listed(list(first.rulers), 5))),
        ("plan", Cell(audit.plan.digest()[:12], note=_DECLARED[declared_first])),
        ("run", Cell(run[:8])),
    )
