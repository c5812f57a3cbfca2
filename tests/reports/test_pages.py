"""The HTML page: self-contained, inert, accessible, and of the same digits as the tables."""

import base64
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from segaudit.reports import report
from segaudit.reports.html_pages import script_json, to_html
from segaudit.reports.json_records import to_json


class Elements(HTMLParser):
    """Every start tag with its attributes, and the text of the page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(reported):
    return to_html(reported(metrics=("dice",)).document)


def test_page__loads_nothing(page):
    for _, attributes in Elements(page).tags:
        for name in ("src", "href", "action", "srcset", "data"):
            value = attributes.get(name, "#")
            assert value.startswith(("#", "data:image/png;base64,")), (name, value[:80])
    assert "url(" not in page
    assert "@import" not in page


def test_page__policy_allows_its_own_style_and_script_alone(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_page__has_no_inline_style_or_handler(page):
    for tag, attributes in Elements(page).tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")], tag


def test_page__has_the_landmarks_and_headings_in_order(page):
    tags = Elements(page).tags
    names = [tag for tag, _ in tags]
    assert names.count("h1") == 1
    assert [names.count(tag) for tag in ("header", "nav", "main", "footer")] == [1, 1, 1, 1]
    levels = [int(name[1]) for name in names if re.fullmatch(r"h[1-6]", name)]
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_page__tables_name_their_rows_and_columns(page):
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        tags = Elements(table).tags
        assert all(attributes.get("scope") in ("row", "col") for tag, attributes in tags if tag == "th")
        assert table.count('scope="row"') == table.count("<tr>") - 1


def test_page__figures_have_words(page):
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert 'role="img"' in svg
        assert len(re.search(r"<desc[^>]*>(.*?)</desc>", svg)[1]) > 40


def test_page__identities_are_unique(page):
    found = [attributes["id"] for _, attributes in Elements(page).tags if "id" in attributes]
    assert len(found) == len(set(found))
    links = [a["href"][1:] for _, a in Elements(page).tags if a.get("href", "").startswith("#")]
    assert set(links) <= set(found)


def test_page__order_of_page_one(page):
    marks = (
        'class="verdict"',
        "What was the model measured",
        "How big are",
        "The same predictions",
        "Gaps of each",
        "trusted?",
        "four-fifths",
    )
    at = [page.index(mark) for mark in marks]
    assert at == sorted(at)


def numbers_in(text):
    return [m.replace(",", "").replace("−", "-") for m in re.findall(r"[−-]?\d[\d,]*(?:\.\d+)?", text)]


def test_page_one__every_digit_is_in_the_json(reported):
    document = reported().document
    section = re.search(r'<section id="summary".*?</section>', to_html(document), re.DOTALL)[0]
    words = " ".join(Elements(re.sub(r"<svg.*?</svg>", "", section, flags=re.DOTALL)).text)
    known = set(numbers_in(json.dumps(to_json(document)["sections"][0], ensure_ascii=False)))
    found = numbers_in(words)
    assert len(found) > 60
    assert set(found) <= known


def test_page_one__every_digit_follows_from_the_tables(simulated):
    """The numbers of the two tables, found again by rounding what the audit's own tables hold."""
    audit, rulers = simulated()
    document = report(audit, rulers).document
    tables = [*(t for _, t in audit.tables()), *(one.table for one in rulers)]
    values = pd.concat([pd.to_numeric(t[c], errors="coerce").dropna().astype(float) for t in tables for c in t])
    held = {f"{abs(v) * scale:.{digits}f}" for v in values for scale, digits in ((1, 2), (1, 3), (100, 1), (1, 0))}
    blocks = {getattr(b, "name", ""): b for b in document.blocks()}
    cells = [c for n in ("summary-rulers", "summary-gaps") for row in blocks[n].rows for c in row[1:]]
    texts = [text for cell in cells for text in (cell.text, re.sub(r".*→.*|\d+ % interval", "", cell.note))]
    found = {number.lstrip("-+") for text in texts for number in numbers_in(re.sub(r"<40|40-60|60\+", "", text))}
    given = {"3.0", "0.001", "40", "80"}  # the margin, the floor of p, and training patients
    assert len(found) > 30
    assert found - held - given == set()


