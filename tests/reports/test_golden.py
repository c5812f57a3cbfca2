"""Golden: the words and digits of one simulated report, in three forms, line for line.

SEGAUDIT_UPDATE_GOLDEN=1 writes them anew; look at the difference before it is kept.
"""

import json
import os
import re
from pathlib import Path

import pytest

from segaudit.reports.document import Table
from segaudit.reports.html_pages import to_html
from segaudit.reports.json_records import to_json
from segaudit.reports.latex_tables import table_to_latex

GOLDEN = Path(__file__).parents[1] / "golden" / "report"


@pytest.fixture(scope="module")
def document(reported):
    return reported(metrics=("dice",), labels=("macro",)).document


def html(document):
    """Page one without its charts, whose outlines belong to the chart library."""
    section = re.search(r'<section id="summary".*?</section>', to_html(document), re.DOTALL)[0]
    return re.sub(r"(<desc[^>]*>.*?</desc>).*?</svg>", r"\1</svg>", section, flags=re.DOTALL)


def words(document):
    section = to_json(document)["sections"][0]
    for block in section["blocks"]:
        for figure in block.get("blocks", [block]):
            figure.pop("vega_lite", None)
    return json.dumps(section, indent=1, ensure_ascii=False)


def tables(document):
    chosen = ("summary-rulers", "summary-gaps", "table-1", "table-2")
    return "\n".join(table_to_latex(b) for b in document.blocks() if isinstance(b, Table) and b.name in chosen)


@pytest.mark.parametrize(("name", "made"), [("page-one.html", html), ("page-one.json", words), ("tables.tex", tables)])
def test_report__is_the_golden_one(document, name, made):
    text = made(document) + "\n"
    path = GOLDEN / name
    if os.environ.get("SEGAUDIT_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
