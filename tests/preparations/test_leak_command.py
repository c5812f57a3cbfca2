"""`segaudit leak`: patients and images on two sides, planted and in other people's folds; exit codes for pipelines."""

import gzip
import json

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

PARTS = [("c0", "p0", "train"), ("c1", "p0", "train"), ("c2", "p1", "val"), ("c3", "p2", "test"), ("c4", "p3", "test")]
HEAD = ("case", "patient", "split")


def folds_file(path, *pairs):
    path.write_text(json.dumps([{"train": list(train), "val": list(val)} for train, val in pairs]))
    return path


@pytest.fixture
def leak(command):
    def run(*words):
        plain, told = command("leak", *words), command("leak", *words, "--json")
        assert plain.status == told.status
        return plain, json.loads(told.out) if told.out else {}

    return run


def on_both(told):
    return {(row["left"], row["right"]): row["n_shared"] for row in told["leaks"] if row["n_shared"]}


def test_leak__parts_of_a_split_table(leak, table_file):
    done, told = leak(table_file(HEAD, *PARTS, name="splits.csv"))
    assert done.status == 0
    assert "no leak found: 0 of 3 comparisons share patients" in done.out
    assert [(row["n_left"], row["n_right"]) for row in told["leaks"]] == [(1, 1), (1, 2), (1, 2)]
    done, told = leak(table_file(HEAD, *PARTS, ("c5", "p0", "test"), name="splits.csv"))
    assert done.status == 1
    assert on_both(told) == {("train", "test"): 1}
    assert "leak found: 1 of 3" in done.out
    assert "p0" in done.out


@pytest.mark.parametrize(
    ("pairs", "options", "status", "code", "why"),
    [
        ([("a1 a2", "b1 b2"), ("b1 b2", "a1 a2")], ("--case-to-patient", "^([a-z])"), 0, None, "whole patients"),
        ([("a1 b1", "a2 b2"), ("a2 b2", "a1 b1")], ("--case-to-patient", "^([a-z])"), 1, None, "torn patients"),
        ([("a1 b1", "a2 b2"), ("a2 b2", "a1 b1")], (), 0, "FOLD_PATIENTS_UNCHECKED", "nobody says who is who"),
        ([("a1 a2", "a2 b1")], (), 1, "FOLD_OVERLAP", "the same case needs no patient"),
        ([("a1", "b1"), ("", "")], (), 2, "FOLD_EMPTY", "an empty fold is no leak, but bad input"),
        ([("a1", "b1"), ("b1", "a1"), ("c1", "a1")], (), 2, "FOLD_VAL_TWICE", "nor is a case validated twice"),
    ],
)
def test_leak__folds(leak, tmp_path, pairs, options, status, code, why):
    file = folds_file(tmp_path / "splits_final.json", *((a.split(), b.split()) for a, b in pairs))
    done, told = leak(file, *options)
    assert done.status == status, why
    assert code is None or code in {finding["code"] for finding in told["findings"]}
    assert code is None or code in done.out, "what stands in --json stands on the screen too"
    assert ("share cases; whose they are is not known" in done.out) == (not options)


def test_leak__a_folds_file_asks_the_table_for_its_patients(leak, table_file, tmp_path):
    file = folds_file(tmp_path / "splits_final.json", (("c0",), ("c1",)))
    assert leak(file)[0].status == 0
    people = table_file(HEAD[:2], *(row[:2] for row in PARTS))
    done, told = leak(file, "--participants", people, "--key", "case", "--patient", "patient")
    assert (done.status, on_both(told)) == (1, {("fold 0 train", "fold 0 val"): 1})
    done, told = leak(file, table_file(HEAD, *PARTS, name="splits.csv"))
    assert (done.status, on_both(told)) == (1, {("fold 0 train", "fold 0 val"): 1})


def test_leak__a_case_without_a_patient_cannot_be_checked(leak, table_file, tmp_path):
    file = folds_file(tmp_path / "splits_final.json", (("c0",), ("c9",)))
    people = table_file(HEAD[:2], *(row[:2] for row in PARTS))
    done, told = leak(file, "--participants", people, "--key", "case", "--patient", "patient")
    assert done.status == 2
    assert {"FOLD_PATIENT_UNKNOWN", "FOLD_CASE_UNKNOWN"} <= {finding["code"] for finding in told["findings"]}


