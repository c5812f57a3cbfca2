"""Participants tables that nobody here wrote; the expected counts were taken from the files by other means."""

import collections
import csv

import pytest

from segaudit.attributes import Declaration
from segaudit.errors import AuditError
from segaudit.participants import join_participants, read_participants

# table, rows, columns asked for (sex, age), counts of sex, missing sex, sum of ages, usable ages, oldest
TABLES = [
    ("Face13", 10, ("sex", "age"), {"Female": 5, "Male": 5}, 0, 295, 10, 37),
    ("data-multi-subject", 267, ("sex", "age"), {"Male": 142, "Female": 125}, 0, 8027, 267, 56),
    ("data_example_spinegeneric", 10, ("sex", "age"), {"Male": 5, "Female": 4}, 1, 276, 9, 50),
    ("data_functional_testing", 3, ("sex", "age"), {}, 3, 0, 0, None),
    ("ds000109", 48, ("sex", "age"), {"Female": 27, "Male": 21}, 0, 1933, 48, 88),
    ("ds002041", 25, ("sex", "age"), {"Female": 13, "Male": 12}, 0, 522, 25, 24),
    ("ds002843", 166, ("sex", "age"), {"Male": 98, "Female": 68}, 0, 4070, 166, 34),
    ("ds003592", 301, ("sex", "age"), {"Female": 168, "Male": 132}, 1, 12235 + 89, 301, 89),
    ("ds003848", 6, ("sex", "age"), {"Male": 4, "Female": 2}, 0, 152, 6, 46),
    ("ds004215", 1090, ("sex", "age"), {"Female": 707, "Male": 377}, 6, 41538, 1080, 89),
    ("ds004636", 110, ("sex", "age"), {"Female": 71, "Male": 38}, 1, 2623, 110, 45),
    ("ds004856", 464, ("Sex", "AgeMRI_W1"), {"Female": 287, "Male": 177}, 0, 27084, 464, 89),
    ("ds005498", 152, ("sex", "age"), {"1": 93, "2": 58, "3": 1}, 0, 4730, 152, 61),
    ("mne-bids_tiny_bids", 1, ("sex", "age"), {"Female": 1}, 0, 29, 1, 29),
    ("testdata_site1", 1, ("sex", "age"), {"Male": 1}, 0, 57, 1, 57),
]


def _counts(values):
    return dict(collections.Counter(value for value in values.values if value is not None))


@pytest.mark.parametrize(("name", "rows", "asked", "sexes", "no_sex", "total", "ages", "oldest"), TABLES)
def test_real__participants_tables(shared, name, rows, asked, sexes, no_sex, total, ages, oldest):
    declared = {asked[0]: Declaration(), asked[1]: Declaration(kind="age")}
    path = shared / "data" / "participants" / name / "participants.tsv"
    people = read_participants(path, key="participant_id", attributes=declared)
    assert len(people.keys) == rows
    sex, age = (people.attribute(asked_name) for asked_name in asked)
    assert _counts(sex) == sexes
    assert sum(value is None for value in sex.values) == no_sex
    usable = [value for value in age.values if value is not None]
    assert len(usable) == ages
    assert sum(usable) == pytest.approx(total, abs=1e-6)
    assert max(usable, default=None) == oldest
    joined = join_participants(people, people.keys)
    assert len(joined.cases) == rows
    lost = joined.missing.groupby("attribute").size()
    top = sum(age.top_coded)
    assert lost.get(asked[0], 0) == no_sex
    assert lost.get(asked[1], 0) == rows - ages + top


def test_real__top_coded_age_is_kept_as_a_lower_bound(shared):
    path = shared / "data" / "participants" / "ds003592" / "participants.tsv"
    joined = join_participants(
        read_participants(path, key="participant_id", attributes=["age", "site", "agegroup"]),
        [f"sub-{number:02d}" for number in range(1, 302)],
    )
    assert joined.cases.loc[joined.cases["age_top_coded"], "age"].tolist() == [89]
    assert joined.missing.loc[joined.missing["attribute"] == "age", "raw"].tolist() == ["89+"]
    assert set(joined.cases["site"]) == {"Ithaca, NY", "Toronto, Canada"}, "codes 1 and 2 of the dictionary"
    assert joined.cases["agegroup"].value_counts().to_dict() == {"younger adult": 181, "older adult": 120}


