"""Level and spread of the scores under two rulers."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="inflation",
        title="inflation of the level",
        definition="The mean difference of the scores of the same predictions, other ruler minus trusted one.",
        formula="inflation = mean over patients of (y_i - x_i), with a t interval",
        reading="Above 0 (Dice): the other ruler scores the model higher. It does so only when more than half of "
        "its own errors fall where the model errs alike, so an interval above 0 speaks against its independence.",
        caution="Not an improvement: the predictions are the same. Of two models it is called level_change.",
        covers=("level_change",),
    ),
    Explanation(
        name="vcd",
        title="variance-collapse diagnostic: the Walsh ratio",
        definition="How much smaller the spread of the scores is under the other ruler, in the bulk of the cases: "
        "the median over pairs of cases of their summed distances from the group median, other over trusted.",
        formula="a_i = |x_i - median of x in i's group|,  b_i likewise of y\n"
        "ratio = median over i <= j of (b_i + b_j) / (a_i + a_j)\n"
        "test: signed ranks of b_i - a_i, patients as units; the interval inverts it",
        reading="1: the same spread; 0.25: a quarter of it, worth sixteen times the cases at a fixed gap. "
        "collapse: strong collapse (upper limit below 0.5), collapse (below 0.8), inflation (lower limit above "
        "1.25), stable (within), inconclusive.",
        caution="Not a reason for a changed verdict by itself: rank tests do not see a common rescaling. 'stable' "
        "needs about 200 cases. Beside walsh_ratio_log it says whether the level explains it.",
        sources=(
            "walsh1949",
            "hodges1963",
        ),
        covers=(
            "walsh_ratio",
            "collapse",
            "noise_change",
            "strong_collapse",
            "stable",
        ),
    ),
    Explanation(
        name="excess_collapse",
        title="excess collapse: the Walsh ratio of log errors",
        definition="The Walsh ratio on the scale log(1 - score): whether the spread shrank by more than the errors "
        "did.",
        formula="the ratio of vcd on log(1 - x_i) and log(1 - y_i)",
        reading="Interval around 1 beside a collapse: proportional compression, the ceiling explains it. Below 1: "
        "tighter than the level explains.",
        caution="Not defined for scores without an upper bound, such as HD95.",
        sources=("walsh1949",),
        covers=(
            "walsh_ratio_log",
            "proportional_compression",
        ),
    ),
    Explanation(
        name="sd_ratio",
        title="ratios of SD, IQR, MAD and mean absolute deviation",
        definition="Spread under the other ruler over spread under the trusted one, by four measures, within "
        "groups where there are groups.",
        formula="SD: ddof 1; IQR: quartiles; MAD: median |residual|; MnAD: mean |residual|",
        reading="For the record beside the Walsh ratio. detail gives the range with one case left out and the case "
        "that drives it.",
        caution="The SD ratio is moved by one outlier (1/4.2 becomes 1/2.4 without one case of 76): no decision "
        "rests on it.",
        covers=(
            "iqr_ratio",
            "mad_ratio",
            "mnad_ratio",
        ),
    ),
    Explanation(
        name="pitman_morgan",
        title="Pitman-Morgan test",
        definition="A test of equal variances of paired values: the correlation of sums and differences.",
        formula="r = corr(x + y, x - y),  t = r sqrt((n - 2) / (1 - r^2))",
        reading="For the record only, so that published figures can be found again.",
        caution="Its level does not hold here: with scores of this shape it rejects in 41 to 70 % of the "
        "comparisons of equal spreads, and more with more cases.",
        sources=(
            "pitman1939",
            "morgan1939",
        ),
    ),
)
