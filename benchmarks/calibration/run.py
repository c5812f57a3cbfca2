"""Draw cohorts, judge them by the product's own functions, and write one table.

    python benchmarks/calibration/run.py                 # some 5 minutes
    python benchmarks/calibration/run.py --quick         # 1 or 2
    python benchmarks/calibration/run.py --full          # 10 to 30 minutes on two cores; as in docs/calibration.md

Writes calibration.csv (and planted.csv, the verdicts on rulers with planted faults) into the folder of -o.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from calibration import planted, trials
from calibration.published import published
from calibration.situations import COHORTS, DECISIONS, POWERS, VERDICTS, Situation, facts
from calibration.tally import Key, Row, Tally, frame, rows_of

SIZES = (20, 40, 76, 228)
EXACT = ((10, 10), (20, 20), (16, 53), (38, 38), (20, 100), (11, 15, 14), (21, 29, 26))
CLUSTERS = (((30, 5), 60), ((2, 2), 100))
DOUBTFUL = {"no gap, gold": (228,), "no gap, silver": (20, 40, 76, 228), "no gap, real pair": (20, 40, 76, 228)}
_CHUNK = 50


@dataclass(frozen=True)
class Effort:
    """How many cohorts each part draws."""

    levels: int
    cohorts: int
    doubtful: int
    verdicts: int
    decisions: int
    powers: int
    clusters: int
    margins: int
    planted: int


EFFORTS = {
    "quick": Effort(
        levels=50, cohorts=20, doubtful=0, verdicts=20, decisions=40, powers=40, clusters=40, margins=100, planted=1
    ),
    "default": Effort(
        levels=200,
        cohorts=100,
        doubtful=0,
        verdicts=100,
        decisions=200,
        powers=200,
        clusters=200,
        margins=500,
        planted=3,
    ),
    "full": Effort(
        levels=800,
        cohorts=250,
        doubtful=500,
        verdicts=250,
        decisions=250,
        powers=200,
        clusters=600,
        margins=600,
        planted=10,
    ),
}


@dataclass(frozen=True)
class Task:
    """A part of the work, small enough for a process; its generator depends on its name and place alone."""

    part: str
    what: Situation | tuple[int, int]
    n: int
    reps: int
    chunk: int

    def run(self, seed: int) -> dict[Key, tuple[int, int]]:
        """Return the counts."""
        name = self.what.name if isinstance(self.what, Situation) else str(self.what)
        rng = np.random.default_rng([seed, zlib.crc32(f"{self.part} {name}".encode()), self.n, self.chunk])
        tally = Tally()
        getattr(trials, self.part)(self.what, self.n, self.reps, rng, tally)
        return tally.plain()


def tasks(effort: Effort) -> Iterator[Task]:
    """Yield all parts of the work."""
    alike = [situation for situation in COHORTS if situation.alike and situation.power == 0.05]
    yield from _split("levels", alike, SIZES, effort.levels)
    yield from _split("levels", alike, (1000,), effort.levels // 2)
    yield from _split("powers", POWERS, SIZES, effort.powers)
    yield from _split("decisions", DECISIONS, SIZES, effort.decisions)
    yield from _split("cohorts", COHORTS, SIZES, effort.cohorts)
    for name, sizes in DOUBTFUL.items():
        yield from _split("doubtful", [one for one in COHORTS if one.name == name], sizes, effort.doubtful)
    yield from _split("verdicts", VERDICTS, (76, 228), effort.verdicts)
    for repeated, n in CLUSTERS:
        yield from _split("clusters", [repeated], [n], effort.clusters)
    for sizes in trials.SIZES:
        yield from _split("margins", [sizes], [sum(sizes)], effort.margins)
    for sizes in trials.DETECTABLE:
        yield from _split("detectable", [sizes], [sum(sizes)], effort.margins)


def _split(part: str, what: Iterable[Situation | tuple[int, int]], sizes: Iterable[int], reps: int) -> Iterator[Task]:
    for one in what:
        for n in sizes:
            for chunk, start in enumerate(range(0, reps, _CHUNK)):
                yield Task(part, one, n, min(_CHUNK, reps - start), chunk)


def calibrate(work: Iterable[Task], *, seed: int, workers: int) -> list[Row]:
    """Return the rows of the table."""
    tally, work = Tally(), list(work)
    if workers == 1:
        for task in work:
            tally.merge(task.run(seed))
    else:
        for task in work:
            if task.part in ("cohorts", "decisions", "doubtful"):
                facts(task.what, task.n)  # kept, and inherited by the processes
        with ProcessPoolExecutor(workers) as pool:
            for done, counts in enumerate(pool.map(_run, work, [seed] * len(work)), 1):
                tally.merge(counts)
                print(f"\r{done} of {len(work)} parts", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    return rows_of(tally, published())


def _run(task: Task, seed: int) -> dict[Key, tuple[int, int]]:
    return task.run(seed)


def exact_rows() -> list[Row]:
    """Return the exact coverage of the limits of DIR and DPD."""
    known, rows = published(), []
    for sizes in EXACT:
        for quantity, (least, mean) in trials.exact_rates(sizes).items():
            for word, value in (("least", least), ("mean", mean)):
                key = Key(
                    "coverage 95",
                    f"{quantity}, {word}",
                    "rates from 0.70 to 1, exact",
                    "+".join(str(size) for size in sizes),
                )
                rows.append(Row(key, value, 0.0, 0, known.get(key)))
    return rows


def plant(seeds: int, *, seed: int, workers: int) -> list[planted.Outcome]:
    """Return the verdicts on rulers with planted faults."""
    cohorts = [(seed + i, gap) for gap in planted.GAPS for i in range(seeds)]
    with ProcessPoolExecutor(workers) as pool:
        return [one for found in pool.map(planted.outcomes, *zip(*cohorts, strict=True)) for one in found]


def main() -> int:
    """Run; return 1 where a rule is broken and the docs do not name it, or a planted ruler gets the wrong name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_const", const="quick", dest="effort")
    effort.add_argument("--full", action="store_const", const="full", dest="effort")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--out", type=Path, default=Path("calibration"))
    given = parser.parse_args()
    chosen, start = EFFORTS[given.effort or "default"], time.perf_counter()
    rows = [*calibrate(tasks(chosen), seed=given.seed, workers=given.workers), *exact_rows()]
    table = frame(rows)
    given.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(given.out / "calibration.csv", index=False)
    found = plant(chosen.planted, seed=given.seed, workers=given.workers)
    pd.DataFrame([asdict(one) for one in found]).to_csv(given.out / "planted.csv", index=False)
    with pd.option_context("display.max_rows", None, "display.width", 200, "display.max_colwidth", 60):
        print(table.to_string(index=False))
    print("\nrulers with planted faults: gap in points, ruler, class, cohorts")
    for (gap, ruler, word), times in sorted(planted.counted(found).items()):
        print(f"  {gap:g}  {ruler:7} {word}: {times}")
    compared = [row for row in rows if row.published]
    apart = [row for row in compared if row.agrees == "no"]
    broken = [row for row in rows if row.rule == "broken"]
    named = [row for row in rows if row.rule == "named"]
    print(f"\n{len(rows)} rows; {len(compared) - len(apart)} of {len(compared)} agree with the published value")
    print(
        f"{len(broken)} rules broken, {len(named)} more that are named in the docs; {time.perf_counter() - start:.0f} s"
    )
    for row in (*apart, *named, *broken):
        print("  ", *row.key, f"{row.value:.3f}", row.published or "", row.rule)
    for fault in planted.faults(found):
        print("   planted:", fault)
    return 1 if broken or planted.faults(found) else 0


if __name__ == "__main__":
    sys.exit(main())
