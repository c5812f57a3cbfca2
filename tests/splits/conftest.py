"""A cohort of the study's size and marginals, without its people."""

import numpy as np
import pandas as pd
import pytest

EXAMS_BY_LEVEL = {
    "sex": {"Female": 684, "Male": 571},
    "race": {
        "White": 810,
        "Black or African American": 349,
        "Not Reported": 33,
        "Other": 28,
        "Asian": 25,
        "American Indian or Alaska Native": 9,
        "Native Hawaiian or other Pacific Islander": 1,
    },
    "age_band": {"60+": 528, "40-60": 486, "<40": 241},
}


@pytest.fixture(scope="session")
def study_cases() -> pd.DataFrame:
    """Return 1,255 exams of 1,232 patients, 23 of them with two exams that share sex, race and age band."""
    rng = np.random.default_rng(7)
    patients = {"patient": [f"p{number:04d}" for number in range(1232)]}
    for name, counts in EXAMS_BY_LEVEL.items():
        exams = np.repeat(list(counts), list(counts.values()))
        patients[name] = rng.permutation(exams)[:1232].tolist()
    table = pd.DataFrame(patients)
    table = pd.concat([table.assign(exam="1"), table.iloc[:23].assign(exam="2")], ignore_index=True)
    table.insert(0, "case", table["patient"] + "_" + table["exam"])
    return table.drop(columns="exam")
