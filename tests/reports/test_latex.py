"""The LaTeX form compiles."""

import shutil
import subprocess

import pytest

ENGINES = ("tectonic", "lualatex", "pdflatex")


@pytest.mark.latex
@pytest.mark.parametrize("given", [{}, {"groupings": 0}])
def test_latex__compiles(reported, tmp_path, given):
    engine = next((path for name in ENGINES if (path := shutil.which(name))), None)
    if engine is None:
        pytest.skip("no LaTeX engine on this machine")
    reported(**given).write(tmp_path, ["latex"])
    quiet = [] if engine.endswith("tectonic") else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [engine, *quiet, "report.tex"], check=False, cwd=tmp_path, capture_output=True, text=True, errors="replace"
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert (tmp_path / "report.pdf").stat().st_size > 50_000
