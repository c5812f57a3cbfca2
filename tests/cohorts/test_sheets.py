"""Delimited text and workbooks become tables of text, exactly as written."""

import csv
import datetime as dt
import io
import zipfile

import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segaudit.sheets
import segaudit.sheets.workbooks
from segaudit.errors import AuditError
from segaudit.sheets import read_sheet


def _write(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _rows(sheet):
    return [list(sheet.table.columns), *map(list, sheet.table.itertuples(index=False, name=None))]


def _codes(sheet):
    return [finding.code for finding in sheet.findings]


PLAIN = [["case", "sex", "note"], ["c1", "F", ""], ["c02", " M ", "61.0"]]


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        ("case,sex,note\nc1,F,\nc02, M ,61.0\n", "t.csv", "comma"),
        ("case\tsex\tnote\nc1\tF\t\nc02\t M \t61.0", "t.tsv", "tab, no last line break"),
        ("case;sex;note\r\nc1;F;\r\nc02; M ;61.0\r\n", "t.csv", "semicolon, CRLF"),
        ("case|sex|note\nc1|F|\nc02| M |61.0\n", "t.txt", "bar"),
        ("case,sex,note\rc1,F,\rc02, M ,61.0\r", "t.csv", "CR alone"),
        (b"\xef\xbb\xbfcase,sex,note\nc1,F,\nc02, M ,61.0\n", "t.csv", "UTF-8 with a byte order mark"),
        ("case,sex,note\nc1,F,\nc02, M ,61.0\n".encode("utf-16"), "t.csv", "UTF-16 little end first"),
        (b"\xfe\xff" + "case,sex,note\nc1,F,\nc02, M ,61.0\n".encode("utf-16-be"), "t.csv", "UTF-16 big end first"),
        ('"case","sex","note"\n"c1","F",""\n"c02"," M ","61.0"\n', "t.csv", "all quoted"),
        ("case ,\tsex, note \nc1,F,\nc02, M ,61.0\n", "t.csv", "blanks around names go"),
        ("case\tsex\tnote\nc1\tF\t\nc02\t M \t61.0\n", "t.csv", "the content decides, not the suffix"),
    ],
)
def test_sheet__reads_each_dialect(tmp_path, content, name, why):
    sheet = read_sheet(_write(tmp_path, content, name))
    assert _rows(sheet) == PLAIN, why
    assert sheet.line_numbers == (2, 3), why


def test_sheet__quoted_fields_hold_delimiters_line_breaks_and_quotes(tmp_path):
    sheet = read_sheet(_write(tmp_path, 'a,b\r\n"x, y","1\r\n2"\r\n"say ""no""",z\r\n'))
    assert _rows(sheet) == [["a", "b"], ["x, y", "1\r\n2"], ['say "no"', "z"]]
    assert sheet.line_numbers == (2, 4), "a row is named by the line at which it starts"


@pytest.mark.parametrize(
    ("content", "delimiter", "why"),
    [
        ("id;age, years;x\n1;61,5;2\n2;7,25;3\n", ";", "decimal commas are as regular, but cut into fewer fields"),
        ("id\tplace, country\n1\tParis, France\n2\tRome, Italy\n", "\t", "a comma stands in text, a tab does not"),
        ("id,labels\n1,A|B\n2,C\n", ",", "bars inside a field are irregular"),
        ("id,a\n1,x;y\n2,u;v\n", ",", "the header has no semicolon"),
        ('id,a\n1,"x;y;z"\n', ",", "quoted semicolons"),
        ("id\nc1\nc2\n", ",", "one column"),
    ],
)
def test_sheet__finds_the_delimiter_by_the_number_of_fields(tmp_path, content, delimiter, why):
    assert read_sheet(_write(tmp_path, content)).delimiter == delimiter, why


