"""Each finding has a level and a fix, and stands in the documentation."""

import re
from pathlib import Path

import pytest

from segaudit.volumes.faults import FAULTS, finding

ROOT = Path(__file__).parents[2]


def test_faults__stand_in_the_documentation_with_their_level():
    rows = re.findall(r"^\| ((?:IMAGE|GRID)_\w+) \| (\w+) \|", (ROOT / "docs" / "images.md").read_text(), re.MULTILINE)
    assert dict(rows) == {code: level for code, (level, _) in FAULTS.items()}
    assert len(rows) == len(FAULTS)


def test_faults__are_all_used():
    source = "".join(path.read_text() for path in (ROOT / "src" / "segaudit" / "volumes").glob("*.py"))
    unused = [code for code in FAULTS if len(re.findall(rf'"{code}"', source)) < 2]
    assert unused == []


@pytest.mark.parametrize("code", FAULTS)
def test_faults__say_what_to_do(code):
    found = finding(code, "the fact.", "a/b.nii")
    assert found.fix.endswith(".")
    assert found.where == "a/b.nii"
    assert found.level == FAULTS[code][0]
