"""nnU-Net called for real on toy volumes, and what is checked that nnU-Net passes over."""

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from multiprocessing.pool import ThreadPool
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.splits import TrainVal
from segaudit.study import environments, nnunet, resuming
from segaudit.study.environments import Settings
from segaudit.study.raw import RawCase, write_raw
from segaudit.volumes import read_header, read_labels, write_labels

LABELS = {"vb": (1,), "disc": (2,)}
MIXED, GOLD = "Dataset501_mixed", "Dataset502_gold"
TINY = Settings("segaudit.study.networks:MiniPlanner", "segaudit.study.networks:TinyTrainer", "cpu", 7, pools="threads")
ASK = """
import sys
from pathlib import Path
from segaudit.study.warm import ask
sys.exit(ask(Path(sys.argv[1]), sys.argv[2:]))
"""
SHAPE = (64, 80, 8)
AFFINE = np.array([[0.0, 0, -4.0, 9], [-0.9, 0, 0, 3], [0, 0.9, 0, -5], [0, 0, 0, 1]])


def write_case(folder, name, seed):
    """Write an image and its label: two blocks and a disc between them, in noise."""
    rng = np.random.default_rng(seed)
    label = np.zeros(SHAPE, np.uint8)
    x, y = rng.integers(16, 28, 2)
    label[x : x + 20, y : y + 12, 2:6] = label[x : x + 20, y + 18 : y + 30, 2:6] = 1
    label[x : x + 20, y + 12 : y + 18, 2:6] = 2
    image = np.array([40, 90, 180])[label] + rng.normal(0, 8, SHAPE)
    for kind, values in (("images", image.clip(0).astype(np.int16)), ("labels", label)):
        (folder / kind).mkdir(exist_ok=True)
        write_labels(folder / kind / f"{name}.nii.gz", values, affine=AFFINE)
    return RawCase(name, folder / "images" / f"{name}.nii.gz", folder / "labels" / f"{name}.nii.gz", LABELS)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a folder with raw data sets of four and of two cases, and the path of each image."""
    folder = tmp_path_factory.mktemp("source")
    cases = [write_case(folder, f"c{i}", i) for i in range(6)]
    home = folder / "home"
    pairs = [TrainVal(("c0", "c1"), ("c2", "c3")), TrainVal(("c2", "c3"), ("c0", "c1"))]
    write_raw(home, MIXED, cases[:4], LABELS, pairs, "T2")
    write_raw(home, GOLD, cases[:2], LABELS, [], "T2")
    return SimpleNamespace(folder=folder, home=home, images={one.case: str(one.image) for one in cases})


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start the process that has imported nnU-Net; trainings are forked from it, as in the miniature."""
    socket = tmp_path_factory.mktemp("nn") / "s"
    command = [sys.executable, "-m", "segaudit.study.warm", "serve", str(socket)]
    process = subprocess.Popen(command, cwd=Path(__file__).parent)
    until = time.monotonic() + 240
    while not socket.exists():
        assert process.poll() is None
        assert time.monotonic() < until, "the server did not start"
        time.sleep(0.05)
    yield socket
    process.terminate()
    process.wait()


@pytest.fixture(scope="module")
def run(server):
    """Return a function that does calls in a fork, and returns its exit status and what they returned."""

    def done(home, *calls, **options):
        asked = json.dumps({"home": str(home), "calls": calls, **options})
        command = [sys.executable, "-c", ASK, str(server), "nnunet_job", asked]
        environ = {**os.environ, "nnUNet_raw": "/nowhere", "nnUNet_results": "/nowhere", "nnUNet_compile": "true"}
        told = subprocess.run(command, capture_output=True, text=True, check=False, env=environ)
        lines = told.stdout.strip().splitlines()
        assert told.returncode < 0 or told.returncode == 137 or lines, told.stderr
        assert told.returncode in (0, 137), told.stderr
        return told.returncode, json.loads(lines[-1]) if told.returncode == 0 else {}

    return done


@pytest.fixture(scope="module")
def prepared(source, run):
    """Return the source with both data sets planned and preprocessed."""
    code, told = run(
        source.home,
        ["plan", MIXED],
        ["share_plan", MIXED, GOLD],
        ["same_plan", [MIXED, GOLD]],
        ["preprocess", MIXED, ["2d", "3d_fullres"]],
    )
    assert code == 0
    assert "codes" not in told, told["text"]
    return SimpleNamespace(**vars(source), told=told)


