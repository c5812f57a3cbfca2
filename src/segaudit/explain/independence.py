"""Whether a ruler is independent of the model."""

from segaudit.explain.base import Explanation

EXPLAINED = (
    Explanation(
        name="shared_error",
        title="shared errors of model and ruler",
        definition="The share of the voxels where the model errs against the trusted reference in which the ruler "
        "errs alike.",
        formula="a: model wrong, b: ruler wrong, c: both wrong alike\n"
        "of the model: sum c / sum a;  of the ruler: sum c / sum b;  cosine: sum c / sqrt(sum a * sum b)",
        reading="Near 1: the ruler repeats the model. A ruler scores the model higher than the trusted one does "
        "exactly when more than half of its own errors are shared (structures of equal size).",
        caution="Not proof of leakage: two good models and a trusted reference that errs give the same figure. "
        "Only a second expert reading tells them apart (adjudication_share).",
        covers=(
            "shared_error_of_ruler",
            "shared_error_cosine",
            "phi",
        ),
    ),
    Explanation(
        name="shared_error_bound",
        title="lower bound of the shared errors",
        definition="The least share of the model's errors that the ruler must have, from two Dice scores alone: no "
        "mask, and no score of the ruler itself, is needed.",
        formula="bound = 1 - sum d / sum a;  equal volumes: 1 - (1 - Dice_other) / (1 - Dice_trusted)",
        reading="Lower limit above 0.5: near-clone, its errors correlate with the model's at about 0.85 and more.",
        caution="A bound: 0 says nothing. It is rigorous for one structure; for several it is an approximation.",
    ),
    Explanation(
        name="kappa_err",
        title="shared errors beyond chance",
        definition="How much more model and ruler err in the same voxels than two independent readers would who "
        "err most at the boundary, as everyone does.",
        formula="E0: overlap expected in shells of equal distance from the boundary\n"
        "kappa = sum (c - E0) / sum (min(a, b) - E0)",
        reading="0: independent given the distance; 1: one error map holds the other. Up to 0.10 is explained by "
        "cases that are hard for all; a lower limit above it: dependent.",
        caution="Not Cohen's kappa of the error maps, which independence at boundaries inflates to 0.18.",
        sources=("cohen1960",),
    ),
    Explanation(
        name="adjudication_share",
        title="adjudication share",
        definition="Where model and ruler agree against the trusted reference, how often a second expert reading "
        "agrees with the trusted reference.",
        formula="share = P(second = trusted | model = ruler, other than trusted)",
        reading="Interval above 0.5: the errors are truly shared. Below 0.5: they are those of the trusted reference.",
        caution="Without a second reading leakage and a noisy gold cannot be separated, whatever the other figures.",
    ),
    Explanation(
        name="independence",
        title="independence of a ruler, in a word",
        definition="The strongest word that the lower limits allow.",
        formula="shared_error_bound low > 0.5   near-clone\n"
        "inflation low > 0              too close to be an independent benchmark\n"
        "kappa_err low > 0.10           dependent\n"
        "else                           no dependence shown",
        reading="The first two are had from scores alone. training_* counts the patients that model, ruler and "
        "audit share, where trained_on is known.",
        caution="'no dependence shown' is no proof of independence: without masks only strong dependence is seen.",
        covers=(
            "near_clone",
            "training_shared",
            "training_audited_model",
            "training_audited_ruler",
            "dice_model_trusted",
            "dice_model_other",
            "dice_rulers",
        ),
    ),
)