@pytest.mark.parametrize(
    ("content", "names", "why"),
    [
        ("i,S[W,H],P[x,y]\n1,2,3,4,5\n", ["i", "S[W]", "S[H]", "P[x]", "P[y]"], "one field for each part"),
        ('i,S[W,H]\n1,"2,3"\n', ["i", "S[W,H]"], "one field for the whole"),
        ("i,age (years, at scan)\n1,2\n", ["i", "age (years, at scan)"], "round brackets"),
        ("i,a [mm,b\n1,2,3\n", ["i", "a [mm", "b"], "a bracket that never closes is left alone"),
        ("i,S[W,H],\n1,2,3,\n", ["i", "S[W]", "S[H]"], "a comma too many at the end of each line"),
    ],
)
def test_sheet__delimiters_inside_unquoted_names(tmp_path, content, names, why):
    sheet = read_sheet(_write(tmp_path, content), delimiter=",")
    assert list(sheet.table.columns) == names, why
    assert ("HEADER_BRACKETS" in _codes(sheet)) == (why != "a bracket that never closes is left alone")


def test_sheet__windows_1252_is_read_with_a_note(tmp_path):
    sheet = read_sheet(_write(tmp_path, "id,name\n1,Gro\u00dfe\n".encode("windows-1252")))
    assert sheet.table["name"].tolist() == ["Gro\u00dfe"]
    assert _codes(sheet) == ["SHEET_ENCODING_ASSUMED"]
    assert "line 2" in sheet.findings[0].message


def test_sheet__blank_lines_go_with_a_note(tmp_path):
    sheet = read_sheet(_write(tmp_path, "a,b\n1,2\n\n,\n3,4\n,\n , \n\n"))
    assert _rows(sheet) == [["a", "b"], ["1", "2"], ["", ""], ["3", "4"]], "blank cells between rows are data"
    assert sheet.line_numbers == (2, 4, 5)
    assert [finding.message for finding in sheet.findings] == ["4 blank rows were ignored."]


@pytest.mark.parametrize(
    ("content", "options", "code", "says"),
    [
        (b"", {}, "SHEET_EMPTY", "empty"),
        (b"\n \n", {}, "SHEET_EMPTY", "empty"),
        (b"a,b\n", {}, "SHEET_NO_ROWS", "no row"),
        (b"a,b\n,\n", {}, "SHEET_NO_ROWS", "no row"),
        (b"a,b\n1,2\n1,2,3\n", {}, "ROW_RAGGED", "line 3"),
        (b"a,b\n1,2\n1\n", {}, "ROW_RAGGED", "1 fields, the header 2"),
        (b"a,b,a\n1,2,3\n", {}, "COLUMN_DOUBLED", "'a'"),
        (b"a, a\n1,2\n", {}, "COLUMN_DOUBLED", "'a'"),
        (b"a,,c\n1,2,3\n", {}, "COLUMN_UNNAMED", "column 2"),
        (b"a,b\n1,2\n", {"delimiter": ";"}, "SHEET_DELIMITER", "a comma"),
        (b"a,b\n1,2\n", {"delimiter": ", "}, "SHEET_DELIMITER", "', '"),
        (b"a,b\n1,2\x00\n", {}, "SHEET_NUL", "line 2"),
        ("a,b\n1,2\n".encode("utf-16-le"), {}, "SHEET_NUL", "UTF-16"),
        (b'a,b\n1,"2\n3,4\n', {}, "SHEET_QUOTES", "line 2"),
        (b'a,b\n1,"2"x\n', {}, "SHEET_QUOTES", "line 2"),
        (b"a,b\n1," + b"x" * 140_000, {}, "SHEET_FIELD", "characters"),
        (b"a,b\n1,\x81\n", {}, "SHEET_ENCODING", "line 2"),
        (b"a,b\n1,\xe9\n", {"encoding": "utf-8"}, "SHEET_ENCODING", "0xe9"),
        (b"a,b\n1,2\n", {"encoding": "utf-9"}, "SHEET_ENCODING", "utf-9"),
        (b"a,b\n1,2\n", {"sheet": "one"}, "SHEET_FORMAT", "no XLSX"),
        (b"\x1f\x8b\x08\x00", {}, "SHEET_FORMAT", "gzip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", {}, "SHEET_FORMAT", "Excel"),
        (b"PK\x03\x04 nothing", {}, "SHEET_FORMAT", "workbook"),
    ],
)
def test_sheet__bad_files_are_refused_with_their_place(tmp_path, content, options, code, says):
    path = _write(tmp_path, content)
    with pytest.raises(AuditError) as caught:
        read_sheet(path, **options)
    assert [finding.code for finding in caught.value.findings] == [code]
    assert says in str(caught.value)
    assert str(path) in caught.value.findings[0].where
    assert caught.value.findings[0].fix


