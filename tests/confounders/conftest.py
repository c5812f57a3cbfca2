"""Score tables and cohorts for the confounders."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import segaudit as sa
from segaudit.metrics import METRICS
from segaudit.tables import SCORES


@dataclass(frozen=True)
class Table:
    """A bare score table."""

    table: pd.DataFrame


@pytest.fixture
def scored():
    """Return a function that makes a score table of columns of values: `dice_vb`, `volume_reference_mm3_vb`."""

    def make(cases, *, status=None, model="net", ruler="expert", **columns):
        parts = []
        for column, values in columns.items():
            metric = next(name for name in METRICS.names() if column.startswith(f"{name}_"))
            parts.append(
                pd.DataFrame(
                    {
                        "case": cases["case"],
                        "patient": cases["patient"],
                        "model": model,
                        "ruler": ruler,
                        "label": column.removeprefix(f"{metric}_"),
                        "metric": metric,
                        "value": np.asarray(values, dtype=float),
                        "unit": METRICS[metric].unit,
                        "status": "ok" if status is None else status,
                    }
                )
            )
        return Table(SCORES.frame(pd.concat(parts, ignore_index=True)))

    return make


@pytest.fixture
def sites():
    """Return 400 patients whose race goes with their site, and scores that go with the site alone."""
    rng = np.random.default_rng(7)
    site = np.where(rng.random(400) < 0.4, "A", "B")
    black = rng.random(400) < np.where(site == "A", 0.7, 0.2)
    cases = pd.DataFrame(
        {
            "case": [f"c{i:03d}" for i in range(400)],
            "patient": [f"p{i:03d}" for i in range(400)],
            "race": np.where(black, "Black", "White"),
            "site": site,
            "age": rng.integers(20, 80, 400).astype(float),
        }
    )
    dice = 0.85 - 0.1 * (site == "A") + rng.normal(0, 0.04, 400)
    return cases, dice


@pytest.fixture
def race():
    """Return a plan with one grouping, White the reference group."""
    return sa.Plan(groupings=[sa.by_level("race", "White", "Black")])
