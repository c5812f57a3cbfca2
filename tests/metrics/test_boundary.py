"""Boundary sizes and HD95 against constructions that share no code with the library."""

import itertools
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from segaudit.metrics import hd95
from segaudit.metrics.boundary import boundary_sizes

# The corners of the unit box on one side of the surface, and triangles of the surface in that box by their vertices
# (middles of box edges). Every other case is one of these mirrored, turned, or with inside and outside exchanged.
A, B, C, D, E, F, G, H = itertools.product((0, 1), repeat=3)


def _middle(a, b):
    return tuple((x + y) / 2 for x, y in zip(a, b, strict=True))


def _cap(corner):
    """The triangle that cuts one corner off."""
    return [tuple(_middle(corner, tuple(v ^ (i == axis) for i, v in enumerate(corner))) for axis in range(3))]


BEVEL = [((0, 0.5, 0), (0, 0, 0.5), (1, 0, 0.5)), ((0, 0.5, 0), (1, 0, 0.5), (1, 0.5, 0))]
PENTAGON = [
    ((0, 0, 0.5), (1, 0, 0.5), (0, 1, 0.5)),
    ((1, 0, 0.5), (1, 0.5, 0), (0.5, 1, 0)),
    ((1, 0, 0.5), (0.5, 1, 0), (0, 1, 0.5)),
]
HEXAGON = [
    ((0.5, 0.5, 0.5), a, b)
    for a, b in itertools.combinations(
        [p for p in itertools.product((0, 0.5, 1), repeat=3) if sum(p) == 1.5 and p != (0.5, 0.5, 0.5)], 2
    )
    if np.isclose(np.linalg.norm(np.subtract(a, b)), 0.5**0.5)
]
SKEW = [(1, 0.5, 0), (1, 0, 0.5), (0, 0, 0.5), (0, 0.5, 1), (0.5, 1, 1), (0.5, 1, 0)]
SURFACES = {
    "nothing": ((), []),
    "corner": ((A,), _cap(A)),
    "edge": ((A, E), BEVEL),
    "two corners across a face": ((A, G), _cap(A) + _cap(G)),
    "two corners across the box": ((A, H), _cap(A) + _cap(H)),
    "two edges that meet": ((A, C, E), PENTAGON),
    "edge and corner": ((A, E, D), BEVEL + _cap(D)),
    "three corners": ((A, G, D), _cap(A) + _cap(G) + _cap(D)),
    "face": ((A, C, E, G), [((0, 0, 0.5), (1, 0, 0.5), (1, 1, 0.5)), ((0, 0, 0.5), (1, 1, 0.5), (0, 1, 0.5))]),
    "three edges that meet": ((A, B, C, E), HEXAGON),
    "three in a row": ((E, A, C, D), [[SKEW[i] for i in f] for f in ((1, 2, 3), (3, 4, 5), (1, 3, 5), (0, 1, 5))]),
    "two edges and a corner": ((A, C, E, H), PENTAGON + _cap(H)),
    "two opposite edges": ((A, E, D, H), BEVEL + [tuple((x, 1 - y, 1 - z) for x, y, z in t) for t in BEVEL]),
    "four corners": ((A, D, F, G), _cap(A) + _cap(D) + _cap(F) + _cap(G)),
}  # fmt: skip


def _triangle(points, spacing):
    a, b, c = np.array(points) * spacing
    return np.linalg.norm(np.cross(b - a, c - a)) / 2


@lru_cache
def _surface_table(spacing):
    """The area for every set of inside corners, from the drawings above."""
    table = {}
    for corners, triangles in SURFACES.values():
        for turn, mirror in itertools.product(itertools.permutations(range(3)), itertools.product((0, 1), repeat=3)):
            place = lambda p, t=turn, m=mirror: tuple(1 - p[a] if f else p[a] for a, f in zip(t, m, strict=True))
            inside = frozenset(map(place, corners))
            area = sum(_triangle([place(p) for p in triangle], spacing) for triangle in triangles)
            for side in (inside, frozenset((A, B, C, D, E, F, G, H)) - inside):
                assert table.setdefault(side, area) == pytest.approx(area, rel=1e-12)
    assert len(table) == 256
    return table


def _contour_table(spacing):
    a, b = spacing
    corner, table = (a * a + b * b) ** 0.5 / 2, {}
    for inside in itertools.product((0, 1), repeat=4):
        cells = {(0, 0): inside[0], (0, 1): inside[1], (1, 0): inside[2], (1, 1): inside[3]}
        rows, columns = (
            (inside[0] == inside[1], inside[2] == inside[3]),
            (inside[0] == inside[2], inside[1] == inside[3]),
        )
        match sum(inside):
            case 0 | 4:
                length = 0.0
            case 1 | 3:
                length = corner
            case _:
                length = b if all(rows) else a if all(columns) else 2 * corner
        table[frozenset(k for k, v in cells.items() if v)] = length
    return table


