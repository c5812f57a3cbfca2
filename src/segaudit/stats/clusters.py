"""Groups and patients as integer codes, and what every ruler statistic does with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from segaudit.stats import disparity
from segaudit.stats.tests import resampled

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

_DENSE = 16  # whole numbers that leave no wider gaps are counted, not sorted
_FEW_NAMES = 16  # are compared with every entry; sorting text takes longer
LARGE_SAMPLE = 5_000  # cases; beyond, large-sample laws stand in for draws


@dataclass(frozen=True, slots=True)
class Layout:
    """Which group and which patient each case belongs to.

    Attributes
    ----------
    names : tuple of str
        The groups, sorted; one group named "" when there are none.
    group : array of n_cases integers
        Index into names.
    patient : array of n_cases integers
        0 to n_patients - 1.
    n_patients : int
        The independent units.
    """

    names: tuple[str, ...]
    group: Codes
    patient: Codes
    n_patients: int

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return len(self.names)

    @property
    def n_cases(self) -> int:
        """How many cases there are."""
        return self.group.size

    @property
    def sizes(self) -> Codes:
        """How many cases each group has."""
        return np.bincount(self.group, minlength=self.n_groups)

    @property
    def clustered(self) -> bool:
        """Whether a patient has more than one case."""
        return self.n_patients < self.n_cases

    def members(self) -> list[Codes]:
        """Return, for each group, the positions of its cases."""
        return [np.flatnonzero(self.group == j) for j in range(self.n_groups)]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity with the limits of its interval; nan where undefined."""

    value: float
    low: float
    high: float


def layout(n_cases: int, groups: ArrayLike | None = None, patients: ArrayLike | None = None) -> Layout:
    """Return the layout of n_cases cases; without groups one group, without patients each case its own.

    Raises
    ------
    ValueError
        When groups or patients do not have one entry a case, or an entry is missing.
    """
    names, group = [""], np.zeros(n_cases, dtype=np.intp)
    if groups is not None:
        levels, group = _codes(groups, n_cases, "groups")
        names = [str(level) for level in levels]
    patient, n_patients = np.arange(n_cases), n_cases
    if patients is not None:
        persons, patient = _codes(patients, n_cases, "patients")
        n_patients = len(persons)
    return Layout(tuple(names), group, patient, n_patients)


def _codes(values: ArrayLike, n_cases: int, what: str) -> tuple[NDArray[np.generic], Codes]:
    array = np.asarray(values)
    if array.shape != (n_cases,):
        raise ValueError(f"{what} must have one entry a case: {n_cases} cases, shape {array.shape}")
    if array.dtype == object:
        nameless = [value for value in array.tolist() if not isinstance(value, str | int)]
        if nameless:
            raise ValueError(f"{what} must be text or whole numbers, not {nameless[0]!r}")
        array = array.astype(str)
    elif array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{what} has nothing for {np.count_nonzero(np.isnan(array))} cases")
    if array.dtype.kind == "i" and array.size and array.min() >= 0 and array.max() < _DENSE * array.size:
        there = np.bincount(array) > 0
        return np.flatnonzero(there), (np.cumsum(there) - 1)[array]
    if array.dtype.kind == "U" and (levels := np.unique(array)).size <= _FEW_NAMES:
        codes = np.zeros(array.size, dtype=np.intp)
        for code, level in enumerate(levels[1:], 1):
            codes[array == level] = code
        return levels, codes
    levels, codes = np.unique(array, return_inverse=True)
    return levels, codes.astype(np.intp)