def test_sheet__many_ragged_rows_are_counted(tmp_path):
    with pytest.raises(AuditError) as caught:
        read_sheet(_write(tmp_path, "a,b\n" + "1,2\n" * 20 + "1\n" * 15), delimiter=",")
    assert len(caught.value.findings) == 11
    assert caught.value.findings[-1].message == "5 more of 35 rows do not have 2 fields."


def test_sheet__absent_folder_and_oversized(tmp_path, monkeypatch):
    for path, code in [(tmp_path / "no.csv", "FILE_MISSING"), (tmp_path, "FILE_UNREADABLE")]:
        with pytest.raises(AuditError, match=code):
            read_sheet(path)
    monkeypatch.setattr(segaudit.sheets, "MAX_SHEET_BYTES", 5)
    with pytest.raises(AuditError, match="SHEET_TOO_LARGE"):
        read_sheet(_write(tmp_path, "a,b\n1,2\n"))


NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff[](){}", exclude_categories=("Cs",)), min_size=1)
    .map(str.strip)
    .filter(bool),
    min_size=1,
    max_size=4,
    unique=True,
)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff", exclude_categories=("Cs",)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), names=NAMES, delimiter=st.sampled_from(",;\t|"), quoting=st.sampled_from([0, 1]))
def test_sheet__any_table_reads_back_equal(data, names, delimiter, quoting, tmp_path_factory):
    row = st.lists(CELLS, min_size=len(names), max_size=len(names))
    filled = row.filter(lambda cells: any(cell.strip() for cell in cells))
    rows = [*data.draw(st.lists(row, max_size=4)), data.draw(filled)]
    if len(names) == 1 and any(mark in names[0] for mark in ",;\t|"):
        return  # one column whose name holds a delimiter is refused
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter, quoting=quoting).writerows([names, *rows])
    path = _write(tmp_path_factory.getbasetemp(), buffer.getvalue())
    assert _rows(read_sheet(path, delimiter=delimiter)) == [names, *rows]


WORDS = st.text("abcXYZ0189 .,'äé-", min_size=1, max_size=6).filter(lambda text: text.strip())


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
)
def test_sheet__the_delimiter_is_found(rows, delimiter, tmp_path_factory):
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=delimiter).writerows([["id", "sex", "age"], *rows])
    path = _write(tmp_path_factory.getbasetemp(), buffer.getvalue())
    assert _rows(read_sheet(path)) == [["id", "sex", "age"], *rows]


# --- workbooks ---------------------------------------------------------------------------------------------------


def _workbook(path, rows, title="people", extra=()):
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    for name in extra:
        book.create_sheet(name).append(["other", "page"])
    book.save(path)
    return path


def test_workbook__values_become_text(tmp_path):
    rows = [
        ["case", "age", "when", "flag", "x", "long"],
        ["c1", 61.0, dt.datetime(2020, 5, 17), True, 0.1, 12345678901234],  # noqa: DTZ001
        ["007", None, dt.datetime(2020, 5, 17, 8, 30), False, 1e-9, None],  # noqa: DTZ001
        [None] * 6,
    ]
    sheet = read_sheet(_workbook(tmp_path / "t.xlsx", rows))
    assert _rows(sheet)[1:] == [
        ["c1", "61", "2020-05-17", "TRUE", "0.1", "12345678901234"],
        ["007", "", "2020-05-17T08:30:00", "FALSE", "1e-09", ""],
    ]
    assert sheet.line_numbers == (2, 3)
    assert sheet.delimiter == ""


