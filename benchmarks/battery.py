"""Time of the statistical battery beside other ways to the same resamples of the same cells, in one run.

Beside it: scipy.stats.bootstrap with a Python statistic, a loop of shuffles, a data-frame group-by per resample and,
where it is installed, the bootstrap of Fairlearn's MetricFrame. All times are CPU times.

The cells are those of the study: seven groupings of 2, 2, 3, 2, 3, 2 and 2 groups, nine scores each, 228 cases.

    python benchmarks/battery.py            # scipy on four cells, scaled to 63
    python benchmarks/battery.py --full     # scipy on all 63 (some minutes)
    python benchmarks/battery.py --draws 1000
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from scipy import stats

import drawing
from segaudit.stats.effects import epsilon_squared_interval
from segaudit.stats.intervals import dir_interval, dpd_interval, hodges_lehmann, median_gap_interval
from segaudit.stats.resample import bootstrap_disparities, permute_disparities, rate_table
from segaudit.stats.tests import dunn, kruskal_wallis, mann_whitney

GROUPINGS = (
    (114, 114),
    (50, 178),
    (50, 159, 19),
    (12, 216),
    (63, 87, 78),
    (110, 118),
    (76, 152),
)
FAILURES = (0.01, 0.01, 0.02, 0.03, 0.04, 0.03, 0.02, 0.05, 0.08)
LEVEL = 0.95


def cells():
    """Return (grouping codes, success per case, k) of each of the 63 cells."""
    rng = np.random.default_rng(20240501)
    made = []
    for sizes in GROUPINGS:
        codes = np.repeat(np.arange(len(sizes)), sizes)
        made += [(codes, rng.random(codes.size) > share, len(sizes)) for share in FAILURES]
    return made


def statistic(codes, success, k):
    """Return DIR as a user of scipy writes it."""
    rates = [success[codes == group].mean() if (codes == group).any() else np.nan for group in range(k)]
    best = np.nanmax(rates)
    return np.nanmin(rates) / best if best else np.nan


def by_scipy(cell, draws):
    """Time scipy's BCa bootstrap of DIR, and a loop of shuffles, on one cell."""
    codes, success, k = cell
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats.bootstrap(
            (np.arange(codes.size),),
            lambda index: statistic(codes[index], success[index], k),
            n_resamples=draws,
            vectorized=False,
            method="BCa",
            rng=np.random.default_rng(42),
        )
    middle = time.process_time()
    rng = np.random.default_rng(42)
    for _ in range(draws):
        statistic(rng.permutation(codes), success, k)
    return middle - start, time.process_time() - middle


FRAME_DRAWS = 200  # measured, and scaled


def by_frame(cell):
    """Time a data-frame group-by per resample, on one cell and per draw."""
    codes, success, _ = cell
    frame = pd.DataFrame({"group": codes, "success": success})
    start = time.process_time()
    for seed in range(FRAME_DRAWS):
        rates = frame.sample(frac=1, replace=True, random_state=seed).groupby("group")["success"].mean()
        rates.min() / rates.max()
    return (time.process_time() - start) / FRAME_DRAWS


def by_fairlearn(cell):
    """Time the bootstrap of MetricFrame, on one cell and per draw; nan where Fairlearn is not installed."""
    try:
        from fairlearn.metrics import MetricFrame, selection_rate
    except ImportError:
        return float("nan")
    codes, success, _ = cell
    start = time.process_time()
    MetricFrame(
        metrics=selection_rate, y_true=success, y_pred=success, sensitive_features=codes,
        n_boot=FRAME_DRAWS, ci_quantiles=[0.025, 0.975], random_state=1,
    ).ratio_ci()  # fmt: skip
    return (time.process_time() - start) / FRAME_DRAWS


def by_segaudit(cell, draws, rng):
    """Run the bootstrap and the permutation of DIR and DPD, and their intervals, on one cell from its rows."""
    codes, success, k = cell
    table = rate_table(codes, success, np.ones(codes.size, dtype=np.int64), k)
    bootstrap_disparities(table, LEVEL, draws, rng)
    permute_disparities(table, draws, rng)
    dir_interval(table.group_successes, table.group_cases, LEVEL)
    dpd_interval(table.group_successes, table.group_cases, LEVEL)
    return table


