"""The charts of the confounders: they hold the numbers of the tables, and no more people than the tables test."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import segaudit as sa
from segaudit.cli.app import app
from segaudit.confounders import confound
from segaudit.reports.confounder_figures import confounder_charts
from segaudit.store import RunDirectory
from segaudit.tables import SCORES

NAMES = ["anatomy", "entanglement", "associations", "adjusted", "dice-ndsc"]


@pytest.fixture
def sized(sites, scored):
    """Return the cases and their scores with volumes; the first two patients are a group of their own."""
    cases, dice = sites
    cases = cases.assign(race=cases["race"].mask(cases.index < 2, "Asian"))
    volume = np.exp(9 + 0.2 * (cases["race"] == "Black") + np.random.default_rng(5).normal(0, 0.5, 400))
    ndsc = np.clip(dice - 0.05 * (np.log(volume) - 9), 0, 1)
    return cases, scored(cases, dice_vb=dice, ndsc_vb=ndsc, volume_reference_mm3_vb=volume)


@pytest.fixture
def plan():
    """Return a plan of two groupings, one with a group of two patients."""
    return sa.Plan(groupings=[sa.by_level("race", "White", "Black", "Asian"), sa.by_cuts("band", "age", 40, 60)])


@pytest.fixture
def found(sized, plan):
    """Return the confounders of the scores, adjusted for the site and the volume."""
    cases, scores = sized
    return confound(scores, cases, plan, adjust=["site", "volume"])


def points(chart):
    """Return what the chart draws as points, from the specification that a reader would be given."""
    spec = chart.to_dict(validate=False)
    parts = [layer for panel in spec.get("concat", [spec]) for layer in panel["layer"]]
    drawn = [layer for layer in parts if layer["mark"]["type"] in ("point", "text")]
    rows = [row for layer in drawn for row in spec["datasets"][(layer.get("data") or spec["data"])["name"]]]
    return pd.DataFrame(rows)


def pairs(drawn, name, table, *columns):
    """Assert that the numbers drawn under a name are those of the table, in any order."""
    told = sorted(drawn.loc[drawn["series"] == name, ["value", "low", "high"]].to_numpy().tolist())
    assert told
    assert np.array(told) == pytest.approx(np.array(sorted(table[list(columns)].to_numpy().tolist())))


def test_anatomy__ratios_with_limits_and_the_test_between_the_groups(found):
    drawn = points(sa.plot_anatomy(found))
    table = found.anatomy
    kept = table[(table["group"] != "") & (table["status"] == "ok") & table["ratio_low"].notna()]
    pairs(drawn, "expert", kept, "ratio", "ratio_low", "ratio_high")
    assert set(drawn["row"]) == {"race: Black / White", "band: 40-60 / <40", "band: 60+ / <40"}
    (test,) = table[(table["grouping"] == "race") & (table["group"] == "")]["q"]
    assert drawn.loc[drawn["row"] == "race: Black / White", "q"].tolist() == pytest.approx([test])


def test_anatomy__nothing_is_set_against_a_reference_group_that_is_too_small(sized):
    cases, scores = sized
    plan = sa.Plan(groupings=[sa.by_level("race", "Asian", "Black", "White")])
    assert sa.plot_anatomy(confound(scores, cases, plan)) is None


def test_entanglement__every_two_with_their_effects(found):
    drawn = points(sa.plot_entanglement(found))
    table = found.entanglement.set_index(["first", "second"])
    assert len(drawn) == len(table) == 3
    for row in drawn.to_dict("records"):
        own = table.loc[(row["first"], row["second"])]
        assert (row["effect"], row["q"]) == pytest.approx((own["effect"], own["q"]))
        assert row["shown"] == (own["q"] < 0.05)
    (tile,) = drawn[drawn["second"] == "site"].query("first == 'race'").to_dict("records")
    assert tile["text"] == f"V {tile['effect']:.2f}"
    assert tile["shown"]


def test_entanglement__epsilon_squared_is_shaded_by_its_root(found):
    drawn = points(sa.plot_entanglement(found))
    own = drawn["effect_name"] == "epsilon_squared"
    assert own.any()
    assert drawn.loc[own, "shade"].to_numpy() ** 2 == pytest.approx(drawn.loc[own, "effect"].abs().to_numpy())
    assert drawn.loc[~own, "shade"].to_numpy() == pytest.approx(drawn.loc[~own, "effect"].abs().to_numpy())


def test_associations__rho_of_all_and_of_each_group_that_is_large_enough(found):
    drawn = points(sa.plot_associations(found))
    table = found.associations
    kept = table[(table["other"] == "volume") & (table["status"] == "ok")]
    pairs(drawn, "expert", kept, "rho", "low", "high")
    assert set(drawn["panel"]) == {"Dice with volume", "nDSC with volume"}
    assert "race: Asian" not in set(drawn["row"])
    assert "all" in set(drawn["row"])


def test_adjusted__both_contrasts_in_points_on_the_same_cases(found):
    drawn = points(sa.plot_adjusted(found))
    table = found.adjusted
    kept = table[(table["method"] == "ols") & (table["metric"] == "dice") & (table["status"] == "ok")].copy()
    kept[[name for name in kept if name.endswith(("value", "low", "high"))]] *= 100
    pairs(drawn, "without adjustment", kept, "value", "low", "high")
    pairs(drawn, "with adjustment", kept, "adjusted_value", "adjusted_low", "adjusted_high")
    assert set(drawn["panel"]) == {f"adjusted for {names}" for names in ("site", "volume", "site + volume")}
    other = points(sa.plot_adjusted(found, metric="ndsc"))
    assert not np.isclose(other["value"].sum(), drawn["value"].sum())


def test_adjusted__a_contrast_that_cannot_be_adjusted_is_drawn_without_alone(found):
    names = [name for name in found.adjusted if name.startswith("adjusted_") and name != "adjusted_for"]
    table = found.adjusted.copy()
    table.loc[table["adjusted_for"] == "site", names] = np.nan
    drawn = points(sa.plot_adjusted(replace(found, adjusted=table)))
    assert set(drawn.loc[drawn["panel"] == "adjusted for site", "series"]) == {"without adjustment"}


def test_dice_ndsc__both_means_of_each_group_that_is_large_enough(found):
    drawn = points(sa.plot_dice_ndsc(found))
    table = found.associations
    kept = table[(table["other"] == "ndsc") & (table["status"] != "too_few_patients")]
    pairs(drawn, "Dice", kept, "mean", "mean", "other_mean")
    pairs(drawn, "nDSC", kept, "other_mean", "mean", "other_mean")
    assert "race: Asian" not in set(drawn["row"])


def test_figures__all_structures_together_stand_for_each_unless_one_is_named(found):
    macro = found.associations.assign(label="macro", rho=found.associations["rho"] / 2)
    several = replace(found, associations=pd.concat([found.associations, macro], ignore_index=True))
    together, named = (points(sa.plot_associations(several, label=label)) for label in ("", "vb"))
    assert together["value"].sum() == pytest.approx(named["value"].sum() / 2)


@pytest.mark.parametrize("n_rulers", [2, 8])
def test_figures__every_ruler_has_a_look_of_its_own(found, n_rulers):
    table = pd.concat([found.anatomy.assign(ruler=f"r{i}") for i in range(n_rulers)], ignore_index=True)
    chart = sa.plot_anatomy(replace(found, anatomy=table)).to_dict()
    (layer,) = (layer for layer in chart["layer"] if layer["mark"]["type"] == "point")
    scales = [layer["encoding"][channel]["scale"] for channel in ("color", "shape")]
    assert [scale["domain"] for scale in scales] == [[f"r{i}" for i in range(n_rulers)]] * 2
    assert len(set(zip(*(scale["range"] for scale in scales), strict=True))) == n_rulers


def test_figures__long_names_stay_apart(found):
    long = "a name that goes on and on for longer than any axis of any chart has room for"
    table = found.associations.replace({"group": {"White": f"{long} 1", "Black": f"{long} 2"}})
    drawn = points(sa.plot_associations(replace(found, associations=table)))
    assert drawn["row"].nunique() == points(sa.plot_associations(found))["row"].nunique()


def test_figures__hold_no_case_and_no_patient(found, sized):
    people = {*sized[0]["case"], *sized[0]["patient"]}
    for drawn in confounder_charts(found):
        text = json.dumps(drawn.chart.to_dict())
        assert not [name for name in people if f'"{name}"' in text]


def test_figures__nothing_of_empty_tables(found):
    empty = replace(found, **{schema.name: table.iloc[:0] for schema, table in found.tables()})
    assert list(confounder_charts(empty)) == []
    plots = (sa.plot_anatomy, sa.plot_entanglement, sa.plot_associations, sa.plot_adjusted, sa.plot_dice_ndsc)
    assert [plot(empty) for plot in plots] == [None] * 5


@pytest.fixture
def run(sized, tmp_path):
    """Return a run directory with scores and cases."""
    cases, scores = sized
    directory = RunDirectory(tmp_path / "run", create=True)
    directory.write_table(SCORES, scores.table)
    directory.write_frame("cases", cases)
    return directory


@pytest.mark.parametrize("apart", [False, True])
def test_command__draws_the_figures_and_records_them_in_the_step(run, tmp_path, apart):
    target = tmp_path / "apart" if apart else run.path
    given = [str(run.path), "--by", "race=White,Black", "--adjust", "site", "--json"]
    done = CliRunner().invoke(app, ["confound", *given, *(["-o", str(target)] if apart else [])])
    assert done.exit_code == 0, done.output
    files = [f"confound-{name}.svg" for name in NAMES]
    assert sorted(path.name for path in target.glob("*.svg")) == sorted(files)
    (step,) = RunDirectory(target).steps()
    assert set(files) | {"anatomy.csv", "adjusted.parquet"} <= set(step.outputs)
    assert (step.options["adjust"], len(step.inputs)) == (["site"], 2 if apart else 0)
    assert RunDirectory(target).verify() == []
    for name in files:
        root = ET.fromstring((target / name).read_bytes())
        assert [child.tag.rpartition("}")[2] for child in root[:2]] == ["title", "desc"]


def test_command__a_figure_without_numbers_goes_when_it_is_run_again(run):
    for adjust, there in ((["--adjust", "site"], True), ([], False)):
        done = CliRunner().invoke(app, ["confound", str(run.path), "--by", "race=White,Black", *adjust])
        assert done.exit_code == 0, done.output
        assert run.has("confound-adjusted.svg") is there
    assert run.verify() == []
