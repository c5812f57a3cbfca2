"""BIDS derivatives: who or what made each label, on real sidecars and on small written folders."""

import json
from collections import Counter

import pytest

from segaudit.errors import AuditError
from segaudit.loaders import load_bids, read_label_sidecars
from segaudit.loaders.bids import kind_of, maker_of

MACHINE, HUMAN = {"Name": "net", "Version": "1.0"}, {"Name": "Manual", "Author": "A"}


def derivative(folder, files, *, masks=True):
    """Write sidecars (None for none) and empty masks."""
    for name, steps in files.items():
        path = folder / name.split("_")[0] / "anat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if masks:
            path.with_name(f"{name}.nii.gz").touch()
        if steps is not None:
            path.with_name(f"{name}.json").write_text(json.dumps({"GeneratedBy": steps}))
    return folder


@pytest.mark.parametrize(
    ("steps", "kind", "why"),
    [
        ([MACHINE], "machine", "a program alone"),
        ([MACHINE, {"Name": "resample"}], "machine", "two programs"),
        ([HUMAN], "expert", "a human alone"),
        ([HUMAN, HUMAN], "expert", "two humans"),
        ([MACHINE, HUMAN], "expert-revised machine draft", "a human after a machine"),
        ([MACHINE, HUMAN, HUMAN], "expert-revised machine draft", "revised twice"),
        ([HUMAN, MACHINE], "unknown", "the machine may have drawn it anew"),
        ([HUMAN, MACHINE, HUMAN], "unknown", "the draft was no machine's"),
        ([], "unknown", "nothing is said"),
        ([{"Author": "A"}], "machine", "a step without a name is no human's word"),
        ([{"Name": " manual "}], "expert", "however it is written"),
    ],
)
def test_kind__follows_from_the_order_of_the_steps(steps, kind, why):
    assert kind_of(steps) == kind, why


def test_maker__leaves_out_what_names_one_file():
    name = "sct: sct_deepseg -i sub-1_T2w.nii.gz -task seg -largest 1 -qc qc -qc-subject sub-1 -o sub-1_seg.nii.gz"
    assert maker_of([{"Name": name, "Version": "git"}]) == "sct: sct_deepseg -task seg -largest 1 git"
    assert maker_of([MACHINE, HUMAN, HUMAN]) == "net 1.0, then Manual (A)"


def test_real_sidecars__kind_and_maker_of_every_label(shared):
    folder = shared / "data" / "label_sidecars"
    table, findings = read_label_sidecars(folder)
    # worked out here from the files themselves: whether the first and the last step are called Manual
    expected, authors = {}, {}
    for path in folder.rglob("*.json"):
        names = [step["Name"] for step in json.loads(path.read_text())["GeneratedBy"]]
        first, last = names[0] == "Manual", names[-1] == "Manual"
        kind = {(1, 1): "expert", (0, 0): "machine", (0, 1): "expert-revised machine draft"}[first, last]
        key = path.relative_to(folder).as_posix().removesuffix(".json")
        expected[key], authors[key] = kind, names
    assert dict(zip(table["file"], table["kind"], strict=True)) == expected
    assert Counter(table["kind"]) == {"machine": 113, "expert-revised machine draft": 73, "expert": 35}
    assert table["patient"].nunique() == 12
    assert Counter(table["label"]) == Counter(name.split("_label-")[1].split("_")[0] for name in expected)
    assert (table["case"].str.split("_").str[0] == table["patient"]).all()
    for row in table.itertuples():
        assert ("Manual" in row.made_by) == ("Manual" in authors[row.file])
        assert "sub-" not in row.made_by  # no file's own name
    makers = set(table.loc[table["kind"] == "machine", "made_by"])
    assert "TotalSpineSeg" in makers
    assert len(makers) <= 4
    words = {f.message.split("'")[1]: int(f.message.split()[0]) for f in findings if f.code == "SIDECAR_DESCRIPTION"}
    assert words == {"staple": 1, "corrected": 3}


def test_sidecars__what_they_do_not_say_is_counted(tmp_path):
    files = {
        "sub-1_T2w_label-SC_seg": [HUMAN, MACHINE],
        "sub-2_T2w_label-SC_seg": [],
        "sub-3_T2w_label-SC_seg": MACHINE,
    }
    table, findings = read_label_sidecars(derivative(tmp_path, files))
    assert table["kind"].tolist() == ["unknown", "unknown", "machine"]
    assert Counter(f.code for f in findings) == {"SIDECAR_NO_MAKER": 1, "SIDECAR_ORDER": 1}


def test_sidecars__all_faults_at_once(tmp_path):
    derivative(tmp_path, {"sub-1_T2w_label-SC_seg": "a net", "sub-2_T2w_label-SC_seg": [1]})
    (tmp_path / "sub-1" / "anat" / "sub-1_T1w_label-SC_seg.json").write_text("{")
    with pytest.raises(AuditError) as caught:
        read_label_sidecars(tmp_path)
    assert sorted(f.code for f in caught.value.findings) == ["JSON_MALFORMED", "SIDECAR_FORMAT", "SIDECAR_FORMAT"]


