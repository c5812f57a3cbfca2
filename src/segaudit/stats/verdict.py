"""What a change of ruler did to a verdict, as one word: the decision table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Word = Literal[
    "agreement",
    "false magnitude",
    "false confidence",
    "masking (gap)",
    "masking (noise)",
    "saturation",
    "inconclusive",
]
Interval = tuple[float, float]

_NEEDS_CHANGE = ("false confidence", "masking (gap)", "masking (noise)")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What changing the ruler does to the verdict on a gap.

    Attributes
    ----------
    word : str
        agreement: same verdict, no inflated gap. false magnitude: the other ruler inflates the gap. false confidence: a
        gap that the trusted ruler cannot tell from noise becomes significant because noise shrank. masking (gap),
        masking (noise): a gap is lost because the ruler shrinks it, or buries it. saturation: every success rate is 1
        (or 0) under one ruler only. inconclusive: the verdicts differ and nothing explains it.
    established : bool or None
        For false confidence and masking: whether the change of separability is itself significant. Without it the flip
        may be the crossing of a threshold by chance. None for the other words.
    mechanism : str
        `proportional compression` where gap and noise shrank alike; else empty.
    flags : tuple of str
        compressed, gap smaller, threshold crossing, practically equivalent, unattributed, direction reversed.
    """

    word: Word
    established: bool | None = None
    mechanism: str = ""
    flags: tuple[str, ...] = ()


def classify(
    *,
    trusted_significant: bool,
    other_significant: bool,
    gap_inflated: bool,
    gap_smaller: bool,
    noise: Interval,
    change_significant: bool,
    phi_gap: float = 0.0,
    phi_scale: float = 0.0,
    excess: Interval | None = None,
    snr: Interval | None = None,
    equivalent: bool = False,
    direction_reversed: bool = False,
    rates_saturated: bool = False,
    collapse: float = 0.8,
) -> Verdict:
    """Return the class of a verdict change; the rows of the table are tried in order.

    Parameters
    ----------
    trusted_significant, other_significant : bool
        The audit's own adjusted verdict under each ruler.
    gap_inflated, gap_smaller : bool
        Differential inflation is significant, and positive or negative (`decompose.differential_inflation`).
    noise : two floats
        Interval of the Walsh ratio within groups: upper limit below `collapse` is a collapse, lower limit above 1 /
        collapse an inflation of noise. nan is neither.
    change_significant : bool
        `decompose.separability_change` is significant.
    phi_gap, phi_scale : float
        Attribution of the change of H (`attribution.shapley`).
    excess, snr : two floats, optional
        Intervals of the Walsh ratio of log errors and of the signal-to-noise ratio; None where not estimable.
    equivalent : bool
        The groups are equivalent within the margin under the other ruler.
    direction_reversed : bool
        The worst group is another one, beyond chance, under each ruler.
    rates_saturated : bool
        For a disparity of success rates: `saturated` holds.

    Raises
    ------
    ValueError
        When the gap is said to be both inflated and smaller.
    """
    if gap_inflated and gap_smaller:
        raise ValueError("a gap is not both inflated and smaller")
    collapsed, noisier = noise[1] < collapse, noise[0] > 1 / collapse
    proportional = _holds_one(excess) and _holds_one(snr)
    flags: list[tuple[str, bool]] = []
    word: Word = "inconclusive"
    if rates_saturated:
        word = "saturation"
    elif trusted_significant == other_significant:
        word = "false magnitude" if trusted_significant and gap_inflated else "agreement"
        flags = [("compressed", collapsed), ("gap smaller", gap_smaller)] if word == "agreement" else []
    elif other_significant and gap_inflated and (not collapsed or phi_gap >= phi_scale):
        word = "false magnitude"
    elif other_significant and collapsed:
        word = "false confidence"
        flags = [("threshold crossing", not change_significant), ("practically equivalent", equivalent)]
    elif trusted_significant and gap_smaller and not noisier:
        word = "masking (gap)"
    elif trusted_significant and noisier:
        word = "masking (noise)"
    else:
        flags = [("unattributed", change_significant)]
    return Verdict(
        word,
        change_significant if word in _NEEDS_CHANGE else None,
        "proportional compression" if word == "false confidence" and proportional else "",
        tuple(flag for flag, holds in [*flags, ("direction reversed", direction_reversed)] if holds),
    )


def saturated(trusted_rates: Sequence[float], other_rates: Sequence[float]) -> bool:
    """Return whether all groups' success rates are 1 (or all 0) under one ruler and not under the other."""
    return _flat(trusted_rates) != _flat(other_rates)


def _flat(rates: Sequence[float]) -> bool:
    return all(rate == 1 for rate in rates) or all(rate == 0 for rate in rates)


def _holds_one(interval: Interval | None) -> bool:
    return interval is not None and interval[0] <= 1 <= interval[1]
