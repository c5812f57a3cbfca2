"""Whether groups lie within the declared margin: one definition, so that no two tables differ at the border."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from segaudit.audits.cells import Floats
from segaudit.audits.compare import generator
from segaudit.audits.plan import Plan
from segaudit.stats.clusters import LARGE_SAMPLE

if TYPE_CHECKING:
    from segaudit.stats.equivalence import Equivalence

_DRAWS = 2_000
_NUMBERS = 40_000_000  # numbers that the draws of one test may touch
_MIN_DRAWS = 199


def draws_of(n_cases: int, plan: Plan) -> int:
    """Return how often so many cases are drawn again: as the plan says, as far as time allows."""
    most = min(_DRAWS, plan.resamples)
    return most if n_cases > LARGE_SAMPLE else int(np.clip(_NUMBERS // max(1, n_cases), _MIN_DRAWS, most))


def within_margin(
    plan: Plan,
    score: tuple[str, str],
    grouping: str,
    values: Floats,
    groups: NDArray[np.str_],
    patients: NDArray[np.intp],
    *,
    significant: bool = False,
) -> Equivalence | None:
    """Return whether every two groups lie within the plan's margin; None without a margin, or with an infinite score.

    The same scores give the same answer, whatever else was drawn before and in whatever order the groups stand.

    Parameters
    ----------
    plan : Plan
    score : (str, str)
        Label and metric.
    grouping : str
    values, groups, patients : arrays of n_cases
    significant : bool
        The audit's own verdict on a difference.
    """
    from segaudit.stats.equivalence import equivalence

    margin = plan.margin.get(score[1])
    if margin is None or not np.isfinite(values).all():  # a score that ranks worst has no distance
        return None
    order = np.argsort(groups, kind="stable")
    return equivalence(
        values[order],
        groups[order],
        margin=margin,
        patients=patients[order],
        significant=significant,
        level=1 - 2 * plan.alpha,
        draws=draws_of(values.size, plan),
        rng=generator(plan, *score, grouping, "equivalence"),
    )
