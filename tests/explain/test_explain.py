"""Explanations: every number of a run has one, each complete, each with sources that exist."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from segaudit.audits import Plan, audit
from segaudit.cli import main
from segaudit.errors import AuditError
from segaudit.explain import EXPLANATIONS, explained
from segaudit.groupings import parse_all
from segaudit.metrics import METRICS
from segaudit.reports.bibliography import entries
from segaudit.rulers import compare_models, compare_rulers
from segaudit.scores import Scores
from segaudit.tables import SCORES

CARDS = list(EXPLANATIONS)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_explanation__is_complete_and_cites_what_exists(card):
    for part in (card.title, card.definition, card.reading, card.caution):
        assert part.strip() == part
        assert part
    for part in (card.definition, card.reading, card.caution):
        assert part.endswith("."), part
        assert not re.search(r"\b(un)?fair|unbiased|debias", part, re.IGNORECASE)
    assert set(card.sources) <= set(entries())
    assert len(card.citations()) == len(card.sources)


def test_explanation__names_and_other_names_are_each_given_once():
    names = [name for card in CARDS for name in (card.name, *card.covers)]
    assert sorted(names) == sorted(set(names))


def test_explanation__of_a_metric_says_what_its_card_says():
    for card in METRICS:
        assert explained(card.name).title == card.title
        assert explained(card.name).sources == (card.source,)
    assert "Empty masks: both masks empty: undefined; the prediction empty: infinite" in explained("hd95").reading
    assert "Lower is better" in explained("hd95").reading


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("vcd", "vcd"),
        ("walsh_ratio: 60+", "vcd"),
        ("Walsh ratio", "vcd"),
        ("false confidence", "verdict_class"),
        ("masking (gap)", "verdict_class"),
        ("expected_under_parity", "parity"),
        ("near-clone", "independence"),
        ("attribute: sex", "family"),
        ("MOVER-R", "mover_r"),
    ],
)
def test_explained__finds_a_name_as_it_stands_in_a_table(asked, name):
    assert explained(asked).name == name


def test_explained__unknown_name_gets_the_nearest():
    with pytest.raises(AuditError) as error:
        explained("walsh_rato")
    found = error.value.findings[0]
    assert found.code == "UNKNOWN_EXPLANATION"
    assert "did you mean 'walsh_ratio'?" in found.fix


@pytest.fixture(scope="module")
def produced():
    """Return every quantity, disparity, test, method and status that an audit with two models and two rulers yields."""
    rng = np.random.default_rng(0)
    n = 60
    people = pd.DataFrame({"case": [f"c{i}" for i in range(n)], "patient": [f"p{i}" for i in range(n)]})
    people = people.assign(age=rng.integers(20, 90, n), sex=rng.choice(["F", "M"], n), site=["A"] * 57 + ["B"] * 3)
    true = rng.normal(0.85, 0.04, n)
    parts = []
    for model in ("mix", "silver"):
        for ruler, scale in (("expert", 1.0), ("machine", 0.2)):
            for metric in ("dice", "hd95"):
                score = 1 - scale * (1 - true) + rng.normal(0, 0.004, n) - 0.02 * (people["sex"] == "M") * (scale < 1)
                value = score if metric == "dice" else 40 * (1 - score)
                frame = people[["case", "patient"]].assign(model=model, ruler=ruler, label="vb", metric=metric)
                parts.append(frame.assign(value=value, unit=METRICS[metric].unit, status="ok"))
    scores = Scores(SCORES.frame(pd.concat(parts, ignore_index=True)))
    plan = Plan(groupings=parse_all(["sex", "age:40,60", "site"]), margin={"dice": 0.03}, resamples=199)
    found = audit(scores, people, plan)
    rulers = compare_rulers(found, "expert", "machine")
    models = compare_models(found, "mix", "silver", "expert")
    tables = [(table, schema.name) for schema, table in found.tables()]
    return found, rulers, models, tables


def _known(names):
    return [name for name in names if name and not _has(name)]


def _has(name):
    try:
        explained(name)
    except AuditError:
        return False
    return True


def test_explanation__of_every_number_that_a_run_holds(produced):
    found, rulers, models, tables = produced
    assert "phi_gap" in set(rulers.table["quantity"])  # a verdict changed, so that everything is there
    names = {*rulers.table["quantity"], *models.table["quantity"]}
    names |= {*found.disparities["disparity"], *found.disparities["method"], *found.families["family"]}
    names |= {*found.tests["test"], *found.tests["effect_name"], *found.families["method"]}
    names |= {*found.sensitivity["change"], *(set(found.tests["p_method"]) - {"none"})}
    classes = rulers.table.loc[rulers.table["quantity"] == "verdict_class", "value"]
    names |= {word for word in classes if isinstance(word, str)}
    names |= {s for table, name in tables if "status" in table and name != "coverage" for s in table["status"]}
    assert _known(sorted(map(str, names - {None}))) == []
    assert _known(column for column in found.tests.columns if column.startswith("q")) == []


def test_explanation__of_every_quantity_of_ruler_independence():
    import ast
    import inspect

    from segaudit.rulers import masks

    words = {node.value for node in ast.walk(ast.parse(inspect.getsource(masks))) if isinstance(node, ast.Constant)}
    prefixes = ("shared_error", "kappa_", "adjudication_", "dice_", "training_")
    names = {word for word in words if isinstance(word, str) and word.startswith(prefixes) and " " not in word}
    assert len(names) >= 12
    assert _known(sorted(names)) == []


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_explain_command__is_plain_and_at_most_80_columns_wide_in_a_pipe(card, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["segaudit", "explain", card.name])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{card.name}: {card.title}"
    assert all(len(line) <= 80 and line == line.rstrip() and "\x1b" not in line for line in lines)
    assert "what it is not" in lines


def test_explain_command__lists_every_name_and_speaks_json(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["segaudit", "explain"])
    with pytest.raises(SystemExit):
        main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == EXPLANATIONS.names()
    monkeypatch.setattr("sys.argv", ["segaudit", "explain", "t3", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    monkeypatch.setattr("sys.argv", ["segaudit", "explain", "delta_h", "--json"])
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main()
    told = json.loads(capsys.readouterr().out)
    assert told["name"] == "delta_h"
    assert any("gelman2006" in citation for citation in told["citations"])
