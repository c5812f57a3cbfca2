"""Scores drawn from the fitted model: its moments, and every planted truth found again."""

import numpy as np
import pytest
from scipy import special, stats

from segaudit.errors import AuditError
from segaudit.simulate import TRUTHS, draw_scores
from segaudit.simulate.scores import GOLD, SILVER, share_out

MANY = 200_000


def medians(values, group):
    return np.array([np.median(values[group == g]) for g in range(group.max() + 1)])


def noise(values, group):
    return np.mean(np.abs(values - medians(values, group)[group]))


@pytest.mark.parametrize(
    ("shape", "moments", "why"),
    [
        ("gold", (0.897, 0.057, -5.6, 41, 0.040), "76 cases against expert labels: .897, .058, -5.0, 33, .037"),
        (
            "silver",
            (0.9734, 0.0138, -3.4, 15.3, 0.0080),
            "the same against machine labels: .9734, .0139, -3.4, 14.6, .0084",
        ),
    ],
)
def test_scores__fitted_shapes_have_the_moments_of_the_fit(shape, moments, why):
    mean, sd, skew, kurtosis, iqr = moments
    x, _, _ = draw_scores(2_000_000, rng=np.random.default_rng(0), groups=[1], shape=shape)
    assert x.mean() == pytest.approx(mean, abs=5e-4), why
    assert x.std() == pytest.approx(sd, rel=0.01), why
    assert stats.skew(x) == pytest.approx(skew, rel=0.03), why
    assert stats.kurtosis(x) == pytest.approx(kurtosis, rel=0.06), why
    assert np.subtract(*np.percentile(x, [75, 25])) == pytest.approx(iqr, rel=0.01), why


@pytest.mark.parametrize(("shape", "marginal"), [("gold", GOLD), ("silver", SILVER)])
def test_scores__shape_is_the_mixture_drawn_component_by_component(shape, marginal):
    rng = np.random.default_rng(1)
    rare = rng.random(MANY) < marginal.rare
    logit = np.where(
        rare,
        rng.normal(marginal.mean - marginal.drop, marginal.rare_sd, MANY),
        rng.normal(marginal.mean, marginal.sd, MANY),
    )
    x, _, _ = draw_scores(MANY, rng=rng, groups=[1], shape=shape)
    assert stats.ks_2samp(x, special.expit(logit)).statistic < 0.006


def test_scores__real_pair_has_the_silver_level_and_the_fitted_correlation():
    x, y, _ = draw_scores(
        MANY, rng=np.random.default_rng(2), groups=[1], shape="gold", other_shape="silver", noise_ratio=None
    )
    assert y.mean() == pytest.approx(0.9734, abs=2e-4)
    assert stats.spearmanr(x, y).statistic == pytest.approx(6 / np.pi * np.arcsin(0.57 / 2), abs=0.01)
    assert stats.spearmanr(x, y).statistic == pytest.approx(0.545, abs=0.02)  # of the 76 real pairs


@pytest.mark.parametrize("name", TRUTHS)
def test_truths__planted_gap_and_noise_are_found_in_a_large_sample(name):
    truth = TRUTHS[name]
    gap = 3.2 if truth.power > 0.05 else 0.0
    x, y, group = draw_scores(
        MANY,
        rng=np.random.default_rng(3),
        gap_points=gap,
        gap_ratio=truth.gap_ratio,
        noise_ratio=truth.noise_ratio,
        rho=truth.rho,
    )
    steps = np.array([0.0, -0.5, -1.0]) * gap / 100
    assert medians(x, group) - medians(x, group)[0] == pytest.approx(steps, abs=6e-4)
    expected = truth.gap_ratio * steps
    assert medians(y, group) - medians(y, group)[0] == pytest.approx(expected, abs=6e-4 * max(truth.noise_ratio, 1))
    bulk = [np.median(np.abs(values - medians(values, group)[group])) for values in (x, y)]
    assert bulk[1] / bulk[0] == pytest.approx(truth.noise_ratio, rel=0.02)
    # Clipping at 0 shortens the rare low scores of a noisy ruler.
    clipped = 2.36 if truth.noise_ratio == 2.5 else truth.noise_ratio
    assert noise(y, group) / noise(x, group) == pytest.approx(clipped, rel=0.02)
    assert min(x.min(), y.min()) >= 0
    assert max(x.max(), y.max()) <= 1


@pytest.mark.parametrize("n", [76, 228])
@pytest.mark.parametrize(("name", "power"), [("null_clone", 0.05), ("biased_x2", 0.3), ("clone", 0.5), ("same", 0.9)])
def test_truths__gap_has_its_declared_power_under_the_trusted_ruler(name, power, n):
    rng = np.random.default_rng(4)
    found = 0
    for _ in range(400):
        x, _, group = TRUTHS[name].draw(n, rng=rng)
        found += stats.kruskal(*(x[group == g] for g in range(3))).pvalue < 0.05
    assert found / 400 == pytest.approx(power, abs=4 * np.sqrt(power * (1 - power) / 400) + 0.03)


@pytest.mark.parametrize("shape", ["gold", "silver", "normal"])
def test_scores__without_a_gap_p_values_are_uniform_under_both_rulers(shape):
    rng = np.random.default_rng(5)
    draws = [draw_scores(76, rng=rng, shape=shape) for _ in range(300)]
    for values in ("trusted", "other"):
        p = [stats.kruskal(*(getattr(d, values)[d.group == g] for g in range(3))).pvalue for d in draws]
        assert stats.kstest(p, "uniform").pvalue > 0.001


def test_scores__compression_shrinks_every_error_by_one_factor():
    x, y, _ = draw_scores(500, rng=np.random.default_rng(6), noise_ratio=0.25, rho=1.0)
    assert 1 - y == pytest.approx(0.25 * (1 - x), abs=1e-12)


def test_scores__normal_shape_has_the_level_and_noise_of_gold():
    kwargs = {"groups": [1], "shape": "normal", "other_shape": "gold", "noise_ratio": None, "rho": 0.0}
    x, y, group = draw_scores(MANY, rng=np.random.default_rng(7), **kwargs)
    assert np.median(x) == pytest.approx(np.median(y), abs=5e-4)
    assert noise(x, group) == pytest.approx(noise(y, group), rel=0.02)
    assert abs(stats.skew(x)) < 0.05


@pytest.mark.parametrize(
    ("n", "groups", "sizes", "why"),
    [
        (76, (21, 29, 26), (21, 29, 26), "sizes that sum to n are kept"),
        (228, (21, 29, 26), (63, 87, 78), "three times as many"),
        (10, (0.5, 0.5), (5, 5), "proportions"),
        (10, (1, 1, 1), (4, 3, 3), "the remainder goes to the earlier group"),
        (2, (1, 1, 1), (1, 1, 0), "a group may stay empty"),
    ],
)
def test_share_out__largest_remainder(n, groups, sizes, why):
    assert tuple(share_out(n, groups)) == sizes, why


def test_scores__same_generator_gives_the_same_scores_in_mixed_order():
    one, two = (draw_scores(76, rng=np.random.default_rng(8)) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert np.bincount(one.group).tolist() == [21, 29, 26]
    assert np.any(np.diff(one.group) < 0)


def test_scores__every_bad_value_is_named_at_once():
    with pytest.raises(AuditError) as caught:
        draw_scores(0, rng=np.random.default_rng(0), groups=[3, 0], noise_ratio=0, rho=1.5, shape="golden")
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["SIMULATION_VALUE"] * 4 + ["UNKNOWN_SHAPE"]
    assert "did you mean 'gold'?" in str(caught.value)
