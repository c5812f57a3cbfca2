"""The run directory: its files and columns are a contract, and equal input gives equal bytes."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest

from segaudit.config.documents import audit_schema
from segaudit.errors import AuditError
from segaudit.lines import Means, run_plan
from segaudit.runs import audit_document, read_audit, read_cohort_of, read_scores_of
from segaudit.store import RunDirectory
from segaudit.volumes import write_labels

KEPT_BESIDE = {"ledger.sqlite", ".lock"}  # no results: what was measured, kept for the next try
CONTRACT = {
    "scores": "case, patient, model, ruler, label, metric, value, unit, status",
    "groups": "model, ruler, label, metric, grouping, group, n_cases, n_patients, mean, median, sd, q25, q75, "
    "n_success, success_rate, threshold, status",
    "disparities": "model, ruler, label, metric, grouping, disparity, group, reference_group, value, low, high, "
    "method, expected_under_parity, status",
    "tests": "model, ruler, label, metric, grouping, test, statistic, p, q, family, effect_name, effect, n_cases, "
    "n_patients, status",
    "sweeps": "model, ruler, label, metric, grouping",
    "regression": "model, ruler, label, metric, term",
    "coverage": "grouping, group",
    "rulers": "model, label, metric, grouping, trusted, other, quantity, trusted_value, other_value, value, low, "
    "high, p, status",
    "findings": "code, level, where, message, fix",
}
QUANTITIES = (
    "inflation, sd_ratio, iqr_ratio, mad_ratio, mnad_ratio, walsh_ratio, walsh_ratio_log, gap_ratio, snr_ratio, "
    "delta_h, differential_inflation, verdict_class, shared_error_bound"
)
N = 24
MISSING = "c05"  # has references and no prediction

COHORT = """\
name = "made by hand"
[participants]
file = "people.csv"
key = "case"
patient = "patient"
[labels]
vb = 1
disc = 2
[[mask_sets]]
name = "mix"
folder = "pred"
kind = "machine"
made_by = "a network"
[[mask_sets]]
name = "gold"
folder = "gold"
kind = "expert"
[[mask_sets]]
name = "silver"
folder = "silver"
kind = "machine"
[[exclude]]
case = "c99"
reason = "moved during the scan"
"""
PLAN = """\
cohort = "cohort.toml"
output = "run"
models = ["mix"]
rulers = ["gold", "silver"]
trusted = "gold"
by = ["sex", "country", "age:40,60"]
regression = ["age", "sex"]
resamples = 199
min_patients = 3
workers = 1
seed = 7
"""


def block(top, width, height=5):
    labels = np.zeros((10, 14, 14), np.uint8)
    labels[1:4, 2 : 2 + height, top : top + width] = 1
    labels[5:8, 2 : 2 + height, top : top + width] = 2
    return labels


def make(home):
    """Write 25 cases of 24 patients (one case is excluded), whose men are outlined worse by the model."""
    rng = np.random.default_rng(3)
    rows = ["case,patient,sex,age,country"]
    for i in range(N):
        case = f"c{i:02d}"
        rows.append(f"{case},p{i:02d},{'FM'[i % 2]},{30 + 2 * i},NL")
        width = int(rng.integers(4, 9))
        masks = {"gold": block(2, width), "silver": block(3, width)}
        masks["pred"] = block(3 + i % 2, width, 5 - (i % 5 == 0))
        for name, labels in masks.items():
            if name != "pred" or case != MISSING:
                (home / name).mkdir(parents=True, exist_ok=True)
                write_labels(home / name / f"{case}.nii.gz", labels, spacing_mm=(1.0, 1.0, 2.0))
    rows.append("c99,p99,F,50,NL")
    for name in ("pred", "gold", "silver"):
        write_labels(home / name / "c99.nii.gz", block(2, 4), spacing_mm=(1.0, 1.0, 2.0))
    (home / "people.csv").write_text("\n".join(rows) + "\n")
    (home / "cohort.toml").write_text(COHORT)
    (home / "audit.toml").write_text(PLAN)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the folder of a run, and what the line returned for it."""
    home = tmp_path_factory.mktemp("line")
    make(home)
    return home, run_plan(home / "audit.toml", means=Means(workers=1))


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """Return the folder of a run of one metric, for what more would not tell, and what the line returned for it."""
    home = tmp_path_factory.mktemp("light")
    make(home)
    (home / "audit.toml").write_text(PLAN + 'metrics = ["dice"]\n')
    return home, run_plan(home / "audit.toml", means=Means(workers=1))


