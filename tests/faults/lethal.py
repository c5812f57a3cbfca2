"""Score a cohort with two workers that die of certain cases: `lethal.py FOLDER LEDGER always|once CASE...`."""

import os
import signal
import sys
from pathlib import Path

from segaudit import AuditError, score_folders
from segaudit.scores import pools, tasks

FOLDER, LEDGER, WHEN, *CASES = sys.argv[1:]


def measure_or_die(task):
    mark = Path(f"{LEDGER}.{task.case}")
    if task.case in CASES and (WHEN == "always" or not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return tasks.measure_case(task)


if __name__ == "__main__":
    pools.measure_case = measure_or_die
    folder = Path(FOLDER)
    try:
        score_folders(folder / "pred", {"gold": folder / "gold"}, labels={"vb": 1, "disc": 2}, ledger=LEDGER, workers=2)
    except AuditError as error:
        print(*(f"{finding.code} {finding.message}" for finding in error.findings), sep="\n")  # noqa: T201
        sys.exit(2)
