"""Worst cases: every group that was tested has one among the pictures, by each metric; none is named unasked."""

import dataclasses
import itertools
import sys

import numpy as np
import pandas as pd
import pytest

from segaudit.groupings import assign
from segaudit.metrics import METRICS
from segaudit.reports.document import Pictures
from segaudit.reports.reading import read
from segaudit.reports.sections.worst import chosen, worst
from segaudit.volumes import write_labels

MEMBERS = {"sex: F": frozenset("ace"), "sex: M": frozenset("bd"), "age: old": frozenset("de")}


def ranked(*cases):
    return pd.DataFrame({"case": cases, "value": np.arange(len(cases)) / 10})


@pytest.mark.parametrize(
    "order, wanted, why",
    [
        ("abcde", [("a", ("sex: F",)), ("b", ("sex: M",)), ("d", ("age: old",)), ("c", ())], "the first of each group"),
        (
            "eabcd",
            [("e", ("sex: F", "age: old")), ("b", ("sex: M",)), ("a", ()), ("c", ())],
            "one of two groups",
        ),
        ("xyabd", [("a", ("sex: F",)), ("b", ("sex: M",)), ("d", ("age: old",)), ("x", ())], "of no group: to fill up"),
    ],
)
def test_chosen__is_the_worst_of_each_group_in_the_order_of_ranks(order, wanted, why):
    found = chosen("dice", ranked(*order), MEMBERS)
    assert [(one.case, one.groups) for one in found] == wanted, why


def test_chosen__without_groups_is_the_four_worst():
    assert [one.case for one in chosen("dice", ranked(*"abcde"), {})] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("seed", range(5))
def test_chosen__agrees_with_the_lowest_rank_of_every_group(seed):
    rng = np.random.default_rng(seed)
    cases = [f"c{i}" for i in range(40)]
    members = {f"g{k}": frozenset(rng.choice(cases, 12, replace=False)) for k in range(8)}
    rows = ranked(*rng.permutation(cases))
    of = {name: one.case for one in chosen("dice", rows, members) for name in one.groups}
    for name, group in members.items():
        assert of[name] == next(case for case in rows["case"] if case in group)


@pytest.fixture(scope="module")
def pictured(simulated, tmp_path_factory):
    """Return an audit whose cohort has masks, small ones and the same for every case."""
    audit, rulers = simulated(metrics=("dice", "hd95"))
    folder = tmp_path_factory.mktemp("masks")
    sets = {}
    for i, (name, own) in enumerate(audit.cohort.mask_sets.items()):
        labels = np.zeros((16, 18, 4), dtype=np.uint8)
        labels[4:10, 4 + i : 12 + i, 1:3] = 1
        path = folder / f"{name}.nii.gz"
        write_labels(path, labels, spacing_mm=(1.0, 1.0, 3.0))
        masks = pd.DataFrame({"case": audit.cases["case"], "path": str(path), "kind": "unknown"})
        sets[name] = dataclasses.replace(own, masks=masks)
    return dataclasses.replace(audit, cohort=dataclasses.replace(audit.cohort, mask_sets=sets)), rulers


def pictures(pictured, **given):
    return next((block for block in worst(read(*pictured, **given)).blocks if isinstance(block, Pictures)), None)


def test_pictures__show_the_worst_case_of_every_group_by_every_metric(pictured):
    audit, _ = pictured
    found = pictures(pictured)
    captions = {picture.caption.split(":")[0]: picture.caption for picture in found.pictures}
    table = audit.scores.table
    tested = audit.coverage[audit.coverage["status"] == "tested"]
    grouping = {g.name: assign(g, audit.cases)[0].to_numpy() for g in audit.plan.groupings}
    assert len(tested) > 5
    for metric, place in itertools.product(("dice", "hd95"), tested.itertuples()):
        members = audit.cases.loc[grouping[place.grouping] == place.group, "case"]
        own = table[(table["metric"] == metric) & (table["ruler"] == "expert") & table["case"].isin(members)]
        best_first = own.sort_values("value", ascending=METRICS[metric].better == "lower")
        assert {"dice": "Dice", "hd95": "HD95"}[metric] in captions[best_first["case"].iloc[-1]]


def test_pictures__name_no_group_unless_asked(pictured):
    audit, _ = pictured
    levels = [level for g in audit.plan.groupings for level in g.levels]
    plain, asked = (pictures(pictured, show_cases=shown) for shown in (False, True))
    for picture in plain.pictures:
        assert not [level for level in levels if level in picture.caption + picture.alt]
    named = " ".join(picture.caption for picture in asked.pictures)
    assert all(f"{g.name}: {level}" in named for g in audit.plan.groupings[:1] for level in g.levels)
    assert [p.caption.split(":")[0] for p in plain.pictures] == [p.caption.split(":")[0] for p in asked.pictures]


def test_pictures__are_capped_and_say_what_is_left(pictured, monkeypatch):
    monkeypatch.setattr(sys.modules[worst.__module__], "_PICTURES", 2)
    found = pictures(pictured)
    assert len(found.pictures) == 2
    assert "more such cases are not drawn" in found.caption


def test_pictures__read_no_image_above_the_limit(pictured):
    assert pictures(pictured, max_bytes=100) is None
