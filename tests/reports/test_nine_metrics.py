"""Nine metrics: page one keeps to the score in front, the pages behind it hold every score."""

from dataclasses import replace

import pytest

from segaudit.metrics import METRICS
from segaudit.reports import report
from segaudit.reports.html_pages import to_html

KNOWN = ("dice", "ndsc", "iou", "precision", "sensitivity", "hd95")


@pytest.fixture(scope="module")
def nine():
    """Register three more metrics, and return the names of nine."""
    more = [replace(METRICS["dice"], name=f"overlap_{i}", title=f"overlap {i}") for i in range(1, 4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(METRICS, "_items", {**METRICS._items, **{card.name: card for card in more}})
        yield (*KNOWN, *(card.name for card in more))


@pytest.fixture(scope="module")
def document(nine, simulated):
    return report(*simulated(metrics=nine)).document


def named(document):
    return {block.name: block for block in document.blocks() if hasattr(block, "name")}


def test_page_one__of_nine_metrics_shows_the_one_in_front(document, simulated):
    """The two tables say what they say with one metric; only the family, and with it q, is larger."""
    alone = report(*simulated(metrics=("dice",))).document
    for name in ("summary-rulers", "summary-gaps"):
        many, one = named(document)[name], named(alone)[name]
        assert len(many.rows) == len(one.rows)
        texts = [[[cell.text for cell in row[:6]] for row in table.rows] for table in (many, one)]
        assert texts[0] == texts[1]
    first = document.sections[0].blocks[0].sentences[0].text
    assert "Dice" in first
    assert "of 27 tests" in first


def test_pages__of_nine_metrics_hold_every_score(document, nine):
    short = {"hd95": "HD95", "ndsc": "nDSC"}
    titles = {short.get(name, METRICS[name].title) for name in nine}
    blocks = named(document)
    for name, column in (("tests-all", 2), ("scores", 0), ("worst-cases", 1)):
        shown = {row[column].text.split(" (")[0] for row in blocks[name].rows}
        assert shown == titles, name
    slider = {score["title"].split(" (")[0] for score in blocks["sweep"].data["scores"]}
    assert slider == {"Dice", "nDSC", "HD95"}  # the others have no declared threshold, and the page says so
    assert "No threshold is declared for Jaccard index, precision" in to_html(document)
    assert len(blocks["tests-all"].rows) == 9 * 3 * 2


def test_page__of_nine_metrics_is_small_and_holds_no_number_that_is_none(document):
    page = to_html(document)
    assert len(page.encode()) < 1_000_000
    assert ">nan<" not in page.lower()
    assert "inf " not in page
