"""The CSpineSeg loader and the writer of folders in its shape, against published counts and planted faults."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.groupings import assign, parse
from segaudit.loaders import LOADERS, load_cspineseg, write_cspineseg
from segaudit.volumes import read_labels, write_labels

SUFFIX = "RSNA_20250321.tsv"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Return the cohort of a folder at the study's size, with the folder and the names of its cases."""
    folder = tmp_path_factory.mktemp("full") / "delivery"
    names = write_cspineseg(folder, seed=5, shrink=32)
    return load_cspineseg(folder), folder, names


@pytest.fixture
def small(tmp_path):
    """Return a small folder with the names of its cases."""
    return tmp_path / "delivery", write_cspineseg(tmp_path / "delivery", n_exams=20, n_patients=16, seed=2, shrink=16)


def table(folder, name):
    path = folder / "structured" / f"{name}_{SUFFIX}"
    return path, pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)


def rewrite(folder, name, change):
    path, rows = table(folder, name)
    change(rows).to_csv(path, sep="\t", index=False)


def codes(findings):
    return Counter(finding.code for finding in findings)


def fault_codes(call):
    with pytest.raises(AuditError) as caught:
        call()
    return codes(caught.value.findings)


def only(findings, code):
    (found,) = [finding for finding in findings if finding.code == code]
    return found


def test_full_size__counts_are_the_published_ones(full, shared):
    cohort, _, names = full
    published = json.loads((shared / "reference" / "published.json").read_text())["table1_cohort"]
    cases = cohort.cases
    assert (len(names), len(cases), cases["patient"].nunique()) == (
        1255,
        published["n0_exams"],
        published["n_patients"],
    )
    for key, column in (("sex", "sex"), ("race", "race"), ("ethnicity", "ethnicity"), ("manufacturer", "manufacturer")):
        counts = cases[column].fillna("Not Reported").value_counts().to_dict()
        assert counts == {row["value"]: row["n"] for row in published[key]}, key
    fields = {float(k): v for k, v in cases["field_strength_t"].value_counts().items()}
    assert fields == {row["value"]: row["n"] for row in published["magnetic_field_strength"]}
    groups, _ = assign(parse("age:40,60"), cases)
    assert groups.value_counts().to_dict() == {row["value"]: row["n"] for row in published["age_three_bins"]}
    assert cases["age_top_coded"].sum() == published["age_stats"]["n_missing"]
    known = cases.loc[~cases["age_top_coded"], "age"]
    assert abs(known.mean() - published["age_stats"]["mean"]) < 1.5
    assert (cases["patient"].value_counts() == 2).sum() == 23


def test_full_size__not_reported_is_missing_with_its_reason(full):
    cohort, *_ = full
    missing = cohort.missing.groupby(["attribute", "reason"]).size().to_dict()
    assert missing == {
        ("race", "not reported"): 33,
        ("ethnicity", "not reported"): 33,
        ("age", "top-coded"): 13,
    }
    assert (cohort.cases["race"] == "Other").sum() == 28


def test_localizer__is_excluded_by_its_dimensions(full):
    cohort, folder, names = full
    assert cohort.excluded.to_dict("records") == [
        {
            "case": names[-1],
            "rule": "localizer",
            "reason": "56 slices of 16 x 16, more than 40: a localizer",
        }
    ]
    assert not cohort.mask_sets["reference"].masks["case"].eq(names[-1]).any()
    assert cohort.cases["n_slices"].between(12, 25).all()
    assert len(load_cspineseg(folder, most_slices=56).cases) == 1255


def test_manufacturers__are_normalised_and_kept_as_written(small):
    folder, _ = small
    cases = load_cspineseg(folder).cases
    _, series = table(folder, "mr_series")
    written = dict(zip(series["submitter_id"], series["manufacturer"], strict=True))
    assert {"SIEMENS", "Siemens", "GE MEDICAL SYSTEMS"} == set(cases["manufacturer_as_written"])
    assert cases["manufacturer_as_written"].tolist() == [written[case] for case in cases["case"]]
    assert cases["manufacturer"].tolist() == [written[case].upper() for case in cases["case"]]