def test_load__one_mask_set_a_label_with_a_kind_a_case(tmp_path):
    files = {
        "sub-1_ses-a_T2w_label-SC_seg": [MACHINE, HUMAN],
        "sub-1_ses-b_T2w_label-SC_seg": [MACHINE],
        "sub-2_T2w_label-SC_seg": None,
        "sub-2_T2w_desc-rater1_label-SC_seg": [HUMAN],
        "sub-2_T2w_label-spine_dseg": [MACHINE],
    }
    derivative(tmp_path, files)
    (tmp_path / "participants.tsv").write_text("participant_id\tsex\nsub-1\tF\nsub-2\tM\n")
    cohort = load_bids(tmp_path)
    assert cohort.cases["case"].tolist() == ["sub-1_ses-a_T2w", "sub-1_ses-b_T2w", "sub-2_T2w"]
    assert cohort.cases["patient"].tolist() == ["sub-1", "sub-1", "sub-2"]
    assert cohort.cases["sex"].tolist() == ["Female", "Female", "Male"]
    assert list(cohort.mask_sets) == ["SC_rater1_seg", "SC_seg", "spine_dseg"]
    mixed = cohort.mask_sets["SC_seg"]
    assert mixed.masks["kind"].tolist() == ["expert-revised machine draft", "machine", "unknown"]
    assert mixed.masks["made_by"].tolist() == ["net 1.0, then Manual (A)", "net 1.0", ""]
    assert mixed.kind == "unknown"
    assert (cohort.mask_sets["SC_rater1_seg"].kind, cohort.mask_sets["SC_rater1_seg"].made_by) == (
        "expert",
        "Manual (A)",
    )
    assert cohort.labels == {"SC": (1,)}
    assert [f.message for f in cohort.findings if f.code == "LABELS_UNNAMED"] == [
        "nothing says what the values of spine_dseg mean."
    ]


def test_load__the_data_set_speaks_for_files_without_a_sidecar(tmp_path):
    derivative(tmp_path, {"sub-1_T2w_label-SC_seg": None, "sub-2_T2w_label-SC_seg": [HUMAN]})
    (tmp_path / "dataset_description.json").write_text(json.dumps({"Name": "d", "GeneratedBy": [MACHINE]}))
    assert load_bids(tmp_path).mask_sets["SC_seg"].masks["kind"].tolist() == ["machine", "expert"]


def test_load__several_derivatives_of_one_data_set_meet_by_image(tmp_path):
    (tmp_path / "participants.tsv").write_text("participant_id\tsex\nsub-1\tF\nsub-9\tM\n")
    derivative(tmp_path / "derivatives" / "net", {"sub-1_T2w_label-SC_seg": [MACHINE]})
    derivative(tmp_path / "derivatives" / "labels", {"sub-1_T2w_label-SC_seg": [HUMAN]})
    cohort = load_bids(tmp_path)
    assert list(cohort.mask_sets) == ["labels/SC_seg", "net/SC_seg"]
    assert [s.kind for s in cohort.mask_sets.values()] == ["expert", "machine"]
    assert len(cohort.cases) == 1
    assert "ROWS_WITHOUT_CASE" in {f.code for f in cohort.findings}  # sub-9
    assert list(load_bids(tmp_path / "derivatives").mask_sets) == ["labels/SC_seg", "net/SC_seg"]
    alone = load_bids(tmp_path / "derivatives" / "net")
    assert list(alone.mask_sets) == ["SC_seg"]
    assert alone.cases["sex"].tolist() == ["Female"]  # the table two folders above


def test_load__levels_of_a_dseg_come_from_its_table(tmp_path):
    derivative(tmp_path, {"sub-1_T2w_label-spine_dseg": [MACHINE]})
    (tmp_path / "sub-1" / "anat" / "dseg.tsv").write_text("index\tname\n0\tbackground\n1\tvb\n2\tdisc\n")
    cohort = load_bids(tmp_path)
    assert cohort.labels == cohort.mask_sets["spine_dseg"].labels == {"vb": (1,), "disc": (2,)}


def test_load__a_sidecar_without_its_mask_is_counted(tmp_path, shared):
    derivative(tmp_path, {"sub-1_T2w_label-SC_seg": [MACHINE]})
    derivative(tmp_path, {"sub-2_T2w_label-SC_seg": [MACHINE]}, masks=False)
    (found,) = [f for f in load_bids(tmp_path).findings if f.code == "SIDECAR_WITHOUT_MASK"]
    assert found.message.startswith("1 sidecar has no mask (sub-2/anat/sub-2_T2w_label-SC_seg)")
    with pytest.raises(AuditError, match="MASKS_NONE"):
        load_bids(shared / "data" / "label_sidecars")


def test_load__two_masks_of_one_name_stop(tmp_path):
    derivative(tmp_path, {"sub-1_T2w_space-orig_label-SC_seg": None, "sub-1_T2w_space-T1w_label-SC_seg": None})
    with pytest.raises(AuditError, match="MASK_DOUBLED"):
        load_bids(tmp_path)


def test_load__sidecars_alone_are_no_cohort_and_the_fix_says_how_they_are_read(shared):
    with pytest.raises(AuditError) as caught:
        load_bids(shared / "data" / "label_sidecars")
    (found,) = caught.value.findings
    assert (found.code, "read_label_sidecars" in found.fix) == ("MASKS_NONE", True)
