"""Small score tables whose audit is known."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from segaudit.metrics import METRICS
from segaudit.scores import Scores
from segaudit.tables import SCORES


@pytest.fixture(scope="session")
def make_scores() -> Callable[..., Scores]:
    """Return a function that makes scores of (ruler, metric, label) to values, one a case; patients and statuses aside.

    An infinite value is stored as the product stores it: empty, with the status `prediction_empty`.
    """

    def make(values, *, patients=None, statuses=None, model="mix") -> Scores:
        parts = []
        for (ruler, metric, label), given in values.items():
            numbers = np.asarray(given, dtype=float)
            case = [f"c{i:03d}" for i in range(numbers.size)]
            status = np.where(np.isinf(numbers), "prediction_empty", "ok").astype(object)
            for i, word in (statuses or {}).items():
                status[i] = word
            frame = {
                "case": case,
                "patient": patients if patients is not None else [f"p{i:03d}" for i in range(numbers.size)],
                "model": model,
                "ruler": ruler,
                "label": label,
                "metric": metric,
                "value": np.where(status == "ok", numbers, np.nan),
                "unit": METRICS[metric].unit,
                "status": status,
            }
            parts.append(pd.DataFrame(frame))
        return Scores(SCORES.frame(pd.concat(parts, ignore_index=True)))

    return make


@pytest.fixture(scope="session")
def make_people() -> Callable[..., pd.DataFrame]:
    """Return a function that makes the cases of such scores with their attributes."""

    def make(*, patients=None, **attributes) -> pd.DataFrame:
        n = len(next(iter(attributes.values())))
        patient = patients if patients is not None else [f"p{i:03d}" for i in range(n)]
        return pd.DataFrame({"case": [f"c{i:03d}" for i in range(n)], "patient": patient, **attributes})

    return make
