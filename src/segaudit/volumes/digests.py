"""The digest of what an image shows, whatever its header, compression and number type."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segaudit.errors import AuditError
from segaudit.volumes import nifti, png
from segaudit.volumes.faults import refusal
from segaudit.volumes.readers import read_labels
from segaudit.volumes.streams import GZIP_MAGIC, GzipStream, PlainStream, opened

_BLOCK = 1 << 20  # voxels a step: memory stays bounded whatever the size of the image
_NO_LABELS = {"IMAGE_COLOUR", "IMAGE_NOT_LABELS"}


def content_digest(path: Path) -> str:
    """Return the SHA-256 of the shape and the values of a NIfTI or grey PNG image; of another PNG that of its bytes.

    Two files have the same digest when they hold the same values in the same order, however they are compressed, typed
    and placed in space.

    Raises
    ------
    AuditError
        The codes of `read_labels` on files that cannot be read.
    """
    path = Path(path)
    with opened(path) as (file, size):
        start = file.read(len(png.SIGNATURE))
        file.seek(0)
        if start != png.SIGNATURE:
            stream = GzipStream(file, size, path) if start.startswith(GZIP_MAGIC) else PlainStream(file, size, path)
            return _of_nifti(stream, path)
        plain = file.read()
    try:
        pixels = read_labels(path).labels
    except AuditError as error:
        if any(finding.code not in _NO_LABELS for finding in error.findings):
            raise
        return hashlib.sha256(plain).hexdigest()
    sha = _started(pixels.shape)
    sha.update(_canonical(pixels))
    return sha.hexdigest()


def _of_nifti(stream: GzipStream | PlainStream, path: Path) -> str:
    start = stream.read(nifti.SIZE_1)
    size = nifti.header_size(start)
    if not size:
        raise refusal("IMAGE_NOT_NIFTI", f"{path.name} is not a NIfTI file; it starts with {start[:12]!r}.", path)
    start += stream.read(size - len(start))
    if len(start) < size:
        raise refusal("IMAGE_TRUNCATED", f"the file ends inside its header, after {len(start)} bytes.", path)
    header = nifti.parse(start, path)
    stream.skip(header.offset - header.length)
    sha, left = _started(header.grid.shape), header.size
    while left:
        piece = stream.read(min(left, _BLOCK * header.dtype.itemsize))
        if not piece or len(piece) % header.dtype.itemsize:
            message = f"the header declares {header.size} bytes of voxels, the file ends {left - len(piece)} earlier."
            raise refusal("IMAGE_TRUNCATED", message, path)
        left -= len(piece)
        values = np.frombuffer(piece, header.dtype).astype(np.float64)
        with np.errstate(all="ignore"):  # a value that overflows is infinite in every copy
            sha.update(_canonical(values * header.slope + header.inter))
    stream.finish()
    return sha.hexdigest()


def _started(shape: tuple[int, ...]) -> hashlib._Hash:
    return hashlib.sha256(f"{shape}\0".encode())


def _canonical(values: npt.NDArray[Any]) -> bytes:
    """Return values as bytes that are equal where the values are: one zero, one NaN, one order of bytes."""
    plain = values.astype("<f8", order="C") + 0.0
    plain[np.isnan(plain)] = np.nan
    return plain.tobytes()
