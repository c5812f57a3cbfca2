"""Real masks and real score tables through the command line, against figures that are known of them."""

import itertools
import json
import shutil

import nibabel
import numpy as np
import pandas as pd
import pytest

import segaudit as sa
from segaudit.cohorts import MaskSet, discover_masks, make_cohort

BAD_GRIDS = ("10408_1000415", "10459_1000467")


def table(run, name):
    return pd.read_csv(run / f"{name}.csv", keep_default_na=False, na_values={"value": "", "mean": ""})


@pytest.fixture(scope="module")
def breast(shared):
    return shared / "data" / "breast_mri_scores"


# --- chest radiographs: two physicians who both edited the machine's draft ---


@pytest.fixture
def chest(shared, tmp_path, command):
    """Return the run directory of the chest radiographs, scored and audited, and what the audit printed."""
    data = shared / "data" / "cxr_two_physicians"
    masks, run = data / "masks", tmp_path / "run"
    references = [word for name in ("physician_1", "physician_2") for word in ("--ref", f"{name}={masks / name}")]
    people = ["--participants", data / "demographics_nih_rows.csv", "--key", "Image Index", "--patient", "Patient ID"]
    named = ["--labels", "lungs=1+2,heart=3", "--model", "auto_hybridgnet", "--workers", 1, "--metrics", "dice,hd95"]
    scored = command("score", "--pred", masks / "auto_hybridgnet", *references, *named, *people, "-o", run)
    assert scored.status == 0, scored.err
    audited = command("audit", run, "--by", "sex", "--by", "age:40,60", "--workers", 1, "--resamples", 199)
    assert audited.status == 0, audited.err
    return run, audited.out


@pytest.mark.slow
def test_chest__a_ruler_too_close_to_the_model(chest):
    run, told = chest
    scores = table(run, "scores")
    dice = scores[scores["metric"] == "dice"].groupby(["ruler", "label"])["value"]
    known = {
        ("physician_1", "lungs"): 0.9705,
        ("physician_1", "heart"): 0.9654,
        ("physician_2", "lungs"): 0.9631,
        ("physician_2", "heart"): 0.9206,
    }
    assert {key: round(dice.mean()[key], 4) for key in known} == known
    # masks that the first physician left as the machine drew them: exact agreement, not almost
    wide = scores[(scores["ruler"] == "physician_1")].pivot_table(
        index=["case", "label"], columns="metric", values="value"
    )
    same = wide[wide["dice"] == 1]
    assert same.groupby("label").size()[["heart", "lungs"]].to_dict() == {"heart": 28, "lungs": 19}
    assert (same["hd95"] == 0).all()
    assert set(scores["status"]) == {"ok"}

    # ties at the ceiling: the tests stand, and say by which method
    tests = table(run, "tests")
    first = tests[(tests["ruler"] == "physician_1") & (tests["label"] == "heart") & (tests["metric"] == "dice")]
    assert set(first["status"]) == {"ok"}
    assert set(first["grouping"]) == {"sex", "age"}
    groups = table(run, "groups")
    sexes = groups[(groups["grouping"] == "sex") & (groups["label"] == "heart") & (groups["metric"] == "dice")]
    assert sexes.groupby("group")["n_cases"].unique().map(list).to_dict() == {"Female": [32], "Male": [18]}

    findings = table(run, "findings").set_index("code")
    near = findings.loc["RULER_NEAR_MODEL"]
    assert near["level"] == "warning"
    assert "'physician_1' agrees more with the model" in near["message"]
    assert "28 of 50 masks identical" in near["message"]
    assert "0.9425" in near["message"]  # the agreement of the two physicians
    assert "RULER_NEAR_MODEL" in told


def test_chest__a_run_can_be_checked_and_compared_from_another_folder(shared, tmp_path, command, monkeypatch):
    (tmp_path / "masks").mkdir()
    for folder in (shared / "data" / "cxr_two_physicians" / "masks").iterdir():
        (tmp_path / "masks" / folder.name).mkdir()
        for file in sorted(folder.iterdir())[:4]:
            shutil.copy(file, tmp_path / "masks" / folder.name)
    monkeypatch.chdir(tmp_path / "masks")
    words = ["--pred", "auto_hybridgnet", "--ref", "p1=physician_1", "--ref", "p2=physician_2"]
    run = tmp_path / "run"
    done = command("score", *words, "--labels", "heart=3", "--metrics", "dice", "--workers", 1, "-o", run)
    assert done.status == 0, done.err
    monkeypatch.chdir(tmp_path)
    assert command("verify", "run").status == 0
    assert command("audit", "run", "--workers", 1).status == 0
    assert "INDEPENDENCE_SKIPPED" not in set(table(run, "findings")["code"])
    independence = table(run, "independence").set_index("quantity")
    assert independence.loc["dice_rulers", "n_cases"] == 4
    monkeypatch.chdir(run)
    assert command("verify", ".").status == 0


