"""The packaged profiles; the one for any queue runs on a queue of three shell scripts."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

pytest.importorskip("snakemake", reason="segaudit[study] is not installed")
yaml = pytest.importorskip("yaml")

PROFILES = Path(str(files("segaudit.study"))) / "profiles"
RULES = {"prepare", "plan", "preprocess", "train", "predict", "ensemble", "clean", "collect", "audit"}
WORKFLOW = """
rule all:
    input: expand("proofs/{i}", i=range(3))
rule train:
    output: "proofs/{i}"
    threads: 2
    resources: gpu=1
    shell: "echo {threads} > {output}.half && mv {output}.half {output}"
"""
# A queue that starts every job at once; the second job is killed at its first try.
SUBMIT = """#!/bin/sh
echo "$1 $2 $3 $4" >> "$QUEUE/asked"
number=$(wc -l < "$QUEUE/asked")
if [ "$number" = 2 ]; then echo failed > "$QUEUE/$number"; echo "$number"; exit 0; fi
(if sh "$5"; then echo success; else echo failed; fi > "$QUEUE/$number.new"; mv "$QUEUE/$number.new" "$QUEUE/$number") \
    > /dev/null 2>&1 &
echo "$number"
"""
STATUS = """#!/bin/sh
cat "$QUEUE/$1" 2> /dev/null || echo running
"""


@pytest.mark.parametrize("name", ["local", "slurm", "generic"])
def test_profiles__name_only_rules_of_the_study(name):
    profile = yaml.safe_load((PROFILES / name / "config.yaml").read_text())
    assert set(profile.get("set-resources", {})) <= RULES
    assert "set-threads" not in profile, "threads are study.toml's"


@pytest.mark.parametrize("name", ["local", "slurm", "generic"])
def test_profiles__never_delete_what_a_step_left(name):
    # With an array, SLURM's plugin would delete the first task's output when another task fails.
    assert yaml.safe_load((PROFILES / name / "config.yaml").read_text())["keep-incomplete"] is True


def test_profiles__squeue_never_forgets_a_job_between_two_looks():
    # The plugin takes squeue where finished jobs are remembered for three times this, and looks at least every 180 s.
    profile = yaml.safe_load((PROFILES / "slurm" / "config.yaml").read_text())
    assert 3 * profile["slurm-init-seconds-before-status-checks"] > 180


@pytest.mark.slow
def test_generic_profile__runs_by_three_commands_and_retries_a_killed_job(tmp_path):
    (tmp_path / "Snakefile").write_text(WORKFLOW)
    for name, text in {"study-submit": SUBMIT, "study-status": STATUS, "study-cancel": "#!/bin/sh\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    command = [sys.executable, "-m", "snakemake", "--snakefile", tmp_path / "Snakefile", "--directory", tmp_path]
    done = subprocess.run(
        [*command, "--profile", PROFILES / "generic", "--seconds-between-status-checks", "1", "--latency-wait", "5"],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "QUEUE": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "proofs").iterdir()) == ["0", "1", "2"]
    assert (tmp_path / "asked").read_text().splitlines() == ["2 64000 2880 1"] * 4, "three jobs, one of them twice"
