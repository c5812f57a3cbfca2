"""A participants table is read with its dictionary and joined to cases; nothing goes uncounted."""

import json

import pandas as pd
import pytest

from segaudit.attributes import Declaration
from segaudit.errors import AuditError
from segaudit.participants import join_participants, patients_by_rule, read_participants, stem


def _table(folder, text, name="people.csv", sidecar=None):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    if sidecar is not None:
        content = sidecar if isinstance(sidecar, str) else json.dumps(sidecar)
        path.with_suffix(".json").write_text(content, encoding="utf-8")
    return path


def _codes(findings, level=None):
    return [finding.code for finding in findings if level in {None, finding.level}]


PEOPLE = """case_id,patient,Gender,Patient Age,site,psa
c1,p1,F,61,A,1.5
c2,p1,F,62Y,A,n/a
c3,p2,M,89+,B,2
c4,p3,unknown,abc,,-9
"""


def test_participants__attributes_come_with_values_and_reasons(tmp_path):
    declared = {"sex": Declaration(), "age": Declaration(), "psa": Declaration(kind="number", of="case")}
    people = read_participants(_table(tmp_path, PEOPLE), key="case_id", patient="patient", attributes=declared)
    joined = join_participants(people, ["c4", "c1", "c2", "c3", "c9"])
    assert joined.cases["case"].tolist() == ["c1", "c2", "c3", "c4", "c9"]
    assert joined.cases["patient"].tolist() == ["p1", "p1", "p2", "p3", "c9"]
    assert list(joined.cases.columns) == ["case", "patient", "sex", "age", "age_top_coded", "psa"]
    assert joined.cases["sex"].tolist() == ["Female", "Female", "Male", None, None]
    assert joined.cases["age"].fillna(-1).tolist() == [61, 62, 89, -1, -1]
    assert joined.cases["age_top_coded"].tolist() == [False, False, True, False, False]
    assert joined.cases["psa"].fillna(-1).tolist() == [1.5, -1, 2, -1, -1]
    assert set(joined.missing.itertuples(index=False, name=None)) == {
        ("c4", "sex", "unknown", "unknown"),
        ("c9", "sex", "", "no participant row"),
        ("c3", "age", "89+", "top-coded"),
        ("c4", "age", "abc", "not understood"),
        ("c9", "age", "", "no participant row"),
        ("c2", "psa", "n/a", "missing"),
        ("c4", "psa", "-9", "missing"),
        ("c9", "psa", "", "no participant row"),
    }
    text = "\n".join(finding.message for finding in joined.findings)
    assert "sex: missing for 2 of 5 cases (no participant row 1, unknown 1)." in text
    assert "age: 1 value cannot be used (not understood 1): 'abc' (1)." in text
    assert "age: top-coded for 1 of 5 cases (89+)" in text
    assert "1 of 5 cases have no row (c9)" in text
    assert "psa: missing for 3 of 5 cases (missing 2, no participant row 1)." in text


def test_participants__every_column_is_there_when_none_is_named(tmp_path):
    people = read_participants(_table(tmp_path, PEOPLE))
    assert list(people.attributes) == ["sex", "age", "site", "psa"]
    assert {a.name: (a.kind, a.of, a.column) for a in people.attributes.values()} == {
        "sex": ("level", "patient", "Gender"),
        "age": ("age", "case", "Patient Age"),
        "site": ("level", "case", "site"),
        "psa": ("level", "case", "psa"),
    }
    assert _codes(people.findings) == ["KEY_ASSUMED", "PATIENT_ASSUMED", "ATTRIBUTE_ALIAS", "ATTRIBUTE_ALIAS"]
    assert people.attribute("psa", kind="number").values == (1.5, None, 2.0, None)
    assert people.attribute("Gender").values == ("Female", "Female", "Male", None), "any column by its own name"
    joined = join_participants(people, ["c1", "c2", "c3", "c4"])
    assert joined.cases["site"].tolist() == ["A", "A", "B", None]


def test_participants__two_columns_that_fit_are_left_to_the_user(tmp_path):
    path = _table(tmp_path, "case,gender,patient_sex\nc1,F,F\n")
    assert list(read_participants(path).attributes) == ["gender", "patient_sex"]
    with pytest.raises(AuditError, match=r"ATTRIBUTE_AMBIGUOUS: columns 'gender' and 'patient_sex'"):
        read_participants(path, attributes=["sex"])


SIDECAR = {
    "sex": {"Levels": {"1": "male", "2": "female", "n/a": "No response"}},
    "site": {"Levels": {"1": {"Description": "Ithaca"}, "2": ""}, "Annotations": {"MissingValues": ["99"]}},
    "age": {"Units": "months"},
    "note": "text",
}
CODED = "participant_id\tsex\tsite\tage\nsub-1\t1\t1\t24\nsub-2\t2\t2\t36\nsub-3\tn/a\t99\t1Y\nsub-4\t3\t7\t12\n"