@pytest.fixture(scope="module")
def trained(prepared, run):
    """Return the prepared source with both folds of 2d trained."""
    code, told = run(prepared.home, ["train", MIXED, "2d", 0], ["train", MIXED, "2d", 1])
    assert code == 0
    assert "codes" not in told, told.get("text")
    return prepared


def fold(home, number=0, configuration="2d"):
    return home / "results" / MIXED / f"TinyTrainer__MiniPlans__{configuration}" / f"fold_{number}"


def copied(source, tmp_path):
    """Return a home with the preprocessed data of another and no results."""
    shutil.copytree(source.home, tmp_path / "home", ignore=shutil.ignore_patterns("results"))
    return tmp_path / "home"


# What needs no training


def test_import__of_the_study_brings_neither_torch_nor_nnunet():
    command = "import sys, segaudit.study.nnunet, segaudit.study.jobs; print({'torch', 'nnunetv2'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", command], text=True) == "set()\n"


def test_use__the_environment_of_the_user_decides_nothing(tmp_path, monkeypatch):
    imported = ModuleType("nnunetv2.imported_before")
    imported.default_num_processes = 8
    monkeypatch.setitem(sys.modules, "nnunetv2.imported_before", imported)
    for name in ("nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results", "nnUNet_n_proc_DA", "nnUNet_compile"):
        monkeypatch.setenv(name, "of the user")
    for name in (
        "nnUNet_def_n_proc",
        "nnUNet_wandb_enabled",
        *(f"{n}_NUM_THREADS" for n in ("OMP", "MKL", "OPENBLAS")),
    ):
        monkeypatch.setenv(name, "1")
    nnunet.use(tmp_path, Settings("p", "t", "cpu", None, 3, 2, 4))
    folders = {name: os.environ[f"nnUNet_{name}"] for name in ("raw", "preprocessed", "results")}
    assert folders == {name: str(tmp_path / name) for name in folders}
    counts = [os.environ[f"nnUNet_{name}"] for name in ("n_proc_DA", "def_n_proc", "compile")]
    assert counts == ["2", "4", "f"]
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert imported.default_num_processes == 4
    nnunet.use(tmp_path, Settings("p", "t", "cuda"))
    assert "nnUNet_compile" not in os.environ, "nnU-Net then compiles on a GPU, as it does by itself"
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_pools__are_threads_within_the_block_only(monkeypatch):
    module = ModuleType("nnunetv2.with_pools")
    module.multiprocessing = multiprocessing
    monkeypatch.setitem(sys.modules, "nnunetv2.with_pools", module)
    with environments.pools_of(TINY):
        with module.multiprocessing.get_context("spawn").Pool(2) as pool:
            assert isinstance(pool, ThreadPool)
            assert pool.map(len, ["a", "bb"]) == [1, 2]
        assert module.multiprocessing.TimeoutError is multiprocessing.TimeoutError
    assert module.multiprocessing is multiprocessing
    with environments.pools_of(Settings("p", "t", pools="processes")):
        assert module.multiprocessing is multiprocessing


@pytest.mark.parametrize("package", ["torch", "nnunetv2"])
def test_extra__when_it_is_missing_the_finding_says_what_to_install(source, monkeypatch, package):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(environments, "MODULES", ("nnunetv2.paths",))
    monkeypatch.setattr(environments, "use", lambda *_: None)
    if package == "nnunetv2":
        monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(AuditError) as told:
        nnunet.plan(source.home, MIXED, TINY)
    (finding,) = told.value.findings
    assert (finding.code, f"'{package}" in finding.message) == ("STUDY_EXTRA_MISSING", True)
    assert 'pip install "segaudit[study]"' in finding.fix
    assert '"torch==2.13.0" "torchvision==0.28.0"' in finding.fix


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_disk__when_it_is_full_the_path_is_named_and_nothing_is_left(tmp_path, number):
    out = tmp_path / "out"

    def half_written():
        with environments.folder_in_one(out) as draft:
            (draft / "half").write_bytes(b"half")
            raise OSError(number, "full", str(draft / "whole"))

    with pytest.raises(AuditError) as told:
        half_written()
    (finding,) = told.value.findings
    assert finding.code == "DISK_FULL"
    assert finding.where == str(out)
    assert list(tmp_path.iterdir()) == []


