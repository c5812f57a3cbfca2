"""Tables that list the files of a mask set or the images: cohort.toml's `files`, `images` and `cases_from`."""

import re

import pytest

from segaudit.cohorts import read_cohort
from segaudit.cohorts.listed import read_listed
from segaudit.errors import AuditError


@pytest.fixture
def home(tmp_path):
    """A folder of masks beside a folder with a table of participants."""
    (tmp_path / "all").mkdir()
    for name in ("c1.nii.gz", "c2.nii.gz", "c3.nii.gz", " c4 .nii"):
        (tmp_path / "all" / name).touch()
    (tmp_path / "study" / "masks").mkdir(parents=True)
    (tmp_path / "study" / "people.csv").write_text("case,patient,sex\nc1,p1,F\nc2,p2,M\nc3,p3,x\nc9,p9,F\n")
    return tmp_path / "study"


TOML = """
[participants]
file = "people.csv"
key = "case"
patient = "patient"
[attributes.sex]
missing = { x = "withdrawn", 9 = "declined" }
[labels]
vb = 1
[[mask_sets]]
name = "expert"
files = "masks/expert.csv"
kind = "consensus"
"""


def _read(home, table="case,path,kind\nc1,../../all/c1.nii.gz,\nc2,../../all/c2.nii.gz,machine\n", toml=TOML):
    (home / "masks" / "expert.csv").write_text(table)
    (home / "cohort.toml").write_text(toml)
    return read_cohort(home / "cohort.toml")


def test_files__paths_start_from_the_table_and_kinds_from_the_entry(home):
    found = _read(home)
    masks = found.mask_sets["expert"].masks
    assert masks["path"].tolist() == [str(home.parent / "all" / f"{case}.nii.gz") for case in ("c1", "c2")]
    assert masks["kind"].tolist() == ["consensus", "machine"]
    assert found.mask_sets["expert"].kind == "consensus"
    assert "expert (consensus 1, machine 1) 2 of 2 cases" in str(found)
    assert home / "masks" / "expert.csv" in found.files
    assert dict(zip(found.excluded["case"], found.excluded["rule"], strict=True)) == {
        "c3": "no_masks",
        "c9": "no_masks",
    }


def test_files__a_path_may_be_absolute_and_lead_anywhere(home):
    far = home.parent / "all" / "c3.nii.gz"
    (home / "link.nii.gz").symlink_to(far)
    found = (
        _read(home, f"path;case\n{far};c3.nii.gz\n../link.nii.gz;c1\n../../all/ c4 .nii;c2\n").mask_sets["expert"].masks
    )
    assert found["case"].tolist() == ["c1", "c2", "c3"], "an image suffix does not count; other columns may be absent"
    assert found["path"].tolist() == [str(home / "link.nii.gz"), str(home.parent / "all" / " c4 .nii"), str(far)]


def test_files__without_a_kind_of_its_own_a_mask_is_unknown(home):
    assert _read(home, toml=TOML.replace('kind = "consensus"', "")).mask_sets["expert"].masks["kind"].tolist() == [
        "unknown",
        "machine",
    ]


def test_files__every_fault_is_told_with_its_lines(home):
    rows = [
        "c1,../../all/c1.nii.gz,experts", "c1,../../all/c2.nii.gz,", "c2, ,machine", ",../../all/c3.nii.gz,expert",
        "c3,../../all/gone.nii.gz,expert", f"c4,{'x' * 300},Expert", "c5,../../all,",
    ]  # fmt: skip
    with pytest.raises(AuditError) as caught:
        _read(home, "\n".join(["case,path,kind", *rows]))
    told = {finding.code: finding for finding in caught.value.findings}
    assert re.search(r"1 row names no case \(lines 5\)", told["KEY_BLANK"].message)
    assert re.search(r"1 row has no path \(lines 4\)", told["PATH_BLANK"].message)
    assert re.search(r"'c1' in lines 2, 3", told["MASK_DOUBLED"].message)
    assert re.search(r"3 of 7 paths lead to no file \(line 6: .*gone.nii.gz, line 7: ", told["MASK_DANGLING"].message)
    kinds = [finding for finding in caught.value.findings if finding.code == "UNKNOWN_KIND"]
    assert [finding.message for finding in kinds] == [
        "'experts' is no kind of mask (lines 2).",
        "'Expert' is no kind of mask (lines 7).",
    ]
    assert "did you mean 'expert'?" in kinds[0].fix
    assert all("masks/expert.csv" in finding.where for finding in caught.value.findings)


