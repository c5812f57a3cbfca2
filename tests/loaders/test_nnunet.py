"""nnU-Net raw data set folders: labels, channels, parts, and whatever does not fit together."""

import json
from collections import Counter
from pathlib import Path

import pytest

from segaudit.errors import AuditError
from segaudit.loaders import load_nnunet

LABELS = {"background": 0, "vb": 1, "disc": 2}


def raw(folder, files, **about):
    """Write an nnU-Net folder of empty files: the loader reads no voxels."""
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    described = {"channel_names": {"0": "T2"}, "labels": LABELS, "numTraining": 2, "file_ending": ".nii.gz", **about}
    (folder / "dataset.json").write_text(json.dumps(described))
    return folder


def codes(findings):
    return Counter(f.code for f in findings if f.code != "PATIENT_IS_CASE")


PLAIN = [
    "imagesTr/p1_a_0000.nii.gz",
    "imagesTr/p1_b_0000.nii.gz",
    "labelsTr/p1_a.nii.gz",
    "labelsTr/p1_b.nii.gz",
    "imagesTs/p2_a_0000.nii.gz",
    "labelsTs/p2_a.nii.gz",
]


def test_folder__parts_labels_and_patients(tmp_path):
    cohort = load_nnunet(raw(tmp_path, PLAIN), kind="expert", made_by="reader", case_to_patient=r"^(p\d)_")
    assert cohort.cases.to_dict("list") == {
        "case": ["p1_a", "p1_b", "p2_a"],
        "patient": ["p1", "p1", "p2"],
        "part": ["training", "training", "test"],
    }
    assert cohort.labels == {"vb": (1,), "disc": (2,)}
    reference = cohort.mask_sets["reference"]
    assert (reference.kind, reference.made_by) == ("expert", "reader")
    assert [Path(path).name for path in reference.masks["path"]] == ["p1_a.nii.gz", "p1_b.nii.gz", "p2_a.nii.gz"]
    assert cohort.check() == []


def test_folder__regions_and_the_ignore_value(tmp_path):
    labels = {"background": 0, "whole": [1, 2], "core": 2, "ignore": 3}
    cohort = load_nnunet(raw(tmp_path, PLAIN, labels=labels, regions_class_order=[1, 2]))
    assert cohort.labels == {"whole": (1, 2), "core": (2,)}
    assert cohort.mask_sets["reference"].ignore == 3


def test_folder__an_image_without_a_label_is_excluded_and_counted(tmp_path):
    files = [*PLAIN, "imagesTs/p3_a_0000.nii.gz", "imagesTr/p4_a_0000.nii.gz"]
    cohort = load_nnunet(raw(tmp_path, files))
    assert cohort.excluded["case"].tolist() == ["p3_a", "p4_a"]
    assert set(cohort.excluded["rule"]) == {"no_label"}
    levels = sorted(f.level for f in cohort.findings if f.code == "IMAGE_WITHOUT_LABEL")
    assert levels == ["note", "warning"]  # a test image may well have none


@pytest.mark.parametrize(
    ("files", "about", "code", "named"),
    [
        (["labelsTr/p9.nii.gz"], {"numTraining": 3}, "LABEL_WITHOUT_IMAGE", "p9"),
        (["imagesTr/p1_a_0001.nii.gz"], {}, "CHANNEL_UNKNOWN", "p1_a: 0001"),
        ([], {"channel_names": {"0": "T1", "1": "T2"}}, "CHANNEL_MISSING", "p1_a: 0001"),
        (["imagesTr/notes.txt"], {}, "FILES_FOREIGN", "imagesTr/notes.txt"),
        (["labelsTr/p1_a.nii"], {}, "FILES_FOREIGN", "labelsTr/p1_a.nii"),
        ([], {"numTraining": 1085}, "TRAINING_COUNT", "1085"),
    ],
)
def test_folder__what_does_not_fit_is_named(tmp_path, files, about, code, named):
    cohort = load_nnunet(raw(tmp_path, [*PLAIN, *files], **about))
    found = [f for f in cohort.findings if f.code == code]
    assert found
    assert all(f.level == "warning" for f in found)
    assert any(named in f.message for f in found)


def test_folder__two_channels_make_one_case(tmp_path):
    files = [f"imagesTr/{case}_{channel:04d}.png" for case in ("a", "b") for channel in (0, 1)]
    files += ["labelsTr/a.png", "labelsTr/b.png"]
    about = {"channel_names": {"0": "R", "1": "G"}, "file_ending": ".png"}
    cohort = load_nnunet(raw(tmp_path, files, **about))
    assert cohort.cases["case"].tolist() == ["a", "b"]
    assert codes(cohort.findings) == {}


