"""A whole study of tiny networks by the program itself: killed at any point it goes on, and the result is the same."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from segaudit.config.toml_text import toml_text
from segaudit.study.locks import read_lock
from segaudit.study.phantoms import write_phantoms
from segaudit.study.workflow import status

pytest.importorskip("nnunetv2", reason="segaudit[study] is not installed")
pytestmark = pytest.mark.slow

LIMIT_S = 300


def study(trainer="TinyTrainer"):
    return {
        "cohort": "phantoms/cohort.toml",
        "split": "splits.csv",
        "development": ["development"],
        "reference": ["expert"],
        "n_folds": 2,
        "seed": 3,
        "clean_up": ["gold"],
        "regimes": [{"name": "gold", "labels": ["expert"]}],
        "rulers": [{"mask_set": "truth"}],
        "network": {
            "configurations": ["2d"],
            "planner": "segaudit.study.networks:MiniPlanner",
            "trainer": f"segaudit.study.networks:{trainer}",
        },
        "machine": {"device": "cpu", "threads": 1, "augmenters": 0, "exporters": 1, "pools": "threads", "warm": True},
        "audit": {"by": ["sex=Female,Male"], "metrics": ["dice"], "resamples": 99, "min_patients": 5},
    }


def write_inputs(folder):
    cohort = write_phantoms(folder / "phantoms", gold=6, silver=1, test=15, seed=1)
    table = cohort.cases[["case", "patient", "part"]].rename(columns={"part": "split"})
    table[cohort.cases["provenance"] == "gold"].to_csv(folder / "splits.csv", index=False)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture
def fresh(inputs, tmp_path):
    """A copy of the inputs with a study.toml."""
    folder = tmp_path / "study"
    shutil.copytree(inputs, folder)
    (folder / "study.toml").write_text(toml_text(study()))
    return folder


class Program:
    """`segaudit study` with some words, in a session of its own."""

    def __init__(self, folder, *words, environment=os.environ):
        self.log = folder / "program.log"
        self.folder = folder
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "segaudit", "study", *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**environment, "nnUNet_raw": "/nowhere", "nnUNet_results": "/nowhere/else"},
            )

    def end(self):
        return self.process.wait(LIMIT_S)

    def kill_when(self, condition, what):
        end = time.monotonic() + LIMIT_S
        while not condition():
            assert self.process.poll() is None, f"it ended before {what}: {self.log.read_text()}"
            assert time.monotonic() < end, f"still not: {what}"
            time.sleep(0.005)
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_S)

    @property
    def text(self):
        return self.log.read_text()


def run(folder, *words):
    program = Program(folder, "run", "study.toml", *words)
    assert program.end() == 0, program.text
    return program


def masks(folder):
    found = {}
    for stage in ("2d", "final"):
        for path in sorted((folder / "study" / "predictions" / "gold" / stage).glob("*.nii.gz")):
            found[stage, path.name] = np.asarray(nib.load(path).dataobj)
    return found


def weights(folder):
    import torch

    found = {}
    for path in sorted((folder / "study" / "nnunet" / "results").rglob("checkpoint_final.pth")):
        for name, tensor in torch.load(path, weights_only=False)["network_weights"].items():
            found[path.parent.name, name] = tensor.numpy()
    return found


def scores(folder):
    with (folder / "study" / "audit" / "global" / "run" / "scores.csv").open() as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def whole(inputs, tmp_path_factory):
    """The study from one run without a halt."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    shutil.copytree(inputs, folder)
    (folder / "study.toml").write_text(toml_text(study()))
    run(folder)
    return folder


# what is compared after a halt is there before the audits, which take half the time of a run
TO_MASKS = ("--snakemake=--until", "--snakemake=clean")


def same(folder, whole):
    ours, theirs = masks(folder), masks(whole)
    assert len(theirs) == 30
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[key], theirs[key]) for key in theirs)
    mine, reference = weights(folder), weights(whole)
    assert reference
    assert mine.keys() == reference.keys()
    assert all(np.array_equal(mine[key], reference[key]) for key in reference)


