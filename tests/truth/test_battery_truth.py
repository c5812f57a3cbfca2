"""Hand-made and published figures that the rank tests, intervals and adjustments must give."""

import csv

import numpy as np
import pytest

from segaudit.stats.disparity import (
    demographic_parity_difference,
    disparate_impact_ratio,
    group_medians,
    median_gap,
)
from segaudit.stats.effects import noncentral_interval
from segaudit.stats.family import adjust
from segaudit.stats.intervals import dir_interval, hodges_lehmann, mover_r, newcombe, wilson
from segaudit.stats.resample import bootstrap_disparities, counts_table
from segaudit.stats.tests import dunn, kruskal_wallis, mann_whitney

GOLD = [0.93, 0.912, 0.951, 0.887, 0.901, 0.878, 0.923, 0.702, 0.854, 0.871, 0.905, 0.831]
SILVER = [0.98, 0.975, 0.984, 0.972, 0.974, 0.969, 0.979, 0.95, 0.966, 0.968, 0.973, 0.96]
TIGHT = {"rel": 0, "abs": 1e-6}


def thirds(values):
    return [np.array(values[start : start + 4]) for start in (0, 4, 8)]


@pytest.mark.parametrize(
    "values,h,epsilon,eta,p,why",
    [
        (GOLD, 4.5, 0.4090909090909091, 0.2777777777777778, 3612 / 34650, "all 34,650 arrangements counted"),
        (
            SILVER,
            4.769230769230774,
            0.433566433566434,
            0.30769230769230815,
            3240 / 34650,
            "counted by hand-written code in tests/stats",
        ),
    ],
)
def test_kruskal_wallis__set_a(*, values, h, epsilon, eta, p, why, rng):
    test = kruskal_wallis(thirds(values), rng=rng)
    assert (test.statistic, test.effect, test.eta_squared_h) == pytest.approx((h, epsilon, eta), **TIGHT), why
    assert (test.p, test.method, test.draws) == (pytest.approx(p, **TIGHT), "exact", 0)


@pytest.mark.parametrize(
    "values,expected",
    [
        (
            GOLD,
            [
                (0, 1, 1.4708710135363803, 0.14132600304255616, 0.2826520060851123),
                (0, 2, 2.0592194189509323, 0.039473223724636415, 0.11841967117390925),
                (1, 2, 0.5883484054145521, 0.5562984612747348, 0.5562984612747348),
            ],
        ),
        (
            SILVER,
            [
                (0, 1, 1.3728129459672884, 0.16981050508552153, 0.33962101017104307),
                (0, 2, 2.1572774865200244, 0.030984050098456638, 0.0929521502953699),
                (1, 2, 0.7844645405527362, 0.43276758066778476, 0.43276758066778476),
            ],
        ),
    ],
)
def test_dunn__set_a(values, expected):
    pairs = [(pair.first, pair.second, pair.z, pair.p, pair.p_holm) for pair in dunn(thirds(values))]
    for pair, row in zip(pairs, expected, strict=True):
        assert pair == pytest.approx(row, **TIGHT)


def test_dunn__bh_of_set_a():
    p = [pair.p for pair in dunn(thirds(GOLD))]
    assert adjust(p, "bh") == pytest.approx([0.21198900456383424, 0.11841967117390925, 0.5562984612747348], **TIGHT)


@pytest.mark.parametrize("values,gap", [(GOLD, 0.058499999999999996), (SILVER, 0.010500000000000065)])
def test_median_gap__set_a(values, gap):
    assert float(median_gap(group_medians(thirds(values)))) == pytest.approx(gap, **TIGHT)


def test_mann_whitney__ties_set_b(rng):
    x, y = [1, 2, 2, 3, 5], [2, 4, 4, 6, 7, 8]
    test = mann_whitney(x, y, rng=rng)
    assert (test.statistic, test.effect, test.z, test.p) == pytest.approx(
        (5.0, -0.6666666666666667, -1.7545069317741127, 0.06926406926406926), **TIGHT
    )
    assert test.method == "permutation"


def test_mann_whitney__gold_a_against_c(rng):
    a, _, c = thirds(GOLD)
    test = mann_whitney(a, c, rng=rng)
    assert (test.statistic, test.effect, test.z, test.p) == pytest.approx(
        (15.0, 0.875, 1.8763883748662837, 0.05714285714285714), **TIGHT
    )
    assert test.method == "exact"