HOSTILE = (
    "<script>alert(1)</script>",
    "'\"><img src=x onerror=alert(1)>",
    "=cmd|' /C calc'!A0",
    "\\input{/etc/passwd} $x$ %&_#",
    "abc\u202etxt.exe\u0000\u2028",
    "</script><!-- {{ 7*7 }} {% raw %}",
    "x" * 10_000,
)


@pytest.fixture(scope="module")
def hostile(simulated):
    """Return an audit whose every name is hostile."""
    import dataclasses

    from segaudit.audits import audit
    from segaudit.cohorts import Cohort, MaskSet
    from segaudit.groupings import by_level
    from segaudit.rulers import compare_rulers
    from segaudit.scores import Scores
    from segaudit.tables import SCORES

    old, _ = simulated(metrics=("dice",), labels=("macro",))
    name = dict(zip(old.cases["case"], [f"{HOSTILE[i % 7]}{i}" for i in range(len(old.cases))], strict=True))
    ruler = {"expert": HOSTILE[0], "silver": HOSTILE[5]}
    table = old.scores.table.assign(
        case=old.scores.table["case"].map(name),
        ruler=old.scores.table["ruler"].map(ruler),
        model=HOSTILE[1],
        label=HOSTILE[3],
    )
    cases = old.cases.assign(case=old.cases["case"].map(name))
    cases[HOSTILE[2]] = cases["sex"].map({"Female": HOSTILE[4], "Male": HOSTILE[6]})
    cases = cases.sort_values("case", ignore_index=True)
    plan = dataclasses.replace(old.plan, groupings=(by_level(HOSTILE[2]),), regression=())
    found = audit(Scores(SCORES.frame(table)), cases, plan)
    rulers = compare_rulers(found, HOSTILE[0], HOSTILE[5])
    none = pd.DataFrame(columns=["case", "path", "kind"])
    sets = {
        n: MaskSet(n, none, "machine", made_by=HOSTILE[0], trained_on=frozenset(HOSTILE))
        for n in (HOSTILE[0], HOSTILE[5], HOSTILE[1])
    }
    return dataclasses.replace(found, cohort=Cohort(HOSTILE[5], cases, {HOSTILE[3]: (1,)}, sets)), rulers


def test_page__hostile_names_are_inert(hostile):
    page = to_html(report(*hostile, show_cases=True).document)
    tags = [tag for tag, _ in Elements(page).tags]
    assert tags.count("script") == 2  # the data of the slider and the page's own
    assert "img" not in tags
    assert "{{ 7*7 }}" in page
    assert not re.search(r"<img|onerror=alert\(1\)>(?!&)", re.sub(r"&lt;img[^<]*", "", page))


def test_latex__hostile_names_are_inert(hostile, tmp_path):
    report(*hostile).write(tmp_path, ["latex"])
    text = "".join(path.read_text() for path in tmp_path.rglob("*.tex"))
    assert "\\input{/etc" not in text
    assert "\u202e" not in text


def test_script_json__cannot_end_its_element():
    text = script_json({"a": "</script><!-- & \u2028"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}


def test_page__names_no_group_beside_a_case_unless_asked(simulated):
    audit, rulers = simulated()
    by_name = {getattr(b, "name", ""): b for b in report(audit, rulers).document.blocks()}
    assert [c.title for c in by_name["worst-cases"].columns] == ["case", "score", "expert", "silver"]
    asked = {getattr(b, "name", ""): b for b in report(audit, rulers, show_cases=True).document.blocks()}
    assert [c.title for c in asked["worst-cases"].columns] == ["case", "score", "group", "expert", "silver"]


def test_conventions__say_in_words_what_was_not_tried_and_why(simulated):
    document = report(*simulated(metrics=("dice", "hd95"))).document
    (section,) = (section for section in document.sections if section.name == "sensitivity")
    said = " ".join(str(part) for block in section.blocks for part in getattr(block, "parts", ()))
    assert "HD95: convention: one convention of HD95 is scored (6 tests)" in said  # three groupings under two rulers
    tried = next(block for block in section.blocks if getattr(block, "name", "") == "tried")
    assert {row[6].text for row in tried.rows} <= {"yes", "no"}
    assert not [row[0].text for row in tried.rows if "_" in row[0].text]
