import subprocess
import sys

import pytest

from segaudit import _EXPORTS, __version__


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_command_line__starts_without_the_heavy_packages():
    heavy = "numpy", "pandas", "scipy", "nibabel", "altair", "pydantic", "matplotlib"
    found = _python(f"import sys, segaudit.cli.app; print([name for name in {heavy!r} if name in sys.modules])")
    assert found.stdout.strip() == "[]", found.stderr


@pytest.mark.parametrize("name", list(_EXPORTS))
def test_exports__every_public_name_is_there_with_a_docstring(name):
    import segaudit

    assert getattr(segaudit, name).__doc__
    assert name in dir(segaudit)


def test_exports__an_unknown_name_is_an_attribute_error():
    import segaudit

    with pytest.raises(AttributeError, match="has no attribute 'dyce'"):
        segaudit.dyce  # noqa: B018


def test_version__is_the_package_s():
    from importlib.metadata import version

    assert version("segaudit") == __version__


def test_module__runs_as_the_command_line():
    found = subprocess.run([sys.executable, "-m", "segaudit", "--version"], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == f"segaudit {__version__}"
