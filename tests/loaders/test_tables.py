"""Plain tables of cases with the paths of their masks."""

import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.loaders import load_table


@pytest.fixture
def folder(tmp_path):
    for name in ("gold/a.nii.gz", "gold/b.nii.gz", "net/a.nii.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "cases.csv").write_text(
        "case,patient,sex,age,expert,prediction\n"
        "a,p1,F,61,gold/a.nii.gz,net/a.nii.gz\n"
        "b,p1,F,90+,gold/b.nii.gz,n/a\n"
        "c,p2,M,,,\n"
    )
    return tmp_path


def test_table__cases_attributes_and_mask_sets(folder):
    cohort = load_table(
        folder / "cases.csv",
        {"expert": "expert", "mix": "prediction"},
        labels={"vb": (1,)},
        kinds={"expert": "expert", "mix": "machine"},
    )
    assert list(cohort.cases.columns) == ["case", "patient", "sex", "age", "age_top_coded"]
    assert cohort.cases["sex"].tolist() == ["Female", "Female", "Male"]
    assert cohort.cases["age_top_coded"].tolist() == [False, True, False]
    assert cohort.mask_sets["expert"].masks.to_dict("list") == {
        "case": ["a", "b"],
        "path": [str(folder / "gold" / "a.nii.gz"), str(folder / "gold" / "b.nii.gz")],
        "kind": ["expert", "expert"],
    }
    assert cohort.mask_sets["mix"].masks["case"].tolist() == ["a"]
    missing = [f.message for f in cohort.check() if f.code == "MASKS_MISSING"]
    assert missing == ["1 of 3 cases have no mask (c).", "2 of 3 cases have no mask (b, c)."]


def test_table__paths_start_from_the_root_that_is_named(folder, tmp_path):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (folder / "cases.csv").rename(moved / "cases.csv")
    cohort = load_table(moved / "cases.csv", ["expert"], root=folder)
    assert len(cohort.mask_sets["expert"].masks) == 2
    with pytest.raises(AuditError, match="MASK_DANGLING: 2 of 2 paths"):
        load_table(moved / "cases.csv", ["expert"])


def test_table__every_fault_at_once(folder):
    with pytest.raises(AuditError) as caught:
        load_table(folder / "cases.csv", ["expert", "predictions"], kinds={"expret": "expert"})
    assert [f.code for f in caught.value.findings] == ["UNKNOWN_COLUMN", "UNKNOWN_MASK_SET"]
    assert "did you mean 'prediction'" in caught.value.findings[0].fix


def test_table__a_workbook_is_read_alike(folder):
    rows = pd.read_csv(folder / "cases.csv", dtype=str, keep_default_na=False)
    rows.to_excel(folder / "cases.xlsx", index=False)
    text = load_table(folder / "cases.csv", ["expert"])
    book = load_table(folder / "cases.xlsx", ["expert"])
    pd.testing.assert_frame_equal(text.cases, book.cases)
    pd.testing.assert_frame_equal(text.mask_sets["expert"].masks, book.mask_sets["expert"].masks)
