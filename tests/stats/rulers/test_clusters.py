"""Groups, patients and rank statistics over many resamples at once, against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kruskal

from segaudit.stats.clusters import (
    drawn_weights,
    kruskal_rows,
    layout,
    many_repeats,
    patient_means,
    residuals,
    untied,
    weighted_medians,
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def test_layout__names_and_counts():
    cases = layout(5, ["b", "a", "b", "c", "a"], [10, 10, 11, 12, 12])
    assert cases.names == ("a", "b", "c")
    assert cases.group.tolist() == [1, 0, 1, 2, 0]
    assert (cases.n_patients, cases.clustered, cases.sizes.tolist()) == (3, True, [2, 2, 1])


def test_layout__without_groups_or_patients():
    cases = layout(3)
    assert (cases.names, cases.n_patients, cases.clustered) == (("",), 3, False)


@pytest.mark.parametrize("what", ["groups", "patients"])
def test_layout__raise_on_wrong_length(what):
    with pytest.raises(ValueError, match=f"{what} must have one entry a case"):
        layout(3, **{what: ["a", "b"]})


@pytest.mark.parametrize("groups", [["a", None], ["a", float("nan")], [1.0, float("nan")], [np.nan, np.nan]], ids=repr)
def test_layout__raise_on_a_missing_group(groups):
    values = np.array(groups, dtype=object if "a" in groups else float)
    with pytest.raises(ValueError, match="groups"):
        layout(2, values)


def test_layout__a_text_column_of_a_table():
    assert layout(2, np.array(["b", "a"], dtype=object)).names == ("a", "b")


@pytest.mark.parametrize(
    "values,ties,why",
    [
        ([0.1 + 0.2, 0.3], True, "noise in the last bit"),
        ([0.3, 0.3 + 1e-9], False, "a real difference"),
        ([1e6 + 1e-7, 1e6], True, "12 digits of a large number"),
        ([1e-9, 2e-9], False, "small numbers keep 12 decimals"),
    ],
)
def test_untied__rounds_away_noise_only(values, ties, why):
    first, second = untied(np.array(values))
    assert (first == second) == ties, why


def test_residuals__are_from_the_own_groups_median():
    cases = layout(5, ["a", "a", "a", "b", "b"])
    assert residuals(np.array([1.0, 2.0, 9.0, 4.0, 8.0]), cases).tolist() == [-1, 0, 7, -2, 2]


def test_patient_means__a_patient_in_two_groups_is_two_units():
    means, group = patient_means(np.array([1.0, 3.0, 5.0, 7.0]), layout(4, ["a", "a", "b", "b"], ["p", "p", "p", "q"]))
    assert sorted(zip(group.tolist(), means.tolist(), strict=True)) == [(0, 2.0), (1, 5.0), (1, 7.0)]


@pytest.mark.parametrize(
    "doubled,expected", [(5, False), (6, True)], ids=["5 % of the patients", "more than 5 % of the patients"]
)
def test_many_repeats__starts_above_five_per_cent(doubled, expected):
    assert many_repeats(layout(100 + doubled, None, [*range(100), *range(doubled)])) == expected


def test_drawn_weights__patients_are_drawn_whole_within_their_group(rng):
    cases = layout(7, list("aaaabbb"), [0, 0, 1, 2, 3, 4, 4])
    weights = np.concatenate(list(drawn_weights(cases, 500, rng)))
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, 5] == weights[:, 6]).all()
    assert set(weights[:, [0, 2, 3]].sum(axis=1)) == {3.0}
    assert set(weights[:, [4, 5]].sum(axis=1)) == {2.0}
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.2)


def test_weighted_medians__equal_the_median_of_the_resample(rng):
    cases = layout(11, list("aaaaabbbbbb"), [0, 0, 1, 2, 3, 4, 5, 6, 7, 7, 8])
    values = np.round(rng.normal(size=11), 1)
    for weights in drawn_weights(cases, 200, rng):
        found = weighted_medians(values, weights, cases)
        for row, drawn in zip(found, weights.astype(int), strict=True):
            for j in (0, 1):
                members = cases.group == j
                assert row[j] == pytest.approx(np.median(np.repeat(values[members], drawn[members])))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_kruskal_rows__equals_scipy_on_the_written_out_resample(data):
    n = data.draw(st.integers(4, 12))
    values = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    labels = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)))
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), dtype=float)
    found = float(kruskal_rows(values, labels, 3, weights[None])[0])
    parts = [np.repeat(values[labels == j], weights[labels == j].astype(int)) for j in range(3)]
    parts = [part for part in parts if part.size]
    pooled = np.concatenate([*parts, np.empty(0)])
    if len(parts) < 2 or np.unique(pooled).size < 2:
        assert found == pytest.approx(0, abs=1e-9)
    else:
        assert found == pytest.approx(kruskal(*parts).statistic)


def test_kruskal_rows__rows_of_labels_and_rows_of_values(rng):
    values, labels = rng.integers(0, 9, size=(3, 30)), rng.integers(0, 3, size=(3, 30))
    rows = kruskal_rows(values, labels, 3)
    for row, v, g in zip(rows, values, labels, strict=True):
        assert row == pytest.approx(kruskal(*(v[g == j] for j in range(3))).statistic)
    assert kruskal_rows(values[0], labels, 3)[1] == pytest.approx(kruskal_rows(values[0], labels[1], 3)[0])