def test_geometry__is_that_of_the_image_header(small):
    folder, _ = small
    cases = load_cspineseg(folder).cases
    for row in cases.itertuples():
        volume = read_labels(folder / "annotation" / f"{row.case}.nii.gz")
        assert (row.n_slices, row.height, row.width) == volume.labels.shape
        assert row.spacing_slice_mm == pytest.approx(volume.grid.spacing_mm[0], rel=1e-5)
        assert row.spacing_column_mm == pytest.approx(row.pixel_spacing_mm, rel=1e-5)


def test_geometry__slices_are_found_along_any_axis(small):
    folder, names = small
    path = folder / "annotation" / f"{names[0]}.nii.gz"
    write_labels(path, np.zeros((30, 30, 14), np.int16), spacing_mm=(0.5, 0.6, 4.0))
    row = load_cspineseg(folder).cases.set_index("case").loc[names[0]]
    found = row[["n_slices", "height", "width", "spacing_slice_mm", "spacing_row_mm", "spacing_column_mm"]]
    assert found.tolist() == pytest.approx([14, 30, 30, 4.0, 0.5, 0.6])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(lambda name: name, id="case"),
        pytest.param(lambda name: f"{name}_SEG.nii.gz", id="mask file"),
        pytest.param(lambda name: f"annotation/{name}.nii.gz", id="image path"),
    ],
)
def test_gold__is_named_by_case_file_or_series(small, tmp_path, written):
    folder, names = small
    listed = [written(name) for name in names[:5]]
    file = tmp_path / "gold.txt"
    file.write_text("\n".join(listed) + "\n\n")
    for gold in (listed, file, str(file)):
        cohort = load_cspineseg(folder, gold=gold)
        provenance = dict(zip(cohort.cases["case"], cohort.cases["provenance"], strict=True))
        assert provenance == {name: "gold" if name in names[:5] else "silver" for name in names[:-1]}
        masks = cohort.mask_sets["reference"].masks
        kinds = dict(zip(masks["case"], masks["kind"], strict=True))
        assert kinds == {case: "expert" if made == "gold" else "machine" for case, made in provenance.items()}


def test_gold__is_found_by_the_id_of_the_series(small):
    folder, names = small
    change = {name: f"S{i}" for i, name in enumerate(names)}
    rewrite(folder, "mr_series", lambda rows: rows.assign(submitter_id=rows["submitter_id"].map(change)))
    column = "mr_series_files.submitter_id"
    rewrite(folder, "annotation_file", lambda rows: rows.assign(**{column: rows[column].map(change)}))
    cases = load_cspineseg(folder, gold=["S0", "S3"]).cases
    assert set(cases.loc[cases["provenance"] == "gold", "case"]) == {names[0], names[3]}


def test_gold__unknown_series_are_named(small):
    folder, names = small
    cohort = load_cspineseg(folder, gold=[names[0], "elsewhere"])
    assert "1 of 2 gold series" in only(cohort.findings, "GOLD_UNKNOWN").message
    assert fault_codes(lambda: load_cspineseg(folder, gold=["elsewhere"])) == {"GOLD_UNKNOWN": 1}
    assert "provenance" not in load_cspineseg(folder).cases
    assert fault_codes(lambda: load_cspineseg(folder, gold=Path("absent.txt"))) == {"FILE_UNREADABLE": 1}


