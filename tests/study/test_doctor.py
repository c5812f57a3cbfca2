"""The doctor: what the facts of a machine mean, and that the facts are those of this machine."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from segaudit.study import doctor
from segaudit.study.doctor import Machine, Needs, Torch, ask_torch, checks, judge, look, plugin

GB = 1e9
GOOD = Machine(
    folder=Path("/data"),
    writable=True,
    free=900 * GB,
    memory=128 * GB,
    shared=64 * GB,
    versions={"torch": "2.13.0+cu130", "nnunetv2": "2.8.1", "snakemake": "9.27.1", "torchvision": "0.28.0"},
    torchvision_wants="2.13.0",
    torch=Torch(cuda=True, built_for="13.0", boards=(("NVIDIA L40S", 47.7 * GB),)),
)
NEEDS = Needs(disk_gb=300)


def without(*names):
    return {name: found for name, found in GOOD.versions.items() if name not in names}


def codes(findings):
    return [(finding.code, finding.level) for finding in findings if finding.code != "DOCTOR_FOUND"]


def test_doctor__a_good_machine_has_notes_alone():
    found = judge(GOOD, "cuda", NEEDS)
    assert codes(found) == []
    said = " ".join(finding.message for finding in found)
    for fact in ("nnunetv2 2.8.1", "NVIDIA L40S has 47.7 GB", "128.0 GB of memory", "900.0 GB are free"):
        assert fact in said


SMALL = Torch(cuda=True, built_for="13.0", boards=(("GeForce", 11.8 * GB), ("NVIDIA L4", 24.15 * GB)))
NO_GPU = Torch(built_for="13.0")


@pytest.mark.parametrize(
    ("machine", "device", "needs", "expected", "fix", "why"),
    [
        (replace(GOOD, versions=without("nnunetv2", "snakemake")), "cuda", NEEDS,
         [("DOCTOR_PACKAGE_MISSING", "error")] * 2, "segaudit[study]", "each missing package is told"),
        (GOOD, "cuda", Needs("slurm"), [("DOCTOR_EXECUTOR_MISSING", "error")],
         "pip install snakemake-executor-plugin-slurm", "the plugin of the profile's executor is named"),
        (replace(GOOD, versions={**GOOD.versions, "snakemake-executor-plugin-slurm": "2.8.0"}), "cuda", Needs("slurm"),
         [], "", "the plugin is there"),
        (replace(GOOD, torch=Torch("it gave no answer within 120 s")), "cuda", NEEDS,
         [("DOCTOR_TORCH_BROKEN", "error")], "driver", "a torch that hangs is one finding, not two"),
        (replace(GOOD, torchvision_wants="2.12.0"), "cuda", NEEDS, [("DOCTOR_TORCHVISION", "warning")],
         "one command", "the pair is told by metadata alone"),
        (replace(GOOD, torch=replace(GOOD.torch, torchvision="operator torchvision::nms does not exist")), "cuda",
         NEEDS, [("DOCTOR_TORCHVISION", "warning")], "one command", "the metadata fit, the builds do not"),
        (replace(GOOD, versions=without("torchvision")), "cuda", NEEDS, [], "", "no torchvision is no fault"),
        (replace(GOOD, torch=NO_GPU), "cuda", NEEDS, [("DOCTOR_DEVICE", "error")], "machine.device", "no GPU here"),
        (replace(GOOD, torch=NO_GPU), "cpu", NEEDS, [], "", "no GPU is asked for"),
        (replace(GOOD, torch=NO_GPU), "mps", NEEDS, [("DOCTOR_DEVICE", "error")], "machine.device", "no such device"),
        (replace(GOOD, torch=SMALL), "cuda", NEEDS, [("DOCTOR_GPU_MEMORY", "warning")], "ResEncM",
         "11.8 GB are too few, a 24 GB board is enough"),
        (replace(GOOD, torch=SMALL), "cuda", replace(NEEDS, gpu_memory_gb=10), [], "", "a smaller plan fits"),
        (replace(GOOD, memory=31 * GB), "cuda", NEEDS, [("DOCTOR_MEMORY", "warning")], "fewer jobs", "31 < 32 GB"),
        (GOOD, "cuda", replace(NEEDS, jobs=5), [("DOCTOR_MEMORY", "warning")], "fewer jobs", "128 < 5 x 32 GB"),
        (replace(GOOD, memory=None, shared=None), "cuda", NEEDS, [], "", "what is not known is not judged"),
        (replace(GOOD, shared=0.064 * GB), "cuda", NEEDS, [("DOCTOR_SHARED_MEMORY", "warning")], "--shm-size=2g",
         "a container's 64 MB"),
        (replace(GOOD, shared=0.064 * GB), "cpu", NEEDS, [], "", "the CPU trains without processes that augment"),
        (replace(GOOD, free=299 * GB), "cuda", NEEDS, [("DOCTOR_DISK", "error")], "quota", "299 < 300 GB"),
        (replace(GOOD, writable=False), "cuda", NEEDS, [("DOCTOR_FOLDER", "error")], "output", "read-only"),
        (replace(GOOD, variables={"nnUNet_raw": "/old"}), "cuda", NEEDS, [("DOCTOR_VARIABLES", "note")],
         "none needed", "ours are used"),
    ],
)  # fmt: skip
def test_doctor__judges(machine, device, needs, expected, fix, why):
    found = judge(machine, device, needs)
    assert codes(found) == expected, why
    assert all(finding.where and finding.fix for finding in found)
    assert all(fix in finding.fix for finding in found if finding.code != "DOCTOR_FOUND"), why


def test_doctor__on_a_cluster_the_login_node_needs_no_gpu():
    plugged = {**GOOD.versions, "snakemake-executor-plugin-slurm": "2.8.0"}
    login = replace(GOOD, torch=NO_GPU, memory=4 * GB, shared=0.01 * GB, versions=plugged)
    found = judge(login, "cuda", replace(NEEDS, executor="slurm"))
    assert codes(found) == [(f"DOCTOR_{what}", "note") for what in ("DEVICE", "MEMORY", "SHARED_MEMORY")]


def test_doctor__errors_come_first():
    bad = replace(GOOD, free=0, memory=GB, variables={"nnUNet_raw": "/old"}, torchvision_wants="1.0")
    levels = [finding.level for finding in judge(bad, "cuda", NEEDS)]
    assert levels == sorted(levels, key=("error", "warning", "note").index)
    assert set(levels) == {"error", "warning", "note"}


# what the facts are


def test_look__tells_this_machine_and_makes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "ask_torch", lambda timeout_s: Torch())
    monkeypatch.setenv("nnUNet_results", "/elsewhere")
    found = look(tmp_path / "not" / "yet", "slurm")
    assert found.folder == tmp_path
    assert found.writable
    assert not list(tmp_path.iterdir())
    assert found.free == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.05)
    assert found.variables["nnUNet_results"] == "/elsewhere"
    for name in ("torch", "nnunetv2", "snakemake", "torchvision", "snakemake-executor-plugin-slurm"):
        try:
            assert found.versions[name] == version(name)
        except PackageNotFoundError:
            assert name not in found.versions
    if sys.platform == "linux":
        total = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
        assert 0 < found.memory <= int(total.split()[1]) * 1024 * 1.001


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="the superuser may write everywhere")
def test_look__a_folder_that_may_not_be_written_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "ask_torch", lambda timeout_s: Torch())
    tmp_path.chmod(0o500)
    assert not look(tmp_path / "study").writable


@pytest.mark.parametrize(
    ("program", "told", "why"),
    [
        ("import time; time.sleep(30)", Torch("it gave no answer within 0.5 s"), "a driver that hangs"),
        ("raise OSError('libcudart.so.13: cannot open')", Torch("OSError: libcudart.so.13: cannot open"), "no library"),
        ("import os; os._exit(9)", Torch("exit status 9"), "it dies without a word"),
    ],
)
def test_ask_torch__says_why_there_is_no_answer(monkeypatch, program, told, why):
    monkeypatch.setattr(doctor, "_PROBE", program)
    assert ask_torch(0.5 if "sleep" in program else 30) == told, why


def test_ask_torch__reads_the_last_line(monkeypatch):
    answer = '{"cuda": true, "built_for": "13.0", "mps": false, "boards": [["NVIDIA L40S", 47700000000]]}'
    monkeypatch.setattr(doctor, "_PROBE", f"print('a library greets'); print('{answer}')")
    assert ask_torch(30) == Torch(cuda=True, built_for="13.0", boards=(("NVIDIA L40S", 47.7e9),))


@pytest.mark.slow
def test_checks__asks_the_torch_that_is_installed(tmp_path):
    pytest.importorskip("nnunetv2", reason="segaudit[study] is not installed")
    program = (
        "import sys; from pathlib import Path; from segaudit.study.doctor import checks\n"
        f"found = checks(Path({str(tmp_path)!r}), 'cpu')\n"
        "assert 'torch' not in sys.modules\n"
        "assert not [f for f in found if f.level == 'error'], found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=150)


def test_checks__one_call_looks_and_judges(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "look", lambda home, executor: replace(GOOD, folder=home, free=0))
    found = checks(tmp_path, "cuda", Needs("lsf", disk_gb=1, jobs=9))
    expected = [("DOCTOR_EXECUTOR_MISSING", "error"), ("DOCTOR_DISK", "error"), ("DOCTOR_MEMORY", "note")]
    assert codes(found) == expected
    assert found[0].fix == "pip install snakemake-executor-plugin-lsf"
    assert found[1].where == str(tmp_path)


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [("torch (==2.13.0)", "2.13.0"), ("torch==2.13.0", "2.13.0"), ("torch>=2", ""), ("torchmetrics==1.0", "")],
)
def test_doctor__reads_the_torch_that_torchvision_is_made_for(requirement, wanted):
    assert doctor._pinned_torch(requirement) == wanted


def test_plugin__names_the_package():
    assert (plugin("local"), plugin("lsf")) == ("snakemake", "snakemake-executor-plugin-lsf")
