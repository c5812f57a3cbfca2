"""Writers: pure, complete, and refusing what they cannot draw."""

import json
import re
from dataclasses import dataclass
from importlib import resources

import pytest

from segaudit.errors import AuditError
from segaudit.reports import report
from segaudit.reports.bibliography import entries
from segaudit.reports.document import Document, Section, Table
from segaudit.reports.html_pages import to_html
from segaudit.reports.json_records import to_json
from segaudit.reports.latex_tables import latex, table_to_latex, to_latex


@dataclass(frozen=True)
class Unknown:
    name: str = "x"


@pytest.mark.parametrize("writer", [to_html, to_json, to_latex])
def test_writers__refuse_a_block_they_cannot_draw(writer):
    document = Document("t", (), (Section("s", "S", (Unknown(),)),))
    with pytest.raises(TypeError, match="cannot draw a block of type Unknown"):
        writer(document)


@pytest.mark.parametrize("writer", [to_html, to_json, to_latex])
def test_writers__say_the_same_twice(writer, simulated, reported):
    given = {"metrics": ("dice",), "labels": ("macro",)}
    assert writer(report(*simulated(**given)).document) == writer(reported(**given).document)


def test_document__names_are_unique(reported):
    document = reported(models=("mix", "gold"), metrics=("dice",), groupings=1).document
    names = [block.name for block in document.blocks() if hasattr(block, "name")]
    assert len(names) == len(set(names))
    sections = [section.name for section in document.sections]
    assert len(sections) == len(set(sections))


def test_tables__every_row_has_every_column(reported):
    for table in reported(labels=("vb", "macro")).document.blocks():
        if isinstance(table, Table):
            assert {len(row) for row in table.rows} <= {len(table.columns)}, table.name


@pytest.mark.parametrize(
    "text, escaped",
    [
        ("50 % of a_b & c", r"50 \% of a\_b \& c"),
        ("\\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("$x^2$ #1 ~", r"\$x\textasciicircum{}2\$ \#1 \textasciitilde{}"),
        ("−3.2 → ε²", r"$-$3.2 $\to$ $\varepsilon$$^2$"),
        ("a\u202eb", "a[U+202E]b"),
        ("名", "[U+540D]"),
        ("line\nbreak", "line break"),
    ],
)
def test_latex__prints_any_text_as_it_is(text, escaped):
    assert latex(text) == escaped


def test_latex__a_long_table_breaks_over_pages(reported):
    tables = {b.name: b for b in reported().document.blocks() if isinstance(b, Table)}
    assert r"\begin{longtable}" in table_to_latex(tables["sweep-table"])
    assert r"\begin{tabular}" in table_to_latex(tables["summary-gaps"])


def test_report__writes_the_files_it_names(reported, tmp_path):
    given = {"metrics": ("dice",), "labels": ("macro",)}
    written = reported(**given).write(tmp_path, ["html", "latex", "json"])
    assert all(path.is_file() and path.stat().st_size for path in written)
    names = {str(path.relative_to(tmp_path)) for path in written}
    assert {"report.html", "report.json", "report.tex", "references.bib", "tables/table-2.tex"} <= names
    assert {"figures/summary-scores.svg", "figures/summary-scores.pdf"} <= names
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()} == names
    assert json.loads((tmp_path / "report.json").read_text())["schema"] == "segaudit-report-1"


def test_report__refuses_a_format_it_does_not_know(reported, tmp_path):
    with pytest.raises(AuditError, match=r"UNKNOWN_FORMAT.*'docx'"):
        reported().write(tmp_path, ["html", "docx"])
    assert not list(tmp_path.iterdir())


def test_report__a_pdf_without_a_browser_is_an_error_with_a_way_out(reported, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AuditError, match="PDF_NO_BROWSER"):
        reported().write(tmp_path / "run", ["pdf"])


def test_report__shows_itself(reported):
    made = reported()
    assert str(made).startswith("Audit of mix on simulated spines\n  Summary, Cohort,")
    assert made._repr_html_().startswith("<iframe sandbox=")


def test_references__have_each_key_once():
    text = resources.files("segaudit.reports").joinpath("templates", "references.bib").read_text(encoding="utf-8")
    keys = re.findall(r"^@\w+\{([\w-]+),", text, re.MULTILINE)
    assert len(keys) > 40
    assert len(keys) == len(set(keys)) == len(entries())