# --- prostate lesions: graded against binary labels, empty predictions, two grids that do not match ---


def prostate_toml(shared, folder, keep=None, exclude=()):
    data = shared / "data" / "prostate_human_vs_ai"
    cases = sorted(path.name.removesuffix(".nii.gz") for path in (data / "lesion_human").iterdir())
    left_out = {"not in this test": [c for c in cases if keep is not None and c not in keep]}
    left_out["the two masks lie on different grids"] = list(exclude)
    lines = [
        'name = "prostate"',
        f'[participants]\nfile = "{data / "marksheet.csv"}"\nkey = "{{patient_id}}_{{study_id}}"',
        'patient = "patient_id"',
        "[labels]\nlesion = 1",
        f'[[mask_sets]]\nname = "ai"\nfolder = "{data / "lesion_ai_Bosma22a"}"\nkind = "machine"',
        f'[[mask_sets]]\nname = "human"\nfolder = "{data / "lesion_human"}"\nkind = "expert"',
        "labels = { lesion = [1, 2, 3, 4, 5] }",
    ]
    for reason, names in left_out.items():
        if names:
            lines.append(f'[[exclude]]\ncases = {json.dumps(names)}\nreason = "{reason}"')
    path = folder / "cohort.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_prostate__two_bad_grids_are_named_and_stop_the_run(shared, tmp_path, command):
    keep = {*BAD_GRIDS, "10005_1000005", "10008_1000008", "10012_1000012"}
    toml = prostate_toml(shared, tmp_path, keep=keep)
    stopped = command("score", toml, "--workers", 1, "-o", tmp_path / "run")
    assert stopped.status == 2
    assert stopped.err.count("GRID_MISMATCH") == 2
    assert all(case in stopped.err for case in BAD_GRIDS)
    assert "Traceback" not in stopped.err
    assert not list((tmp_path / "run").glob("*.csv"))  # at most the ledger of what was measured is kept

    toml = prostate_toml(shared, tmp_path, keep=keep, exclude=BAD_GRIDS)
    done = command("score", toml, "--workers", 1, "-o", tmp_path / "run")
    assert done.status == 0, done.err
    excluded = table(tmp_path / "run", "excluded").set_index("case")
    assert all("different grids" in excluded.loc[case, "reason"] for case in BAD_GRIDS)
    assert table(tmp_path / "run", "scores")["case"].nunique() == 3


@pytest.mark.slow
def test_prostate__empty_predictions_and_a_single_valued_sex(shared, tmp_path, command):
    toml = prostate_toml(shared, tmp_path, exclude=BAD_GRIDS)
    people = pd.read_csv(shared / "data" / "prostate_human_vs_ai" / "marksheet.csv", dtype=str)
    people.assign(sex="M").to_csv(tmp_path / "people.csv", index=False)
    toml.write_text(
        toml.read_text().replace(str(shared / "data" / "prostate_human_vs_ai" / "marksheet.csv"), "people.csv")
    )
    run = tmp_path / "run"
    done = command("score", toml, "--metrics", "dice", "--workers", 1, "-o", run)
    assert done.status == 0, done.err
    assert "17 prediction_empty" in done.out
    scores = table(run, "scores")
    dice = scores[scores["metric"] == "dice"]
    assert dice["status"].value_counts().to_dict() == {"ok": 276, "prediction_empty": 17}
    assert (dice.loc[dice["status"] == "prediction_empty", "value"] == 0).all()
    # lesions that a human outlined first (graded 2 to 5) against those a human only revised
    graded = scores[(scores["metric"] == "voxels_reference")].set_index("case")["value"] > 0
    assert graded.all()

    done = command("audit", run, "--by", "sex", "--by", "center", "--resamples", 199)
    assert done.status == 0, done.err
    sexes = table(run, "tests").query("grouping == 'sex'")
    assert set(sexes["status"]) == {"one_group"}
    assert (sexes["p"] == "").all()
    assert set(table(run, "disparities").query("grouping == 'sex'")["status"]) == {"one_group"}
    assert "one_group" in done.out or "not assessable" in done.out
    families = table(run, "families").query("family == 'all' and method == 'bh'")
    assert families[["n_planned", "n_tested"]].to_numpy().tolist() == [[2, 1]]  # the single group stays planned


