"""The ledger: the same scores with it as without, and only what is missing or changed is measured."""

import dataclasses
import math
import os
import shutil
import sqlite3

import numpy as np
import pytest

import segaudit.scores.ledger as ledger_module
from segaudit import AuditError, Finding, score_folders
from segaudit.metrics import METRICS, Counts, Empty, Measured, Metric
from segaudit.scores import pools, tasks
from segaudit.scores.ledger import Ledger
from segaudit.scores.tasks import Done, FileFacts, PairFacts, Source, Stamp, Task

LABELS = {"vb": 1, "disc": 2}


def scored(folder, ledger=None, **options):
    options = {"labels": LABELS, "workers": 1, **options}
    return score_folders(folder / "pred", {"gold": folder / "gold"}, ledger=ledger, **options)


@pytest.fixture
def measured(monkeypatch):
    """Return the list of the cases that are measured from now on."""
    cases = []

    def measure(task):
        cases.append(task.case)
        return tasks.measure_case(task)

    monkeypatch.setattr(pools, "measure_case", measure)
    return cases


def same(one, other):
    assert one.table.equals(other.table)
    assert one.loads.equals(other.loads)
    assert one.findings == other.findings
    assert one.inputs == other.inputs


def test_ledger__gives_the_same_scores_and_measures_nothing_twice(small, tmp_path, measured):
    without = scored(small)
    assert len(measured) == 12
    same(scored(small, tmp_path / "l"), without)
    assert len(measured) == 24
    same(scored(small, tmp_path / "l"), without)
    assert len(measured) == 24


def test_ledger__measures_only_the_case_whose_file_changed(small, tmp_path, measured, bench):
    scored(small, tmp_path / "l")
    measured.clear()
    bench.write_mask(small / "gold" / "c004.nii.gz", np.random.default_rng(99))
    same(scored(small, tmp_path / "l"), scored(small))
    assert measured[:1] == ["c004"]
    assert len(measured) == 1 + 12


def test_ledger__knows_the_content_wherever_it_lies(small, tmp_path, measured):
    scored(small, tmp_path / "l")
    measured.clear()
    moved = tmp_path / "moved"
    shutil.move(small, moved)
    for path in moved.rglob("*.nii.gz"):
        path.touch()
    found = scored(moved, tmp_path / "l")
    assert measured == []
    same(found, scored(moved))


@pytest.mark.parametrize(
    ("options", "n_measured", "why"),
    [
        ({"metrics": ["dice"]}, 0, "dice was measured with the other metrics"),
        ({"labels": {"vb": 1}}, 12, "another coding"),
        ({"labels": {"disc": 2, "vb": 1}}, 0, "the same coding in another order"),
        ({"model": "net"}, 0, "a name is no content"),
    ],
)
def test_ledger__a_request_is_met_from_what_is_there(small, tmp_path, measured, options, n_measured, why):
    scored(small, tmp_path / "l")
    measured.clear()
    found = scored(small, tmp_path / "l", **options)
    assert len(measured) == n_measured, why
    same(found, scored(small, **options))


def test_ledger__more_metrics_are_measured_anew(small, tmp_path, measured):
    scored(small, tmp_path / "l", metrics=["dice"])
    measured.clear()
    found = scored(small, tmp_path / "l")
    assert len(measured) == 12
    same(found, scored(small))


def test_ledger__other_code_measures_anew(small, tmp_path, measured, monkeypatch):
    scored(small, tmp_path / "l")
    measured.clear()
    for module in (ledger_module, tasks):
        monkeypatch.setattr(module, "code_version", lambda: "next")
    monkeypatch.setattr("segaudit.scores.measure.code_version", lambda: "next")
    scored(small, tmp_path / "l")
    assert len(measured) == 12


def test_code_version__covers_metrics_images_and_the_worker():
    files = {"segaudit.metrics", "segaudit.volumes", "segaudit.scores"}
    assert set(tasks._DECIDING) == files
    assert tasks.code_version() == tasks.code_version.__wrapped__()


def test_ledger__holds_every_field_of_a_measurement(tmp_path):
    """A field that a measurement gains must find its column."""
    assert {f.name for f in dataclasses.fields(Measured)} == {
        "counts", "voxel_mm3", "hd95", "components_prediction", "components_reference", "others",
    }  # fmt: skip
    values = {
        "a": Measured(Counts(1, 2, 3, 2**40), 0.1 + 0.2, 1 / 3, 4, 5, {"odd": 1e-300}),
        "b": Measured(Counts(0, 0, 0, 9), 1.0, math.nan, 0, 0, {}),
        "c": Measured(Counts(0, 7, 0, 2), 1.0, math.inf, 1, 0, {}),
    }
    sources = tuple(Source(name, str(tmp_path / name), {"a": (1,)}, None) for name in ("m", "r"))
    for source in sources:
        (tmp_path / source.name).write_bytes(source.name.encode())
    task = Task("k", (sources,), ("hd95", "components_prediction"), digests=True)
    files = {s.path: FileFacts((), {1: 2}, tasks.digest_file(tmp_path / s.name), 1) for s in sources}
    note = Finding("GRID_ROUNDED", "a fact.", "", "a fix.", "note")
    with Ledger(tmp_path / "l") as ledger:
        ledger.keep(task, Done("k", files, {("m", "r"): PairFacts(values, (note,))}))
    with Ledger(tmp_path / "l") as ledger:
        known, left = ledger.known(task)
        fewer, _ = ledger.known(dataclasses.replace(task, metrics=("dice",)))
    assert left is None
    found = known.pairs["m", "r"]
    assert found.findings == (note,)
    expected = {name: dataclasses.replace(value, others={}) for name, value in values.items()}
    assert repr(dict(found.measured)) == repr(expected)  # nan is not equal to itself, but reads the same
    assert {value.hd95 for value in fewer.pairs["m", "r"].measured.values()} == {None}


