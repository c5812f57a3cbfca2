"""The readers of tables, TOML and JSON take any bytes: a result or our own error, in bounded time and memory."""

import io
import json
import os
import zipfile

import openpyxl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import segaudit.sheets.base
from segaudit.cohorts import discover_masks, read_cohort
from segaudit.config.base import MAX_TOML_BYTES, read_toml
from segaudit.config.limits import Limits
from segaudit.config.plan import PlanFile
from segaudit.errors import AuditError
from segaudit.participants import read_participants
from segaudit.scores import read_score_table, read_summary
from segaudit.sheets import read_sheet


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in (["case", "dice_vb", "sex"], ["c1", 0.5, "F"], ["c2", "=1+1", None]):
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


SUMMARY = {
    "metric_per_case": [
        {"prediction_file": "a/c1.nii.gz", "metrics": {"1": {"TP": 5, "FP": 1, "FN": 0, "TN": 9}, "(1, 2)": {}}},
        {"prediction_file": "a/c2.nii.gz", "metrics": {"1": {"TP": 0, "FP": 0, "FN": 0, "TN": 15}}},
    ]
}
# Every input that once broke a reader stays here.
CORPUS = {
    "table": [
        b"case,dice_vb,sex\nc1,0.5,F\nc2,nan,M\n",
        b"case;metric;label;value\nc1;dice;vb;0.5\nc1;hd95;vb;inf\n",
        "case\tdice\nc1\t0.9\n".encode("utf-16"),
        b'case,dice_vb\n"c1,0.5\n',
        b"case,dice_vb\nc1," + b"9" * 5000 + b"\n",
        b"case,dice_vb\nc1,1e999\n",
        b"\xff\xfe\x00",
        workbook(),
    ],
    "toml": [
        b'cohort = "cohort.toml"\nby = ["sex", "age:40,60"]\n[success]\ndice = 0.8\n',
        b'name = "x"\n[labels]\nvb = 1\n[[mask_sets]]\nname = "a"\nfolder = "a"\n',
        b'[[limits]]\nquantity = "dir"\nmin = 0.8\n',
        b"seed = " + b"1" * 5000,
        b"a" + b".a" * 2000 + b" = 1",
        b"a = " + b"[" * 3000,
        b"by = [" + b'"' + b"\\" * 99,
        b"cohort = \x00",
    ],
    "summary": [
        json.dumps(SUMMARY).encode(),
        b'{"metric_per_case": [{"prediction_file": 1, "metrics": {"1": {"TP": 1e400, "FP": 0, "FN": 0, "TN": 0}}}]}',
        b'{"metric_per_case": [{"prediction_file": "c", "metrics": {"1": {"TP": ' + b"1" * 5000 + b"}}}]}",
        b'{"metric_per_case": [{"prediction_file": "c", "metrics": {"1": {"TP": NaN, "FP": 0, "FN": 0, "TN": 0}}}]}',
        b'{"metric_per_case": [{"prediction_file": "", "metrics": []}]}',
        b'{"metric_per_case": [null, 1, "x", []]}',
        b"[" * 100_000,
        b'{"metric_per_case": [{"prediction_file": "c", "metrics": {"1": {"TP": 1e300, "FP": 0, "FN": 0, "TN": 0}}}]}',
        b'{"metric_per_case": [{"prediction_file": "\\ud800", "metrics": {}}]}',
        b'{"metric_per_case": [{"prediction_file": "c", "metrics": {"\\udfff": {"TP":1,"FP": 0, "FN": 0, "TN": 0}}}]}',
    ],
}


@st.composite
def damaged(draw, kind: str) -> bytes:
    """Return a file of the corpus with a few bytes cut, turned, doubled or put in, or two of them spliced."""
    data = bytearray(draw(st.sampled_from(CORPUS[kind])))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.integers(0, 40)))
        how = draw(st.sampled_from(["cut", "turn", "double", "put", "splice"]))
        if how == "cut":
            del data[at:to]
        elif how == "turn" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif how == "double":
            data[at:at] = data[at:to] * draw(st.integers(1, 30))
        elif how == "put":
            words = [
                b"\0",
                b"\n",
                b'"',
                b"\xff",
                b"\xe2\x80\xa8",
                b"NaN",
                b"-1",
                b"1e999",
                b"[[",
                b"{}",
                b"=",
                b"\r",
                b",",
            ]
            data[at:at] = draw(st.sampled_from(words)) * draw(st.integers(1, 20))
        elif how == "splice":
            data[at:] = draw(st.sampled_from(CORPUS[kind]))[at:]
    return bytes(data)


def tried(read, folder, data: bytes, bounded) -> None:
    path = folder / "file"
    path.write_bytes(data)
    with bounded():
        try:
            read(path)
        except AuditError as error:
            findings = error.findings
        else:
            findings = ()
    assert all(finding.code and finding.message and finding.where for finding in findings)


