"""Figures computed beforehand, by other code, that the ruler statistics must give."""

import csv

import numpy as np
import pytest
from scipy.stats import chi2

from segaudit.stats.attribution import shapley
from segaudit.stats.decompose import contrast_pair, differential_inflation, separability, separability_change
from segaudit.stats.equivalence import minimal_detectable_gap
from segaudit.stats.error_maps import error_counts
from segaudit.stats.independence import from_dice, from_errors, inflation, shared_error_bound, shared_errors
from segaudit.stats.spread import pitman_morgan, spread_ratios
from segaudit.stats.variance import decision, excess_ratio, walsh_ratio

GOLD = [0.93, 0.912, 0.951, 0.887, 0.901, 0.878, 0.923, 0.702, 0.854, 0.871, 0.905, 0.831]
SILVER = [0.98, 0.975, 0.984, 0.972, 0.974, 0.969, 0.979, 0.95, 0.966, 0.968, 0.973, 0.96]
GROUPS = list("aaaabbbbcccc")
PATIENTS = ["p1", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p9", "p10"]
TIGHT = {"rel": 0, "abs": 1e-6}

GOLD_MASK = [[0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 2, 0], [0, 1, 1, 1, 2, 0], [0, 0, 0, 2, 2, 0]]
MODEL_MASK = [[0, 1, 1, 1, 1, 0], [0, 1, 1, 1, 2, 0], [0, 1, 1, 2, 2, 0], [0, 0, 0, 2, 0, 0]]
RULER_MASK = [[0, 1, 1, 1, 1, 0], [0, 0, 1, 1, 2, 0], [0, 1, 1, 2, 2, 0], [0, 0, 2, 2, 2, 0]]


@pytest.fixture
def rng():
    return np.random.default_rng(20240901)


def framed(rows):
    return np.pad(np.array(rows), ((1, 1), (0, 0)))


@pytest.mark.parametrize(
    "fn,options,ratio,low,high,z,p_asymptotic,p_exact,why",
    [
        (
            walsh_ratio,
            {},
            0.18433827286663207,
            0.13122171945701364,
            0.2051282051282023,
            -3.059411708155671,
            0.002217721464237049,
            2 / 4096,
            "around the overall median",
        ),
        (
            walsh_ratio,
            {"groups": GROUPS},
            0.1917161436245408,
            0.13122171945701364,
            0.22307692307692184,
            -3.0629479201333965,
            0.0021916819945457977,
            2 / 4096,
            "within groups; without rounding a near-tie gives z -3.0594",
        ),
        (
            walsh_ratio,
            {"groups": GROUPS, "patients": PATIENTS},
            0.1917161436245408,
            0.12873563218333203,
            0.23456790125396781,
            -2.8869095197706605,
            0.0038904609141008997,
            2 / 1024,
            "two patients with two cases each: interval by inversion",
        ),
        (
            excess_ratio,
            {"groups": GROUPS},
            0.7109063719789542,
            0.5985726735649283,
            0.8765794276516229,
            -3.0629479201333965,
            0.0021916819945457977,
            2 / 4096,
            "on log errors",
        ),
    ],
)
def test_walsh_ratio__set_a(fn, options, ratio, low, high, z, p_asymptotic, p_exact, why):
    found = fn(GOLD, SILVER, **options)
    assert (found.ratio, found.low, found.high) == pytest.approx((ratio, low, high), **TIGHT), why
    assert (found.statistic, found.z) == pytest.approx((-78.0, z), **TIGHT), why
    assert (found.p_asymptotic, found.p) == pytest.approx((p_asymptotic, p_exact), rel=0, abs=1e-9), why
    assert found.p_method == "exact"


@pytest.mark.parametrize(
    "name,patients,ratio,low,high,why",
    [
        ("mnad", None, 0.15827338129496413, 0.11040242489672569, 0.22690138599740164, "t with 9 degrees of freedom"),
        ("mnad", PATIENTS, 0.15827338129496413, 0.11329257332354356, 0.22111302172474634, "sums over ten patients"),
        ("sd", None, 0.135220010433533, 0.11184081010683176, 0.16348639824925473, "around group means"),
    ],
)
def test_spread_ratio__set_a(name, patients, ratio, low, high, why):
    found = getattr(spread_ratios(GOLD, SILVER, groups=GROUPS, patients=patients), name)
    assert (found.ratio, found.low, found.high) == pytest.approx((ratio, low, high), **TIGHT), why


@pytest.mark.parametrize(
    "name,groups,ratio",
    [
        ("mnad", None, 0.16032064128256518),
        ("mad", None, 0.2115384615384594),
        ("mad", GROUPS, 0.19277108433735232),
    ],
)
def test_spread_ratio__set_a_point(name, groups, ratio):
    assert getattr(spread_ratios(GOLD, SILVER, groups=groups), name).ratio == pytest.approx(ratio, **TIGHT)


def test_spread__set_a_scales():
    found = spread_ratios(GOLD, SILVER, groups=GROUPS)
    assert (found.mnad.trusted, found.mnad.other) == pytest.approx((0.03475, 0.0055), **TIGHT)
    assert (found.sd.trusted, found.sd.other) == pytest.approx((0.06301741381907423, 0.008521215354109485), **TIGHT)


def test_pitman_morgan__set_a():
    found = pitman_morgan(GOLD, SILVER)
    assert (found.r, found.t, found.df) == pytest.approx((0.9973163318892232, 43.076965422290186, 10), **TIGHT)
    assert found.p == pytest.approx(1.09131743418476e-12, rel=1e-6)
    limits = (0.14267739097322354, 0.11957360089571611, 0.1702452526513769)
    assert (found.sd_ratio, found.low, found.high) == pytest.approx(limits, **TIGHT)
    assert 1 / found.sd_ratio**2 == pytest.approx(49.12354291769687, rel=1e-9)


@pytest.mark.parametrize(
    "scores,medians,gap,noise,snr,h,epsilon",
    [
        (GOLD, (0.921, 0.8895, 0.8625), 0.0585, 0.03475, 1.6834532374100712, 4.5, 0.4090909090909091),
        (
            SILVER,
            (0.9775, 0.9715, 0.967),
            0.0105,
            0.0055,
            1.9090909090909192,
            4.769230769230774,
            0.433566433566434,
        ),
    ],
    ids=["gold", "silver"],
)
def test_separability__set_a(scores, medians, gap, noise, snr, h, epsilon):
    found = separability(scores, GROUPS)
    assert found.medians == pytest.approx(medians, **TIGHT)
    got = (found.gap, found.noise, found.snr, found.h, found.epsilon_squared)
    assert got == pytest.approx((gap, noise, snr, h, epsilon), **TIGHT)


def test_differential_inflation__set_a(rng):
    found = differential_inflation(GOLD, SILVER, GROUPS, rng=rng)
    assert (found.statistic, found.shift) == pytest.approx((4.5, -0.0455), **TIGHT)
    assert (found.best, found.worst) == contrast_pair(GOLD, SILVER, GROUPS) == ("a", "c")
    assert chi2.sf(found.statistic, 2) == pytest.approx(0.10539922456186433, **TIGHT)
    assert (found.test, found.p_method) == ("kruskal_wallis", "exact")


def test_separability_change__set_a_all_swaps(rng):
    found = separability_change(GOLD, SILVER, GROUPS, rng=rng)
    assert (found.change, found.p) == pytest.approx((0.2692307692307736, 0.5), **TIGHT)
    assert found.p_method == "exact"


def test_shapley__set_a(rng):
    found = shapley(GOLD, SILVER, GROUPS, draws=50, rng=rng)
    hybrids = [4.5, 3.846154, 8.346154, 9.269231, 0.269231, 0.269231, 4.5, 4.769231]
    assert found.h.ravel().tolist() == pytest.approx(hybrids, **TIGHT)
    shares = (found.gap.value, found.scale.value, found.pattern.value)
    assert shares == pytest.approx((-4.147436, 4.391026, 0.025641), **TIGHT)
    assert (found.noise_of_two, found.gap_of_two) == pytest.approx((4.634615, -4.365385), **TIGHT)


def test_inflation__set_a():
    found = inflation(GOLD, SILVER)
    expected = (0.0920833333333333, 0.05650112668501057, 0.12766553998165603)
    assert (found.mean, found.low, found.high) == pytest.approx(expected, **TIGHT)
    assert (found.n_patients, found.n_higher) == (12, 12)


@pytest.mark.parametrize(
    "label,counts,bound,expected,kappa,phi",
    [
        (None, (3, 4, 2, 0, 3), 0.0, 0.3333333333333333, 0.6250000000000001, 0.5330017908890261),
        (1, (2, 3, 2, 0, 1), 0.5, 0.16666666666666666, 1.0, 0.8043996665398437),
    ],
    ids=["all labels", "label 1"],
)
def test_error_counts__set_e(label, counts, bound, expected, kappa, phi, rng):
    found = error_counts(framed(MODEL_MASK), framed(RULER_MASK), framed(GOLD_MASK), label)
    assert (found.a, found.b, found.c, found.c_diff, found.d) == counts
    assert (found.expected, found.kappa_anywhere, found.phi) == pytest.approx((expected, kappa, phi), **TIGHT)
    shares = shared_errors([found.a], [found.b], [found.c], [found.d], draws=10, rng=rng)
    assert shares.of_model.value == pytest.approx(counts[2] / counts[0], **TIGHT)
    assert shares.of_ruler.value == pytest.approx(counts[2] / counts[1], **TIGHT)
    assert shares.bound.value == pytest.approx(bound, **TIGHT)


@pytest.mark.parametrize(
    "dice,volumes,counts,equal_volume_share",
    [
        ((0.8888888888888888, 0.8235294117647058, 0.9411764705882353), (9, 8, 9), (2, 3, 2, 1), 1.0294117647058822),
        ((0.75, 0.8, 0.8), (4, 6, 4), (2, 2, 1, 2), 0.5),
    ],
    ids=["label 1", "label 2"],
)
def test_from_dice__set_e(dice, volumes, counts, equal_volume_share):
    scores = [[score] for score in dice]
    model, ruler, gold = ([volume] for volume in volumes)
    found = from_dice(*scores, volume_model=model, volume_ruler=ruler, volume_gold=gold)
    assert [float(value[0]) for value in (found.a, found.b, found.c, found.d)] == pytest.approx(counts, **TIGHT)
    equal = from_errors(*scores)
    assert float(equal.c[0] / equal.a[0]) == pytest.approx(equal_volume_share, **TIGHT)


def test_minimal_detectable_gap__set_g():
    assert minimal_detectable_gap(0.02991, 21, 26) == pytest.approx(0.024585149749305858, rel=0, abs=1e-12)


@pytest.mark.parametrize(
    "noise,simulated",
    [
        (0.02991, {(20, 20): 0.0276, (16, 53): 0.0237, (21, 26): 0.0255, (38, 38): 0.0198, (114, 114): 0.0110}),
        (0.00626, {(20, 20): 0.0060, (16, 53): 0.0050, (21, 26): 0.0053, (38, 38): 0.0041, (114, 114): 0.0023}),
    ],
    ids=["gold", "silver"],
)
def test_minimal_detectable_gap__is_what_simulation_finds(noise, simulated):
    ratios = [gap / minimal_detectable_gap(noise, *sizes) for sizes, gap in simulated.items()]
    assert min(ratios) > 0.97
    assert max(ratios) < 1.1


# the study's own scores


@pytest.fixture
def scores(shared):
    def read(name):
        with (shared / "reference" / f"{name}.csv").open() as file:
            rows = sorted(csv.DictReader(file), key=lambda row: row["case"])
        table = {key: np.array([float(row[key]) for row in rows]) for key in rows[0] if key != "case"}
        for metric in ("dice", "ndsc", "hd95"):
            table[f"{metric}_macro"] = (table[f"{metric}_vb"] + table[f"{metric}_disc"]) / 2
        return table

    return read


def test_walsh_ratio__study_macro_dice(scores):
    gold, silver = scores("e2_gold_ruler")["dice_macro"], scores("e2_silver_ruler")["dice_macro"]
    found = walsh_ratio(gold, silver)
    expected = (0.24814270, 0.17711429, 0.34354612)
    assert (found.ratio, found.low, found.high) == pytest.approx(expected, rel=0, abs=1e-8)
    assert (found.statistic, found.z) == pytest.approx((-2732, -7.07226371), rel=0, abs=1e-8)
    spread = spread_ratios(gold, silver)
    assert (spread.mnad.ratio, spread.mad.ratio) == pytest.approx((0.24889726, 0.22221900), rel=0, abs=1e-8)
    assert (spread.sd.ratio, spread.iqr.ratio) == pytest.approx((1 / 4.17, 1 / 4.43), rel=2e-3)
    excess = excess_ratio(gold, silver)
    expected = (0.95124976, 0.70170777, 1.26547100)
    assert (excess.ratio, excess.low, excess.high) == pytest.approx(expected, rel=0, abs=1e-8)
    assert decision(found.low, found.high) == "strong collapse"
    assert decision(excess.low, excess.high) == "inconclusive"


@pytest.mark.parametrize(
    "score,sd,mnad,walsh,p,excess",
    [
        ("dice_macro", 0.2397, (0.249, 0.167, 0.371), (0.248, 0.177, 0.344), 1.5e-12, (0.951, 0.70, 1.27)),
        ("dice_vb", 0.2348, (0.261, 0.155, 0.440), (0.261, 0.182, 0.345), 2e-10, (0.963, 0.68, 1.25)),
        ("dice_disc", 0.2417, (0.246, 0.184, 0.330), (0.241, 0.189, 0.305), 2e-12, (0.967, 0.77, 1.20)),
        ("ndsc_macro", 0.2112, (0.242, 0.165, 0.354), (0.254, 0.176, 0.340), 4e-12, (0.959, 0.70, 1.25)),
        ("hd95_macro", 0.2317, (0.210, 0.126, 0.350), (0.237, 0.177, 0.332), 7e-10, None),
    ],
)
def test_noise_ratios__study(score, sd, mnad, walsh, p, excess, scores):
    gold, silver = scores("e2_gold_ruler")[score], scores("e2_silver_ruler")[score]
    spread, found = spread_ratios(gold, silver), walsh_ratio(gold, silver)
    assert spread.sd.ratio == pytest.approx(sd, rel=0, abs=6e-5)
    assert (spread.mnad.ratio, spread.mnad.low, spread.mnad.high) == pytest.approx(mnad, rel=0, abs=6e-4)
    assert (found.ratio, found.low, found.high) == pytest.approx(walsh, rel=0, abs=6e-4)
    assert found.p == pytest.approx(p, rel=0.25)
    if excess:
        log = excess_ratio(gold, silver)
        assert (log.ratio, log.low, log.high) == pytest.approx(excess, rel=0, abs=6e-3)


def test_spread__study_leans_on_one_case(scores):
    gold, silver = scores("e2_gold_ruler")["dice_macro"], scores("e2_silver_ruler")["dice_macro"]
    spread = spread_ratios(gold, silver)
    assert gold[spread.sd.driver] == pytest.approx(0.483, abs=5e-4)
    assert spread.sd.without_one_high == pytest.approx(0.413, abs=6e-4)
    assert spread.mnad.without_one_high == pytest.approx(0.288, abs=6e-4)
    rest = np.arange(76) != spread.sd.driver
    found = walsh_ratio(gold[rest], silver[rest])
    assert (found.ratio, found.low, found.high) == pytest.approx((0.255, 0.182, 0.351), rel=0, abs=6e-4)
    assert spread_ratios(gold[rest], silver[rest]).mad.ratio == pytest.approx(0.225, rel=0, abs=6e-4)


def test_spread__study_measures_for_the_record(scores):
    gold, silver = scores("e2_gold_ruler")["dice_macro"], scores("e2_silver_ruler")["dice_macro"]
    found = pitman_morgan(gold, silver)
    assert (found.r, found.t, found.df) == pytest.approx((0.92181, 20.456, 74), rel=0, abs=6e-4)
    assert (found.low, found.high) == pytest.approx((0.198, 0.290), rel=0, abs=6e-4)
    assert found.p == pytest.approx(3.5e-32, rel=0.02)
    delta = spread_ratios(gold, silver).sd
    assert (delta.low, delta.high) == pytest.approx((0.114, 0.506), rel=0, abs=6e-4)


def test_walsh_ratio__study_two_models_on_one_ruler(scores):
    mix, silver_model = scores("e2_gold_ruler")["dice_macro"], scores("msilver_on_gold")["dice_macro"]
    found = walsh_ratio(mix, silver_model)
    assert (found.ratio, found.low, found.high) == pytest.approx((0.996, 0.965, 1.024), rel=0, abs=6e-4)
    assert decision(found.low, found.high) == "stable"


def test_walsh_ratio__study_second_ruler_pair(scores):
    gold, ruler = scores("mgold_on_gold")["dice_macro"], scores("mgold_on_msilver")["dice_macro"]
    found, excess = walsh_ratio(gold, ruler), excess_ratio(gold, ruler)
    assert (found.ratio, found.low, found.high) == pytest.approx((0.230, 0.163, 0.320), rel=0, abs=6e-4)
    assert (excess.ratio, excess.low, excess.high) == pytest.approx((0.852, 0.65, 1.12), rel=0, abs=6e-3)


@pytest.mark.parametrize(
    "score,mean,low,high",
    [
        ("dice_macro", 0.0766, 0.0649, 0.0883),
        ("dice_vb", 0.0574, 0.0454, 0.0694),
        ("dice_disc", 0.0958, 0.0832, 0.1084),
        ("ndsc_macro", 0.0746, 0.0634, 0.0858),
        ("hd95_macro", -2.10, -2.79, -1.41),
    ],
)
def test_inflation__study(score, mean, low, high, scores):
    found = inflation(scores("e2_gold_ruler")[score], scores("e2_silver_ruler")[score])
    tolerance = 6e-3 if score.startswith("hd95") else 6e-5
    assert (found.mean, found.low, found.high) == pytest.approx((mean, low, high), rel=0, abs=tolerance)


def test_inflation__study_every_case_is_inflated(scores):
    found = inflation(scores("e2_gold_ruler")["dice_macro"], scores("e2_silver_ruler")["dice_macro"])
    assert (found.n_higher, found.n_patients) == (76, 76)
    expected = (0.0694, 0.0637, 0.0755)
    assert (found.shift, found.shift_low, found.shift_high) == pytest.approx(expected, rel=0, abs=1e-4)


@pytest.mark.parametrize(
    "names,label,of_model,bound,why",
    [
        (
            ("e2_gold_ruler", "mgold_on_gold", "e2_silver_ruler"),
            "dice_vb",
            (0.914, 0.904, 0.924),
            (0.732, 0.686, 0.773),
            "the ruler saw the model's training images",
        ),
        (
            ("e2_gold_ruler", "mgold_on_gold", "e2_silver_ruler"),
            "dice_disc",
            (0.913, 0.903, 0.921),
            (0.749, 0.727, 0.771),
            "the ruler saw the model's training images",
        ),
        (
            ("mgold_on_gold", "msilver_on_gold", "mgold_on_msilver"),
            "dice_vb",
            (0.825, 0.796, 0.850),
            (0.732, None, None),
            "trained on disjoint images",
        ),
        (
            ("mgold_on_gold", "msilver_on_gold", "mgold_on_msilver"),
            "dice_disc",
            (0.833, 0.817, 0.849),
            (0.737, None, None),
            "trained on disjoint images",
        ),
    ],
)
def test_shared_errors__study(names, label, of_model, bound, why, scores, rng):
    counts = from_errors(*(scores(name)[label] for name in names))
    found = shared_errors(counts.a, counts.b, counts.c, counts.d, draws=4000, rng=rng)
    got = found.of_model
    assert got.value == pytest.approx(of_model[0], abs=6e-4), why
    assert (got.low, got.high) == pytest.approx(of_model[1:], abs=3e-3), why  # bootstrap error
    two = shared_error_bound(counts.a, counts.d, draws=4000, rng=rng)
    assert (found.bound.value, two.value) == pytest.approx((bound[0], bound[0]), abs=6e-4), why
    if bound[1]:
        assert (two.low, two.high) == pytest.approx(bound[1:], abs=4e-3), why


@pytest.mark.parametrize("label", ["dice_vb", "dice_disc"])
def test_from_errors__study_more_than_half_of_the_rulers_errors_are_shared(label, scores):
    counts = from_errors(
        scores("e2_gold_ruler")[label], scores("mgold_on_gold")[label], scores("e2_silver_ruler")[label]
    )
    assert np.count_nonzero(counts.c > counts.b / 2) == 76
