"""Time of Dice and HD95 of every label of a case: compiled, with NumPy alone and, if it is there, by surface-distance.

    python benchmarks/scoring.py [--repeats 9] [--no-peer] [--json FILE]

The volumes are made here, in the geometry of two spine protocols: A is (17, 512, 512) at 4 / 0.43 / 0.43 mm, B is
(320, 320, 15) at 0.69 / 0.69 / 3.3 mm; seven vertebral bodies and six discs, axes in file order (the first is the
fastest in memory). Beside them stand cases made to be hard. Times are CPU times of one thread, medians. The last lines
say what two threads give of the kernel, and two workers or threads of `score_folders` from the files on: cases a second
over those on one, in wall time, the best of several turns each; on a machine with other work to do they say little.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import drawing
from segaudit import score_folders
from segaudit.metrics import kernel, measure
from segaudit.volumes import write_labels

LABELS = {"body": (1,), "disc": (2,)}


def spine(shape, spacing, rng, wobble_mm):
    """A column of seven bodies with six discs between them, each a rounded box, moved and scaled at random."""
    axes = [(np.arange(n) - (n - 1) / 2) * step for n, step in zip(shape, spacing, strict=True)]
    side = int(np.argmax(spacing))
    tall = max({0, 1, 2} - {side})
    deep = 3 - side - tall
    image = np.zeros(shape, np.uint8, order="F")
    for k in range(13):
        body = k % 2 == 0
        half = {side: 21 if body else 19, deep: 14 if body else 13, tall: 9.5 if body else 4.0}
        centre = {side: 0.0, deep: 6 * np.sin(k / 3), tall: (k - 6) * 13.2}
        norm = 0
        for axis in range(3):
            at = (axes[axis] - centre[axis] - rng.normal(0, wobble_mm)) / (half[axis] + rng.normal(0, wobble_mm))
            norm = norm + (np.abs(at) ** 4).reshape([-1 if a == axis else 1 for a in range(3)])
        image[norm < 1] = 1 if body else 2
    return image


def organs(shape, rng, shift):
    """Two large ellipsoids, as in a CT of the abdomen."""
    grid = np.ogrid[tuple(slice(0, n) for n in shape)]
    image = np.zeros(shape, np.uint8, order="F")
    for label, (centre, radius) in enumerate((((0.4, 0.4, 0.5), 0.22), ((0.62, 0.6, 0.5), 0.14)), start=1):
        along = zip(grid, shape, centre, shift, strict=True)
        image[sum(((g - n * c - s) / (n * radius)) ** 2 for g, n, c, s in along) < 1 + rng.normal(0, 0.01)] = label
    return image


def cases_to_run():
    rng = np.random.default_rng(7)
    a, b = ((17, 512, 512), (4.0, 0.43, 0.43)), ((320, 320, 15), (0.69, 0.69, 3.3))
    reference_a, reference_b = spine(*a, rng, 0), spine(*b, rng, 0)
    for name, wobble in (("", 0.7), (" rougher", 1.6)):
        yield f"A{name}", spine(*a, rng, wobble), reference_a, a[1]
        yield f"B{name}", spine(*b, rng, wobble), reference_b, b[1]
    yield "A rolled by 100 voxels", np.asfortranarray(np.roll(spine(*a, rng, 0.7), 100, axis=2)), reference_a, a[1]
    far = spine(*a, rng, 0.7)
    far[0, 0, 0], far[16, 511, 511] = 1, 2
    yield "A one far voxel per label", far, reference_a, a[1]
    noise = np.asfortranarray(rng.integers(0, 3, (2, *a[0]), dtype=np.uint8).transpose(1, 2, 3, 0))
    yield "A noise", noise[..., 0], noise[..., 1], a[1]
    ct = (256, 256, 200)
    yield "CT 256x256x200", organs(ct, rng, (1, 2, 1)), organs(ct, rng, (0, 0, 0)), (0.8, 0.8, 1.5)
    corner = np.asfortranarray(np.roll(organs(ct, rng, (0, 0, 0)), (-40, 60, 60), (0, 1, 2)))
    yield "CT far away", corner, organs(ct, rng, (0, 0, 0)), (0.8, 0.8, 1.5)


def by_numpy(prediction, reference, spacing):
    known, kernel.KERNEL = kernel.KERNEL, None
    try:
        return ours(prediction, reference, spacing)
    finally:
        kernel.KERNEL = known


def ours(prediction, reference, spacing):
    found = measure(prediction, reference, LABELS, LABELS, spacing, components=False)
    return [(2 * m.counts.tp / (m.counts.prediction + m.counts.reference), m.hd95) for m in found.values()]


def by_peer(peer, prediction, reference, spacing):
    values = []
    for (value,) in LABELS.values():
        p, r = prediction == value, reference == value
        dice = peer.compute_dice_coefficient(r, p)
        values.append((dice, peer.compute_robust_hausdorff(peer.compute_surface_distances(r, p, spacing), 95)))
    return values


def milliseconds(function, *args, repeats):
    times, values = [], None
    for _ in range(repeats):
        start = time.thread_time()
        values = function(*args)
        times.append(1e3 * (time.thread_time() - start))
    return statistics.median(times), values


def best_seconds(ways, turns):
    """Return the least wall time of each way; they take turns, so that other work on the machine hits all alike."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(turns):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def kernel_on_threads(prediction, reference, spacing, turns, n_cases=60):
    def scored(n_threads):
        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(lambda _: ours(prediction, reference, spacing), range(n_cases)))

    return best_seconds({"1 thread": lambda: scored(1), "2 threads": lambda: scored(2)}, turns)