def test_sidecar__explains_codes_units_and_missing_values(tmp_path):
    path = _table(tmp_path, CODED, "participants.tsv", SIDECAR)
    people = read_participants(path, key="participant_id", attributes=["sex", "site", "age"])
    assert people.attribute("sex").values == ("Male", "Female", None, "3")
    assert people.attribute("site").values == ("Ithaca", "2", None, "7")
    assert people.attribute("age").values == (2, 3, 1, 1)
    assert _codes(people.attribute("sex").findings) == ["LEVEL_UNDECLARED"]
    assert "'3' (1)" in people.attribute("sex").findings[0].message


def test_sidecar__without_it_numeric_codes_stay_and_are_told(tmp_path):
    path = _table(tmp_path, CODED, "participants.tsv", SIDECAR)
    sex = read_participants(path, key="participant_id", attributes=["sex"], sidecar=None).attribute("sex")
    assert sex.values == ("1", "2", None, "3")
    assert _codes(sex.findings, "warning") == ["LEVEL_CODES_UNEXPLAINED"]


def test_sidecar__the_users_word_wins(tmp_path):
    path = _table(tmp_path, CODED, "participants.tsv", SIDECAR)
    declared = {"sex": Declaration(values={"1": "Homme", "2": "Femme", "3": "Autre"}, missing=("2",))}
    sex = read_participants(path, key="participant_id", attributes=declared).attribute("sex")
    assert sex.values == ("Homme", None, None, "Autre")
    assert sex.findings == ()


@pytest.mark.parametrize(
    ("sidecar", "code", "says"),
    [
        ('{"sex": {"Levels": {"F": "x"}}', "JSON_MALFORMED", "line 1, column 31"),
        ('{\n"a": 1,\n"b" 2}', "JSON_MALFORMED", "line 3, column 5"),
        ("[1, 2]", "JSON_FORMAT", "not list"),
        ("[" * 100_000, "JSON_MALFORMED", "JSON"),
    ],
)
def test_sidecar__broken_ones_are_refused_with_a_way_out(tmp_path, sidecar, code, says):
    path = _table(tmp_path, CODED, "participants.tsv", sidecar)
    with pytest.raises(AuditError) as caught:
        read_participants(path)
    assert caught.value.findings[0].code == code
    assert says in str(caught.value)
    assert "sidecar = false" in caught.value.findings[0].fix
    assert len(read_participants(path, sidecar=None).keys) == 4


@pytest.mark.parametrize(
    ("text", "options", "codes", "says"),
    [
        ("case,sex\nc1,F\nc1,M\n", {}, ["KEY_DOUBLED"], "lines 2, 3"),
        ("case,exam,sex\nc1,e1,F\nc1,e2,M\n", {}, ["KEY_DOUBLED"], 'such as "exam"'),
        ("case,day,sex\nc1,d1,F\nc1,d2,F\nc2,d1,F\n", {}, ["KEY_DOUBLED"], 'such as "{case}_{day}"'),
        ("case,sex\nc1,F\n ,M\n", {}, ["KEY_BLANK"], "lines 3"),
        ("case,sex\nc1,F\nn/a,M\n", {}, ["KEY_BLANK"], "lines 3"),
        ("case,sex\nc1,F\n", {"key": "cas"}, ["UNKNOWN_COLUMN"], "did you mean 'case'"),
        ("case,sex\nc1,F\n", {"patient": "pat"}, ["UNKNOWN_COLUMN"], "patient"),
        ("x,sex\nc1,F\n", {}, ["KEY_NEEDED"], "x, sex"),
        ("a,b\n1,2\n", {"key": "{a}_{c}"}, ["UNKNOWN_COLUMN"], "'c'"),
        ("a,b\n1,2\n", {"key": "{a"}, ["KEY_TEMPLATE"], "{a"),
        ("a,b\n1,\n", {"key": "{a}_{b}"}, ["KEY_BLANK"], "lines 2"),
        ("case,patient\nc1,p1\nc2,\n", {}, ["PATIENT_BLANK"], "lines 3"),
        ("case,sex\nc1,F\n", {"attributes": ["case"]}, ["ATTRIBUTE_NAME"], "'case'"),
        ("case,sex\nc1,F\n", {"attributes": ["race", "ag"]}, ["UNKNOWN_ATTRIBUTE"] * 2, "'ag'"),
        (
            "case,sex\nc1,F\n",
            {"attributes": {"s": Declaration(column="Sex")}},
            ["UNKNOWN_COLUMN"],
            "did you mean 'sex'",
        ),
        (
            "case,age\nc1,61\n",
            {"attributes": {"age": Declaration(kind="age", values={"1": "x"})}},
            ["ATTRIBUTE_VALUES"],
            "kind age",
        ),
        (
            "case,patient,sex\nc1,,F\n,p2,M\n",
            {"attributes": ["race"]},
            ["KEY_BLANK", "PATIENT_BLANK", "UNKNOWN_ATTRIBUTE"],
            "all at once",
        ),
    ],
)
def test_participants__bad_tables_are_refused(tmp_path, text, options, codes, says):
    with pytest.raises(AuditError) as caught:
        read_participants(_table(tmp_path, text), **options)
    assert _codes(caught.value.findings) == codes
    assert says == "all at once" or says in str(caught.value)