def test_leak__folds_and_other_tables_are_held_against_the_held_out_part(leak, table_file, tmp_path):
    split = table_file(HEAD, *PARTS, name="splits.csv")
    file = folds_file(tmp_path / "splits_final.json", (("c0", "c1", "c3"), ("c2",)))
    done, told = leak(split, file)
    assert (done.status, on_both(told)) == (1, {("fold 0 train", "test"): 1})
    other = table_file(HEAD, ("c3", "p2", "train"), ("c0", "p0", "test"), name="ruler.csv")
    done, told = leak(split, other)
    assert on_both(told) == {(f"{other}: train", f"{split}: test"): 1, (f"{split}: train", f"{other}: test"): 1}
    done, told = leak(split, file, "--held-out", "nowhere")
    assert (done.status, on_both(told)) == (0, {})


@pytest.mark.parametrize(
    ("model", "silver", "expected"),
    [
        ('trained_on = ["p8"]', 'trained_on = ["p9"]', {}),
        ('trained_on = ["p1", "p8"]', 'trained_on = ["p9"]', {("model m trained on", "audited patients"): 1}),
        (
            'trained_on = ["p8"]',
            'trained_on = ["p1", "p2", "p8"]',
            {("ruler silver trained on", "audited patients"): 2, ("model m trained on", "ruler silver trained on"): 1},
        ),
        ('kind = "machine"', 'trained_on = ["p9"]', {}),
    ],
)
def test_leak__training_patients_of_mask_sets(leak, table_file, tmp_path, model, silver, expected):
    table_file(("case", "patient"), *((f"c{i}", f"p{i}") for i in range(3)))
    sets = ""
    for name, line in (("m", model), ("silver", silver), ("expert", 'kind = "expert"')):
        (tmp_path / name).mkdir()
        for i in range(3):
            (tmp_path / name / f"c{i}.nii.gz").write_bytes(b"")
        sets += f'[[mask_sets]]\nname = "{name}"\nfolder = "{name}"\n{line}\n'
    toml = tmp_path / "cohort.toml"
    people = '[participants]\nfile = "participants.csv"\nkey = "case"\npatient = "patient"\n'
    toml.write_text(f'models = ["m"]\nrulers = ["expert", "silver"]\n{people}[labels]\nvb = 1\n{sets}')
    done, told = leak(toml)
    assert on_both(told) == expected
    assert done.status == (1 if expected else 0)
    unknown = [finding["code"] for finding in told["findings"] if finding["code"] == "TRAINING_UNKNOWN"]
    assert len(unknown) == ("trained_on" not in model)


def write_image(path, values, **header):
    image = nib.Nifti1Image(values, header.get("affine", np.eye(4)))
    image.to_filename(path)


def test_leak__images_are_compared_by_what_they_show(leak, table_file, tmp_path):
    """The same voxels packed, typed and placed otherwise are the same image; one voxel apart is another."""
    rng = np.random.default_rng(1)
    voxels = rng.integers(-200, 900, (5, 6, 7)).astype(np.int16)
    folder = tmp_path / "images"
    folder.mkdir()
    near = voxels.copy()
    near[0, 0, 0] += 1
    write_image(folder / "c0_0000.nii.gz", voxels)
    write_image(folder / "c1_0000.nii.gz", near)
    write_image(folder / "c2_0000.nii", voxels.astype(np.float32), affine=np.diag([2.0, 2, 2, 1]))
    plain = tmp_path / "plain.nii"
    write_image(plain, voxels)
    (folder / "c3_0000.nii.gz").write_bytes(gzip.compress(plain.read_bytes(), 1))
    write_image(folder / "extra.nii.gz", voxels + 7)
    done, told = leak(table_file(HEAD, *PARTS, name="splits.csv"), "--images", folder)
    assert done.status == 1
    assert [(row["cases"], row["splits"]) for row in told["duplicates"]] == [
        ("c0_0000, c2_0000, c3_0000", "test, train, val")
    ]
    assert {finding["code"] for finding in told["findings"]} == {"IMAGES_ABSENT", "IMAGES_SURPLUS"}
    assert "1 image in two parts" in done.out
    (folder / "c2_0000.nii").unlink()
    (folder / "c3_0000.nii.gz").unlink()
    assert leak(table_file(HEAD, *PARTS, name="splits.csv"), "--images", folder)[0].status == 0


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_leak__png_images_across_folds(leak, tmp_path, mode):
    folder = tmp_path / "images"
    folder.mkdir()
    picture = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).convert(mode)
    for name in ("a", "b"):
        picture.save(folder / f"{name}.png")
    picture.rotate(90).save(folder / "c.png")
    file = folds_file(tmp_path / "splits_final.json", (("a", "c"), ("b",)))
    done, told = leak(file, "--images", folder)
    assert done.status == 1
    assert [row["cases"] for row in told["duplicates"]] == ["a, b"]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "IMAGE_EMPTY_FILE"), (b"none of it", "IMAGE_NOT_NIFTI"), (None, "IMAGE_TRUNCATED")],
)
def test_leak__images_that_cannot_be_read_are_told_all_at_once(command, table_file, tmp_path, content, code):
    folder = tmp_path / "images"
    folder.mkdir()
    for case in ("c0", "c2"):
        write_image(folder / f"{case}.nii", np.zeros((4, 4, 4), np.int16))
        whole = (folder / f"{case}.nii").read_bytes()
        (folder / f"{case}.nii").write_bytes(whole[:-5] if content is None else content)
    done = command("leak", table_file(HEAD, *PARTS, name="splits.csv"), "--images", folder)
    assert (done.status, done.err.count(f"{code}:")) == (2, 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [("[{", "FOLDS_MALFORMED"), ('{"train": []}', "FOLDS_SHAPE"), ('[{"train": ["a"]}]', "FOLDS_SHAPE")],
)
def test_leak__malformed_folds_are_bad_input(command, tmp_path, text, code):
    (tmp_path / "splits_final.json").write_text(text)
    done = command("leak", tmp_path / "splits_final.json")
    assert (done.status, done.err.split(":")[0]) == (2, code)