def folders_on_workers(prediction, reference, spacing, turns, n_cases=200):
    """Time the whole of `score_folders`, its result table included, on links to one pair of files."""
    with tempfile.TemporaryDirectory() as name:
        for kind, image in (("prediction", prediction), ("reference", reference)):
            folder = Path(name, kind)
            folder.mkdir()
            write_labels(folder / "c0.nii.gz", image, spacing_mm=spacing)
            for i in range(1, n_cases):
                os.link(folder / "c0.nii.gz", folder / f"c{i}.nii.gz")

        def scored(**how):
            values = {label: value for label, (value,) in LABELS.items()}
            score_folders(Path(name, "prediction"), {"ruler": Path(name, "reference")}, labels=values, **how)

        def threaded():
            with ThreadPoolExecutor(2) as executor:
                scored(executor=executor)

        ways = {"1 worker": lambda: scored(workers=1), "2 workers": lambda: scored(workers=2), "2 threads": threaded}
        return best_seconds(ways, turns)


def by_labels(repeats):
    """Yield the number of labels and the milliseconds of a case whose structures are cut into so many."""
    _, prediction, reference, spacing = next(cases_to_run())
    for n_labels in (1, 2, 4, 8, 16, 32):
        value = (np.arange(prediction.shape[2]) * n_labels // prediction.shape[2] + 1).astype(np.uint8)
        images = [np.asfortranarray(np.where(image > 0, value, 0)) for image in (prediction, reference)]
        labels = {str(number): (number,) for number in range(1, n_labels + 1)}
        found = milliseconds(measure, *images, labels, labels, spacing, repeats=repeats)[0]
        yield n_labels, found


def show_voxels(repeats):
    """Print and return how the time of a case grows with its voxels: one anatomy on finer and finer grids."""
    print("the anatomy of A on finer grids, million voxels and the kernel's ms:", end="")
    rows = []
    for n in (128, 256, 512, 1024, 2048):
        rng, shape, spacing = np.random.default_rng(7), (17, n, n), (4.0, 220 / n, 220 / n)
        reference, prediction = (spine(shape, spacing, rng, wobble_mm) for wobble_mm in (0, 0.7))
        found = milliseconds(ours, prediction, reference, spacing, repeats=repeats)[0]
        print(f"  {reference.size / 1e6:.1f}: {found:.2f}", end="")
        rows.append({"what": "voxels of a case", "unit": "ms", "way": "kernel", "size": reference.size, "value": found})
    print()
    return rows


def show_labels(repeats):
    """Print and return how the time of a case grows with its labels."""
    print("labels of a case as A, and the kernel's ms with pieces counted:", end="")
    rows = []
    for n_labels, found in by_labels(repeats):
        print(f"  {n_labels}: {found:.2f}", end="")
        rows.append({"what": "labels of a case", "unit": "ms", "way": "kernel", "size": n_labels, "value": found})
    print()
    return rows


def show_scaling(turns):
    """Print and return how the work speeds up with workers and threads."""
    rows = []
    name, *case = next(cases_to_run())
    for what, seconds in (
        ("kernel, 60 cases", kernel_on_threads(*case, turns)),
        ("score_folders, 200 cases", folders_on_workers(*case, turns)),
    ):
        one, *others = seconds.items()
        told = ", ".join(f"{way} {taken:.2f} s (x{one[1] / taken:.2f})" for way, taken in others)
        rows += [
            {"what": what, "unit": "s", "way": way.split()[1].rstrip("s") + "s", "size": int(way[0]), "value": taken}
            for way, taken in seconds.items()
        ]
        print(f"{what} as {name}: {one[0]} {one[1]:.2f} s, {told}; load {os.getloadavg()[0]:.1f}")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    try:
        warnings.simplefilter("ignore", DeprecationWarning)
        from surface_distance import metrics as peer
    except ImportError:
        peer = None
    if options.no_peer:
        peer = None
    ways = {"kernel": ours, "numpy": by_numpy} if kernel.KERNEL else {"numpy": by_numpy}
    rows = []
    for name, *case in cases_to_run():
        row = {"case": name}
        for way, function in ways.items():
            row[way], values = milliseconds(function, *case, repeats=options.repeats if way == "kernel" else 3)
            row[f"{way}_values"] = values
        if peer:
            row["peer"], row["peer_values"] = milliseconds(by_peer, peer, *case, repeats=1 if row["numpy"] > 500 else 3)
            fastest = row[next(iter(ways))]
            row["times_faster"] = row["peer"] / fastest
        rows.append(row)
        print(f"{name:28s}", *(f"{w} {row[w]:9.2f} ms" for w in (*ways, "peer") if w in row), end="")
        print(f"  x{row['times_faster']:.1f}" if peer else "")
        for way in (*ways, "peer"):
            if way in row:
                print(f"    {way:8s}", *(f"Dice {d:.6f} HD95 {h:.9f}" for d, h in row[f"{way}_values"]))
    shown = [{"set": r["case"], "way": way, "value": r[way]} for r in rows for way in (*ways, "peer") if way in r]
    named = [{**row, "way": "surface-distance"} if row["way"] == "peer" else row for row in shown]
    drawing.bars("scoring", named, "Dice and HD95 of a case, CPU time of one thread", "ms")
    if "kernel" in ways:
        grown = show_voxels(options.repeats) + show_labels(options.repeats) + show_scaling(options.repeats)
        drawing.lines("scoring-growth", grown, "Scoring by voxels, labels, threads and workers")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
