"""The wheel: what a user installs holds everything that the source does, and its kernel works."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = """
from segaudit.cli import main
from segaudit.metrics import kernel
assert kernel.KERNEL is not None, "no compiled kernel"
main()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info"))
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.slow
def test_wheel__serves_every_version_of_python_from_one_on(wheel):
    assert wheel.name.split("-")[2:4] == ["cp311", "abi3"]


@pytest.mark.slow
def test_wheel__holds_every_file_of_the_package_and_nothing_else(wheel):
    built = {".c", ".so", ".pyd"}
    expected = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "segaudit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in built
    }
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    compiled = {name for name in names if Path(name).suffix in built}
    assert names - compiled == expected
    assert [Path(name).name.split(".")[0] for name in compiled] == ["_kernel"], "the machine's own and no source"


@pytest.mark.slow
def test_wheel__installed_runs_with_its_kernel(wheel, tmp_path):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [sys.executable, "-c", CHECK, "--help"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "Audit segmentation models" in done.stdout
