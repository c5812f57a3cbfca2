"""Where model and ruler err against gold: voxel counts from three label arrays on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.integer] | NDArray[np.bool_]
Mask = NDArray[np.bool_]

REACH = 8  # shells on either side of the gold boundary


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Voxel counts of one case.

    Attributes
    ----------
    a, b : int
        Model, ruler differs from gold.
    c, c_diff : int
        Both differ from gold and agree, or disagree, with each other (c_diff is 0 for one label).
    d : int
        Model differs from ruler: a + b - 2c - c_diff.
    n_voxels : int
        Voxels looked at.
    """

    a: int
    b: int
    c: int
    c_diff: int
    d: int
    n_voxels: int

    @property
    def phi(self) -> float:
        """Correlation of the two error maps; nan when one is empty or full."""
        either = float(self.a * self.b) * (self.n_voxels - self.a) * (self.n_voxels - self.b)
        return (self.n_voxels * (self.c + self.c_diff) - self.a * self.b) / either**0.5 if either > 0 else float("nan")

    @property
    def expected(self) -> float:
        """Shared errors if errors fell anywhere alike: far too few, since errors sit at boundaries."""
        return self.a * self.b / self.n_voxels if self.n_voxels else float("nan")

    @property
    def kappa_anywhere(self) -> float:
        """(c - expected) / (min(a, b) - expected), to be read beside kappa_err, never instead of it."""
        room = min(self.a, self.b) - self.expected
        return (self.c - self.expected) / room if room > 0 else float("nan")


@dataclass(frozen=True, slots=True)
class ShellCounts:
    """Pieces of kappa_err of one case and label, over voxels near the gold boundary.

    Attributes
    ----------
    c : int
        Shared errors.
    expected : float
        Sum over shells of a_t b_t / n_t: shared errors if they were independent at the same distance from the boundary.
    smaller : int
        min(a, b).
    """

    c: int
    expected: float
    smaller: int


def error_counts(model: Labels, ruler: Labels, gold: Labels, label: int | None = None) -> ErrorCounts:
    """Return the voxel counts of one case: of one label against the rest, or of all labels together (or of masks).

    Raises
    ------
    ValueError
        When the shapes differ.
    """
    _one_grid(model, ruler, gold)
    if label is not None:
        model, ruler, gold = ((array == label).astype(np.int8) for array in (model, ruler, gold))
    wrong_model, wrong_ruler, apart = model != gold, ruler != gold, model != ruler
    both = wrong_model & wrong_ruler
    a, b, shared, d = (int(np.count_nonzero(mask)) for mask in (wrong_model, wrong_ruler, both & ~apart, apart))
    return ErrorCounts(a, b, shared, int(np.count_nonzero(both)) - shared, d, gold.size)


def shell_counts(
    model: Labels, ruler: Labels, gold: Labels, label: int = 1, spacing_mm: Sequence[float] | None = None
) -> ShellCounts:
    """Return the pieces of kappa_err of one label: shared errors within shells of distance to the gold boundary.

    Parameters
    ----------
    model, ruler, gold : label arrays, or masks, of one shape
    label : int
        Taken against the rest; 1 is right for masks.
    spacing_mm : one length an axis, optional
        With it shells are 1 mm thick; without, 1 voxel.

    Raises
    ------
    ValueError
        When the shapes differ, or spacing does not have one entry an axis.

    Notes
    -----
    Voxels inside gold whose distance to the nearest voxel outside is in [1, 2) are one shell, those in [2, 3) the
    next, to [8, 9); those outside gold likewise. Farther voxels are not counted, nor is a case in which gold holds
    nothing of the label or nothing else.
    """
    _one_grid(model, ruler, gold)
    spacing = np.ones(gold.ndim) if spacing_mm is None else np.asarray(spacing_mm, dtype=np.float64)
    if spacing.shape != (gold.ndim,):
        raise ValueError(f"spacing has {spacing.size} entries for {gold.ndim} axes")
    masks: list[Mask] = [array == label for array in (model, ruler, gold)]
    if not masks[2].any() or masks[2].all():
        return ShellCounts(0, 0.0, 0)
    # beyond the margin no voxel is in a shell; the crop keeps the whole boundary of gold
    crop = _box(masks[2], np.ceil((REACH + 1) / spacing).astype(int))
    m, r, g = (mask[crop] for mask in masks)
    shell = _shells(g, spacing)
    inside = shell >= 0
    wrong_model, wrong_ruler = (m != g) & inside, (r != g) & inside
    width = 2 * (REACH + 1)
    a, b, n = (np.bincount(shell[mask], minlength=width) for mask in (wrong_model, wrong_ruler, inside))
    expected = float(np.sum(np.divide(a * b, n, out=np.zeros(width), where=n > 0)))
    return ShellCounts(int(np.count_nonzero(wrong_model & wrong_ruler)), expected, int(min(a.sum(), b.sum())))


def adjudication_counts(model: Labels, ruler: Labels, gold: Labels, second: Labels) -> tuple[int, int]:
    """Return voxels where model and ruler agree against gold and the second reading upholds gold, and all such voxels.

    Raises
    ------
    ValueError
        When the shapes differ.
    """
    _one_grid(model, ruler, gold, second)
    shared = (model == ruler) & (model != gold)
    return int(np.count_nonzero(shared & (second == gold))), int(np.count_nonzero(shared))


def _one_grid(*arrays: Labels) -> None:
    if len({array.shape for array in arrays}) > 1:
        raise ValueError(f"label arrays must have one shape, not {[array.shape for array in arrays]}")


def _box(mask: Mask, margin: NDArray[np.intp]) -> tuple[slice, ...]:
    box = []
    for axis, extra in enumerate(margin.tolist()):
        filled = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        box.append(slice(max(0, int(filled[0]) - extra), int(filled[-1]) + extra + 1))
    return tuple(box)


def _shells(gold: Mask, spacing: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the shell of each voxel, first those inside and then those outside; -1 beyond reach."""
    from scipy.ndimage import distance_transform_edt

    inner = distance_transform_edt(gold, sampling=spacing)
    outer = distance_transform_edt(~gold, sampling=spacing)
    depth = np.floor(np.where(gold, inner, outer)).astype(np.intp)
    return np.where(depth <= REACH, depth + np.where(gold, 0, REACH + 1), -1)
