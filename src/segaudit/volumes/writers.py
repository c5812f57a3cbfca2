"""write_labels: a label map to a NIfTI-1 file, whole or not at all."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from segaudit.volumes import nifti
from segaudit.volumes.faults import refusal
from segaudit.volumes.grids import Grid

_MM = 2
_ALIGNED = 2  # sform_code: in the space of another image
_LONGEST = 2**15 - 1
_LEVEL = 6


def write_labels(
    path: Path,
    labels: npt.NDArray[Any],
    *,
    spacing_mm: Sequence[float] | None = None,
    affine: npt.ArrayLike | None = None,
) -> None:
    """Write a 2-D or 3-D array of whole numbers to `path` (.nii or .nii.gz) in its own type.

    The same labels and affine give the same bytes. The file appears whole or not at all.

    Parameters
    ----------
    path : Path
    labels : 2-D or 3-D integer or bool array
    spacing_mm : sequence of float, optional
        Distance between voxels along each axis in mm; the first voxel is at 0.
    affine : 4x4 array, optional
        In place of `spacing_mm`: from voxel index to position in mm. The file keeps it in float32.

    Raises
    ------
    AuditError
        IMAGE_NOT_WRITTEN.
    ValueError
        For labels, a name or a grid that cannot be written: a fault of the program, not of the input.
    """
    path = Path(path)
    if not path.name.lower().endswith((".nii", ".nii.gz")):
        raise ValueError(f"{path.name} must end in .nii or .nii.gz")
    if (spacing_mm is None) == (affine is None):
        raise ValueError("give either spacing_mm or affine")
    stored = labels.astype(np.uint8) if labels.dtype == np.bool_ else labels
    grid = Grid.of(stored.shape, affine) if affine is not None else Grid.spaced(stored.shape, spacing_mm or ())
    start = _header(grid, stored.dtype)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            if path.name.lower().endswith(".gz"):
                # No name and no time of writing: the same labels give the same bytes.
                with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                    _write(packed, start, stored)
            else:
                _write(file, start, stored)
        temporary.replace(path)
    except OSError as error:
        raise refusal("IMAGE_NOT_WRITTEN", f"{path.name} cannot be written: {error.strerror or error}.", path) from None
    finally:
        temporary.unlink(missing_ok=True)


def _header(grid: Grid, dtype: np.dtype[Any]) -> bytes:
    """Return the header and the 4 bytes that say no extension follows."""
    code = next(
        (
            code
            for code, name in nifti.CODES.items()
            if dtype.kind in "iu" and np.dtype(name) == dtype.newbyteorder("=")
        ),
        None,
    )
    if code is None or len(grid.shape) not in {2, 3} or not 0 < min(grid.shape) <= max(grid.shape) <= _LONGEST:
        raise ValueError(f"labels of type {dtype} and shape {grid.shape} cannot be written")
    raw = np.zeros((), nifti.HEADER_1.newbyteorder("<"))
    raw["sizeof_hdr"], raw["magic"] = nifti.SIZE_1, np.void(nifti.MAGIC_1)
    raw["dim"] = [len(grid.shape), *grid.shape, *[1] * (7 - len(grid.shape))]
    raw["datatype"], raw["bitpix"] = code, 8 * dtype.itemsize
    raw["pixdim"] = [1, *grid.spacing_mm, *[1] * (7 - len(grid.shape))]
    raw["vox_offset"], raw["scl_slope"], raw["xyzt_units"] = nifti.SIZE_1 + 4, 1, _MM
    raw["sform_code"], raw["srow"] = _ALIGNED, np.array(grid.affine)[:3]
    return raw.tobytes() + bytes(4)


def _write(file: BinaryIO | gzip.GzipFile, start: bytes, labels: npt.NDArray[Any]) -> None:
    file.write(start)
    flat = labels.astype(labels.dtype.newbyteorder("<"), copy=False).ravel(order="F")
    file.write(flat.data)
