"""The LaTeX form compiles."""

import re
import shutil
import subprocess

import pytest

from segaudit.reports.document import Cell, Column, Document, Section, Table
from segaudit.reports.latex_tables import table_to_latex, to_latex

ENGINES = ("tectonic", "lualatex", "pdflatex")


@pytest.mark.latex
@pytest.mark.parametrize("given", [{}, {"groupings": 0}])
def test_latex__compiles(reported, tmp_path, given):
    engine = next((path for name in ENGINES if (path := shutil.which(name))), None)
    if engine is None:
        pytest.skip("no LaTeX engine on this machine")
    reported(**given).write(tmp_path, ["latex"])
    quiet = [] if engine.endswith("tectonic") else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [engine, *quiet, "report.tex"], check=False, cwd=tmp_path, capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
    beyond = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", done.stdout)]
    assert max(beyond, default=0.0) < 20  # no table runs off the page


def wide(rows, note="a note of some words that is longer than the text"):
    columns = (Column("attribute"), *(Column(f"column {i}", "right") for i in range(7)), Column("reading"))
    cells = (
        Cell("sex", note=note),
        *(Cell("−1.2 points", -0.012, "(−3.4 to +1.0)"),) * 7,
        Cell("inconclusive", note=note),
    )
    return Table("wide", "Wide", columns, (cells,) * rows, "What it says.")


def shares(text):
    return [float(share) for share in re.findall(r"\\dimexpr([\d.]+)", text)]


def test_table__that_is_wide_breaks_its_lines_within_the_page():
    text = table_to_latex(wide(3))
    assert len(shares(text)) == 9
    assert sum(shares(text)) == pytest.approx(1, abs=0.01)
    assert r"sex\par {\scriptsize a note" in text


def test_table__that_is_narrow_stands_as_it_is():
    text = table_to_latex(
        Table("t", "T", (Column("a"), Column("b", "right")), ((Cell("x", note="y"), Cell("1", 1.0)),))
    )
    assert text.startswith(r"\begin{tabular}{lr}")
    assert r"x {\scriptsize y} & 1 \\" in text


def test_table__a_long_word_may_break_and_a_short_one_does_not():
    text = table_to_latex(wide(1, note="x" * 40 + " short"))
    assert r"\allowbreak{}".join(("x" * 16, "x" * 16, "x" * 8 + " short")) in text


def test_document__holds_the_first_rows_of_a_long_table_and_says_so():
    text = to_latex(Document("d", (), (Section("s", "S", (wide(70),)),)))
    assert text.count("inconclusive") == 60
    assert "The first 60 of 70 rows; tables/wide.tex holds all." in text
    assert text.index(r"\begin{landscape}") < text.index(r"\section*{S}")  # no heading alone on a page