def test_participants__identical_rows_count_once_with_a_note(tmp_path):
    people = read_participants(_table(tmp_path, "case,sex\nc1,F\nc1,F\nc2,M\n"))
    assert people.keys == ("c1", "c2")
    assert people.sheet.line_numbers == (2, 4)
    assert "ROWS_REPEATED" in _codes(people.findings)


def test_participants__a_case_may_be_called_999(tmp_path):
    assert read_participants(_table(tmp_path, "case,sex\n999,F\n-1,M\n")).keys == ("999", "-1")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("c1.nii.gz", "c1"),
        ("C1.PNG", "C1"),
        (" c1 ", "c1"),
        ("c.1", "c.1"),
        (".png", ".png"),
        ("cafe\u0301", "caf\u00e9"),
    ],
)
def test_stem__drops_image_suffixes_only(key, expected):
    assert stem(key) == expected


def test_join__keys_with_image_suffixes_meet_cases(tmp_path):
    people = read_participants(_table(tmp_path, "image,sex\na.png,F\nb.png,M\n"), attributes=["sex"])
    joined = join_participants(people, ["a", "b.nii.gz"])
    assert joined.cases["sex"].tolist() == ["Female", "Male"]
    assert "KEY_SUFFIX" in _codes(joined.findings, "note")


def test_join__two_keys_of_one_case_are_refused(tmp_path):
    people = read_participants(_table(tmp_path, "image,sex\na.png,F\na.nii.gz,M\n"))
    with pytest.raises(AuditError, match="name the same case"):
        join_participants(people, ["a"])


def test_join__template_of_columns(tmp_path):
    path = _table(tmp_path, "patient_id,study_id,sex\n10,1,F\n10,2,F\n11,1,M\n")
    people = read_participants(path, key="{patient_id}_{study_id}", attributes=["sex"])
    joined = join_participants(people, ["10_1", "10_2"])
    assert joined.cases["patient"].tolist() == ["10", "10"]
    assert "1 of 3 rows have no case (11_1)." in [finding.message for finding in joined.findings]


@pytest.mark.parametrize(
    ("keys", "cases", "but"),
    [
        (["1", "2"], ["001", "002"], "leading zeros"),
        (["1.0", "2.0"], ["1", "2"], "a trailing '.0'"),
        (["A", "B"], ["a", "b"], "upper and lower case"),
        (["sub-a", "sub-b"], ["a", "b"], "a leading 'sub-'"),
        (["a_0000", "b_0000"], ["a", "b"], "a channel suffix '_0000'"),
    ],
)
def test_join__near_keys_are_named_in_the_fix_and_not_joined(tmp_path, keys, cases, but):
    people = read_participants(_table(tmp_path, "case,sex\n" + "".join(f"{key},F\n" for key in keys)))
    with pytest.raises(AuditError) as caught:
        join_participants(people, cases)
    (finding,) = caught.value.findings
    assert finding.code == "JOIN_EMPTY"
    assert f"2 would meet but for {but}" in finding.fix
    part = join_participants(people, [keys[0], cases[1]])
    warning = next(finding for finding in part.findings if finding.code == "CASES_WITHOUT_ROW")
    assert f"1 would meet but for {but}" in warning.fix
    assert part.cases["sex"].isna().sum() == 1


def test_join__a_rule_makes_the_key_the_patient(tmp_path):
    people = read_participants(_table(tmp_path, "participant_id\tsex\nsub-1\tF\nsub-2\tM\n", "participants.tsv"))
    joined = join_participants(
        people, ["sub-1_ses-1_T1w", "sub-1_ses-2_T1w", "sub-2_T1w"], case_to_patient="^(sub-[^_]+)"
    )
    assert joined.cases["patient"].tolist() == ["sub-1", "sub-1", "sub-2"]
    assert joined.cases["sex"].tolist() == ["Female", "Female", "Male"]
    assert "KEY_IS_PATIENT" in _codes(joined.findings)
    with pytest.raises(AuditError, match="case_to_patient"):
        join_participants(people, ["sub-1_T1w"])


