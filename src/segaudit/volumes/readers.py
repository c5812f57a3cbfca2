"""read_labels and read_header: from a file of any accepted kind to labels on their grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from segaudit.errors import AuditError, Finding
from segaudit.volumes import nifti, png
from segaudit.volumes.faults import finding, refusal
from segaudit.volumes.grids import Grid, LabelVolume
from segaudit.volumes.streams import GZIP_MAGIC, GzipStream, PlainStream, opened
from segaudit.volumes.voxels import to_labels

DEFAULT_MAX_BYTES = 8 << 30
_SHOWN_BYTES = 12


def read_labels(path: Path, *, max_bytes: int = DEFAULT_MAX_BYTES) -> LabelVolume:
    """Return the label map of a NIfTI (.nii, .nii.gz) or PNG file, as stored.

    Parameters
    ----------
    path : Path
        The content decides what the file is; a note says when its name tells otherwise.
    max_bytes : int
        Largest size of the voxels in bytes. Checked against the header before memory is taken.

    Returns
    -------
    LabelVolume
        Labels as whole numbers in the stored type and order; float and scaled values within 0.001 of whole numbers
        are rounded into the smallest type that holds them.

    Raises
    ------
    AuditError
        IMAGE_MISSING, IMAGE_NOT_A_FILE, IMAGE_UNREADABLE, IMAGE_EMPTY_FILE, IMAGE_NOT_NIFTI, IMAGE_NOT_PNG,
        IMAGE_TRUNCATED, IMAGE_CORRUPT, IMAGE_TOO_LARGE, IMAGE_DIMENSIONS, IMAGE_COLOUR, IMAGE_NOT_LABELS, IMAGE_HEADER
        or IMAGE_SPACING.
    """
    path = Path(path)
    with opened(path) as (file, size):
        start = file.read(len(png.SIGNATURE))
        file.seek(0)
        if start == png.SIGNATURE:
            labels, grid, findings = png.read_pixels(file, size, path, max_bytes)
        else:
            stream = GzipStream(file, size, path) if start.startswith(GZIP_MAGIC) else PlainStream(file, size, path)
            header = _nifti_header(stream, path)
            stored = _voxels(stream, header, path, max_bytes)
            findings = [*header.findings, *stream.finish()]
            flat, notes = to_labels(stored, header.slope, header.inter, header.grid.shape, path)
            labels, grid = flat.reshape(header.grid.shape, order="F"), header.grid
            findings += notes
    labels.flags.writeable = False
    return LabelVolume(labels, grid, tuple(findings + _name_note(path, start)))


def read_header(path: Path) -> Grid:
    """Return the grid of an image file from its first bytes alone; the voxels are not read.

    Raises
    ------
    AuditError
        As read_labels, for what the header and the first bytes can show.
    """
    path = Path(path)
    with opened(path) as (file, size):
        start = file.read(len(png.SIGNATURE))
        file.seek(0)
        if start == png.SIGNATURE:
            return png.read_grid(file, path)
        stream = GzipStream(file, size, path) if start.startswith(GZIP_MAGIC) else PlainStream(file, size, path)
        return _nifti_header(stream, path).grid


def _nifti_header(stream: GzipStream | PlainStream, path: Path) -> nifti.Header:
    """Return the header, with the stream left at its end."""
    start = stream.read(nifti.SIZE_1)
    size = nifti.header_size(start)
    if not size:
        raise _unknown(start, path)
    start += stream.read(size - len(start))
    if len(start) < size:
        raise refusal("IMAGE_TRUNCATED", f"the file ends inside its header, after {len(start)} bytes.", path)
    return nifti.parse(start, path)


def _voxels(stream: GzipStream | PlainStream, header: nifti.Header, path: Path, max_bytes: int) -> np.ndarray:
    """Return the voxels as stored, in file order; no memory is taken for more than the file can hold."""
    shape = header.grid.shape
    if header.size > max_bytes:
        message = f"a shape of {shape} takes {header.size} bytes, more than max_bytes = {max_bytes}."
        raise refusal("IMAGE_TOO_LARGE", message, path)
    if header.offset + header.size > stream.at_most:
        message = (
            f"the header declares {header.offset + header.size} bytes, the file can hold {stream.at_most} at most."
        )
        raise refusal("IMAGE_TRUNCATED", message, path)
    stream.skip(header.offset - header.length)
    stored = stream.take(header.size)
    if len(stored) < header.size:
        message = f"the header declares {header.size} bytes of voxels, the file holds {len(stored)}."
        raise refusal("IMAGE_TRUNCATED", message, path)
    return stored.view(header.dtype)


def _unknown(start: bytes, path: Path) -> AuditError:
    """Return the refusal of a file that is neither NIfTI nor PNG."""
    is_png = path.name.lower().endswith(".png")
    kinds = "a PNG file" if is_png else "a NIfTI file"
    message = f"{path.name} is not {kinds}; it starts with {start[:_SHOWN_BYTES]!r}."
    return refusal("IMAGE_NOT_PNG" if is_png else "IMAGE_NOT_NIFTI", message, path)


def _name_note(path: Path, start: bytes) -> list[Finding]:
    """Return a note when the name of a file says something else than its content."""
    held = ".png" if start == png.SIGNATURE else ".nii.gz" if start.startswith(GZIP_MAGIC) else ".nii"
    if path.name.lower().endswith(held):
        return []
    return [finding("IMAGE_EXTENSION", f"{path.name} holds what is usually named {held}.", path)]