def test_prostate__grades_2_to_5_are_the_lesions_outlined_by_humans_first(shared):
    data = shared / "data" / "prostate_human_vs_ai"
    cases = ["10005_1000005", "10008_1000008", "10012_1000012", "10013_1000013", "10019_1000019", "10021_1000021"]
    sets = []
    for name, folder, values in (("ai", "lesion_ai_Bosma22a", (1,)), ("human", "lesion_human", (2, 3, 4, 5))):
        masks = discover_masks(data / folder)
        masks = masks[masks["case"].isin(cases)].reset_index(drop=True).assign(kind="unknown")
        sets.append(MaskSet(name, masks, labels={"lesion": values}))
    cohort = make_cohort("some", sets, labels={"lesion": (1,)})
    scores = sa.score(cohort, models=["ai"], rulers=["human"], metrics=["dice"], workers=1)
    dice = scores.table[scores.table["metric"] == "dice"].set_index("case")
    for case in cases:
        human = np.asarray(nibabel.load(data / "lesion_human" / f"{case}.nii.gz").dataobj)
        machine = np.asarray(nibabel.load(data / "lesion_ai_Bosma22a" / f"{case}.nii.gz").dataobj) == 1
        lesion = human >= 2
        if not lesion.any():
            assert dice.loc[case, "status"] == ("reference_empty" if machine.any() else "both_empty")
        else:
            by_hand = 2 * (lesion & machine).sum() / (lesion.sum() + machine.sum())
            assert dice.loc[case, "value"] == pytest.approx(by_hand, abs=1e-12)
    outside = [finding.message for finding in scores.findings if finding.code == "LABEL_OUTSIDE"]
    assert len(outside) == 1
    assert "human holds values outside its labels" in outside[0]
    assert ": 1 (" in outside[0]


# --- lung nodules: four readers ---


@pytest.mark.slow
def test_nodules__six_pairs_of_readers(shared):
    data = shared / "data" / "lidc_four_readers"
    stated = pd.read_csv(data / "cases.csv").set_index("case_id").sort_index()
    means = []
    for first, second in itertools.combinations((1, 2, 3, 4), 2):
        scores = sa.score_folders(
            data / "masks" / f"reader{first}",
            {"other": data / "masks" / f"reader{second}"},
            labels={"nodule": 1},
            metrics=["dice"],
            workers=2 if (first, second) == (1, 2) else 1,
        )
        dice = scores.table[scores.table["metric"] == "dice"].set_index("case")["value"].sort_index()
        np.testing.assert_allclose(dice, stated.loc[dice.index, f"dice_r{first}_r{second}"], atol=1e-12)
        means.append(dice.mean())
    assert [round(mean, 4) for mean in means] == [0.8071, 0.8055, 0.8140, 0.8099, 0.8059, 0.8057]
    assert round(float(np.mean(means)), 3) == 0.808


def test_nodules__volume_goes_with_dice_and_sex_does_not(shared, tmp_path, command):
    data = shared / "data" / "lidc_four_readers"
    words = ["--scores", f"r2={data / 'cases.csv'}", "--column", "case=case_id", "--column", "dice=dice_r1_r2"]
    people = ["--participants", data / "cases.csv", "--key", "case_id", "--patient", "case_id"]
    done = command(
        "audit", *words, *people, "--by", "sex", "--by", "age:50,65", "--resamples", 199, "-o", tmp_path / "r"
    )
    assert done.status == 0, done.err
    coverage = table(tmp_path / "r", "coverage").set_index(["grouping", "group"])["n_cases"]
    assert coverage["sex"].to_dict() == {"Female": 67, "Male": 66}
    tests = table(tmp_path / "r", "tests").set_index("grouping")
    assert float(tests.loc["sex", "p"]) > 0.05


# --- breast MRI: a score table with race, age and site ---


