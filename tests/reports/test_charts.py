"""Charts and objects as a notebook shows them."""

import json

import altair as alt
import pytest

import segaudit as sa
from segaudit.reports.svg import to_svg
from segaudit.tables import as_html

CHARTS = {
    "rulers": sa.plot_rulers,
    "gaps": sa.plot_gaps,
    "groups": lambda audit, rulers: sa.plot_groups(audit, "age", rulers),
    "sweep": lambda audit, rulers: sa.plot_sweep(audit, "age", rulers),
    "shift": lambda audit, rulers: sa.plot_shift(audit, "silver", rulers),
    "plane": lambda audit, rulers: sa.plot_plane(audit, "silver", rulers),
}


@pytest.mark.parametrize("name", CHARTS)
def test_plot__is_a_chart_whose_marks_can_be_pointed_at(simulated, name):
    audit, rulers = simulated()
    chart = CHARTS[name](audit, rulers)
    assert isinstance(chart, alt.TopLevelMixin)
    tips = [
        layer["encoding"]["tooltip"] for layer in chart.to_dict()["layer"] if "tooltip" in layer.get("encoding", {})
    ]
    assert tips
    held = {key for rows in chart.to_dict()["datasets"].values() for row in rows for key in row}
    assert {tip["field"] for one in tips for tip in one} <= held


@pytest.mark.parametrize("name", CHARTS)
def test_plot__names_no_case(simulated, name):
    audit, rulers = simulated()
    text = json.dumps(CHARTS[name](audit, rulers).to_dict())
    assert not any(f'"{case}"' in text for case in audit.cases["case"])


def test_plot__its_drawing_holds_no_script(simulated):
    svg = to_svg(CHARTS["gaps"](*simulated()), "t", "a" * 50, "f")
    assert "<script" not in svg
    assert " on" not in svg.split(">", 1)[0]


def test_objects__show_themselves(simulated):
    audit, (rulers,) = simulated(labels=("vb", "macro"))
    for one in (audit, rulers, audit.scores):
        head, *lines = str(one).splitlines()
        page = one._repr_html_()
        assert page.count("<li>") == len(lines) > 0
        assert head.split("<")[0] in page


def test_objects__what_they_hold_is_escaped():
    assert as_html("<b>a</b>\n  x & y") == "<strong>&lt;b&gt;a&lt;/b&gt;</strong><ul><li>x &amp; y</li></ul>"
    assert as_html("one line") == "<strong>one line</strong>"
