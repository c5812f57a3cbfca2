"""Disparities between groups and their intervals."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="dir",
        title="disparate impact ratio (DIR)",
        definition="The smallest success rate of a group over the largest one. A case succeeds when its score lies "
        "strictly beyond the declared threshold.",
        formula="DIR = min_j rate_j / max_j rate_j",
        reading="1 is equal rates; below 0.8 is the four-fifths reading. Read the lower limit and the value "
        "expected under parity: with small groups DIR is below 1 by chance alone.",
        caution="Not what happens above or below the threshold. DIR = 1 with no failure at all (saturated) is no "
        "proof of equal rates: 76 successes of 76 in three groups only show DIR above 0.79.",
        sources=("feldman2015",),
        covers=(
            "rate_ratio",
            "rates",
            "four_fifths",
        ),
    ),
    Explanation(
        name="dpd",
        title="demographic parity difference (DPD)",
        definition="The largest success rate of a group minus the smallest one.",
        formula="DPD = max_j rate_j - min_j rate_j",
        reading="0 is equal rates. Its interval is Newcombe's, over all pairs of groups together.",
        caution="Not a difference of scores: two groups far apart and both above the threshold have DPD 0.",
        sources=("newcombe1998",),
        covers=("rate_difference",),
    ),
    Explanation(
        name="median_gap",
        title="gap between group medians",
        definition="The largest group median minus the smallest one, one score a patient, in the unit of the metric.",
        formula="gap = max_j median_j - min_j median_j",
        reading="The size of the disparity. Set it against the gap expected under parity at these group sizes, and "
        "against the declared margin.",
        caution="Never negative, so it is above 0 without any disparity; it says nothing of tails.",
        sources=("efron1987",),
        covers=(
            "median_difference",
            "gap_change",
        ),
    ),
    Explanation(
        name="hodges_lehmann",
        title="Hodges-Lehmann shift",
        definition="The median of all differences between a score of one group and a score of the other.",
        formula="shift = median over i, j of (group_i - reference_j)",
        reading="How far one group's scores lie above the reference group's, in the unit of the metric. The limits "
        "(Moses) invert the Mann-Whitney test and hold for small groups.",
        caution="Not the difference of the medians, unless the two distributions have one shape.",
        sources=("hodges1963",),
        covers=(
            "moses",
            "inflation_shift",
            "level_shift",
        ),
    ),
    Explanation(
        name="mover_r",
        title="MOVER-R interval of a ratio",
        definition="Limits of a ratio of two success rates, made of the Wilson limits of each rate.",
        formula="L = [p1 p2 - sqrt((p1 p2)^2 - l1 u2 (2 p1 - l1)(2 p2 - u2))] / (u2 (2 p2 - u2))\n"
        "U = [p1 p2 + sqrt((p1 p2)^2 - u1 l2 (2 p1 - u1)(2 p2 - l2))] / (l2 (2 p2 - l2))",
        reading="The default interval of DIR: every pair of groups at alpha over the number of pairs, folded to "
        "min(r, 1/r). It holds its level (0.94 and more) at every rate and size tried, rates of 1 among them.",
        caution="Not a point at saturation: 20 of 20 in two groups give [0.84, 1].",
        sources=(
            "donner2012",
            "wilson1927",
        ),
        covers=("wilson",),
    ),
    Explanation(
        name="newcombe",
        title="Newcombe interval of a difference",
        definition="Limits of a difference of two success rates, made of the Wilson limits of each rate; for the "
        "rank-biserial effect, Newcombe's limits of P(a > b).",
        formula="L = d - sqrt((p1 - l1)^2 + (u2 - p2)^2),  U = d + sqrt((u1 - p1)^2 + (p2 - l2)^2)",
        reading="The default interval of DPD, each pair of groups at alpha over the number of pairs.",
        caution="Not a test of the scores themselves, only of the rates.",
        sources=("newcombe1998",),
    ),
    Explanation(
        name="bca",
        title="bias-corrected and accelerated bootstrap (BCa)",
        definition="Limits from the quantiles of bootstrap draws, corrected for bias and skewness; the study's "
        "interval of DIR, patients drawn from all groups together.",
        formula="quantiles at Phi(z0 + (z0 + z_a) / (1 - a (z0 + z_a))), z0 bias, a acceleration by the jackknife",
        reading="Shown beside MOVER-R so that published intervals can be found again (bca_low, bca_high).",
        caution="Not to be relied on for DIR: it covers the truth in 82 % of the cases on average, 10 % at worst, "
        "and gives [1, 1] where no case failed.",
        sources=("efron1987",),
        covers=(
            "bca_low",
            "bca_high",
        ),
    ),
    Explanation(
        name="bootstrap",
        title="percentile bootstrap",
        definition="Limits from the quantiles of an estimate over patients drawn anew within each group.",
        formula="",
        reading="Used for differences of medians, of which it covers 91 to 94 % at a nominal 90 %.",
        caution="Not used for smallest over largest rates, where it resamples a maximum of noise.",
        sources=("efron1987",),
    ),
    Explanation(
        name="parity",
        title="expected under parity",
        definition="What a disparity is on average when patients are shuffled between the groups: no disparity, "
        "the same group sizes, the same scores.",
        formula="mean over shuffles of the disparity",
        reading="The bar that an observed gap or DIR has to clear. Ten groups of 3 to 13 patients show a DIR of "
        "0.72 on average with no disparity at all.",
        caution="Not a null hypothesis of its own: the test is p_permutation, or the rank test.",
        sources=("phipson2010",),
        covers=("expected_under_parity",),
    ),
    Explanation(
        name="permutation",
        title="permutation test",
        definition="p as the share of random divisions of the patients into groups of these sizes that show at "
        "least the observed disparity, the observed one counted in.",
        formula="p = (1 + number of draws at least as large) / (draws + 1)",
        reading="p_permutation of DIR and DPD is one-sided: a disparity this large or larger. Never 0.",
        caution="Not valid for a difference of means between groups that differ in spread; patients are shuffled, "
        "never exams.",
        sources=("phipson2010",),
        covers=(
            "p_permutation",
            "exact",
            "asymptotic",
        ),
    ),
)
