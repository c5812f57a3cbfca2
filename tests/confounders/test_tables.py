"""Anatomy, entanglement and associations, against other implementations, published figures and real readers."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage, stats

import segaudit as sa
from segaudit.attributes import Declaration
from segaudit.audits.cells import counted
from segaudit.confounders import anatomy, confound, confound_run, entanglement, measure_structures, reading
from segaudit.confounders.anatomy import adjust_tests
from segaudit.confounders.associations import spearman
from segaudit.confounders.cells import _counted
from segaudit.errors import AuditError
from segaudit.loaders import load_cspineseg, write_cspineseg
from segaudit.metrics import METRICS
from segaudit.participants import join_participants
from segaudit.store import RunDirectory
from segaudit.tables import SCORES
from segaudit.volumes import read_labels


def one(table, **chosen):
    """Return the only row that has these values."""
    for name, value in chosen.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.parametrize("part", ["anatomy", "crosscuts"])
def test_published__q_values_follow_from_the_raw_p_values(shared, part):
    rows = pd.DataFrame(json.loads((shared / "reference" / "published.json").read_text())[part]["fdr"])
    q = adjust_tests(pd.DataFrame({"test": rows["test"], "p": rows["p_raw"]}))
    assert q == pytest.approx(rows["p_adjusted"], rel=1e-5)
    assert ((q < 0.05) == rows["reject_h0"]).all()


def test_published__cross_cuts_use_no_continuity_correction_beyond_two_by_two(shared):
    found = json.loads((shared / "reference" / "published.json").read_text())["crosscuts"]["stats"]
    for name in ("chi2_sex_by_race", "chi2_race_by_manufacturer", "chi2_race_by_field_strength"):
        assert found[name]["cramers_v"] == pytest.approx(np.sqrt(found[name]["chi2"] / 1254), rel=1e-4)


@pytest.fixture
def sizes(sites):
    """Return the sizes of one structure, larger in one group."""
    cases, _ = sites
    rng = np.random.default_rng(3)
    value = np.exp(9 + 0.2 * (cases["race"] == "Black") + rng.normal(0, 0.3, len(cases)))
    rows = pd.DataFrame(
        {"case": cases["case"], "ruler": "expert", "label": "vb", "quantity": "volume_mm3", "value": value}
    )
    return cases, rows


def test_anatomy__tests_and_ratio_of_groups(sizes, race):
    cases, rows = sizes
    table = anatomy(rows, cases, race)
    white, black = (rows.loc[cases["race"] == group, "value"] for group in ("White", "Black"))
    test = one(table, group="")
    assert test["p"] == pytest.approx(stats.mannwhitneyu(black, white, method="asymptotic").pvalue, rel=1e-9)
    assert test["q"] == test["p"]
    assert test["effect"] > 0
    group = one(table, group="Black")
    assert group["ratio"] == pytest.approx(black.mean() / white.mean())
    assert group["ratio_low"] < np.exp(0.2) < group["ratio_high"]
    rng = np.random.default_rng(0)
    draws = [rng.choice(black, black.size).mean() / rng.choice(white, white.size).mean() for _ in range(4000)]
    assert [group["ratio_low"], group["ratio_high"]] == pytest.approx(np.quantile(draws, [0.025, 0.975]), abs=0.01)
    assert (one(table, group="White")["ratio"], group["n_patients"]) == (1.0, black.size)
    assert "the groups differ" in reading(test)
    assert "times that of the first group" in reading(group)


def test_anatomy__three_groups_and_the_family(sizes):
    cases, rows = sizes
    plan = sa.Plan(groupings=[sa.by_level("race", "White", "Black"), sa.by_cuts("band", "age", 40, 60)])
    table = anatomy(pd.concat([rows, rows.assign(quantity="voxels", value=rows["value"] ** 2)]), cases, plan)
    tests = table[table["group"] == ""]
    assert tests["test"].tolist() == ["mann_whitney", "kruskal_wallis"] * 2
    bands = [
        rows.loc[(cases["age"] >= low) & (cases["age"] < high), "value"] for low, high in ((0, 40), (40, 60), (60, 99))
    ]
    assert tests["p"].iloc[1] == pytest.approx(stats.kruskal(*bands).pvalue, rel=1e-9)
    assert tests["q"].to_numpy() == pytest.approx(stats.false_discovery_control(tests["p"]))
    assert table.loc[table["group"] != "", "q"].isna().all()


def test_anatomy__a_patient_counts_once(sizes, race):
    cases, rows = sizes
    again = pd.concat([cases, cases.assign(case=cases["case"] + "b")])
    doubled = pd.concat(
        [rows.assign(value=rows["value"] * 0.9), rows.assign(case=rows["case"] + "b", value=rows["value"] * 1.1)]
    )
    pd.testing.assert_frame_equal(anatomy(doubled, again, race), anatomy(rows, cases, race))


def test_anatomy__a_small_group_is_described_and_not_tested(sizes):
    cases, rows = sizes
    cases = cases.assign(race=cases["race"].mask(cases.index < 4, "Asian"))
    table = anatomy(rows, cases, sa.Plan(groupings=[sa.by_level("race", "White", "Asian")]))
    assert one(table, group="")["status"] == "too_few_patients"
    assert np.isnan(one(table, group="")["p"])
    assert one(table, group="Asian")["n_patients"] == 4


def test_structures__are_those_of_the_masks(tmp_path):
    write_cspineseg(tmp_path / "d", n_exams=13, n_patients=12, seed=1, shrink=8)
    cohort = load_cspineseg(tmp_path / "d")
    found = measure_structures(cohort, "reference").set_index(["label", "case", "quantity"])["value"]
    assert len(found) == 2 * 12 * 3
    for case, path in zip(
        cohort.mask_sets["reference"].masks["case"], cohort.mask_sets["reference"].masks["path"], strict=True
    ):
        volume = read_labels(path)
        for label, value in (("vb", 1), ("disc", 2)):
            mask = np.asarray(volume.labels) == value
            assert found[label, case, "voxels"] == mask.sum()
            assert found[label, case, "volume_mm3"] == pytest.approx(
                mask.sum() * abs(np.linalg.det(np.array(volume.grid.affine)[:3, :3]))
            )
            assert found[label, case, "components"] == ndimage.label(mask, np.ones((3, 3, 3)))[1] > 1
    with pytest.raises(AuditError, match="did you mean 'reference'"):
        measure_structures(cohort, "referense")


def test_entanglement__is_that_of_other_implementations(sites):
    cases, _ = sites
    rng = np.random.default_rng(2)
    cases = cases.assign(weight=cases["age"] + rng.normal(0, 20, len(cases)))
    plan = sa.Plan(groupings=[sa.by_level("race", "White", "Black"), sa.by_cuts("band", "age", 40, 60)])
    table = entanglement(cases, plan, ["site", "weight"])
    crossed = stats.chi2_contingency(pd.crosstab(cases["race"], cases["site"]), correction=False)
    row = one(table, first="race", second="site")
    assert (row["test"], row["dof"]) == ("chi2", 1)
    assert row["p"] == pytest.approx(crossed.pvalue)
    assert row["effect"] == pytest.approx(np.sqrt(crossed.statistic / 400))
    assert row["min_expected"] == pytest.approx(crossed.expected_freq.min())
    black = cases["race"] == "Black"
    ranks = stats.mannwhitneyu(cases["age"][black], cases["age"][~black], method="asymptotic")
    row = one(table, first="race", second="age")
    assert row["p"] == pytest.approx(ranks.pvalue)
    assert row["effect"] == pytest.approx(2 * ranks.statistic / (black.sum() * (~black).sum()) - 1)
    rho = stats.spearmanr(cases["age"], cases["weight"])
    row = one(table, first="age", second="weight")
    assert [row["effect"], row["p"]] == pytest.approx([rho.statistic, rho.pvalue])
    assert table["q"].to_numpy() == pytest.approx(stats.false_discovery_control(table["p"]))
    assert len(table) == 6
    assert "they go together" in reading(one(table, first="race", second="site"))


def test_entanglement__ages_may_count_in_their_groups(sites):
    cases, _ = sites
    plan = sa.Plan(groupings=[sa.by_level("race", "White", "Black"), sa.by_cuts("band", "age", 40, 60)])
    (row,) = entanglement(cases, plan, numbers=False).to_dict("records")
    bands = pd.cut(cases["age"], [0, 40, 60, 99], right=False)
    assert row["p"] == pytest.approx(stats.chi2_contingency(pd.crosstab(cases["race"], bands)).pvalue)


def test_entanglement__top_coded_ages_and_second_exams_do_not_count(sites, race):
    cases, _ = sites
    plan = sa.Plan(groupings=[*race.groupings, sa.by_cuts("band", "age", 40)])
    coded = cases.assign(age_top_coded=cases["age"] >= 70)
    again = pd.concat([coded, coded.assign(case=coded["case"] + "b", site="C")])
    once = entanglement(coded[~coded["age_top_coded"]], plan)
    twice = entanglement(again, plan)
    pd.testing.assert_frame_equal(once, twice)
    (row,) = entanglement(again, race, ["site"]).to_dict("records")
    assert row["n_patients"] == 400


def test_entanglement__an_attribute_that_nobody_has_is_not_assessable(sites):
    cases, _ = sites
    plan = sa.Plan(groupings=[sa.by_cuts("band", "age", 40)])
    (row,) = entanglement(cases.assign(site=None), plan, ["site"]).to_dict("records")
    assert (row["status"], row["n_patients"]) == ("one_group", 0)


def test_entanglement__one_level_is_not_assessable(sites, race):
    cases, _ = sites
    (row,) = entanglement(cases.assign(site="A"), race, ["site"]).to_dict("records")
    assert row["status"] == "one_group"
    assert "not assessable" in reading(row)


@pytest.mark.parametrize("n", [5, 30, 300])
def test_spearman__is_scipys_with_ties(n):
    rng = np.random.default_rng(n)
    a = rng.integers(0, 12, n).astype(float)
    b = a + rng.integers(-8, 9, n)
    found = spearman(a, b, 0.95)
    expected = stats.spearmanr(a, b)
    assert [found.rho, found.p] == pytest.approx([expected.statistic, expected.pvalue])
    assert found.low < found.rho < found.high


def test_spearman__limits_hold_their_level():
    rng = np.random.default_rng(4)
    truth = 6 / np.pi * np.arcsin(0.5 / 2)  # of a normal law with correlation 0.5
    drawn = (rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 60) for _ in range(1500))
    inside = [found.low < truth < found.high for pair in drawn for found in [spearman(pair[:, 0], pair[:, 1], 0.95)]]
    assert 0.93 < np.mean(inside) < 0.97


@pytest.mark.parametrize(
    ("a", "b", "rho"),
    [([1, 1, 1, 1, 1], [1, 2, 3, 4, 5], np.nan), ([1, 2, 3], [1, 2, 3], np.nan), ([1, 2, 3, 4], [4, 3, 2, 1], -1)],
)
def test_spearman__what_cannot_be_had_is_nan(a, b, rho):
    assert spearman(np.array(a, float), np.array(b, float), 0.95).rho == pytest.approx(rho, nan_ok=True)


def test_associations__dice_with_ndsc_and_volume_in_each_group(sites, scored, race):
    cases, dice = sites
    rng = np.random.default_rng(5)
    volume = np.exp(rng.normal(9, 0.5, 400))
    ndsc = dice - 0.05 * (np.log(volume) - 9)
    scores = scored(cases, dice_vb=dice, ndsc_vb=ndsc, volume_reference_mm3_vb=volume)
    table = confound(scores, cases, race).associations
    assert table.groupby(["metric", "other"]).size().to_dict() == {
        ("dice", "ndsc"): 3,
        ("dice", "volume"): 3,
        ("ndsc", "volume"): 3,
    }
    for group in ("White", "Black"):
        inside = (cases["race"] == group).to_numpy()
        row = one(table, metric="dice", other="ndsc", group=group)
        assert [row["mean"], row["other_mean"]] == pytest.approx([dice[inside].mean(), ndsc[inside].mean()])
        assert row["rho"] == pytest.approx(stats.spearmanr(dice[inside], ndsc[inside]).statistic)
        row = one(table, metric="ndsc", other="volume", group=group)
        assert row["other_mean"] == pytest.approx(volume[inside].mean())
        assert "the larger volume, the lower the score" in reading(row)


def test_real__lidc_readers_agree_better_on_large_nodules_and_show_no_sex_gap(shared, scored):
    path = shared / "data" / "lidc_four_readers" / "cases.csv"
    raw = pd.read_csv(path)
    declared = {"sex": Declaration(), "volume": Declaration(column="vol_mm3_median", kind="number", of="case")}
    people = sa.read_participants(path, key="case_id", patient="case_id", attributes=declared)
    cases = join_participants(people, raw["case_id"].tolist()).cases
    dice = raw.set_index("case_id").filter(like="dice_").mean(axis=1).reindex(cases["case"]).to_numpy()
    plan = sa.Plan(groupings=[sa.by_level("sex", "Female", "Male")])
    found = confound(scored(cases, dice_nodule=dice), cases, plan, adjust=["volume"])
    row = one(found.associations, group="")
    assert round(row["rho"], 2) == 0.41
    assert row["low"] > 0.2
    sex = one(found.adjusted, method="ols")
    assert sex["low"] < 0 < sex["high"]
    assert sex["adjusted_low"] < 0 < sex["adjusted_high"]
    assert "No difference is shown either way, which does not say that there is none." in reading(sex)
    assert one(found.entanglement, second="volume")["p"] > 0.5


def test_counted__is_what_the_audit_counts(sites, scored, race):
    cases, dice = sites
    names = ["ok", "both_empty", "prediction_empty", "reference_empty", "prediction_missing"]
    status = np.array(names, dtype=object)[np.arange(400) % len(names)]
    for metric, values in (("dice", np.where(status == "ok", dice, np.where(status == "both_empty", np.nan, 0.0))),
                           ("hd95", np.where(status == "ok", dice, np.nan))):  # fmt: skip
        rows = scored(cases, status=status, **{f"{metric}_vb": values}).table
        for both in ("exclude", "best", "worst"):
            for absent in ("failure", "exclude"):
                plan = sa.Plan(both_empty=both, prediction_missing=absent)
                audited = counted(rows["value"].to_numpy(float), rows["status"].to_numpy(object), METRICS[metric], plan)
                np.testing.assert_array_equal(_counted(rows, METRICS[metric], plan), audited)


def test_confound__cases_that_do_not_meet_the_scores_are_refused(sites, scored, race):
    cases, dice = sites
    scores = scored(cases, dice_vb=dice)
    with pytest.raises(AuditError, match="SCORES_NO_MATCH"):
        confound(scores, cases.assign(case="x" + cases["case"]), race)
    with pytest.raises(AuditError, match="CASE_DOUBLED"):
        confound(scores, pd.concat([cases, cases]), race)
    with pytest.raises(AuditError, match="UNKNOWN_ATTRIBUTE"):
        confound(scores, cases.drop(columns="race"), race)


def test_run__tables_and_the_step_are_written(sites, scored, race, tmp_path):
    cases, dice = sites
    scores = scored(cases, dice_vb=dice)
    run = RunDirectory(tmp_path / "run", create=True)
    run.write_table(SCORES, scores.table)
    run.write_frame("cases", cases)
    found = confound_run(tmp_path / "run", race, adjust=["site"])
    for schema, table in found.tables():
        pd.testing.assert_frame_equal(run.read_table(schema), table)
    (step,) = run.steps()
    assert (step.verb, step.options["adjust"], step.seed) == ("confound", ["site"], race.seed)
    confound_run(tmp_path / "run", race, adjust=["site"], out=tmp_path / "apart")
    apart = RunDirectory(tmp_path / "apart")
    assert apart.verify() == []
    assert len(apart.steps()[0].inputs) == 2
    pd.testing.assert_frame_equal(apart.read_table(found.tables()[3][0]), found.adjusted)


def test_run__a_fault_writes_nothing(sites, scored, race, tmp_path):
    cases, dice = sites
    run = RunDirectory(tmp_path / "run", create=True)
    run.write_table(SCORES, scored(cases, dice_vb=dice).table)
    run.write_frame("cases", cases)
    with pytest.raises(AuditError, match="UNKNOWN_ATTRIBUTE"):
        confound_run(tmp_path / "run", race, adjust=["scanner"], out=tmp_path / "apart")
    assert not (tmp_path / "apart").exists()


def test_str__counts_what_is_shown(sites, scored, race):
    cases, dice = sites
    text = str(confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]))
    assert "entanglement: 1 of 1 tests with q below 0.05" in text
    assert "adjusted, ols: of 1 contrasts 0 are shown both ways, 1 without adjustment only, 0 with it only" in text


def test_confound__without_levels_the_largest_group_is_the_reference(sites, scored):
    cases, dice = sites
    cases = cases.assign(race=np.where(np.arange(400) < 12, "Asian", cases["race"]))
    asked = sa.Plan(groupings=[sa.by_level("race"), sa.crossing(sa.by_level("race"), sa.by_cuts("age", "age", 50))])
    found = confound(scored(cases, dice_vb=dice), cases, asked, adjust=["site"])
    counts = cases["race"].value_counts()
    assert counts.index[0] == "White"
    assert counts.index[-1] == "Asian"
    alone = found.adjusted[found.adjusted["grouping"] == "race"]
    assert set(alone["reference_group"]) == {"White"}
    assert alone["group"].unique().tolist() == ["Black", "Asian"]
    crossed = found.adjusted[found.adjusted["grouping"] == "race*age"]
    assert set(crossed["reference_group"]) == {"White & <50"}
    told = [finding for finding in found.findings if finding.code == "REFERENCE_GROUP"]
    assert len(told) == 2
    assert "White, which has most patients" in told[0].message
    assert "--by race=White,Black,..." in told[0].fix
    # the rule reads no score, and a declared order stands
    other = confound(scored(cases, dice_vb=1 - dice), cases, asked, adjust=["site"])
    assert other.adjusted["reference_group"].tolist() == found.adjusted["reference_group"].tolist()
    given = sa.Plan(groupings=[sa.by_level("race", "Asian", "White", "Black")])
    found = confound(scored(cases, dice_vb=dice), cases, given, adjust=["site"])
    assert set(found.adjusted["reference_group"]) == {"Asian"}
    assert not found.findings


def test_confound__exams_do_not_make_a_group_the_reference(sites, scored):
    cases, dice = sites
    few = np.arange(400) < 150
    cases = cases.assign(race=np.where(np.arange(400) < 250, "Black", "White"))
    cases["patient"] = np.where(few, "p" + pd.Series(np.arange(400) % 3).astype(str), cases["patient"])
    found = confound(scored(cases, dice_vb=dice), cases, sa.Plan(groupings=[sa.by_level("race")]), adjust=["site"])
    assert set(found.adjusted["reference_group"]) == {"White"}  # 150 patients against 103, 150 exams against 250


def test_confound__what_nothing_can_be_said_of_is_refused_or_told(sites, scored, race):
    cases, dice = sites
    scores = scored(cases, dice_vb=dice)
    with pytest.raises(AuditError, match="NO_GROUPING"):
        confound(scores, cases, sa.Plan())
    with pytest.raises(AuditError, match="GROUPING_NEEDS_CUTS"):
        confound(scores, cases, sa.Plan(groupings=[sa.by_level("age")]))
    alone = confound(scores, cases, sa.Plan(groupings=[sa.by_level("race", "White")]))
    assert [finding.code for finding in alone.findings] == ["GROUP_ALONE"]


def test_confound__a_text_of_many_numbers_is_a_number(sites, scored, race):
    cases, dice = sites
    cases = cases.assign(weight=[f"{value:.1f}" for value in 60 + 10 * np.random.default_rng(1).normal(size=400)])
    as_text = confound(scored(cases, dice_vb=dice), cases, race, adjust=["weight"])
    number = cases.assign(weight=cases["weight"].astype(float))
    pd.testing.assert_frame_equal(
        as_text.adjusted, confound(scored(cases, dice_vb=dice), number, race, adjust=["weight"]).adjusted
    )


@pytest.mark.parametrize("key", ["case", "patient"])
def test_run__covariates_may_stand_in_another_table(sites, scored, race, tmp_path, key):
    cases, dice = sites
    run = RunDirectory(tmp_path / "run", create=True)
    run.write_table(SCORES, scored(cases, dice_vb=dice).table)
    run.write_frame("cases", cases[["case", "patient", "race"]])
    table = cases.sample(frac=1, random_state=1).rename(columns={"case": "exam", "patient": "who"})
    table.to_csv(tmp_path / "people.csv", index=False)
    name = {"case": "exam", "patient": "who"}[key]
    with pytest.raises(AuditError) as caught:
        confound_run(tmp_path / "run", race, adjust=["site"])
    assert "--participants" in caught.value.findings[0].fix
    found = confound_run(tmp_path / "run", race, adjust=["site"], participants=tmp_path / "people.csv", key=name)
    whole = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"])
    pd.testing.assert_frame_equal(found.adjusted, whole.adjusted)
    (step,) = run.steps()
    assert [one.path.rpartition("/")[2] for one in step.inputs] == ["people.csv"]
