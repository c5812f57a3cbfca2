"""PNG label maps: each pixel kind against values written by hand, and damage of each kind."""

import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from segaudit.errors import AuditError
from segaudit.volumes import Grid, LabelVolume, on_grid, read_header, read_labels

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6


def _chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _png(rows, depth, colour, extra=b"", size=None):
    """Return a PNG of packed rows (bytes each), written from the standard: Pillow cannot write all of these."""
    height = len(rows)
    width = size or {GREY: 8 // depth if depth < 8 else 1}.get(colour, 1) * len(rows[0])
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))
    palette = _chunk(b"PLTE", bytes(range(48))) if colour == PALETTE else b""
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + extra
        + palette
        + _chunk(b"IDAT", pixels)
        + _chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "rows, depth, colour, width, expected, dtype, why",
    [
        ([[0, 1, 255], [7, 2, 0]], 8, GREY, 3, [[0, 1, 255], [7, 2, 0]], "u1", "8-bit grey"),
        ([[0, 1, 1, 1, 255, 255]], 16, GREY, 3, [[1, 257, 65535]], "u2", "16-bit grey: 257 is not 1"),
        ([[0b10110000], [0b01000000]], 1, GREY, 4, [[1, 0, 1, 1], [0, 1, 0, 0]], "u1", "1-bit: 0 and 1, not 255"),
        ([[0b00011011]], 2, GREY, 4, [[0, 1, 2, 3]], "u1", "2-bit: not stretched to 85"),
        ([[0x01, 0x9F]], 4, GREY, 4, [[0, 1, 9, 15]], "u1", "4-bit: not stretched to 17"),
        ([[0, 5, 2]], 8, PALETTE, 3, [[0, 5, 2]], "u1", "palette: the index, not the colour"),
        ([[0b00011011]], 2, PALETTE, 4, [[0, 1, 2, 3]], "u1", "2-bit palette"),
        ([[0b10000000]], 1, PALETTE, 2, [[1, 0]], "u1", "1-bit palette"),
        ([[0, 0, 0, 2, 2, 2]], 8, RGB, 2, [[0, 2]], "u1", "equal colours are one number"),
        ([[3, 3, 3, 255, 4, 4, 4, 255]], 8, RGBA, 2, [[3, 4]], "u1", "opaque equal colours"),
        ([[3, 255, 4, 255]], 8, GREY_ALPHA, 2, [[3, 4]], "u1", "opaque grey"),
    ],
)
def test_png__pixels_are_whole_numbers_as_stored(tmp_path, codes, rows, depth, colour, width, expected, dtype, why):
    path = tmp_path / "mask.png"
    path.write_bytes(_png(rows, depth, colour, size=width))
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, expected, why)
    assert volume.labels.dtype == np.dtype(dtype), why
    assert volume.labels.flags.c_contiguous
    assert not volume.labels.flags.writeable
    assert codes(volume) == ["IMAGE_PIXELS"]
    assert volume.grid == read_header(path)
    assert (volume.grid.unit, volume.grid.spacing_mm, volume.grid.oriented) == ("px", (1.0, 1.0), False)


@pytest.mark.parametrize("height, width", [(1, 1), (2, 3), (5, 9), (8, 8), (13, 11)])
def test_png__interlaced_files_are_read(tmp_path, height, width):
    array = np.arange(height * width, dtype=np.uint8).reshape(height, width)
    rows = []
    passes = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    for x, y, step_x, step_y in passes:
        rows += [b"\0" + row.tobytes() for row in array[y::step_y, x::step_x] if row.size]
    header = struct.pack(">IIBBBBB", width, height, 8, GREY, 0, 0, 1)
    data = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"".join(rows))) + _chunk(b"IEND", b"")
    (tmp_path / "mask.png").write_bytes(b"\x89PNG\r\n\x1a\n" + data)
    np.testing.assert_array_equal(read_labels(tmp_path / "mask.png").labels, array)


