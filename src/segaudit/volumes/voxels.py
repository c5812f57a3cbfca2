"""Stored voxels as whole numbers: the type is kept where it can be, nothing wraps, nothing is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from segaudit.errors import Finding
from segaudit.volumes.faults import finding, refusal
from segaudit.volumes.grids import Array, Labels

ROUNDING = 1e-3  # a value this near to a whole number is taken for it: float labels, scaled labels
_BLOCK = 1 << 18  # voxels a step, so that no second copy of the image is made in float64
_EXACT = 2**53  # float64 holds every whole number up to here
_TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "i8")


@dataclass(frozen=True, slots=True)
class _Survey:
    """Smallest and largest whole number of an image, and how far its values lie from whole numbers."""

    low: float
    high: float
    worst: float


def to_labels(
    stored: npt.NDArray[Any], slope: float, inter: float, shape: tuple[int, ...], path: Path
) -> tuple[Labels, list[Finding]]:
    """Return stored voxels as whole numbers in file order, with a note when values were rounded.

    Parameters
    ----------
    stored : 1-D array of voxels in file order, in the byte order of the file; may be overwritten when that is foreign.
    slope, inter : float
        Value = slope * stored + inter.
    shape : tuple of int
        Of the image, to say where a bad voxel is.
    path : Path

    Returns
    -------
    1-D array of the stored integer type, or of the smallest that holds all values when they were float or scaled.

    Raises
    ------
    AuditError
        IMAGE_NOT_LABELS, when a value is not finite, or further than 0.001 from a whole number.
    """
    if not stored.dtype.isnative:
        stored = stored.byteswap(inplace=stored.flags.writeable).view(stored.dtype.newbyteorder("="))
    if stored.dtype.kind in "iu" and (slope, inter) == (1.0, 0.0):
        return stored, []
    with np.errstate(all="ignore"):  # values that overflow or are NaN are refused below
        survey = _survey(stored, slope, inter, shape, path)
        limits = ((np.dtype(name), np.iinfo(name)) for name in _TYPES)
        dtype = next(kind for kind, limit in limits if limit.min <= survey.low and survey.high <= limit.max)
        labels = np.empty(stored.shape, dtype)
        for start, values in _blocks(stored, slope, inter):
            labels[start : start + values.size] = np.rint(values)
    message = f"the values lie up to {survey.worst:.2g} from whole numbers and were rounded."
    return labels, [finding("IMAGE_ROUNDED", message, path)] if survey.worst > 0 else []


def _blocks(stored: npt.NDArray[Any], slope: float, inter: float) -> Iterator[tuple[int, Array]]:
    for start in range(0, stored.size, _BLOCK):
        values = stored[start : start + _BLOCK].astype(np.float64)
        if (slope, inter) != (1.0, 0.0):
            values *= slope
            values += inter
        yield start, values


def _survey(stored: npt.NDArray[Any], slope: float, inter: float, shape: tuple[int, ...], path: Path) -> _Survey:
    low, high, worst, count, example = np.inf, -np.inf, 0.0, 0, ""
    for start, values in _blocks(stored, slope, inter):
        whole = np.rint(values)
        off = np.abs(values - whole)
        bad = ~(off <= ROUNDING) | (np.abs(whole) > _EXACT)  # NaN and infinity are off by NaN
        low, high = min(low, whole.min()), max(high, whole.max())
        count += int(bad.sum())
        # The worst voxel is the one furthest from a whole number; one that is no number at all is worse still.
        badness = np.where(bad & ~(off > ROUNDING), np.inf, off)
        at = int(badness.argmax())
        if badness[at] > worst:
            worst = float(badness[at])
            voxel = tuple(int(i) for i in np.unravel_index(start + at, shape, order="F"))
            example = f"voxel {voxel} holds {values[at]:.6g}"
    if count:
        message = f"{count} of the {stored.size} values are no whole numbers; the worst: {example}."
        raise refusal("IMAGE_NOT_LABELS", message, path)
    return _Survey(low, high, worst)