def timed(call, repeats=1):
    """Return the median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return np.median(times)


def compare(draws, *, full):
    every = cells()
    rng = np.random.default_rng(42)
    ours = timed(lambda: [by_segaudit(cell, draws, rng) for cell in every], repeats=3)
    chosen = every if full else [every[index] for index in (4, 22, 40, 58)]  # 2, 3, 3 and 2 groups
    theirs = np.array([by_scipy(cell, draws) for cell in chosen]).mean(axis=0) * len(every)
    print(f"63 cells, n = 228, {draws} bootstrap (BCa of DIR and DPD) and {draws} permutation draws a cell")
    print(f"  segaudit, both and the intervals     {ours:9.3f} s   ({ours / len(every) * 1e3:.2f} ms a cell)")
    print(f"  scipy.stats.bootstrap, BCa of DIR    {theirs[0]:9.1f} s   (measured on {len(chosen)} cells)")
    print(f"  loop of shuffles, DIR                {theirs[1]:9.1f} s   (measured on {len(chosen)} cells)")
    print(f"  ratio, bootstrap alone {theirs[0] / ours:.0f}x; bootstrap and shuffles {theirs.sum() / ours:.0f}x")
    shown = {"segaudit": ours, "scipy.stats.bootstrap, BCa": theirs[0], "loop of shuffles": theirs[1]}
    for name, way in (("data-frame group-by a resample", by_frame), ("Fairlearn MetricFrame, n_boot", by_fairlearn)):
        taken = np.mean([way(cell) for cell in chosen]) * draws * len(every)
        told = f"{taken:9.1f} s   (scaled from {FRAME_DRAWS} draws), ratio {taken / ours:.0f}x"
        print(f"  {name:36s} {told if np.isfinite(taken) else 'not installed'}")
        if np.isfinite(taken):
            shown[name] = taken
    rows = [{"set": "63 cells", "way": way, "value": float(taken)} for way, taken in shown.items()]
    drawing.bars("statistics", rows, f"63 cells of 228 cases, {draws} draws: CPU time", "s")


def growth(draws):
    print("\ncost of one cell (groups of 63, 87 and 78 in 228, scaled), milliseconds")
    names = ("bootstrap", "permute", "counting rows", "rank test", "medians", "HL")
    print(f"  {'n':>9}  " + "  ".join(f"{name:>13}" for name in names))
    rows = []

    def tell(what, size, seconds):
        times = [float(part * 1e3) for part in seconds]
        print(f"  {size:>9}  " + "  ".join(f"{ms:>13.2f}" for ms in times))
        for name, ms in zip(names, times, strict=True):
            rows.append({"what": what, "unit": "ms", "way": name, "size": size, "value": max(ms, 1e-3)})

    for n in (228, 10_000, 1_000_000):
        tell("cases of a cell", n, cell_times(n, draws))
    print("the same of 10000 cases in so many groups")
    for k in (2, 3, 5, 10, 20):
        tell("groups of 10,000 cases", k, cell_times(10_000, draws, np.full(k, 1 / k)))
    drawing.lines("statistics-growth", rows, "One cell, CPU time")


def cell_times(n, draws, shares=(63 / 228, 87 / 228, 78 / 228)):
    """Return the seconds of each part of one cell of n cases in groups of these shares."""
    rng = np.random.default_rng(1)
    codes = np.sort(rng.choice(len(shares), size=n, p=shares))
    success, ones = rng.random(n) > 0.04, np.ones(n, dtype=np.int64)
    values = np.round(rng.normal(0.9, 0.03, n), 6)
    groups = [values[codes == group] for group in range(len(shares))]
    table = rate_table(codes, success, ones, len(shares))
    return (
        timed(lambda: bootstrap_disparities(table, LEVEL, draws, rng), 3),
        timed(lambda: permute_disparities(table, draws, rng), 3),
        timed(lambda: rate_table(codes, success, ones, len(shares))),
        timed(lambda: kruskal_wallis(groups, rng=rng)),
        timed(lambda: median_gap_interval(groups, LEVEL, draws, rng)),
        timed(lambda: hodges_lehmann(groups[0], groups[1], LEVEL)),
    )


def score_tests(draws):
    """Time what a cell needs beside its rates: rank test, pairs, effect and median intervals."""
    rng = np.random.default_rng(1)
    start = time.process_time()
    for sizes in GROUPINGS:
        for _ in FAILURES:
            groups = [np.round(rng.normal(0.9, 0.03, size), 6) for size in sizes]
            if len(groups) == 2:
                mann_whitney(*groups, rng=rng)
                hodges_lehmann(*groups, LEVEL)
            else:
                kruskal_wallis(groups, rng=rng)
                dunn(groups)
                epsilon_squared_interval(groups, LEVEL, 2000, rng)
            median_gap_interval(groups, LEVEL, draws, rng)
    print(f"\nrank tests, pairs, effects and median intervals of 63 cells: {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="run scipy on all 63 cells")
    parser.add_argument("--draws", type=int, default=10_000)
    options = parser.parse_args()
    compare(options.draws, full=options.full)
    growth(options.draws)
    score_tests(options.draws)
