"""Files whole: read one that somebody gave, of bounded size; write several, all of them or none."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path

from segaudit.errors import AuditError, Finding


def read_file(path: Path, limit: int, *, what: str, fix: str = "") -> bytes:
    """Return the bytes of a regular file of at most `limit` bytes.

    Parameters
    ----------
    path : Path
    limit : int
    what : str
        Begins the code of the refusal, as TOML in TOML_TOO_LARGE.
    fix : str
        What to do about a file that is too large.

    Raises
    ------
    AuditError
        FILE_MISSING, FILE_UNREADABLE (folders, pipes and devices, too) or <what>_TOO_LARGE.
    """
    where = str(path)
    try:
        # asked before opening: opening a pipe would wait for ever
        if not stat.S_ISREG(path.stat().st_mode):
            raise AuditError(Finding("FILE_UNREADABLE", f"{path} is no file.", where, "give a file."))
        with path.open("rb") as stream:
            raw = stream.read(limit + 1)
    except FileNotFoundError:
        raise AuditError(Finding("FILE_MISSING", f"there is no file {path}.", where, "check the path.")) from None
    except (OSError, ValueError) as error:
        fact = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}."
        raise AuditError(Finding("FILE_UNREADABLE", fact, where, "give a file that you may read.")) from None
    if len(raw) > limit:
        raise AuditError(Finding(f"{what}_TOO_LARGE", f"the file has more than {limit} bytes, the limit.", where, fix))
    return raw


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write files, their folders too: each under a temporary name first, and all renamed once all are written.

    Raises
    ------
    AuditError
        DISK_FULL or FILE_UNWRITABLE; then every file is as it was before.
    """
    drafts: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
            drafts[path] = Path(name)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            drafts[path].chmod(0o644)
        for path, draft in drafts.items():
            draft.replace(path)
    except OSError as error:
        where = str(path)
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            fact = f"no space is left to write {path}."
            raise AuditError(Finding("DISK_FULL", fact, where, "free space and run again.")) from None
        fact = f"{path} cannot be written: {error.strerror or error}."
        raise AuditError(Finding("FILE_UNWRITABLE", fact, where, "check the folder and its rights.")) from None
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
