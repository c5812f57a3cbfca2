"""Error rates, power and class frequencies on scores drawn from the model fitted to real ones.

The expected figures come from a simulation by other code; bands are four standard errors of both simulations wide.
"""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from segaudit.simulate.scores import TRUTHS, draw_scores
from segaudit.stats.attribution import shapley
from segaudit.stats.clusters import kruskal_rows
from segaudit.stats.decompose import differential_inflation, separability, separability_change
from segaudit.stats.equivalence import equivalence
from segaudit.stats.variance import decision, walsh_ratio
from segaudit.stats.verdict import classify
from segaudit.stats.westfall import min_p

pytestmark = pytest.mark.slow


@pytest.fixture
def rng():
    return np.random.default_rng(76)


def near(share, expected, reps, other_reps=600):
    """Whether a share over reps agrees with one simulated over other_reps."""
    spread = max(expected * (1 - expected), 0.01)
    return abs(share - expected) <= 4 * np.sqrt(spread * (1 / reps + 1 / other_reps))


@pytest.mark.parametrize(
    "n,shape,expected",
    [(20, "gold", 0.028), (76, "gold", 0.040), (76, "normal", 0.033), (76, "silver", 0.056)],
)
def test_walsh_ratio__level(n, shape, expected, rng):
    reps, rejected = 600, 0
    for _ in range(reps):
        draw = draw_scores(n, rng=rng, shape=shape, rho=0.57)
        rejected += walsh_ratio(draw.trusted, draw.other, groups=draw.group).p < 0.05
    assert near(rejected / reps, expected, reps, 3000)


def test_walsh_ratio__level_with_repeated_patients(rng):
    reps, of_patients, naive = 250, 0, 0
    patients = np.concatenate([np.repeat(np.arange(18), 5), np.arange(18, 60)])
    for _ in range(reps):
        own, exam = rng.normal(size=(2, 60)), rng.normal(size=(2, patients.size))
        x, y = np.sqrt(0.8) * own[:, patients] + np.sqrt(0.2) * exam
        of_patients += walsh_ratio(x, y, patients=patients).p < 0.05
        naive += walsh_ratio(x, y).p < 0.05
    assert of_patients / reps <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / reps)
    assert naive / reps > 0.13


def test_walsh_ratio__outlier_in_one_ruler_only(rng):
    reps, rejected = 400, 0
    for _ in range(reps):
        draw = draw_scores(40, rng=rng, shape="normal")
        draw.trusted[0] = 0.48
        rejected += walsh_ratio(draw.trusted, draw.other).p < 0.05
    assert near(rejected / reps, 0.049, reps, 4000)


@pytest.mark.parametrize("ratio,n,power", [(0.67, 40, 0.63), (0.67, 76, 0.91), (0.5, 20, 0.70), (0.5, 40, 0.97)])
def test_walsh_ratio__power(ratio, n, power, rng):
    reps, rejected = 300, 0
    for _ in range(reps):
        draw = draw_scores(n, rng=rng, noise_ratio=ratio)
        rejected += walsh_ratio(draw.trusted, draw.other).p < 0.05
    # power moves by as much with the correlation of the two rulers, which the other simulation does not tell
    assert abs(rejected / reps - power) < 0.12


@pytest.mark.parametrize("ratio,strong,collapse", [(1.0, 0.0, 0.001), (0.5, 0.03, 0.95), (0.25, 1.0, 1.0)])
def test_decision__frequencies(ratio, strong, collapse, rng):
    reps, words = 200, Counter()
    for _ in range(reps):
        draw = draw_scores(76, rng=rng, noise_ratio=ratio)
        found = walsh_ratio(draw.trusted, draw.other, groups=draw.group)
        words[decision(found.low, found.high)] += 1
    assert near(words["strong collapse"] / reps, strong, reps, 1000)
    assert near((words["strong collapse"] + words["collapse"]) / reps, collapse, reps, 1000)


def test_walsh_ratio__interval_covers(rng):
    reps, covered = 400, 0
    for _ in range(reps):
        draw = draw_scores(76, rng=rng, noise_ratio=0.25)
        found = walsh_ratio(draw.trusted, draw.other, groups=draw.group)
        covered += found.low <= 0.25 <= found.high
    assert 0.91 <= covered / reps <= 0.99


def test_differential_inflation__level_and_power(rng):
    reps, false, true = 500, 0, 0
    for _ in range(reps):
        same = TRUTHS["same"].draw(76, rng=rng)
        false += differential_inflation(*same, rng=rng).p < 0.05
        three = TRUTHS["biased_x3"].draw(76, rng=rng)
        true += differential_inflation(*three, rng=rng).p < 0.05
    assert near(false / reps, 0.05, reps, 600)
    assert near(true / reps, 0.80, reps, 600)


