"""Read a text file that somebody gave: a regular one, of bounded size, before any memory is taken for more."""

from __future__ import annotations

import stat
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