def test_join__every_row_that_finds_no_partner_is_counted(small):
    folder, names = small
    (folder / "annotation" / f"{names[0]}.nii.gz").unlink()
    for name in (f"annotation/{names[1]}.nii.gz", f"segmentation/{names[1]}_SEG.nii.gz"):
        (folder / name).unlink()
    (folder / "segmentation" / f"{names[2]}_SEG.nii.gz").unlink()
    rewrite(folder, "mr_series", lambda rows: rows[rows["submitter_id"] != names[3]])
    extra = {"submitter_id": "593973-999999", "sex": "Male", "race": "White", "ethnicity": "Not Reported"}
    rewrite(folder, "case", lambda rows: pd.concat([rows, pd.DataFrame([extra])]))
    cohort = load_cspineseg(folder)
    messages = {(f.code, Path(f.where).name.removesuffix(f"_{SUFFIX}")): f.message for f in cohort.findings}
    counts = {key: int(found[0]) for key, text in messages.items() if (found := re.match(r"\d+", text))}
    patients = [name.split("_Study-")[0] for name in names]
    idle_patients = 1 + (patients.count(patients[1]) == 1)
    assert counts["LABEL_WITHOUT_IMAGE", "delivery"] == 1
    assert counts["IMAGE_WITHOUT_LABEL", "delivery"] == 1
    assert counts["ROWS_WITHOUT_CASE", "annotation_file"] == 2
    assert counts["ROWS_WITHOUT_CASE", "mr_series"] == 1
    assert counts["ROWS_WITHOUT_CASE", "imaging_study"] == 2  # of the absent files, and of the absent series
    assert counts["ROWS_WITHOUT_CASE", "case"] == idle_patients
    assert counts["CASES_WITHOUT_ROW", "mr_series"] == 1
    assert counts["CASES_WITHOUT_ROW", "imaging_study"] == 1
    assert names[1] not in set(cohort.cases["case"])
    orphan = cohort.cases.set_index("case").loc[names[3]]
    assert orphan["patient"] == patients[3]
    assert pd.isna(orphan["manufacturer"])
    assert orphan["sex"] in {"Female", "Male"}  # the name of the file leads to the patient


def test_columns__an_absent_attribute_is_named_and_left_out(small):
    folder, _ = small
    rewrite(folder, "mr_series", lambda rows: rows.drop(columns="echo_time"))
    cohort = load_cspineseg(folder)
    assert "echo_time" in only(cohort.findings, "COLUMN_MISSING").message
    assert "echo_time_ms" not in cohort.cases


def test_columns__are_found_in_another_table(small):
    folder, _ = small
    before = load_cspineseg(folder)
    ages = table(folder, "imaging_study")[1].set_index("submitter_id")
    rewrite(
        folder,
        "mr_series",
        lambda rows: rows.assign(
            **{
                name: rows["imaging_studies.submitter_id"].map(ages[name])
                for name in ("age_at_imaging", "age_at_imaging_gt89")
            }
        ),
    )
    rewrite(folder, "imaging_study", lambda rows: rows[["submitter_id", "case_ids"]])
    pd.testing.assert_frame_equal(load_cspineseg(folder).cases, before.cases)


def test_columns__a_missing_link_stops_and_all_are_named(small):
    folder, _ = small
    rewrite(folder, "mr_series", lambda rows: rows.rename(columns={"imaging_studies.submitter_id": "study"}))
    rewrite(folder, "annotation_file", lambda rows: rows.rename(columns={"file_name": "name"}))
    assert fault_codes(lambda: load_cspineseg(folder)) == {"COLUMN_MISSING": 2}


def test_columns__without_the_patient_of_a_series_the_file_names_tell(small):
    folder, _ = small
    before = load_cspineseg(folder)
    for name in ("mr_series", "imaging_study"):
        rewrite(folder, name, lambda rows: rows.drop(columns="case_ids"))
    cohort = load_cspineseg(folder)
    assert "case_ids" in only(cohort.findings, "COLUMN_MISSING").message
    pd.testing.assert_frame_equal(cohort.cases, before.cases)


def test_tables__every_table_that_cannot_be_read_is_named(small):
    folder, _ = small
    for name in ("case", "mr_series"):
        path, _ = table(folder, name)
        path.write_text(path.read_text().splitlines()[0] + "\n")
    assert fault_codes(lambda: load_cspineseg(folder)) == {"SHEET_NO_ROWS": 2}


