"""Bad input: one clear message, exit status 2, and nothing half-written."""

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from segaudit.volumes import write_labels

SCORE = ["score", "--pred", "pred", "--ref", "gold=gold", "--labels", "vb=1,disc=2", "--workers", "1", "-o", "run"]
AUDIT = ["audit", "--scores", "gold=gold.csv", "--resamples", "199", "-o", "run"]
BOTH = [*AUDIT, "--scores", "silver=silver.csv"]
PEOPLE = ["--participants", "people.csv", "--key", "case", "--patient", "patient"]
BY_SEX = [*AUDIT, *PEOPLE, "--by", "sex"]
CHECK = ["check", "cohort.toml"]
RUN = ["run", "audit.toml"]
MASK = "pred/c01.nii.gz"
LEDGER = ("run/ledger.sqlite", "run/.lock")  # what was measured before the fault may be kept for the next try


def without(words, *names):
    """Return the words but for these options and their values."""
    kept, skip = [], False
    for word in words:
        if not skip and word not in names:
            kept.append(word)
        skip = word in names and not skip
    return kept


def nothing(_bench):
    """Break nothing: the words themselves are wrong."""


def writes(name, text):
    return lambda bench: bench.write(name, text)


def edits(name, old, new):
    return lambda bench: bench.edit(name, old, new)


# --- masks ---


