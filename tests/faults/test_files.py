"""Files that fail while a run goes on: the other cases are kept, the failed ones named, all at once."""

import os

import pytest

from segaudit import AuditError, score_folders
from segaudit.scores import tasks

LABELS = {"vb": 1, "disc": 2}


def scored(folder, ledger, **options):
    options = {"workers": 1, **options}
    return score_folders(folder / "pred", {"gold": folder / "gold"}, labels=LABELS, ledger=ledger, **options)


@pytest.fixture
def break_three(small):
    """Return a function that takes a file away, garbles one and forbids one; and one that mends them."""
    files = [small / "gold" / "c005.nii.gz", small / "pred" / "c007.nii.gz", small / "pred" / "c009.nii.gz"]
    held = [path.read_bytes() for path in files]

    def break_() -> None:
        files[0].unlink()
        files[1].write_bytes(held[1][:-20])
        files[2].unlink()
        files[2].mkdir()

    def mend() -> None:
        files[2].rmdir()
        for path, data in zip(files, held, strict=True):
            path.write_bytes(data)

    return break_, mend


def test_files__that_fail_while_running_are_named_and_the_others_kept(small, tmp_path, bench, break_three):
    break_, mend = break_three
    whole = scored(small, None)
    ledger = tmp_path / "l"
    with pytest.raises(AuditError) as caught:
        scored(small, ledger, progress=lambda done, _: break_() if done == 1 else None)
    codes = {(f.code, f.where.rpartition("/")[2]) for f in caught.value.findings}
    assert codes == {
        ("IMAGE_MISSING", "c005.nii.gz"),
        ("IMAGE_TRUNCATED", "c007.nii.gz"),
        ("IMAGE_NOT_A_FILE", "c009.nii.gz"),
        ("CASES_NOT_SCORED", "l"),
    }
    assert "3 of 12 cases could not be measured: 'c005', 'c007', 'c009'" in caught.value.findings[-1].message
    assert bench.kept(ledger).n_pairs == 9
    mend()
    found = scored(small, ledger)
    assert bench.kept(ledger).n_pairs == 12
    assert bench.kept(ledger).most_times == 1
    assert found.table.equals(whole.table)


def test_keep_going__gives_the_failed_cases_a_status_of_their_own(small, tmp_path, break_three):
    break_, _ = break_three
    found = scored(small, tmp_path / "l", keep_going=True, progress=lambda done, _: break_() if done == 1 else None)
    status = found.table.groupby("case")["status"].agg(set)
    assert set(status[status == {"not_scored"}].index) == {"c005", "c007", "c009"}
    assert {finding.level for finding in found.findings if finding.code.startswith("IMAGE")} == {"warning"}
    assert "CASES_NOT_SCORED" in {finding.code for finding in found.findings}
    assert len(found.inputs) == 24 - 3


def test_command__says_by_its_status_whether_cases_failed(small, tmp_path, command):
    words = ["score", "--pred", small / "pred", "--ref", f"gold={small / 'gold'}", "--labels", "vb=1,disc=2"]
    words += ["-o", tmp_path / "run", "--workers", "1"]
    garbled = small / "pred" / "c007.nii.gz"
    whole = garbled.read_bytes()
    garbled.write_bytes(whole[:-20])
    failed = command(*words)
    assert failed.status == 2
    assert "IMAGE_TRUNCATED" in failed.err
    assert "'c007'" in failed.err
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {"ledger.sqlite", ".lock"}
    assert command(*words, "--keep-going").status == 1
    assert command("verify", tmp_path / "run").status == 0
    garbled.write_bytes(whole)
    assert command(*words).status == 0


def test_file__that_changes_while_it_is_read_is_refused(small, tmp_path, monkeypatch):
    path = small / "pred" / "c001.nii.gz"
    read = tasks.read_labels

    def slow(given, **options):
        volume = read(given, **options)
        if given == path:
            os.utime(path, ns=(1, 1))
        return volume

    monkeypatch.setattr(tasks, "read_labels", slow)
    with pytest.raises(AuditError) as caught:
        scored(small, tmp_path / "l")
    assert [f.code for f in caught.value.findings] == ["FILE_CHANGED", "CASES_NOT_SCORED"]


def test_image__above_the_limit_is_refused_and_the_limit_can_be_set(small, command, tmp_path):
    words = ["score", "--pred", small / "pred", "--ref", f"gold={small / 'gold'}", "--labels", "vb=1,disc=2"]
    words += ["-o", tmp_path / "run", "--workers", "1"]
    refused = command(*words, "--max-image-bytes", 12**3 - 1)
    assert refused.status == 2
    assert refused.err.count("IMAGE_TOO_LARGE") == 24
    assert command(*words, "--max-image-bytes", 12**3).status == 0
