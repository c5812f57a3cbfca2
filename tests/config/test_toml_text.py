"""TOML text: tomllib reads back what was written."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segaudit.config.toml_text import toml_text

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = texts | st.booleans() | st.integers() | st.floats(allow_nan=False)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
tables = st.dictionaries(texts, values, max_size=5)


@given(tables)
def test_toml_text__reads_back_the_same(data):
    found = tomllib.loads(toml_text(data))
    assert found == data
    assert _kinds(found) == _kinds(data)  # 1 == 1.0 == True in Python, not here


def _kinds(value):
    if isinstance(value, dict):
        return {name: _kinds(one) for name, one in value.items()}
    return [_kinds(one) for one in value] if isinstance(value, list) else type(value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.inf, "infinity has a name of its own"),
        (-math.inf, "with a sign"),
        (1e300, "an exponent with a sign"),
        (5e-324, "the smallest float"),
        (-0.0, "minus zero is not zero"),
        (10**30, "an int of any size"),
        (False, "no number"),
        ('=cmd()\\"\'\'\'"""\x00\x1b\x7f\r\n\t', "quotes, backslashes, control characters"),
        ("\u202egnp.exe \U000e0041", "direction and tag characters, escaped in both lengths"),
        ([[], {}, [{}]], "nothing, in three shapes"),
        (["x" * 60, "y" * 60], "too long for one line"),
        ([{"a": [{"b": {"c": 1}}]}, {}], "tables in lists of tables"),
    ],
)
def test_toml_text__keeps_a_value(value, why):
    found = tomllib.loads(toml_text({"a key.": value}))["a key."]
    assert repr(found) == repr(value), why


def test_toml_text__nan_reads_back_as_nan():
    assert math.isnan(tomllib.loads(toml_text({"a": math.nan}))["a"])


def test_toml_text__is_as_a_person_would_write_it():
    data = {
        "participants": {"file": "participants.csv"},
        "name": "spine",
        "attributes": {"sex": {"kind": "level"}, "age": {"values": {"F": "Female"}}},
        "mask_sets": [{"name": "expert", "labels": {"vb": [2, 3]}}, {"name": "two"}],
        "long": ["a" * 50, "b" * 50],
    }
    assert (
        toml_text(data)
        == f"""name = "spine"
long = [
    "{"a" * 50}",
    "{"b" * 50}",
]

[participants]
file = "participants.csv"

[attributes.sex]
kind = "level"

[attributes.age.values]
F = "Female"

[[mask_sets]]
name = "expert"

[mask_sets.labels]
vb = [2, 3]

[[mask_sets]]
name = "two"
"""
    )


def test_toml_text__hidden_characters_are_seen():
    assert toml_text({"a": "\u202e\u200b\x85é漢"}) == 'a = "\\u202E\\u200B\\u0085é漢"\n'


@pytest.mark.parametrize("value", [None, b"bytes", 1j, {1, 2}, {"a": {1: 2}}, [None]])
def test_toml_text__refuses_what_toml_cannot_hold(value):
    with pytest.raises(TypeError):
        toml_text({"a": value})


def test_toml_text__refuses_a_lone_surrogate():
    with pytest.raises(ValueError, match="U\\+DCFF"):
        toml_text({"a": "b\udcff"})
