"""cohort.toml becomes a cohort; every row, file and exclusion is in it or counted."""

import json
import os

import pandas as pd
import pytest

from segaudit.attributes import Attribute
from segaudit.cohorts import Cohort, MaskSet, discover_masks, make_cohort, read_cohort, read_labels
from segaudit.errors import AuditError

PEOPLE = "case,patient,sex,age\nc1,p1,F,61\nc2,p1,F,62\nc3,p2,M,89+\nc4,p3,n/a,40\nc5,p4,M,50\n"
TOML = """
name = "small"
[participants]
file = "people.csv"
key = "case"
patient = "patient"
[attributes.sex]
[attributes.age]
[labels]
vb = 1
lungs = [1, 2]
[[mask_sets]]
name = "expert"
folder = "gold"
kind = "expert"
[[mask_sets]]
name = "silver"
folder = "silver"
kind = "machine"
made_by = "a net"
trained_on = ["p1", "p9"]
labels = {vb = [4, 5]}
ignore = 9
"""


def _files(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


@pytest.fixture
def home(tmp_path):
    """A folder with a table of five cases, four expert masks and three machine masks."""
    (tmp_path / "people.csv").write_text(PEOPLE)
    _files(tmp_path / "gold", "c1.nii.gz", "c2.nii.gz", "c3.nii.gz", "c4.nii.gz", ".hidden.nii.gz", "notes.txt")
    _files(tmp_path / "silver", "c1.nii.gz", "c2.nii", "c9.png")
    return tmp_path


def _cohort(home, text=TOML):
    (home / "cohort.toml").write_text(text, encoding="utf-8")
    return read_cohort(home / "cohort.toml")


def _codes(findings, level=None):
    return [finding.code for finding in findings if level in {None, finding.level}]


def test_cohort__reads_in_full(home):
    cohort = _cohort(home)
    assert cohort.name == "small"
    assert cohort.cases["case"].tolist() == ["c1", "c2", "c3", "c4", "c9"]
    assert cohort.cases["patient"].tolist() == ["p1", "p1", "p2", "p3", "c9"]
    assert cohort.cases["sex"].tolist() == ["Female", "Female", "Male", None, None]
    assert cohort.cases["age"].fillna(-1).tolist() == [61, 62, 89, 40, -1]
    assert cohort.labels == {"vb": (1,), "lungs": (1, 2)}
    assert cohort.attributes["age"] == Attribute("age", "age", "case", "age")
    silver = cohort.mask_sets["silver"]
    assert silver.masks["case"].tolist() == ["c1", "c2", "c9"]
    assert silver.masks["path"].tolist() == [str(home / "silver" / name) for name in ("c1.nii.gz", "c2.nii", "c9.png")]
    assert set(silver.masks["kind"]) == {"machine"}
    assert (silver.kind, silver.made_by, silver.ignore) == ("machine", "a net", 9)
    assert (silver.trained_on, silver.labels) == (frozenset({"p1", "p9"}), {"vb": (4, 5)})
    assert cohort.mask_sets["expert"].trained_on is None
    assert cohort.excluded.values.tolist() == [["c5", "no_masks", "no mask set has a file for it"]]


def test_cohort__check_lists_errors_then_warnings_then_notes(home):
    found = _cohort(home).check()
    levels = [finding.level for finding in found]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert sorted(_codes(found, "warning")) == [
        "CASES_WITHOUT_ROW",
        "MASKS_MISSING",
        "MASKS_MISSING",
        "PATIENT_IS_CASE",
    ]
    text = "\n".join(finding.message for finding in found)
    assert "1 of 5 cases have no mask (c9)." in text
    assert "2 of 5 cases have no mask (c3, c4)." in text
    assert "1 of 5 rows have no case (c5)." in text
    assert "sex: missing for 2 of 5 cases (missing 1, no participant row 1)." in text


def test_cohort__prints_a_summary(home):
    assert str(_cohort(home)).split("\n") == [
        "cohort 'small': 5 cases of 4 patients",
        "  labels:     vb 1, lungs 1+2",
        "  attributes: sex (2 missing), age (1 missing, 1 top-coded)",
        "  mask sets:  expert (expert) 4 of 5 cases, silver (machine) 3 of 5 cases",
        "  excluded:   no_masks 1",
        "  findings:   4 notes, 4 warnings",
    ]


def test_cohort__exclusions_are_kept_with_their_reasons(home):
    (home / "out.tsv").write_text("case\trule\treason\nc9\tno consent\twithdrawn\nc4\t\tmotion\n")
    text = 'excluded = "out.tsv"\n' + TOML + '[[exclude]]\ncases = ["c5", "c77"]\nreason = "other protocol"\n'
    cohort = _cohort(home, text)
    assert cohort.cases["case"].tolist() == ["c1", "c2", "c3"]
    assert cohort.mask_sets["expert"].masks["case"].tolist() == ["c1", "c2", "c3"]
    assert cohort.excluded.values.tolist() == [
        ["c4", "excluded by hand", "motion"],
        ["c5", "excluded by hand", "other protocol"],
        ["c9", "no consent", "withdrawn"],
    ]
    unknown = next(finding for finding in cohort.findings if finding.code == "EXCLUDED_UNKNOWN")
    assert "c77" in unknown.message
    assert set(cohort.missing["case"]) == {"c3"}


def test_cohort__without_masks_the_rows_are_the_cases(home):
    cohort = _cohort(home, '[participants]\nfile = "people.csv"\n')
    assert cohort.cases["case"].tolist() == ["c1", "c2", "c3", "c4", "c5"]
    assert cohort.name == home.name
    assert list(cohort.attributes) == ["sex", "age"]
    assert cohort.excluded.empty


def test_cohort__without_a_table_the_files_are_the_cases(home):
    text = '[labels]\nvb = 1\n[[mask_sets]]\nname = "expert"\nfolder = "gold"\n'
    cohort = _cohort(home, text)
    assert cohort.cases.values.tolist() == [[case, case] for case in ("c1", "c2", "c3", "c4")]
    assert _codes(cohort.check()) == ["PATIENT_IS_CASE"]
    ruled = _cohort(home, '[participants]\ncase_to_patient = "^(c)"\n' + text)
    assert ruled.cases["patient"].tolist() == ["c"] * 4


def test_cohort__a_rule_joins_patients_to_files(home):
    (home / "participants.tsv").write_text("participant_id\tsex\nsub-1\tF\nsub-2\tM\n")
    _files(home / "bids", "sub-1/anat/sub-1_ses-1_seg.nii.gz", "sub-2/anat/sub-2_seg.nii.gz", "sub-2/anat/sub-2.json")
    text = """
        [participants]
        file = "participants.tsv"
        case_to_patient = "^(sub-[^_]+)"
        [labels]
        cord = 1
        [[mask_sets]]
        name = "expert"
        folder = "bids"
        pattern = "sub-*/anat/{case}_seg.nii.gz"
    """
    cohort = _cohort(home, text)
    assert cohort.cases[["case", "patient", "sex"]].values.tolist() == [
        ["sub-1_ses-1", "sub-1", "Female"],
        ["sub-2", "sub-2", "Male"],
    ]


def test_cohort__missing_codes_extend_or_replace(home):
    text = '[participants]\nfile = "people.csv"\n[missing]\nF = "withheld"\n'
    cohort = _cohort(home, text)
    assert cohort.cases["sex"].isna().tolist() == [True, True, False, True, False]
    assert sorted(set(cohort.missing["reason"])) == ["missing", "top-coded", "withheld"]
    replaced = _cohort(home, text + "extend = false\n")
    assert replaced.cases["sex"].tolist() == [None, None, "Male", "n/a", "Male"]


def test_cohort__attribute_entries(home):
    text = """
        [participants]
        file = "people.csv"
        [attributes.group]
        column = "sex"
        of = "case"
        values = {F = "Frauen"}
        missing = ["M"]
    """
    cohort = _cohort(home, text)
    assert cohort.cases["group"].tolist() == ["Frauen", "Frauen", None, None, None]
    assert cohort.attributes == {"group": Attribute("group", "level", "case", "sex")}


def test_cohort__spaces_and_letters_of_any_script_in_paths(tmp_path):
    home = tmp_path / "Étude de 脊椎"
    _files(home / "maske café", "Fall 1.nii.gz", "zervikal é.nii.gz")
    (home / "Leute ü.csv").write_text("case,sex\nFall 1,F\nzervikal e\u0301,M\n", encoding="utf-8")
    text = '[participants]\nfile = "Leute ü.csv"\n[labels]\nvb = 1\n[[mask_sets]]\nname = "é"\nfolder = "maske café"\n'
    cohort = _cohort(home, text)
    assert cohort.cases["sex"].tolist() == ["Female", "Male"], "composed and decomposed letters are the same case"


def test_cohort__patients_of_training_come_from_a_table(home):
    (home / "train.csv").write_text("patient\np1\np7\n")
    cohort = _cohort(home, TOML.replace('["p1", "p9"]', '"train.csv"'))
    assert cohort.mask_sets["silver"].trained_on == frozenset({"p1", "p7"})


@pytest.mark.parametrize(
    ("change", "codes", "says"),
    [
        (("name =", "nam ="), ["TOML_UNKNOWN_KEY"], "did you mean 'name'"),
        (('kind = "expert"', 'kind = "exprt"'), ["TOML_VALUE"], "mask_sets[0].kind"),
        (("vb = 1", "vb = 0"), ["TOML_VALUE"], "labels.vb"),
        (("vb = 1", "macro = 1"), ["TOML_VALUE"], "mean over the labels"),
        (("vb = 1", "vb = true"), ["TOML_VALUE"], "labels.vb"),
        (("lungs = [1, 2]", "lungs = []"), ["TOML_VALUE"], "labels.lungs"),
        (('name = "silver"', 'name = "expert"'), ["TOML_VALUE"], "two mask sets"),
        (('name = "small"', 'labels_from = "d.json"'), ["TOML_VALUE"], "not both"),
        (('file = "people.csv"\n', ""), ["TOML_VALUE"] * 2, "no file for key, patient"),
        (('folder = "gold"', 'folder = "god"'), ["FOLDER_MISSING"], "god"),
        (('folder = "gold"', 'folder = "people.csv"'), ["FOLDER_UNREADABLE"], "people.csv"),
        (('folder = "gold"', 'folder = "gold"\npattern = "{case}.mha"'), ["MASKS_NONE"], "'{case}.mha'"),
        (('folder = "gold"', 'folder = "gold"\npattern = "*.nii.gz"'), ["MASK_PATTERN"], "{case}"),
        (('folder = "gold"', 'folder = "gold"\npattern = "../{case}.nii"'), ["MASK_PATTERN"], "{case}"),
        (("{vb = [4, 5]}", "{bone = 4}"), ["UNKNOWN_LABEL"], "'bone'"),
        (("ignore = 9", "ignore = 5"), ["IGNORE_IS_LABEL"], "value 5"),
        (('["p1", "p9"]', '"people.csv"\nignored = 1'), ["TOML_UNKNOWN_KEY"], "ignored"),
        (('["p1", "p9"]', '"no.csv"'), ["FILE_MISSING"], "no.csv"),
        (('"people.csv"', '"peple.csv"'), ["FILE_MISSING"], "peple.csv"),
        (("[attributes.sex]", "[attributes.sexx]"), ["UNKNOWN_ATTRIBUTE"], "did you mean 'sex'"),
        (("[attributes.sex]", '[attributes.sex]\nkind = "text"'), ["TOML_VALUE"], "attributes.sex.kind"),
        (('key = "case"', 'key = "sex"'), ["KEY_BLANK", "KEY_DOUBLED"], ""),
        (('name = "small"', 'excluded = "people.csv"'), ["UNKNOWN_COLUMN"], "'reason'"),
        (("[labels]", '[[exclude]]\nreason = "x"\n[labels]'), ["TOML_VALUE"], "name the case"),
        (
            ("[labels]", '[[exclude]]\ncases = ["c1", "c2", "c3", "c4", "c9"]\nreason = "x"\n[labels]'),
            ["COHORT_EMPTY"],
            "all are excluded",
        ),
    ],
)
def test_cohort__faults_are_named(home, change, codes, says):
    assert change[0] in TOML
    with pytest.raises(AuditError) as caught:
        _cohort(home, TOML.replace(*change, 1))
    assert set(_codes(caught.value.findings)) <= set(codes)
    assert says in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_cohort__faults_of_all_parts_come_at_once(home):
    text = TOML.replace("people.csv", "no.csv").replace('"gold"', '"gld"').replace("{vb = [4, 5]}", "{bone = 4}")
    with pytest.raises(AuditError) as caught:
        _cohort(home, text)
    assert _codes(caught.value.findings) == ["FOLDER_MISSING", "UNKNOWN_LABEL", "FILE_MISSING"]


def test_cohort__a_table_that_names_only_patients_names_no_cases(home):
    with pytest.raises(AuditError, match="CASES_NEEDED"):
        _cohort(home, '[participants]\nfile = "people.csv"\ncase_to_patient = "^(p)"\n')


def test_exclusions__need_a_reason_in_each_row(home):
    (home / "out.tsv").write_text("case\treason\nc1\tmotion\nc2\t \n")
    with pytest.raises(AuditError, match=r"EXCLUDED_REASON.*lines 3"):
        _cohort(home, 'excluded = "out.tsv"\n' + TOML)


def test_masks__a_link_out_of_the_cohort_is_refused_and_one_inside_is_followed(home, tmp_path_factory):
    away = tmp_path_factory.mktemp("away")
    _files(away, "x.nii.gz")
    _files(home / "store", "key.nii.gz")
    (home / "silver" / "c3.nii.gz").symlink_to(home / "store" / "key.nii.gz")
    assert "c3" in _cohort(home).mask_sets["silver"].masks["case"].tolist()
    (home / "silver" / "c4.nii.gz").symlink_to(away / "x.nii.gz")
    with pytest.raises(AuditError, match="PATH_ESCAPES"):
        _cohort(home)
    assert "c4" in discover_masks(home / "silver")["case"].tolist(), "a folder named at the command line is trusted"
    named = TOML.replace('folder = "silver"', f'folder = "{away}"')
    assert _cohort(home, named).mask_sets["silver"].masks["case"].tolist() == ["x"], "and so is one named in the file"


def test_masks__dangling_links_and_doubled_cases_are_refused(home):
    (home / "gold" / "c8.nii.gz").symlink_to(home / "nowhere")
    _files(home / "gold", "c1.png", "c2.nii")
    with pytest.raises(AuditError) as caught:
        discover_masks(home / "gold")
    assert _codes(caught.value.findings) == ["MASK_DOUBLED", "MASK_DOUBLED", "MASK_DANGLING"]
    assert "c1.nii.gz, c1.png" in str(caught.value)
    assert discover_masks(home / "gold", "{case}.png")["case"].tolist() == ["c1"]


@pytest.mark.parametrize(
    ("pattern", "names", "found"),
    [
        (None, ["a.nii.gz", "b.nii", "c.png", "d.NII.GZ", "e.txt", "._a.nii.gz"], ["a", "b", "c", "d"]),
        ("{case}.nii.gz", ["a.nii.gz", "a_0000.nii.gz", "b.nii"], ["a", "a_0000"]),
        ("{case}/seg.nii.gz", ["a/seg.nii.gz", "b/other.nii.gz", ".c/seg.nii.gz"], ["a"]),
        ("{case}/{case}_seg.nii", ["a/a_seg.nii", "b/a_seg.nii"], ["a"]),
        ("m[1]{case}.nii", ["m[1]a.nii", "m1b.nii"], ["a"]),
        ("*_{case}.nii", ["x_a.nii", "y_b.nii"], ["a", "b"]),
    ],
)
def test_masks__discover(tmp_path, pattern, names, found):
    _files(tmp_path, *names)
    assert discover_masks(tmp_path, pattern)["case"].tolist() == found


def test_masks__an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(AuditError, match="MASKS_NONE"):
        discover_masks(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every folder")
def test_masks__a_folder_that_may_not_be_read_is_an_error(tmp_path):
    (tmp_path / "shut").mkdir(mode=0)
    with pytest.raises(AuditError, match="FOLDER_UNREADABLE"):
        discover_masks(tmp_path / "shut")


@pytest.mark.parametrize(
    ("labels", "expected", "ignore"),
    [
        ({"background": 0, "WT": [1, 2, 3], "TC": [1, 3], "ET": 3}, {"WT": (1, 2, 3), "TC": (1, 3), "ET": (3,)}, None),
        ({"background": 0, "a": 1, "ignore": 2}, {"a": (1,)}, 2),
        ({"0": "background", "1": "a", "2": "b"}, {"a": (1,), "b": (2,)}, None),
    ],
)
def test_labels__nnunet_labels_regions_and_ignore(tmp_path, labels, expected, ignore):
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": labels}))
    assert read_labels(tmp_path / "dataset.json") == (expected, ignore)


def test_labels__from_dataset_json_reach_the_cohort(home):
    (home / "dataset.json").write_text(json.dumps({"labels": {"background": 0, "vb": 1, "ignore": 7}}))
    text = 'labels_from = "dataset.json"\n' + TOML.replace("[labels]\nvb = 1\nlungs = [1, 2]\n", "")
    cohort = _cohort(home, text)
    assert cohort.labels == {"vb": (1,)}
    assert (cohort.mask_sets["expert"].ignore, cohort.mask_sets["silver"].ignore) == (7, 9)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{}", "LABELS_FORMAT"),
        ('{"labels": {}}', "LABELS_FORMAT"),
        ('{"labels": {"a": "1"}}', "LABELS_FORMAT"),
        ('{"labels": {"a": [1, -2]}}', "LABELS_FORMAT"),
        ('{"labels": {"a": true}}', "LABELS_FORMAT"),
        ("{", "JSON_MALFORMED"),
    ],
)
def test_labels__bad_files_are_refused(tmp_path, text, code):
    (tmp_path / "dataset.json").write_text(text)
    with pytest.raises(AuditError, match=code):
        read_labels(tmp_path / "dataset.json")


