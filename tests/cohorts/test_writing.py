"""A cohort that is written reads back as the same cohort."""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.attributes import NO_ROW, Attribute, parse_ages, parse_numbers
from segaudit.cohorts import Cohort, MaskSet, make_cohort, read_cohort, write_cohort
from segaudit.errors import AuditError, Finding
from segaudit.loaders import load_cspineseg, write_cspineseg
from segaudit.participants import read_participants, stem

HOSTILE = "=cmd()|'/c calc'!A1 \"x\"\\ ;,\t\r\n\u202eé"

letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
texts = st.text(letters | st.sampled_from(' ,;|"\\\t\r\n=[{()~#.'), max_size=8) | st.sampled_from(
    ["n/a", "Unknown", "-9", "999", "1", "1.0", "Not Reported", "extend", "", " ", "case", HOSTILE, "89+", "nan"]
)
names = texts.map(str.strip).filter(bool)
reasons = st.sampled_from(["missing", "not reported", "declined", NO_ROW, "x"])
coded = st.tuples(texts, reasons)
floats = st.floats(allow_nan=False, allow_infinity=False)
years = st.floats(0, 130)


@st.composite
def attributes(draw, cases, patients):
    """Return an attribute's values, whether each is top-coded, what is missing of it, and itself."""
    kind = draw(st.sampled_from(["level", "number", "age"]))
    of = draw(st.sampled_from(["case", "patient"]))
    usable = {"level": names, "number": floats, "age": years}[kind]
    by_patient = {patient: draw(usable) for patient in dict.fromkeys(patients)}
    values, top, missing = [], [], []
    for case, patient in zip(cases, patients, strict=True):
        state = draw(st.sampled_from(["known", "known", "missing", "unusable", "top"]))
        value = by_patient[patient] if of == "patient" else draw(usable)
        is_top = state == "top" and kind == "age"
        if is_top:
            raw = draw(st.sampled_from([f"{value!r}+", f">{value!r}", "older"]))
            missing.append((case, raw, "top-coded"))
        elif state == "missing" or (state == "unusable" and kind == "level"):
            value = None
            missing.append((case, *draw(coded)))
        elif state == "unusable":
            raw = draw(texts | st.sampled_from(["<1", "200", "1e999", "nine"]))
            parsed = (parse_ages if kind == "age" else parse_numbers)([raw], {})
            value = None
            missing.append((case, raw, parsed.reasons[0] or "missing"))
        values.append(value)
        top.append(is_top)
    return kind, of, values, top, missing


@st.composite
def cohorts(draw, folder):
    cases = sorted(draw(st.lists(names, min_size=1, max_size=5, unique_by=stem)))
    patients = [draw(st.sampled_from(cases)) for _ in cases]
    table, known, missing = {"case": cases, "patient": patients}, {}, []
    usable = names.filter(lambda name: name not in table and not name.endswith("_top_coded"))
    for name in draw(st.lists(usable, max_size=3, unique=True)):
        kind, of, values, top, gone = draw(attributes(cases, patients))
        table[name] = pd.Series(values, dtype=object if kind == "level" else float)
        if kind == "age":
            table[f"{name}_top_coded"] = top
        known[name] = Attribute(name, kind, of, name)
        missing += [(case, name, raw, reason) for case, raw, reason in gone]
    labels = {name: (n, n + 9)[: 1 + n % 2] for n, name in enumerate(draw(st.lists(names, max_size=3, unique=True)), 1)}
    labels.pop("macro", None)
    paths = st.sampled_from(sorted(map(str, folder.iterdir())))
    kinds = st.sampled_from(["expert", "machine", "consensus", "unknown", "expert-revised machine draft"])
    sets = {}
    for name in draw(st.lists(names, max_size=3, unique=True)):
        inside = draw(st.lists(st.sampled_from(cases), min_size=1, unique=True))
        masks = [(case, draw(paths), draw(kinds)) for case in sorted(inside)]
        trained_on = draw(st.none() | st.frozensets(names, max_size=30))
        coding = draw(st.none() | st.just({name: (n,) for n, name in enumerate(labels, 40)}))
        sets[name] = MaskSet(
            name,
            pd.DataFrame(masks, columns=["case", "path", "kind"]),
            draw(kinds),
            draw(texts),
            trained_on,
            coding,
            draw(st.none() | st.just(255)),
        )
    out = draw(st.lists(st.tuples(names, names, names), max_size=3, unique_by=lambda row: row[:2]))
    inside = set(map(stem, cases))
    out = sorted(row for row in out if stem(row[0]) not in inside)
    return Cohort(
        draw(names),
        pd.DataFrame(table),
        labels,
        sets,
        known,
        pd.DataFrame(out, columns=["case", "rule", "reason"]),
        pd.DataFrame(missing, columns=["case", "attribute", "raw", "reason"]),
        models=tuple(draw(st.lists(st.sampled_from(sorted(sets)), unique=True))) if sets else (),
        rulers=tuple(draw(st.lists(st.sampled_from(sorted(sets)), unique=True))) if sets else (),
        images={stem(case): draw(paths) for case in draw(st.lists(st.sampled_from(cases), unique=True))},
    )


