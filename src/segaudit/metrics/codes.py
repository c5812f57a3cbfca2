"""Label arrays renumbered: every value that matters gets a code, by lookup, so that no value wraps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from segaudit.metrics import kernel
from segaudit.metrics.base import LabelArray, Mask

Labels = Mapping[str, tuple[int, ...]]
Codes = NDArray[np.uint8] | NDArray[np.uint16]
Box = tuple[slice, ...]
_TABLE = 4096  # places of the kernel's table of values
_BLOCK = 1 << 18  # voxels counted at a time


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two label arrays of a case, and how it is read.

    Attributes
    ----------
    voxels : numpy.ndarray of uint8 or uint16
        What lies at each voxel.
    table : numpy.ndarray
        The code of everything that may lie there; 0 is in no label.
    members : numpy.ndarray of bool
        Which labels (columns, in the order of the labels) each code (rows) belongs to.
    ignore : int
        The code of ignored voxels, which is in no label; -1 where there is none.
    """

    voxels: Codes
    table: Codes
    members: Mask
    ignore: int = -1

    def codes(self, box: Box = ()) -> Codes:
        """Return the codes of the voxels in a box."""
        found: Codes = self.table[self.voxels[box]]
        return found


@dataclass(frozen=True, slots=True)
class Found:
    """What one pass over a case finds.

    Attributes
    ----------
    confusion : numpy.ndarray of int64
        Voxels of each pair of codes (prediction by reference), those without any label left out.
    ignored : int
        Voxels ignored.
    boxes : list of tuple of slice
        Where each label lies on either side.
    hd95 : list of float
        In mm, of each label that is on both sides.
    pieces : list of (int, int) or None
        Connected pieces of each label, prediction and reference; None where they were not asked for.
    """

    confusion: NDArray[np.int64]
    ignored: int
    boxes: list[Box]
    hd95: list[float]
    pieces: list[tuple[int, int]] | None


def side(array: LabelArray, labels: Labels, ignore: int | None = None) -> Side:
    """Return a label array as a Side. A value that is ignored is in no label, whatever the labels say."""
    coding = _coding(tuple(labels.values()), array.dtype, ignore)
    is_byte = array.dtype.itemsize == 1
    # Wider arrays are renumbered once, and then read as they are.
    voxels = array.view(np.uint8) if is_byte else renumbered(array, coding.codes, coding.table.dtype)
    return Side(voxels, coding.table, coding.members, coding.ignore)


@dataclass(frozen=True, slots=True)
class _Coding:
    """The codes of the values of an array, and what a Side says of them."""

    codes: dict[int, int]
    table: Codes
    members: Mask
    ignore: int


@lru_cache(maxsize=64)  # the cases of a cohort are coded alike
def _coding(labels: tuple[tuple[int, ...], ...], dtype: np.dtype[Any], ignore: int | None) -> _Coding:
    values = sorted({value for label in labels for value in label} | ({ignore} if ignore is not None else set()))
    members = np.zeros((len(values) + 1, len(labels)), bool)
    for column, label in enumerate(labels):
        members[[values.index(value) + 1 for value in label if value != ignore], column] = True
    reach = np.iinfo(dtype.name if dtype.kind != "b" else "uint8")
    codes = {value: code for code, value in enumerate(values, start=1) if reach.min <= value <= reach.max}
    width = np.dtype(np.uint8 if len(values) < 256 else np.uint16)
    table = np.zeros(256 if dtype.itemsize == 1 else 2 ** (8 * width.itemsize), width)
    if dtype.itemsize == 1:
        for value, code in codes.items():
            table[value % 256] = code  # a negative value lies at its two's complement
    else:
        table[: len(members)] = np.arange(len(members))
    for array in (table, members):
        array.flags.writeable = False  # shared by all cases
    return _Coding(codes, table, members, codes.get(ignore, -1) if ignore is not None else -1)


def count_values(array: LabelArray) -> dict[int, int]:
    """Return how many voxels hold each value that occurs in a label array, 0 left out."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False).reshape(-1, order="A")  # type: ignore[assignment]
    if kernel.KERNEL is not None and array.flags.c_contiguous:
        values, counts = np.empty(_TABLE, np.uint64), np.zeros(_TABLE, np.int64)
        if kernel.KERNEL.count(array, values, counts) >= 0:
            taken = counts > 0
            # The bits of a value lie in the low bytes, its sign in the highest of them.
            known = values[taken].astype(f"u{array.itemsize}").view(array.dtype)
            return dict(sorted(zip(map(int, known), counts[taken].tolist(), strict=True)))
    found: Counter[int] = Counter()
    for block in np.array_split(array, max(1, array.size // _BLOCK)):  # a copy of the whole would be sorted otherwise
        values, counts = np.unique(block[block != 0], return_counts=True)
        found.update(dict(zip(map(int, values), counts.tolist(), strict=True)))
    return dict(sorted(found.items()))


def renumbered(array: LabelArray, codes: dict[int, int], width: np.dtype[Any]) -> Codes:
    """Return the code of every voxel of an array of two, four or eight bytes a voxel; codes are in order of value."""
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # type: ignore[assignment]
    known, numbers = np.array(list(codes), array.dtype), np.array(list(codes.values()), width)
    found: Codes = np.zeros_like(array, width, subok=False)
    if kernel.KERNEL is not None and width.itemsize == 1 and array.flags.forc:
        flat = (array.T, found.T) if array.flags.fnc else (array, found)
        kernel.KERNEL.renumber(flat[0], known, numbers, flat[1])
    elif codes:
        place = np.minimum(np.searchsorted(known, array), len(known) - 1)
        np.copyto(found, numbers[place], where=known[place] == array)
    return found