def copy(home, folder):
    """Return a copy of a folder's inputs, without its run."""
    return shutil.copytree(home, folder, ignore=shutil.ignore_patterns("run*"))


def results(run):
    return {p.name: p.read_bytes() for p in sorted(run.iterdir()) if p.is_file() and p.name not in KEPT_BESIDE}


def csv(run, name):
    return pd.read_csv(run / f"{name}.csv", keep_default_na=False)


def test_contract__files_and_columns(made):
    run = made[0] / "run"
    for name, columns in CONTRACT.items():
        assert (run / f"{name}.parquet").is_file()
        own = list(csv(run, name).columns)
        missing = [column for column in columns.split(", ") if column not in own]
        assert not missing, f"{name} lacks {missing}"
    for name in ("audit.json", "steps.json"):
        assert (run / name).is_file()
    assert set(QUANTITIES.split(", ")) <= set(csv(run, "rulers")["quantity"])
    assert {"shared_error", "kappa_err"} <= set(csv(run, "independence")["quantity"])


def test_contract__labels_metrics_and_statuses_of_the_scores(made):
    scores = csv(made[0] / "run", "scores")
    assert {"vb", "disc", "macro"} == set(scores["label"])
    assert {"dice", "ndsc", "hd95", "tp", "fp", "fn", "tn"} <= set(scores["metric"])
    assert set(scores["unit"]) >= {"1", "mm", "voxel"}
    key = ["case", "model", "ruler", "label", "metric"]
    assert not scores.duplicated(key).any()
    # dense: each case has each label and metric under each ruler
    counts = scores[scores["label"] != "macro"].groupby("case").size()
    assert counts.tolist() == [counts.iloc[0]] * N


def test_contract__csv_and_parquet_hold_the_same(made):
    run = made[0] / "run"
    for name in CONTRACT:
        text, binary = csv(run, name), pd.read_parquet(run / f"{name}.parquet")
        assert list(text.columns) == list(binary.columns)
        assert len(text) == len(binary)
        for column in text.columns:
            for written, stored in zip(text[column], binary[column], strict=True):
                if pd.isna(stored) or stored == "":
                    assert written == ""
                elif isinstance(stored, str):
                    assert str(written) == stored or float(written) == float(stored)
                else:
                    assert float(written) == float(stored)


def test_schema__the_published_one_is_current():
    published = json.loads((files("segaudit") / "schemas" / "audit.schema.json").read_text())
    assert published == audit_schema()
    jsonschema.Draft202012Validator.check_schema(published)


def test_schema__audit_json_is_valid_and_a_wrong_one_is_not(made):
    document = json.loads((made[0] / "run" / "audit.json").read_text())
    validator = jsonschema.Draft202012Validator(audit_schema())
    validator.validate(document)
    assert document["version"] == 1
    assert set(document["tables"]) >= {"groups", "disparities", "tests", "sweeps", "coverage", "rulers"}
    small = {**document, "tables": {}}
    assert not list(validator.iter_errors(small))
    for broken in ({**small, "plan": None}, {**small, "more": 1}, {**small, "version": 2}):
        assert list(validator.iter_errors(broken))


