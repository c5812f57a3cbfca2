"""Ages, levels and numbers as people and machines write them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segaudit.attributes import (
    MISSING_CODES,
    SEX_MISSING,
    Declaration,
    canonical,
    codes_for,
    parse_ages,
    parse_levels,
    parse_numbers,
    resolve_column,
    sex_dictionary,
)
from segaudit.errors import AuditError


@pytest.mark.parametrize(
    ("text", "years", "top_coded", "why"),
    [
        ("61", 61, False, "plain"),
        ("61.0", 61, False, "a float of a whole number"),
        ("61,5", 61.5, False, "decimal comma"),
        (" 61 ", 61, False, "blanks"),
        ("61Y", 61, False, "unit"),
        ("061Y", 61, False, "DICOM years"),
        ("018M", 1.5, False, "DICOM months: 18 / 12"),
        ("012W", 12 * 7 / 365.25, False, "DICOM weeks"),
        ("001D", 1 / 365.25, False, "DICOM days"),
        ("042y", 42, False, "lower case"),
        ("61 years", 61, False, "words"),
        ("1 year", 1, False, "one"),
        ("3 mo.", 0.25, False, "an abbreviation"),
        ("000Y", 0, False, "a newborn"),
        ("0", 0, False, "zero is an age"),
        ("130", 130, False, "the limit"),
        ("89+", 89, True, "top-coded"),
        (">89", 89, True, "a sign"),
        ("> 89", 89, True, "a sign and a blank"),
        (">= 90", 90, True, "two signs"),
        ("\u2265 90", 90, True, "one sign for two"),
        ("90+ years", 90, True, "unit after the plus"),
        ("089Y+", 89, True, "plus after the unit"),
        ("89 or older", 89, True, "words"),
        ("90 years and over", 90, True, "words after the unit"),
        ("over 89", 89, True, "words before"),
    ],
)
def test_ages__usable(text, years, top_coded, why):
    parsed = parse_ages([text])
    assert parsed.years[0] == pytest.approx(years, rel=1e-15), why
    assert parsed.top_coded[0] == top_coded, why
    assert parsed.reasons == ("",), why
    assert parsed.years.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "reason", "why"),
    [
        ("", "missing", "blank"),
        ("  ", "missing", "blanks"),
        ("n/a", "missing", "BIDS"),
        ("N/A", "missing", "case does not count"),
        ("N-A", "missing", "as DICOM indices write it"),
        ("-", "missing", "a dash"),
        ("-1", "missing", "a numeric code"),
        ("-1.0", "missing", "the same code as a float"),
        ("999", "missing", "a numeric code, not an age out of range"),
        ("Unknown", "unknown", "a word"),
        ("Not Reported", "not reported", "another word"),
        ("-5", "out of range", "negative"),
        ("131", "out of range", "above 130"),
        ("1956", "out of range", "a year of birth"),
        ("1600M", "out of range", "133 years in months"),
        ("<1", "bottom-coded", "only an upper bound"),
        ("under 18", "bottom-coded", "the same in words"),
        ("40-49", "not understood", "a range"),
        ("1,234", "not understood", "a thousand, or a fraction"),
        (">89+", "not understood", "top-coded twice"),
        ("abc", "not understood", "no number"),
        ("inf", "not understood", "no age"),
        ("6 1", "not understood", "two numbers"),
        ("\u0666\u0661", "not understood", "digits of another script are not guessed"),
    ],
)
def test_ages__unusable_with_a_reason(text, reason, why):
    parsed = parse_ages([text])
    assert math.isnan(parsed.years[0]), why
    assert parsed.reasons == (reason,), why
    assert not parsed.top_coded[0], why


@given(st.lists(st.floats(0, 130), max_size=20))
def test_ages__floats_read_back_exactly(values):
    assert parse_ages([repr(value) for value in values]).years.tolist() == values


@given(st.integers(0, 999), st.sampled_from("DWMY"))
def test_ages__dicom_strings_read_back(number, unit):
    years = number * {"D": 1 / 365.25, "W": 7 / 365.25, "M": 1 / 12, "Y": 1}[unit]
    parsed = parse_ages([f"{number:03d}{unit}"])
    assert parsed.reasons[0] == ("" if years <= 130 else "out of range")
    assert years > 130 or parsed.years[0] == pytest.approx(years, rel=1e-14)


@given(st.integers(0, 130), st.sampled_from(["{}+", ">{}", "> {}", "{} or older", "{}Y+", "over {}"]))
def test_ages__top_codes_keep_their_lower_bound(number, form):
    parsed = parse_ages([form.format(number)])
    assert (parsed.years[0], parsed.top_coded[0], parsed.reasons) == (number, True, ("",))


@given(st.lists(st.text(max_size=6)))
def test_ages__every_value_is_an_age_or_has_a_reason(values):
    parsed = parse_ages(values)
    assert [math.isnan(years) for years in parsed.years] == [bool(reason) for reason in parsed.reasons]
    assert len(parsed.years) == len(parsed.top_coded) == len(parsed.reasons) == len(values)


def test_ages__a_unit_of_the_column_counts_where_the_cell_has_none():
    assert parse_ages(["18", "2Y"], unit="months").years.tolist() == [1.5, 2]


@pytest.mark.parametrize(
    ("text", "decimal", "number", "reason"),
    [
        ("1.5", ".", 1.5, ""),
        ("-0.5", ".", -0.5, ""),
        ("1e3", ".", 1000, ""),
        ("1,5", ",", 1.5, ""),
        ("1.5", ",", 1.5, ""),
        ("1,5", ".", None, "not understood"),
        ("1.234,5", ",", None, "not understood"),
        ("1,234,567", ",", None, "not understood"),
        ("5 mg", ".", None, "not understood"),
        ("1e999", ".", None, "not understood"),
        ("-9", ".", None, "missing"),
        ("unknown", ".", None, "unknown"),
    ],
)
def test_numbers__parse(text, decimal, number, reason):
    parsed = parse_numbers([text], decimal=decimal)
    assert parsed.reasons == (reason,)
    assert math.isnan(parsed.values[0]) if number is None else parsed.values[0] == number


SEX_CODES = codes_for({**MISSING_CODES, **SEX_MISSING}, "level")


@pytest.mark.parametrize(
    ("text", "level", "reason"),
    [
        ("M", "Male", ""),
        ("m", "Male", ""),
        ("MALE", "Male", ""),
        ("male", "Male", ""),
        ("F", "Female", ""),
        ("f ", "Female", ""),
        ("Female", "Female", ""),
        ("O", "O", ""),
        ("Other", "Other", ""),
        ("transgender_male_to_female", "transgender_male_to_female", ""),
        ("U", None, "unknown"),
        ("unknown", None, "unknown"),
        ("-", None, "missing"),
        ("1", "1", ""),
        ("0000", "0000", ""),
        ("999", "999", ""),
    ],
)
def test_levels__sex(text, level, reason):
    parsed = parse_levels([text], sex_dictionary({}), SEX_CODES)
    assert (parsed.levels, parsed.reasons) == ((level,), (reason,))


def test_levels__dictionary():
    book = {"1": "Asian", "7": "Unknown", "m": "milli", "M": "mega", "x": ""}
    parsed = parse_levels(["1", "7", "M", "m", "asian", "9", "9", "x", "n/a"], book, codes_for(MISSING_CODES, "level"))
    assert parsed.levels == ("Asian", None, "mega", "milli", "asian", "9", "9", "x", None)
    assert parsed.reasons == ("", "unknown", "", "", "", "", "", "", "missing")
    assert parsed.unexplained == {"9": 2}, "a value that a level is called is explained"


def test_levels__words_of_a_dictionary_become_male_and_female():
    book = sex_dictionary({"1": "male", "2": "FEMALE", "3": "diverse"})
    assert parse_levels(["1", "2", "3", "F"], book).levels == ("Male", "Female", "diverse", "Female")


def test_codes__numbers_count_for_numbers_and_ages_unless_named():
    assert "999" not in codes_for(MISSING_CODES, "level")
    assert codes_for(MISSING_CODES, "number")["999"] == "missing"
    assert codes_for(MISSING_CODES, "level", Declaration(missing=("9",)))["9"] == "missing"
    assert "none" not in codes_for(MISSING_CODES, "level", Declaration(values={"None": "no implant"}))


@pytest.mark.parametrize(
    ("name", "columns", "found", "why"),
    [
        ("sex", ["Sex", "sex", "Gender"], "sex", "the exact name wins"),
        ("sex", ["SEX", "Gender"], "SEX", "then the name but for case"),
        ("sex", ["Patient Gender", "x"], "Patient Gender", "then an alias"),
        ("sex", ["PatientSex"], "PatientSex", "DICOM"),
        ("age", ["age_at_imaging"], "age_at_imaging", "an archive"),
        ("age", ["Patient Age", "AgeMRI_W1"], "Patient Age", "only names in the table of aliases"),
        ("field strength", ["Field_Strength"], "Field_Strength", "punctuation"),
        ("race", ["patient_race", "ethnicity"], "patient_race", "race is not ethnicity"),
    ],
)
def test_columns__resolve(name, columns, found, why):
    column, note = resolve_column(name, columns, "t.csv")
    assert column == found, why
    assert (note is None) == (name == found)


@pytest.mark.parametrize(
    ("name", "columns", "code", "says"),
    [
        ("sex", ["gender", "patient_sex"], "ATTRIBUTE_AMBIGUOUS", "'gender' and 'patient_sex'"),
        ("age", ["AGE", "Age"], "ATTRIBUTE_AMBIGUOUS", "'AGE' and 'Age'"),
        ("sexx", ["sex", "age"], "UNKNOWN_ATTRIBUTE", "did you mean 'sex'"),
        ("race", ["ethnicity"], "UNKNOWN_ATTRIBUTE", "ethnicity"),
    ],
)
def test_columns__unknown_and_ambiguous(name, columns, code, says):
    with pytest.raises(AuditError) as caught:
        resolve_column(name, columns, "t.csv")
    assert caught.value.findings[0].code == code
    assert says in str(caught.value)


def test_columns__canonical():
    assert [canonical(name) for name in ("Gender", "PatientAge", "Race", "weight")] == ["sex", "age", "race", None]