def test_leak__every_fault_of_every_file_at_once(command, table_file, tmp_path):
    (tmp_path / "a.json").write_text("[")
    done = command("leak", tmp_path / "a.json", tmp_path / "none.csv", table_file(("id", "part"), (1, 2), name="b.csv"))
    assert done.status == 2
    for code in ("FOLDS_MALFORMED", "FILE_MISSING", "COLUMN_MISSING"):
        assert f"{code}:" in done.err


@pytest.mark.parametrize(
    ("rows", "options", "code"),
    [
        ((HEAD, ("c0", "p0", "a"), ("c0", "p1", "b")), (), "CASE_TWO_PATIENTS"),
        ((HEAD, ("c0", "", "a"), ("c1", "p1", "b")), (), "PATIENT_NULL"),
        ((HEAD, *PARTS), ("--case-to-patient", "^(x)"), "RULE_UNMATCHED"),
        ((HEAD, *PARTS), ("--case-to-patient", "^("), "RULE_MALFORMED"),
        ((HEAD, *PARTS), ("--column", "part=split"), "OPTION_FORM"),
        ((HEAD, *PARTS), ("--images", "nowhere"), "FOLDER_MISSING"),
    ],
)
def test_leak__bad_tables_and_rules(command, table_file, rows, options, code):
    done = command("leak", table_file(*rows, name="splits.csv"), *options)
    assert (done.status, done.err.split(":")[0]) == (2, code)


def test_leak__images_need_one_file_of_parts(command, table_file, tmp_path):
    one, two = (table_file(HEAD, *PARTS, name=f"{name}.csv") for name in "ab")
    done = command("leak", one, two, "--images", tmp_path)
    assert (done.status, done.err.split(":")[0]) == (2, "IMAGES_WITHOUT_PARTS")


@pytest.mark.parametrize(
    ("project", "rule", "n_compared", "n_leaking"),
    [
        ("Bonnet", r"^(s\d+)$", 5, 0),
        ("UoN-Project", r"^(data_\d+)$", 5, 0),
        ("TesisSegMamba", r"^(\d+)$", 5, 0),
        ("metaseg", r"^(BraTS-MET-\d+)-", 5, 0),
        ("Bachelor-Thesis", r"^(dub_\d+)_part", 5, 5),
        ("ML-Quiz-3DMedImg", r"^(quiz_\d_\d+)$", 1, 0),
        ("TotalSegmentator-to-nnUNet-format-convert", r"_(\d+)$", 5, 0),  # four of its folds are empty
        ("Wrist_Joint_segmentation_nnU-Net", r"^(\d+)-", 1, 1),
    ],
)
def test_leak__real_folds(leak, shared, project, rule, n_compared, n_leaking):
    path = shared / "data" / "nnunet_json" / project / "splits_final.json"
    done, told = leak(path, "--case-to-patient", rule)
    empty = any(finding["code"] == "FOLD_EMPTY" for finding in told["findings"])
    assert empty == project.startswith("TotalSegmentator")
    assert done.status == (1 if n_leaking else 2 if empty else 0)
    assert len(told["leaks"]) == n_compared
    assert sum(row["n_shared"] > 0 for row in told["leaks"]) == n_leaking
    # counted again, by other means
    import re

    for row, pair in zip(told["leaks"], json.loads(path.read_text()), strict=True):
        sides = [{re.search(rule, case).group(1) for case in pair[side]} for side in ("train", "val")]
        assert row["n_shared"] == len(sides[0] & sides[1])
