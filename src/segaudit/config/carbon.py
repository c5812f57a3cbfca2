"""The [carbon] table of study.toml: what a device draws, what the data centre adds, what the grid emits."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictStr, field_validator, model_validator

from segaudit.config.base import Strict

Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DeviceName = Annotated[StrictStr, Field(min_length=1)]

BOARD_WATTS = {"A100": 250.0, "L40S": 350.0}
STUDY_PUE, STUDY_PUE_RANGE = 1.58, (1.55, 1.67)


class CarbonEntry(Strict):
    """The declared model of energy and emissions.

    `watts` names what one unit of a device draws: a board, or one core of `cpu`; the names given are added to A100 and
    L40S. `pue` is the data centre's power usage effectiveness, `grid_g_per_kwh` the lowest and highest intensity of
    the grid in grams of CO2e per kWh.
    """

    watts: dict[DeviceName, Above0] = BOARD_WATTS
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] = STUDY_PUE
    pue_range: tuple[float, float] | None = None
    grid_g_per_kwh: tuple[Above0, Above0] = (99.0, 138.0)

    @field_validator("watts")
    @classmethod
    def _extends_the_boards(cls, watts: dict[str, float]) -> dict[str, float]:
        known = {name.casefold() for name in watts}
        if len(known) < len(watts):
            raise ValueError("two names differ in capitals alone")
        return {**{name: value for name, value in BOARD_WATTS.items() if name.casefold() not in known}, **watts}

    @model_validator(mode="after")
    def _ranges_hold(self) -> CarbonEntry:
        low, high = self.pues
        if not 1 <= low <= self.pue <= high < float("inf"):
            raise ValueError(f"pue_range must begin at 1 or above and hold pue ({self.pue})")
        if self.grid_g_per_kwh[0] > self.grid_g_per_kwh[1]:
            raise ValueError("grid_g_per_kwh is lowest, highest")
        return self

    @property
    def pues(self) -> tuple[float, float]:
        """Return the lowest and highest PUE: those declared, else the study's range for its own PUE, else pue alone."""
        if self.pue_range is not None:
            return self.pue_range
        return STUDY_PUE_RANGE if self.pue == STUDY_PUE else (self.pue, self.pue)
