"""Magnitude beside significance."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="equivalence",
        title="equivalence within a margin",
        definition="Whether every difference between two groups is shown to be smaller than the declared margin: "
        "each pair's 90 % interval of the difference of medians inside it (two one-sided tests at 5 %).",
        formula="equivalent when  -margin < low  and  high < margin  for every pair",
        reading="equivalent within the margin; material (beyond the margin); detectable but negligible (found, and "
        "inside it); difference found, size open; no difference found, equivalence not shown. smallest_margin is "
        "the margin that would just have been shown.",
        caution="A large p of a rank test is no equivalence. Groups under ten patients use the Hodges-Lehmann shift.",
        sources=(
            "schuirmann1987",
            "hodges1963",
        ),
        covers=(
            "smallest_margin",
            "margin",
        ),
    ),
    Explanation(
        name="minimal_detectable_gap",
        title="minimal detectable gap",
        definition="The gap between two groups of these sizes that a rank test at 5 % would find four times in five.",
        formula="MDG = (z_0.975 + z_0.80) * noise * sqrt(1/n1 + 1/n2) = 2.80 * noise * sqrt(1/n1 + 1/n2)",
        reading="Gaps below it are mostly missed, so 'no gap shown' says little about them. The smallest and the "
        "largest group count; noise is the mean absolute deviation from the group median.",
        caution="Not a limit of what is harmful, and not computed from the observed gap.",
        sources=("mann1947",),
    ),
    Explanation(
        name="verdict_class",
        title="what changing the ruler does to a verdict",
        definition="The class of a pair of verdicts on one grouping, by the three tests of gap (T2), noise (VCD) "
        "and separability (T3). The first line that holds decides.",
        formula="both found, T2 inflated                 false magnitude\n"
        "both alike otherwise                    agreement\n"
        "found under the other only:\n"
        "  T2 inflated, no collapse or gap leads  false magnitude\n"
        "  collapse                               false confidence (established if T3)\n"
        "found under the trusted only:\n"
        "  T2 deflated, noise not inflated        masking (gap) (established if T3)\n"
        "  noise inflated                         masking (noise) (established if T3)\n"
        "else                                    inconclusive",
        reading="false magnitude: the ruler itself adds to the gap. false confidence: the gap did not grow, the "
        "noise shrank. Not established: the flip may be the crossing of a threshold by chance.",
        caution="Two verdicts that differ are no evidence of a difference; T3 is. In a null with a copying ruler "
        "the naive reading fires in 4 %, under proportional compression in 19 % of the comparisons.",
        sources=("gelman2006",),
        covers=(
            "agreement",
            "false_magnitude",
            "false_confidence",
            "masking",
            "masking_(gap)",
            "masking_(noise)",
            "inconclusive",
        ),
    ),
    Explanation(
        name="saturation",
        title="saturation of rates",
        definition="All groups have a success rate of 1 (or all 0) under one ruler and not under the other; in one "
        "audit, no failure in any group.",
        formula="",
        reading="DIR is 1 and DPD 0 whatever the gap. Use the test of the scores, or a stricter threshold "
        "(sweeps.csv).",
        caution="Not parity: a machine ruler can lift every case above the threshold.",
        sources=("donner2012",),
        covers=("saturated",),
    ),
    Explanation(
        name="amplification",
        title="bias amplification between two models",
        definition="Whether the gain of the other model over the baseline differs between groups, both scored "
        "against one ruler: the test of differential_change, adjusted over all scores and groupings compared.",
        formula="d_i = score of the other model - score of the baseline; rank test of d between groups",
        reading="gap amplified, gap reduced or no change shown; models.csv holds size and limits.",
        caution="A gap found in one model only is no amplification. The ruler must be independent of both models.",
        sources=(
            "kruskal1952",
            "hodges1963",
        ),
        covers=(
            "differential_change",
            "gap_amplified",
            "gap_reduced",
        ),
    ),
)
