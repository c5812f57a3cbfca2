"""What a change of the Kruskal-Wallis statistic is made of: the gap, the scale of the noise, and its pattern.

Scores are rebuilt as group median + scale x pattern, each part from either ruler, and H of the eight hybrids is shared
out by Shapley's rule. Only gap over scale matters to ranks: a proportional compression gives a large negative share to
the gap and as large a positive one to the scale. A large share of the scale is therefore no evidence of anything; read
the net share and its interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from segaudit.stats.clusters import (
    Codes,
    Estimate,
    Floats,
    Layout,
    drawn_weights,
    group_medians,
    kruskal_rows,
    layout,
    paired,
    untied,
    weighted_medians,
)
from segaudit.stats.hybrids import drawn_hybrids, is_large


@dataclass(frozen=True, slots=True)
class Attribution:
    """Shares of the change of H from the trusted to the other ruler.

    Attributes
    ----------
    h : array of 2 by 2 by 2
        H of the hybrids by ruler of gap, of scale and of pattern (0 trusted, 1 other): h[0, 0, 0] is H under the
        trusted ruler, h[1, 1, 1] under the other, h[1, 0, 0] what the other ruler's gap would give without its change
        of noise, h[0, 1, 1] what the trusted ruler's gap would give with the other ruler's noise.
    gap, scale, pattern : Estimate
        They add up to the change.
    net : Estimate
        gap + scale.
    gap_of_two, noise_of_two : float
        Shares when scale and pattern go together; they add up to the change.
    large : bool
        The intervals are by the large-sample law of the draws.
    """

    h: Floats
    gap: Estimate
    scale: Estimate
    pattern: Estimate
    net: Estimate
    gap_of_two: float
    noise_of_two: float
    large: bool = False


def shapley(
    trusted: ArrayLike,
    other: ArrayLike,
    groups: ArrayLike,
    *,
    patients: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 2000,
    rng: np.random.Generator,
) -> Attribution:
    """Return the shares of gap, noise scale and noise pattern in the change of H.

    Parameters
    ----------
    trusted, other : arrays of n_cases
        Scores of the same predictions under the two rulers.
    groups : array of n_cases
        At least two groups.
    patients : array of n_cases, optional
        Drawn whole, within their group, for the percentile intervals.
    draws : int
        Bootstrap draws; beyond 5,000 cases (and 100 patients in every group) from their large-sample law.

    Raises
    ------
    ValueError
        When the scores are not finite, lengths differ, or there is one group.

    References
    ----------
    shapley1953
    """
    x, y = paired(trusted, other)
    cases = layout(x.size, groups, patients)
    if cases.n_groups < 2:
        raise ValueError("an attribution needs at least two groups")
    medians = np.stack([group_medians(x, cases), group_medians(y, cases)])[:, None, :]
    h = _hybrids(x, y, medians, np.ones((1, x.size)), cases)
    drawn = []
    if lawful := is_large(x, y, cases):
        drawn.append(_shares(drawn_hybrids(x, y, cases, draws, rng)))
        draws = 0
    for weights in drawn_weights(cases, draws, rng):
        medians = np.stack([weighted_medians(x, weights, cases), weighted_medians(y, weights, cases)])
        drawn.append(_shares(_hybrids(x, y, medians, weights, cases)))
    low, high = np.quantile(np.concatenate(drawn, axis=1), [0.5 - level / 2, 0.5 + level / 2], axis=1)
    gap, scale, pattern, net = (
        Estimate(float(v), float(a), float(b)) for v, a, b in zip(_shares(h)[:, 0], low, high, strict=True)
    )
    h = h[0]
    gap_of_two = (h[1, 0, 0] - h[0, 0, 0] + h[1, 1, 1] - h[0, 1, 1]) / 2
    noise_of_two = (h[0, 1, 1] - h[0, 0, 0] + h[1, 1, 1] - h[1, 0, 0]) / 2
    return Attribution(h, gap, scale, pattern, net, float(gap_of_two), float(noise_of_two), lawful)


def _hybrids(x: Floats, y: Floats, medians: Floats, weights: Floats, cases: Layout) -> Floats:
    """Return H (draws by 2 by 2 by 2) of every mixture of the rulers' gap, scale and pattern."""
    centre = medians[:, :, cases.group]
    distance = np.stack([x, y])[:, None, :] - centre
    scale = np.sum(np.abs(distance) * weights, axis=2) / np.sum(weights, axis=1)
    pattern = np.divide(distance, scale[:, :, None], out=np.zeros_like(distance), where=scale[:, :, None] > 0)
    h = np.empty((len(weights), 2, 2, 2))
    for gap, size, shape in np.ndindex(2, 2, 2):
        values = untied(centre[gap] + scale[size][:, None] * pattern[shape])
        h[:, gap, size, shape] = kruskal_rows(_dense(values), cases.group, cases.n_groups, weights)
    return h


def _dense(values: Floats) -> Codes:
    """Return, in each row, values as integers in their order; equal values share one."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    steps = np.zeros(values.shape, dtype=np.intp)
    np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=steps[:, 1:])
    codes = np.empty_like(steps)
    np.put_along_axis(codes, order, steps, axis=1)
    return codes


def _shares(h: Floats) -> Floats:
    """Return Shapley's shares of gap, scale, pattern, and gap + scale (4 by draws)."""
    shares = []
    for part in (1, 2, 3):
        gain = np.diff(h, axis=part).squeeze(part)
        shares.append(gain[:, 0, 0] / 3 + (gain[:, 0, 1] + gain[:, 1, 0]) / 6 + gain[:, 1, 1] / 3)
    return np.stack([*shares, shares[0] + shares[1]])