def _plain(frame):
    columns = {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame.columns}
    return list(columns), sorted(zip(*columns.values(), strict=True), key=repr)


def _same(cohort, again):
    assert again.name == cohort.name
    assert _plain(again.cases) == _plain(cohort.cases)
    # an attribute's column is that of the new table
    assert [(a.name, a.kind, a.of) for a in again.attributes.values()] == [
        (a.name, a.kind, a.of) for a in cohort.attributes.values()
    ]
    keep = ["case", "attribute", "reason"]
    assert _plain(again.missing[keep]) == _plain(cohort.missing[keep])
    assert _plain(again.excluded) == _plain(cohort.excluded)
    assert (again.models, again.rulers) == (cohort.models, cohort.rulers)
    assert list(again.labels.items()) == list(cohort.labels.items())
    assert again.images == cohort.images
    assert list(again.mask_sets) == list(cohort.mask_sets)
    for name, mask_set in cohort.mask_sets.items():
        other = again.mask_sets[name]
        assert _plain(other.masks) == _plain(mask_set.masks)
        assert replace(other, masks=None) == replace(mask_set, masks=None)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_write_cohort__reads_back_as_the_same_cohort(data):
    with tempfile.TemporaryDirectory() as place:
        files = Path(place) / "files, 'of' \"all\"; kinds"
        files.mkdir()
        for name in ("a.nii.gz", " b .png", "=cmd()|'x'!A1.nii", "~c.nii", "line\nbreak.nii.gz", "[d].nii"):
            (files / name).touch()
        cohort = data.draw(cohorts(files))
        again = read_cohort(write_cohort(cohort, Path(place) / "written"))
        _same(cohort, again)
        assert not [f for f in again.check() if f.level == "error"]


@settings(deadline=None, max_examples=20)
@given(st.data())
def test_write_cohort__writing_again_changes_nothing(data):
    with tempfile.TemporaryDirectory() as place:
        files = Path(place) / "files"
        files.mkdir()
        (files / "a.nii.gz").touch()
        first = write_cohort(data.draw(cohorts(files)), Path(place) / "one")
        second = write_cohort(read_cohort(first), Path(place) / "two")
        names = sorted(path.relative_to(first.parent) for path in first.parent.rglob("*"))
        assert names == sorted(path.relative_to(second.parent) for path in second.parent.rglob("*"))
        for name in (name for name in names if name.suffix):
            assert (first.parent / name).read_bytes() == (second.parent / name).read_bytes()


def test_write_cohort__of_a_delivery_with_a_kind_per_case(tmp_path):
    names = write_cspineseg(tmp_path / "delivery", n_exams=30, n_patients=27, seed=4)
    cohort = load_cspineseg(tmp_path / "delivery", gold=names[:10])
    path = write_cohort(cohort, tmp_path / "cohort")
    again = read_cohort(path)
    _same(cohort, again)
    pd.testing.assert_frame_equal(again.cases, cohort.cases)
    pd.testing.assert_frame_equal(again.missing, cohort.missing)  # the texts, too
    assert set(again.mask_sets["reference"].masks["kind"]) == {"expert", "machine"}
    assert again.cases["age_top_coded"].any()
    assert "localizer" in set(again.excluded["rule"])
    assert not [f for f in again.check() if f.level == "warning"], "no warning that the delivery did not earn"
    assert "../../delivery/segmentation/" in (path.parent / "masks" / "reference.csv").read_text()


