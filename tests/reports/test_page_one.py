"""Every number that page one shows stands in audit.json, and follows from the tables there."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from segaudit.config.documents import AuditDocument
from segaudit.lines import audit_scores
from segaudit.publications import report_run
from segaudit.store import RunDirectory


class Words(HTMLParser):
    """The texts of a page one, each in its place; of a chart, the numbers of cases and the text alternative."""

    def __init__(self, page):
        super().__init__()
        self.texts, self._tags = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self._tags.append(tag)

    def handle_endtag(self, tag):
        while self._tags and self._tags.pop() != tag:
            pass

    def handle_data(self, data):
        drawn = "svg" in self._tags and "desc" not in self._tags
        if data.strip() and (not drawn or data.startswith("n = ")):  # what else is drawn: names, and ticks of the axes
            self.texts.append(data.strip())


def numbers_in(text):
    return re.findall(r"[−+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", text)


def texts_of(value):
    """Yield every text of a JSON value: keys, words, and nothing that is a bare number."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from texts_of(inner)
    elif isinstance(value, list):
        if value and all(isinstance(inner, str) for inner in value):  # the parts of a paragraph
            yield "".join(value)
        for inner in value:
            yield from texts_of(inner)
    elif isinstance(value, str):
        yield value


@pytest.fixture(scope="module", params=[3, 1], ids=["three rulers", "one ruler"])
def run(request, simulated, tmp_path_factory):
    rulers = ("expert", "silver", "bronze")[: request.param]
    audit, _ = simulated(rulers=rulers, metrics=("dice",), labels=("macro",))
    folder = tmp_path_factory.mktemp("page-one") / "run"
    audit_scores(audit.scores, audit.cohort, audit.plan, out=folder)
    report_run(folder, ["html"])
    return folder


def page_one(run):
    page = (run / "report.html").read_text()
    header = re.search(r"<header>.*?</header>", page, re.DOTALL)[0]
    return header + re.search(r'<section id="summary".*?</section>', page, re.DOTALL)[0]


def test_page_one__every_number_is_in_audit_json_with_the_same_digits(run):
    shown = json.loads((run / "audit.json").read_text())["page_one"]
    known = set(texts_of(shown))
    held = {number for text in known for number in numbers_in(text)}
    found = Words(page_one(run)).texts
    whole = [text for text in found if numbers_in(text) and text not in known]
    assert len(found) > 60
    # a text that is no text of audit.json as it stands (a chart's "n = 76") has at least its numbers there
    assert {number for text in whole for number in numbers_in(text)} <= held
    assert [text for text in whole if not re.fullmatch(r"n = \d+", text)] == []


def test_page_one__every_text_has_its_number_behind_it(run):
    """A cell's number in audit.json, written with as many decimals as the page shows, is what the page shows."""
    cells = []

    def walk(value):
        if isinstance(value, dict):
            if {"text", "value"} <= value.keys():
                cells.append(value)
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(json.loads((run / "audit.json").read_text())["page_one"])
    assert len(cells) > 12
    for cell in cells:
        first = re.match(r"<?([−+]?)(\d[\d,]*)(\.\d+)?( points)?(/(\d+))?", cell["text"])
        assert first, cell
        sign = -1 if first[1] == "−" else 1
        told = sign * float((first[2] + (first[3] or "")).replace(",", ""))
        behind = cell["value"] * (100 if first[4] else 1)
        if first[6]:  # k/n
            told /= float(first[6])
        tolerance = 0.002 if first[6] or "<" in cell["text"] else 0.51 * 10.0 ** -len((first[3] or ".")[1:])
        assert abs(told - behind) <= tolerance, cell