def test_disk__torch_tells_of_it_in_its_own_way(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match="of another kind"), environments.having_room(tmp_path):
        raise RuntimeError("of another kind")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=0))
    with pytest.raises(AuditError, match="DISK_FULL"), environments.having_room(tmp_path):
        raise RuntimeError("PytorchStreamWriter failed writing file data/0")
    with pytest.raises(OSError, match="other"), environments.having_room(tmp_path):
        raise OSError(errno.EACCES, "other")


def test_folder__takes_the_place_of_the_old_one_only_when_whole(tmp_path):
    out = tmp_path / "out"
    with environments.folder_in_one(out) as draft:
        (draft / "first").touch()

    def half_written():
        with environments.folder_in_one(out) as draft:
            (draft / "second").touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_written()
    assert [path.name for path in out.iterdir()] == ["first"]
    with environments.folder_in_one(out) as draft:
        (draft / "third").touch()
    assert [path.name for path in out.iterdir()] == ["third"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# What is planned and trained for real


@pytest.mark.slow
def test_plan__sees_sagittal_slices_and_is_shared(prepared):
    plans, shared = (
        json.loads((prepared.home / "preprocessed" / d / "MiniPlans.json").read_text()) for d in (MIXED, GOLD)
    )
    flat, solid = (plans["configurations"][name] for name in ("2d", "3d_fullres"))
    assert (flat["patch_size"], flat["batch_size"], solid["patch_size"], solid["batch_size"]) == (
        [80, 64],
        6,
        [8, 80, 64],
        2,
    )
    assert plans["transpose_forward"] == [0, 1, 2]
    assert solid["spacing"] == pytest.approx([4.0, 0.9, 0.9], rel=1e-6)
    assert flat["architecture"]["arch_kwargs"]["features_per_stage"] == [8, 16, 32, 64, 64]
    assert prepared.told["same_plan"] == []
    assert (plans.pop("dataset_name"), shared.pop("dataset_name")) == (MIXED, GOLD)
    assert plans == shared


@pytest.mark.slow
def test_same_plan__names_what_differs(prepared, run, tmp_path):
    home = copied(prepared, tmp_path)
    path = home / "preprocessed" / GOLD / "MiniPlans.json"
    plans = json.loads(path.read_text())
    plans["configurations"]["2d"]["batch_size"] = 99
    path.write_text(json.dumps(plans))
    _, told = run(home, ["same_plan", [MIXED, GOLD]])
    assert "STUDY_PLAN_DIFFERS" in told["same_plan"][0]
    assert "configurations.2d.batch_size" in told["same_plan"][0]


@pytest.mark.slow
def test_preprocess__a_case_that_did_not_come_out_is_named(prepared, run, tmp_path):
    home = copied(prepared, tmp_path)
    (home / "raw" / MIXED / "manifest.json").write_text(
        (home / "raw" / MIXED / "manifest.json").read_text().replace('"case": "c3"', '"case": "c9"')
    )
    _, told = run(home, ["preprocess", MIXED, ["2d"]])
    assert told["codes"] == ["STUDY_PREPROCESSED_COUNT"]
    assert "c3" in told["text"]
    assert "c9" in told["text"]
    _, told = run(home, ["preprocess", MIXED, ["4d"]])
    assert told["codes"] == ["STUDY_CONFIGURATION_UNKNOWN"]


@pytest.mark.slow
def test_train__a_finished_fold_is_proved_by_its_files_and_left(trained, run):
    final = fold(trained.home) / "checkpoint_final.pth"
    before = final.stat().st_mtime_ns
    _, told = run(trained.home, ["training_faults", MIXED, "2d", 0], ["train", MIXED, "2d", 0])
    assert told["training_faults"] == []
    assert final.stat().st_mtime_ns == before
    assert {path.name for path in fold(trained.home).glob("checkpoint*")} >= {"checkpoint_final.pth"}
    assert not list(fold(trained.home).glob("*.part"))
    assert not (fold(trained.home) / "progress.png").exists()


@pytest.mark.slow
def test_train__one_network_of_all_cases_in_three_dimensions(prepared, run, tmp_path):
    home = copied(prepared, tmp_path)
    three = "3d_fullres"
    calls = (["preprocess", GOLD, [three]], ["train", GOLD, three, "all"], ["training_faults", GOLD, three, "all"])
    _, told = run(home, *calls)
    assert told["training_faults"] == []
    folder = home / "results" / GOLD / f"TinyTrainer__MiniPlans__{three}" / "fold_all" / "validation"
    assert {path.name for path in folder.glob("*.npz")} == {"c0.npz", "c1.npz"}


def npz_gone(folder):
    (folder / "validation" / "c2.npz").unlink()


def half_a_summary(folder):
    path = folder / "validation" / "summary.json"
    path.write_text(path.read_text()[:-30])


def half_a_checkpoint(folder):
    path = folder / "checkpoint_final.pth"
    path.write_bytes(path.read_bytes()[:-3000])


def another_split(folder):
    for path in folder.glob("training_log_*.txt"):
        path.write_text(path.read_text().replace("split has 2 training", "split has 3 training"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (npz_gone, "the validation holds 1 cases and scores 2, the split has 2 (c2)"),
        (half_a_summary, "there is no validation/summary.json"),
        (half_a_checkpoint, "checkpoint_final.pth does not load"),
        (another_split, "its log tells of 3 training and 2 validation cases, the split of 2 and 2"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_training_faults__an_incomplete_fold_is_told_from_a_finished_one(trained, tmp_path, spoil, told):
    shutil.copytree(fold(trained.home), tmp_path / "fold")
    pair = TrainVal(("c0", "c1"), ("c2", "c3"))
    assert resuming.faults_of(tmp_path / "fold", pair, logged=True) == []
    spoil(tmp_path / "fold")
    (fault,) = resuming.faults_of(tmp_path / "fold", pair, logged=True)
    assert fault.startswith(told)


@pytest.mark.slow
def test_train__killed_and_resumed_it_ends_with_the_same_weights(trained, run, tmp_path):
    home = copied(trained, tmp_path)
    code, _ = run(home, ["train", MIXED, "2d", 0], killed=1)
    assert code == 137, "SIGKILL in the second epoch"
    (fold(home) / "checkpoint_best.pth.part").write_bytes(b"what a kill while writing leaves")
    assert {path.name for path in fold(home).glob("checkpoint*")} > {"checkpoint_latest.pth", "checkpoint_best.pth"}
    code, told = run(home, ["training_faults", MIXED, "2d", 0])
    assert told["training_faults"] == ["there is no checkpoint_final.pth"]
    code, told = run(home, ["train", MIXED, "2d", 0], ["weights", str(fold(home) / "checkpoint_final.pth")])
    _, whole = run(trained.home, ["weights", str(fold(trained.home) / "checkpoint_final.pth")])
    assert told["weights"] == whole["weights"]
    logs = "".join(path.read_text() for path in sorted(fold(home).glob("training_log_*")))
    assert "Going on after 1 epochs." in logs
    assert not list(fold(home).glob("*.part"))
    for case in ("c2", "c3"):
        ours, theirs = (one / "validation" / f"{case}.nii.gz" for one in (fold(home), fold(trained.home)))
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.slow
def test_train__sets_a_corrupt_checkpoint_aside_and_begins_anew(trained, run, tmp_path):
    home = copied(trained, tmp_path)
    folder = fold(home)
    folder.mkdir(parents=True)
    for name in ("checkpoint_latest.pth", "checkpoint_best.pth"):
        (folder / name).write_bytes((fold(trained.home) / "checkpoint_final.pth").read_bytes()[:40_000])
    _, told = run(home, ["train", MIXED, "2d", 0], ["weights", str(folder / "checkpoint_final.pth")])
    _, whole = run(trained.home, ["weights", str(fold(trained.home) / "checkpoint_final.pth")])
    assert told["weights"] == whole["weights"]
    assert (folder / "checkpoint_latest.pth.corrupt").is_file()
    assert "checkpoint_latest.pth does not load" in "".join(p.read_text() for p in folder.glob("training_log_*"))


@pytest.mark.slow
def test_train__on_a_full_disk_keeps_the_checkpoints_that_are_whole(prepared, run, tmp_path):
    home = copied(prepared, tmp_path)
    _, told = run(home, ["train", MIXED, "2d", 0], full=3)
    assert told["codes"] == ["DISK_FULL"]
    assert "checkpoint_" in told["text"]
    assert {path.name for path in fold(home).glob("checkpoint*")} == {"checkpoint_latest.pth", "checkpoint_best.pth"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "splits", "code"),
    [
        (2, None, "STUDY_FOLD_UNKNOWN"),
        (0, [{"train": ["c0", "c1"], "val": ["c1", "c2"]}], "FOLD_OVERLAP"),
        (0, [{"train": ["c0", "c1"], "val": ["c2", "c7"]}], "FOLD_CASE_UNKNOWN"),
    ],
)
def test_train__a_bad_fold_is_refused_before_anything_is_trained(prepared, run, tmp_path, number, splits, code):
    home = copied(prepared, tmp_path)
    if splits:
        (home / "preprocessed" / MIXED / "splits_final.json").write_text(json.dumps(splits))
    _, told = run(home, ["train", MIXED, "2d", number])
    assert code in told["codes"]
    assert not (home / "results").exists()


@pytest.mark.slow
def test_predict__folds_are_averaged_ensembled_and_cleaned(trained, run, tmp_path):
    images = {case: trained.images[case] for case in ("c4", "c5")}
    outs = {name: tmp_path / "predictions" / name for name in ("both", "first", "second", "ensemble", "final")}
    _, told = run(
        trained.home,
        ["predict", MIXED, "2d", [0, 1], images, str(outs["both"])],
        ["predict", MIXED, "2d", [0], images, str(outs["first"])],
        ["predict", MIXED, "2d", [1], images, str(outs["second"])],
        ["ensemble", [str(outs["first"]), str(outs["second"])], str(outs["ensemble"])],
        ["clean_up", str(outs["ensemble"]), str(outs["final"]), list(LABELS)],
    )
    assert "codes" not in told, told.get("text")
    assert sorted(path.name for path in (tmp_path / "predictions").iterdir()) == sorted(outs)
    for case, image in images.items():
        both, first, second = (np.load(outs[n] / f"{case}.npz")["probabilities"] for n in ("both", "first", "second"))
        expected = np.sqrt(first * second)  # the mean of logits is the geometric mean of probabilities
        assert np.allclose(both, expected / expected.sum(0), atol=1e-3)
        mask = read_labels(outs["ensemble"] / f"{case}.nii.gz").labels
        assert np.array_equal(mask, (first + second).argmax(0).T), "the ensemble is the mean of probabilities"
        assert read_header(outs["final"] / f"{case}.nii.gz").affine == read_header(Path(image)).affine
        removed = mask != read_labels(outs["final"] / f"{case}.nii.gz").labels
        row = pd.DataFrame(told["clean_up"]).set_index("case").loc[case]
        assert (row["voxels_before"], row["voxels_removed"]) == ((mask > 0).sum(), removed.sum())


@pytest.mark.slow
def test_predict__killed_it_leaves_no_folder_and_then_gives_the_same(trained, run, tmp_path):
    images = {case: trained.images[case] for case in ("c3", "c4", "c5")}
    out, whole = tmp_path / "out", tmp_path / "whole"
    code, _ = run(trained.home, ["predict", MIXED, "2d", [0, 1], images, str(out)], killed_predicting=True)
    assert code == 137
    assert not out.exists()
    run(trained.home, ["predict", MIXED, "2d", [0, 1], images, str(out)])
    run(trained.home, ["predict", MIXED, "2d", [0, 1], images, str(whole)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "whole"]
    assert [(out / f"{c}.nii.gz").read_bytes() == (whole / f"{c}.nii.gz").read_bytes() for c in images] == [True] * 3


@pytest.mark.slow
def test_predict__what_is_not_there_is_named_and_no_folder_is_left(trained, run, tmp_path):
    out = tmp_path / "out"
    _, told = run(trained.home, ["predict", MIXED, "2d", [0, 5], {"c4": trained.images["c4"]}, str(out)])
    assert told["codes"] == ["STUDY_NETWORK_MISSING"]
    assert "fold_5" in told["text"]
    _, told = run(trained.home, ["ensemble", [str(tmp_path / "a"), str(tmp_path / "b")], str(out)])
    assert told["codes"] == ["STUDY_PREDICTION_INCOMPLETE"] * 2, "both folders"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_classes__are_found_by_name_and_torchvision_is_left_alone_where_it_can_be(run, tmp_path):
    own, stock, other = "segaudit.study.networks:QuickTrainer", "nnUNetTrainer", "nnUNetTrainer_5epochs"
    _, told = run(tmp_path, ["classes", own, stock, other])
    assert told["classes"] == [["QuickTrainer", False], ["nnUNetTrainer", False], ["nnUNetTrainer_5epochs", True]]
    for name in ("nnUNetTrainerOfNobody", "segaudit.study.networks:Nobody", "segaudit.study.networks:MiniPlanner"):
        assert run(tmp_path, ["classes", name])[1]["codes"] == ["STUDY_CLASS_UNKNOWN"]
