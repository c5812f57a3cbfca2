"""How the work grows: audits with cases and draws, scoring with cases and workers, each with its peak memory.

    python benchmarks/scale.py            # all of it, a few minutes
    python benchmarks/scale.py audit 100000 1999
    python benchmarks/scale.py score 10000 2

Each measurement runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

LABELS, RULERS = ("vb", "disc"), ("expert", "silver")
AUDITS = [(1_000, 1_999), (3_000, 1_999), (10_000, 1_999), (100_000, 1_999), (10_000, 499), (10_000, 9_999)]
SCORINGS = [(500, 1), (500, 2), (5_000, 2), (10_000, 2)]


def write_tables(folder: Path, n_cases: int) -> None:
    """Write a score table of two structures and three metrics a ruler, and a participants table."""
    rng = np.random.default_rng(5)
    n_patients = max(1, int(n_cases * 0.8))
    patient = np.concatenate([np.arange(n_patients), rng.integers(0, n_patients, n_cases - n_patients)])
    people = pd.DataFrame(
        {
            "patient": [f"p{i:07}" for i in range(n_patients)],
            "sex": rng.choice(["Female", "Male"], n_patients),
            "age": rng.integers(18, 90, n_patients),
            "race": rng.choice(["White", "Black", "Asian"], n_patients, p=[0.6, 0.3, 0.1]),
        }
    )
    rows = people.iloc[patient].reset_index(drop=True)
    rows.insert(0, "case", [f"c{i:07}" for i in range(n_cases)])
    rows.to_csv(folder / "participants.tsv", sep="\t", index=False)
    level = rng.beta(20, 3, n_cases)
    for ruler in RULERS:
        table = pd.DataFrame({"case": rows["case"], "patient": rows["patient"]})
        for label in LABELS:
            dice = np.clip(level + rng.normal(0, 0.03, n_cases), 0, 1)
            table[f"dice_{label}"] = dice.round(5)
            table[f"ndsc_{label}"] = np.clip(dice + rng.normal(0, 0.01, n_cases), 0, 1).round(5)
            table[f"hd95_{label}"] = rng.gamma(2, 1.5 / dice.clip(0.1)).round(4)
        table.to_csv(folder / f"{ruler}.csv", index=False)


def audit_once(n_cases: int, n_draws: int) -> None:
    from segaudit.cli import main

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, n_cases)
        sys.argv = ["segaudit", "audit", "--participants", str(folder / "participants.tsv"), "--key", "case"]
        sys.argv += ["--patient", "patient", "--by", "sex", "--by", "age:40,60", "--by", "race"]
        sys.argv += [word for ruler in RULERS for word in ("--scores", f"{ruler}={folder / ruler}.csv")]
        sys.argv += ["--resamples", str(n_draws), "--seed", "1", "-o", str(folder / "run"), "--json"]
        sys.argv += [word for limit in ("dice=0.8", "ndsc=0.8", "hd95=5") for word in ("--success", limit)]
        before = peak_mib()
        start = time.perf_counter()
        stdout, sys.stdout = sys.stdout, Path(os.devnull).open("w")  # noqa: SIM115
        try:
            main()
        except SystemExit as end:
            assert not end.code, end.code  # noqa: PT017
        finally:
            sys.stdout = stdout
        tell(time.perf_counter() - start, before)


def score_once(n_cases: int, n_workers: int) -> None:
    import segaudit as sa
    from segaudit.volumes import write_labels

    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind in ("pred", "gold"):
            (folder / kind).mkdir()
            for i in range(n_cases):
                mask = np.zeros((24, 24, 12), np.uint8)
                x, y, z = rng.integers(0, 6, 3)
                mask[x : x + 9, y : y + 9, z : z + 5], mask[18:22, 18:22, z:] = 1, 2
                write_labels(folder / kind / f"c{i:06}.nii.gz", mask, spacing_mm=(1.0, 1.0, 3.0))
        before = peak_mib()
        start = time.perf_counter()
        sa.score_folders(
            folder / "pred", {"gold": folder / "gold"}, labels={"vb": 1, "disc": 2}, workers=n_workers,
            ledger=folder / "ledger.sqlite",
        )  # fmt: skip
        tell(time.perf_counter() - start, before)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tell(wall_s: float, before_mib: float) -> None:
    workers_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    told = {
        "wall_s": wall_s,
        "cpu_s": time.process_time(),
        "peak_mib": peak_mib(),
        "before_mib": before_mib,
        "worker_mib": workers_mib,
    }
    print(json.dumps(told))


def measured(verb: str, *numbers: int) -> dict[str, float]:
    line = [sys.executable, __file__, verb, *map(str, numbers)]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)


def table() -> None:
    import drawing  # not in the measured processes: charts take memory

    print(f"{os.cpu_count()} cores; load {os.getloadavg()[0]:.1f}\n")
    print("audit: 2 rulers, 2 structures and macro, 3 metrics, 3 groupings; tables read, audited, compared, written")
    print(f"{'cases':>9} {'draws':>7} {'wall s':>8} {'CPU s':>8} {'peak MiB':>9}")
    rows = []
    for n_cases, n_draws in AUDITS:
        found = measured("audit", n_cases, n_draws)
        for unit, key in (("CPU s", "cpu_s"), ("peak MiB", "peak_mib")):
            row = {"what": f"cases of an audit, {unit}", "unit": unit, "way": f"{n_draws} draws", "size": n_cases}
            rows.append({**row, "value": found[key]})
        print(f"{n_cases:>9} {n_draws:>7} {found['wall_s']:>8.1f} {found['cpu_s']:>8.1f} {found['peak_mib']:>9.0f}")
    print("\nscore: 24 x 24 x 12 voxels, 2 structures, one ruler, with a ledger")
    print(
        f"{'cases':>9} {'workers':>7} {'wall s':>8} {'cases/s':>8} {'peak MiB':>9} {'of it before':>13} {'a worker':>9}"
    )
    for n_cases, n_workers in SCORINGS:
        found = measured("score", n_cases, n_workers)
        way = "1 worker" if n_workers == 1 else f"{n_workers} workers"
        for unit, key in (("s", "wall_s"), ("MiB of a worker", "worker_mib")):
            row = {"what": f"cases scored, {unit}", "unit": unit, "way": way, "size": n_cases}
            rows.append({**row, "value": found[key]})
        rate, before, worker = n_cases / found["wall_s"], found["before_mib"], found["worker_mib"]
        told = f"{n_cases:>9} {n_workers:>7} {found['wall_s']:>8.1f} {rate:>8.0f}"
        print(f"{told} {found['peak_mib']:>9.0f} {before:>13.0f} {worker:>9.0f}")
    drawing.lines("scale", rows, "Audits and scoring by cases")


if __name__ == "__main__":
    verbs = {"audit": audit_once, "score": score_once}
    if len(sys.argv) == 1:
        table()
    else:
        verbs[sys.argv[1]](*map(int, sys.argv[2:]))
