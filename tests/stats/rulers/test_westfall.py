"""Westfall and Young's minP, against the loop that defines it."""

import numpy as np
import pytest
from scipy.stats import kruskal

from segaudit.stats.westfall import _permutations, min_p


def data(n=40, seed=2, effect=0.0):
    rng = np.random.default_rng(seed)
    groupings = np.stack([np.arange(n) % 3, rng.integers(-1, 2, size=n)], axis=1)
    base = rng.normal(size=n) + effect * groupings[:, 0]
    return np.stack([base, base + 0.5 * rng.normal(size=n), rng.normal(size=n)], axis=1), groupings


def p_of(column, labels):
    known = ~np.isnan(column) & (labels >= 0)
    parts = [column[known & (labels == j)] for j in np.unique(labels[known])]
    return kruskal(*parts).pvalue if len(parts) > 1 else np.nan


def test_min_p__raw_p_are_kruskal_wallis():
    scores, groupings = data()
    scores[3, 0] = np.nan
    found = min_p(scores, groupings, draws=20, rng=np.random.default_rng(0))
    for row in range(2):
        for column in range(3):
            assert found.p[row, column] == pytest.approx(p_of(scores[:, column], groupings[:, row]))


def test_min_p__equals_the_definition():
    scores, groupings = data(n=30, effect=0.4)
    found = min_p(scores, groupings, draws=200, rng=np.random.default_rng(7))
    taken = _permutations(30, None, 200, np.random.default_rng(7))
    drawn = np.array([[[p_of(s, g) for s in scores.T] for g in groupings[rows].T] for rows in taken])
    smallest = drawn.reshape(200, -1).min(axis=1)
    expected = (1 + np.sum(smallest[:, None] <= found.p.ravel() + 1e-12, axis=0)) / 201
    assert found.single_step.ravel() == pytest.approx(expected)
    order = np.argsort(found.p.ravel())
    down = [
        (1 + np.sum(drawn.reshape(200, -1)[:, order[i:]].min(axis=1) <= found.p.ravel()[order[i]] + 1e-12)) / 201
        for i in range(6)
    ]
    assert found.step_down.ravel()[order] == pytest.approx(np.maximum.accumulate(down))
    rejected = found.p <= found.critical
    assert (rejected == (found.single_step <= 0.05)).all()


def test_min_p__step_down_is_never_larger():
    scores, groupings = data(effect=0.8)
    found = min_p(scores, groupings, draws=300, rng=np.random.default_rng(1))
    assert (found.step_down <= found.single_step + 1e-12).all()
    assert found.single_step.min() < 0.05 < found.single_step.max()


def test_min_p__one_test_is_its_permutation_p():
    scores, groupings = data(n=24)
    found = min_p(scores[:, :1], groupings[:, :1], draws=4000, rng=np.random.default_rng(1))
    assert found.single_step[0, 0] == pytest.approx(found.p[0, 0], abs=0.06)
    assert found.single_step[0, 0] == found.step_down[0, 0]


def test_min_p__copies_of_a_test_cost_nothing():
    scores, groupings = data(effect=0.5)
    one = min_p(scores[:, :1], groupings[:, :1], draws=500, rng=np.random.default_rng(1))
    many = min_p(np.repeat(scores[:, :1], 20, axis=1), groupings[:, :1], draws=500, rng=np.random.default_rng(1))
    assert many.single_step[0] == pytest.approx(np.full(20, one.single_step[0, 0]))


def test_min_p__an_untestable_cell_stays_without_p():
    scores, groupings = data()
    scores[:, 1] = np.nan
    groupings[:, 1] = -1
    found = min_p(scores, groupings, draws=50, rng=np.random.default_rng(1))
    assert np.isnan(found.p[:, 1]).all()
    assert np.isnan(found.p[1]).all()
    assert np.isfinite(found.single_step[0, [0, 2]]).all()
    assert (np.isnan(found.single_step) == np.isnan(found.step_down)).all()


def test_min_p__infinite_scores_rank_last():
    scores, groupings = data()
    finite = scores[:, :1].copy()
    finite[5] = 1e6
    scores[5, 0] = np.inf
    one = min_p(scores[:, :1], groupings, draws=10, rng=np.random.default_rng(1))
    assert one.p == pytest.approx(min_p(finite, groupings, draws=10, rng=np.random.default_rng(1)).p)


def test_permutations__patients_trade_places_whole_with_their_like():
    patients = np.array([0, 0, 1, 2, 2, 3, 4, 5, 5, 5])
    taken = _permutations(10, patients, 300, np.random.default_rng(1))
    assert (np.sort(taken, axis=1) == np.arange(10)).all()
    assert (taken[:, 7:] == [7, 8, 9]).all()
    assert {tuple(row) for row in taken[:, [0, 1, 3, 4]]} == {(0, 1, 3, 4), (3, 4, 0, 1)}
    assert set(taken[:, 2]) == {2, 5, 6}


def test_min_p__raise_on_shapes():
    with pytest.raises(ValueError, match="same rows"):
        min_p(np.zeros((4, 2)), np.zeros((3, 1)), rng=np.random.default_rng(0))


def test_min_p__critical_value_of_the_study(shared):
    """Nine scores of 76 patients and seven groupings drawn at random: 63 tests are worth about 20."""
    columns = range(1, 7)
    table = np.loadtxt(shared / "reference" / "e2_gold_ruler.csv", delimiter=",", skiprows=1, usecols=columns)
    macro = [(table[:, i] + table[:, i + 1]) / 2 for i in (0, 2, 4)]
    scores = np.column_stack([table, *macro])
    rng = np.random.default_rng(1)
    sizes = [(38, 38), (21, 29, 26), (36, 40), (16, 53, 7), (16, 53), (70, 6), (20, 28, 28)]
    groupings = np.full((76, 7), -1)
    for column, parts in enumerate(sizes):
        members = rng.permutation(76)[: sum(parts)]
        groupings[members, column] = np.repeat(np.arange(len(parts)), parts)
    found = min_p(scores, groupings, draws=2000, rng=rng)
    assert 0.0015 < found.critical < 0.0035
