"""Why a verdict changed between two rulers."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="gap_ratio",
        title="ratio of gaps",
        definition="The gap between the best and the worst group under the other ruler over that under the trusted "
        "one; the pair is chosen by both rulers together and then fixed.",
        formula="gap = median of best - median of worst;  ratio = gap_other / gap_trusted",
        reading="Above 1: the other ruler shows a wider gap. Limits: patients drawn anew within groups.",
        caution="Not estimable where the trusted gap is near zero: read gap_change, in the metric's unit. No test "
        "rests on it.",
        sources=("efron1987",),
    ),
    Explanation(
        name="snr_ratio",
        title="ratio of signal to noise",
        definition="Gap over noise (mean absolute deviation within groups) under the other ruler, over the same "
        "under the trusted one.",
        formula="snr = gap / noise;  ratio = snr_other / snr_trusted",
        reading="About 1 with a collapse: gap and noise shrank alike, nothing is easier to find. Above 1: the "
        "other ruler separates the groups better.",
        caution="Not a test: delta_h is.",
        sources=("efron1987",),
        covers=("noise_ratio",),
    ),
    Explanation(
        name="differential_inflation",
        title="T2: differential inflation",
        definition="Whether the bonus that the other ruler gives (its score minus the trusted one, case by case) "
        "differs between the groups.",
        formula="d_i = y_i - x_i; Mann-Whitney or Kruskal-Wallis of d between groups\n"
        "size: Hodges-Lehmann shift of d, best minus worst group",
        reading="Shift above 0 with small p: the ruler itself widens the gap. Patients are the units.",
        caution="Not whether a gap exists: it compares the rulers, and is blind to a gap that both show.",
        sources=(
            "kruskal1952",
            "hodges1963",
        ),
    ),
    Explanation(
        name="delta_h",
        title="T3: change of separability",
        definition="Whether the groups are easier to tell apart under one ruler than under the other.",
        formula="delta H = H_other - H_trusted (Kruskal-Wallis)\n"
        "p: within a random half of the patients the two rulers' ranks are swapped, many times",
        reading="Small p: the change of the verdict is established. Large p: the two verdicts may differ by the "
        "crossing of a threshold alone.",
        caution="Not to be replaced by comparing the two verdicts. With 76 cases only large changes are found "
        "(signal to noise doubled: one in three).",
        sources=(
            "kruskal1952",
            "gelman2006",
        ),
    ),
    Explanation(
        name="shapley",
        title="attribution of the change of H",
        definition="The change of H split into what the gap, the scale of the noise and its pattern contribute, by "
        "the mean over the six orders of exchanging them; shown only where the verdict changed.",
        formula="score = median_g^(a) + tau^(b) u_i^(c), each of a, b, c from one ruler\n"
        "phi_gap + phi_scale + phi_pattern = delta H;  net = phi_gap + phi_scale",
        reading="Read the net: under proportional compression the two parts are large and cancel. "
        "h_counterfactual: H had only one of the two changed.",
        caution="A large phi_scale is no evidence: without any effect a copying ruler gives about -10 and +10.",
        sources=("shapley1953",),
        covers=(
            "phi_gap",
            "phi_scale",
            "phi_pattern",
            "phi_net",
            "h_counterfactual",
        ),
    ),
)
