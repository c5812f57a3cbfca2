"""The verdict box and the readings: fixed words, and true ones."""

import dataclasses
import re

import pytest

from segaudit.reports.reading import read
from segaudit.reports.sections.summary import summary
from segaudit.reports.verdicts import EQUIVALENT, MODES, TONES, conclude, mode_of

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
    return summary(read(audit, rulers)).blocks[0].sentences


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


def test_verdict__never_says_fair(reported):
    from segaudit.reports.html_pages import to_html

    page = to_html(reported().document)
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
    audit, rulers = simulated(min_patients=35)
    table = summary(read(audit, rulers)).blocks[2]
    row = next(row for row in table.rows if row[0].text == "race")
    few = {r.group for r in audit.coverage.itertuples() if r.grouping == "race" and r.status == "described_only"}
    assert few
    assert [cell.text for cell in row[1:-1]] == ["–"] * 6
    assert row[-1].text == "not assessable"


def test_gaps__of_many_groupings_the_widest_are_shown(simulated):
    audit, rulers = simulated(groupings=12, metrics=("dice",), labels=("macro",))
    table = summary(read(audit, rulers)).blocks[2]
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


@pytest.mark.parametrize("given", [{"gap": 0.0, "n": 300, "margin": 0.05}, {"gap": 0.0, "margin": 0.03}, {"gap": 5.0}])
def test_conclusion__under_the_trusted_ruler_does_not_hang_on_another(simulated, given):
    audit, rulers = simulated(**given)
    for name in ("sex", "race", "age"):
        assert conclude(read(audit), "expert", name) == conclude(read(audit, rulers), "expert", name)


def test_verdict__a_change_that_is_not_established_is_told_as_such(simulated):
    audit, (rulers,) = simulated()
    table = rulers.table.copy()
    chosen = table["quantity"] == "verdict_class"
    table.loc[chosen, "value"] = "agreement"
    first = table.index[chosen][0]
    table.loc[first, ["value", "detail"]] = ["false confidence", "not established; threshold crossing"]
    said = sentences(audit, dataclasses.replace(rulers, table=table))[1]
    assert said.word == "false confidence"
    assert said.tone == "inconclusive"
    assert f"1 of {chosen.sum()} verdicts changes (false confidence 1, none established)" in said.text
    table.loc[first, "detail"] = "established"
    said = sentences(audit, dataclasses.replace(rulers, table=table))[1]
    assert (said.tone, "(false confidence 1)" in said.text) == ("found", True)


def test_verdict__rulers_that_do_the_same_share_a_sentence(simulated):
    given = {"metrics": ("dice",), "labels": ("macro",)}
    audit, (first, second) = simulated(rulers=("expert", "silver", "bronze"), **given)
    box = sentences(audit, (first, second))
    assert len(box) == 2
    assert box[1].text.startswith("Scored against silver or bronze instead, ")
    assert box[1].text.endswith("; silver, bronze are not to be used as evidence on groups.")
    assert "on average" not in box[1].text
    table = second.table.copy()
    table.loc[table["quantity"] == "verdict_class", "value"] = "false magnitude"
    box = sentences(audit, (first, dataclasses.replace(second, table=table)))
    assert [one.word for one in box[1:]][1] == "false magnitude"
    assert [one.text.split(" instead")[0] for one in box[1:]] == ["Scored against silver", "Scored against bronze"]


def test_verdict__a_ruler_that_agrees_and_is_no_evidence_is_not_marked_as_good(simulated):
    audit, rulers = simulated(gap=0.0, gap_ratio=1.0, metrics=("dice",), labels=("macro",))
    said = sentences(audit, rulers)[1]
    assert said.text.endswith("silver is not to be used as evidence on groups.")
    assert said.tone != "equivalent"


@pytest.mark.parametrize("seed", [1, 2])
def test_margin__page_and_rulers_agree_at_the_border(simulated, seed):
    """The smallest margin of rulers.csv is the margin at which the page's word changes, to a millionth of it."""
    audit, comparisons = simulated(metrics=("dice",), seed=seed)
    table = comparisons[0].table
    rows = table[(table["quantity"] == "smallest_margin") & (table["metric"] == "dice") & (table["grouping"] != "")]
    tried = 0
    for row in rows.itertuples():
        border = float(row.trusted_value)
        for factor, inside in ((1 + 1e-6, True), (1 - 1e-6, False)):
            plan = dataclasses.replace(audit.plan, margin={"dice": border * factor})
            said = conclude(read(dataclasses.replace(audit, plan=plan), comparisons), "expert", row.grouping)
            assert (said.word == EQUIVALENT or "inside the margin" in said.reason) == inside, (row.grouping, factor)
            tried += 1
    assert tried >= 6
