import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from segaudit.errors import AuditError
from segaudit.study import workflow
from segaudit.study.jobs import do_step, reason_of
from segaudit.study.locks import freeze, write_lock
from segaudit.study.plans import plan_study
from segaudit.study.proofs import Proof, begun_with, needed, write_proof

_spec = importlib.util.spec_from_file_location("study_conftest", Path(__file__).with_name("conftest.py"))
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)


def nobody(_folder):
    raise AssertionError


def test_run__without_the_extra_says_what_to_install(monkeypatch, small_study):
    monkeypatch.setattr(workflow, "find_spec", lambda name: None if name in ("torch", "nnunetv2") else name)
    with pytest.raises(AuditError, match="torch, nnunetv2 are not installed") as error:
        workflow.run_study(small_study)
    assert 'pip install "segaudit[study]"' in error.value.findings[0].fix
    assert not (small_study.parent / "study").exists()


def test_profile__unknown_names_those_there_are():
    with pytest.raises(AuditError, match="generic, local, slurm"):
        workflow.profile_folder("lsf")


@pytest.mark.parametrize(("name", "executor"), [("", "local"), ("slurm", "slurm"), ("generic", "cluster-generic")])
def test_profile__says_its_executor(name, executor):
    assert workflow.executor_of(name) == executor


@pytest.fixture
def begun(small_study):
    plan = plan_study(small_study)
    lock = freeze(plan)
    plan.home.mkdir()
    write_lock(plan.home, lock)
    return plan.home, lock


def test_step__needs_what_comes_before(begun):
    home, _ = begun
    with pytest.raises(AuditError, match="needs preprocess/gold, not done yet"):
        do_step(home, "train/gold/2d/0", nobody)
    with pytest.raises(AuditError, match="no step 'train/gold/2d/9'"):
        do_step(home, "train/gold/2d/9", nobody)


def test_step__that_fails_leaves_its_reason_and_is_told_in_the_status(begun):
    home, lock = begun
    # the files are no images: preparing them fails
    with pytest.raises(AuditError):
        do_step(home, "prepare/gold", nobody)
    assert "c00" in reason_of(home, "prepare/gold")
    states = {one.step.name: one for one in workflow.status(home, lock)}
    assert states["prepare/gold"].state == "failed"
    assert states["prepare/mixed"].state == "left"
    assert begun_with(home, "prepare/gold")
    assert not list(home.glob("nnunet/raw/*"))


def test_step__changed_after_the_study_began_is_named(begun, small_study):
    home, _ = begun
    label = small_study.parent / "expert" / "c02.nii.gz"
    label.write_bytes(b"drawn again")
    with pytest.raises(AuditError) as error:
        do_step(home, "prepare/gold", nobody)
    assert [(f.code, f.where) for f in error.value.findings] == [("STUDY_FILE_CHANGED", str(label))]


def test_refresh__takes_the_marks_that_no_proof_bears_out(begun):
    home, lock = begun
    mark = home / "done" / "plan"
    mark.parent.mkdir()
    mark.touch()
    workflow.refresh(home, lock)
    assert not mark.exists()


def test_running__refuses_a_second(begun):
    home, _ = begun
    code = (
        "import sys; from pathlib import Path; from segaudit.errors import AuditError\n"
        "from segaudit.study.workflow import running\n"
        "try:\n    with running(Path(sys.argv[1])): pass\n"
        "except AuditError as error: print(error)"
    )
    with workflow.running(home):
        held = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=True)
    assert "STUDY_HELD" in held.stdout
    free = subprocess.run([sys.executable, "-c", code, str(home)], capture_output=True, text=True, check=True)
    assert free.stdout == ""


def test_init__writes_a_study_that_reads_and_none_twice(command, tmp_path):
    import tomllib

    from segaudit.config.study import StudyFile

    path = tmp_path / "study.toml"
    assert command("study", "init", path).status == 0
    file = StudyFile.model_validate(tomllib.loads(path.read_text()))
    assert [one.name for one in file.regimes] == ["mixed", "gold"]
    again = command("study", "init", path)
    assert again.status == 2
    assert "FILE_EXISTS" in again.err


def test_plan__command_prints_counts_and_writes_nothing(command, small_study):
    told = command("study", "plan", small_study)
    assert told.status == 0
    assert "8 trainings" in told.out
    assert "test: 8 cases; rulers: expert, gold" in told.out
    assert not (small_study.parent / "study").exists()
    data = json.loads(command("study", "plan", small_study, "--json").out)
    assert data["estimate"]["trainings"] == 8
    assert {row["test patients in it"] for row in data["folds"]} == {0}


def test_plan__commands_can_be_run_by_hand(command, small_study):
    lines = command("study", "plan", small_study, "--commands").out.splitlines()
    own = [line for line in lines if not line.startswith("#")]
    assert own[0] == f"segaudit study run {small_study} --snakemake=--dry-run"
    assert all(line.startswith("segaudit study step ") for line in own[1:])
    assert any("nnUNetv2_train 502 3d_fullres 1 -tr nnUNetTrainer -p nnUNetResEncUNetLPlans" in line for line in lines)
    assert own[-1].endswith("audit/rulers")


