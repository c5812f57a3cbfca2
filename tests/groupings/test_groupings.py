import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from segaudit.errors import AuditError
from segaudit.groupings import assign, by_cuts, by_level, crossing, parse, parse_all, resolve

CASES = pd.DataFrame(
    {
        "case": ["a", "b", "c", "d", "e"],
        "patient": ["p", "q", "r", "s", "t"],
        "sex": ["Male", "Female", None, "O", "Male"],
        "age": [39.99, 40.0, 60.0, 89.0, np.nan],
        "age_top_coded": [False, False, False, True, False],
    }
)


def _groups(grouping):
    group, reason = assign(resolve(grouping, CASES), CASES)
    return list(group), list(reason)


def test_by_cuts__a_group_holds_its_lower_cut_and_not_its_upper():
    assert _groups(by_cuts("age", "age", 40, 60))[0] == ["<40", "40-60", "60+", "60+", ""]


def test_by_cuts__a_top_coded_age_below_a_cut_is_unassigned_with_its_reason():
    groups, reasons = _groups(by_cuts("age", "age", 40, 90))
    assert groups[3] == ""
    assert reasons[3] == "age is top-coded below the cut at 90"


def test_by_level__missing_and_other_levels_are_unassigned_with_their_reason():
    groups, reasons = _groups(by_level("sex", "Female", "Male"))
    assert groups == ["Male", "Female", "", "", "Male"]
    assert reasons == ["", "", "sex is missing", "'O' is no group of this grouping", ""]


def test_by_level__without_levels_takes_those_that_occur():
    assert resolve(by_level("sex"), CASES).levels == ("Female", "Male", "O")


def test_by_level__values_pool_raw_levels():
    grouping = by_level("sex", "Female", "Not female", values={"Not female": ["Male", "O"]})
    assert _groups(grouping)[0] == ["Not female", "Female", "", "Not female", "Not female"]


def test_crossing__is_assigned_only_where_every_part_is():
    groups, reasons = _groups(crossing(by_level("sex", "Female", "Male"), by_cuts("age", "age", 60)))
    assert groups == ["Male & <60", "Female & <60", "", "", ""]
    assert reasons[4] == "age is missing"


@pytest.mark.parametrize("spec", ["sex*sex", "sex=F,M*sex", "age:40*age:60", "sex*age:40*sex"])
def test_crossing__of_an_attribute_with_itself_is_refused(spec):
    with pytest.raises(AuditError) as caught:
        parse(spec)
    (found,) = caught.value.findings
    assert found.code == "GROUPING_TWICE"
    assert f"divides '{spec[:3]}' twice" in found.message


@pytest.mark.parametrize(
    ("spec", "levels"),
    [
        ("race=White, Black", ("White", "Black")),
        ("age:40,60", ("<40", "40-60", "60+")),
        ("age: 17.5", ("<17.5", "17.5+")),
        ("sex=F,M*age:60", ("F & <60", "F & 60+", "M & <60", "M & 60+")),
        ("Patient Age:50", ("<50", "50+")),
    ],
)
def test_parse__short_forms(spec, levels):
    assert parse(spec).levels == levels


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("", "GROUPING_SPEC"),
        ("age:", "GROUPING_SPEC"),
        ("age:60,40", "GROUPING_CUTS"),
        ("age:40,40", "GROUPING_CUTS"),
        ("age:4..0", "GROUPING_SPEC"),
        ("sex=F,F", "GROUPING_LEVELS"),
        ("sex=F,", "GROUPING_SPEC"),
        ("sex*", "GROUPING_SPEC"),
    ],
)
def test_parse__bad_forms_are_named(spec, code):
    with pytest.raises(AuditError) as error:
        parse(spec)
    assert error.value.findings[0].code == code


def test_parse_all__two_groupings_of_one_attribute_keep_their_own_names():
    assert [g.name for g in parse_all(["age:40,60", "age:50", "sex"])] == ["age", "age:50", "sex"]


def test_parse_all__the_same_grouping_twice_is_refused():
    with pytest.raises(AuditError, match="GROUPING_TWICE"):
        parse_all(["age:50", "age:50", "age:50"])


def test_resolve__an_unknown_attribute_names_the_near_one():
    with pytest.raises(AuditError, match="did you mean 'sex'"):
        resolve(by_level("sexe"), CASES)


def test_resolve__cuts_of_words_are_refused():
    with pytest.raises(AuditError, match="GROUPING_NOT_NUMERIC"):
        resolve(by_cuts("sex", "sex", 1), CASES)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6, unique=True).map(sorted), st.floats(-2e6, 2e6))
def test_by_cuts__agrees_with_counting_the_cuts_at_or_below(cuts, value):
    labels = [f"g{i}" for i in range(len(cuts) + 1)]
    grouping = by_cuts("x", "x", *cuts, labels=labels)
    group, _ = assign(grouping, pd.DataFrame({"case": ["a"], "patient": ["a"], "x": [value]}))
    assert group[0] == f"g{sum(cut <= value for cut in cuts)}"