def test_ledger__an_own_metric_is_kept_by_the_file_it_stands_in(small, tmp_path, measured, monkeypatch):
    card = Metric(
        "same_size", "Same size", "1", "higher", (0.0, 1.0), True, Empty(math.nan, 0.0, 0.0), "none", fn=_alike
    )
    monkeypatch.setattr(METRICS, "_items", {**METRICS._items, card.name: card})
    first = scored(small, tmp_path / "l", metrics=["same_size"])
    measured.clear()
    same(scored(small, tmp_path / "l", metrics=["same_size"]), first)
    assert measured == []
    monkeypatch.setattr(ledger_module, "_code_of", lambda function: "changed")
    scored(small, tmp_path / "l", metrics=["same_size"])
    assert len(measured) == 12


def _alike(prediction, reference, spacing_mm):
    return float(prediction.sum() == reference.sum())


def _other_format(path):
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: path.write_bytes(b"this is no database, whatever it is called" * 100), "LEDGER_DAMAGED"),
        (lambda path: path.mkdir(), "LEDGER_UNUSABLE"),
        (_other_format, "LEDGER_UNUSABLE"),
    ],
)
def test_ledger__one_that_cannot_be_used_is_named(small, tmp_path, make, code):
    make(tmp_path / "l")
    with pytest.raises(AuditError) as caught:
        scored(small, tmp_path / "l")
    assert [finding.code for finding in caught.value.findings] == [code]
    assert "l" in caught.value.findings[0].where


def test_fresh__begins_a_damaged_ledger_anew(small, tmp_path, command):
    words = ["score", "--pred", small / "pred", "--ref", f"gold={small / 'gold'}", "--labels", "vb=1,disc=2"]
    words += ["-o", tmp_path / "run", "--workers", "1"]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ledger.sqlite").write_bytes(b"no database" * 1000)
    assert "LEDGER_DAMAGED" in command(*words).err
    assert command(*words, "--fresh").status == 0
    assert command("verify", tmp_path / "run").status == 0


def test_results__are_the_same_bytes_with_and_without_what_the_ledger_knew(small, tmp_path, command):
    words = ["score", "--pred", small / "pred", "--ref", f"gold={small / 'gold'}", "--labels", "vb=1,disc=2"]
    run = tmp_path / "run"
    made = []
    for extra in ([], [], ["--fresh"]):
        assert command(*words, "-o", run, *extra).status == 0
        made.append({p.name: p.read_bytes() for p in run.iterdir() if not p.name.startswith((".", "ledger"))})
    assert made[0] == made[1] == made[2]
    assert "scores.csv" in made[0]


@pytest.mark.parametrize(
    ("stamp", "now", "settled", "why"),
    [
        (Stamp(1, 0, 0, 1), 3_000_000_000, True, "changed three seconds ago"),
        (Stamp(1, 0, 2_000_000_000, 1), 3_000_000_000, False, "its inode changed a second ago"),
        (Stamp(1, 9_000_000_000, 0, 1), 3_000_000_000, False, "from the future: the clock was set back"),
    ],
)
def test_stamp__stands_for_the_content_once_a_change_would_show(stamp, now, settled, why):
    assert stamp.settled(now) is settled, why


def test_clock__set_back_or_forward_hides_no_change(small, tmp_path, measured, monkeypatch):
    path = small / "pred" / "c002.nii.gz"
    for clock in (lambda: 10**18 * 4, lambda: 0):  # every file long settled, then every file from the future
        monkeypatch.setattr(tasks.time, "time_ns", clock)
        scored(small, tmp_path / "l")
        measured.clear()
        before = path.stat()
        other = (small / "gold" / "c002.nii.gz").read_bytes()
        changed = other[: before.st_size].ljust(before.st_size, b"\0") if len(other) < before.st_size else other
        path.write_bytes(changed)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as old as before, says the file
        scored(small, tmp_path / "l")
        assert measured == ["c002"]
        (small / "gold" / "c002.nii.gz").write_bytes((small / "gold" / "c003.nii.gz").read_bytes())
        measured.clear()
