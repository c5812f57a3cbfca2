"""The import order and each third-party package's one door."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "segaudit"

# A module may import only from lines above it (or, in a folder, from its own folder).
ORDER = [
    "errors",
    "files",
    "registry",
    "tables",
    "sheets",
    "provenance",
    "config",
    "metrics",
    "stats",
    "groupings",
    "volumes",
    "attributes",
    "participants",
    "cohorts",
    "store",
    "loaders",
    "simulate",
    "splits",
    "confounders",
    "scores",
    "audits",
    "rulers",
    "runs",
    "reports",
    "gates",
    "explain",
    "preparations",
    "lines",
    "publications",
    "study",
    "miniatures",
    "cli",
    "__main__",
]
STUDY_MAY_IMPORT = {*ORDER[: ORDER.index("splits") + 1], "preparations"} - {"metrics", "stats", "participants"}
DOORS = {
    "nibabel": {"volumes"},
    "isal": {"volumes"},
    "PIL": {"volumes"},
    "openpyxl": {"sheets"},
    "defusedxml": {"sheets"},
    "altair": {"reports"},
    "vl_convert": {"reports"},
    "matplotlib": {"reports"},
    "jinja2": {"reports"},
    "pydantic": {"config", "store"},
    "typer": {"cli"},
    "rich": {"cli"},
    "statsmodels": {"stats"},
    "torch": {"study"},
    "nnunetv2": {"study"},
    "snakemake": {"study"},
}


def _unit(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = sorted(path for path in SRC.rglob("*.py") if path.parent != SRC or path.name != "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_layers__a_module_imports_only_from_above(path):
    unit = _unit(path)
    assert unit in ORDER, f"{unit} has no place in the order"
    above = set(ORDER[: ORDER.index(unit)]) | {unit}
    if unit == "study":
        above = STUDY_MAY_IMPORT | {"study"}
    ours = {name.split(".")[1] for name in _imports(path) if name.startswith("segaudit.")}
    assert ours - {"__version__"} <= above


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_layers__each_package_has_one_door(path):
    packages = {name.split(".")[0] for name in _imports(path)}
    for package, doors in DOORS.items():
        assert package not in packages or _unit(path) in doors, f"{package} is not imported in {_unit(path)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_modules__stay_short(path):
    assert len(path.read_text().splitlines()) <= 420


def test_architecture__names_every_module_in_the_order_of_imports():
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)/?`", row)] == ORDER[:-1]