def test_files__missing_columns_are_told_at_once(home):
    with pytest.raises(AuditError) as caught:
        _read(home, "exam,file\nc1,x\n")
    assert [finding.message for finding in caught.value.findings] == [
        "there is no column 'case'.",
        "there is no column 'path'.",
    ]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ('folder = "f"\nfiles = "t.csv"', "give folder or files, not both"),
        ("", "give folder or files"),
        ('files = "t.csv"\npattern = "{case}.png"', "a pattern needs a folder"),
    ],
)
def test_files__a_mask_set_lies_in_one_place(home, entry, told):
    with pytest.raises(AuditError, match=re.escape(told)):
        _read(home, toml=f'[[mask_sets]]\nname = "expert"\n{entry}\n')


@pytest.mark.parametrize("name", ["images.csv", "images.TSV"])
def test_images__a_table_names_them_by_case(home, name):
    text = "case,path\nc1,../all/c1.nii.gz\nc2_0000,../all/c2.nii.gz\n"
    (home / name).write_text(text if name.endswith("csv") else text.replace(",", "\t"))
    found = _read(home, toml=f'images = "{name}"\n{TOML}')
    assert found.images == {
        "c1": str(home.parent / "all" / "c1.nii.gz"),
        "c2_0000": str(home.parent / "all" / "c2.nii.gz"),
    }
    assert home / name in found.files


def test_images__faults_of_the_table_stand_with_those_of_the_masks(home):
    (home / "images.csv").write_text("case,path\nc1,gone.nii.gz\n")
    with pytest.raises(AuditError) as caught:
        _read(home, "case,path\nc1,\n", f'images = "images.csv"\n{TOML}')
    assert {finding.code for finding in caught.value.findings} == {"PATH_BLANK", "MASK_DANGLING"}


def test_images__a_folder_whose_name_ends_as_a_table_is_a_folder(home):
    (home / "images.csv").mkdir()
    (home / "images.csv" / "c1_0000.nii.gz").touch()
    assert list(_read(home, toml=f'images = "images.csv"\n{TOML}').images) == ["c1"]


def test_cases_from__rows_are_the_cases_with_or_without_a_mask(home):
    out = '[[exclude]]\ncases = ["c9", "gone"]\nreason = "another sequence"\n'
    found = _read(home, toml=f'cases_from = "participants"\n{TOML}{out}')
    assert found.cases["case"].tolist() == ["c1", "c2", "c3"]
    assert found.excluded["case"].tolist() == ["c9", "gone"]
    assert [f.code for f in found.check() if f.level != "note"] == ["MASKS_MISSING"]
    by_masks = _read(home, toml=TOML + out)
    assert by_masks.cases["case"].tolist() == ["c1", "c2"]
    assert "EXCLUDED_UNKNOWN" in {f.code for f in by_masks.check()}


def test_cases_from__a_mask_of_no_row_is_counted(home):
    (home / "people.csv").write_text("case,patient,sex\nc1,p1,F\n")
    found = _read(home, toml=f'cases_from = "participants"\n{TOML}')
    assert found.mask_sets["expert"].masks["case"].tolist() == ["c1"]
    assert [f.message for f in found.check() if f.code == "MASK_WITHOUT_CASE"] == ["1 mask belongs to no case (c2)."]


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ('cases_from = "participants"\n[[mask_sets]]\nname = "a"\nfolder = "f"\n', "needs a participants file"),
        (
            'cases_from = "participants"\n[participants]\nfile = "people.csv"\ncase_to_patient = "(c)"\n',
            "cannot name the cases",
        ),
    ],
)
def test_cases_from__needs_rows_that_name_cases(home, toml, told):
    with pytest.raises(AuditError, match=told):
        _read(home, toml=toml)


def test_missing__codes_of_an_attribute_have_reasons_of_their_own(home):
    found = _read(home, toml=f'cases_from = "participants"\n{TOML}')
    assert found.missing.to_numpy().tolist() == [["c3", "sex", "x", "withdrawn"]]


def test_read_listed__images_have_no_kind(home):
    (home / "t.csv").write_text("case,path,kind\nc1,../all/c1.nii.gz,a photograph\n")
    assert list(read_listed(home / "t.csv").columns) == ["case", "path"]
