"""Contrasts with and without adjustment: planted confounding, other implementations, and what cannot be had."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import segaudit as sa
from segaudit.confounders import confound, reading
from segaudit.errors import AuditError
from segaudit.participants import join_participants


def one(table, **chosen):
    """Return the only row that has these values."""
    for name, value in chosen.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_adjusted__a_difference_that_is_the_sites_goes_and_a_planted_one_stays(sites, scored, race):
    cases, dice = sites
    found = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"])
    for method in ("ols", "van_elteren"):
        row = one(found.adjusted, method=method)
        assert row["p"] < 1e-6
        assert row["value"] < 0
        assert row["adjusted_p"] > 0.05
        assert "shown without the adjustment and not with it" in reading(row)
    planted = dice - 0.03 * (cases["race"] == "Black")
    row = one(confound(scored(cases, dice_vb=planted), cases, race, adjust=["site"]).adjusted, method="ols")
    assert row["adjusted_low"] < -0.03 < row["adjusted_high"] < 0


def test_adjusted__least_squares_is_that_of_another_implementation(sites, scored, race):
    sm = pytest.importorskip("statsmodels.api")
    cases, dice = sites
    table = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site", "age"]).adjusted
    black, site = (cases["race"] == "Black") * 1.0, (cases["site"] == "B") * 1.0
    designs = {
        "": [black],
        "site": [black, site],
        "age": [black, cases["age"]],
        "site + age": [black, site, cases["age"]],
    }
    for name, columns in designs.items():
        fit = sm.OLS(dice, sm.add_constant(np.column_stack(columns))).fit(cov_type="HC3", use_t=True)
        row = one(table, method="ols", adjusted_for=name or "site")
        prefix = "adjusted_" if name else ""
        ours = [row[f"{prefix}{key}"] for key in ("value", "low", "high", "p")]
        assert ours == pytest.approx([fit.params[1], *fit.conf_int()[1], fit.pvalues[1]], rel=1e-9)


def test_adjusted__the_rank_test_is_the_sum_over_strata(sites, scored, race):
    cases, dice = sites
    row = one(confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted, method="van_elteren")
    black = (cases["race"] == "Black").to_numpy()
    plain = stats.mannwhitneyu(dice[black], dice[~black], method="asymptotic")
    assert row["p"] == pytest.approx(plain.pvalue, rel=1e-9)
    total = variance = 0.0
    for site in ("A", "B"):
        inside = (cases["site"] == site).to_numpy()
        ranks, ours = stats.rankdata(dice[inside]), black[inside]
        n, m = inside.sum(), ours.sum()
        total += (ranks[ours].sum() - m * (n + 1) / 2) / (n + 1)
        variance += m * (n - m) / (12 * (n + 1))
    assert row["adjusted_p"] == pytest.approx(2 * stats.norm.sf(abs(total) / np.sqrt(variance)), rel=1e-9)
    assert row["n_strata"] == 2


def test_adjusted__both_contrasts_are_of_the_same_cases(sites, scored, race):
    cases, dice = sites
    cases = cases.assign(site=cases["site"].where(cases.index >= 50))
    table = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted
    whole = confound(scored(cases, dice_vb=dice), cases.iloc[50:], race, adjust=["site"]).adjusted
    for method in ("ols", "van_elteren"):
        row = one(table, method=method)
        assert (row["n_cases"], row["n_patients"], row["n_left_out"]) == (350, 350, 50)
        kept = one(whole, method=method)
        assert row[["value", "adjusted_value", "p"]].tolist() == kept[["value", "adjusted_value", "p"]].tolist()


def test_adjusted__a_stratum_with_one_group_takes_no_part(sites, scored, race):
    cases, dice = sites
    alone = cases["race"].eq("White") & (cases.index < 100)
    cases = cases.assign(site=cases["site"].mask(alone, "C"))
    row = one(confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted, method="van_elteren")
    assert row["n_strata"] == 2
    assert row["n_left_out"] == alone.sum()


def test_adjusted__a_covariate_that_is_the_group_cannot_be_told_apart(sites, scored, race):
    cases, dice = sites
    cases = cases.assign(site=np.where(cases["race"] == "Black", "A", "B"))
    table = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted
    row = one(table, method="ols")
    assert row["status"] == "undefined"
    assert np.isfinite(row["value"])
    assert np.isnan(row["adjusted_value"])
    assert "not assessable with site" in reading(row)
    assert "cannot be told apart" in row["detail"]
    row = one(table, method="van_elteren")
    assert (row["status"], row["n_strata"], row["n_left_out"]) == ("too_few_patients", 0, 400)


def test_adjusted__a_small_group_keeps_its_row(sites, scored):
    cases, dice = sites
    cases = cases.assign(race=cases["race"].mask(cases.index < 5, "Asian"))
    plan = sa.Plan(groupings=[sa.by_level("race", "White", "Black", "Asian")])
    table = confound(scored(cases, dice_vb=dice), cases, plan, adjust=["site"]).adjusted
    assert table.groupby("group")["status"].agg(list).to_dict() == {
        "Asian": ["too_few_patients"] * 2,
        "Black": ["ok"] * 2,
    }
    assert "Asian has 5 patients" in one(table, group="Asian", method="ols")["detail"]


def test_adjusted__cases_of_one_patient_are_a_cluster(sites, scored, race):
    cases, dice = sites
    twice = pd.concat([cases, cases.assign(case=cases["case"] + "b")], ignore_index=True)
    found = confound(scored(twice, dice_vb=[*dice, *dice]), twice, race, adjust=["site"]).adjusted
    single = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted
    row, alone = one(found, method="ols"), one(single, method="ols")
    assert (row["errors"], row["n_cases"], row["n_patients"]) == ("cluster", 800, 400)
    # a second copy of every case adds nothing: the width stays, where independent cases would narrow it by 0.71
    assert row["high"] - row["low"] == pytest.approx(alone["high"] - alone["low"], rel=0.02)
    ranks, once = one(found, method="van_elteren"), one(single, method="van_elteren")
    assert ranks[["p", "adjusted_p"]].tolist() == pytest.approx(once[["p", "adjusted_p"]].tolist())


def test_adjusted__an_attribute_is_no_covariate_of_its_own_groups(sites, scored):
    cases, dice = sites
    plan = sa.Plan(groupings=[sa.by_level("race", "White", "Black"), sa.by_cuts("band", "age", 40, 60)])
    table = confound(scored(cases, dice_vb=dice), cases, plan, adjust=["age", "site"]).adjusted
    assert set(table.loc[table["grouping"] == "band", "adjusted_for"]) == {"site"}
    assert set(table.loc[table["grouping"] == "race", "adjusted_for"]) == {"age", "site", "age + site"}


def test_adjusted__infinite_distances_rank_and_take_no_part_in_means(sites, scored, race):
    cases, dice = sites
    status = np.where(cases.index < 8, "prediction_empty", "ok")
    hd95 = np.where(cases.index < 8, np.nan, 5 * (1 - dice))
    table = confound(scored(cases, hd95_vb=hd95, status=status), cases, race, adjust=["site"]).adjusted
    assert one(table, method="ols")["n_left_out"] == 8
    assert one(table, method="van_elteren")["n_left_out"] == 0


def test_adjusted__top_coded_ages_are_left_out_and_counted(sites, scored, race):
    cases, dice = sites
    cases = cases.assign(age_top_coded=cases["age"] >= 78)
    found = confound(scored(cases, dice_vb=dice), cases, race, adjust=["age"])
    n_top = int(cases["age_top_coded"].sum())
    assert one(found.adjusted, method="ols")["n_left_out"] == n_top > 0
    (note,) = found.findings
    assert note.code == "COVARIATE_MISSING"
    assert f"{n_top} of 400" in note.message


def test_adjusted__volume_is_that_of_the_structure(sites, scored, race):
    sm = pytest.importorskip("statsmodels.api")
    cases, _ = sites
    rng = np.random.default_rng(1)
    black = (cases["race"] == "Black").to_numpy()
    vb, disc = np.exp(9 + 0.3 * black + rng.normal(0, 0.2, 400)), np.exp(7 + rng.normal(0, 0.2, 400))
    dice = 0.2 + 0.06 * np.log(vb) + rng.normal(0, 0.02, 400)
    columns = {f"dice_{label}": dice for label in ("vb", "disc", "macro")}
    volumes = {"volume_reference_mm3_vb": vb, "volume_reference_mm3_disc": disc}
    table = confound(scored(cases, **columns, **volumes), cases, race, adjust=["volume"]).adjusted
    for label, volume in (("vb", vb), ("disc", disc), ("macro", vb + disc)):
        fit = sm.OLS(dice, sm.add_constant(np.column_stack([black, np.log(volume)]))).fit()
        row = one(table, label=label)
        assert row["adjusted_value"] == pytest.approx(fit.params[1])
    row = one(table, label="vb")
    assert row["p"] < 0.01 < row["adjusted_p"]


def test_adjusted__provenance_is_the_kind_of_each_reference(sites, scored, race):
    cases, dice = sites
    kinds = np.where(cases["site"] == "A", "expert", "machine")
    masks = pd.DataFrame({"case": cases["case"], "path": "", "kind": kinds})
    cohort = sa.Cohort("c", cases.drop(columns="site"), mask_sets={"expert": sa.MaskSet("expert", masks)})
    by_kind = confound(scored(cases, dice_vb=dice), cohort, race, adjust=["provenance"]).adjusted
    by_site = confound(scored(cases, dice_vb=dice), cases, race, adjust=["site"]).adjusted
    numbers = ["value", "p", "adjusted_value", "adjusted_p"]
    pd.testing.assert_frame_equal(by_kind[numbers], by_site[numbers])


def test_adjusted__row_order_changes_nothing(sites, scored, race):
    cases, dice = sites
    scores = scored(cases, dice_vb=dice)
    before = confound(scores, cases, race, adjust=["site"])
    shuffled = type(scores)(scores.table.sample(frac=1, random_state=1))
    after = confound(shuffled, cases.sample(frac=1, random_state=2), race, adjust=["site"])
    for (_, one_table), (_, other) in zip(before.tables(), after.tables(), strict=True):
        pd.testing.assert_frame_equal(one_table, other)


@pytest.mark.parametrize(
    ("adjust", "code", "fix"),
    [
        (["sites"], "UNKNOWN_ATTRIBUTE", "did you mean 'site'"),
        (["volume"], "UNKNOWN_ATTRIBUTE", "known: age, race, site."),
        (["site", "site"], "COVARIATE_TWICE", "name it once"),
    ],
)
def test_adjusted__covariates_that_there_are_not_are_refused(sites, scored, race, adjust, code, fix):
    cases, dice = sites
    with pytest.raises(AuditError) as caught:
        confound(scored(cases, dice_vb=dice), cases, race, adjust=adjust)
    (found,) = caught.value.findings
    assert found.code == code
    assert fix in found.fix


def test_real__breast_scores_by_race_and_age_with_and_without_the_site(shared, scored):
    folder = shared / "data" / "breast_mri_scores"
    raw = pd.read_csv(folder / "percase_test_scores.csv")
    people = sa.read_participants(folder / "clinical.csv", key="patient_id", patient="patient_id")
    cases = join_participants(people, raw["case_id"].tolist()).cases
    value = cases.merge(raw, left_on="case", right_on="case_id", validate="1:1")["dsc_resenc"].to_numpy()
    means = pd.Series(value).groupby(cases["dataset"]).mean()
    assert means.round(3).to_dict() == {"DUKE": 0.644, "ISPY1": 0.770, "ISPY2": 0.811, "NACT": 0.819}
    plan = sa.Plan(
        groupings=[
            sa.by_level("race", "caucasian", "african american", attribute="ethnicity"),
            sa.by_cuts("age_band", "age", 40, 50, 60),
        ]
    )
    found = confound(scored(cases, dice_tumour=value), cases, plan, adjust=["dataset"])
    row = one(found.adjusted, grouping="race", method="ols")
    white, black = (value[cases["ethnicity"] == level].mean() for level in ("caucasian", "african american"))
    assert (round(white, 3), round(black, 3)) == (0.739, 0.788)
    assert row["value"] == pytest.approx(black - white)
    assert row["n_cases"] == 217 + 62
    ranks = one(found.adjusted, grouping="race", method="van_elteren")
    assert round(ranks["p"], 2) == 0.13
    assert ranks["n_strata"] == 4
    # within the sites the difference is larger, not smaller: the site hid a part of it
    assert row["adjusted_value"] > row["value"] > 0
    assert ranks["adjusted_value"] > ranks["value"] > 0
    assert "A difference is shown with the adjustment and not without it." in reading(row)
    ages = found.adjusted[(found.adjusted["grouping"] == "age_band") & (found.adjusted["method"] == "ols")]
    assert ages["group"].tolist() == ["40-50", "50-60", "60+"]
    expected = [round(gap - 0.724, 3) for gap in (0.760, 0.742, 0.806)]
    assert ages["value"].tolist() == pytest.approx(expected, abs=0.0011)
    assert (ages["n_cases"] == 305).all()
    assert {"race", "age", "dataset"} == set(found.entanglement[["first", "second"]].to_numpy().ravel())
