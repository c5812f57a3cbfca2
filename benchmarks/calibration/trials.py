"""One cohort at a time: draw, judge, count."""

from __future__ import annotations

import itertools

import numpy as np
from scipy.special import expit

from calibration.judging import ALPHA, LEVEL, judge, parts
from calibration.situations import GOLD, Facts, Situation, facts
from calibration.tally import Key, Tally
from segaudit.simulate.scores import ScoreDraw, draw_scores, noise
from segaudit.stats import (
    decompose,
    disparity,
    effects,
    equivalence,
    independence,
    intervals,
    resample,
    spread,
    tests,
    variance,
)

_PITMAN_MORGAN = 228  # cases up to which it is shown
DRAWS = 399  # bootstrap draws and swaps; the product's 2,000 would change a share by less than its own error


def holds(limits: object, truth: float) -> bool:
    """Return whether an interval (anything with low and high) holds the truth, but for rounding."""
    return bool(limits.low - 1e-9 <= truth <= limits.high + 1e-9)


def levels(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count rejections of VCD and coverage of the Walsh ratio, over all cases and within groups."""
    printed, size = situation.printed(n), str(n)
    covers = "coverage 95" if printed else "record"
    for _ in range(reps):
        x, y, groups = situation.draw(n, rng)
        for where, given in (("all cases", None), ("within groups", groups)):
            walsh = variance.walsh_ratio(x, y, groups=given)
            tally.add(Key("level", f"VCD, {where}", situation.name, size), walsh.p < ALPHA)
            quantity = f"Walsh ratio, {where}" + ("" if given is None else _unprinted(printed))
            tally.add(
                Key(covers if given is not None else "coverage 95", quantity, situation.name, size), holds(walsh, 1.0)
            )
        if n <= _PITMAN_MORGAN:
            record = spread.pitman_morgan(x, y).p < ALPHA
            tally.add(Key("record", "Pitman-Morgan, rejections", situation.name, size), record)


def cohorts(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count rejections of the other tests, and coverage of the other intervals that are printed by default."""
    truth = facts(situation, n)
    for _ in range(reps):
        draw = situation.draw(n, rng)
        if situation.gap_points(n) == 0:
            _noises(draw, situation, n, truth, tally)
            _inflations(draw, situation, n, truth, rng, tally)
            _alike(draw, situation, n, rng, tally)
        _changes(draw, situation, n, rng, tally)
        if situation.alike:
            _between(draw, situation, n, truth, rng, tally)


def _noises(draw: ScoreDraw, situation: Situation, n: int, truth: Facts, tally: Tally) -> None:
    """Count coverage of the ratios of noise that `levels` leaves out."""
    x, y, groups = draw
    printed = situation.printed(n)
    for where, given in (("all cases", None), ("within groups", groups)):
        ending = "" if given is None else _unprinted(printed)
        measure = "record" if ending else "coverage 95"
        found = [("MnAD ratio", spread.spread_ratios(x, y, groups=given).mnad, truth.mnad)]
        if situation.shape != "normal":  # a score above 1 has no log error
            found.append(("Walsh ratio of log errors", variance.excess_ratio(x, y, groups=given), truth.walsh_log))
        if not situation.alike:
            found.append(("Walsh ratio", variance.walsh_ratio(x, y, groups=given), truth.walsh))
        for quantity, limits, value in found:
            tally.add(Key(measure, f"{quantity}, {where}{ending}", situation.name, str(n)), holds(limits, value))
    if printed and situation.name == "no gap, gold":
        for single in variance.per_group(x, y, groups, minimum=10).values():
            tally.add(Key("coverage 95", "Walsh ratio, one group", situation.name, str(n)), holds(single, truth.walsh))


def _inflations(draw: ScoreDraw, situation: Situation, n: int, truth: Facts, rng, tally: Tally) -> None:
    x, y, _ = draw
    found = independence.inflation(x, y)
    bound = independence.shared_error_bound(1 - x, 1 - y, draws=DRAWS, rng=rng)
    shift = intervals.Limits(found.shift_low, found.shift_high)
    for quantity, limits, value in (
        ("inflation, mean (t)", found, truth.inflation),
        ("inflation, Hodges-Lehmann", shift, truth.inflation_shift),
        ("shared-error bound", bound, truth.bound),
    ):
        tally.add(Key("coverage 95", quantity, situation.name, str(n)), holds(limits, value))


def _alike(draw: ScoreDraw, situation: Situation, n: int, rng, tally: Tally) -> None:
    """Count rejections of the rank tests between groups that are alike."""
    each, name, size = parts(draw.trusted, draw.group), situation.name, str(n)
    omnibus = tests.kruskal_wallis(each, rng=rng).p
    tally.add(Key("level", f"Kruskal-Wallis, {len(each)} groups", name, size), omnibus < ALPHA)
    pair = tests.mann_whitney(each[-1], each[0], rng=rng).p
    tally.add(Key("level", "Mann-Whitney, first and last group", name, size), pair < ALPHA)


def _changes(draw: ScoreDraw, situation: Situation, n: int, rng, tally: Tally) -> None:
    """Count rejections of T2 and T3 where neither gap nor separability changes, and coverage of the shift of T2."""
    name, size = situation.name, str(n)
    inflated = decompose.differential_inflation(*draw, rng=rng)
    tally.add(Key("level", "T2 differential inflation", name, size), inflated.p < ALPHA)
    _cover("differential inflation, shift", inflated, 0.0, situation, n, tally)
    change = decompose.separability_change(*draw, draws=DRAWS, rng=rng)
    tally.add(Key("level", "T3 separability change", name, size), change.p < ALPHA)


def doubtful(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count again, in more cohorts, what `levels` and `cohorts` find near the limits of the rules."""
    truth, size, printed = facts(situation, n), str(n), situation.printed(n)
    for _ in range(reps):
        draw = situation.draw(n, rng)
        _inflations(draw, situation, n, truth, rng, tally)
        inflated = decompose.differential_inflation(*draw, rng=rng)
        tally.add(Key("level", "T2 differential inflation", situation.name, size), inflated.p < ALPHA)
        _cover("differential inflation, shift", inflated, 0.0, situation, n, tally)
        for where, given in (("all cases", None), ("within groups", draw.group)):
            mnad = spread.spread_ratios(draw.trusted, draw.other, groups=given).mnad
            walsh = variance.walsh_ratio(draw.trusted, draw.other, groups=given)
            if given is None or printed:
                tally.add(Key("coverage 95", f"MnAD ratio, {where}", situation.name, size), holds(mnad, truth.mnad))
                tally.add(Key("coverage 95", f"Walsh ratio, {where}", situation.name, size), holds(walsh, truth.walsh))
            if situation.alike:
                tally.add(Key("level", f"VCD, {where}", situation.name, size), walsh.p < ALPHA)


def _cover(quantity: str, limits, value: float, situation: Situation, n: int, tally: Tally) -> None:
    printed = situation.printed(n)
    measure = "coverage 95" if printed else "record"
    tally.add(Key(measure, quantity + _unprinted(printed), situation.name, str(n)), holds(limits, value))


def _unprinted(printed: bool) -> str:
    return "" if printed else " (groups under 10)"


def _between(draw: ScoreDraw, situation: Situation, n: int, truth: Facts, rng, tally: Tally) -> None:
    """Count coverage of the audit's own intervals under the trusted ruler."""
    x, _, groups = draw
    printed = situation.printed(n)
    each = parts(x, groups)
    last, first, down = each[-1], each[0], -float(truth.steps[-1])
    biserial = tests.mann_whitney(last, first, rng=rng).effect
    found = [
        ("median difference", intervals.median_difference_interval(last, first, LEVEL, DRAWS, rng), down),
        ("Hodges-Lehmann shift", intervals.hodges_lehmann(last, first, LEVEL), down),
        ("median gap", intervals.median_gap_interval(each, LEVEL, DRAWS, rng), -down),
        (
            "rank-biserial",
            effects.rank_biserial_interval(biserial, last.size, first.size, LEVEL),
            truth.rank_biserial,
        ),
    ]
    if len(each) > 2:
        epsilon = effects.epsilon_squared_interval(each, LEVEL, DRAWS, rng)
        found.append(("epsilon squared", epsilon, truth.epsilon_squared))
    for threshold, rates in truth.rates.items():
        good = np.array([(part > threshold).sum() for part in each])
        sizes = np.array([part.size for part in each])
        low, high = rates.min(), rates.max()
        word = f"success above {threshold:g}"
        found += [
            (f"DIR (MOVER-R), {word}", intervals.dir_interval(good, sizes, LEVEL), low / high),
            (f"DPD (Newcombe), {word}", intervals.dpd_interval(good, sizes, LEVEL), high - low),
            (f"rate ratio, {word}", intervals.mover_r(good[-1], sizes[-1], good[0], sizes[0], LEVEL), low / high),
            (f"rate difference, {word}", intervals.newcombe(good[-1], sizes[-1], good[0], sizes[0], LEVEL), low - high),
        ]
        if low == high:
            shuffled = resample.permute_disparities(resample.counts_table(good, sizes), DRAWS, rng)
            tally.add(Key("level", f"permutation of DIR, {word}", situation.name, str(n)), shuffled.p_dir < ALPHA)
    for quantity, limits, value in found:
        measure = "coverage 95" if printed else "record"
        tally.add(Key(measure, quantity + _unprinted(printed), situation.name, str(n)), holds(limits, value))
    _halves(x, groups, truth, situation.name, n, rng, tally)


def _halves(x, groups, truth: Facts, name: str, n: int, rng, tally: Tally) -> None:
    """Count coverage of the 90 % intervals that decide on equivalence."""
    same = equivalence.equivalence(x, groups, margin=1.0, draws=DRAWS, rng=rng)
    if same.method == "hodges-lehmann":
        return
    for pair in same.pairs:
        step = truth.steps[int(pair.reference_group)] - truth.steps[int(pair.group)]
        tally.add(Key("coverage 90", "median difference of a pair", name, str(n)), pair.low <= step <= pair.high)


def verdicts(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count classes, rejections of T2 and T3, and coverage of the ratios where they are estimable."""
    gap = situation.gap_points(n) / 100
    steps = np.arange(3) * gap / 2
    name, size = situation.name, str(n)
    nothing = situation.gap_ratio == 1.0 or gap == 0.0
    alike = nothing and situation.noise_ratio == 1.0
    proportional = gap == 0.0 or situation.gap_ratio == situation.noise_ratio
    for _ in range(reps):
        judged = judge(situation.draw(n, rng), rng=rng, draws=DRAWS)
        _count_class(judged, name, size, tally)
        plain = "level" if nothing else "power"
        tally.add(Key(plain, "T2 differential inflation", name, size), judged.inflated.p < ALPHA)
        plain = "level" if proportional or alike else "power"
        tally.add(Key(plain, "T3 separability change", name, size), judged.change.p < ALPHA)
        _count_ratios(judged, situation, steps, size, tally)


def _count_class(judged, name: str, size: str, tally: Tally) -> None:
    for word in (
        "agreement",
        "false magnitude",
        *(
            f"{word}, {how}"
            for word in ("false confidence", "masking (gap)", "masking (noise)")
            for how in ("established", "not established")
        ),
        "inconclusive",
    ):
        tally.add(Key("share", word, name, size), judged.word == word)
    tally.add(Key("power", "Kruskal-Wallis, trusted ruler", name, size), judged.p[0] < ALPHA)
    if judged.word.startswith("false confidence"):
        named = judged.found.mechanism == "proportional compression"
        tally.add(Key("share", "proportional compression, of false confidence", name, size), named)


def _count_ratios(judged, situation: Situation, steps: np.ndarray, size: str, tally: Tally) -> None:
    ratios, name = judged.ratios, situation.name
    between = steps[int(judged.inflated.worst)] - steps[int(judged.inflated.best)]
    change = (situation.gap_ratio - 1) * between
    shift = (judged.inflated.low <= change + 1e-9) and (change - 1e-9 <= judged.inflated.high)
    tally.add(Key("coverage 95", "differential inflation, shift", name, size), shift)
    held = ratios.gap_change_low - 1e-9 <= change <= ratios.gap_change_high + 1e-9
    tally.add(Key("coverage 95", "gap change", name, size), held)
    if situation.noise_ratio != 2.5:  # clipped: no exact ratio of the mean deviations
        tally.add(
            Key("coverage 95", "Walsh ratio, within groups", name, size), holds(judged.walsh, situation.noise_ratio)
        )
        tally.add(Key("coverage 95", "noise ratio (bootstrap)", name, size), holds(ratios.noise, situation.noise_ratio))
    tally.add(Key("share", "gap ratio is estimable", name, size), ratios.estimable)
    if ratios.estimable and between:
        tally.add(Key("coverage 95", "gap ratio, where estimable", name, size), holds(ratios.gap, situation.gap_ratio))
        if situation.noise_ratio != 2.5:
            snr = situation.gap_ratio / situation.noise_ratio
            tally.add(Key("coverage 95", "SNR ratio, where estimable", name, size), holds(ratios.snr, snr))


def decisions(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count the words of the Walsh ratio within groups."""
    truth, size = facts(situation, n).walsh, str(n)
    covers = "coverage 95" if situation.printed(n) else "record"
    for _ in range(reps):
        x, y, groups = situation.draw(n, rng)
        walsh = variance.walsh_ratio(x, y, groups=groups)
        word = variance.decision(walsh.low, walsh.high)
        tally.add(Key("share", "strong collapse", situation.name, size), word == "strong collapse")
        tally.add(Key("share", "collapse or strong collapse", situation.name, size), "collapse" in word)
        tally.add(Key("share", "stable", situation.name, size), word == "stable")
        quantity = "Walsh ratio, within groups" + _unprinted(situation.printed(n))
        tally.add(Key(covers, quantity, situation.name, size), holds(walsh, truth))


def powers(situation: Situation, n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count rejections of VCD over all cases."""
    for _ in range(reps):
        x, y, _ = situation.draw(n, rng)
        tally.add(Key("power", "VCD, all cases", situation.name, str(n)), variance.walsh_ratio(x, y).p < ALPHA)


def clusters(repeated: tuple[int, int], n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count rejections where some patients (`repeated[0]` percent of n) have several exams (`repeated[1]`).

    Scores are the bulk of the gold shape, with intra-class correlation 0.8 under each ruler.
    """
    share, exams = repeated
    several = n * share // 100
    patients = np.concatenate([np.repeat(np.arange(several), exams), np.arange(several, n)])
    name, size = f"{share} % of patients with {exams} exams", str(n)
    for _ in range(reps):
        own, exam = rng.normal(size=(2, n)), rng.normal(size=(2, patients.size))
        x, y = expit(GOLD.mean + GOLD.sd * (np.sqrt(0.8) * own[:, patients] + np.sqrt(0.2) * exam))
        groups = rng.permutation(np.repeat(np.arange(3), (n // 3, n // 3, n - 2 * (n // 3))))[patients]
        given = {"patients": patients}
        walsh = variance.walsh_ratio(x, y, **given)
        tally.add(Key("level", "VCD, all cases, patients as units", name, size), walsh.p < ALPHA)
        tally.add(Key("coverage 95", "Walsh ratio, all cases, patients as units", name, size), holds(walsh, 1.0))
        naive = variance.walsh_ratio(x, y)
        tally.add(Key("record", "VCD, all cases, exams as units, rejections", name, size), naive.p < ALPHA)
        inside = variance.walsh_ratio(x, y, groups=groups, **given)
        tally.add(Key("level", "VCD, within groups, patients as units", name, size), inside.p < ALPHA)
        inflated = decompose.differential_inflation(x, y, groups, **given, rng=rng)
        tally.add(Key("level", "T2 differential inflation, patients as units", name, size), inflated.p < ALPHA)
        change = decompose.separability_change(x, y, groups, **given, draws=DRAWS, rng=rng)
        tally.add(Key("level", "T3 separability change, patients as units", name, size), change.p < ALPHA)
        level = independence.inflation(x, y, **given)
        tally.add(Key("coverage 95", "inflation, mean (t), patients as units", name, size), holds(level, 0.0))
        for pair in equivalence.equivalence(x, groups, margin=1.0, **given, draws=DRAWS, rng=rng).pairs:
            key = Key("coverage 90", "median difference of a pair, patients as units", name, size)
            tally.add(key, pair.low <= 0 <= pair.high)


MARGINS = (("gold", 0.05), ("gold", 0.02), ("silver", 0.02))
SIZES = ((10, 10), (20, 20), (16, 53), (38, 38), (76, 152))
SHOWN = {"gold": (0.05, 0.03, 0.02), "silver": (0.01, 0.005)}
DENSITY_NOISE = {"gold": 0.02991, "silver": 0.00626}  # 1 / (sqrt(12) times the integral of the squared density)
DETECTABLE = ((20, 20), (16, 53), (21, 26), (38, 38), (114, 114))


def margins(sizes: tuple[int, int], n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count equivalence wrongly shown at the margin, and rightly shown without a gap, between two groups."""
    size = _sizes(sizes)
    for _ in range(reps):
        for shape, margin in MARGINS:
            draw = draw_scores(n, rng=rng, groups=sizes, shape=shape, gap_points=100 * margin)
            name = f"gap at the margin {margin:g}, {shape}"
            for method, limits in _both(
                equivalence.equivalence(draw.trusted, draw.group, margin=1.0, draws=DRAWS, rng=rng)
            ):
                shown = -margin < limits.low and limits.high < margin
                tally.add(Key("level", f"equivalence, {method}", name, size), shown)
                tally.add(Key("coverage 90", f"median difference, {method}", name, size), holds(limits, -margin))
        for shape, shown_at in SHOWN.items():
            draw = draw_scores(n, rng=rng, groups=sizes, shape=shape)
            for method, limits in _both(
                equivalence.equivalence(draw.trusted, draw.group, margin=1.0, draws=DRAWS, rng=rng)
            ):
                for margin in shown_at:
                    shown = -margin < limits.low and limits.high < margin
                    tally.add(
                        Key("power", f"equivalence, {method}", f"no gap, margin {margin:g}, {shape}", size), shown
                    )


def _both(found: equivalence.Equivalence):
    pair = found.pairs[0]
    return (
        ("median bootstrap", intervals.Limits(pair.low, pair.high)),
        ("Hodges-Lehmann", intervals.Limits(pair.shift_low, pair.shift_high)),
    )


def detectable(sizes: tuple[int, int], n: int, reps: int, rng: np.random.Generator, tally: Tally) -> None:
    """Count how often a Mann-Whitney test finds the gap that is called detectable at 80 % power."""
    for shape, of_density in DENSITY_NOISE.items():
        for word, spread_of in (("noise from the density", of_density), ("noise as printed", noise(shape))):
            gap = equivalence.minimal_detectable_gap(spread_of, *sizes)
            key = Key("power", f"Mann-Whitney at the minimal detectable gap, {word}", shape, _sizes(sizes))
            for _ in range(reps):
                draw = draw_scores(n, rng=rng, groups=sizes, shape=shape, gap_points=100 * gap)
                tally.add(key, tests.mann_whitney(*parts(draw.trusted, draw.group), rng=rng).p < ALPHA)


def _sizes(sizes: tuple[int, int]) -> str:
    return f"{sizes[0]}+{sizes[1]}"


def exact_rates(sizes: tuple[int, ...]) -> dict[str, tuple[float, float]]:
    """Return the least and the mean exact coverage of DIR and DPD limits over success rates from 0.70 to 1.

    All outcomes are counted with their binomial probabilities; rates stand 0.01 apart for two groups, 0.05 for three.
    """
    from scipy.stats import binom

    step = 0.01 if len(sizes) == 2 else 0.05
    grid = np.round(np.arange(0.70, 1 + step / 2, step), 4)
    good = np.stack(np.meshgrid(*(np.arange(size + 1) for size in sizes), indexing="ij"), axis=-1)
    total = np.array(sizes)
    ratio, difference = (fn(good, total, LEVEL) for fn in (intervals.dir_interval, intervals.dpd_interval))
    chance = [binom.pmf(np.arange(size + 1)[None, :], size, grid[:, None]) for size in sizes]
    covered: dict[str, list[float]] = {"DIR (MOVER-R)": [], "DPD (Newcombe)": []}
    for at in itertools.product(range(grid.size), repeat=len(sizes)):
        rates = grid[list(at)]
        weight = chance[0][at[0]]
        for group, place in enumerate(at[1:], 1):
            weight = np.multiply.outer(weight, chance[group][place])
        for name, limits, value in (
            ("DIR (MOVER-R)", ratio, float(disparity.disparate_impact_ratio(rates))),
            ("DPD (Newcombe)", difference, float(disparity.demographic_parity_difference(rates))),
        ):
            inside = (limits.low <= value + 1e-9) & (value - 1e-9 <= limits.high)
            covered[name].append(float(weight[inside].sum()))
    return {name: (min(values), float(np.mean(values))) for name, values in covered.items()}
