"""Tests between groups, effects, and families of tests."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="mann_whitney",
        title="Mann-Whitney test",
        definition="Whether scores of two groups tend to be larger in one of them: the rank sum of a group, one "
        "score a patient, against all ways to divide the ranks.",
        formula="U = R_a - n_a (n_a + 1) / 2,  E(U) = n_a n_b / 2",
        reading="p is counted over all divisions for small groups (exact; permutation where scores tie), else by "
        "the normal law with tie correction and continuity. Read q, not p: many tests were done.",
        caution="Not a test of medians. A large p is no evidence of no gap: see equivalence and "
        "minimal_detectable_gap.",
        sources=("mann1947",),
    ),
    Explanation(
        name="kruskal_wallis",
        title="Kruskal-Wallis test",
        definition="Whether scores of three or more groups differ in location: the spread of the mean ranks.",
        formula="H = 12 / (N (N + 1)) * sum_j n_j (mean rank_j - (N + 1) / 2)^2, over the tie correction",
        reading="Large H: some group differs. Dunn's test says which, after H is found.",
        caution="Not affected by any monotone rescaling of a score, so a shrunken spread alone cannot change it.",
        sources=("kruskal1952",),
        covers=("h",),
    ),
    Explanation(
        name="dunn",
        title="Dunn's comparison of pairs",
        definition="Each pair of groups compared by their mean ranks in the pooled ranking, Holm-adjusted within "
        "the test.",
        formula="z = (mean rank_i - mean rank_j) / sqrt(A (1/n_i + 1/n_j)),  A = N(N+1)/12 - sum(t^3 - t)/(12 (N-1))",
        reading="Only after its Kruskal-Wallis test was found below alpha after adjustment. Positive z: the group "
        "ranks above the reference group.",
        caution="Not adjusted over scores or groupings, only within its own test.",
        sources=("dunn1964",),
    ),
    Explanation(
        name="rank_biserial",
        title="rank-biserial effect",
        definition="The chance that a patient of the group scores higher than one of the reference group, minus "
        "the reverse.",
        formula="r = 2 U_a / (n_a n_b) - 1 = P(a > b) - P(a < b)",
        reading="-1 to 1; positive: the group scores higher than the reference group; 0: no tendency.",
        caution="Not in the unit of the metric, and of either sign in the literature: some report its negative.",
        sources=("newcombe1998",),
        covers=("effect",),
    ),
    Explanation(
        name="epsilon_squared",
        title="epsilon squared",
        definition="The share of the variance of the ranks that lies between the groups.",
        formula="epsilon^2 = H / (N - 1)",
        reading="0 to 1. Its limits correct the upward bias of 2 (k - 1) / (N - 1).",
        caution="Not eta squared of H, (H - k + 1) / (N - k), with which it is often confused; that stands beside it.",
        sources=("tomczak2014",),
        covers=("eta_squared_h",),
    ),
    Explanation(
        name="family",
        title="family of tests",
        definition="The tests that are adjusted together. Declared in the plan: a primary family, or all planned "
        "tests of a model under a ruler; every planned test counts, also one that could not be done.",
        formula="",
        reading="families.csv counts the rejections of each family and method. Where they differ, the verdict "
        "leans on the choice. Count attributes, not tests: 63 dependent tests are worth about 20.",
        caution="Not to be chosen after the scores are seen.",
        sources=("benjamini1995",),
        covers=(
            "all",
            "primary",
            "joint",
            "attribute",
            "q",
            "p",
            "q_joint",
            "q_in_other_family",
            "raw",
        ),
    ),
    Explanation(
        name="bh",
        title="Benjamini-Hochberg",
        definition="Adjusted p that bounds the expected share of false findings among the findings (false "
        "discovery rate).",
        formula="q_(i) = min over j >= i of  m p_(j) / j",
        reading="q below alpha: found. Holds for positively dependent tests, as scores of one cohort are.",
        caution="Not the chance of any false finding: given one, the mean number is five to seven in a family of 63.",
        sources=("benjamini1995",),
    ),
    Explanation(
        name="holm",
        title="Holm",
        definition="Adjusted p that bounds the chance of any false finding, whatever the dependence.",
        formula="q_(i) = max over j <= i of  (m - j + 1) p_(j)",
        reading="Stricter than Benjamini-Hochberg. q_holm in tests.csv.",
        caution="Not aware that tests say the same thing: westfall_young is, and is less strict then.",
        sources=("holm1979",),
        covers=("q_holm",),
    ),
    Explanation(
        name="by",
        title="Benjamini-Yekutieli",
        definition="Benjamini-Hochberg made valid for any dependence, by the factor 1 + 1/2 + ... + 1/m.",
        formula="q_(i) = min over j >= i of  m (1 + 1/2 + ... + 1/m) p_(j) / j",
        reading="q_by in tests.csv. For 63 tests the factor is 4.7.",
        caution="Not needed for scores of one cohort, where it wastes power.",
        sources=("benjamini2001",),
        covers=("q_by",),
    ),
    Explanation(
        name="westfall_young",
        title="Westfall-Young minP",
        definition="Adjusted p that bounds the chance of any false finding and takes the dependence of the tests "
        "as it is: the rows of group memberships move from patient to patient, scores and memberships stay whole.",
        formula="step down from the smallest p:  q_(i) = max over j <= i of  share of draws with min_(k >= j) "
        "p*_(k) <= p_(j)",
        reading="q_wy in tests.csv, over all tests of a model under a ruler. Scores that say the same are paid for "
        "once. Draws: 2,000, or fewer (at least 199) where they would rank more than ten million scores; none "
        "beyond 20,000 patients.",
        caution="Not smaller than 1 / (draws + 1).",
        sources=(
            "westfall1993",
            "phipson2010",
        ),
        covers=("q_wy",),
    ),
    Explanation(
        name="leans_on",
        title="what a verdict leans on (sensitivity.csv)",
        definition="For every test, one choice at a time is made otherwise: a case left out, another threshold, "
        "another rule for empty masks or missing predictions, means in place of ranks, another family, another "
        "convention of HD95.",
        formula="",
        reading="changes = yes: the verdict is another one with that choice. leave_one_case_out names the case "
        "that changes it, else the one that moves p furthest; the p of the other tests stay as they are.",
        caution="Not a new analysis: a verdict that holds under every row may still be wrong, and `mean: test` is "
        "no test of equal means where spreads differ.",
        covers=(
            "leave_one_case_out",
            "threshold",
            "mean",
            "changes",
        ),
    ),
)