def finite(values: ArrayLike, what: str) -> Floats:
    """Return values as a one-dimensional float array.

    Raises
    ------
    ValueError
        When they are not one-dimensional, none, or not all finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{what} must be a list of numbers, not of shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} holds {np.count_nonzero(~np.isfinite(array))} numbers that are not finite")
    return array


def paired(trusted: ArrayLike, other: ArrayLike) -> tuple[Floats, Floats]:
    """Return two rulers' scores of the same cases as float arrays.

    Raises
    ------
    ValueError
        When they differ in length or are not all finite.
    """
    x, y = finite(trusted, "trusted"), finite(other, "other")
    if x.size != y.size:
        raise ValueError(f"trusted has {x.size} cases, other has {y.size}")
    return x, y


def untied(values: Floats) -> Floats:
    """Return values rounded so that numbers equal but for floating-point noise tie: 12 decimals, or 12 digits if large.

    Near-ties that arise in the last bits would otherwise change midranks.
    """
    largest = float(np.max(np.abs(values), initial=0.0))
    return np.round(values, 12 - max(0, int(np.ceil(np.log10(largest))) if largest > 0 else 0))


def group_medians(values: Floats, cases: Layout) -> Floats:
    """Return the median of each group."""
    return disparity.group_medians([values[members] for members in cases.members()])


def residuals(values: Floats, cases: Layout) -> Floats:
    """Return each value minus the median of its own group."""
    return values - group_medians(values, cases)[cases.group]


def patient_sums(values: Floats, cases: Layout) -> Floats:
    """Return the sum of the values of each patient."""
    return np.bincount(cases.patient, weights=values, minlength=cases.n_patients).astype(np.float64)


def patient_means(values: Floats, cases: Layout) -> tuple[Floats, Codes]:
    """Return one mean per patient (per patient and group, if a patient is in several), and the group of each."""
    unit, unit_of = np.unique(cases.patient * cases.n_groups + cases.group, return_inverse=True)
    return np.bincount(unit_of, weights=values) / np.bincount(unit_of), unit % cases.n_groups


def many_repeats(cases: Layout) -> bool:
    """Return whether more than 5 % of the patients have more than one case, so that naive tests fail."""
    return bool(np.mean(np.bincount(cases.patient, minlength=cases.n_patients) > 1) > 0.05)


def drawn_weights(cases: Layout, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield blocks of draws by cases: how often each case is drawn when patients are drawn within their group."""
    unit, unit_of = np.unique(cases.patient * cases.n_groups + cases.group, return_inverse=True)
    strata = [np.flatnonzero(unit % cases.n_groups == j) for j in range(cases.n_groups)]
    for picked in resampled([members.size for members in strata], cases.n_cases, draws, rng):
        rows = len(picked[0])
        weights = np.empty((rows, unit.size))
        for members, places in zip(strata, picked, strict=True):
            flat = places + members.size * np.arange(rows)[:, None]
            counts = np.bincount(flat.ravel(), minlength=rows * members.size)
            weights[:, members] = counts.reshape(rows, members.size)
        yield weights[:, unit_of]


def weighted_medians(values: Floats, weights: Floats, cases: Layout) -> Floats:
    """Return, draw by draw, the median of each group when each case counts as often as it was drawn.

    A group of which no case was drawn cannot occur: patients are drawn within their group.
    """
    medians = np.empty((len(weights), cases.n_groups))
    for j, members in enumerate(cases.members()):
        order = members[np.argsort(values[members], kind="stable")]
        reached = np.cumsum(weights[:, order], axis=1)
        total = reached[:, -1:]
        low = np.count_nonzero(reached < np.ceil(total / 2), axis=1)
        high = np.count_nonzero(reached < np.floor(total / 2) + 1, axis=1)
        medians[:, j] = (values[order[low]] + values[order[high]]) / 2
    return medians


def kruskal_rows(values: Codes, labels: Codes, n_groups: int, weights: Floats | None = None) -> Floats:
    """Return the Kruskal-Wallis H, corrected for ties, of each row.

    Parameters
    ----------
    values : array of rows by cases, or of cases
        Scores as dense integer codes in their order (equal scores, equal code).
    labels : array of rows by cases, or of cases
        Group of each case; a negative label leaves the case out.
    n_groups : int
        Groups with no case count as absent.
    weights : array of rows by cases, optional
        How often each case counts.

    Returns
    -------
    array of rows
        0 where all scores are equal.
    """
    values, labels = np.atleast_2d(values), np.atleast_2d(labels)
    rows = max(len(values), len(labels), 1 if weights is None else len(weights))
    counted: Floats | None = weights
    if (labels < 0).any():
        counted = np.where(labels >= 0, 1.0 if weights is None else weights, 0.0)
    width = int(values.max(initial=0)) + 1
    flat = values + width * np.arange(rows)[:, None]
    drawn = None if counted is None else np.broadcast_to(counted, flat.shape).ravel()
    counts = np.bincount(flat.ravel(), weights=drawn, minlength=rows * width).reshape(rows, width).astype(np.float64)
    midranks = np.cumsum(counts, axis=1) - (counts - 1) / 2
    ranked = midranks.ravel()[flat] if counted is None else midranks.ravel()[flat] * counted
    total = counts.sum(axis=1)
    between = np.zeros(rows)
    for j in range(n_groups):
        inside = (labels == j).astype(np.float64)
        size = np.einsum("rn,rn->r", inside, np.ones((1, 1)) if counted is None else counted)
        sums = ranked @ inside[0] if len(inside) == 1 else np.einsum("rn,rn->r", ranked, inside)
        between += np.divide((sums - size * (total + 1) / 2) ** 2, size, out=np.zeros(rows), where=size > 0)
    ties = np.einsum("rw,rw,rw->r", counts, counts, counts) - total
    spread = 1 - ties / np.maximum(total**3 - total, 1)
    h = 12 * between / np.maximum(total * (total + 1), 1)
    corrected: Floats = np.divide(h, spread, out=np.zeros(rows), where=spread > 1e-12)
    return corrected