def test_run__twice_gives_equal_bytes(light):
    first = results(light[0] / "run")
    run_plan(light[0] / "audit.toml", means=Means(workers=1))  # over the run that is there
    assert results(light[0] / "run") == first
    assert len(first) > 30


def test_run__a_moved_project_gives_equal_bytes(light, tmp_path, monkeypatch):
    found = []
    for name in ("here", "there"):
        home = copy(light[0], tmp_path / name)
        monkeypatch.chdir(home)
        run_plan(Path("audit.toml"), means=Means(workers=1))
        found.append(results(home / "run"))
    assert found[0] == found[1]


def test_verify__says_what_changed(light, tmp_path, command):
    home = copy(light[0], tmp_path / "v")
    run_plan(home / "audit.toml", means=Means(workers=1))
    done = command("verify", home / "run")
    assert done.status == 0
    assert "everything matches" in done.out
    (home / "run" / "groups.csv").write_text("changed")
    (home / "people.csv").write_text((home / "people.csv").read_text() + "\n")
    (home / "gold" / "c01.nii.gz").unlink()
    done = command("verify", home / "run")
    assert done.status == 1
    for code, name in (
        ("OUTPUT_CHANGED", "groups.csv"),
        ("INPUT_CHANGED", "people.csv"),
        ("INPUT_MISSING", "c01.nii.gz"),
    ):
        assert code in done.out
        assert name in done.out
    told = json.loads(command("verify", home / "run", "--json").out)
    assert {finding["code"] for finding in told} >= {"OUTPUT_CHANGED", "INPUT_CHANGED", "INPUT_MISSING"}


def test_steps__the_plan_stands_before_the_scores(made):
    steps = json.loads((made[0] / "run" / "steps.json").read_text())
    assert [step["verb"] for step in steps] == ["plan", "score", "audit"]
    audit = json.loads((made[0] / "run" / "audit.json").read_text())
    assert steps[0]["options"]["digest"] == audit["plan_digest"]
    assert audit["plan_digest"] == made[1].audit.plan.digest()
    assert steps[2]["seed"] == 7
    assert {"people.csv", "cohort.toml", "audit.toml"} <= {i["path"].rsplit("/", 1)[-1] for i in steps[1]["inputs"]}
    masks = [i for i in steps[1]["inputs"] if i["path"].endswith(".nii.gz")]
    assert len(masks) == 3 * N - 1  # not the excluded case, nor the prediction that is missing


def test_scores__a_missing_prediction_is_a_planned_row_and_a_failure(made, light, tmp_path):
    run = made[0] / "run"
    scores = csv(run, "scores")
    absent = scores[scores["case"] == MISSING]
    assert set(absent["status"]) == {"prediction_missing"}
    assert set(absent["value"]) == {""}
    assert set(absent["label"]) == {"vb", "disc", "macro"}
    overall = csv(run, "groups").query("grouping == '' and label == 'vb' and ruler == 'gold'").set_index("metric")
    assert overall.loc["dice", "n_cases"] == N
    assert int(overall.loc["hd95", "n_infinite"]) == 1
    dice = scores.query("metric == 'dice' and label == 'vb' and ruler == 'gold' and status == 'ok'")["value"].astype(
        float
    )
    assert int(overall.loc["dice", "n_success"]) == (dice > 0.8).sum()
    assert float(overall.loc["dice", "mean"]) == pytest.approx(dice.sum() / N)

    home = copy(light[0], tmp_path / "exclude")
    plan = (home / "audit.toml").read_text()
    (home / "audit.toml").write_text(plan + '[undefined]\nprediction_missing = "exclude"\n')
    left_out = run_plan(home / "audit.toml", means=Means(workers=1)).audit.groups
    row = left_out.query("grouping == '' and label == 'vb' and ruler == 'gold' and metric == 'dice'").iloc[0]
    assert (row["n_cases"], row["n_undefined"]) == (N - 1, 1)
    assert row["mean"] == pytest.approx(dice.mean())