def test_real__numeric_codes_with_a_dictionary(shared):
    path = shared / "data" / "participants" / "ds004856" / "participants.tsv"
    people = read_participants(path, key="participant_id", attributes=["Race", "Ethnicity"])
    race = people.attribute("Race")
    assert _counts(race) == {
        "White/Caucasian": 395,
        "Black/African American": 27,
        "Asian American/Pacific Islander": 14,
        "Other": 12,
        "Multiracial": 8,
        "Native American": 5,
    }
    assert [reason for reason in race.reasons if reason] == ["unknown"] * 3, "code 7 is 'Unknown'"
    ethnicity = people.attribute("Ethnicity")
    assert _counts(ethnicity) == {"0": 437, "Hispanic/Latin(o/a)": 25}
    assert [finding.code for finding in ethnicity.findings] == ["LEVEL_UNDECLARED"], "code 0 stands in no dictionary"


def test_real__numeric_codes_without_a_dictionary_are_told(shared):
    path = shared / "data" / "participants" / "ds005498" / "participants.tsv"
    sex = read_participants(path, key="participant_id", attributes=["sex"]).attribute("sex")
    assert [finding.code for finding in sex.findings] == ["LEVEL_CODES_UNEXPLAINED"]
    assert "'1' (93), '2' (58), '3' (1)" in sex.findings[0].message


def test_real__not_reported_is_missing_and_other_levels_stay(shared):
    path = shared / "data" / "participants" / "ds004636" / "participants.tsv"
    people = read_participants(path, key="participant_id", attributes=["race", "ethnicity"])
    race = people.attribute("race")
    assert sum(_counts(race).values()) == 43 + 38 + 11 + 9 + 2 + 1
    assert collections.Counter(race.reasons) == {"": 104, "unknown or not reported": 3, "missing": 3}
    assert _counts(people.attribute("ethnicity")) == {"not hispanic or latino": 92, "hispanic or latino": 13}


def test_real__malformed_dictionary_is_refused_or_left_out(shared):
    path = shared / "data" / "participants" / "conn-tools" / "participants.tsv"
    with pytest.raises(AuditError) as caught:
        read_participants(path, key="participant_id")
    (finding,) = caught.value.findings
    assert finding.code == "JSON_MALFORMED"
    assert "participants.json, line 32, column 6" in finding.where
    declared = {"sex": Declaration(), "age": Declaration(column="age@ses-1")}
    people = read_participants(path, key="participant_id", attributes=declared, sidecar=None)
    assert _counts(people.attribute("sex")) == {"Female": 86, "Male": 30, "O": 1}
    ages = [value for value in people.attribute("age").values if value is not None]
    assert len(ages) == 116
    assert sum(ages) == pytest.approx(2946.510609, abs=1e-6)


def test_real__a_row_a_session_needs_a_key_of_two_columns(shared):
    path = shared / "data" / "participants" / "ds003416" / "participants.tsv"
    with pytest.raises(AuditError) as caught:
        read_participants(path, key="participant_id")
    assert {finding.code for finding in caught.value.findings} == {"KEY_DOUBLED"}
    assert "lines 2, 3, 4" in caught.value.findings[0].where
    people = read_participants(path, key="{participant_id}_{session_id}", attributes=["sex", "age"])
    joined = join_participants(people, people.keys)
    assert (len(joined.cases), joined.cases["patient"].nunique()) == (169, 97)
    assert joined.cases["sex"].value_counts().to_dict() == {"Male": 104, "Female": 65}
    assert joined.cases["age"].sum() == pytest.approx(2444)