def test_tables__absent_and_ambiguous_ones_stop_together(small):
    folder, _ = small
    path, _ = table(folder, "case")
    path.unlink()
    other, _ = table(folder, "mr_series")
    other.with_name("mr_series_RSNA_20260101.tsv").write_bytes(other.read_bytes())
    (folder / "structured" / f"image_manifest_{SUFFIX}").unlink()
    assert fault_codes(lambda: load_cspineseg(folder)) == {"TABLE_MISSING": 1, "TABLE_DOUBLED": 1}


def test_ids__doubled_rows_and_two_patients_stop(small):
    folder, _ = small
    rewrite(folder, "case", lambda rows: pd.concat([rows, rows.head(1)]))
    rewrite(folder, "mr_series", lambda rows: rows.assign(case_ids=["593973-000000", *rows["case_ids"][1:]]))
    assert fault_codes(lambda: load_cspineseg(folder)) == {"ID_DOUBLED": 1, "PATIENT_CONFLICT": 1}


def test_ids__a_list_of_one_is_that_one(small):
    folder, _ = small
    before = load_cspineseg(folder)
    rewrite(folder, "mr_series", lambda rows: rows.assign(case_ids=[f"['{one}']" for one in rows["case_ids"]]))
    pd.testing.assert_frame_equal(load_cspineseg(folder).cases, before.cases)


def test_images__every_unreadable_header_is_named(small):
    folder, names = small
    for name in names[:2]:
        (folder / "annotation" / f"{name}.nii.gz").write_bytes(b"not an image")
    assert fault_codes(lambda: load_cspineseg(folder)) == {"IMAGE_NOT_NIFTI": 2}


def test_folder__absent_parts_are_named(tmp_path):
    assert fault_codes(lambda: load_cspineseg(tmp_path / "absent")) == {"FOLDER_MISSING": 1}
    assert fault_codes(lambda: load_cspineseg(tmp_path)) == {"FOLDER_MISSING": 1}


def test_writer__same_seed_same_bytes(tmp_path):
    digests = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_cspineseg(tmp_path / name, n_exams=14, n_patients=12, seed=seed, shrink=32)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        digests.append([(path.relative_to(tmp_path / name).as_posix(), path.read_bytes()) for path in files])
    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


@pytest.mark.parametrize(
    ("n_exams", "n_patients", "doubled"), [(12, 12, 0), (23, 12, 11), (101, 90, 11), (300, 295, 5)]
)
def test_writer__any_size_adds_up(tmp_path, n_exams, n_patients, doubled):
    write_cspineseg(tmp_path / "d", n_exams=n_exams, n_patients=n_patients, seed=0, shrink=32)
    cases = load_cspineseg(tmp_path / "d").cases
    assert (len(cases), cases["patient"].nunique()) == (n_exams - 1, n_patients - 1)
    assert (cases["patient"].value_counts() == 2).sum() == doubled
    for attribute, level, share in (("sex", "Female", 683 / 1254), ("manufacturer", "SIEMENS", 788 / 1254)):
        assert abs((cases[attribute] == level).sum() - share * len(cases)) < 1


@pytest.mark.parametrize(("n_exams", "n_patients", "seed"), [(24, 12, 0), (11, 11, 0), (11, 12, 0), (12, 12, -1)])
def test_writer__impossible_sizes_are_refused(tmp_path, n_exams, n_patients, seed):
    call = lambda: write_cspineseg(tmp_path / "d", n_exams=n_exams, n_patients=n_patients, seed=seed)
    assert fault_codes(call) == {"SYNTHETIC_SIZE": 1}
    assert not (tmp_path / "d").exists()


def test_writer__masks_hold_both_structures_on_the_grid_of_the_image(small):
    folder, names = small
    for name in names:
        image = read_labels(folder / "annotation" / f"{name}.nii.gz")
        mask = read_labels(folder / "segmentation" / f"{name}_SEG.nii.gz")
        assert mask.grid == image.grid
        assert set(np.unique(mask.labels)) == {0, 1, 2}


def test_registry__names_every_loader():
    assert LOADERS.names() == ["bids", "cspineseg", "nnunet", "table"]
    with pytest.raises(AuditError, match="did you mean 'nnunet'"):
        LOADERS["nnUnet"]