def test_join__patients_that_come_with_the_cases_are_used(tmp_path):
    people = read_participants(_table(tmp_path, "subject,sex\np1,F\np2,M\n"))
    joined = join_participants(people, ["c1", "c2", "c3"], {"c1": "p1", "c2": "p1", "c3": "p2"})
    assert joined.cases["patient"].tolist() == ["p1", "p1", "p2"]
    assert joined.cases["sex"].tolist() == ["Female", "Female", "Male"]
    by_case = read_participants(_table(tmp_path, "case,patient,sex\nc1,p1,F\nc2,p1,F\n"))
    assert join_participants(by_case, ["c1", "c2"], {"c1": "p1", "c2": "p1"}).cases["sex"].tolist() == ["Female"] * 2
    with pytest.raises(AuditError, match=r"PATIENT_CONFLICT: 1 case has .*c2: 'p9' and 'p1'"):
        join_participants(by_case, ["c1", "c2"], {"c1": "p1", "c2": "p9"})


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("(", "RULE_MALFORMED"),
        ("sub-.*", "RULE_MALFORMED"),
        ("^(x)(y)", "RULE_MALFORMED"),
        ("^(p[0-9]+)_", "RULE_UNMATCHED"),
    ],
)
def test_join__bad_rules_are_refused(rule, code):
    with pytest.raises(AuditError) as caught:
        patients_by_rule(["p1_a", "other"], rule)
    assert caught.value.findings[0].code == code


def test_join__a_case_without_any_patient_is_its_own_and_that_is_told(tmp_path):
    path = _table(tmp_path, "case,sex\nc1,F\nc2,M\n")
    joined = join_participants(read_participants(path), ["c1", "c2"])
    assert joined.cases["patient"].tolist() == ["c1", "c2"]
    assert _codes(joined.findings, "warning") == ["PATIENT_IS_CASE"]
    said = join_participants(read_participants(path, patient="case"), ["c1", "c2"])
    assert _codes(said.findings, "warning") == []


def test_join__what_is_the_patients_must_not_vary(tmp_path):
    rows = "".join(f"c{i},p{i // 2},{'F' if i % 2 else 'M'},{60 + i % 2}\n" for i in range(24))
    path = _table(tmp_path, "case,patient,sex,age\n" + rows)
    with pytest.raises(AuditError) as caught:
        join_participants(read_participants(path), [f"c{i}" for i in range(24)])
    (finding,) = caught.value.findings
    assert finding.code == "ATTRIBUTE_VARIES", "the ages vary, too: that is no fault"
    assert "12 patients" in finding.message
    assert "p0: 'Male' (c0) and 'Female' (c1)" in finding.message
    assert finding.message.count(" and 'Female'") == 10, "the first ten are shown"
    assert "2 more" in finding.message
    loose = {"sex": Declaration(of="case")}
    assert len(join_participants(read_participants(path, attributes=loose), ["c0", "c1"]).cases) == 2
    strict = {"age": Declaration(of="patient")}
    with pytest.raises(AuditError, match=r"ATTRIBUTE_VARIES: age"):
        join_participants(read_participants(path, attributes=strict), ["c0", "c1"])


def test_join__a_missing_value_does_not_contradict(tmp_path):
    people = read_participants(_table(tmp_path, "case,patient,sex\nc1,p1,F\nc2,p1,n/a\n"))
    assert join_participants(people, ["c1", "c2"]).cases["sex"].tolist() == ["Female", None]


def test_join__decimal_commas_in_a_semicolon_table(tmp_path):
    declared = {"age": Declaration(), "psa": Declaration(kind="number")}
    path = _table(tmp_path, "case;age;psa\nc1;61,5;0,25\nc2;7;1,234\n")
    people = read_participants(path, attributes=declared)
    assert people.attribute("age").values == (61.5, 7)
    assert people.attribute("psa").values == (0.25, 1.234)


def test_join__shuffled_rows_and_cases_change_nothing(tmp_path):
    lines = PEOPLE.strip().split("\n")
    first = read_participants(_table(tmp_path, PEOPLE))
    other = read_participants(_table(tmp_path, "\n".join([lines[0], *reversed(lines[1:])]) + "\n", "other.csv"))
    left = join_participants(first, ["c1", "c2", "c3", "c4"])
    right = join_participants(other, ["c3", "c1", "c4", "c2"])
    pd.testing.assert_frame_equal(left.cases, right.cases)
    pd.testing.assert_frame_equal(left.missing, right.missing)