def test_write_cohort__keeps_the_texts_of_missing_values_and_the_kinds(tmp_path):
    rows = [
        "c1,p1,F,61,3,1.5", "c2,p2,n/a,>89,,", "c3,p3,Declined,<1,-9,x", "c4,p4,x,abc,7,Unknown", "c5,p5,M,150,8,2",
    ]  # fmt: skip
    (tmp_path / "people.csv").write_text("\n".join(["case,patient,Gender,age,score,dose", *rows]))
    (tmp_path / "cohort.toml").write_text(
        '[participants]\nfile = "people.csv"\nkey = "case"\npatient = "patient"\n'
        '[attributes.sex]\ncolumn = "Gender"\nmissing = { x = "withdrawn" }\n'
        '[attributes.age]\n[attributes.score]\nkind = "number"\n[attributes.dose]\nkind = "number"\n'
    )
    cohort = read_cohort(tmp_path / "cohort.toml")
    assert cohort.missing.set_index(["case", "attribute"])["reason"].to_dict() == {
        ("c2", "sex"): "missing",
        ("c3", "sex"): "declined",
        ("c4", "sex"): "withdrawn",
        ("c2", "age"): "top-coded",
        ("c3", "age"): "bottom-coded",
        ("c4", "age"): "not understood",
        ("c5", "age"): "out of range",
        ("c2", "score"): "missing",
        ("c3", "score"): "missing",
        ("c2", "dose"): "missing",
        ("c3", "dose"): "not understood",
        ("c4", "dose"): "unknown",
    }
    again = read_cohort(write_cohort(cohort, tmp_path / "written"))
    pd.testing.assert_frame_equal(again.missing, cohort.missing)
    pd.testing.assert_frame_equal(again.cases, cohort.cases)
    unreadable = [f.message for f in cohort.check() if f.code == "ATTRIBUTE_UNREADABLE"]
    assert [f.message for f in again.check() if f.code == "ATTRIBUTE_UNREADABLE"] == unreadable != []


def test_write_cohort__a_text_with_two_reasons_is_written_as_its_reason(tmp_path):
    (tmp_path / "people.csv").write_text("case,patient,sex\nc1,p1,\nc2,p2,F\n")
    _touch(tmp_path / "masks", "c1", "c2", "c3")
    masks = pd.DataFrame(
        {"case": ["c1", "c2", "c3"], "path": [str(tmp_path / "masks" / c) for c in ("c1", "c2", "c3")]}
    )
    people = read_participants(tmp_path / "people.csv")
    cohort = make_cohort("small", [MaskSet("expert", masks.assign(kind="expert"), "expert")], people)
    again = read_cohort(write_cohort(cohort, tmp_path / "written"))
    assert again.missing[["case", "raw", "reason"]].to_numpy().tolist() == [
        ["c1", "", "missing"],
        ["c3", NO_ROW, NO_ROW],
    ]
    assert again.cases["patient"].tolist() == ["p1", "p2", "c3"]


def test_write_cohort__numbers_that_stand_for_levels_keep_the_warning_they_had(tmp_path):
    (tmp_path / "people.csv").write_text("case,patient,race\nc1,p1,1\nc2,p2,2\n")
    warned = make_cohort("small", (), read_participants(tmp_path / "people.csv", attributes=["race"]))
    for cohort, expected in ((warned, True), (replace(warned, findings=()), False)):
        again = read_cohort(write_cohort(cohort, tmp_path / str(expected)))
        assert ("LEVEL_CODES_UNEXPLAINED" in {f.code for f in again.check()}) is expected
        assert again.cases["race"].tolist() == ["1", "2"]