def test_plan__commands_name_what_nnunet_itself_would_find(command, small_study):
    text = small_study.read_text()
    own = (
        '\nclean_up = ["mixed"]\n[network]\nplanner = "nowhere.at_all:Planner"\ntrainer = "segaudit.errors:MyTrainer"\n'
    )
    small_study.write_text(own.replace("\n[network]", f"\n{text}\n[network]", 1))
    lines = command("study", "plan", small_study, "--commands").out.splitlines()
    assert any(line.startswith("# export nnUNet_extTrainer=") and line.endswith("segaudit") for line in lines)
    assert any("nnUNetv2_train 502 3d_fullres 1 -tr MyTrainer -p" in line for line in lines)
    assert not any("-pl nowhere" in line for line in lines)
    keep = next(line for line in lines if "pickle.dump" in line)
    assert "{'labels_or_regions': [1, 2]}" in keep
    assert any("nnUNetv2_apply_postprocessing" in line and "-pp_pkl_file largest.pkl" in line for line in lines)


@pytest.mark.parametrize(
    ("audit", "code"),
    [
        ({"by": ["rase"]}, "UNKNOWN_ATTRIBUTE"),
        ({"by": ["sex"], "metrics": ["dicee"]}, "UNKNOWN_METRIC"),
        ({"by": ["sex"], "margin": {"dice": 3.0}}, "PLAN_BOUNDS"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "run", "doctor"])
def test_audit__that_would_be_refused_stops_before_anything_is_trained(command, tmp_path, audit, code, verb):
    people, parts, gold = made.small_people()
    path = made.write_study(tmp_path / "s", people, parts, gold=gold, audit=audit)
    told = command("study", verb, path)
    assert told.status == 2
    assert code in told.err
    assert not (tmp_path / "s" / "study").exists()


def test_status__before_a_study_has_begun_says_so(command, small_study):
    told = command("study", "status", small_study)
    assert told.status == 2
    assert "STUDY_NOT_BEGUN" in told.err


def test_status__counts_what_is_done_and_its_carbon(command, begun, small_study):
    home, lock = begun
    step = lock.step("prepare/gold")
    write_proof(
        home,
        Proof(step.name, needed(home, lock, step), "r", {}, 7200.0, 3600.0, 1, "cpu", "here", "2026-11-30T00:00:00Z"),
    )
    text = small_study.read_text() + "\n[carbon]\nwatts = { cpu = 10 }\n"
    small_study.write_text(text)
    data = json.loads(command("study", "status", small_study, "--json").out)
    assert {one["step"]: one["state"] for one in data["steps"]}["prepare/gold"] == "done"
    total = next(row for row in data["carbon"] if row["scope"] == "total")
    assert total["energy_kwh"] == pytest.approx(1.0 * 10 / 1000 * 1.58)


def test_status__tells_a_running_step_from_one_that_did_not_end(command, begun, small_study):
    home, lock = begun
    for name in ("prepare/gold", "prepare/mixed"):
        with pytest.raises(AuditError):
            do_step(home, name, nobody)
        (home / "proofs" / f"{name}.failed").unlink()
    (home / "logs" / "prepare").mkdir(parents=True)
    (home / "logs" / "prepare" / "gold.log").write_text("Epoch 3\n")
    code = (
        "import sys, time; from segaudit.store import lock_file\n"
        "file = open(sys.argv[1], 'a+b'); print(lock_file(file), flush=True); time.sleep(60)"
    )
    command_line = [sys.executable, "-c", code, str(home / "proofs" / "prepare" / "gold.lock")]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, text=True) as doing:
        assert doing.stdout.readline() == "True\n"
        states = {one.step.name: (one.state, one.reason) for one in workflow.status(home, lock)}
        said = command("study", "status", small_study).out
        doing.kill()
    assert states["prepare/gold"] == ("running", "Epoch 3")
    assert states["prepare/mixed"] == ("begun", "")
    assert "running prepare/gold: Epoch 3" in said
    assert "begun prepare/mixed: an attempt did not end" in said
    assert "carbon: no job is done yet" in said


def test_status__closely_names_a_changed_label(command, begun, small_study):
    assert "STUDY_FILE_CHANGED" not in command("study", "status", small_study, "--closely").out
    (small_study.parent / "expert" / "c02.nii.gz").write_bytes(b"drawn again")
    told = command("study", "status", small_study, "--closely")
    assert told.status == 0
    assert "STUDY_FILE_CHANGED" in told.out
    assert "c02.nii.gz" in told.out


def test_status__says_which_power_is_not_declared(command, begun, small_study):
    home, lock = begun
    step = lock.step("prepare/gold")
    write_proof(home, Proof(step.name, "n", "r", {}, 1.0, 1.0, 1, "Board 7", "here", "2026-11-30T00:00:00Z"))
    assert (
        "no power is declared for Board 7 ([carbon] watts in study.toml)" in command("study", "status", small_study).out
    )


def test_run__that_cannot_write_says_where_the_folder_is_named(small_study):
    (small_study.parent / "study").write_text("a file")
    with pytest.raises(AuditError) as error:
        workflow.run_study(small_study)
    assert [(f.code, "output" in f.fix) for f in error.value.findings] == [("RUN_UNWRITABLE", True)]


def test_run__with_options_that_snakemake_does_not_know_says_so(monkeypatch, small_study):
    monkeypatch.setattr(workflow, "_check_volumes", lambda _plan, _lock: None)  # the files are no images
    monkeypatch.chdir(small_study.parent)
    with pytest.raises(AuditError, match="nonsense") as error:
        workflow.run_study(small_study, options=["--nonsense"])
    assert [f.code for f in error.value.findings] == ["STUDY_OPTIONS"]


def test_failure__keeps_its_room_on_a_full_disk(begun):
    home, _ = begun
    path = home / "proofs" / "prepare" / "gold.failed"
    with pytest.raises(AuditError):
        do_step(home, "prepare/gold", nobody)
    assert path.stat().st_size == 4096
    assert "c00" in reason_of(home, "prepare/gold")
