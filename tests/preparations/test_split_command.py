"""`segaudit split` as people run it: what it writes, what it refuses, and that ids and seed alone decide."""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

KEYS = ("--key", "case", "--patient", "patient")
RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}
STRATA = ("--stratify", "sex", "--stratify", "race", "--stratify", "age:40,60")
MADE = ["balance.csv", "dropped.csv", "manifest.json", "splits.csv", "steps.json"]


def read(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def age_bin(age):
    years = float(age.rstrip("+"))
    return "<40" if years < 40 else "40-60" if years < 60 else "60+"


@pytest.fixture
def split(command, study_file, tmp_path):
    def run(*options, out=tmp_path / "out", file=study_file):
        done = command("split", "--participants", file, *KEYS, *options, "-o", out)
        assert done.status == 0, done.err
        return out

    return run


def test_split__keeps_patients_whole_and_strata_within_one_of_their_targets(split, study):
    out = split(*STRATA, "--seed", 42)
    assert sorted(path.name for path in out.iterdir()) == MADE
    assert (out / "dropped.csv").read_text() == "case,patient,split,rule,reason\n"
    made = read(out / "splits.csv").merge(study, on=["case", "patient"])
    assert sorted(made["case"]) == sorted(study["case"])
    people = made.groupby("patient").first()
    assert not made[["patient", "split"]].drop_duplicates()["patient"].duplicated().any()
    assert people["split"].value_counts().to_dict() == {"train": 862, "test": 247, "val": 123}
    sets = {"sex": people["sex"], "stratum": people["stratum"]}
    for name, level in sets.items():
        counts = pd.crosstab(level, people["split"])
        targets = np.outer(counts.sum(axis=1), [RATIOS[part] for part in counts.columns])
        assert (np.abs(counts.to_numpy() - targets) < 1).all(), name


def test_split__top_coded_ages_are_of_the_oldest(split, study):
    out = split("--stratify", "age:40,60")
    made = read(out / "splits.csv").merge(study, on="case")
    first = made.sort_values("case").groupby("patient_x").first()
    assert (first["age"] == "89+").sum() >= 10
    assert first["stratum"].eq("age=" + first["age"].map(age_bin)).all()


@pytest.mark.parametrize("unit", ["case", "patient"])
def test_split__balance_makes_counts_exactly_equal_and_says_what_went(split, study, unit):
    out = split(*STRATA, "--balance", "sex", "--balance-unit", unit, "--keep", "race", "--keep", "age")
    made, dropped = read(out / "splits.csv").merge(study, on=["case", "patient"]), read(out / "dropped.csv")
    assert sorted([*made["case"], *dropped["case"]]) == sorted(study["case"])
    counted = made if unit == "case" else made.drop_duplicates("patient")
    counts = pd.crosstab(counted["split"], counted["sex"])
    assert (counts["Female"] == counts["Male"]).all()
    assert dropped["reason"].str.contains(rf"has \d+ {unit}s with sex Female and \d+ with Male", regex=True).all()
    # what is dropped is the surplus and no more
    whole = study.merge(pd.concat([made, dropped])[["case", "split"]], on="case")
    whole = whole if unit == "case" else whole.drop_duplicates("patient")
    surplus = pd.crosstab(whole["split"], whole["sex"])
    assert len(whole) - len(counted) == (surplus["Female"] - surplus["Male"]).abs().sum()
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["dropped"] == {"balance sex": len(dropped)}
    assert manifest["balanced"][0]["unit"] == unit
    assert manifest["balanced"][0]["keep"] == ["race", "age"]


def test_split__the_order_of_rows_and_columns_decides_nothing(split, study, tmp_path):
    options = (*STRATA, "--balance", "sex", "--folds", 5, "--regime", "gold=gold")
    first = split(*options)
    shuffled = tmp_path / "shuffled.tsv"
    study.sample(frac=1, random_state=3)[study.columns[::-1]].to_csv(shuffled, index=False, sep="\t")
    second = split(*options, out=tmp_path / "again", file=shuffled)
    for path in first.rglob("*"):
        if path.suffix == ".csv" or path.name == "splits_final.json":
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path
    manifests = [json.loads((out / "manifest.json").read_text()) for out in (first, second)]
    assert manifests[0].pop("inputs") != manifests[1].pop("inputs")
    assert manifests[0] == manifests[1]
    other = split(*options, "--seed", 43, out=tmp_path / "other")
    assert (other / "splits.csv").read_bytes() != (first / "splits.csv").read_bytes()


def test_split__is_the_same_for_ever(command, table_file, tmp_path):
    """The digest was written down once, on one machine: a change of the rule must get a new number."""
    file = table_file(("case", "patient", "sex"), *((f"c{i:02d}", f"p{i:02d}", "FM"[i % 2]) for i in range(20)))
    done = command("split", "--participants", file, *KEYS, "--stratify", "sex", "--seed", 1, "-o", tmp_path / "out")
    assert done.status == 0
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["rule"] == "segaudit.splits/1 assign"
    assert manifest["assignment_digest"] == "cf62f42b2a14d4097c02d814006c18a44119a73c3dc94d35af1522b191e49b5b"
    lines = ["\0".join(row) for row in read(tmp_path / "out" / "splits.csv")[["case", "patient", "split"]].to_numpy()]
    assert hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest() == manifest["assignment_digest"]


def test_split__regimes_and_folds_come_from_the_one_split(split, study):
    out = split(
        *STRATA, "--balance", "sex", "--folds", 5, "--regime", "mixed=gold,silver", "--regime", "gold=gold",
        "--regime", "silver=silver",
    )  # fmt: skip
    whole = read(out / "splits.csv").set_index("case")
    provenance = study.set_index("case")["provenance"]
    for name, allowed in {"mixed": {"gold", "silver"}, "gold": {"gold"}, "silver": {"silver"}}.items():
        own, dropped = read(out / name / "splits.csv"), read(out / name / "dropped.csv")
        assert set(own["case"].map(provenance)) == allowed
        assert own["split"].tolist() == whole.loc[own["case"], "split"].tolist()
        assert sorted([*own["case"], *dropped["case"].unique()]) == sorted(study["case"])
        people = own.drop_duplicates("patient").merge(study, on="case")
        counts = pd.crosstab(people["split"], people["sex"])
        assert (counts["Female"] == counts["Male"]).all(), name
    for folder in (out, out / "mixed", out / "gold", out / "silver"):
        own, folds = read(folder / "splits.csv"), read(folder / "folds.csv")
        assert sorted(folds["case"]) == sorted(own.loc[own["split"] != "test", "case"])
        patient = folds.set_index("case")["patient"]
        pairs = json.loads((folder / "splits_final.json").read_text())
        assert len(pairs) == 5
        for number, pair in enumerate(pairs):
            assert sorted(pair["val"]) == sorted(folds.loc[folds["fold"] == str(number), "case"])
            assert not set(patient[pair["train"]]) & set(patient[pair["val"]])
        sizes = folds.drop_duplicates("patient")["fold"].value_counts()
        assert sizes.max() - sizes.min() <= 1


def test_split__folds_are_made_of_the_parts_named(split):
    out = split("--ratios", "dev=0.8,holdout=0.2", "--folds", 4, "--fold-parts", "dev")
    own, folds = read(out / "splits.csv"), read(out / "folds.csv")
    assert set(folds["case"]) == set(own.loc[own["split"] == "dev", "case"])


def test_split__tells_parts_shares_targets_and_drops(command, study_file, tmp_path):
    out = tmp_path / "out"
    options = ("split", "--participants", study_file, *KEYS, *STRATA, "--balance", "sex", "-o", out)
    said = command(*options).out
    for words in (
        "Split of 1,232 patients",
        "70.0 %",
        "target",
        "dropped by 'balance sex'",
        "were pooled",
        "steps.json",
    ):
        assert words in said
    told = json.loads(command(*options, "--json").out)
    assert sum(part["cases"] for part in told["splits"][""]["manifest"]["parts"].values()) < 1255
    assert {"attribute", "level", "split", "share", "target_share"} <= told["splits"][""]["balance"][0].keys()
    assert command("verify", out).status == 0
    study_file.write_text(study_file.read_text() + "x,y,40,Male,White,SIEMENS,1.5,gold\n")
    assert command("verify", out).status == 1


def test_split__a_second_run_takes_away_what_no_longer_follows(split):
    assert (split("--folds", 3, "--regime", "gold=gold") / "gold" / "folds.csv").is_file()
    out = split()
    assert not (out / "folds.csv").exists()
    assert not (out / "gold" / "splits.csv").exists()


def test_split__reads_a_cohort_toml_and_keeps_its_exclusions(command, table_file, tmp_path):
    table_file(("case", "patient", "bmi"), *((f"c{i}", f"p{i}", 20 + i) for i in range(12)))
    toml = tmp_path / "cohort.toml"
    toml.write_text(
        '[participants]\nfile = "participants.csv"\nkey = "case"\npatient = "patient"\n'
        '[attributes.bmi]\nkind = "number"\n[[exclude]]\ncase = "c3"\nreason = "other sequence"\n'
    )
    done = command("split", toml, "--stratify", "bmi:26", "--ratios", "a=0.5,b=0.5", "-o", tmp_path / "out")
    assert done.status == 0, done.err
    assert len(read(tmp_path / "out" / "splits.csv")) == 11
    dropped = read(tmp_path / "out" / "dropped.csv")
    assert dropped[["case", "split", "reason"]].to_numpy().tolist() == [["c3", "", "other sequence"]]
    inputs = json.loads((tmp_path / "out" / "manifest.json").read_text())["inputs"]
    assert sorted(Path(one["path"]).name for one in inputs) == ["cohort.toml", "participants.csv"]


def test_split__levels_that_are_not_balanced_are_dropped_with_their_own_reason(command, table_file, tmp_path):
    rows = [(f"c{i:02d}", f"p{i:02d}", ["White", "Black", "Asian", ""][i % 4]) for i in range(40)]
    file = table_file(("case", "patient", "race"), *rows)
    options = ("--stratify", "race", "--balance", "race=White,Black", "--ratios", "a=0.5,b=0.5")
    done = command("split", "--participants", file, *KEYS, *options, "-o", tmp_path / "out")
    assert done.status == 0, done.err
    dropped = read(tmp_path / "out" / "dropped.csv").merge(pd.DataFrame(rows, columns=["case", "patient", "race"]))
    reasons = dropped.groupby("race")["reason"].unique().map(list).to_dict()
    assert reasons[""] == ["race is missing"]
    assert reasons["Asian"] == ["'Asian' is no group of this grouping"]


def test_split__exams_that_differ_are_told_and_the_first_decides(command, table_file, tmp_path):
    rows = [(f"c{i:02d}", f"p{i % 20:02d}", "F" if i < 20 else "M") for i in range(22)]
    file = table_file(("case", "patient", "sex"), *rows)
    options = ("--stratify", "sex", "--ratios", "a=0.5,b=0.5")
    done = command("split", "--participants", file, *KEYS, *options, "-o", tmp_path / "out")
    assert "STRATUM_VARIES: sex: the cases of 2 patients differ (p00, p01); the first case decides." in done.out
    assert set(read(tmp_path / "out" / "splits.csv")["stratum"]) == {"sex=Female"}


def test_split__columns_that_are_taken_for_who_is_who_are_told(command, table_file, tmp_path):
    file = table_file(("case", "Patient ID", "sex"), *[(f"c{i}", f"p{i // 2}", "FM"[i // 2 % 2]) for i in range(80)])
    done = command("split", "--participants", file, "-o", tmp_path / "out")
    assert done.status == 0
    assert "rows are named by column 'case'" in done.out
    assert "patients are named by column 'Patient ID'" in done.out
    assert pd.read_csv(tmp_path / "out" / "splits.csv")["patient"].nunique() == 40
    tilde = tmp_path / "tilde.csv"
    tilde.write_text("case~patient\na~p\n")
    done = command("split", "--participants", tilde, "--key", "case", "-o", tmp_path / "none")
    assert (done.status, "Is it one column?" in done.err) == (2, True)


def test_split__a_stratum_of_one_patient_is_pooled(command, table_file, tmp_path):
    file = table_file(
        ("case", "patient", "sex"), *((f"c{i}", f"p{i}", "O" if i == 0 else "FM"[i % 2]) for i in range(30))
    )
    done = command("split", "--participants", file, *KEYS, "--stratify", "sex", "-o", tmp_path / "out")
    assert done.status == 0
    assert "1 stratum of fewer than 10 patients was pooled: sex=O (1)" in done.out


BAD = [
    (("--ratios", "train=0,test=1"), "RATIO_NOT_POSITIVE", "the ratio of 'train' is 0.0"),
    (("--ratios", "train=0.7,test=0.2"), "RATIOS_SUM", "0.9"),
    (("--ratios", "train=1"), "PARTS_TOO_FEW", "1 is given"),
    (("--ratios", "train"), "OPTION_FORM", "'train' is not NAME=VALUE"),
    (("--ratios", "train=x,test=1"), "OPTION_NUMBER", "'x' is no number"),
    (("--ratios", ",".join(f"p{i}=0.1" for i in range(10))), "PATIENTS_TOO_FEW", "8 patients cannot fill 10 parts"),
    (("--ratios", "train=0.95,test=0.05"), "PART_EMPTY", "part 'test' gets 0 of 8 patients"),
    (("--stratify", "sexx"), "UNKNOWN_ATTRIBUTE", "did you mean 'sex'"),
    (("--stratify", "age"), "GROUPING_NEEDS_CUTS", "write its cuts: age:40,60"),
    (("--stratify", "sex:40"), "ATTRIBUTE_EMPTY", "no case has a value of 'sex' that can be used as a number"),
    (("--stratify", "sex", "--stratify", "sex"), "GROUPING_TWICE", "--stratify sex"),
    (("--stratify", "age:60,40"), "GROUPING_CUTS", "--stratify age:60,40"),
    (("--balance", "site", "--ratios", "a=0.5,b=0.5"), "BALANCE_LEVELS_TOO_FEW", "site has 1 level"),
    (("--balance", "sex"), "BALANCE_LEVEL_ABSENT", "nothing would be left"),
    (("--keep", "sex"), "KEEP_WITHOUT_BALANCE", "nothing is balanced"),
    (("--folds", 1), "FOLDS_TOO_FEW", "1 fold asked for"),
    (("--folds", 50), "PATIENTS_TOO_FEW", "cannot fill 50 folds"),
    (("--ratios", "dev=0.5,test=0.5", "--folds", 2), "FOLD_PART_UNKNOWN", "train, val"),
    (("--regime", "gold=golden", "--provenance", "label"), "REGIME_VALUE_UNKNOWN", "did you mean 'gold'"),
    (("--regime", "gold=gold"), "UNKNOWN_ATTRIBUTE", "there is no attribute 'provenance'"),
    (("--regime", "../x=gold", "--provenance", "label"), "REGIME_NAME", "'../x' cannot name a folder"),
    (("--regime", "one=rare", "--provenance", "label"), "REGIME_PART_EMPTY", "regime 'one' has 0 of"),
    (("--key", "id"), "UNKNOWN_COLUMN", "there is no column 'id' for the key"),
]


@pytest.mark.parametrize(("options", "code", "fact"), BAD, ids=[f"{bad[1]}-{i}" for i, bad in enumerate(BAD)])
def test_split__refuses_with_one_clear_message_and_writes_nothing(command, table_file, tmp_path, options, code, fact):
    rows = [(f"c{i}", f"p{i}", "FM"[i > 6], 30 + i, "gold" if i else "rare", "s") for i in range(8)]
    file = table_file(("case", "patient", "sex", "age", "label", "site"), *rows)
    given = ("--key", "case") if "--key" not in options else ()
    done = command("split", "--participants", file, *given, "--patient", "patient", *options, "-o", tmp_path / "out")
    assert done.status == 2
    assert done.err.startswith(f"{code}: ")
    assert fact in done.err
    assert done.err.count("fix:") == len(done.err.strip().split("\n\n"))
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ((("case", "patient"), ("c1", "p1"), ("c1", "p2"), ("c2", "p3")), "KEY_DOUBLED"),
        ((("case", "patient"), ("c1", "p1"), ("c2", "")), "PATIENT_BLANK"),
        ((("case", "patient"), ("", "p1"), ("c2", "p2")), "KEY_BLANK"),
        ((("case", "patient"),), "SHEET_NO_ROWS"),
    ],
)
def test_split__refuses_tables_that_do_not_say_who_is_who(command, table_file, tmp_path, rows, code):
    done = command("split", "--participants", table_file(*rows), *KEYS, "-o", tmp_path / "out")
    assert (done.status, done.err.split(":")[0]) == (2, code)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("-o", "out"),
        ("--participants", "t.csv"),
        ("cohort.toml", "--participants", "t.csv", "-o", "out"),
        ("cohort.toml", "--key", "case", "-o", "out"),
        ("--participants", "t.csv", "--balance-unit", "exam", "-o", "out"),
    ],
)
def test_split__options_that_do_not_go_together_end_with_2(command, words):
    done = command("split", *words)
    assert done.status == 2
    assert "Usage" in done.err


def test_split__a_folder_that_cannot_be_written_is_a_finding(command, study_file, tmp_path):
    (tmp_path / "file").write_text("")
    done = command("split", "--participants", study_file, *KEYS, "-o", tmp_path / "file" / "out")
    assert (done.status, done.err.split(":")[0]) == (2, "RUN_UNWRITABLE")


CHECKS = [
    ("good", lambda t: t, 0, "no leak found"),
    ("torn patient", lambda t: t.assign(split=["test", *t["split"][1:]]), 1, "leak found"),
    ("absent case", lambda t: t[1:], 0, "SPLIT_CASE_ABSENT"),
    ("unknown case", lambda t: t.replace({"case": {"c3": "c99"}}), 2, "SPLIT_CASE_UNKNOWN"),
    ("other patient", lambda t: t.replace({"patient": {"p1": "p9"}}), 2, "SPLIT_PATIENT_DIFFERS"),
    ("case twice in two parts", lambda t: pd.concat([t, t[:1].assign(split="test")]), 1, "SPLIT_CASE_TWICE"),
    ("no part", lambda t: t.replace({"split": {"test": ""}}), 2, "SPLIT_NULL"),
]


@pytest.mark.parametrize(("change", "status", "said"), [c[1:] for c in CHECKS], ids=[c[0] for c in CHECKS])
def test_check__truth_table(command, table_file, tmp_path, change, status, said):
    rows = [(f"c{i}", f"p{i // 2}") for i in range(8)]
    people = table_file(("case", "patient"), *rows)
    split = pd.DataFrame(rows, columns=["case", "patient"]).assign(split=["train"] * 6 + ["test"] * 2)
    change(split).to_csv(tmp_path / "splits.csv", index=False)
    done = command("split", "--participants", people, *KEYS, "--check", tmp_path / "splits.csv")
    assert done.status == status, done.out + done.err
    assert said in done.out
    told = json.loads(
        command("split", "--participants", people, *KEYS, "--check", tmp_path / "splits.csv", "--json").out
    )
    assert told["exit_code"] == status


def test_check__a_table_of_its_own_and_other_names_of_columns(command, table_file):
    file = table_file(("exam", "who", "fold"), ("a", 1, "x"), ("b", 1, "y"), name="theirs.csv")
    names = ("--column", "case=exam", "--column", "patient=who", "--column", "split=fold")
    assert command("split", "--check", file, *names).status == 1
    done = command("split", "--check", file)
    assert (done.status, done.err.count("COLUMN_MISSING")) == (2, 2)
    done = command("split", "--check", file, "--column", "case=exam", "--column", "split=fold")
    assert (done.status, done.err.split(":")[0]) == (2, "PATIENTS_NEEDED")


def test_check__of_our_own_output_is_clean(command, split, study_file):
    out = split("--folds", 3)
    for name in ("splits.csv", "splits_final.json"):
        assert command("split", "--participants", study_file, *KEYS, "--check", out / name).status == 0


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_split__laws_hold_for_any_table(data):
    """No patient on two sides; every case assigned once or dropped; balance exact; row order of no weight."""
    from segaudit.cli.app import app

    owners = data.draw(st.lists(st.integers(0, 30), min_size=40, max_size=60))
    sexes = data.draw(st.lists(st.sampled_from("FM"), min_size=31, max_size=31))
    seed = data.draw(st.integers(0, 2**31))
    table = pd.DataFrame({"case": [f"c{i}" for i in range(len(owners))], "patient": [f"p{i}" for i in owners]})
    table["sex"] = [sexes[i] for i in owners]
    with tempfile.TemporaryDirectory() as name:
        folder, made = Path(name), []
        for i, one in enumerate((table, table.sample(frac=1, random_state=1))):
            one.to_csv(folder / f"{i}.csv", index=False)
            words = ("split", "--participants", folder / f"{i}.csv", *KEYS, "--ratios", "a=0.5,b=0.5", "--seed", seed)
            done = CliRunner().invoke(app, [str(w) for w in (*words, "--balance", "sex", "-o", folder / f"out{i}")])
            if done.exit_code:
                assert done.exception.findings[0].code in {
                    "BALANCE_LEVEL_ABSENT",
                    "BALANCE_LEVELS_TOO_FEW",
                    "PATIENTS_TOO_FEW",
                }
                return
            made.append((read(folder / f"out{i}" / "splits.csv"), read(folder / f"out{i}" / "dropped.csv")))
    (splits, dropped), again = made
    assert splits.equals(again[0])
    assert dropped.equals(again[1])
    assert sorted([*splits["case"], *dropped["case"]]) == sorted(table["case"])
    assert not pd.concat([splits, dropped])[["patient", "split"]].drop_duplicates()["patient"].duplicated().any()
    people = splits.drop_duplicates("patient").merge(table, on="case")
    counts = pd.crosstab(people["split"], people["sex"])
    assert (counts["F"] == counts["M"]).all()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
def test_split__a_hundred_thousand_patients_take_seconds_and_little_memory(tmp_path):
    rng = np.random.default_rng(0)
    n = 100_000
    people = pd.DataFrame({"case": [f"c{i:07d}" for i in range(n)], "patient": [f"p{i:07d}" for i in range(n)]})
    people["sex"] = rng.choice(["F", "M"], n)
    people["race"] = rng.choice(["White", "Black", "Asian"], n, p=[0.7, 0.25, 0.05])
    people["age"] = rng.integers(18, 90, n)
    people.to_csv(tmp_path / "people.csv", index=False)
    options = ["--ratios", "train=0.7,val=0.1,test=0.2", "--balance", "sex", "-o", str(tmp_path / "out")]
    strata = ["--stratify", "sex", "--stratify", "race", "--stratify", "age:40,60"]
    program = (
        "import resource, sys\n"
        "from segaudit.cli.app import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"  # ru_maxrss starts at the parent's
        "print(used.ru_utime + used.ru_stime, int(peak) / 2**20)\n"
    )
    asked = ["split", "--participants", str(tmp_path / "people.csv"), *KEYS, *options, *strata]
    done = subprocess.run([sys.executable, "-c", program, *asked], capture_output=True, text=True, check=True)
    seconds, gib = map(float, done.stdout.split()[-2:])
    assert len(pd.read_csv(tmp_path / "out" / "splits.csv")) > 99_000
    assert seconds < 15  # of one processor: 6 on a quiet machine
    assert gib < 0.45
