"""Digests of what went in and came out, and the steps that led there."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from segaudit.errors import AuditError, Finding

_BLOCK = 1 << 20
_NAMED_PACKAGES = ("segaudit", "numpy", "scipy", "pandas", "nibabel")


@dataclass(frozen=True)
class Input:
    """A file that a step read: its path as the run records it, its digest and its size in bytes."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Step:
    """One verb with what it was given: enough to say whether a result still follows from its inputs.

    Attributes
    ----------
    verb : str
    options : mapping
        JSON values.
    inputs : tuple of Input
    outputs : mapping of str to str
        File name in the run directory to its sha256.
    seed : int or None
    versions : mapping of str to str
    """

    verb: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    found = {name: metadata.version(name) for name in _NAMED_PACKAGES}
    return {"python": platform.python_version(), **found}


def digest_bytes(data: bytes) -> str:
    """Return the sha256 of bytes as hex."""
    return hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> str:
    """Return the sha256 of a file's bytes as hex.

    Raises
    ------
    AuditError
        FILE_MISSING or FILE_UNREADABLE.
    """
    sha = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK):
                sha.update(block)
    except FileNotFoundError:
        raise AuditError(Finding("FILE_MISSING", f"there is no file {path}.", str(path), "check the path.")) from None
    except OSError as error:
        fact = f"{path} cannot be read: {error.strerror}."
        raise AuditError(Finding("FILE_UNREADABLE", fact, str(path), "check the file and its permissions.")) from None
    return sha.hexdigest()


def digest_json(value: Any) -> str:
    """Return the sha256 of a JSON value in canonical form (sorted keys, no blanks)."""
    return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def inputs(
    paths: Iterable[Path], named: Callable[[Path], str] = str, known: Mapping[Path, tuple[str, int]] | None = None
) -> tuple[Input, ...]:
    """Return the inputs of a step, each with its digest, in the order of their paths.

    Parameters
    ----------
    paths : iterable of Path
    named : callable
        How each is told.
    known : mapping of Path to (str, int), optional
        sha256 and size of files as they were when they were read.
    """
    done = known or {}
    found = [(path, *(done.get(path) or (digest_file(path), path.stat().st_size))) for path in sorted(set(paths))]
    return tuple(Input(named(path), sha256, size) for path, sha256, size in found)
