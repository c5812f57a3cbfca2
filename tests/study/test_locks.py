from pathlib import Path

import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.study.locks import differences, freeze, read_lock, write_lock
from segaudit.study.plans import plan_study
from segaudit.study.proofs import needed, proof_path, proving, read_proof, why_not


def frozen(path):
    return freeze(plan_study(path))


def said(old, new):
    return {finding.code: finding.message for finding in differences(old, new)}


def test_lock__comes_back_as_written_and_equals_itself(small_study, tmp_path):
    lock = frozen(small_study)
    write_lock(tmp_path, lock)
    assert read_lock(tmp_path) == lock
    assert differences(lock, frozen(small_study)) == []


def test_lock__names_a_changed_label_and_a_changed_image(small_study):
    before = frozen(small_study)
    (small_study.parent / "expert" / "c02.nii.gz").write_bytes(b"drawn again")
    found = [f for f in differences(before, frozen(small_study)) if f.code == "STUDY_FILE_CHANGED"]
    assert {f.where for f in found} == {"regime 'mixed'", "regime 'gold'"}
    assert all("1 label has changed" in f.message and "expert/c02.nii.gz" in f.message for f in found)
    (small_study.parent / "images" / "c23_0000.nii.gz").write_bytes(b"scanned again")
    assert any("predicted cases have changed (c23)" in f.message for f in differences(before, frozen(small_study)))


def test_lock__names_a_case_that_came_in(small_study):
    before = frozen(small_study)
    folder = small_study.parent
    for place in ("images/new_0000", "expert/new"):
        (folder / f"{place}.nii.gz").write_bytes(b"new")
    for name, row in (("participants.csv", "new,px,Male,50\n"), ("splits.csv", "new,px,train\n")):
        (folder / name).write_text((folder / name).read_text() + row)
    found = differences(before, frozen(small_study))
    assert {f.where for f in found if f.code == "STUDY_CASES_ADDED"} == {"regime 'mixed'", "regime 'gold'"}
    assert all("(new)" in f.message for f in found if f.code == "STUDY_CASES_ADDED")
    assert {Path(f.where).name for f in found if f.where.endswith(".csv")} == {"participants.csv", "splits.csv"}


def test_lock__names_changed_settings(small_study):
    before = frozen(small_study)
    text = small_study.read_text()
    small_study.write_text(text.replace("n_folds = 2", "n_folds = 3\nseed = 7"))
    found = said(before, frozen(small_study))
    assert "seed was 42" in found["STUDY_SETTING_CHANGED"]
    assert "STUDY_FOLDS_CHANGED" in found


def test_lock__names_every_file_that_is_gone(small_study):
    plan = plan_study(small_study)
    for case in ("c02", "c04"):
        (small_study.parent / "expert" / f"{case}.nii.gz").unlink()
    with pytest.raises(AuditError) as error:
        freeze(plan)
    assert [Path(f.where).name for f in error.value.findings] == ["c02.nii.gz", "c04.nii.gz"]


@pytest.fixture
def begun(small_study, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    lock = frozen(small_study)
    out = home / "out.txt"

    def do(name, text="made"):
        with proving(home, lock, lock.step(name), 1) as told:
            out.write_text(text)
            told["files"] = [out]

    return home, lock, out, do


def test_proof__holds_until_its_files_or_what_it_rests_on_change(begun):
    home, lock, out, do = begun
    first, second = lock.step("prepare/gold"), lock.step("preprocess/gold")
    assert why_not(home, lock, first) == "not done"
    do("prepare/gold")
    assert why_not(home, lock, first) == ""
    assert needed(home, lock, second) is None
    out.write_text("other")
    assert "has changed" in why_not(home, lock, first)
    do("prepare/gold", "other")
    out.unlink()
    assert "is gone" in why_not(home, lock, first)
    changed = lock.model_copy(update={"settings": {**lock.settings, "channel": "T1"}})
    do("prepare/gold")
    assert why_not(home, changed, first) == "what it rests on has changed"


def test_proof__of_a_prepared_data_set_falls_with_a_stale_file(begun):
    home, lock, _, do = begun
    step = lock.step("prepare/gold")
    folder = home / "nnunet" / "raw" / lock.regime("gold").dataset
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"cases": []}')
    (folder / "dataset.json").write_text('{"dataset": {}, "numTraining": 0}')
    do("prepare/gold")
    assert why_not(home, lock, step) == ""
    (folder / "imagesTr").mkdir()
    (folder / "imagesTr" / "stale_0000.nii.gz").write_bytes(b"of an earlier build")
    assert "imagesTr/stale_0000.nii.gz" in why_not(home, lock, step)


def test_proof__of_a_touched_but_equal_file_holds(begun):
    home, lock, out, do = begun
    do("prepare/gold")
    content = out.read_bytes()
    out.write_bytes(content)
    assert why_not(home, lock, lock.step("prepare/gold"), closely=True) == ""


def test_proof__is_not_written_when_the_step_fails_and_counts_the_attempts(begun):
    home, lock, out, _do = begun

    def fail(told):
        assert not told["goes_on"]
        raise RuntimeError

    with pytest.raises(RuntimeError), proving(home, lock, lock.step("prepare/gold"), 1) as told:
        fail(told)
    assert read_proof(home, "prepare/gold") is None
    with proving(home, lock, lock.step("prepare/gold"), 1) as told:
        assert told["goes_on"], "an attempt at the same task did not end"
        out.write_text("made")
        told["files"] = [out]
    assert read_proof(home, "prepare/gold").attempts == 2


def test_proof__half_written_is_none(begun):
    home, lock, _, do = begun
    do("prepare/gold")
    path = proof_path(home, "prepare/gold")
    path.write_text(path.read_text()[:40])
    assert why_not(home, lock, lock.step("prepare/gold")) == "not done"


def test_lock__the_people_table_is_part_of_it(small_study):
    before = frozen(small_study)
    path = small_study.parent / "participants.csv"
    table = pd.read_csv(path)
    table.loc[20, "age"] += 1
    table.to_csv(path, index=False)
    assert any(f.where.endswith("participants.csv") for f in differences(before, frozen(small_study)))