def test_page_one__numbers_of_the_tables_follow_from_the_tables_of_audit_json(run):
    """What the two tables and the verdict say, found again by rounding what the result tables of audit.json hold."""
    document = json.loads((run / "audit.json").read_text())
    held = set()
    for rows in document["tables"].values():
        for row in rows:
            for value in row.values():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    held |= {
                        f"{abs(value) * scale:,.{n}f}" for scale, n in ((1, 0), (1, 2), (1, 3), (100, 0), (100, 1))
                    }
    names = {level for g in document["plan"]["groupings"] for level in (*g["levels"], g["name"])}
    declared = {f"{abs(v) * s:.{n}f}" for v in document["plan"]["margin"].values() for s, n in ((1, 2), (100, 1))}
    declared |= {"0.001", "90", "95"}  # the floor of p, and the levels of the intervals
    trained = {len(m["trained_on"] or ()) for m in document["data"]["mask_sets"]}
    declared |= {str(n) for n in trained} | {str(document["data"]["n_cases"]), str(document["data"]["n_patients"])}
    counted = {str(len(document["tables"]["tests"])), "1", "2", "3"}  # tests, verdicts and groupings that are counted
    blocks = document["page_one"]["sections"][0]["blocks"]
    texts = [text for block in blocks[:3] for key in ("sentences", "rows") for text in texts_of(block.get(key, []))]
    for name in sorted(names, key=len, reverse=True):
        texts = [text.replace(name, "") for text in texts]
    found = {number.lstrip("−+") for text in texts for number in numbers_in(text)}
    assert len(found) > 20
    assert found - held - declared - counted == set()


def test_page_one__is_null_until_a_report_is_written_and_again_after_an_audit(simulated, tmp_path):
    audit, _ = simulated(rulers=("expert",), metrics=("dice",), labels=("macro",))
    stored = lambda: json.loads((tmp_path / "run" / "audit.json").read_text())
    for _ in range(2):
        audit_scores(audit.scores, audit.cohort, audit.plan, out=tmp_path / "run")
        assert stored()["page_one"] is None
        report_run(tmp_path / "run", ["json"])
        assert AuditDocument.model_validate(stored()).page_one["title"] == "Audit of mix on simulated spines"
    assert RunDirectory(tmp_path / "run").verify() == []


def test_report__keeps_what_other_steps_wrote_after_an_earlier_report(simulated, tmp_path):
    from segaudit.confounders import confound_run

    audit, _ = simulated(rulers=("expert",), metrics=("dice",), labels=("macro",))
    audit_scores(audit.scores, audit.cohort, audit.plan, out=tmp_path / "run")
    report_run(tmp_path / "run", ["html"])
    assert "segaudit confound RUN" in (tmp_path / "run" / "report.html").read_text()
    confound_run(tmp_path / "run", audit.plan, adjust=["age"])
    for _ in range(2):
        report_run(tmp_path / "run", ["html"])
        page = (tmp_path / "run" / "report.html").read_text()
        for name in ("adjusted", "entanglement", "associations"):
            assert f'id="t-{name}"' in page
            assert f'id="f-confound-{name}"' in page
        assert "segaudit confound RUN" not in page
        assert (tmp_path / "run" / "adjusted.csv").is_file()
    assert RunDirectory(tmp_path / "run").verify() == []


def test_report__waits_for_another_process_in_the_run_directory(simulated, tmp_path):
    audit, _ = simulated(rulers=("expert",), metrics=("dice",), labels=("macro",))
    run = tmp_path / "run"
    audit_scores(audit.scores, audit.cohort, audit.plan, out=run)
    code = (
        "import sys; from pathlib import Path; from segaudit.publications import report_run\n"
        "report_run(Path(sys.argv[1]), ['json'], progress=lambda what, *_: print(what, flush=True))"
    )
    with RunDirectory(run).alone():
        other = subprocess.Popen([sys.executable, "-c", code, str(run)], stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "waiting for another process\n"
        assert not (run / "report.json").exists()
    other.communicate(timeout=60)
    assert other.returncode == 0
    assert (run / "report.json").is_file()