def test_workbook__the_suffix_does_not_matter_and_a_page_is_chosen_by_name(tmp_path):
    path = _workbook(tmp_path / "t.csv", [["a", "b"], [1, 2]], extra=["notes"])
    first = read_sheet(path)
    assert list(first.table.columns) == ["a", "b"]
    assert _codes(first) == ["SHEET_ASSUMED"]
    with pytest.raises(AuditError, match="did you mean 'people'"):
        read_sheet(path, sheet="peple")
    assert _codes(read_sheet(path, sheet="people")) == []


def test_workbook__formulas_without_a_result_are_told(tmp_path):
    sheet = read_sheet(_workbook(tmp_path / "t.xlsx", [["a", "b"], ["x", "=1+1"], ["y", 3]]))
    assert sheet.table["b"].tolist() == ["", "3"]
    assert _codes(sheet) == ["SHEET_FORMULAS"]


def _with_member(source, target, name, change):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            content = old.read(member)
            new.writestr(member, change(content) if member == name else content)
    return target


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_workbook__xml_entities_are_refused(tmp_path, encoding):
    bomb = '<?xml version="1.0"?><!DOCTYPE s [<!ENTITY a "aaaaaaaaaa">]><s>&a;</s>'.encode(encoding)
    source = _workbook(tmp_path / "t.xlsx", [["a"], [1]])
    path = _with_member(source, tmp_path / "bomb.xlsx", "xl/worksheets/sheet1.xml", lambda _: bomb)
    with pytest.raises(AuditError, match="SHEET_ENTITIES"):
        read_sheet(path)


def test_workbook__a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = _workbook(tmp_path / "t.xlsx", [["a"], [1]])
    monkeypatch.setattr(segaudit.sheets.workbooks, "MAX_XLSX_BYTES", 100)
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(AuditError, match="SHEET_TOO_LARGE"):
        read_sheet(path)


@pytest.mark.parametrize("change", [lambda raw: raw[: len(raw) // 2], lambda raw: b"<worksheet><broken"])
def test_workbook__broken_archives_are_refused(tmp_path, change):
    source = _workbook(tmp_path / "t.xlsx", [["a"], [1]])
    path = _with_member(source, tmp_path / "broken.xlsx", "xl/worksheets/sheet1.xml", change)
    with pytest.raises(AuditError, match="SHEET_FORMAT"):
        read_sheet(path)
    whole = source.read_bytes()
    with pytest.raises(AuditError, match="SHEET_FORMAT"):
        read_sheet(_write(tmp_path, whole[: len(whole) // 2], "cut.xlsx"))
    with pytest.raises(AuditError, match="SHEET_FORMAT"):
        read_sheet(_write(tmp_path, b"a,b\n1,2\n", "text.xlsx"))


def test_workbook__a_zip_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(AuditError, match="holds no workbook"):
        read_sheet(tmp_path / "t.xlsx")


# --- real files --------------------------------------------------------------------------------------------------


def test_sheet__clinical_table_is_the_same_in_csv_and_xlsx(shared):
    folder = shared / "data" / "breast_mri_scores"
    text, book = read_sheet(folder / "clinical.csv"), read_sheet(folder / "clinical.xlsx", sheet="dataset_info")
    assert len(text.table) == len(book.table) == 1506
    assert text.table["patient_id"].tolist() == book.table["patient_id"].tolist()
    for name in ("age", "weight", "field_strength"):
        left, right = (pd.to_numeric(sheet.table[name].replace("", None)) for sheet in (text, book))
        pd.testing.assert_series_equal(left, right, check_dtype=False)
    for name in ("ethnicity", "menopause", "manufacturer"):
        assert text.table[name].tolist() == book.table[name].tolist()


def test_sheet__radiograph_table_has_eleven_columns(shared):
    sheet = read_sheet(shared / "data" / "cxr_two_physicians" / "demographics_nih_rows.csv")
    assert sheet.table.shape == (50, 11)
    assert list(sheet.table.columns)[7:] == [
        "OriginalImage[Width]",
        "OriginalImage[Height]",
        "OriginalImagePixelSpacing[x]",
        "OriginalImagePixelSpacing[y]",
    ]
    assert sheet.table.iloc[0].tolist()[7:] == ["2500", "2048", "0.168", "0.168"]
