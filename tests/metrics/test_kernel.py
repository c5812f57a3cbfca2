"""The compiled kernel against the NumPy functions that define it."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segaudit.metrics import cases, compiled, kernel, measure
from segaudit.metrics.codes import count_values, side
from segaudit.metrics.volume import count_components

pytestmark = pytest.mark.skipif(kernel.KERNEL is None, reason="no kernel was compiled on this machine")
TYPES = ["u1", "i1", "<i2", ">u2", "<i4", ">i8"]


def _blobs(rng, shape, n_labels):
    """Ellipsoids of every label, some beyond the rim, some hidden by others."""
    image, grid = np.zeros(shape, "u1"), np.indices(shape)
    for label in range(1, n_labels + 1):
        for _ in range(rng.integers(0, 3)):
            centre, radius = [rng.integers(0, n) for n in shape], [rng.uniform(0.5, max(1.0, n / 3)) for n in shape]
            image[sum(((g - c) / r) ** 2 for g, c, r in zip(grid, centre, radius, strict=True)) < 1] = label
    return image


def _moved(rng, image, steps):
    return np.roll(image, rng.integers(0, steps, image.ndim), tuple(range(image.ndim)))


def _stray(rng, image):
    image = image.copy()
    image.flat[rng.integers(image.size)] = image.max(initial=1)
    return image


CHANGES = {
    "another": lambda rng, image: _blobs(rng, image.shape, 3),
    "near": lambda rng, image: _moved(rng, image, 3),
    "far": lambda rng, image: _moved(rng, image, 90),
    "stray": _stray,
    "noise": lambda rng, image: rng.integers(0, 4, image.shape).astype("u1"),
    "speckled": lambda rng, image: np.where(rng.random(image.shape) < 0.1, rng.integers(0, 4, image.shape), image),
    "full": lambda rng, image: np.ones_like(image),
    "empty": lambda rng, image: np.zeros_like(image),
    "equal": lambda rng, image: image,
}
SHAPES = [
    (1, 1, 1),
    (2, 3, 2),
    (9, 8, 7),
    (3, 5, 200),
    (150, 4, 6),
    (14, 40, 30),
    (70, 3),
    (1, 40),
    (60, 150),
    (5, 1, 90),
]


def _agree(prediction, reference, labels, spacing, ignore):
    ours, theirs = side(prediction, labels), side(reference, labels, ignore)
    assert compiled.can_find(ours, theirs)
    fast, slow = (find(ours, theirs, spacing, boundary=True, components=True) for find in (compiled.find, cases.find))
    assert np.array_equal(fast.confusion, slow.confusion)
    assert fast.ignored == slow.ignored
    assert [tuple(pieces) for pieces in fast.pieces] == slow.pieces
    for one, other in zip(fast.boxes, slow.boxes, strict=True):
        assert one == other or all(ends.start >= ends.stop for ends in one + other)
    assert fast.hd95 == pytest.approx(slow.hd95, abs=1e-9, nan_ok=True)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(SHAPES),
    change=st.sampled_from(sorted(CHANGES)),
    n_labels=st.sampled_from([1, 3, 9]),
    spacing=st.tuples(*[st.sampled_from([0.25, 0.43, 1.0, 3.3, 10.0])] * 3),
    ignore=st.sampled_from([None, 0, 1, 77]),
    types=st.tuples(*[st.sampled_from(TYPES)] * 2),
    order=st.sampled_from(["C", "F", "mixed"]),
)
def test_kernel__finds_what_numpy_finds(seed, shape, change, n_labels, spacing, ignore, types, order):
    rng = np.random.default_rng(seed)
    reference = _blobs(rng, shape, n_labels)
    prediction = CHANGES[change](rng, reference).astype(types[0], order="C" if order == "C" else "F")
    reference = reference.astype(types[1], order="F" if order == "F" else "C")
    labels = {f"l{value}": (value,) for value in range(1, n_labels + 1)}
    labels |= {"all": tuple(range(1, n_labels + 1)), "rest": (0, n_labels)}
    _agree(prediction, reference, labels, spacing[: len(shape)], ignore)


@pytest.mark.parametrize(
    ("shape", "spacing", "why"),
    [
        ((3, 6, 400), (4.0, 0.43, 0.43), "rows of several words, boundaries words apart"),
        ((40, 40, 40), (1.0, 1.0, 1.0), "too many corners for a search: slices are transformed"),
        ((160, 160), (0.5, 2.0), "the same in one slice"),
    ],
)
def test_kernel__measures_far_boundaries(shape, spacing, why):
    prediction, reference = np.zeros((2, *shape), "u1")
    prediction[tuple(slice(0, max(1, n // 4)) for n in shape)] = 1
    reference[tuple(slice(-max(1, n // 3), None) for n in shape)] = 1
    _agree(prediction, reference, {"a": (1,)}, spacing, None)
    rng = np.random.default_rng(1)
    _agree(prediction * (rng.random(shape) < 0.5), reference * (rng.random(shape) < 0.2), {"a": (1,)}, spacing, None)


@pytest.mark.parametrize(
    ("rows", "pieces", "why"),
    [
        (["#.#.#", "#.#.#", "#####"], 1, "the teeth of a comb meet in the last row"),
        (["#####", "#.#.#", "#.#.#"], 1, "they start from one"),
        (["#.#", ".#.", "#.#"], 1, "corners touch"),
        (["##.##", "##.##"], 2, "a column lies between them"),
        (["#...#", "#...#", ".#.#.", "..#.."], 1, "a V"),
        (["#####", "#...#", "#.#.#", "#...#", "#####"], 2, "a ring around a point"),
        (["####.", "....#", "####.", "#....", "####."], 1, "a snake"),
        (["#.", ".."] * 3, 3, "apart"),
        (["..", ".."], 0, "nothing"),
        (["...##", "##..."], 2, "the end of a row and the start of the next are not neighbours"),
    ],
)
def test_kernel__pieces(rows, pieces, why):
    image = np.array([[mark == "#" for mark in row] for row in rows])
    on_edge = np.stack([image, np.zeros_like(image)])
    for mask in (image, image.T, image[::-1], on_edge, on_edge.T, on_edge[:, ::-1, ::-1]):
        found = measure(mask, mask[..., ::-1], {"a": (1,)}, {"a": (1,)}, (1.0,) * mask.ndim)["a"]
        assert (found.components_prediction, found.components_reference) == (pieces, pieces), why


def test_kernel__pieces_touch_only_within_a_slice_and_the_next():
    volume = np.zeros((4, 5, 6), bool)
    volume[0, -1, -1] = volume[1, 0, 0] = volume[1, -1, -2] = volume[3, -1, -2] = True
    found = measure(volume, ~volume, {"a": (1,)}, {"a": (1,)}, (1.0, 1.0, 1.0))["a"]
    assert (found.components_prediction, found.components_reference) == (3, 1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from([(60, 9, 40), (25, 30, 3), (300, 90), (3, 50, 90)]),
    share=st.sampled_from([0.02, 0.08, 0.15, 0.3, 0.6]),
)
def test_kernel__pieces_of_more_runs_than_are_kept(seed, shape, share):
    rng = np.random.default_rng(seed)
    ours, theirs = rng.random((2, *shape)) < share
    found = measure(ours, theirs, {"a": (1,)}, {"a": (1,)}, (1.0,) * len(shape), boundary=False)["a"]
    assert found.components_prediction == count_components(ours)
    assert found.components_reference == count_components(theirs)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dtype=st.sampled_from([*TYPES, "<u8", "?"]),
    size=st.sampled_from([0, 1, 7, 63, 5000]),
    spread=st.sampled_from([1, 3, 120, 10**9, 2**63]),
    order=st.sampled_from("CF"),
)
def test_count_values__is_that_of_numpy(seed, dtype, size, spread, order):
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype) if dtype != "?" else np.iinfo("u1")
    low, high = max(limits.min, -spread), min(limits.max, spread - 1)
    values = rng.integers(low, high, size, np.dtype(dtype).newbyteorder("=") if dtype != "?" else "u1", endpoint=True)
    array = np.repeat(np.where(rng.random(size) < 0.5, values, 0), rng.integers(1, 20)).astype(dtype)
    array = np.asarray(array.reshape(2, -1) if array.size % 2 == 0 else array[None], order=order)
    known, counts = np.unique(array[array != 0], return_counts=True)
    assert count_values(array) == dict(zip(map(int, known), counts.tolist(), strict=True))


def test_count_values__of_an_array_that_is_not_in_one_piece():
    assert count_values(np.arange(24, dtype="i2").reshape(4, 6)[::2, ::3]) == {3: 1, 12: 1, 15: 1}


def test_count_values__refuses_buffers_that_do_not_fit():
    voxels, values, counts = np.zeros(8, "u1"), np.zeros(4096, "u8"), np.zeros(4096, "i8")
    assert kernel.KERNEL.count(voxels, values, counts) == 0
    for wrong in ((voxels, values[1:], counts), (voxels, values, counts[1:]), (np.zeros(2, "c16"), values, counts)):
        with pytest.raises(ValueError, match="do not fit"):
            kernel.KERNEL.count(*wrong)


def test_kernel__more_labels_than_a_byte_of_bits_holds():
    rng = np.random.default_rng(2)
    reference = np.repeat(np.repeat(rng.integers(0, 250, (6, 8, 8)), 3, 1), 3, 2).astype("u1")
    _agree(np.roll(reference, 1, 2), reference, {f"l{v}": (v,) for v in range(1, 250)}, (3.0, 1.0, 1.0), 17)


def test_kernel__works_on_many_threads_at_once():
    rng = np.random.default_rng(4)
    pairs = [(_blobs(rng, (12, 30, 30), 2), _blobs(rng, (12, 30, 30), 2)) for _ in range(40)]
    labels = {"a": (1,), "b": (2,)}

    def scored(pair):
        return {name: (m.counts, str(m.hd95)) for name, m in measure(*pair, labels, labels, (2.0, 1.0, 1.0)).items()}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(scored, pairs)) == list(map(scored, pairs))


def test_kernel__read_only_arrays_are_read():
    image = np.zeros((3, 4, 5), "i4")
    image[1, 1, 1] = 1
    image.flags.writeable = False
    assert measure(image, image, {"a": (1,)}, {"a": (1,)}, (1.0, 1.0, 1.0))["a"].hd95 == 0.0


@pytest.mark.parametrize("wrong", range(12))
def test_kernel__refuses_buffers_that_do_not_fit(wrong):
    def buffers():
        yield from (np.zeros(8, "u1"), np.zeros(8, "u1"), np.zeros(256, "u1"), np.zeros(256, "u1"))
        yield from (np.zeros((2, 1), "u1"), np.zeros((2, 1), "u1"), np.zeros(256))
        yield from (np.zeros((2, 2), "i8"), np.zeros(1, "i8"), np.zeros((1, 2, 3), "i4"), np.full(1, math.nan))
        yield np.zeros((1, 2), "i8")

    rest = ((2, 2, 2), (0, 1, 2), (1.0, 1.0, 1.0), -1, False, True, True)
    kernel.KERNEL.score(*buffers(), *rest)
    spoilt = [np.resize(b, b.size + 1).astype(b.dtype) if i == wrong else b for i, b in enumerate(buffers())]
    with pytest.raises(ValueError, match="do not fit"):
        kernel.KERNEL.score(*spoilt, *rest)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        (((2, 2, 2), (0, 1, 1), (1.0, 1.0, 1.0), -1, False, True, True), "an axis twice"),
        (((2, 2, 2), (0, 1, 2), (1.0, 0.0, 1.0), -1, False, True, True), "no spacing"),
        (((2, 2, 2), (0, 1, 2), (1.0, 1.0, 1.0), -1, True, True, True), "two slices are no image"),
        (((2, 2, -2), (0, 1, 2), (1.0, 1.0, 1.0), -1, False, True, True), "a negative length"),
        (((2, 2, 2), (0, 1, 5), (1.0, 1.0, 1.0), -1, False, True, True), "no such axis"),
    ],
)
def test_kernel__refuses_grids_that_are_none(rest, why):
    buffers = [np.zeros(8, "u1"), np.zeros(8, "u1"), np.zeros(256, "u1"), np.zeros(256, "u1"), np.zeros((2, 1), "u1")]
    buffers += [np.zeros((2, 1), "u1"), np.zeros(256), np.zeros((2, 2), "i8"), np.zeros(1, "i8")]
    with pytest.raises(ValueError, match="do not fit"):
        kernel.KERNEL.score(*buffers, np.zeros((1, 2, 3), "i4"), np.zeros(1), np.zeros((1, 2), "i8"), *rest)
