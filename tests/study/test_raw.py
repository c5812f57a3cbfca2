"""The raw data set: every file checked at once, a fresh folder, and whatever changes afterwards named."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from segaudit.errors import AuditError
from segaudit.splits import TrainVal
from segaudit.study import raw
from segaudit.study.raw import RawCase, check_raw, check_volumes, write_raw
from segaudit.volumes import read_labels, write_labels

LABELS = {"vb": (1,), "disc": (2,)}
SHAPE = (6, 5, 4)
DATASET = "Dataset501_mixed"


def outline(*values):
    labels = np.zeros(SHAPE, np.uint8)
    labels[1 : 1 + len(values), 2, 1] = values
    return labels


def make_case(folder, name, labels=None, coding=None, *, affine=None, end=".nii.gz"):
    affine = np.diag([0.9, 0.9, 4.0, 1.0]) if affine is None else affine
    for kind in ("images", "labels"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    image = folder / "images" / f"{name}.nii.gz"
    if not image.exists():
        write_labels(image, np.arange(120, dtype=np.int16).reshape(SHAPE), affine=np.diag([0.9, 0.9, 4.0, 1.0]))
    label = folder / "labels" / f"{name}_of_somebody{end}"
    write_labels(label, outline(1, 2, 1) if labels is None else labels, affine=affine)
    return RawCase(name, image, label, LABELS if coding is None else coding)


@pytest.fixture
def cases(tmp_path):
    return [make_case(tmp_path, name) for name in ("c1", "c2", "c3")]


def pairs():
    return [TrainVal(("c1", "c2"), ("c3",)), TrainVal(("c3",), ("c1", "c2"))]


def codes(findings):
    return sorted(finding.code for finding in findings)


def test_check_volumes__sound_files_give_no_finding(cases):
    assert check_volumes(cases, LABELS) == []


def test_check_volumes__every_fault_of_every_case_is_named_at_once(tmp_path, cases):
    bad = [make_case(tmp_path, f"b{i}") for i in range(8)]
    bad[0].image.write_bytes(bad[0].image.read_bytes()[:-20])
    bad[1].label.write_bytes(b"no image")
    bad[2].label.unlink()
    write_labels(bad[3].label, outline(1, 7), affine=np.diag([0.9, 0.9, 4.0, 1.0]))
    write_labels(bad[4].label, outline(1, 2), affine=np.diag([0.9, 0.9, 3.0, 1.0]))
    write_labels(bad[5].label, outline(), affine=np.diag([0.9, 0.9, 4.0, 1.0]))
    raw = bytearray(gzip.decompress(bad[6].image.read_bytes()))
    raw[40:56] = np.array([4, 6, 5, 2, 2, 1, 1, 1], "<i2").tobytes()  # the same voxels as two channels
    bad[6].image.write_bytes(gzip.compress(bytes(raw)))
    bad[7] = RawCase("b7", bad[7].image, bad[7].label, {"vb": (1, 2)})
    found = check_volumes([*cases, *bad], LABELS)
    assert codes(found) == sorted(
        [
            "IMAGE_TRUNCATED",
            "IMAGE_NOT_NIFTI",
            "IMAGE_MISSING",
            "STUDY_LABEL_VALUE",
            "GRID_MISMATCH",
            "STUDY_LABEL_EMPTY",
            "STUDY_IMAGE_CHANNELS",
            "STUDY_LABEL_UNCODED",
        ]
    )
    for i in range(8):
        assert any(f"'b{i}'" in finding.message for finding in found), f"b{i} is named"
    assert not any("'c" in finding.message for finding in found)
    assert [finding.code for finding in found if finding.level == "warning"] == ["STUDY_LABEL_EMPTY"]


def test_check_volumes__axes_that_nnunets_reader_refuses_are_named(tmp_path):
    found = {}
    for cosine in (5e-5, 5e-4):
        affine = np.diag([0.9, 0.9, 4.0, 1.0])
        affine[0, 2] = 4.0 * cosine
        path = tmp_path / f"{cosine}.nii.gz"
        write_labels(path, outline(1), affine=affine)
        found[cosine] = codes(check_volumes([RawCase("c1", path, None, {})], LABELS))
    assert found == {5e-5: [], 5e-4: ["STUDY_IMAGE_SHEARED"]}


def test_check_volumes__many_cases_are_read_by_processes(tmp_path, monkeypatch, cases):
    monkeypatch.setattr(raw, "_ALONE", 2)
    cases[1].image.write_bytes(b"")
    assert [(f.code, "'c2'" in f.message) for f in check_volumes(cases, LABELS)] == [("IMAGE_EMPTY_FILE", True)]


def test_check_volumes__a_case_that_is_only_predicted_needs_no_label(cases):
    assert check_volumes([RawCase("c1", cases[0].image, None, {})], LABELS) == []


def test_write_raw__sound_labels_are_named_not_copied(tmp_path, cases):
    write_raw(tmp_path / "home", DATASET, cases, LABELS, pairs(), "T2")
    folder = tmp_path / "home" / "raw" / DATASET
    told = json.loads((folder / "dataset.json").read_text())
    assert sorted(path.name for path in folder.iterdir()) == ["dataset.json", "manifest.json", "splits_final.json"]
    assert told["labels"] == {"background": 0, "vb": 1, "disc": 2}
    assert told["dataset"]["c2"] == {"images": [str(cases[1].image)], "label": str(cases[1].label)}
    assert (told["channel_names"], told["numTraining"], told["file_ending"]) == ({"0": "T2"}, 3, ".nii.gz")
    assert json.loads((folder / "splits_final.json").read_text())[1] == {"train": ["c3"], "val": ["c1", "c2"]}
    assert check_raw(tmp_path / "home", DATASET) == []


FLIPPED = np.array([[-0.9, 0, 0, 4.5], [0, 0.9, 0, 0], [0, 0, 4.0, 0], [0, 0, 0, 1.0]])


@pytest.mark.parametrize(
    ("labels", "coding", "affine", "end", "expected", "why"),
    [
        (outline(2, 1), {"vb": (2,), "disc": (1,)}, None, ".nii.gz", outline(1, 2), "numbered the other way round"),
        (outline(5, 6, 9), {"vb": (5, 6), "disc": (9,)}, None, ".nii.gz", outline(1, 1, 2), "several values a label"),
        (outline(1, 2)[::-1], LABELS, FLIPPED, ".nii.gz", outline(1, 2), "another order of voxels on the same grid"),
        (outline(1, 2), LABELS, None, ".nii", outline(1, 2), "an ending that dataset.json does not name"),
    ],
)
def test_write_raw__what_would_be_misread_is_written_again(tmp_path, labels, coding, affine, end, expected, why):
    case = make_case(tmp_path, "c1", labels, coding, affine=affine, end=end)
    write_raw(tmp_path / "home", DATASET, [case], LABELS, [], "T2")
    folder = tmp_path / "home" / "raw" / DATASET
    told = json.loads((folder / "dataset.json").read_text())["dataset"]["c1"]["label"]
    written = read_labels(folder / told)
    assert told == "labelsTr/c1.nii.gz", why
    assert np.array_equal(written.labels, expected), why
    assert written.grid.spacing_mm == pytest.approx((0.9, 0.9, 4.0), rel=1e-6)
    assert check_raw(tmp_path / "home", DATASET) == []


def test_write_raw__the_digest_follows_files_and_nothing_else(tmp_path, cases):
    def written(home):
        return write_raw(tmp_path / home, DATASET, cases, LABELS, pairs(), "T2")

    first = written("one")
    assert written("one") == written("two") == first
    write_labels(cases[0].label, outline(1, 2, 2), affine=np.diag([0.9, 0.9, 4.0, 1.0]))
    assert written("one") != first


def test_write_raw__no_earlier_case_survives(tmp_path, cases):
    home = tmp_path / "home"
    write_raw(home, DATASET, cases, LABELS, pairs(), "T2")
    (home / "raw" / DATASET / "imagesTr").mkdir()
    (home / "raw" / DATASET / "imagesTr" / "c9_0000.nii.gz").write_bytes(b"stale")
    write_raw(home, DATASET, cases[:2], LABELS, [TrainVal(("c1",), ("c2",))], "T2")
    assert "c3" not in (home / "raw" / DATASET / "dataset.json").read_text()
    assert not (home / "raw" / DATASET / "imagesTr").exists()
    assert check_raw(home, DATASET) == []
    assert [path.name for path in (home / "raw").iterdir()] == [DATASET], "nothing temporary is left"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ([TrainVal(("c1", "c2"), ("c2", "c3"))], "FOLD_OVERLAP"),
        ([TrainVal(("c1", "c2"), ("c3", "c4"))], "FOLD_CASE_UNKNOWN"),
        ([TrainVal(("c1", "c2", "c3"), ())], "FOLD_EMPTY"),
    ],
)
def test_write_raw__refuses_folds_that_nnunet_would_pass_over(tmp_path, cases, wrong, code):
    with pytest.raises(AuditError) as told:
        write_raw(tmp_path / "home", DATASET, cases, LABELS, wrong, "T2")
    assert code in codes(told.value.findings)
    assert not (tmp_path / "home" / "raw" / DATASET).exists()


def test_write_raw__leaves_the_old_folder_when_a_file_fails(tmp_path, cases):
    home = tmp_path / "home"
    digest = write_raw(home, DATASET, cases, LABELS, pairs(), "T2")
    kept = cases[2].label.read_bytes()
    cases[2].label.write_bytes(b"")
    with pytest.raises(AuditError):
        write_raw(home, DATASET, cases, LABELS, pairs(), "T2")
    cases[2].label.write_bytes(kept)
    assert check_raw(home, DATASET) == []
    assert write_raw(home, DATASET, cases, LABELS, pairs(), "T2") == digest


def stale(folder, cases):
    (folder / "imagesTr").mkdir()
    (folder / "imagesTr" / "old_0000.nii.gz").write_bytes(b"")


def changed_label(folder, cases):
    write_labels(cases[1].label, outline(1, 1), affine=np.diag([0.9, 0.9, 4.0, 1.0]))


def gone_image(folder, cases):
    cases[2].image.unlink()


def added_case(folder, cases):
    told = json.loads((folder / "dataset.json").read_text())
    told["dataset"]["c4"] = told["dataset"]["c1"]
    (folder / "dataset.json").write_text(json.dumps(told))


def no_manifest(folder, cases):
    (folder / "manifest.json").write_text("{")


@pytest.mark.parametrize(
    ("spoil", "code", "named"),
    [
        (stale, "STUDY_RAW_STALE", "imagesTr/old_0000.nii.gz"),
        (changed_label, "STUDY_FILE_CHANGED", "label of case 'c2'"),
        (gone_image, "STUDY_FILE_GONE", "image of case 'c3'"),
        (added_case, "STUDY_RAW_COUNT", "c4"),
        (no_manifest, "STUDY_RAW_MISSING", DATASET),
    ],
)
def test_check_raw__names_what_has_changed(tmp_path, cases, spoil, code, named):
    home = tmp_path / "home"
    write_raw(home, DATASET, cases, LABELS, pairs(), "T2")
    spoil(home / "raw" / DATASET, cases)
    found = check_raw(home, DATASET)
    assert codes(found) == [code]
    assert named in found[0].message


def test_write_raw__a_changed_copy_is_told_from_its_source(tmp_path):
    case = make_case(tmp_path, "c1", outline(2, 1), {"vb": (2,), "disc": (1,)})
    home = tmp_path / "home"
    write_raw(home, DATASET, [case], LABELS, [], "T2")
    written = home / "raw" / DATASET / "labelsTr" / "c1.nii.gz"
    write_labels(written, outline(1, 1), affine=np.diag([0.9, 0.9, 4.0, 1.0]))
    assert [f.message for f in check_raw(home, DATASET)] == [
        "the re-coded label of case 'c1' is not what was prepared."
    ]
    assert Path(check_raw(home, DATASET)[0].where) == written


def test_write_raw__result_does_not_depend_on_where_the_files_lie(tmp_path):
    results = []
    for place in ("here", "there"):
        own = [make_case(tmp_path / place, name) for name in ("c1", "c2", "c3")]
        results.append(write_raw(tmp_path / place, DATASET, own, LABELS, pairs(), "T2"))
    assert results[0] == results[1]
    make_case(tmp_path / "there", "c3", outline(2, 2))
    assert write_raw(tmp_path / "there", DATASET, own, LABELS, pairs(), "T2") != results[0]