@pytest.mark.parametrize(
    "rows, depth, colour, width, why",
    [
        ([[0, 0, 1]], 8, RGB, 1, "a colour"),
        ([[3, 3, 3, 254]], 8, RGBA, 1, "transparent"),
        ([[3, 0]], 8, GREY_ALPHA, 1, "transparent grey"),
        ([[0, 1] * 3], 16, RGB, 1, "16-bit colour, of which half would be lost"),
        ([[0, 1, 255, 255]], 16, GREY_ALPHA, 1, "16-bit grey with alpha"),
    ],
)
def test_png__colours_are_refused(tmp_path, refused, rows, depth, colour, width, why):
    path = tmp_path / "mask.png"
    path.write_bytes(_png(rows, depth, colour, size=width))
    assert refused(read_labels, path)[0].code == "IMAGE_COLOUR", why


@pytest.mark.parametrize("mode, top", [("L", 256), ("P", 256), ("I;16", 65536)])
def test_png__filtered_files_of_pillow_are_read(tmp_path, mode, top):
    array = np.random.default_rng(1).integers(0, top, (37, 53)).astype(np.uint16 if mode == "I;16" else np.uint8)
    array[5:20] = array[4]
    image = Image.fromarray(array)
    if mode == "P":
        image.putpalette(bytes(768))
    image.save(tmp_path / "mask.png", optimize=True)
    np.testing.assert_array_equal(read_labels(tmp_path / "mask.png").labels, array)


def test_png__compares_by_shape_with_png_only(tmp_path, refused):
    path = tmp_path / "mask.png"
    path.write_bytes(_png([[0, 1], [2, 0]], 8, GREY))
    volume = read_labels(path)
    assert on_grid(volume, read_header(path), "p") is volume
    (finding,) = refused(on_grid, LabelVolume(volume.labels, Grid.spaced((2, 2), (1, 1))), volume.grid, "p")
    assert "unit of length mm against px" in finding.message
    assert "shape" in refused(on_grid, volume, Grid((2, 3), volume.grid.affine, "px", oriented=False), "p")[0].message


def test_png__ancillary_chunks_never_reach_the_decoder(tmp_path):
    bomb = _chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(200_000_000), 9))
    path = tmp_path / "mask.png"
    path.write_bytes(
        _png([[0, 1], [2, 0]], 8, GREY, extra=bomb + _chunk(b"tRNS", b"\0\1") + _chunk(b"tEXt", b"x" * 99))
    )
    tracemalloc.start()
    volume = read_labels(path)
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()
    np.testing.assert_array_equal(volume.labels, [[0, 1], [2, 0]])


@pytest.mark.parametrize(
    "spoil, code, why",
    [
        (lambda d: d[:20], "IMAGE_TRUNCATED", "inside the header"),
        (lambda d: d[:-12], "IMAGE_TRUNCATED", "no IEND"),
        (lambda d: d[:-20], "IMAGE_TRUNCATED", "inside the pixels"),
        (lambda d: d[:45] + bytes([d[45] ^ 1]) + d[46:], "IMAGE_CORRUPT", "a pixel byte"),
        (lambda d: d[:17] + b"\1" + d[18:], "IMAGE_CORRUPT", "the width"),
        (lambda d: d.replace(b"IEND", b"acTL"), "IMAGE_DIMENSIONS", "an animation"),
        (lambda d: d.replace(b"\x89PNG", b"\x89PNX"), "IMAGE_NOT_PNG", "the signature"),
    ],
)
def test_png__damage_is_refused(tmp_path, refused, spoil, code, why):
    path = tmp_path / "mask.png"
    path.write_bytes(spoil(_png([[0, 1], [2, 0]], 8, GREY)))
    assert refused(read_labels, path)[0].code == code, why


def test_png__bytes_after_the_image_are_told(tmp_path, codes):
    path = tmp_path / "mask.png"
    path.write_bytes(_png([[0, 1], [2, 0]], 8, GREY) + b"tail")
    assert codes(read_labels(path)) == ["IMAGE_TRAILING_BYTES", "IMAGE_PIXELS"]