@pytest.mark.parametrize(
    "a,b,level,expected",
    [
        ([1, 2, 2, 3, 5], [2, 4, 4, 6, 7, 8], 0.90, (-2.5, -5.0, 0.0)),
        ([1, 2, 2, 3, 5], [2, 4, 4, 6, 7, 8], 0.95, (-2.5, -6.0, 1.0)),
        (GOLD[:4], GOLD[8:], 0.90, (0.057, 0.007, 0.099)),
    ],
)
def test_hodges_lehmann__set_b(a, b, level, expected):
    assert tuple(hodges_lehmann(a, b, level)) == pytest.approx(expected, **TIGHT)


def test_adjust__set_c():
    p = np.array([0.001, 0.008, 0.012, 0.03, 0.041, 0.2, 0.6])
    assert adjust(p, "bh") == pytest.approx([0.007, 0.028, 0.028, 0.0525, 0.0574, 0.233333, 0.6], **TIGHT)
    assert adjust(p, "by") == pytest.approx([0.01815, 0.0726, 0.0726, 0.136125, 0.14883, 0.605, 1.0], **TIGHT)
    assert adjust(p, "holm") == pytest.approx([0.007, 0.048, 0.06, 0.12, 0.123, 0.4, 0.6], **TIGHT)


@pytest.mark.parametrize(
    "k1,n1,k2,n2,ratio,low,difference,first",
    [
        (20, 20, 20, 20, (0.838875, 1.192073), 0.838875, (-0.161125, 0.161125), (0.838875, 1.0)),
        (19, 20, 20, 20, (0.763869, 1.137898), 0.763869, (-0.236131, 0.116289), (0.763869, 0.991119)),
        (15, 16, 52, 53, (0.730199, 1.056887), 0.730199, (-0.264965, 0.051919), (0.716713, 0.988881)),
        (16, 16, 53, 53, (0.806392, 1.07248), 0.806392, (-0.193608, 0.067582), (0.806392, 1.0)),
        (38, 38, 38, 38, (0.90819, 1.101091), 0.90819, (-0.09181, 0.09181), (0.90819, 1.0)),
    ],
)
def test_intervals__set_d(*, k1, n1, k2, n2, ratio, low, difference, first):
    assert mover_r(k1, n1, k2, n2, 0.95) == pytest.approx(ratio, **TIGHT)
    assert newcombe(k1, n1, k2, n2, 0.95) == pytest.approx(difference, **TIGHT)
    assert wilson(k1, n1, 0.95) == pytest.approx(first, **TIGHT)
    assert dir_interval([k1, k2], [n1, n2], 0.95) == pytest.approx((low, 1.0), **TIGHT)


def test_dir_interval__three_groups_simultaneously():
    assert dir_interval([20, 29, 25], [21, 29, 26], 0.95) == pytest.approx((0.7170779878208025, 1.0), **TIGHT)
    pairs = [((20, 21), (29, 29)), ((20, 21), (25, 26)), ((29, 29), (25, 26))]
    lows = [dir_interval([a[0], b[0]], [a[1], b[1]], 1 - 0.05 / 3).low for a, b in pairs]
    assert lows == pytest.approx([0.7170779878208025, 0.7444003703293717, 0.7614356547857597], **TIGHT)


@pytest.mark.parametrize("n,low", [(10, 0.722), (20, 0.839), (38, 0.908), (100, 0.963)])
def test_dir_interval__saturated_is_never_certain(n, low):
    assert dir_interval([n, n], [n, n], 0.95) == pytest.approx((low, 1.0), abs=5e-4)


@pytest.mark.parametrize(
    "successes,cases,low,why",
    [
        ((21, 29, 26), (21, 29, 26), 0.786, "saturated age thirds"),
        ((16, 53), (16, 53), 0.806, "saturated race"),
        ((38, 38), (38, 38), 0.908, "saturated sex"),
        ((37, 37), (38, 38), 0.887, "one failure in each sex"),
    ],
)
def test_dir_interval__published_cells(successes, cases, low, why):
    assert float(dir_interval(successes, cases, 0.95).low) == pytest.approx(low, abs=6e-4), why


@pytest.mark.parametrize(
    "h,value,eta,limits",
    [
        (7.015052487051463, 0.09353403316068618, 0.06869934913769127, (0.0, 0.266)),
        (11.404, 0.152, 0.1288, (0.018, 0.363)),
    ],
)
def test_noncentral_interval__set_g(h, value, eta, limits):
    interval = noncentral_interval(h, 3, 76, 0.95)
    assert interval.value == pytest.approx(value, abs=1e-4)
    assert (h - 3 + 1) / (76 - 3) == pytest.approx(eta, abs=1e-4)
    assert (interval.low, interval.high) == pytest.approx(limits, abs=6e-4)


