"""Situations: what is planted, and the true value of every quantity there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import logit

from segaudit.simulate.scores import FITTED_RHO, GOLD, TRUTHS, ScoreDraw, Truth, draw_scores, share_out
from segaudit.stats import decompose, independence, spread, variance

STUDY = (21, 29, 26)
THRESHOLDS = (0.8, 0.88)
_MANY = 50_000
_SEED = 7


@dataclass(frozen=True, slots=True)
class Situation:
    """How scores are drawn; `power` sets the gap as `Truth` does."""

    name: str
    shape: str = "gold"
    other_shape: str | None = None
    power: float = 0.05
    gap_ratio: float = 1.0
    noise_ratio: float | None = 1.0
    rho: float = FITTED_RHO
    groups: tuple[float, ...] = STUDY

    def gap_points(self, n: int) -> float:
        """Return the planted gap in Dice points, between the first and the last group."""
        return Truth(self.power).gap_points(n)

    def draw(self, n: int, rng: np.random.Generator, gap_points: float | None = None) -> ScoreDraw:
        """Return a cohort of n cases."""
        return draw_scores(
            n,
            rng=rng,
            groups=self.groups,
            gap_points=self.gap_points(n) if gap_points is None else gap_points,
            gap_ratio=self.gap_ratio,
            noise_ratio=self.noise_ratio,
            rho=self.rho,
            shape=self.shape,
            other_shape=self.other_shape,
        )

    def printed(self, n: int) -> bool:
        """Whether the default plan compares groups of these sizes: ten patients or more in each."""
        return int(share_out(n, self.groups).min()) >= 10

    @property
    def alike(self) -> bool:
        """Whether the two rulers are exchangeable, so that every ratio is 1 and every difference 0."""
        return self.noise_ratio == 1.0 and self.gap_ratio == 1.0 and self.other_shape is None


COHORTS = (
    Situation("no gap, normal", shape="normal"),
    Situation("no gap, gold"),
    Situation("no gap, silver", shape="silver"),
    Situation("no gap, real pair", other_shape="silver", noise_ratio=None),
    Situation("gap, gold", power=0.9),
    Situation("gap, gold, two groups", power=0.9, groups=(1, 1)),
)
"""Where tests and intervals are counted; both rulers are alike but for the real pair."""

VERDICTS = (
    *(
        Situation(name, **{field: getattr(truth, field) for field in ("power", "gap_ratio", "noise_ratio", "rho")})
        for name, truth in TRUTHS.items()
    ),
    Situation("biased_x2, power 0.5", power=0.5, gap_ratio=2.0),
)
"""Where classes are counted: the truths by name, and one more."""

DECISIONS = (
    *(Situation(f"ratio {ratio:g}", noise_ratio=ratio) for ratio in (1.0, 0.8, 0.67, 0.5, 0.25)),
    Situation("real pair", other_shape="silver", noise_ratio=None),
)
POWERS = (
    Situation("ratio 0.67, gold", noise_ratio=0.67),
    Situation("ratio 0.5, gold", noise_ratio=0.5),
    Situation("ratio 0.5, silver", shape="silver", noise_ratio=0.5),
    Situation("real pair", other_shape="silver", noise_ratio=None),
    Situation("ratio 0.67, normal", shape="normal", noise_ratio=0.67),
)


@dataclass(frozen=True, slots=True)
class Facts:
    """True values in a situation; steps are how far each group lies below the first under the trusted ruler."""

    walsh: float
    walsh_log: float
    mnad: float
    inflation: float
    inflation_shift: float
    bound: float
    steps: np.ndarray
    epsilon_squared: float
    rank_biserial: float
    rates: dict[float, np.ndarray]


@cache
def facts(situation: Situation, n: int) -> Facts:
    """Return the true values; what has no closed form is computed on a cohort of 50,000."""
    ruler = (1.0, 1.0, 1.0, 0.0, 0.0, 0.0) if situation.alike else _ruler_facts(replace(situation, name="", power=0.05))
    k = len(situation.groups)
    points = situation.gap_points(n)
    steps = np.arange(k) * points / 100 / (k - 1)
    rates = {}
    if situation.shape == "gold":
        rates = {t: 1 - GOLD.cdf(logit(t + steps)) for t in THRESHOLDS}
    epsilon, biserial = _separation(replace(situation, name=""), points) if points else (0.0, 0.0)
    return Facts(*ruler, steps, epsilon, biserial, rates)


@cache
def _ruler_facts(situation: Situation) -> tuple[float, ...]:
    x, y, _ = situation.draw(_MANY, np.random.default_rng(_SEED), gap_points=0.0)
    level = independence.inflation(x, y)
    if situation.other_shape is None and situation.noise_ratio is not None:  # the same law at another scale: exact
        walsh, log, mnad = situation.noise_ratio, 1.0, situation.noise_ratio
    else:
        walsh, log = variance.walsh_ratio(x, y).ratio, variance.excess_ratio(x, y).ratio
        mnad = spread.spread_ratios(x, y).mnad.ratio
    return walsh, log, mnad, level.mean, level.shift, max(0.0, 1 - float((1 - y).sum() / (1 - x).sum()))


@cache
def _separation(situation: Situation, points: float) -> tuple[float, float]:
    x, _, group = situation.draw(_MANY, np.random.default_rng(_SEED), gap_points=points)
    last, first = np.sort(x[group == group.max()]), x[group == 0]
    below = np.searchsorted(last, first) / last.size  # P(last < first)
    return decompose.separability(x, group).epsilon_squared, 1 - 2 * float(below.mean())
