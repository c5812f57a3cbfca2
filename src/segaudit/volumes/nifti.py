"""NIfTI-1 and NIfTI-2 headers: what the voxels are and where they lie. Written from the standard's field tables."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from segaudit.errors import Finding, raise_errors
from segaudit.volumes.affines import Fields, Note, grid_of
from segaudit.volumes.faults import finding, refusal
from segaudit.volumes.grids import Grid

SIZE_1, SIZE_2 = 348, 540
MAGIC_1, MAGIC_2 = b"n+1\0", b"n+2\0\r\n\x1a\n"

_Fields = dict[str, tuple[str, int]]
_FIELDS_1: _Fields = {
    "sizeof_hdr": ("i4", 0),
    "dim": ("8i2", 40),
    "datatype": ("i2", 70),
    "bitpix": ("i2", 72),
    "pixdim": ("8f4", 76),
    "vox_offset": ("f4", 108),
    "scl_slope": ("f4", 112),
    "scl_inter": ("f4", 116),
    "xyzt_units": ("u1", 123),
    "qform_code": ("i2", 252),
    "sform_code": ("i2", 254),
    "quatern": ("3f4", 256),
    "qoffset": ("3f4", 268),
    "srow": ("(3,4)f4", 280),
    "magic": ("V4", 344),
}
_FIELDS_2: _Fields = {
    "sizeof_hdr": ("i4", 0),
    "magic": ("V8", 4),
    "datatype": ("i2", 12),
    "bitpix": ("i2", 14),
    "dim": ("8i8", 16),
    "pixdim": ("8f8", 104),
    "vox_offset": ("i8", 168),
    "scl_slope": ("f8", 176),
    "scl_inter": ("f8", 184),
    "qform_code": ("i4", 344),
    "sform_code": ("i4", 348),
    "quatern": ("3f8", 352),
    "qoffset": ("3f8", 376),
    "srow": ("(3,4)f8", 400),
    "xyzt_units": ("i4", 500),
}


def _layout(fields: _Fields, size: int) -> np.dtype[np.void]:
    formats, offsets = zip(*fields.values(), strict=True)
    return np.dtype({"names": list(fields), "formats": formats, "offsets": offsets, "itemsize": size})


HEADER_1 = _layout(_FIELDS_1, SIZE_1)
_LAYOUTS = {
    (layout.itemsize, order): layout.newbyteorder(order)
    for layout in (HEADER_1, _layout(_FIELDS_2, SIZE_2))
    for order in ("<", ">")
}

CODES = {
    2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"
}  # fmt: skip
_COLOURS = {128: "RGB24", 2304: "RGBA32"}
_OTHERS = {1: "1-bit", 32: "complex64", 1536: "float128", 1792: "complex128", 2048: "complex256"}


@dataclass(frozen=True, slots=True)
class Header:
    """What a NIfTI header says of its voxels.

    Attributes
    ----------
    grid : Grid
    length : int
        Bytes of the header itself: 348 or 540.
    dtype : numpy.dtype
        As stored, with its byte order.
    offset : int
        First byte of the voxels.
    slope, inter : float
        Value = slope * stored + inter; 1 and 0 when there is no scaling.
    findings : tuple of Finding
    """

    grid: Grid
    length: int
    dtype: np.dtype[Any]
    offset: int
    slope: float
    inter: float
    findings: tuple[Finding, ...]

    @property
    def size(self) -> int:
        """Return the bytes of the voxels as stored."""
        return math.prod(self.grid.shape) * self.dtype.itemsize


def header_size(start: bytes) -> int:
    """Return 348 or 540 when a file that starts so may be NIfTI, else 0."""
    sizes = {int.from_bytes(start[:4], "little"), int.from_bytes(start[:4], "big")}
    return next((size for size in (SIZE_1, SIZE_2) if size in sizes), 0)


def parse(data: bytes, path: Path) -> Header:
    """Return what the header says, from its 348 or 540 bytes.

    Raises
    ------
    AuditError
        IMAGE_NOT_NIFTI, or all of IMAGE_DIMENSIONS, IMAGE_COLOUR, IMAGE_NOT_LABELS, IMAGE_HEADER and IMAGE_SPACING.
    """
    size = header_size(data)
    order: Literal["<", ">"] = "<" if int.from_bytes(data[:4], "little") == size else ">"
    raw = np.frombuffer(data, _LAYOUTS[size, order], count=1)[0]
    fields = {name: raw[name].tolist() for name in _FIELDS_1}
    found = fields["magic"]
    if found != (MAGIC_1 if size == SIZE_1 else MAGIC_2):
        pair = "a header whose voxels are in another file (.hdr and .img)" if found[:2] == b"ni" else ""
        kind = pair or f"an Analyze or damaged header (magic {found!r})"
        raise refusal("IMAGE_NOT_NIFTI", f"{path.name} has {kind}.", path)
    findings: list[Finding] = []

    def note(code: str, message: str) -> None:
        findings.append(finding(code, message, path))

    shape = _shape(fields, note)
    code = fields["datatype"]
    if code not in CODES:
        is_colour = code in _COLOURS
        name = (_COLOURS | _OTHERS).get(code, f"unknown code {code}")
        note("IMAGE_COLOUR" if is_colour else "IMAGE_NOT_LABELS", f"the data type is {name}.")
    offset = _offset(fields, size, note)
    slope, inter = _scaling(fields, note)
    grid = grid_of(fields, shape or (1, 1, 1), note)
    raise_errors(findings)
    dtype = np.dtype(CODES[code]).newbyteorder(order)
    return Header(grid, size, dtype, offset, slope, inter, tuple(findings))


def _shape(fields: Fields, note: Note) -> tuple[int, ...]:
    """Return the two or three lengths, trailing axes of length 1 left out; empty when there are none such."""
    dim = fields["dim"]
    shape = tuple(dim[1 : dim[0] + 1]) if 1 <= dim[0] <= 7 else ()
    if not shape or min(shape) < 1:
        note("IMAGE_DIMENSIONS", f"the header field dim is {tuple(dim)}; every length must be at least 1.")
        return ()
    if len(shape) == 1 or any(n > 1 for n in shape[3:]):
        note("IMAGE_DIMENSIONS", f"the shape is {shape}, which is not 2-D or 3-D.")
        return ()
    return shape[:3]


def _offset(fields: Fields, size: int, note: Note) -> int:
    """Return the first byte of the voxels: after the header, its 4 bytes of flags, and any extensions."""
    value = float(fields["vox_offset"])
    if not (math.isfinite(value) and value >= size + 4 and value == int(value)):
        note(
            "IMAGE_HEADER",
            f"the header field vox_offset is {value:g}; it must be a whole number of at least {size + 4}.",
        )
        return size + 4
    return int(value)


def _scaling(fields: Fields, note: Note) -> tuple[float, float]:
    slope, inter = fields["scl_slope"], fields["scl_inter"]
    if slope == 0 or math.isnan(slope):  # the standard's and the common tools' word for: no scaling
        return 1.0, 0.0
    if not (math.isfinite(slope) and math.isfinite(inter)):
        note("IMAGE_HEADER", f"the scaling is not finite (scl_slope {slope:g}, scl_inter {inter:g}).")
    return slope, inter