@pytest.fixture(scope="module")
def published(shared):
    with (shared / "reference" / "published_tests.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def rng():
    return np.random.default_rng(42)


def p_of(rows, ruler):
    return np.array([float(row["p_raw"]) for row in rows if row["ruler"] == ruler])


@pytest.mark.parametrize(
    "ruler,method,rejected",
    [
        ("global", "bh", 0),
        ("gold", "bh", 0),
        ("silver", "bh", 11),
        ("gold", "holm", 0),
        ("silver", "holm", 4),
        ("gold", "by", 0),
        ("silver", "by", 2),
    ],
)
def test_adjust__published_rejections(published, ruler, method, rejected):
    p = p_of(published, ruler)
    assert p.size == 63
    assert int((adjust(p, method) < 0.05).sum()) == rejected


def test_adjust__published_bh_values_come_out(published):
    for ruler in sorted({row["ruler"] for row in published}):
        q = [float(row["p_fdr"]) for row in published if row["ruler"] == ruler]
        assert adjust(p_of(published, ruler), "bh") == pytest.approx(q, rel=1e-8)


def test_adjust__joint_family_of_both_rulers(published):
    q = adjust(np.concatenate([p_of(published, "gold"), p_of(published, "silver")]), "bh")
    assert (int((q[:63] < 0.05).sum()), int((q[63:] < 0.05).sum())) == (1, 8)


def test_adjust__the_eleven_are_all_of_age(published):
    rows = [row for row in published if row["ruler"] == "silver"]
    rejected = adjust(p_of(published, "silver"), "bh") < 0.05
    assert {row["grouping"][:3] for row, yes in zip(rows, rejected, strict=True) if yes} == {"age"}


def test_disparity__published_cells_follow_from_their_rates(published):
    for row in published:
        rates = [float(row["best_rate"]), float(row["worst_rate"])]
        assert float(disparate_impact_ratio(rates)) == pytest.approx(float(row["dir"]), rel=1e-8)
        assert float(demographic_parity_difference(rates)) == pytest.approx(float(row["dpd"]), abs=1e-9)


def test_effects__published_effects_follow_from_their_statistics(published):
    for row in published:
        sizes = [int(size) for size in row["n"].split("|")]
        statistic, effect = float(row["statistic"]), float(row["effect"])
        if row["test"] == "mann_whitney":
            # published with the opposite sign
            assert 2 * statistic / (sizes[0] * sizes[1]) - 1 == pytest.approx(-effect, abs=1e-8)
        else:
            k, n = len(sizes), sum(sizes)
            assert (statistic - k + 1) / (n - k) == pytest.approx(effect, abs=1e-8)


def test_kruskal_wallis__published_p_is_the_chi_squared_one(published, rng):
    """An H of the published size, made of ranks, has the published p."""
    row = next(r for r in published if (r["ruler"], r["grouping"], r["score"]) == ("gold", "age_3bin", "dice_macro"))
    sizes = [int(size) for size in row["n"].split("|")]
    groups = np.split(rng.permutation(sum(sizes)).astype(float), np.cumsum(sizes)[:-1])
    test = kruskal_wallis(groups, rng=rng)
    assert test.method == "asymptotic"
    assert np.exp(-float(row["statistic"]) / 2) == pytest.approx(float(row["p_raw"]), rel=1e-6)
    assert np.exp(-test.statistic / 2) == pytest.approx(test.p, rel=1e-9)


def two_group_counts(row):
    """Return (successes, cases) of a published two-group cell when its rates fit in one way only."""
    cases = [int(size) for size in row["n"].split("|")]
    rates = (float(row["best_rate"]), float(row["worst_rate"]))
    fits = set()
    for order in (rates, rates[::-1]):
        counts = [rate * size for rate, size in zip(order, cases, strict=False)]
        if len(cases) == 2 and all(abs(count - round(count)) < 1e-6 for count in counts):
            fits.add(tuple(round(count) for count in counts))
    return (fits.pop(), cases) if len(fits) == 1 else None


@pytest.mark.slow
def test_bootstrap__published_bca_limits_come_out(published, rng):
    gaps = []
    for row in published:
        if row["ruler"] in {"global", "gold", "silver"} and (counts := two_group_counts(row)):
            limits = bootstrap_disparities(counts_table(*counts), 0.95, 10_000, rng).dir
            gaps.append(max(abs(limits.low - float(row["dir_ci_low"])), abs(limits.high - float(row["dir_ci_high"]))))
    assert len(gaps) > 100
    # 10,000 draws of a ratio of small counts leave this much to chance
    assert np.quantile(gaps, 0.9) < 0.008
    assert max(gaps) < 0.03
