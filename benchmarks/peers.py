"""Dice and HD95 of both structures of a case, from the files: our scorer beside others, in one run.

    python benchmarks/peers.py [--repeats 3] [--venv build/peers] [--only NAME ...] [--json FILE]

The others are installed from PyPI (MetricsReloaded, which is not there, from its repository) into an environment of
their own, which is made when it is not there and can be removed at any time (`make bench-peers`). One that does not
install or does not start is named as absent. Every scorer runs in a process of its own, on one thread; all take turns,
case by case, so that a change in the load of the machine hits all alike. A time is the CPU time of a case from the
files on, which lie in the page cache: median and quartiles over the cases of a set and the turns. A scorer that takes
over twenty seconds is not asked again. The limit inflates both files and touches each voxel once.

The volumes are those of scoring.py, in three layouts: 17 slices along the fastest axis of the file, 15 slices along the
slowest, both of 512 x 512 at 0.43 mm and 4 mm, and 320 x 320 x 15 at 0.69 and 3.3 mm.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import nibabel as nib
import numpy as np

import drawing
from peer_scorers import LABELS, PACKAGES, SCORERS
from scoring import spine

HERE = Path(__file__).resolve().parent
OWN = ("segaudit", "segaudit score", "limit")
SETS = {
    "17x512x512": ((17, 512, 512), (4.0, 0.43, 0.43)),
    "512x512x15": ((512, 512, 15), (0.43, 0.43, 4.0)),
    "320x320x15": ((320, 320, 15), (0.69, 0.69, 3.3)),
}
SLOW_MS = 20_000
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
    ),
    "1",
)


class Scorer:
    """A process that scores one case after the other on request."""

    def __init__(self, name: str, python: Path | str) -> None:
        command = [str(python), str(HERE / "peer_scorers.py"), name]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=os.environ | ONE_THREAD
        )
        self._start_mib = self._process.stdout.readline()
        self.peak_mib = 0.0

    @property
    def is_ready(self) -> bool:
        return bool(self._start_mib)

    @property
    def taken_mib(self) -> float:
        """Peak memory over that before the first case."""
        return self.peak_mib - float(self._start_mib)

    def __call__(self, prediction: Path, reference: Path) -> tuple[float, list[list[float]]]:
        print(json.dumps([str(prediction), str(reference)]), file=self._process.stdin, flush=True)
        took, self.peak_mib, values = json.loads(self._process.stdout.readline())
        return took, values

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def install(folder: Path, wanted: list[str]) -> tuple[Path, list[str]]:
    """Return the Python of the peers' environment, and the peers that could not be installed."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    absent, known = [], versions(python)
    for name in wanted:
        if all(bare(package) in known for package in PACKAGES[name]):
            continue
        # One version of torch for all who use it.
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES[name]]
        # The setup.py of MetricsReloaded imports pkg_resources, which later versions have no more.
        constraints = folder / "build-constraints.txt"
        constraints.write_text("setuptools<81\n")
        env = os.environ | dict.fromkeys(("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), str(constraints))
        if subprocess.run(command, check=False, capture_output=True, env=env).returncode:
            absent.append(name)
    return python, absent


def bare(package: str) -> str:
    """Return the name of a package without its version or its source."""
    return re.split("==| @ ", package)[0].lower()


def versions(python: Path) -> dict[str, str]:
    command = [python, "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]
    found = subprocess.run(command, check=True, capture_output=True).stdout
    # pip prints names as their projects write them.
    return {package["name"].lower().replace("_", "-"): package["version"] for package in json.loads(found)}


def write_cases(folder: Path) -> dict[str, list[tuple[Path, Path]]]:
    """Write two predictions and a reference of each set; return their paths."""
    rng = np.random.default_rng(7)
    cases = {}
    for name, (shape, spacing) in SETS.items():
        paths = []
        for part, wobble_mm in (("reference", 0), ("near", 0.7), ("rough", 1.6)):
            paths.append(folder / f"{name}-{part}.nii.gz")
            image = nib.Nifti1Image(spine(shape, spacing, rng, wobble_mm), np.diag([*spacing, 1.0]))
            image.header.set_xyzt_units("mm")
            nib.save(image, paths[-1])
        cases[name] = [(paths[1], paths[0]), (paths[2], paths[0])]
    return cases


def measure(scorers: dict[str, Scorer], cases, repeats: int):
    """Return times by set and scorer, and the values of each case."""
    times = {name: {scorer: [] for scorer in scorers} for name in cases}
    values: dict[str, dict[str, list]] = {name: {scorer: [] for scorer in scorers} for name in cases}
    slow = set()
    for name, pairs in cases.items():
        for turn in range(repeats):
            for pair in pairs:
                for scorer in scorers.keys() - slow:
                    took, found = scorers[scorer](*pair)
                    if took > SLOW_MS:
                        slow.add(scorer)
                    times[name][scorer].append(took)
                    if not turn:
                        values[name][scorer].append(found)
        times[name] = {scorer: taken for scorer, taken in times[name].items() if taken}
    return times, values


def show(times, values, scorers: dict[str, Scorer], absent: list[str], known: dict[str, str]) -> list[dict]:
    rows = []
    for name in times:
        print(f"\n{name}: CPU time of a case, load + Dice + HD95 of both structures")
        print(f"  {'scorer':24s}{'median ms':>10s}  {'quartiles':>15s}{'times ours':>12s}{'times limit':>12s}")
        ours, floor = (float(np.median(times[name][scorer])) for scorer in ("segaudit", "limit"))
        for scorer in sorted(times[name], key=lambda scorer: np.median(times[name][scorer])):
            low, middle, high = (float(q) for q in np.quantile(times[name][scorer], [0.25, 0.5, 0.75]))
            title = f"{scorer} {known.get('nnunetv2' if scorer == 'nnU-Net' else scorer.lower(), '')}"
            spread = f"{low:.2f} to {high:.2f}"
            bar = "#" * max(1, round(8 * math.log10(middle / floor) + 1))
            print(f"  {title:24s}{middle:10.2f}  {spread:>15s}{middle / ours:12.1f}{middle / floor:12.1f}  {bar}")
            row = {"set": name, "scorer": title.strip(), "median_ms": middle, "low_ms": low, "high_ms": high}
            rows.append(row | {"times_ours": middle / ours, "values": values[name][scorer]})
    for name in values:
        print(f"\n{name}: values, near and rough prediction; Dice and HD95 in mm of {' and '.join(LABELS)}")
        for scorer, found in values[name].items():
            if any(found):
                shown = ("  ".join(f"{dice:.4f} {hd95:.6f}" for dice, hd95 in case) for case in found)
                print(f"  {scorer:18s}" + "  |  ".join(shown))
    print("\nmiseval has no HD95: its value is the largest distance, in voxels. nnU-Net's evaluator has no distance.")
    print("\npeak memory in MiB, and over that at the start:", end=" ")
    print(", ".join(f"{name} {scorer.peak_mib:.0f} ({scorer.taken_mib:.0f})" for name, scorer in scorers.items()))
    print(f"absent (did not install or start): {', '.join(absent) or 'none'}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--venv", type=Path, default=HERE.parent / "build" / "peers")
    parser.add_argument("--only", nargs="*", choices=list(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    python, absent = install(options.venv, options.only)
    load = os.getloadavg()
    scorers = {name: Scorer(name, sys.executable if name in OWN else python) for name in SCORERS if name in OWN}
    scorers |= {name: Scorer(name, python) for name in options.only if name not in absent}
    absent += [name for name, scorer in scorers.items() if not scorer.is_ready]
    scorers = {name: scorer for name, scorer in scorers.items() if scorer.is_ready}
    with tempfile.TemporaryDirectory() as folder:
        times, values = measure(scorers, write_cases(Path(folder)), options.repeats)
    for scorer in scorers.values():
        scorer.end()
    rows = show(times, values, scorers, absent, versions(python))
    print(f"load of the machine (1, 5, 15 minutes) before {load} and after {os.getloadavg()}; {os.cpu_count()} cores")
    shown = [{"set": row["set"], "way": row["scorer"], "value": row["median_ms"]} for row in rows]
    drawing.bars("peers", shown, "Load, Dice and HD95 of both structures of a case: median CPU time", "ms")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