@pytest.mark.parametrize(
    "truth,low,high",
    [
        ("null_clone", 0.0, 0.085),
        ("same", 0.0, 0.085),
        ("clone", 0.0, 0.085),
        ("clone_snr2", 0.26, 0.46),
        ("clone_snr4", 0.90, 1.0),
        ("gap_removed", 0.70, 0.92),
    ],
)
def test_separability_change__level_and_power(truth, low, high, rng):
    reps, rejected = 300, 0
    for _ in range(reps):
        draw = TRUTHS[truth].draw(76, rng=rng)
        rejected += separability_change(*draw, draws=199, rng=rng).p < 0.05
    assert low <= rejected / reps <= high


@pytest.mark.parametrize("sizes", [(16, 53), (38, 38)])
def test_equivalence__wrongly_shown_at_the_margin(sizes, rng):
    reps, shown = 500, Counter()
    for _ in range(reps):
        draw = draw_scores(sum(sizes), rng=rng, groups=sizes, gap_points=5.0)
        found = equivalence(draw.trusted, draw.group, margin=0.05, draws=499, rng=rng)
        pair = found.pairs[0]
        shown["median"] += found.word == "equivalent within the margin"
        shown["shift"] += max(abs(pair.shift_low), abs(pair.shift_high)) < 0.05
    assert shown["median"] / reps <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / reps)
    assert shown["shift"] / reps <= 0.06 + 3 * np.sqrt(0.05 * 0.95 / reps)


@pytest.mark.parametrize("margin,power", [(0.03, 0.78), (0.02, 0.30)])
def test_equivalence__shown_without_a_gap(margin, power, rng):
    reps, shown = 300, 0
    for _ in range(reps):
        draw = draw_scores(69, rng=rng, groups=(16, 53))
        found = equivalence(draw.trusted, draw.group, margin=margin, draws=499, rng=rng)
        shown += found.word == "equivalent within the margin"
    assert abs(shown / reps - power) < 0.11


def verdict(draw, rng):
    trusted, other = (chi2.sf(separability(scores, draw.group).h, 2) < 0.05 for scores in (draw.trusted, draw.other))
    noise = walsh_ratio(draw.trusted, draw.other, groups=draw.group)
    gap = differential_inflation(*draw, rng=rng)
    change = separability_change(*draw, draws=199, rng=rng) if trusted != other else None
    shares = shapley(*draw, draws=2, rng=rng)
    return classify(
        trusted_significant=trusted,
        other_significant=other,
        gap_inflated=gap.p < 0.05 and gap.shift > 0,
        gap_smaller=gap.p < 0.05 and gap.shift < 0,
        noise=(noise.low, noise.high),
        change_significant=change is not None and change.p < 0.05,
        phi_gap=shares.gap.value,
        phi_scale=shares.scale.value,
    )


@pytest.mark.parametrize(
    "truth,expected",
    [
        (
            "null_clone",
            {
                "agreement": 0.91,
                "false magnitude": 0,
                "false confidence+": 0.002,
                "false confidence": 0.043,
                "inconclusive": 0.013,
            },
        ),
        ("biased_x3", {"agreement": 0.12, "false magnitude": 0.78, "inconclusive": 0.10}),
        ("same", {"agreement": 0.83, "false magnitude": 0.03, "false confidence+": 0, "inconclusive": 0.14}),
        ("clone", {"agreement": 0.61, "false confidence+": 0.02, "false confidence": 0.19, "masking (gap)": 0.14}),
        ("clone_snr4", {"agreement": 0.32, "false confidence+": 0.67}),
        ("noisy", {"agreement": 0.29, "masking (noise)+": 0.35, "masking (noise)": 0.33}),
    ],
)
def test_classify__frequencies(truth, expected, rng):
    reps, words = 250, Counter()
    for _ in range(reps):
        found = verdict(TRUTHS[truth].draw(76, rng=rng), rng)
        words[found.word + ("+" if found.established else "")] += 1
    for word, share in expected.items():
        assert near(words[word] / reps, share, reps), (word, words)


def test_min_p__family_wise_level(rng):
    reps, rejected, plain = 200, 0, 0
    for _ in range(reps):
        draw = draw_scores(40, rng=rng)
        scores = np.stack([draw.trusted, draw.other, draw.trusted - draw.other], axis=1)
        groupings = np.stack([rng.permutation(draw.group), rng.integers(0, 2, size=40)], axis=1)
        found = min_p(scores, groupings, draws=199, rng=rng)
        rejected += found.single_step.min() <= 0.05
        plain += found.p.min() <= 0.05
    assert rejected / reps <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / reps)
    assert plain / reps > 0.12


def test_kruskal_rows__level_is_that_of_the_chi_squared_law(rng):
    labels = np.repeat([0, 1, 2], [21, 29, 26])
    ranks = rng.permuted(np.tile(np.arange(76), (4000, 1)), axis=1)
    rejected = np.mean(chi2.sf(kruskal_rows(ranks, labels, 3), 2) < 0.05)
    assert rejected == pytest.approx(0.05, abs=0.015)