def truncated(bench):
    data = (bench / MASK).read_bytes()
    bench.write(MASK, data[: len(data) // 2])


def wrong_checksum(bench):
    data = bytearray((bench / MASK).read_bytes())
    data[-6] ^= 0xFF
    bench.write(MASK, bytes(data))


def nifti(array, affine=None):
    import nibabel

    return gzip.compress(nibabel.Nifti1Image(array, np.eye(4) if affine is None else affine).to_bytes(), mtime=0)


def four_axes(bench):
    bench.write(MASK, nifti(np.ones((4, 4, 4, 2), np.uint8)))


def halves(bench):
    bench.write(MASK, nifti(np.full((4, 4, 4), 0.5, np.float32)))


def not_numbers(bench):
    bench.write(MASK, nifti(np.full((4, 4, 4), np.nan, np.float32)))


def other_grid(bench):
    bench.write(MASK, nifti(np.ones((8, 8, 8), np.uint8), np.diag([3.0, 1, 1, 1])))


def other_coding(bench):
    for path in (bench / "pred").iterdir():
        write_labels(path, np.full((8, 8, 8), 7, np.uint8), spacing_mm=(1.0, 1.0, 2.0))


def twice(bench):
    shutil.copy(bench / MASK, bench / "pred" / "c01.nii")


def renamed(bench):
    for path in list((bench / "pred").iterdir()):
        path.rename(path.with_name(f"case_{path.name}"))


def loop(bench):
    (bench / MASK).unlink()
    (bench / MASK).symlink_to("c01.nii.gz")


def folder_loop(bench):
    shutil.rmtree(bench / "pred")
    (bench / "pred").symlink_to("pred")


def empty_folder(bench):
    shutil.rmtree(bench / "pred")
    (bench / "pred").mkdir()


def no_folder(bench):
    shutil.rmtree(bench / "pred")


def folder_is_file(bench):
    no_folder(bench)
    bench.write("pred", "x")


MASKS = [
    ("truncated gz", truncated, SCORE, "IMAGE_TRUNCATED", "c01.nii.gz"),
    ("text renamed to .nii.gz", writes(MASK, "this is no image\n"), SCORE, "IMAGE_NOT_NIFTI", "c01.nii.gz"),
    ("a damaged checksum", wrong_checksum, SCORE, "IMAGE_CORRUPT", "c01.nii.gz"),
    ("a file without a byte", writes(MASK, ""), SCORE, "IMAGE_EMPTY_FILE", "c01.nii.gz"),
    ("four axes", four_axes, SCORE, "IMAGE_DIMENSIONS", "c01.nii.gz"),
    ("labels of 0.5", halves, SCORE, "IMAGE_NOT_LABELS", "c01.nii.gz"),
    ("labels that are no numbers", not_numbers, SCORE, "IMAGE_NOT_LABELS", "c01.nii.gz"),
    ("another grid", other_grid, SCORE, "GRID_MISMATCH", "c01"),
    ("labels that never occur", other_coding, SCORE, "LABEL_CODING", "7"),
    ("two files of one case", twice, SCORE, "MASK_DOUBLED", "c01"),
    ("no case name in common", renamed, SCORE, "NOTHING_TO_SCORE", "file name"),
    ("a link to itself", loop, SCORE, "MASK_DANGLING", "c01.nii.gz"),
    ("a folder that is a link to itself", folder_loop, SCORE, "FOLDER_", "pred"),
    ("an empty folder", empty_folder, SCORE, "MASKS_NONE", "pred"),
    ("no folder", no_folder, SCORE, "FOLDER_MISSING", "pred"),
    ("a file in place of the folder", folder_is_file, SCORE, "FOLDER_UNREADABLE", "pred"),
    ("one name for model and ruler", nothing, [*SCORE, "--model", "gold"], "NAME_TWICE", "gold"),
    ("labels without a value", nothing, [*without(SCORE, "--labels"), "--labels", "vb"], "LABELS_FORM", "vb=1"),
    ("a negative label", nothing, [*without(SCORE, "--labels"), "--labels", "vb=-1"], "LABELS_FORM", "vb=-1"),
    ("the background as a label", nothing, [*without(SCORE, "--labels"), "--labels", "vb=0"], "LABELS_FORM", "vb=0"),
    ("a value named twice", nothing, [*without(SCORE, "--labels"), "--labels", "vb=1+1"], "LABELS_FORM", "vb=1+1"),
    ("a label named twice", nothing, [*without(SCORE, "--labels"), "--labels", "vb=1,vb=2"], "LABELS_FORM", "vb=2"),
    ("no label", nothing, without(SCORE, "--labels"), "NO_LABELS", "--labels"),
    ("an unknown metric", nothing, [*SCORE, "--metrics", "dyce"], "UNKNOWN_METRIC", "did you mean 'dice'"),
    ("a reference without a name", nothing, [*SCORE, "--ref", "silver"], "OPTION_FORM", "--ref"),
    (
        "an unknown ruler",
        nothing,
        ["score", "cohort.toml", "--rulers", "gild", "-o", "run"],
        "UNKNOWN_MASK_SET",
        "gold",
    ),
]

# --- score tables ---


def second_patient(bench):
    rows = ["case,patient,metric,label,value", "a,p1,dice,vb,0.9", "a,p2,hd95,vb,3", "b,p3,dice,vb,0.8"]
    bench.write("gold.csv", "\n".join(rows))


def spreadsheet(bench):
    bench.write("gold.xlsx", "no workbook")


LONG = "case,metric,label,value\n"
TABLES = [
    ("a case twice", edits("gold.csv", "c02,", "c01,"), AUDIT, "SCORES_TWICE", "lines 3, 4"),
    ("a case of two patients", second_patient, AUDIT, "CASE_TWO_PATIENTS", "p1, p2"),
    ("no such column", nothing, [*AUDIT, "--column", "dice_vb=dsc"], "UNKNOWN_COLUMN", "dsc"),
    ("a column mapping without =", nothing, [*AUDIT, "--column", "dice_vb"], "OPTION_FORM", "--column"),
    ("an empty table", writes("gold.csv", ""), AUDIT, "SHEET_EMPTY", "gold.csv"),
    ("a header without a row", writes("gold.csv", "case,dice_vb\n"), AUDIT, "SHEET_NO_ROWS", "gold.csv"),
    ("a byte order mark and no more", writes("gold.csv", b"\xef\xbb\xbf"), AUDIT, "SHEET_EMPTY", "gold.csv"),
    ("blanks for delimiters", writes("gold.csv", "case dice_vb\na 0.9\nb 0.8\n"), AUDIT, "SCORES_NO_CASE", "gold.csv"),
    ("a binary file", writes("gold.csv", bytes(range(256)) * 8), AUDIT, "SHEET_", "gold.csv"),
    ("a workbook that is none", spreadsheet, ["audit", "--scores", "gold=gold.xlsx"], "SHEET_FORMAT", "gold.xlsx"),
    ("percentages", writes("gold.csv", "case,dice_vb\na,91\nb,88\n"), AUDIT, "SCORES_BOUNDS", "divide by 100"),
    (
        "a rounding error",
        writes("gold.csv", "case,dice_vb\na,1.0000001\nb,0.8\n"),
        AUDIT,
        "SCORES_BOUNDS",
        "correct them",
    ),
    ("a negative Dice", writes("gold.csv", "case,dice_vb\na,-0.1\nb,0.8\n"), AUDIT, "SCORES_BOUNDS", "line 2"),
    ("an infinite Dice", writes("gold.csv", "case,dice_vb\na,inf\nb,0.8\n"), AUDIT, "SCORES_BOUNDS", "line 2"),
    ("a negative distance", writes("gold.csv", "case,hd95_vb\na,-3\nb,4\n"), AUDIT, "SCORES_BOUNDS", "hd95"),
    (
        "a word as a score",
        writes("gold.csv", "case,dice_vb\na,good\nb,0.8\n"),
        AUDIT,
        "SCORES_VALUE",
        "'good' (line 2)",
    ),
    ("a decimal comma", writes("gold.csv", "case;dice_vb\na;0,91\nb;0,88\n"), AUDIT, "SCORES_VALUE", "decimal point"),
    ("no score", writes("gold.csv", "case,age\na,40\nb,50\n"), AUDIT, "SCORES_NO_COLUMNS", "dice_vb"),
    ("no case", writes("gold.csv", "id,dice_vb\na,0.9\nb,0.8\n"), AUDIT, "SCORES_NO_CASE", "--column case=NAME"),
    ("a blank case", writes("gold.csv", "case,dice_vb\n,0.9\nb,0.8\n"), AUDIT, "SCORES_NO_CASE", "line 2"),
    ("an unknown metric", writes("gold.csv", LONG + "a,dyce,vb,1\n"), AUDIT, "UNKNOWN_METRIC", "did you mean 'dice'"),
    (
        "several rulers in a file",
        writes("gold.csv", "case,ruler,metric,label,value\na,x,dice,vb,1\na,y,dice,disc,1\n"),
        AUDIT,
        "SCORES_RULERS",
        "x, y",
    ),
    (
        "an unknown status",
        writes("gold.csv", "case,metric,label,value,status\na,dice,vb,,lost\n"),
        AUDIT,
        "SCORES_STATUS",
        "lost",
    ),
    (
        "a value of what is missing",
        writes("gold.csv", "case,metric,label,value,status\na,dice,vb,0.5,prediction_missing\n"),
        AUDIT,
        "SCORES_STATUS",
        "line 2",
    ),
    (
        "no value of what is ok",
        writes("gold.csv", "case,metric,label,value,status\na,dice,vb,,ok\n"),
        AUDIT,
        "SCORES_STATUS",
        "has no value",
    ),
    ("ragged rows", writes("gold.csv", "case,dice_vb\na,0.9,1\nb,0.8\nc,0.7\n"), AUDIT, "ROW_RAGGED", "line 2"),
    (
        "two columns of one name",
        writes("gold.csv", "case,dice_vb,dice_vb\na,1,1\n"),
        AUDIT,
        "COLUMN_DOUBLED",
        "dice_vb",
    ),
    ("no file", nothing, ["audit", "--scores", "gold=none.csv"], "FILE_MISSING", "none.csv"),
    ("a folder as a table", nothing, ["audit", "--scores", "gold=pred", "-o", "run"], "", "pred"),
    ("one name for two tables", nothing, [*AUDIT, "--scores", "gold=silver.csv"], "OPTION_TWICE", "gold"),
    ("a table without a name", nothing, ["audit", "--scores", "gold.csv", "-o", "run"], "OPTION_FORM", "NAME=VALUE"),
    ("a threshold that is no number", nothing, [*AUDIT, "--success", "dice=high"], "OPTION_NUMBER", "high"),
    ("a threshold of nan", nothing, [*AUDIT, "--success", "dice=nan"], "OPTION_NUMBER", "nan"),
    ("a threshold of an unknown metric", nothing, [*AUDIT, "--success", "dyce=0.8"], "UNKNOWN_METRIC", "did you mean"),
    ("a margin without a metric", nothing, [*AUDIT, "--margin", "0.03"], "OPTION_FORM", "--margin"),
    ("an unknown trusted ruler", nothing, [*BOTH, "--trusted", "gild"], "UNKNOWN_RULER", "did you mean 'gold'"),
    ("a ruler compared with itself", nothing, [*BOTH, "--other", "gold"], "RULER_TWICE", "gold"),
    ("a second reading without masks", nothing, [*BOTH, "--second", "reader2"], "UNKNOWN_MASK_SET", "reader2"),
    ("one ruler to compare", nothing, ["rulers", "--scores", "gold=gold.csv", "-o", "run"], "RULERS_ONE", "gold"),
    (
        "rulers over different cases",
        writes("silver.csv", "case,dice_vb\nz1,0.9\nz2,0.8\nz3,0.7\n"),
        BOTH,
        "RULERS_NO_CASE",
        "silver",
    ),
]

# --- summary.json ---


def summary(*counts):
    metrics = {"1": dict(zip(("TP", "FP", "FN", "TN"), counts, strict=True))}
    return json.dumps({"metric_per_case": [{"prediction_file": "p/c1.nii.gz", "metrics": metrics}]})


SUMMARY = ["audit", "--scores", "gold=summary.json", "-o", "run"]
SUMMARIES = [
    ("broken JSON", writes("summary.json", '{"metric_per_case": ['), SUMMARY, "SUMMARY_MALFORMED", "summary.json"),
    ("no cases", writes("summary.json", "{}"), SUMMARY, "SUMMARY_MALFORMED", "metric_per_case"),
    ("a list", writes("summary.json", "[]"), SUMMARY, "SUMMARY_MALFORMED", "metric_per_case"),
    ("a negative count", writes("summary.json", summary(-1, 0, 0, 9)), SUMMARY, "SUMMARY_MALFORMED", "[0]"),
    ("half a voxel", writes("summary.json", summary(1.5, 0, 0, 9)), SUMMARY, "SUMMARY_MALFORMED", "whole number"),
    ("a count beyond numbers", writes("summary.json", summary(10**400, 0, 0, 9)), SUMMARY, "SUMMARY_MALFORMED", "[0]"),
    (
        "an infinite count",
        writes("summary.json", summary(1, 0, 0, 9).replace("1,", "1e999,", 1)),
        SUMMARY,
        "SUMMARY_MALFORMED",
        "[0]",
    ),
    ("nested too deep", writes("summary.json", "[" * 200_000), SUMMARY, "SUMMARY_MALFORMED", "summary.json"),
]

# --- groupings and participants ---


def with_sidecar(text):
    def broken(bench):
        bench.write("people.tsv", (bench / "people.csv").read_text().replace(",", "\t"))
        bench.write("people.json", text)

    return broken


TSV = [*AUDIT, "--participants", "people.tsv", "--key", "case", "--patient", "patient", "--by", "sex"]
BYS = [
    ("cuts that are words", nothing, [*AUDIT, *PEOPLE, "--by", "age:young"], "GROUPING_SPEC", "age:young"),
    ("a grouping without levels", nothing, [*AUDIT, *PEOPLE, "--by", "sex="], "GROUPING_SPEC", "sex="),
    ("an empty level", nothing, [*AUDIT, *PEOPLE, "--by", "sex=F,,M"], "GROUPING_SPEC", "sex=F,,M"),
    ("a crossing with nothing", nothing, [*AUDIT, *PEOPLE, "--by", "sex*"], "GROUPING_SPEC", "--by"),
    ("cuts that descend", nothing, [*AUDIT, *PEOPLE, "--by", "age:60,40"], "GROUPING_CUTS", "ascending"),
    ("a level twice", nothing, [*AUDIT, *PEOPLE, "--by", "sex=F,F"], "GROUPING_LEVELS", "twice"),
    ("cuts on words", nothing, [*AUDIT, *PEOPLE, "--by", "site:40"], "GROUPING_NOT_NUMERIC", "site"),
    ("an unknown attribute", nothing, [*AUDIT, *PEOPLE, "--by", "sxe"], "", "sex"),
    ("no attribute", nothing, [*AUDIT, *PEOPLE, "--by", "cas"], "UNKNOWN_ATTRIBUTE", "known: age, sex, site."),
    ("a grouping twice", nothing, [*BY_SEX, "--by", "sex"], "GROUPING_TWICE", "sex"),
    ("a grouping without participants", nothing, [*AUDIT, "--by", "sex"], "UNKNOWN_ATTRIBUTE", "sex"),
    ("no such key", nothing, [*AUDIT, "--participants", "people.csv", "--key", "id"], "UNKNOWN_COLUMN", "id"),
    ("participants of other cases", edits("people.csv", "\nc", "\nx"), BY_SEX, "JOIN_EMPTY", "people.csv"),
    ("a participant twice", edits("people.csv", "c02,p02,F", "c01,p02,F"), BY_SEX, "KEY_DOUBLED", "c01"),
    ("a blank patient", edits("people.csv", "c02,p02", "c02,"), BY_SEX, "PATIENT_BLANK", "people.csv"),
    ("a patient of two sexes", edits("people.csv", "c01,p01", "c01,p00"), BY_SEX, "ATTRIBUTE_VARIES", "p00"),
    ("no participants file", lambda bench: (bench / "people.csv").unlink(), BY_SEX, "FILE_MISSING", "people.csv"),
    ("a sidecar that is no JSON", with_sidecar('{"sex": '), TSV, "JSON_MALFORMED", "people.json"),
    ("a rule without a group", nothing, [*BY_SEX, "--case-to-patient", "c.."], "RULE_MALFORMED", "c.."),
]

# --- TOML ---

SCORED_PLAN = '[scores]\ngold = "gold.csv"\n'
TOMLS = [
    ("broken TOML", writes("audit.toml", "by = [\n"), RUN, "TOML_MALFORMED", "audit.toml"),
    ("TOML that is no UTF-8", writes("audit.toml", b'by = ["\xff"]\n'), RUN, "TOML_MALFORMED", "UTF-8"),
    ("an unknown key", edits("audit.toml", "trusted =", "trustd ="), RUN, "TOML_UNKNOWN_KEY", "did you mean 'trusted'"),
    ("a word for a number", edits("audit.toml", "seed = 7", 'seed = "seven"'), RUN, "TOML_VALUE", "seed"),
    ("too few draws", edits("audit.toml", "resamples = 199", "resamples = 3"), RUN, "TOML_VALUE", "resamples"),
    ("a plan without data", edits("audit.toml", 'cohort = "cohort.toml"\n', ""), RUN, "PLAN_NO_DATA", "audit.toml"),
    (
        "a plan with two kinds of data",
        lambda b: b.write("audit.toml", (b / "audit.toml").read_text() + SCORED_PLAN),
        RUN,
        "PLAN_NO_DATA",
        "both",
    ),
    ("no plan", nothing, ["run", "none.toml"], "FILE_MISSING", "none.toml"),
    ("a plan whose cohort is gone", edits("audit.toml", "cohort.toml", "none.toml"), RUN, "FILE_MISSING", "none.toml"),
    (
        "an unknown trusted ruler",
        edits("audit.toml", 'trusted = "gold"', 'trusted = "gild"'),
        RUN,
        "UNKNOWN_RULER",
        "gold",
    ),
    ("an unknown attribute", edits("audit.toml", 'by = ["sex"]', 'by = ["sx"]'), RUN, "UNKNOWN_ATTRIBUTE", "'sex'"),
    (
        "a crossing of an unknown grouping",
        edits("audit.toml", 'by = ["sex"]', 'groupings = [{ name = "both", cross = ["sex", "age"] }]'),
        RUN,
        "UNKNOWN_GROUPING",
        "sex",
    ),
    (
        "a sweep of an unknown metric",
        edits("audit.toml", "seed = 7", "seed = 7\nsweep = { dyce = [0.5] }"),
        RUN,
        "UNKNOWN_METRIC",
        "did you mean 'dice'",
    ),
    (
        "a regression on an unknown attribute",
        edits("audit.toml", "seed = 7", 'seed = 7\nregression = ["weight"]'),
        RUN,
        "UNKNOWN_ATTRIBUTE",
        "weight",
    ),
    (
        "two mask sets of one name",
        edits("cohort.toml", 'name = "silver"', 'name = "gold"'),
        CHECK,
        "TOML_VALUE",
        "gold",
    ),
    ("a kind that is none", edits("cohort.toml", '"expert"', '"human"'), CHECK, "TOML_VALUE", "kind"),
    (
        "a wrong delimiter",
        edits("cohort.toml", 'key = "case"', 'key = "case"\ndelimiter = ";"'),
        CHECK,
        "SHEET_DELIMITER",
        "comma",
    ),
    ("a label of no mask", edits("cohort.toml", "disc = 2", "disc = 0"), CHECK, "TOML_VALUE", "labels"),
    (
        "nobody left",
        lambda b: b.write(
            "cohort.toml",
            (b / "cohort.toml").read_text() + '[[exclude]]\ncases = ["c00", "c01", "c02", "c03"]\nreason = "x"\n',
        ),
        CHECK,
        "COHORT_EMPTY",
        "excluded",
    ),
    (
        "an exclusion without a reason",
        lambda b: b.write("cohort.toml", (b / "cohort.toml").read_text() + '[[exclude]]\ncase = "c00"\n'),
        CHECK,
        "TOML_VALUE",
        "reason",
    ),
    (
        "exclusions without reasons",
        lambda b: (
            b.write("out.csv", "case,reason\nc00,\n"),
            b.edit("cohort.toml", 'name = "bench"', 'name = "bench"\nexcluded = "out.csv"'),
        ),
        CHECK,
        "EXCLUDED_REASON",
        "out.csv",
    ),
]

ALL = [*MASKS, *TABLES, *SUMMARIES, *BYS, *TOMLS]


@pytest.mark.parametrize(("breaks", "words", "code", "told"), [case[1:] for case in ALL], ids=[case[0] for case in ALL])
def test_bad_input__one_clear_message_and_nothing_written(bench, command, monkeypatch, breaks, words, code, told):
    breaks(bench)
    monkeypatch.chdir(bench.home)
    before = bench.listing()
    done = command(*words)
    assert done.status == 2, (done.out, done.err)
    assert code in done.err
    assert told in done.err
    assert "fix:" in done.err or "where:" in done.err
    assert "Traceback" not in done.err
    assert done.out == ""
    after = {name: data for name, data in bench.listing().items() if name not in LEDGER}
    assert after == before


def test_bad_input__every_fault_of_a_step_at_once(bench, command, monkeypatch):
    truncated(bench)
    bench.write("pred/c02.nii.gz", "no image")
    bench.write("gold/c03.nii.gz", "")
    monkeypatch.chdir(bench.home)
    done = command(*SCORE)
    assert done.status == 2
    assert all(code in done.err for code in ("IMAGE_TRUNCATED", "IMAGE_NOT_NIFTI", "IMAGE_EMPTY_FILE"))


USAGE = [
    ["score"],
    ["score", "cohort.toml", "--pred", "pred"],
    ["audit"],
    ["audit", "run", "--scores", "gold=gold.csv"],
    ["audit", "run", "--participants", "people.csv"],
    [*AUDIT, "--seed", "-1"],
    [*AUDIT, "--resamples", "many"],
    ["rulers"],
    ["verify"],
    ["no-such-command"],
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_usage__a_wrong_command_line_ends_with_2(bench, command, monkeypatch, words):
    monkeypatch.chdir(bench.home)
    before = bench.listing()
    done = command(*words)
    assert done.status == 2
    assert "Traceback" not in done.err
    assert bench.listing() == before


# --- the run directory ---


@pytest.fixture
def audited(bench, audited_once, monkeypatch):
    """Return the bench with an audited run directory in it, as the working directory."""
    shutil.copytree(audited_once, bench / "run")
    monkeypatch.chdir(bench.home)
    return bench


def drop(name):
    return lambda bench: (bench / name).unlink()


RUNS = [
    ("no run", lambda b: shutil.rmtree(b / "run"), ["audit", "run"], "RUN_MISSING"),
    ("no scores", drop("run/scores.csv"), ["audit", "run"], "RUN_TABLE_MISSING"),
    ("scores of other columns", writes("run/scores.csv", "a,b\n1,2\n"), ["audit", "run"], "RUN_TABLE_MALFORMED"),
    ("binary scores", writes("run/scores.csv", bytes(range(256))), ["audit", "run"], "RUN_TABLE_MALFORMED"),
    ("a broken table of cases", writes("run/cases.parquet", "x"), ["audit", "run"], "RUN_TABLE_MALFORMED"),
    ("a broken cohort", writes("run/cohort.json", "{"), ["audit", "run"], "RUN_JSON_MALFORMED"),
    ("a cohort of another form", writes("run/cohort.json", '{"name": 3}'), ["audit", "run"], "TOML_VALUE"),
    ("a broken audit", writes("run/audit.json", '{"plan": '), ["rulers", "run"], "RUN_JSON_MALFORMED"),
    ("an audit of another form", writes("run/audit.json", "[]"), ["rulers", "run"], "TOML_VALUE"),
    ("not audited yet", drop("run/audit.json"), ["rulers", "run"], "RUN_TABLE_MISSING"),
    ("broken steps", writes("run/steps.json", "[1, 2]"), ["verify", "run"], "RUN_JSON_MALFORMED"),
    ("steps that are no list", writes("run/steps.json", '{"verb": "audit"}'), ["verify", "run"], "RUN_JSON_MALFORMED"),
]


@pytest.mark.parametrize(("breaks", "words", "code"), [case[1:] for case in RUNS], ids=[case[0] for case in RUNS])
def test_run_directory__damage_is_named(audited, command, breaks, words, code):
    breaks(audited)
    before = audited.listing()
    done = command(*words)
    assert done.status == 2, (done.out, done.err)
    assert code in done.err
    assert "Traceback" not in done.err
    assert audited.listing() == before


# --- where the output goes ---


@pytest.mark.parametrize("out", ["taken", "taken/run"])
def test_output__a_file_in_the_way_is_said_before_the_work(bench, command, monkeypatch, out):
    bench.write("taken", "mine")
    monkeypatch.chdir(bench.home)
    for words in (without(SCORE, "-o"), without(AUDIT, "-o")):
        done = command(*words, "-o", out)
        assert done.status == 2
        assert "RUN_UNWRITABLE" in done.err
    assert (bench / "taken").read_text() == "mine"


@contextlib.contextmanager
def ordinary_user():
    """Drop the rights of root for the block, where the tests run with them."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder():
    """Return a folder that an ordinary user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="segaudit-test-"))
    folder.chmod(0o755)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions__a_folder_that_may_not_be_read(bench, open_folder, command):
    for name in ("pred", "gold"):
        shutil.copytree(bench / name, open_folder / name)
    command(*SCORE)  # everything is imported before the rights go
    (open_folder / "pred").chmod(0o000)
    words = ["score", "--pred", open_folder / "pred", "--ref", f"gold={open_folder / 'gold'}", "--labels", "vb=1"]
    with ordinary_user():
        done = command(*words, "-o", open_folder / "run")
    assert done.status == 2
    assert "FOLDER_UNREADABLE" in done.err
    assert str(open_folder / "pred") in done.err
    assert not (open_folder / "run").exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions__files_that_may_not_be_read_and_a_folder_that_may_not_be_written(bench, open_folder, command):
    shutil.copy(bench / "gold.csv", open_folder)
    words = ["audit", "--scores", f"gold={open_folder / 'gold.csv'}", "--resamples", 199, "-o", open_folder / "run"]
    with ordinary_user():
        done = command(*words)
    assert done.status == 2
    assert "RUN_UNWRITABLE" in done.err
    (open_folder / "gold.csv").chmod(0o000)
    with ordinary_user():
        done = command(*words)
    assert done.status == 2
    assert "FILE_UNREADABLE" in done.err
    assert sorted(path.name for path in open_folder.iterdir()) == ["gold.csv"]


FULL = """
import resource, signal, sys
from segaudit.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["segaudit", *sys.argv[2:]]
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX limits")
@pytest.mark.parametrize("limit", [500, 25_000], ids=["nothing can be written", "the scores and no more"])
def test_disk__a_file_that_cannot_grow_leaves_no_part_of_a_step(bench, command, monkeypatch, limit):
    words = [sys.executable, "-c", FULL, str(limit), *BOTH]
    done = subprocess.run(words, cwd=bench.home, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "RUN_UNWRITABLE" in done.stderr
    assert "Traceback" not in done.stderr
    monkeypatch.chdir(bench.home)
    left = sorted(path.name for path in (bench / "run").iterdir()) if (bench / "run").exists() else []
    assert not any(".part" in name for name in left)
    assert "audit.json" not in left
    if left:  # the step that was done stands whole
        assert command("verify", "run").status == 0
        assert [step["verb"] for step in json.loads((bench / "run/steps.json").read_text())] == ["score"]
    assert bool(left) == (limit > 500)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tmpfs")
def test_disk__full_in_the_middle_of_an_audit_keeps_the_run_as_it_was(bench, tmp_path, command):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        words = ["--scores", f"gold={bench / 'gold.csv'}", "--resamples", 199, "-o", small / "run"]
        assert command("audit", *words).status == 0
        before = {path.name: path.read_bytes() for path in (small / "run").iterdir()}
        free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
        (small / "ballast").write_bytes(bytes(max(0, free - 8192)))
        people = ["--participants", bench / "people.csv", "--key", "case", "--patient", "patient", "--by", "sex"]
        done = command("audit", *words, *people)
        assert done.status == 2
        assert "DISK_FULL" in done.err
        assert "Traceback" not in done.err
        assert {path.name: path.read_bytes() for path in (small / "run").iterdir()} == before
    finally:
        subprocess.run(["umount", small], check=True)


# --- odd, and right ---


def test_paths__blanks_and_other_scripts_work(bench, command, monkeypatch):
    home = bench.home / "Ärzte und Ärztinnen" / "дані 脊椎"
    for name in ("pred", "gold"):
        shutil.copytree(bench / name, home / name)
    (home / "pred" / "c00.nii.gz").rename(home / "pred" / "fall ß.nii.gz")
    (home / "gold" / "c00.nii.gz").rename(home / "gold" / "fall ß.nii.gz")
    monkeypatch.chdir(home)
    assert command(*without(SCORE, "-o"), "-o", "mein Lauf").status == 0
    assert command("audit", "mein Lauf").status == 0
    assert command("verify", "mein Lauf").status == 0
    assert "fall ß" in set(pd.read_csv(home / "mein Lauf" / "scores.csv")["case"])


def test_labels__0_9999_is_1(bench, command, monkeypatch):
    import nibabel

    for name in ("pred", "gold"):
        for path in (bench / name).iterdir():
            image = nibabel.load(path)
            labels = (np.asarray(image.dataobj) * 0.9999).astype(np.float32)
            path.write_bytes(gzip.compress(nibabel.Nifti1Image(labels, image.affine).to_bytes(), mtime=0))
    monkeypatch.chdir(bench.home)
    done = command(*SCORE)
    assert done.status == 0, done.err
    rounded = pd.read_csv(bench / "run" / "scores.csv")
    assert (
        rounded.loc[rounded["metric"] == "voxels_reference", "value"]
        == 36 * np.where(rounded["label"] == "vb", 1, 1)[0]
    ).all()


def test_labels__values_outside_the_coding_are_told_and_count_as_background(bench, command, monkeypatch):
    import nibabel

    path = bench / MASK
    image = nibabel.load(path)
    labels = np.asarray(image.dataobj).astype(np.int16)
    clean = labels.copy()
    labels[0, 0, :3] = (257, -1, 256)  # cast to a byte these would be 1, 255 and 0
    path.write_bytes(gzip.compress(nibabel.Nifti1Image(labels, image.affine).to_bytes(), mtime=0))
    monkeypatch.chdir(bench.home)
    done = command(*SCORE)
    assert done.status == 0, done.err
    scores = pd.read_csv(bench / "run" / "scores.csv").set_index(["case", "label", "metric"])["value"]
    assert scores["c01", "vb", "voxels_prediction"] == (clean == 1).sum()
    findings = pd.read_csv(bench / "run" / "findings.csv").set_index("code")
    assert all(value in findings.loc["LABEL_OUTSIDE", "message"] for value in ("-1", "256", "257"))


def test_tables__byte_order_mark_crlf_and_semicolons_read_alike(bench, command, monkeypatch):
    monkeypatch.chdir(bench.home)
    assert command(*AUDIT).status == 0
    plain = (bench / "run" / "scores.csv").read_bytes()
    text = (bench / "gold.csv").read_text().replace(",", ";").replace("\n", "\r\n")
    bench.write("gold.csv", b"\xef\xbb\xbf" + text.encode())
    assert command(*AUDIT).status == 0
    assert (bench / "run" / "scores.csv").read_bytes() == plain


def test_tables__blank_and_infinite_scores_have_their_status(bench, command, monkeypatch):
    bench.write("gold.csv", "case,dice_vb,hd95_vb\na,0.9,2\nb,,inf\nc,n/a,4\nd,0.7,\n")
    monkeypatch.chdir(bench.home)
    assert command(*AUDIT).status == 0
    scores = pd.read_csv(bench / "run" / "scores.csv", keep_default_na=False).set_index(["case", "metric"])
    assert scores.loc[("b", "dice"), "status"] == "not_scored"
    assert scores.loc[("b", "hd95"), ["value", "status"]].tolist() == ["", "prediction_empty"]
    groups = pd.read_csv(bench / "run" / "groups.csv").set_index("metric")
    assert groups.loc["hd95", ["n_cases", "n_infinite", "n_success"]].tolist() == [3, 1, 2]
    assert groups.loc["hd95", "median"] == 4  # infinity ranks last
    assert groups.loc["hd95", "mean"] == 3  # and has no place in a mean


def test_stdout__json_is_all_that_is_printed(bench, command, monkeypatch):
    monkeypatch.chdir(bench.home)
    done = command(*BOTH, "--json")
    assert json.loads(done.out)["format"] == "segaudit-audit"
    assert done.err == ""