def test_write_cohort__columns_that_nobody_declared_are_the_cases(tmp_path):
    table = pd.DataFrame({"case": ["a", "b"], "patient": ["p", "p"], "site": ["x", None], "dose": [1.5, np.nan]})
    again = read_cohort(write_cohort(Cohort("scores", table), tmp_path / "new"))
    assert {name: (a.kind, a.of) for name, a in again.attributes.items()} == {
        "site": ("level", "case"),
        "dose": ("number", "case"),
    }
    assert again.missing["reason"].tolist() == ["missing", "missing"]


def _touch(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()


def _small(folder, **changes):
    _touch(folder / "near", "a.nii.gz")
    masks = pd.DataFrame({"case": ["a"], "path": [str(folder / "near" / "a.nii.gz")], "kind": ["machine"]})
    cases = pd.DataFrame({"case": ["a", "b"], "patient": ["p", "q"], "sex": ["Female", None]})
    sex = {"sex": Attribute("sex", "level", "patient", "sex")}
    return replace(Cohort("small", cases, {"vb": (1,)}, {"net": MaskSet("net", masks)}, sex), **changes)


def test_write_cohort__paths_are_relative_in_the_neighbourhood_and_absolute_beyond(tmp_path, monkeypatch):
    home = tmp_path / "work"
    far = tmp_path / "far" / "b.nii.gz"
    _touch(far.parent, far.name)
    cohort = _small(home)
    monkeypatch.chdir(home)
    masks = pd.DataFrame({"case": ["a", "b"], "path": ["near/a.nii.gz", str(far)], "kind": "machine"})
    path = write_cohort(replace(cohort, mask_sets={"net": MaskSet("net", masks)}), "cohort")
    lines = (path.parent / "masks" / "net.csv").read_text().splitlines()
    assert lines == ["case,path,kind", "a,../../near/a.nii.gz,machine", f"b,{far},machine"]
    assert read_cohort(path).mask_sets["net"].masks["path"].tolist() == ["near/a.nii.gz", str(far)]
    (home / "cohort").rename(home / "moved")  # a whole neighbourhood may move
    home.rename(tmp_path / "elsewhere")
    found = read_cohort(tmp_path / "elsewhere" / "moved" / "cohort.toml").mask_sets["net"].masks["path"]
    assert found.tolist() == [str(tmp_path / "elsewhere" / "near" / "a.nii.gz"), str(far)]


def test_write_cohort__a_wider_neighbourhood_may_be_named(tmp_path):
    cohort = _small(tmp_path / "study" / "outlines")
    for within, expected in (
        (None, str(tmp_path / "study" / "outlines" / "near" / "a.nii.gz")),
        (tmp_path / "study", "../../../outlines/near/a.nii.gz"),
    ):
        path = write_cohort(cohort, tmp_path / "study" / "audit" / "global", within=within)
        assert (path.parent / "masks" / "net.csv").read_text().splitlines()[1] == f"a,{expected},machine"
        found = read_cohort(path).mask_sets["net"].masks["path"].tolist()
        assert found == cohort.mask_sets["net"].masks["path"].tolist()


def test_write_cohort__a_folder_that_is_a_link_leads_to_the_same_files(tmp_path):
    (tmp_path / "deep" / "down").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "down")
    cohort = _small(tmp_path / "deep" / "down")
    path = read_cohort(write_cohort(cohort, tmp_path / "link" / "new")).mask_sets["net"].masks["path"][0]
    assert Path(path).samefile(cohort.mask_sets["net"].masks["path"][0])


def test_write_cohort__names_of_mask_sets_are_no_paths(tmp_path):
    one = _small(tmp_path).mask_sets["net"]
    sets = {name: replace(one, name=name) for name in ("../../up", "A", "a", "..", "x/y\\z", "é" * 200)}
    path = write_cohort(_small(tmp_path, mask_sets=sets), tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new" / "masks").iterdir()) == [
        "A.csv", "a-2.csv", "masks-2.csv", "masks.csv", "up.csv", "x_y_z.csv",
    ]  # fmt: skip
    assert list(read_cohort(path).mask_sets) == list(sets)


