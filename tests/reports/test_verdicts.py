"""The verdict box and the readings: fixed words, and true ones."""

import re

import pytest

from segaudit.reports import report
from segaudit.reports.document import Table, Verdict
from segaudit.reports.reading import read
from segaudit.reports.verdicts import MODES, TONES, conclude, mode_of

CLASSES = (
    "agreement",
    "false magnitude",
    "false confidence",
    "masking (gap)",
    "masking (noise)",
    "saturation",
    "inconclusive",
)


def sentences(audit, rulers):
    return next(b for b in report(audit, rulers).document.blocks() if isinstance(b, Verdict)).sentences


@pytest.mark.parametrize(
    "given, word, why",
    [
        ({"gap": 5.0}, "gap found", "a planted gap of 5 points"),
        ({"gap": 0.0, "n": 300, "margin": 0.05}, "equivalent within the margin", "no gap, many cases, a wide margin"),
        ({"gap": 0.0, "margin": None, "n": 60}, "inconclusive", "no margin, so no equivalence"),
        ({"groupings": 0}, "not assessable", "no demographics"),
        ({"min_patients": 70}, "not assessable", "no group is large enough"),
    ],
)
def test_verdict__first_sentence_has_the_word(simulated, given, word, why):
    assert sentences(*simulated(**given))[0].word == word, why


@pytest.mark.parametrize(
    "given, word, why",
    [
        ({"rulers": ("expert",)}, "undetermined", "one ruler only"),
        ({"groupings": 0}, "undetermined", "no verdict to change"),
        (
            {"gap": 3.0, "gap_ratio": 3.0, "noise": 1.2, "n": 300, "metrics": ("dice",)},
            "false magnitude",
            "gap tripled",
        ),
        ({"gap": 3.0, "gap_ratio": 0.0, "noise": 1.0, "n": 300, "metrics": ("dice",)}, "masking", "gap removed"),
    ],
)
def test_verdict__second_sentence_names_the_mode(simulated, given, word, why):
    assert sentences(*simulated(**given))[1].word == word, why


def test_verdict__words_are_the_fixed_ones(simulated):
    for given in ({}, {"gap": 0.0}, {"groupings": 0}, {"rulers": ("expert",)}, {"rulers": ("expert", "silver", "b")}):
        first, *rest = sentences(*simulated(**given))
        assert first.word in TONES
        assert {one.word for one in rest} <= set(MODES)


@pytest.mark.parametrize("word", CLASSES)
def test_verdict__every_class_has_a_mode(word):
    assert mode_of(word) in MODES
    assert (mode_of(word) == "undetermined") == (word == "inconclusive")


def test_verdict__collapse_is_told_with_what_follows(simulated):
    text = sentences(*simulated(groupings=0))[1].text
    assert "strong collapse" in text
    assert text.endswith("silver is not to be used as evidence on groups.")


def test_verdict__never_says_fair(simulated):
    from segaudit.reports.html_pages import to_html

    page = to_html(report(*simulated()).document)
    assert not re.search(r"\b(un)?fair(ness)?\b|\b(un|de)biased\b", page, re.IGNORECASE)


def test_conclusion__gives_the_size_and_the_detectable_gap(simulated):
    audit, rulers = simulated(gap=0.0, margin=None)
    said = conclude(read(audit, rulers), "expert", "race")
    assert said.word == "inconclusive"
    assert re.fullmatch(r"n = \d+, detectable gap \d+\.\d points", said.reason)


def test_conclusion__the_detectable_gap_does_not_need_a_second_ruler(simulated):
    audit, _ = simulated(gap=0.0, margin=None, rulers=("expert",))
    assert "detectable gap" in conclude(read(audit), "expert", "race").reason


def test_gaps__small_groups_have_counts_only(simulated):
    audit, rulers = simulated(min_patients=26)
    table = next(b for b in report(audit, rulers).document.blocks() if getattr(b, "name", "") == "summary-gaps")
    row = next(row for row in table.rows if row[0].text == "race")
    few = {r.group for r in audit.coverage.itertuples() if r.grouping == "race" and r.status == "described_only"}
    assert few
    assert [cell.text for cell in row[1:-1]] == ["–"] * 6
    assert row[-1].text == "not assessable"


def test_gaps__of_many_groupings_the_widest_are_shown(simulated):
    audit, rulers = simulated(groupings=12, metrics=("dice",), labels=("macro",))
    table: Table = next(b for b in report(audit, rulers).document.blocks() if getattr(b, "name", "") == "summary-gaps")
    shown = [abs(row[2].value) for row in table.rows]
    assert len(shown) == 6
    assert shown == sorted(shown, reverse=True)
    assert "of 12 groupings" in table.caption


def test_verdict__of_the_study_without_demographics(shared):
    from segaudit.audits import audit
    from segaudit.rulers import compare_rulers
    from segaudit.scores import merge, read_score_table

    files = {"gold": "e2_gold_ruler.csv", "silver": "e2_silver_ruler.csv"}
    scores = merge([read_score_table(shared / "reference" / f, ruler=r, model="mix") for r, f in files.items()])
    found = audit(scores)
    box = sentences(found, compare_rulers(found, "gold", "silver"))
    assert box[0].word == "not assessable"
    assert "no disparity was assessed" in box[0].text
    assert "7.7 points higher" in box[1].text
    assert "0.25 of that under gold (strong collapse, proportional compression)" in box[1].text
    assert "silver is not to be used as evidence on groups" in box[1].text
