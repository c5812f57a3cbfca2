import importlib.util
import sys
from pathlib import Path

import pandas as pd
import pytest

from segaudit.config.toml_text import toml_text

_SPEC = importlib.util.spec_from_file_location("slurm_node", Path(__file__).with_name("slurm_node.py"))
slurm = importlib.util.module_from_spec(_SPEC)
sys.modules["slurm_node"] = slurm
_SPEC.loader.exec_module(slurm)


@pytest.fixture(scope="module")
def node():
    """A running SLURM of one node, or a skip with the reason why there is none."""
    reason = slurm.why_not()
    if reason:
        pytest.skip(reason)
    with slurm.slurm_node() as running:
        yield running


def write_study(folder, people, parts, *, gold=(), **changes):
    """Write a study of empty image files: a plan opens none of them."""
    people = pd.DataFrame(people)
    (folder / "images").mkdir(parents=True)
    for kind in ("expert", "silver"):
        (folder / kind).mkdir()
    gold = set(gold)
    for case in people["case"]:
        (folder / "images" / f"{case}_0000.nii.gz").write_bytes(case.encode())
        (folder / ("expert" if case in gold else "silver") / f"{case}.nii.gz").write_bytes(b"label of " + case.encode())
    people.to_csv(folder / "participants.csv", index=False)
    table = people[["case", "patient"]].assign(split=[parts[case] for case in people["case"]])
    table.to_csv(folder / "splits.csv", index=False)
    cohort = {
        "images": "images",
        "participants": {"file": "participants.csv", "key": "case", "patient": "patient"},
        "labels": {"vb": 1, "disc": 2},
        "mask_sets": [
            {"name": "expert", "folder": "expert", "kind": "expert"},
            {"name": "silver", "folder": "silver", "kind": "machine"},
        ],
    }
    (folder / "cohort.toml").write_text(toml_text(cohort))
    study = {
        "reference": ["expert", "silver"],
        "n_folds": 2,
        "regimes": [
            {"name": "mixed", "labels": ["expert", "silver"]},
            {"name": "gold", "labels": ["expert"]},
        ],
        "rulers": [{"made_by": "gold"}],
        "audit": {"by": ["sex"]},
    } | changes
    path = folder / "study.toml"
    path.write_text(toml_text(study))
    return path


def small_people(n=24, n_test=8):
    """Return people, parts and gold cases: every second case is gold, and the last patients are the test part."""
    people = {
        "case": [f"c{i:02d}" for i in range(n)],
        "patient": [f"p{i:02d}" for i in range(n)],
        "sex": ["Female" if i % 2 else "Male" for i in range(n)],
        "age": [25 + 2 * i for i in range(n)],
    }
    parts = {case: "test" if i >= n - n_test else "train" if i % 4 else "val" for i, case in enumerate(people["case"])}
    return people, parts, [case for i, case in enumerate(people["case"]) if i % 2 == 0 or parts[case] == "test"]


@pytest.fixture
def small_study(tmp_path):
    """A study of 16 development and 8 test exams."""
    people, parts, gold = small_people()
    return write_study(tmp_path / "small", people, parts, gold=gold)