def test_write_cohort__a_long_list_of_patients_has_a_table(tmp_path):
    one = _small(tmp_path).mask_sets["net"]
    patients = frozenset(f"p;{n}" for n in range(40))
    path = write_cohort(_small(tmp_path, mask_sets={"net": replace(one, trained_on=patients)}), tmp_path / "new")
    assert 'trained_on = "trained_on/net.csv"' in path.read_text()
    assert read_cohort(path).mask_sets["net"].trained_on == patients
    assert tmp_path / "new" / "trained_on" / "net.csv" in read_cohort(path).files


def test_write_cohort__replaces_its_own_files_and_no_others(tmp_path):
    cohort = _small(tmp_path)
    path = write_cohort(cohort, tmp_path / "new")
    write_cohort(replace(cohort, name="other"), tmp_path / "new")
    assert read_cohort(path).name == "other"
    for name in ("cohort.toml", "participants.csv"):
        _touch(tmp_path / f"with {name}", name)
        with pytest.raises(AuditError, match=f"COHORT_EXISTS.*{name}"):
            write_cohort(cohort, tmp_path / f"with {name}")
        assert [p.name for p in (tmp_path / f"with {name}").iterdir()] == [name]


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"sex": ["F", None]}, "COHORT_UNWRITABLE", "sex F is read as Female"),
        ({"sex": [" x", None]}, "COHORT_UNWRITABLE", "blanks around a level are not read"),
        ({"sex": ["x\0", None]}, "COHORT_UNWRITABLE", "NUL stands in no table"),
        ({"sex": pd.Series(["\udcff", None], dtype=object)}, "COHORT_UNWRITABLE", "half a surrogate pair is no text"),
        ({"case": ["a ", "b"]}, "COHORT_UNWRITABLE", "blanks around a case are not read"),
        ({"case": ["a", "a.png"]}, "KEY_DOUBLED", "an image suffix does not count"),
        ({"patient": ["p", ""]}, "COHORT_UNWRITABLE", "a blank patient is none"),
        ({"patient": ["p", None]}, "PATIENT_BLANK", "what check() finds"),
        ({"patient": ["p", "p"], "sex": ["x", "y"]}, "ATTRIBUTE_VARIES", "the patient's, and differs"),
    ],
)
def test_write_cohort__refuses_what_would_come_back_as_another(tmp_path, changes, code, why):
    cohort = _small(tmp_path)
    with pytest.raises(AuditError) as caught:
        write_cohort(replace(cohort, cases=cohort.cases.assign(**changes)), tmp_path / "new")
    assert code in {finding.code for finding in caught.value.findings}, why
    assert not (tmp_path / "new").exists(), "nothing is written"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cases": pd.DataFrame({"case": [], "patient": [], "sex": []})}, "COHORT_EMPTY"),
        ({"labels": {"macro": (1,)}}, "TOML_VALUE"),
        ({"excluded": pd.DataFrame({"case": ["z"], "rule": ["r"], "reason": [" "]})}, "EXCLUDED_REASON"),
        ({"excluded": pd.DataFrame({"case": ["a"], "rule": ["r"], "reason": ["x"]})}, "COHORT_UNWRITABLE"),
        ({"models": ("nobody",)}, "TOML_VALUE"),
        ({"images": {"a": "x\0"}}, "COHORT_UNWRITABLE"),
        ({"mask_sets": {"n": MaskSet("n", pd.DataFrame({"case": [], "path": []}))}}, "MASKS_NONE"),
    ],
)
def test_write_cohort__refuses_what_cannot_be_read(tmp_path, changes, code):
    with pytest.raises(AuditError) as caught:
        write_cohort(_small(tmp_path, **changes), tmp_path / "new")
    assert code in {finding.code for finding in caught.value.findings}
    assert not (tmp_path / "new").exists()


def test_write_cohort__a_folder_that_cannot_be_made_is_a_finding(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="FILE_UNWRITABLE"):
        write_cohort(_small(tmp_path), tmp_path / "file" / "new")


def test_write_cohort__findings_of_the_reading_are_not_written(tmp_path):
    cohort = _small(tmp_path, findings=(Finding("GOLD_UNKNOWN", "x.", level="warning"),))
    assert "GOLD_UNKNOWN" not in json.dumps([f.code for f in read_cohort(write_cohort(cohort, tmp_path / "n")).check()])