def test_folder__the_first_format_is_read(tmp_path):
    folder = raw(tmp_path, PLAIN, labels={"0": "background", "1": "vb", "2": "disc"}, modality={"0": "MR"})
    about = json.loads((folder / "dataset.json").read_text())
    del about["channel_names"]
    (folder / "dataset.json").write_text(json.dumps(about))
    assert load_nnunet(folder).labels == {"vb": (1,), "disc": (2,)}


def test_folder__a_map_of_files_needs_no_folders(tmp_path):
    files = ["scans/x.nii.gz", "masks/x.nii.gz", "scans/y.nii.gz", "masks/y.nii.gz"]
    entries = {case: {"images": [f"scans/{case}.nii.gz"], "label": f"masks/{case}.nii.gz"} for case in ("x", "y")}
    cohort = load_nnunet(raw(tmp_path, files, dataset=entries))
    assert cohort.cases["case"].tolist() == ["x", "y"]
    assert codes(cohort.findings) == {}
    entries["z"] = {"images": ["scans/z.nii.gz"], "label": "masks/z.nii.gz"}
    with pytest.raises(AuditError, match=r"MASK_DANGLING.*'z'"):
        load_nnunet(raw(tmp_path, files, dataset=entries))


def test_folder__predictions_are_mask_sets(tmp_path):
    folder = raw(tmp_path / "raw", PLAIN)
    for name in ("p1_a", "p2_a", "stray"):
        (tmp_path / "mix").mkdir(exist_ok=True)
        (tmp_path / "mix" / f"{name}.nii.gz").touch()
    cohort = load_nnunet(folder, predictions={"mix": tmp_path / "mix"})
    assert cohort.mask_sets["mix"].masks["case"].tolist() == ["p1_a", "p2_a"]
    assert cohort.mask_sets["mix"].kind == "machine"
    assert codes(cohort.findings) == {"MASK_WITHOUT_CASE": 1}
    assert "MASKS_MISSING" in codes(cohort.check())


@pytest.mark.parametrize(
    ("files", "about", "code"),
    [
        (PLAIN[:2], {}, "LABELS_NONE"),
        ([*PLAIN, "labelsTs/p1_a.nii.gz"], {}, "CASE_IN_TWO_PARTS"),
        (PLAIN, {"channel_names": ["T2"]}, "DATASET_FORMAT"),
        (PLAIN, {"labels": {}}, "LABELS_FORMAT"),
        (PLAIN, {"dataset": {"a": {"label": 3}}}, "DATASET_FORMAT"),
        (PLAIN, {"dataset": []}, "DATASET_FORMAT"),
    ],
)
def test_folder__faults_stop(tmp_path, files, about, code):
    with pytest.raises(AuditError, match=code):
        load_nnunet(raw(tmp_path, files, **about))


def test_folder__real_dataset_files_are_read(shared, tmp_path):
    paths = sorted((shared / "data" / "nnunet_json").rglob("dataset.json"))
    assert len(paths) >= 2
    for i, path in enumerate(paths):
        about = json.loads(path.read_text(encoding="utf-8-sig"))
        ending = about.get("file_ending", ".nii.gz")
        files = [f"imagesTr/c_{int(key):04d}{ending}" for key in about.get("channel_names", about.get("modality"))]
        for name in (*files, f"labelsTr/c{ending}"):
            (tmp_path / str(i) / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / str(i) / name).touch()
        (tmp_path / str(i) / "dataset.json").write_bytes(path.read_bytes())
        cohort = load_nnunet(tmp_path / str(i))
        expected = {name for name, value in about["labels"].items() if value != 0 and name != "ignore"}
        assert set(cohort.labels) == expected
        assert codes(cohort.findings).keys() <= {"TRAINING_COUNT"}


def test_folder__links_that_lead_nowhere_are_named(tmp_path):
    folder = raw(tmp_path, PLAIN)
    (folder / "imagesTr" / "old_0000.nii.gz").symlink_to(folder / "gone.nii.gz")
    found = {f.code: f for f in load_nnunet(folder).findings}
    assert "imagesTr/old_0000.nii.gz" in found["IMAGE_DANGLING"].message
    assert "IMAGE_WITHOUT_LABEL" in found
    (folder / "labelsTr" / "old.nii.gz").symlink_to(folder / "gone.nii.gz")
    with pytest.raises(AuditError, match=r"MASK_DANGLING.*labelsTr/old"):
        load_nnunet(folder)
