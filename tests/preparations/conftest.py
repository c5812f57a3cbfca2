"""A study-size table of exams as a file: the marginals of the cohort, not its people."""

import numpy as np
import pandas as pd
import pytest

MARGINALS = {
    "sex": {"Female": 684, "Male": 571},
    "race": {
        "White": 810,
        "Black or African American": 349,
        "Unlisted": 33,
        "Other": 28,
        "Asian": 25,
        "American Indian or Alaska Native": 9,
        "Native Hawaiian or other Pacific Islander": 1,
    },
    "manufacturer": {"SIEMENS": 789, "GE MEDICAL SYSTEMS": 466},
    "field": {"1.5": 747, "3.0": 508},
    "provenance": {"gold": 494, "silver": 761},
}
BINS = {"<40": (241, 18, 40), "40-60": (486, 40, 60), "60+": (515, 60, 89)}
N_REDACTED, N_PATIENTS, N_TWICE = 13, 1232, 23


def study_table(seed=7):
    """Return 1,255 exams of 1,232 patients, 23 of them with two exams; 13 ages are redacted as '89+'."""
    rng = np.random.default_rng(seed)
    n = N_PATIENTS + N_TWICE
    owner = [*range(N_PATIENTS), *range(N_TWICE)]
    table = pd.DataFrame({"case": [f"e{i:04d}" for i in range(n)], "patient": [f"p{i:04d}" for i in owner]})
    ages = [str(v) for size, low, high in BINS.values() for v in rng.integers(low, high, size)] + ["89+"] * N_REDACTED
    table["age"] = rng.permutation(ages)
    for name, counts in MARGINALS.items():
        table[name] = rng.permutation(np.repeat(list(counts), list(counts.values())))
    for name in ("sex", "race"):  # the exams of a patient share them: swap with a row that has the level
        levels = table[name].tolist()
        for place in range(N_TWICE):
            twin = N_PATIENTS + place
            free = twin if levels[twin] == levels[place] else levels.index(levels[place], N_TWICE)
            levels[free], levels[twin] = levels[twin], levels[free]
        table[name] = levels
    return table


@pytest.fixture(scope="session")
def study():
    return study_table()


@pytest.fixture
def study_file(study, tmp_path):
    path = tmp_path / "participants.csv"
    study.to_csv(path, index=False)
    return path


@pytest.fixture
def table_file(tmp_path):
    """Return a function that writes rows of a table, the first its header."""

    def write(*rows, name="participants.csv"):
        path = tmp_path / name
        path.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
        return path

    return write