def fuzzed(kind):
    """Return the decorator that runs a test on the corpus and on what comes of it, the same at every time."""

    def decorate(test):
        for data in CORPUS[kind]:
            test = example(data=data)(test)
        return settings(settings.get_profile("fixed"))(given(data=damaged(kind) | st.binary(max_size=300))(test))

    return decorate


@pytest.mark.parametrize(
    "read",
    [read_sheet, lambda path: read_score_table(path, ruler="gold"), lambda path: read_participants(path, key="case")],
    ids=["sheet", "scores", "participants"],
)
@fuzzed("table")
def test_tables__any_bytes(read, data, tmp_path_factory, bounded):
    tried(read, tmp_path_factory.getbasetemp(), data, bounded)


@pytest.mark.parametrize(
    "read",
    [lambda path: read_toml(path, PlanFile), lambda path: read_toml(path, Limits), read_cohort],
    ids=["plan", "limits", "cohort"],
)
@fuzzed("toml")
def test_toml__any_bytes(read, data, tmp_path_factory, bounded):
    tried(read, tmp_path_factory.getbasetemp(), data, bounded)


@fuzzed("summary")
def test_summary__any_bytes(data, tmp_path_factory, bounded):
    tried(read_summary, tmp_path_factory.getbasetemp(), data, bounded)


SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"
PARTS = {
    "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">'
    f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}"/></Types>',
    "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{DOCUMENT}"><sheets>'
    '<sheet name="s" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
    f'Type="{DOCUMENT}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
}
SHEET = f'<worksheet xmlns="{SPREADSHEET}"><sheetData>{{}}</sheetData></worksheet>'


def cell(place: str, row: int) -> str:
    return f'<row r="{row}"><c r="{place}{row}" t="inlineStr"><is><t>x</t></is></c></row>'


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (cell("XFD", 1) + cell("A", 1_048_576), "a million rows of 16,384 cells in 200 bytes"),
        ("".join(cell("XFD", row) for row in range(1, 3000)), "rows of one cell each, far to the right"),
    ],
)
def test_workbook__few_bytes_that_stand_for_many_cells_are_refused(tmp_path, bounded, monkeypatch, rows, why):
    monkeypatch.setattr(segaudit.sheets.base, "MAX_CELLS", 20_000_000)
    path = tmp_path / "wide.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**PARTS, "xl/worksheets/sheet1.xml": SHEET.format(rows)}.items():
            archive.writestr(name, text)
    assert path.stat().st_size < 100_000
    with bounded(30, 700), pytest.raises(AuditError, match="SHEET_TOO_LARGE"):
        read_sheet(path)


def test_sheet__with_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(segaudit.sheets.base, "MAX_CELLS", 1000)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * 98)
    assert len(read_sheet(path).table) == 98
    path.write_text("a,b\n" + "1,2\n" * 100)
    with pytest.raises(AuditError, match=r"SHEET_TOO_LARGE.*cells"):
        read_sheet(path)


READERS = {
    "TOML": lambda path: read_toml(path, PlanFile),
    "SUMMARY": read_summary,
    "SHEET": read_sheet,
}


@pytest.mark.parametrize("name", READERS)
def test_file__that_claims_to_be_huge_takes_no_memory(tmp_path, bounded, name):
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # a terabyte of holes
    with bounded(20, 400), pytest.raises(AuditError, match=f"{name}_TOO_LARGE"):
        READERS[name](path)


@pytest.mark.parametrize("name", READERS)
def test_file__that_is_a_pipe_or_a_device_is_not_opened(tmp_path, bounded, name):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):
        with bounded(), pytest.raises(AuditError, match="FILE_UNREADABLE"):
            READERS[name](type(pipe)(path))


def test_toml__at_the_limit_is_read_in_time(tmp_path, bounded):
    path = tmp_path / "long.toml"
    line = b'by = ["sex"]\n'
    path.write_bytes(line + b"#" * (MAX_TOML_BYTES - len(line)))
    with bounded(5, 400):
        read_toml(path, PlanFile)


@pytest.mark.parametrize("within", ["../outside/{case}.nii.gz", "/etc/{case}.nii.gz", "a/../../{case}.nii.gz"])
def test_cohort__a_pattern_that_leads_out_of_its_folder_is_refused(tmp_path, within):
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / "c1.nii.gz").touch()
    text = f'[labels]\nvb = 1\n[[mask_sets]]\nname = "a"\nfolder = "masks"\npattern = "{within}"\n'
    (tmp_path / "cohort.toml").write_text(text)
    with pytest.raises(AuditError, match="MASK_PATTERN"):
        read_cohort(tmp_path / "cohort.toml")


def test_masks__a_file_name_that_is_no_text_is_named(tmp_path):
    try:
        (tmp_path / os.fsdecode(b"c\xff.nii.gz")).touch()
    except OSError:
        pytest.skip("this file system takes only names that are text")
    with pytest.raises(AuditError, match=r"MASK_NAME.*c.udcff"):
        discover_masks(tmp_path)
