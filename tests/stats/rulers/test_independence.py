"""Shared errors, inflation and error maps, against counting by hand and simulated masks."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.ndimage import distance_transform_edt, gaussian_filter
from scipy.stats import wilcoxon

from segaudit.stats.error_maps import adjudication_counts, error_counts, shell_counts
from segaudit.stats.independence import (
    adjudication,
    adjudication_share,
    band,
    from_dice,
    from_errors,
    inflation,
    kappa_err,
    shared_error_bound,
    shared_errors,
)

MAPS = arrays(np.int8, (3, 4, 6, 5), elements=st.integers(0, 2))


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def dice(a, b):
    return 2 * np.count_nonzero(a & b) / (np.count_nonzero(a) + np.count_nonzero(b))


@settings(deadline=None)
@given(MAPS)
def test_error_counts__identity_of_the_five_counts(maps):
    for label in (None, 1):
        found = error_counts(*maps, label)
        assert found.d == found.a + found.b - 2 * found.c - found.c_diff
        assert label is None or found.c_diff == 0


def test_error_counts__two_labels_may_differ_differently():
    found = error_counts(np.array([1, 2, 0]), np.array([2, 2, 0]), np.array([0, 0, 0]))
    assert (found.a, found.b, found.c, found.c_diff, found.d) == (2, 2, 1, 1, 1)


@settings(deadline=None)
@given(MAPS)
def test_from_dice__gives_back_the_voxel_counts(maps):
    model, ruler, gold = (one == 1 for one in maps)
    if not (model.any() and gold.any() and ruler.any()):
        return
    counts = error_counts(*maps, 1)
    found = from_dice(
        [dice(model, gold)],
        [dice(ruler, gold)],
        [dice(model, ruler)],
        volume_model=[model.sum()],
        volume_ruler=[ruler.sum()],
        volume_gold=[gold.sum()],
    )
    got = [float(value[0]) for value in (found.a, found.b, found.c, found.d)]
    assert got == pytest.approx([counts.a, counts.b, counts.c, counts.d], abs=1e-9)


@settings(deadline=None)
@given(st.integers(0, 10_000))
def test_inflation__higher_score_exactly_when_half_the_rulers_errors_are_shared(seed):
    rng = np.random.default_rng(seed)
    masks = np.zeros((3, 40), dtype=bool)
    masks[0, :15] = True
    for mask in masks[1:]:
        moved = rng.permutation(15)[: rng.integers(1, 6)]
        mask[:15] = True
        mask[moved] = False
        mask[15 + rng.permutation(25)[: moved.size]] = True
    gold, model, ruler = masks.astype(np.int8)
    counts = error_counts(model, ruler, gold, 1)
    higher = dice(model > 0, ruler > 0) - dice(model > 0, gold > 0)
    assert np.sign(round(higher, 12)) == np.sign(counts.c - counts.b / 2)


@settings(deadline=None)
@given(MAPS)
def test_shared_errors__never_below_the_bound(maps):
    counts = error_counts(*maps, 1)
    if not counts.a:
        return
    rng = np.random.default_rng(0)
    found = shared_errors([counts.a], [counts.b], [counts.c], [counts.d], draws=5, rng=rng)
    assert found.of_model.value >= found.bound.value - 1e-12


def test_shared_errors__pools_cases_and_draws_patients(rng):
    a, b, c, d = np.array([[10, 30, 20, 40], [8, 20, 30, 40], [5, 10, 15, 30], [8, 30, 20, 20]], dtype=float)
    found = shared_errors(a, b, c, d, patients=["p", "p", "q", "r"], draws=4000, rng=rng)
    assert found.of_model.value == pytest.approx(60 / 100)
    assert found.of_ruler.value == pytest.approx(60 / 98)
    assert found.cosine.value == pytest.approx(60 / np.sqrt(9800))
    assert found.bound.value == pytest.approx(1 - 78 / 100)
    # all 27 draws of three patients p (15/40), q (15/20), r (30/40)
    sums = {"p": (15, 40), "q": (15, 20), "r": (30, 40)}
    shares = [
        sum(sums[one][0] for one in draw) / sum(sums[one][1] for one in draw)
        for draw in [(i, j, k) for i in "pqr" for j in "pqr" for k in "pqr"]
    ]
    assert (found.of_model.low, found.of_model.high) == pytest.approx((min(shares), max(shares)))


def test_shared_errors__a_bound_below_zero_is_zero(rng):
    bound = shared_error_bound([0.1, 0.2], [0.3, 0.3], draws=50, rng=rng)
    assert (bound.value, bound.low, bound.high) == (0.0, 0.0, 0.0)


def test_shared_errors__undefined_without_errors(rng):
    found = shared_errors([0, 0], [0, 1], [0, 0], [0, 1], draws=20, rng=rng)
    assert np.isnan([found.of_model.value, found.of_model.low, found.cosine.value]).all()
    assert found.of_ruler.value == 0.0


def test_shared_errors__raise_on_lengths(rng):
    with pytest.raises(ValueError, match="one entry a case"):
        shared_errors([1, 2], [1], [1], [1], rng=rng)


def test_from_errors__is_exact_for_equal_volumes():
    equal = from_errors([0.8], [0.7], [0.9])
    exact = from_dice([0.8], [0.7], [0.9], volume_model=[10], volume_ruler=[10], volume_gold=[10])
    assert float(equal.c[0] / equal.a[0]) == pytest.approx(float(exact.c[0] / exact.a[0]))


def test_inflation__equals_the_t_interval_of_patients_means():
    trusted, other = np.zeros(6), np.array([1.0, 3.0, 4.0, 6.0, -1.0, 0.0])
    found = inflation(trusted, other, patients=["p", "p", "q", "r", "s", "t"])
    means = np.array([2.0, 4.0, 6.0, -1.0, 0.0])
    half = 2.7764451051977987 * means.std(ddof=1) / np.sqrt(5)
    assert (found.mean, found.low, found.high) == pytest.approx((2.2, 2.2 - half, 2.2 + half))
    averages = [(a + b) / 2 for i, a in enumerate(means) for b in means[i:]]
    assert found.shift == pytest.approx(np.median(averages))
    assert (found.shift_low, found.shift_high) == pytest.approx((-1.0, 6.0))
    assert (found.n_patients, found.n_higher) == (5, 3)


def test_inflation__shift_limits_are_where_wilcoxon_stops_rejecting():
    differences = np.random.default_rng(4).normal(0.3, 1, size=60)
    found = inflation(np.zeros(60), differences)
    for limit, inward in ((found.shift_low, 1e-3), (found.shift_high, -1e-3)):
        inside = wilcoxon(differences - limit - inward, correction=True, method="asymptotic").pvalue
        outside = wilcoxon(differences - limit + 40 * inward, correction=True, method="asymptotic").pvalue
        assert outside < 0.05 <= inside + 0.003


def test_inflation__one_patient_has_no_interval():
    found = inflation([0.5, 0.6], [0.7, 0.9], patients=["p", "p"])
    assert found.mean == pytest.approx(0.25)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(
    "limits,word",
    [
        ({}, "no dependence shown"),
        ({"kappa_low": 0.10}, "no dependence shown"),
        ({"kappa_low": 0.11}, "dependent"),
        ({"kappa_low": 0.05, "inflation_low": 0.001}, "too close to be an independent benchmark"),
        ({"kappa_low": 0.9, "inflation_low": -0.1, "bound_low": 0.5}, "dependent"),
        ({"inflation_low": 0.1, "bound_low": 0.51}, "near-clone"),
    ],
)
def test_band__strongest_word(limits, word):
    assert band(**limits) == word


@pytest.mark.parametrize(
    "limits,word",
    [
        ((0.51, 0.7), "the errors are truly shared"),
        ((0.2, 0.49), "the errors are those of the gold"),
        ((0.4, 0.6), "leakage and gold noise cannot be separated"),
        ((), "leakage and gold noise cannot be separated"),
    ],
)
def test_adjudication__words(limits, word):
    assert adjudication(*limits) == word


def test_adjudication__counts_and_share(rng):
    model, ruler = np.array([1, 1, 2, 0, 1, 2]), np.array([1, 1, 2, 0, 2, 2])
    gold, second = np.array([0, 0, 1, 0, 0, 2]), np.array([0, 1, 1, 0, 0, 2])
    assert adjudication_counts(model, ruler, gold, second) == (2, 3)
    found = adjudication_share([2, 0], [3, 1], draws=200, rng=rng)
    assert found.value == pytest.approx(0.5)


@pytest.mark.parametrize("spacing", [None, (1.5, 0.7)], ids=["voxels", "mm"])
def test_shell_counts__equal_counting_over_the_whole_image(spacing):
    rng = np.random.default_rng(3)
    gold = np.zeros((60, 70), dtype=np.uint8)
    gold[20:41, 25:50] = 1
    model, ruler = ((gold ^ (rng.random(gold.shape) < 0.1)).astype(np.uint8) for _ in range(2))
    sampling = spacing or (1, 1)
    inner = np.floor(distance_transform_edt(gold == 1, sampling=sampling))
    outer = np.floor(distance_transform_edt(gold == 0, sampling=sampling))
    a, b, c, expected = 0, 0, 0, 0.0
    for inside, t in itertools.product([True, False], range(9)):
        shell = (gold == inside) & (np.where(inside, inner, outer) == t)
        if shell.any():
            in_a, in_b = (model != gold) & shell, (ruler != gold) & shell
            a, b, c = a + in_a.sum(), b + in_b.sum(), c + (in_a & in_b).sum()
            expected += in_a.sum() * in_b.sum() / shell.sum()
    found = shell_counts(model, ruler, gold, 1, spacing)
    assert (found.c, found.smaller) == (c, min(a, b))
    assert found.expected == pytest.approx(expected)


def test_shell_counts__one_square_by_hand():
    gold = np.zeros((7, 7), dtype=int)
    gold[2:5, 2:5] = 1
    model, ruler = gold.copy(), gold.copy()
    model[2, 2] = model[2, 3] = 0  # two of the 8 voxels in shell -1
    ruler[2, 2] = 0  # one of them
    ruler[3, 3] = 0  # the centre, alone in shell -2
    found = shell_counts(model, ruler, gold, 1)
    assert (found.c, found.smaller) == (1, 2)
    assert found.expected == pytest.approx(2 * 1 / 8)
    assert shell_counts(model == 1, ruler == 1, gold == 1) == found


@pytest.mark.parametrize("value", [0, 1], ids=["label absent", "label everywhere"])
def test_shell_counts__without_a_boundary_nothing_counts(value):
    gold = np.full((5, 5), value)
    found = shell_counts(1 - gold, 1 - gold, gold, 1)
    assert (found.c, found.expected, found.smaller) == (0, 0.0, 0)


def test_error_maps__raise_on_shapes():
    flat, deep = np.zeros((4, 4), dtype=int), np.zeros((4, 4, 1), dtype=int)
    with pytest.raises(ValueError, match="one shape"):
        error_counts(flat, flat, deep)
    with pytest.raises(ValueError, match="2 entries for 3 axes"):
        shell_counts(deep, deep, deep, 1, (1.0, 1.0))


def boundary_errors(rng, rho, cases=40, shape=(44, 44)):
    """Return kappa_err's pieces and a, b, c, d of masks whose edges are moved by smooth fields of correlation rho."""
    pieces, counts = [], []
    grid = np.stack(np.meshgrid(*[np.arange(n) - n / 2 for n in shape], indexing="ij"))
    signed = np.linalg.norm(grid, axis=0) - 12
    gold = (signed < 0).astype(np.int8)
    for _ in range(cases):
        fields = [gaussian_filter(rng.normal(size=shape), 3) for _ in range(2)]
        first, second = (field / field.std() for field in fields)
        moved = (first, rho * first + np.sqrt(1 - rho**2) * second)
        model, ruler = ((signed < 1.5 * field).astype(np.int8) for field in moved)
        pieces.append(shell_counts(model, ruler, gold, 1))
        counts.append(error_counts(model, ruler, gold, 1))
    return pieces, counts


@pytest.mark.parametrize("rho,kappa", [(0.0, (-0.05, 0.05)), (0.5, (0.2, 0.42)), (0.97, (0.7, 0.95)), (1.0, (1, 1))])
def test_kappa_err__rises_from_zero_to_one_with_the_correlation_of_errors(rho, kappa, rng):
    pieces, counts = boundary_errors(rng, rho)
    found = kappa_err(
        [p.c for p in pieces], [p.expected for p in pieces], [p.smaller for p in pieces], draws=500, rng=rng
    )
    assert kappa[0] <= found.value <= kappa[1]
    if rho == 0:
        assert found.low < 0.05
        # errors sit at boundaries, so independence anywhere in the image is too easy to beat
        assert np.median([count.kappa_anywhere for count in counts]) > found.value + 0.1
