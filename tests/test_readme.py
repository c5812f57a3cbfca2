"""The README is true: its output is the tool's, its commands and links exist."""

import re
from pathlib import Path

import pytest

from segaudit.cli import app as commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MASKS = ("auto_hybridgnet", "physician_1", "physician_2")


def _plain(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def printed(shared, tmp_path_factory):
    """Return what the tool prints of the model and the two physicians."""
    from typer.testing import CliRunner

    data, run = shared / "data" / "cxr_two_physicians", str(tmp_path_factory.mktemp("readme") / "run")
    model, first, second = (str(data / "masks" / name) for name in MASKS)
    table = str(data / "demographics_nih_rows.csv")
    people = ["--participants", table, "--key", "Image Index", "--patient", "Patient ID"]
    rulers = ["--ref", f"physician_1={first}", "--ref", f"physician_2={second}", "--labels", "lungs=1+2,heart=3"]
    score = ["score", "--pred", model, *rulers, *people, "--metrics", "dice", "-o", run]
    audit = ["audit", run, "--by", "sex", "--by", "age:40,60", "--trusted", "physician_2"]
    texts = []
    for words in (score, audit):
        result = CliRunner().invoke(commands.app, words)
        assert result.exit_code == 0, result.output
        texts.append(result.output)
    return _plain(" ".join(texts))


def _block():
    return README.split("<!-- output: two physicians -->\n```\n")[1].split("\n```")[0]


@pytest.mark.parametrize("line", [line for line in _block().splitlines() if line.strip()])
def test_readme__shows_what_the_tool_prints(line, printed):
    assert _plain(line).strip() in printed


def test_readme__its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).is_file(), target


def test_readme__its_first_screen_holds_two_commands():
    first = README.split("What it says about a real case")[0]
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make demo", "make test"]


def test_readme__names_commands_that_exist():
    known = {command.name or command.callback.__name__ for command in commands.app.registered_commands}
    known |= {group.name for group in commands.app.registered_groups}
    assert set(re.findall(r"segaudit ([a-z]+) ", README)) - {"audits", "never", "says"} <= known