def test_cohort__the_excluded_case_is_counted_with_its_reason(made):
    run = made[0] / "run"
    excluded = csv(run, "excluded")
    assert excluded["case"].tolist() == ["c99"]
    assert excluded["reason"].tolist() == ["moved during the scan"]
    assert "c99" not in set(csv(run, "scores")["case"])
    assert json.loads((run / "audit.json").read_text())["data"]["n_excluded"] == 1


def test_rulers__a_grouping_that_cannot_be_tested_stays_in_line(made):
    run = made[0] / "run"
    tests, rulers = csv(run, "tests"), csv(run, "rulers")
    skipped = tests[tests["grouping"] == "country"]
    assert set(skipped["status"]) == {"one_group"}
    assert set(skipped["p"]) == {""}
    assert set(rulers[rulers["grouping"] == "country"]["status"]) == {"one_group"}
    for grouping in ("sex", "age"):
        for row in rulers[(rulers["grouping"] == grouping) & (rulers["quantity"] == "p")].to_dict("records"):
            for ruler, column in (("gold", "trusted_value"), ("silver", "other_value")):
                own = tests[
                    (tests["ruler"] == ruler)
                    & (tests["grouping"] == grouping)
                    & (tests["metric"] == row["metric"])
                    & (tests["label"] == row["label"])
                    & (tests["test"] != "dunn")
                ]
                assert len(own) == 1
                assert float(row[column]) == float(own["p"].iloc[0])
    planned = csv(run, "families").query("family == 'all' and method == 'bh'")["n_planned"]
    assert planned.tolist() == [27, 27]  # three groupings of nine scores, the one of a single group among them


def test_rulers__are_joined_by_case_not_by_position(made):
    scores = made[1].audit.scores.table
    dice = scores[(scores["metric"] == "dice") & (scores["label"] == "vb")]
    wide = dice.pivot_table(index="case", columns="ruler", values="value").reindex(sorted(set(dice["case"])))
    assert wide.index[wide["gold"].isna()].tolist() == [MISSING]  # a failure under both rulers: nought and nought
    by_hand = (wide["silver"] - wide["gold"]).fillna(0).mean()
    assert made[1].comparisons[0].value("inflation", "dice", "vb") == pytest.approx(by_hand, abs=1e-12)


