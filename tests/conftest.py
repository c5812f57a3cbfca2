"""Fixtures that every test folder shares."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of real inputs that lies beside the project, or skip."""
    folder = Path(os.environ.get("SEGAUDIT_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("the folder of real inputs is not here (set SEGAUDIT_SHARED)")
    return folder.resolve()
