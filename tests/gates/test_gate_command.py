"""The command: exit status, what it says, and the two files for a pipeline."""

import xml.etree.ElementTree as ET

import pytest

PASSES = '[[limits]]\nquantity = "median"\nruler = "expert"\ngrouping = ""\nmin = 0.8\n'
BROKEN = '[[limits]]\nname = "gap"\nquantity = "median_gap"\nruler = "expert"\ngrouping = "sex"\nmax = 0.02\n'
OPEN = '[[limits]]\nquantity = "dir"\nruler = "expert"\ngrouping = "site"\nmin = 0.8\n'


@pytest.mark.parametrize(
    ("limits", "status", "said", "why"),
    [
        (PASSES, 0, "gate: pass", "the median lies above the limit"),
        (PASSES + BROKEN, 1, "gate: broken", "the gap of 5 points lies beyond 2, with its whole interval"),
        (PASSES + OPEN, 3, "gate: not enough evidence", "site B has four patients"),
        (BROKEN + OPEN, 1, "gate: broken", "a broken limit weighs more"),
    ],
)
def test_gate__ends_with_the_status_of_its_outcome(run, command, tmp_path, limits, status, said, why):
    (tmp_path / "limits.toml").write_text(limits)
    done = command("gate", run, "--limits", tmp_path / "limits.toml")
    assert done.status == status, why
    assert done.out.splitlines()[-1] == said
    assert done.err == ""


@pytest.mark.parametrize(
    ("limits", "code", "why"),
    [
        ("[[limits]]\nquantity = 'dri'\nmin = 0.8\n", "TOML_", "no such quantity"),
        (BROKEN.replace("expert", "expret"), "LIMIT_UNKNOWN_NAME", "no such ruler"),
        ("limits = 3\n", "TOML_", "no table of limits"),
        ("[[limits]\n", "TOML_", "no TOML"),
    ],
)
def test_gate__bad_input_ends_with_two(run, command, tmp_path, limits, code, why):
    (tmp_path / "limits.toml").write_text(limits)
    done = command("gate", run, "--limits", tmp_path / "limits.toml", "--junit", tmp_path / "gate.xml")
    assert done.status == 2, why
    assert done.err.startswith(code)
    assert done.out == ""
    assert not (tmp_path / "gate.xml").exists()


def test_gate__a_folder_that_was_not_audited_ends_with_two(command, tmp_path):
    (tmp_path / "limits.toml").write_text(PASSES)
    (tmp_path / "run").mkdir()
    assert command("gate", tmp_path / "run", "--limits", tmp_path / "limits.toml").status == 2
    assert command("gate", tmp_path / "none", "--limits", tmp_path / "limits.toml").status == 2


def test_gate__writes_junit_and_markdown(run, command, tmp_path):
    (tmp_path / "limits.toml").write_text(PASSES + BROKEN + OPEN)
    files = ("--junit", tmp_path / "gate.xml", "--markdown", tmp_path / "gate.md")
    assert command("gate", run, "--limits", tmp_path / "limits.toml", *files).status == 1
    suite = ET.parse(tmp_path / "gate.xml").getroot()
    assert (suite.tag, suite.attrib) == (
        "testsuite",
        {"name": "segaudit gate", "tests": "3", "failures": "1", "errors": "1"},
    )
    found = [(case.attrib["classname"], case.attrib["name"], [part.tag for part in case]) for case in suite]
    assert found == [
        ("median at least 0.8", "mix, expert, vb, dice", []),
        ("gap", "mix, expert, vb, dice, sex", ["failure"]),
        ("dir at least 0.8", "mix, expert, vb, dice, site", ["error"]),
    ]
    lines = (tmp_path / "gate.md").read_text().splitlines()
    assert lines[0] == "**segaudit gate: broken** (1 of 3 checks passed)"
    assert [line.split(" | ")[2] for line in lines[4:]] == ["broken", "not enough evidence"]


def test_gate__a_limit_on_rulers_is_checked_over_all_cases(run, command, tmp_path):
    (tmp_path / "limits.toml").write_text('[[limits]]\nquantity = "inflation"\nmax = 0.05\n')
    done = command("gate", run, "--limits", tmp_path / "limits.toml")
    assert done.status == 1
    assert done.out.splitlines()[0].startswith(
        "broken: inflation at most 0.05, mix, silver, vb, dice: inflation is 0.06"
    )
    assert len(done.out.splitlines()) == 2
