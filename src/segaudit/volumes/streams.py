"""Bytes of an image file in order, plain or inflated: checksums checked, memory bounded by what was asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from isal import igzip_lib

from segaudit.errors import Finding
from segaudit.volumes.faults import finding, refusal

GZIP_MAGIC = b"\x1f\x8b"
_FEED = 1 << 16  # compressed bytes a step; also bounds the copying when a file has very many small members
_PIECE = 1 << 18  # inflated bytes a step; small enough to stay in cache on its way into the array
_SURPLUS = 1 << 16  # bytes after the voxels that are still taken for padding
_MAX_INFLATION = 1032  # deflate cannot expand a byte to more


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular, non-empty file for reading, and give it with its size in bytes.

    Raises
    ------
    AuditError
        IMAGE_MISSING, IMAGE_NOT_A_FILE, IMAGE_EMPTY_FILE, IMAGE_UNREADABLE; IMAGE_TOO_LARGE when memory runs out.
    """
    try:
        # Asked before opening: opening a named pipe would wait for ever.
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "a device, pipe or socket"
            raise refusal("IMAGE_NOT_A_FILE", f"{path.name} is {what}, not an image file.", path)
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise refusal("IMAGE_EMPTY_FILE", f"{path.name} has 0 bytes.", path)
            yield file, size
    except FileNotFoundError:
        broken = "is a link to a file that is not there" if path.is_symlink() else "does not exist"
        raise refusal("IMAGE_MISSING", f"{path.name} {broken}.", path) from None
    except OSError as error:
        raise refusal("IMAGE_UNREADABLE", f"{path.name} cannot be read: {error.strerror or error}.", path) from None
    except ValueError as error:  # a zero byte in the path
        raise refusal("IMAGE_UNREADABLE", f"{str(path)!r} is no path: {error}.", path) from None
    except MemoryError:
        raise refusal("IMAGE_TOO_LARGE", f"there is not enough memory to read {path.name}.", path) from None


class PlainStream:
    """The bytes of an uncompressed file."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self._file, self._size, self._path = file, size, path
        self.at_most = size  # bytes that the file can hold

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end."""
        return self._file.read(count)

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        self._file.seek(count, os.SEEK_CUR)

    def take(self, count: int) -> npt.NDArray[np.uint8]:
        """Return the next `count` bytes as an array, fewer only at the end."""
        out, filled = np.empty(count, np.uint8), 0
        while filled < count:
            got = self._file.readinto(out.data[filled:])  # type: ignore[attr-defined]
            if not got:
                break
            filled += got
        return out[:filled]

    def finish(self) -> list[Finding]:
        """Return a warning when bytes are left after the last one read."""
        return _surplus(self._size - self._file.tell(), self._path)


class GzipStream:
    """The inflated bytes of a gzip file, all members, each checked against its checksum and length."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self._file, self._size, self._path = file, size, path
        self._member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
        self._waiting = b""  # compressed bytes read but not yet given to a member
        self._ended = False
        self._findings: list[Finding] = []
        self.at_most = _MAX_INFLATION * size

    def read(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer only at the end."""
        return self.take(count).tobytes()

    def skip(self, count: int) -> None:
        """Pass over `count` bytes without keeping them."""
        while count and (piece := self._piece(min(count, _PIECE))):
            count -= len(piece)

    def take(self, count: int) -> npt.NDArray[np.uint8]:
        """Return the next `count` bytes as an array, fewer only at the end; read-only where they came at once."""
        piece = self._piece(count) if count else b""  # a mask is rarely more than one feed, and then needs no copy
        if len(piece) == count:
            return np.frombuffer(piece, np.uint8)
        out, filled = np.empty(count, np.uint8), 0
        while piece:
            out[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            filled += len(piece)
            piece = self._piece(min(_PIECE, count - filled)) if filled < count else b""
        return out[:filled]

    def finish(self) -> list[Finding]:
        """Inflate to the end, so that every checksum is checked, and return warnings on what was not asked for."""
        left = 0
        while left <= _SURPLUS and (piece := self._piece(_PIECE)):
            left += len(piece)
        return _surplus(left, self._path) + self._findings

    def _piece(self, limit: int) -> bytes:
        """Return up to `limit` inflated bytes, none only at the end of the last member."""
        while not self._ended:
            if self._member.eof:
                self._next_member()
                continue
            fresh = b""
            if self._member.needs_input:
                fresh, self._waiting = self._waiting or self._file.read(_FEED), b""
                if not fresh:
                    raise refusal("IMAGE_TRUNCATED", "the gzip stream ends early.", self._path)
            try:
                piece: bytes = self._member.decompress(fresh, limit)
            except igzip_lib.IsalError as error:  # type: ignore[misc]  # its stub calls the class an instance
                reason = "gzip checksum mismatch" if "checksum" in str(error) else "the gzip stream is damaged"
                raise refusal("IMAGE_CORRUPT", f"{reason}.", self._path) from None
            if piece:
                return piece
        return b""

    def _next_member(self) -> None:
        """Go on with the member that follows; bytes that are no member end the stream with a warning."""
        rest = self._member.unused_data
        if len(rest) < len(GZIP_MAGIC):
            rest += self._file.read(_FEED)
        if rest.startswith(GZIP_MAGIC):
            self._member, self._waiting = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), rest
            return
        self._ended = True
        after = len(rest) + self._size - self._file.tell()
        if after:
            message = f"{after} bytes follow the end of the gzip stream."
            self._findings.append(finding("IMAGE_TRAILING_BYTES", message, self._path))


def _surplus(count: int, path: Path) -> list[Finding]:
    """Return a warning for a few bytes after the voxels; refuse a file with many."""
    if count > _SURPLUS:
        message = f"more than {_SURPLUS} bytes follow the voxels that the header declares."
        raise refusal("IMAGE_DIMENSIONS", message, path)
    return [finding("IMAGE_TRAILING_BYTES", f"{count} bytes follow the last voxel.", path)] if count > 0 else []