def test_breast__every_case_is_joined_and_the_site_is_seen_beside_race_and_age(breast, tmp_path, command):
    words = ["--scores", f"human={breast / 'percase_test_scores.csv'}", "--model", "resenc"]
    columns = ["--column", "case=case_id", "--column", "dice_tumour=dsc_resenc"]
    people = ["--participants", breast / "clinical.csv", "--key", "patient_id", "--patient", "patient_id"]
    by = ["ethnicity=caucasian,african american", "age:40,50,60", "dataset"]
    options = [word for spec in by for word in ("--by", spec)]
    run = tmp_path / "run"
    done = command("audit", *words, *columns, *people, *options, "--resamples", 199, "-o", run)
    assert done.status == 0, done.err
    cases = pd.read_csv(run / "cases.csv")
    assert len(cases) == 306
    assert cases["age"].isna().sum() == 1
    findings = table(run, "findings")
    assert "CASES_WITHOUT_ROW" not in set(findings["code"])
    assert "1200 of 1506 rows have no case" in findings.set_index("code").loc["ROWS_WITHOUT_CASE", "message"]
    assert (
        (findings["code"] == "ATTRIBUTE_MISSING") & findings["message"].str.startswith("ethnicity: missing for 5 ")
    ).any()

    groups = table(run, "groups").set_index(["grouping", "group"])
    means = {key: round(value, 3) for key, value in groups["mean"].items()}
    known = {
        ("age", "<40"): 0.724,
        ("age", "40-50"): 0.760,
        ("age", "50-60"): 0.742,
        ("age", "60+"): 0.806,
        ("ethnicity", "caucasian"): 0.739,
        ("ethnicity", "african american"): 0.788,
        ("dataset", "DUKE"): 0.644,
    }
    assert {key: means[key] for key in known} == known
    others = [value for key, value in means.items() if key[0] == "dataset" and key[1] != "DUKE"]
    assert min(others) >= 0.77
    assert max(others) <= 0.82
    coverage = table(run, "coverage").set_index(["grouping", "group"])["n_cases"]
    assert coverage["ethnicity"][["caucasian", "african american"]].tolist() == [217, 62]
    assert coverage["ethnicity"].sum() == 306  # whoever is in no group is counted with the reason

    tests = table(run, "tests")
    tests = tests[tests["test"] != "dunn"].set_index("grouping")
    assert round(float(tests.loc["ethnicity", "p"]), 2) == 0.13
    assert float(tests.loc["dataset", "q"]) < 1e-4  # the site, and neither race nor age, separates the scores
    assert float(tests.loc["age", "q"]) > 0.05


def test_breast__two_models_in_one_table(breast, tmp_path, command):
    tables = []
    for name in ("conv", "resenc"):
        columns = {"case": "case_id", "dice_tumour": f"dsc_{name}"}
        tables.append(
            sa.read_score_table(breast / "percase_test_scores.csv", ruler="human", model=name, columns=columns)
        )
    scores = sa.merge(tables)
    raw = pd.read_csv(breast / "percase_test_scores.csv")
    audit = sa.audit(scores)
    means = audit.groups.set_index("model")["mean"]
    assert means["conv"] == pytest.approx(raw["dsc_conv"].mean(), abs=1e-12)
    assert means["resenc"] == pytest.approx(raw["dsc_resenc"].mean(), abs=1e-12)


def test_breast__a_normalised_distance_is_no_dice(breast, tmp_path, command):
    words = ["--scores", f"human={breast / 'percase_test_scores.csv'}", "--column", "case=case_id"]
    done = command("audit", *words, "--column", "dice=normhd_resenc", "-o", tmp_path / "run")
    assert done.status == 2
    assert "SCORES_BOUNDS" in done.err
    assert not (tmp_path / "run").exists()


def test_summary__dice_follows_from_the_counts(breast, tmp_path, command):
    file = breast / "nnunetv2_summary.json"
    stated = {
        item["prediction_file"].rsplit("/", 1)[1].removesuffix(".nii.gz"): item["metrics"]["1"]
        for item in json.loads(file.read_text())["metric_per_case"]
    }
    scores = sa.read_summary(file)
    wide = scores.wide("model", "reference").set_index("case")
    assert len(wide) == 35
    for case, metrics in stated.items():
        assert abs(wide.loc[case, "dice_1"] - metrics["Dice"]) < 1e-12
        assert wide.loc[case, "voxels_reference_1"] == metrics["n_ref"]
        assert wide.loc[case, "voxels_prediction_1"] == metrics["n_pred"]
    # nDSC from the same counts, written out
    loads = [m["n_ref"] / (m["TP"] + m["FP"] + m["FN"] + m["TN"]) for m in stated.values()]
    r = np.mean(loads)
    for case, m in stated.items():
        n = m["TP"] + m["FP"] + m["FN"] + m["TN"]
        kappa = (1 - r) * m["n_ref"] / (r * (n - m["n_ref"]))
        by_hand = 2 * m["TP"] / (kappa * m["FP"] + 2 * m["TP"] + m["FN"])
        assert wide.loc[case, "ndsc_1"] == pytest.approx(by_hand, abs=1e-12)
    done = command("audit", "--scores", f"reference={file}", "-o", tmp_path / "run")
    assert done.status == 0, done.err
    assert "hd95" not in set(table(tmp_path / "run", "scores")["metric"])