def test_run__ends_with_both_audits_and_only_proven_steps(whole):
    home = whole / "study"
    states = status(home, read_lock(home), closely=True)
    assert {one.state for one in states} == {"done"}
    assert (home / "audit" / "global" / "run" / "report.html").is_file()
    rulers = json.loads((home / "audit" / "rulers" / "run" / "cohort.json").read_text())["rulers"]
    assert rulers == ["expert", "truth"]
    with (home / "trained_on.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["fold"] for row in rows} == {"0", "1"}
    assert (home / "carbon.csv").is_file()


def test_run__of_a_finished_study_does_nothing(whole):
    home = whole / "study"
    before = {path: path.stat().st_mtime_ns for path in home.glob("proofs/**/*.json")}
    program = run(whole)
    assert "11 of 11 steps are done" in program.text
    assert {path: path.stat().st_mtime_ns for path in home.glob("proofs/**/*.json")} == before


KILLS = {
    "preparation": lambda home: any(home.glob("nnunet/raw/.*.part")) or any(home.glob("nnunet/raw/Dataset*")),
    "preprocessing": lambda home: any(home.glob("nnunet/preprocessed/*/*_2d/*")),
    "training": lambda home: any(home.glob("nnunet/results/**/checkpoint_latest.pth")),
    "validation": lambda home: any(home.glob("nnunet/results/**/validation/*")),
    "prediction": lambda home: any(home.glob("predictions/gold/.2d.part/*")),
    "audit": lambda home: any(home.glob("audit/*/run/*")),
}


@pytest.mark.parametrize("what", KILLS)
def test_run__killed_goes_on_to_the_same_result(fresh, whole, what):
    home = fresh / "study"
    Program(fresh, "run", "study.toml").kill_when(lambda: KILLS[what](home), what)
    run(fresh, *(TO_MASKS if what != "audit" else ()))
    same(fresh, whole)
    if what == "audit":
        assert scores(fresh) == scores(whole)


def test_run__on_a_slurm_cluster_gives_the_same_result(fresh, whole, node):
    waits = ("--slurm-init-seconds-before-status-checks=1", "--latency-wait=10")  # a real cluster's are too long here
    words = ("run", "study.toml", "--profile", "slurm", *TO_MASKS, *(f"--snakemake={wait}" for wait in waits))
    program = Program(fresh, *words, environment=node.environment)
    assert program.end() == 0, program.text
    same(fresh, whole)
    n_done = sum(one.state == "done" for one in status(fresh / "study", read_lock(fresh / "study")))
    assert [state for _, state in node.jobs()] == ["COMPLETED"] * n_done


def test_run__interrupted_ends_its_steps_and_says_how_to_go_on(fresh):
    home = fresh / "study"
    changed = study()
    changed["machine"]["warm"] = False
    (fresh / "study.toml").write_text(toml_text(changed))
    program = Program(fresh, "run", "study.toml")
    end = time.monotonic() + LIMIT_S
    while not (home / "logs" / "plan.log").exists():  # this step takes seconds
        assert time.monotonic() < end, program.text
        assert program.process.poll() is None, program.text
        time.sleep(0.05)
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(20) == 130
    assert "run the same command again" in program.text
    assert "Traceback" not in program.text
    states = {one.step.name: one.state for one in status(home, read_lock(home))}
    assert (states["prepare/gold"], states["plan"]) == ("done", "begun"), "the step runs no more"


def test_run__a_second_one_on_the_folder_is_refused(fresh):
    first = Program(fresh, "run", "study.toml")
    home = fresh / "study"
    end = time.monotonic() + LIMIT_S
    while not (home / "proofs").is_dir():
        assert time.monotonic() < end, first.text
        assert first.process.poll() is None, first.text
        time.sleep(0.05)
    second = subprocess.run(
        [sys.executable, "-m", "segaudit", "study", "run", "study.toml"],
        cwd=fresh,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(LIMIT_S)
    assert second.returncode == 2
    assert "STUDY_HELD" in second.stderr
    assert "Traceback" not in second.stderr


def test_run__a_changed_label_is_named_and_renewed(whole, tmp_path):
    folder = tmp_path / "study"
    shutil.copytree(whole, folder, symlinks=True)
    # the copy lies elsewhere: its lock must be its own
    shutil.rmtree(folder / "study")
    run(folder, *TO_MASKS)
    proofs = folder / "study" / "proofs"
    label = min((folder / "phantoms" / "expert").glob("*.nii.gz"))
    image = nib.load(label)
    changed = np.asarray(image.dataobj).copy()
    changed[tuple(axis[0] for axis in np.nonzero(changed == 1))] = 2
    nib.save(nib.Nifti1Image(changed, image.affine, dtype=np.uint8), label)
    told = Program(folder, "run", "study.toml")
    assert told.end() == 2
    assert "STUDY_FILE_CHANGED" in told.text
    assert label.name in told.text
    assert "--renew" in told.text
    before = (proofs / "train" / "gold" / "2d" / "0.json").read_text()
    run(folder, "--renew", *TO_MASKS)
    assert (proofs / "train" / "gold" / "2d" / "0.json").read_text() != before


def test_run__a_full_disk_is_named_and_the_study_goes_on_after(fresh, whole):
    home = fresh / "study"
    home.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(home)], check=False).returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        first = Program(fresh, "run", "study.toml")
        assert first.end() == 2
        assert "DISK_FULL" in first.text or "no space is left" in first.text, first.text
        assert "Traceback (most recent" not in "".join(path.read_text() for path in home.glob("proofs/**/*.failed"))
        subprocess.run(["mount", "-o", "remount,size=400m", str(home)], check=True)
        run(fresh, *TO_MASKS)
        same(fresh, whole)
    finally:
        subprocess.run(["umount", "-l", str(home)], check=False)


def test_run__one_unreadable_image_among_many_is_named_before_any_training(fresh):
    images = sorted((fresh / "phantoms" / "images").glob("*.nii.gz"))
    images[3].write_bytes(images[3].read_bytes()[:2000])
    images[7].write_bytes(b"no image")
    program = Program(fresh, "run", "study.toml")
    assert program.end() == 2
    assert all(images[i].name in program.text for i in (3, 7)), program.text
    assert not (fresh / "study" / "proofs").exists()
    assert "Traceback" not in program.text


def test_run__a_label_value_that_is_no_label_is_named(fresh):
    label = sorted((fresh / "phantoms" / "expert").glob("*.nii.gz"))[2]
    image = nib.load(label)
    changed = np.asarray(image.dataobj).copy()
    changed[0, 0, 0] = 7
    nib.save(nib.Nifti1Image(changed, image.affine, dtype=np.uint8), label)
    program = Program(fresh, "run", "study.toml")
    assert program.end() == 2
    assert "STUDY_LABEL_VALUE" in program.text
    assert label.name in program.text
    assert "7" in program.text


def test_run__of_a_stale_mask_is_noticed(whole):
    home = whole / "study"
    path = min(Path(home / "predictions" / "gold" / "final").glob("*.nii.gz"))
    content = path.read_bytes()
    try:
        path.write_bytes(content[:-10])
        states = {one.step.name: one for one in status(home, read_lock(home))}
        assert states["clean/gold"].state == "stale"
        assert path.name in states["clean/gold"].reason
    finally:
        path.write_bytes(content)