@pytest.mark.parametrize("name", ["clinical.csv", "clinical.xlsx"])
def test_real__breast_scores_meet_every_patient(shared, name):
    folder = shared / "data" / "breast_mri_scores"
    with (folder / "percase_test_scores.csv").open(newline="") as lines:
        cases = [row["case_id"] for row in csv.DictReader(lines)]
    people = read_participants(
        folder / name, key="patient_id", patient="patient_id", attributes=["age", "ethnicity", "site"]
    )
    assert len(people.keys) == 1506
    joined = join_participants(people, cases)
    assert len(joined.cases) == joined.cases["patient"].nunique() == 306
    groups = joined.cases["ethnicity"].value_counts().to_dict()
    assert {name: groups.pop(name) for name in ("caucasian", "african american", "asian")} == {
        "caucasian": 217,
        "african american": 62,
        "asian": 14,
    }
    assert sum(groups.values()) == 8
    assert joined.cases["ethnicity"].isna().sum() == 5
    assert joined.cases["age"].isna().sum() == 1
    assert "1200 of 1506 rows have no case" in "\n".join(finding.message for finding in joined.findings)
    assert not [finding for finding in joined.findings if finding.level == "error"]


def test_real__radiographs_meet_by_image_name(shared):
    folder = shared / "data" / "cxr_two_physicians"
    cases = [path.name.removesuffix(".nii.gz") for path in (folder / "masks" / "physician_1").iterdir()]
    path = folder / "demographics_nih_rows.csv"
    people = read_participants(path, key="Image Index", patient="Patient ID", attributes=["sex", "age"])
    joined = join_participants(people, cases)
    assert len(joined.cases) == joined.cases["patient"].nunique() == 50
    assert joined.cases["sex"].value_counts().to_dict() == {"Female": 32, "Male": 18}
    assert (joined.cases["age"].min(), joined.cases["age"].max(), joined.cases["age"].sum()) == (7, 72, 2320)
    assert joined.missing.empty
    assert {finding.code for finding in joined.findings} == {"HEADER_BRACKETS", "ATTRIBUTE_ALIAS", "KEY_SUFFIX"}


def test_real__lung_nodules(shared):
    path = shared / "data" / "lidc_four_readers" / "cases.csv"
    people = read_participants(path, key="case_id", patient="case_id", attributes=["sex", "age", "manufacturer"])
    joined = join_participants(people, people.keys)
    assert joined.cases["sex"].value_counts().to_dict() == {"Female": 67, "Male": 66}
    assert (joined.cases["age"].min(), joined.cases["age"].max(), joined.cases["age"].sum()) == (14, 88, 7909)


def test_real__prostate_ages_may_differ_between_exams_of_a_patient(shared):
    path = shared / "data" / "prostate_human_vs_ai" / "marksheet.csv"
    people = read_participants(
        path,
        key="{patient_id}_{study_id}",
        patient="patient_id",
        attributes={"age": Declaration(column="patient_age"), "center": Declaration()},
    )
    joined = join_participants(people, people.keys)
    assert (len(joined.cases), joined.cases["patient"].nunique()) == (1500, 1476)
    assert joined.cases["center"].value_counts().to_dict() == {"RUMC": 800, "PCNN": 350, "ZGT": 350}
    strict = {"age": Declaration(column="patient_age", of="patient")}
    people = read_participants(path, key="{patient_id}_{study_id}", patient="patient_id", attributes=strict)
    with pytest.raises(AuditError, match="differs between the cases of 21 patients"):
        join_participants(people, people.keys)


def test_real__dicom_index(shared):
    path = shared / "data" / "dicom_index" / "series.csv"
    people = read_participants(path, key="SeriesInstanceUID", patient="PatientID", attributes=["sex", "age"])
    sex, age = people.attribute("sex"), people.attribute("age")
    assert _counts(sex) == {"Male": 277, "Female": 237, "O": 83, "0000": 3}
    usable = [value for value in age.values if value is not None]
    assert collections.Counter(age.reasons) == {"": 564, "missing": 36}
    assert sum(usable) == pytest.approx(6250.502908966462)
    assert (min(usable), max(usable)) == (0, 90)
    by_raw = dict(zip(age.raw, age.values, strict=True))
    assert by_raw["018M"] == 1.5
    assert by_raw["001D"] == pytest.approx(1 / 365.25)
