"""Every example runs: the Python blocks of the pages, in order, each page on its own; and those of the docstrings."""

import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "segaudit"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

_COHORT = """
from pathlib import Path
from segaudit.simulate import simulate_cohort
simulate_cohort(Path("."), patients=12, shape=(9, 34, 46), rulers=["clone"], images=False)
"""
_FILES = """
for name in ("expert", "model"):
    masks = sorted(Path(name).glob("*.nii.gz"))
    masks[0].rename(Path(name) / "c021.nii.gz")
"""
_AUDIT = """
import numpy as np, pandas as pd
import segaudit as sa
from segaudit.tables import SCORES
rng = np.random.default_rng(0)
rows = [(f"c{i}", f"p{i}", "model", ruler, "vb", "dice", value, "1", "ok")
        for ruler in ("expert", "silver") for i, value in enumerate(rng.normal(0.9, 0.03, 40))]
people = pd.DataFrame({"case": [f"c{i}" for i in range(40)], "patient": [f"p{i}" for i in range(40)]})
people = people.assign(sex=["F", "M"] * 20, age=np.linspace(20, 90, 40))
plan = sa.Plan(groupings=[sa.by_level("sex", "F", "M"), sa.by_cuts("age", "age", 60)], resamples=199)
audit = sa.audit(sa.Scores(SCORES.frame(pd.DataFrame(rows, columns=SCORES.names()))), people, plan)
rulers = sa.compare_rulers(audit, "expert", "silver")
"""
_PEOPLE = """
from pathlib import Path
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
cases = pd.DataFrame({"case": [f"c{i}" for i in range(200)], "patient": [f"p{i}" for i in range(200)]})
cases = cases.assign(sex=rng.choice(["Female", "Male"], 200), race=rng.choice(["White", "Black"], 200),
                     age_band=rng.choice(["<40", "40-60", "60+"], 200), label=rng.choice(["gold", "silver"], 200))
"""
# What a page takes as given: the reader's own cohort, masks or audit.
GIVEN = {
    "cohorts.md": _COHORT,
    "gate.md": _AUDIT,
    "images.md": _COHORT + _FILES,
    "report.md": _AUDIT,
    "splits.md": _PEOPLE,
}
SLOW = {"simulation.md", "getting-started.md", "reproduce-cspineseg.md", "study.md"}


def _blocks(page: Path) -> str:
    """Return the blocks of a page as one program whose lines have the numbers they have on the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * len(text.splitlines())
    for block in _BLOCK.finditer(text):
        first = text[: block.start(1)].count("\n")
        for i, line in enumerate(block[1].splitlines()):
            lines[first + i] = line
    return "\n".join(lines)


def _cases():
    for page in PAGES:
        if _BLOCK.search(page.read_text(encoding="utf-8")):
            yield pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.name in SLOW else [])


@pytest.mark.parametrize("page", list(_cases()))
def test_docs__the_examples_of_a_page_run(page, tmp_path):
    program = (
        "import sys\n"
        f"given, blocks, page = {GIVEN.get(page.name, '')!r}, {_blocks(page)!r}, {str(page)!r}\n"
        "names = {'__name__': '__main__'}\n"
        "exec(compile(given, 'given', 'exec'), names)\n"
        "exec(compile(blocks, page, 'exec'), names)\n"
    )
    # a process of its own: an example may register a metric
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


EXAMPLES = [path for path in sorted(SRC.rglob("*.py")) if ">>>" in path.read_text(encoding="utf-8")]


def _module(path: Path) -> str:
    parts = path.relative_to(SRC.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(SRC)))
def test_docs__the_examples_of_the_docstrings_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(_module(path))
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted > 0
    assert found.failed == 0
