"""Charts as SVG: what is written keeps its digits, a mark says its numbers, a single case does not."""

import re
from html import unescape

from segaudit.reports import figures
from segaudit.reports.looks import speech
from segaudit.reports.numbers import difference_span
from segaudit.reports.reading import read
from segaudit.reports.svg import tidy, to_svg


def titles(chart):
    svg = to_svg(chart, "T", "A", "i")
    return [unescape(text) for text in re.findall(r"<title>(.*?)</title>", svg)]


def test_tidy__shortens_places_and_leaves_words():
    svg = '<text x="1.23456">0.875</text><path d="M0.123456,2" fill="red"/>'
    assert tidy(svg) == '<text x="1.23">0.875</text><path d="M0.12,2" fill="red"/>'


def test_tidy__a_mark_that_says_something_gets_a_title_and_no_other_label():
    svg = '<path aria-label="told|a: 0.875 &lt;b&gt; &quot;" role="x" d="M0,0"/><path aria-label="x" d="M1,1"/>'
    assert tidy(svg) == '<path d="M0,0"><title>a: 0.875 &lt;b&gt; &quot;</title></path><path d="M1,1"/>'


def test_speech__is_short_and_without_marks_of_direction():
    assert speech("a\u202eb", "", numbers="1") == "told|ab: 1"
    assert len(speech("x" * 10_000, numbers="1")) < 80


def test_gaps__say_the_interval_of_each_ruler(simulated):
    reading = read(*simulated(metrics=("dice",)))
    found = titles(figures.gaps_chart(reading, ["sex", "age"]))
    assert len(found) == 4
    pair = reading.widest("expert", "sex")
    assert found[0].startswith(f"sex, {pair['group']} − {pair['reference_group']}, expert: ")
    assert found[0].endswith(f"({difference_span(pair['low'], pair['high'], reading.card)})")


def test_rulers__say_the_median_and_no_single_case(simulated):
    reading = read(*simulated(metrics=("dice",)))
    found = titles(figures.rulers_chart(reading))
    assert [text.split(",")[0] for text in found] == ["expert: 76 cases", "silver: 76 cases"]
    assert titles(figures.shift_chart(reading, "silver")) == []