@pytest.mark.parametrize(
    "width, height, code, why",
    [
        (100_000, 100_000, "IMAGE_TOO_LARGE", "10^10 pixels"),
        (2**31 - 1, 2**31 - 1, "IMAGE_TOO_LARGE", "the most a header can claim"),
        (50_000, 50_000, "IMAGE_TRUNCATED", "allowed, but not held by so small a file"),
        (0, 5, "IMAGE_NOT_PNG", "no pixels"),
    ],
)
def test_png__a_claim_takes_no_memory(tmp_path, refused, width, height, code, why):
    header = struct.pack(">IIBBBBB", width, height, 8, GREY, 0, 0, 0)
    path = tmp_path / "mask.png"
    data = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(bytes(99)))
    path.write_bytes(data + _chunk(b"IEND", b""))
    tracemalloc.start()
    assert refused(read_labels, path)[0].code == code, why
    assert tracemalloc.get_traced_memory()[1] < 4e6, why
    tracemalloc.stop()


def test_png__more_pixels_than_pillows_own_limit_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2)
    path = tmp_path / "mask.png"
    path.write_bytes(_png([[0, 1, 2], [2, 0, 1]], 8, GREY))
    assert read_labels(path).labels.shape == (2, 3)


@pytest.mark.parametrize("width, shown", [(5, "fewer"), (1, "more")])
def test_png__another_number_of_pixels_than_declared_is_refused(tmp_path, refused, width, shown):
    path = tmp_path / "mask.png"
    path.write_bytes(_png([[0, 1], [2, 0]], 8, GREY, size=width))
    (finding,) = refused(read_labels, path)
    assert finding.code == "IMAGE_CORRUPT"
    assert f"{shown} pixels than its header declares" in finding.message


def test_png__pixels_of_another_checksum_are_refused(tmp_path, refused):
    data = _png([[0, 1], [2, 0]], 8, GREY)
    length = struct.unpack_from(">I", data, 33)[0]
    pixels = bytearray(data[41 : 41 + length])
    pixels[-1] ^= 1
    path = tmp_path / "mask.png"
    path.write_bytes(data[:33] + _chunk(b"IDAT", bytes(pixels)) + _chunk(b"IEND", b""))
    (finding,) = refused(read_labels, path)
    assert finding.code == "IMAGE_CORRUPT"
    assert "cannot be inflated" in finding.message


def test_png__with_another_name_is_told(tmp_path, codes):
    path = tmp_path / "mask.nii.gz"
    path.write_bytes(_png([[0, 1], [2, 0]], 8, GREY))
    assert codes(read_labels(path)) == ["IMAGE_PIXELS", "IMAGE_EXTENSION"]


def _repaired(data):
    """Return a PNG with the checksums of its chunks made right, so that changed bytes reach the decoder."""
    out, at = bytearray(data), 8
    while at + 12 <= len(out):
        (length,) = struct.unpack_from(">I", out, at)
        if at + 12 + length > len(out):
            break
        struct.pack_into(">I", out, at + 8 + length, zlib.crc32(out[at + 4 : at + 8 + length]))
        at += 12 + length
    return bytes(out)


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("mode", ["L", "P", "1", "RGB"])
def test_fuzz__changed_png_bytes_give_a_volume_or_an_error(tmp_path, repair, mode):
    buffer = io.BytesIO()
    image = Image.fromarray(np.arange(120, dtype=np.uint8).reshape(10, 12) % 3)
    image.convert(mode).save(buffer, "PNG")
    seed, path = buffer.getvalue(), tmp_path / "mask.png"

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(
        edits=st.lists(st.tuples(st.integers(0, len(seed) - 1), st.binary(min_size=1, max_size=4)), max_size=3),
        cut=st.integers(0, 20),
    )
    def check(edits, cut):
        data = bytearray(seed)
        for place, new in edits:
            data[place : place + len(new)] = new[: len(data) - place]
        data = bytes(data[: len(data) - cut])
        path.write_bytes(_repaired(data) if repair else data)
        try:
            volume = read_labels(path, max_bytes=1 << 24)
        except AuditError:
            return
        assert volume.labels.dtype in (np.uint8, np.uint16)
        assert volume.labels.shape == volume.grid.shape

    check()
