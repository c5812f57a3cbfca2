"""Several files are written whole, or none of them."""

import pytest

from segaudit.errors import AuditError
from segaudit.files import write_files


def test_write_files__writes_all_and_leaves_nothing_else(tmp_path):
    (tmp_path / "b").write_text("old")
    write_files({tmp_path / "a" / "x": b"1", tmp_path / "b": b"2"})
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == ["a", "a/x", "b"]
    assert ((tmp_path / "a" / "x").read_bytes(), (tmp_path / "b").read_bytes()) == (b"1", b"2")


def test_write_files__where_one_cannot_be_written_all_stay_as_they_were(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "file").touch()
    with pytest.raises(AuditError, match="FILE_UNWRITABLE"):
        write_files({tmp_path / "a": b"new", tmp_path / "file" / "x": b"new"})
    assert (tmp_path / "a").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "file"]


def test_write_files__a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*_args, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("segaudit.files.tempfile.mkstemp", full)
    with pytest.raises(AuditError, match="DISK_FULL"):
        write_files({tmp_path / "a": b"x"})
