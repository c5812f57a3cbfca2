"""limits.toml: what must hold for a run to pass a gate."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from segaudit.config.base import Strict

Quantity = Literal[
    "dir",
    "dpd",
    "median_gap",
    "success_rate",
    "mean",
    "median",
    "n_patients",
    "inflation",
    "walsh_ratio",
    "shared_error_bound",
]


class Limit(Strict):
    """One limit on one quantity, wherever it stands: what is not named is every one.

    Attributes
    ----------
    quantity : str
        dir, dpd, median_gap (of each grouping); success_rate, mean, median, n_patients (of each group, or of all cases
        with `grouping = ""`); inflation, walsh_ratio, shared_error_bound (of the other ruler to the trusted one).
    min, max : float
        The value must not lie below `min` nor above `max`; give one or both.
    by : {"interval", "estimate"}
        `interval`: the whole interval must keep the limit to pass, and lie beyond it to break it; between the two there
        is not enough evidence. A quantity without an interval is taken as it is.
    model, ruler, label, metric, grouping, group : str, optional
    name : str
        How the limit is called in the results.
    """

    quantity: Quantity
    min: float | None = None
    max: float | None = None
    by: Literal["interval", "estimate"] = "interval"
    model: str | None = None
    ruler: str | None = None
    label: str | None = None
    metric: str | None = None
    grouping: str | None = None
    group: str | None = None
    name: str = ""

    @model_validator(mode="after")
    def _bounded(self) -> Limit:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self

    @property
    def title(self) -> str:
        """The limit in words."""
        bounds = [f"at least {self.min:g}"] if self.min is not None else []
        bounds += [f"at most {self.max:g}"] if self.max is not None else []
        return self.name or f"{self.quantity} {' and '.join(bounds)}"


class Limits(Strict):
    """limits.toml.

    Attributes
    ----------
    limits : list of Limit
        At least one.
    """

    limits: list[Limit]

    @model_validator(mode="after")
    def _some(self) -> Limits:
        if not self.limits:
            raise ValueError("give at least one [[limits]]")
        return self