def _slow_hd95(prediction, reference, spacing):
    """HD95 by loops over corners and all pairs of them."""
    table = (_surface_table if prediction.ndim == 3 else _contour_table)(spacing)

    def elements(mask):
        padded, found = np.pad(mask, 1), []
        for corner in itertools.product(*(range(n + 1) for n in mask.shape)):
            around = itertools.product((0, 1), repeat=mask.ndim)
            inside = frozenset(o for o in around if padded[tuple(c + i for c, i in zip(corner, o, strict=True))])
            if table[inside]:
                found.append((corner, table[inside]))
        return np.array([p for p, _ in found]) * spacing, np.array([a for _, a in found])

    def directed(source, target):
        (points, areas), (others, _) = source, target
        distances = np.array([np.sqrt(((others - p) ** 2).sum(1)).min() for p in points])
        return min(d for d in distances if areas[distances <= d + 1e-9].sum() / areas.sum() >= 0.95 - 1e-9)

    ours, theirs = elements(prediction), elements(reference)
    return max(directed(ours, theirs), directed(theirs, ours))


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (4.0, 0.5, 0.25), (0.69, 0.69, 3.3)])
def test_boundary_sizes__equal_the_area_of_the_drawn_surface(spacing):
    sizes = boundary_sizes(spacing)
    for inside, area in _surface_table(spacing).items():
        code = sum(1 << (a + 2 * b + 4 * c) for a, b, c in inside)
        assert sizes[code] == pytest.approx(area, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("spacing", [(1.0, 1.0), (3.0, 0.25)])
def test_boundary_sizes__equal_the_length_of_the_drawn_contour(spacing):
    sizes = boundary_sizes(spacing)
    for inside, length in _contour_table(spacing).items():
        assert sizes[sum(1 << (a + 2 * b) for a, b in inside)] == pytest.approx(length, rel=1e-12)


def test_boundary_sizes__a_single_voxel_has_the_surface_of_an_octahedron():
    assert boundary_sizes((1.0, 1.0, 1.0))[[1 << b for b in range(8)]].sum() == pytest.approx(3**0.5)


def _thin_pair():
    """Masks one voxel thick in a volume that is not."""
    prediction, reference = np.zeros((2, 3, 4, 4), bool)
    prediction[1, 1:3, 1:3] = reference[1, 1:3, 1:4] = True
    return prediction, reference


def _pairs(shape):
    return st.tuples(arrays(bool, shape), arrays(bool, shape))


@settings(max_examples=60, deadline=None)
@given(
    masks=st.one_of(
        st.tuples(st.integers(1, 5), st.integers(2, 4), st.integers(2, 4)).flatmap(_pairs),
        st.tuples(st.integers(2, 7), st.integers(2, 7)).flatmap(_pairs),
    ),
    spacing=st.sampled_from([(1.0, 1.0, 1.0), (4.0, 0.5, 0.5), (0.69, 0.7, 3.3)]),
)
@example(masks=_thin_pair(), spacing=(0.69, 0.7, 3.3))
def test_hd95__equals_all_pairs_by_loops(masks, spacing):
    prediction, reference = masks
    spacing = spacing[: prediction.ndim]
    if prediction.any() and reference.any():
        if prediction.shape[0] == 1:  # flat as an image, not only as a mask
            slow = _slow_hd95(prediction[0], reference[0], spacing[1:])
        else:
            slow = _slow_hd95(prediction, reference, spacing)
        assert hd95(prediction, reference, spacing) == pytest.approx(slow, abs=1e-9)


def test_hd95__one_slice_is_scored_as_the_image_it_is():
    reference, prediction = np.zeros((30, 30), bool), np.zeros((30, 30), bool)
    reference[5:25, 2:27] = prediction[5:25, 2:26] = True
    flat = hd95(prediction, reference, (2.0, 0.5))
    assert flat == 0.5, "the far side is a good part of the contour"
    for axis in range(3):
        stored = [np.expand_dims(mask, axis) for mask in (prediction, reference)]
        assert hd95(*stored, tuple(np.insert([2.0, 0.5], axis, 7.0).tolist())) == flat
    thin = [np.repeat(mask[..., None], 2, axis=2) for mask in (prediction, reference)]
    assert hd95(*thin, (2.0, 0.5, 0.1)) == 0.0, "of a thin plate the faces are all that counts"


def test_hd95__memory_order_does_not_matter():
    rng = np.random.default_rng(3)
    prediction, reference = rng.random((2, 6, 7, 8)) < 0.3
    plain = hd95(prediction, reference, (4.0, 0.5, 0.6))
    fortran = np.asfortranarray
    assert hd95(fortran(prediction), fortran(reference), (4.0, 0.5, 0.6)) == plain
    assert hd95(fortran(prediction), reference, (4.0, 0.5, 0.6)) == plain
    assert hd95(prediction[::-1], reference[::-1], (4.0, 0.5, 0.6)) == plain