def test_people__the_order_of_their_rows_changes_nothing(light, tmp_path):
    home = copy(light[0], tmp_path / "shuffled")
    head, *rows = (home / "people.csv").read_text().splitlines()
    (home / "people.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    run_plan(home / "audit.toml", means=Means(workers=1))
    ours, theirs = results(home / "run"), results(light[0] / "run")
    for name in ("steps.json", "findings.csv", "findings.parquet", "audit.json", "cohort.json"):  # these tell paths
        ours.pop(name), theirs.pop(name)
    masks = {name for name in ours if name.startswith("masks.")}
    assert {k: v for k, v in ours.items() if k not in masks} == {k: v for k, v in theirs.items() if k not in masks}


def test_rulers__new_names_change_only_names(light, tmp_path):
    home = copy(light[0], tmp_path / "renamed")
    names = {"gold": "board", "silver": "auto"}
    for file in ("cohort.toml", "audit.toml"):
        text = (home / file).read_text()
        for old, new in names.items():
            text = text.replace(f'name = "{old}"', f'name = "{new}"').replace(f'"{old}"]', f'"{new}"]')
            text = text.replace(f'["{old}"', f'["{new}"').replace(f'trusted = "{old}"', f'trusted = "{new}"')
        (home / file).write_text(text)
    audit = run_plan(home / "audit.toml", means=Means(workers=1)).audit
    first = light[1].audit
    for name in ("groups", "sweeps", "coverage", "regression"):
        expected = getattr(first, name)
        if "ruler" in expected:
            expected = expected.assign(ruler=expected["ruler"].replace(names))
        pd.testing.assert_frame_equal(getattr(audit, name), expected)
    # draws are seeded by the names of a cell; what is not drawn is the same
    fixed = ["metric", "label", "grouping", "test", "statistic", "effect", "n_cases", "n_patients", "status"]
    pd.testing.assert_frame_equal(audit.tests[fixed], first.tests[fixed])
    told = ["metric", "label", "grouping", "disparity", "group", "reference_group", "value", "status"]
    pd.testing.assert_frame_equal(audit.disparities[told], first.disparities[told])


def test_read__a_run_comes_back_as_it_was_written(made):
    home, result = made
    run = RunDirectory(home / "run")
    audit, comparisons = read_audit(run)
    assert audit.plan == result.audit.plan
    for (schema, ours), (_, theirs) in zip(audit.tables(), result.audit.tables(), strict=True):
        pd.testing.assert_frame_equal(ours, theirs, obj=schema.name)
    assert len(comparisons) == 1
    pd.testing.assert_frame_equal(comparisons[0].table, result.comparisons[0].table)
    pd.testing.assert_frame_equal(comparisons[0].independence, result.comparisons[0].independence)
    pd.testing.assert_frame_equal(read_scores_of(run).table, result.audit.scores.table)
    cohort = read_cohort_of(run)
    pd.testing.assert_frame_equal(cohort.cases, result.audit.cases)
    assert cohort.mask_sets["mix"].made_by == "a network"
    assert (
        audit_document(audit, comparisons)["tables"] == json.loads((home / "run" / "audit.json").read_text())["tables"]
    )


def test_run__new_scores_leave_no_result_of_the_old_ones(audited_once, tmp_path, command):
    run = shutil.copytree(audited_once, tmp_path / "run")
    assert (run / "rulers.csv").is_file()
    (tmp_path / "new.csv").write_text("case,dice_a\nx,0.5\ny,0.6\nz,0.7\n")
    assert command("audit", "--scores", f"one={tmp_path / 'new.csv'}", "-o", run).status == 0
    assert set(csv(run, "scores")["case"]) == {"x", "y", "z"}
    assert not (run / "rulers.csv").exists()  # a comparison that these scores do not have
    assert command("verify", run).status == 0


def test_run__a_failed_step_leaves_the_run_as_it_was(audited_once, tmp_path, command, monkeypatch):
    run = shutil.copytree(audited_once, tmp_path / "run")
    before = results(run)

    def full(*_):
        raise AuditError([])

    monkeypatch.setattr(RunDirectory, "write_json", full)
    (tmp_path / "new.csv").write_text("case,dice_a\nx,0.5\ny,0.6\nz,0.7\n")
    assert command("audit", "--scores", f"one={tmp_path / 'new.csv'}", "-o", run).status == 2
    assert results(run) == before


def test_patients__of_the_participants_stand_in_the_scores(tmp_path, command):
    (tmp_path / "s.csv").write_text("case,dice_a\nx1,0.5\nx2,0.6\ny,0.7\n")
    (tmp_path / "p.csv").write_text("case,patient,sex\nx1,x,F\nx2,x,F\ny,y,M\n")
    words = ["--participants", tmp_path / "p.csv", "--key", "case", "--patient", "patient"]
    done = command("audit", "--scores", f"r={tmp_path / 's.csv'}", *words, "-o", tmp_path / "run")
    assert done.status == 0, done.err
    assert csv(tmp_path / "run", "scores")["patient"].tolist() == ["x", "x", "y"]
    assert csv(tmp_path / "run", "groups")["n_patients"].tolist() == [2]


@pytest.mark.slow
def test_run__the_whole_command_with_its_report(light, tmp_path, command):
    home = copy(light[0], tmp_path / "cli")
    done = command("run", home / "audit.toml", "--workers", 1)
    assert done.status == 0, done.err
    assert (home / "run" / "report.html").is_file()
    assert "gold" in done.out
    assert command("verify", home / "run").status == 0