def test_check__finds_the_faults_of_a_cohort_made_by_hand():
    masks = pd.DataFrame({"case": ["a", "a"], "path": ["x", "y"], "kind": "expert"})
    cohort = Cohort("hand", pd.DataFrame({"case": ["a", "a"], "patient": ["p", None]}), {}, {"m": MaskSet("m", masks)})
    assert _codes(cohort.check()) == ["CASE_DOUBLED", "PATIENT_BLANK", "MASK_DOUBLED", "LABELS_MISSING"]


def test_make__nothing_names_the_cases():
    with pytest.raises(AuditError, match="CASES_NEEDED"):
        make_cohort("empty")


# --- real folders ------------------------------------------------------------------------------------------------


def test_real__prostate_cohort(shared, tmp_path):
    folder = shared / "data" / "prostate_human_vs_ai"
    cohort = _cohort(
        tmp_path,
        f"""
        [participants]
        file = "{folder}/marksheet.csv"
        key = "{{patient_id}}_{{study_id}}"
        patient = "patient_id"
        [attributes.age]
        column = "patient_age"
        [labels]
        lesion = 1
        [[mask_sets]]
        name = "human"
        folder = "{folder}/lesion_human"
        labels = {{lesion = [1, 2, 3, 4, 5]}}
        [[mask_sets]]
        name = "ai"
        folder = "{folder}/lesion_ai_Bosma22a"
        [[exclude]]
        cases = ["10408_1000415", "10459_1000467"]
        reason = "the grids differ"
        """,
    )
    assert (len(cohort.cases), cohort.cases["patient"].nunique()) == (293, 293)
    assert cohort.cases["age"].notna().all()
    assert cohort.excluded["rule"].value_counts().to_dict() == {"no_masks": 1205, "excluded by hand": 2}
    assert _codes(cohort.check(), "warning") == []


def test_real__radiograph_cohort(shared, tmp_path):
    folder = shared / "data" / "cxr_two_physicians"
    sets = "".join(
        f'[[mask_sets]]\nname = "{name}"\nfolder = "{folder}/masks/{name}"\n'
        for name in ("auto_hybridgnet", "physician_1", "physician_2")
    )
    table = f'[participants]\nfile = "{folder}/demographics_nih_rows.csv"\n[labels]\nlungs = [1, 2]\nheart = 3\n'
    cohort = _cohort(tmp_path, table + sets)
    assert cohort.cases["sex"].value_counts().to_dict() == {"Female": 32, "Male": 18}
    assert all(len(mask_set.masks) == 50 for mask_set in cohort.mask_sets.values())
    assert cohort.excluded.empty
    assert _codes(cohort.check(), "warning") == []
