"""Files that are cut short, changed, joined, misnamed, huge or not there: a message each, and bounded memory."""

import gzip
import os
import socket
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from segaudit.errors import AuditError
from segaudit.volumes import LabelVolume, on_grid, read_header, read_labels
from segaudit.volumes.streams import GzipStream


def _outcome(fn, *args, **options):
    """Return what a call gives, or the AuditError it raises; any other error is one of the test."""
    try:
        return fn(*args, **options)
    except AuditError as error:
        return error


def _peak_of(fn, *args, **options):
    """Return the most bytes that Python and NumPy held at once during a call, and what it gave or raised."""
    tracemalloc.start()
    result = _outcome(fn, *args, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak, result


def test_gzip__a_changed_voxel_in_a_stored_block_is_refused(labels, save, refused):
    path = save(labels)
    packed = bytearray(gzip.compress(gzip.decompress(path.read_bytes()), 0))
    packed[1000] ^= 1
    path.write_bytes(packed)
    (finding,) = refused(read_labels, path)
    assert finding.code == "IMAGE_CORRUPT"
    assert "checksum mismatch" in finding.message


@pytest.mark.parametrize("keep", [0.6, -8, -1, 19, 11, 2])
def test_gzip__cut_short_is_refused(labels, save, refused, keep):
    path = save(labels)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if keep == 0.6 else keep])
    (finding,) = refused(read_labels, path)
    assert finding.code == "IMAGE_TRUNCATED"
    assert "gzip stream ends early" in finding.message


def test_gzip__a_false_length_is_refused_without_taking_it(labels, save):
    path = save(labels)
    path.write_bytes(path.read_bytes()[:-4] + b"\xf0\xff\xff\xff")
    peak, error = _peak_of(read_labels, path)
    assert [finding.code for finding in error.findings] == ["IMAGE_CORRUPT"]
    assert peak < 4e6


@pytest.mark.parametrize("cuts", [(500,), (4, 348, 352), (3232 - 1,), tuple(range(10, 3000, 10))])
def test_gzip__all_members_are_read(labels, save, codes, cuts):
    path = save(labels)
    plain = gzip.decompress(path.read_bytes())
    parts = [plain[a:b] for a, b in zip((0, *cuts), (*cuts, len(plain)), strict=True)]
    path.write_bytes(b"".join(gzip.compress(part) for part in [*parts, b""]))
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    assert codes(volume) == []


def test_gzip__a_damaged_later_member_is_refused(labels, save, refused):
    path = save(labels)
    plain = gzip.decompress(path.read_bytes())
    second = bytearray(gzip.compress(plain[500:]))
    second[-6] ^= 1
    path.write_bytes(gzip.compress(plain[:500]) + second)
    assert refused(read_labels, path)[0].code == "IMAGE_CORRUPT"


@pytest.mark.parametrize("tail", [b"garbage!", b"\0" * 512, b"\x1f"])
def test_gzip__bytes_after_the_stream_are_told(labels, save, codes, tail):
    path = save(labels)
    path.write_bytes(path.read_bytes() + tail)
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    assert codes(volume) == ["IMAGE_TRAILING_BYTES"]
    assert f"{len(tail)} bytes" in volume.findings[0].message


@pytest.mark.parametrize("feed", [2, 3, 7])
@pytest.mark.parametrize("piece", [1, 5, 1 << 18])
def test_gzip__the_size_of_the_steps_changes_nothing(labels, save, codes, monkeypatch, feed, piece):
    monkeypatch.setattr("segaudit.volumes.streams._FEED", feed)
    monkeypatch.setattr("segaudit.volumes.streams._PIECE", piece)
    path = save(labels)
    plain = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(plain[:400]) + gzip.compress(plain[400:]) + b"tail")
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    assert codes(volume) == ["IMAGE_TRAILING_BYTES"]
    assert "4 bytes" in volume.findings[0].message


@pytest.mark.parametrize("name", ["mask.nii", "mask.nii.gz"])
@pytest.mark.parametrize("missing", [1, 2000, 2880])
def test_voxels__fewer_than_declared_are_refused(labels, save, refused, name, missing):
    path = save(labels, name=name)
    plain = path.read_bytes() if name == "mask.nii" else gzip.decompress(path.read_bytes())
    path.write_bytes(plain[:-missing] if name == "mask.nii" else gzip.compress(plain[:-missing]))
    (finding,) = refused(read_labels, path)
    assert finding.code == "IMAGE_TRUNCATED"


@pytest.mark.parametrize("name", ["mask.nii", "mask.nii.gz"])
def test_voxels__a_few_bytes_more_are_told_and_many_refused(labels, save, codes, refused, name):
    path = save(labels, name=name)
    plain = path.read_bytes() if name == "mask.nii" else gzip.decompress(path.read_bytes())
    pack = (lambda data: data) if name == "mask.nii" else gzip.compress
    path.write_bytes(pack(plain + bytes(100)))
    assert codes(read_labels(path)) == ["IMAGE_TRAILING_BYTES"]
    path.write_bytes(pack(plain + bytes(100_000)))
    assert refused(read_labels, path)[0].code == "IMAGE_DIMENSIONS"


@pytest.mark.parametrize("name", ["mask.nii", "mask.nii.gz"])
@pytest.mark.parametrize(
    "side, code, why",
    [
        (30000, "IMAGE_TOO_LARGE", "27 TB are more than max_bytes"),
        (1500, "IMAGE_TRUNCATED", "3.4 GB are allowed, but no file of this size holds them"),
    ],
)
def test_header__a_claim_takes_no_memory(labels, save, name, side, code, why):
    path = save(labels, name=name, dim=[3, side, side, side, 1, 1, 1, 1])
    peak, error = _peak_of(read_labels, path)
    assert [finding.code for finding in error.findings] == [code], why
    assert str(side) in str(error) or "declares" in str(error)
    assert peak < 4e6, why


def test_header__max_bytes_is_the_size_of_the_voxels(labels, save, refused):
    path = save(labels)
    assert read_labels(path, max_bytes=labels.nbytes).labels.nbytes == labels.nbytes
    (finding,) = refused(read_labels, path, max_bytes=labels.nbytes - 1)
    assert finding.code == "IMAGE_TOO_LARGE"


def test_gzip__a_bomb_behind_an_honest_header_is_not_inflated(labels, save, monkeypatch):
    path = save(labels)
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + bytes(200_000_000), 9))
    inflated = []
    whole = GzipStream._piece
    monkeypatch.setattr(GzipStream, "_piece", lambda *args: inflated.append(whole(*args)) or inflated[-1])
    peak, error = _peak_of(read_labels, path)
    assert [finding.code for finding in error.findings] == ["IMAGE_DIMENSIONS"]
    assert peak < 4e6
    assert sum(map(len, inflated)) < 1e6


def test_memory__peak_is_near_one_copy_of_the_voxels(save):
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 100), dtype=np.uint8)
    for name in ("noise.nii.gz", "noise.nii"):
        path = save(noise, name=name)
        peak, volume = _peak_of(read_labels, path)
        np.testing.assert_array_equal(volume.labels, noise)
        assert peak < 1.2 * noise.nbytes, name


def test_header__is_read_without_the_voxels(save):
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 100), dtype=np.uint8)
    peak, grid = _peak_of(read_header, save(noise))
    assert grid.shape == noise.shape
    assert peak < 1e6


@pytest.mark.parametrize(
    "data, name, code, shown",
    [
        (b"", "mask.nii.gz", "IMAGE_EMPTY_FILE", "0 bytes"),
        (b"", "mask.png", "IMAGE_EMPTY_FILE", "0 bytes"),
        (b"case,dice\nc1,0.8\n", "mask.nii.gz", "IMAGE_NOT_NIFTI", "case,dice"),
        (b"\xff\xd8\xff\xe0 JFIF", "mask.png", "IMAGE_NOT_PNG", "is not a PNG file"),
        (gzip.compress(b"case,dice\nc1,0.8\n"), "mask.nii.gz", "IMAGE_NOT_NIFTI", "case,dice"),
        (struct.pack("<i", 348) + bytes(100), "mask.nii", "IMAGE_TRUNCATED", "after 104 bytes"),
        (gzip.compress(struct.pack(">i", 540) + bytes(400)), "mask.nii.gz", "IMAGE_TRUNCATED", "after 404 bytes"),
        (gzip.compress(b""), "mask.nii.gz", "IMAGE_NOT_NIFTI", "b''"),
        (b"\x5c", "mask.nii", "IMAGE_NOT_NIFTI", "starts with"),
        (b"\x1f\x8b\x07" + bytes(50), "mask.nii.gz", "IMAGE_CORRUPT", "damaged"),
    ],
)
def test_file__that_is_no_image_is_refused(tmp_path, refused, data, name, code, shown):
    path = tmp_path / name
    path.write_bytes(data)
    for read in (read_labels, read_header):
        (finding,) = refused(read, path)
        assert finding.code == code
        assert shown in finding.message
        assert finding.where == str(path)


def test_file__each_way_of_not_being_there_has_its_message(tmp_path, refused, monkeypatch):
    (tmp_path / "dangling.nii").symlink_to(tmp_path / "nothing.nii")
    (tmp_path / "loop.nii").symlink_to(tmp_path / "loop.nii")
    (tmp_path / "folder.nii").mkdir()
    os.mkfifo(tmp_path / "pipe.nii")
    (tmp_path / "file").write_bytes(b"x")
    expected = {
        "missing.nii": ("IMAGE_MISSING", "does not exist"),
        "dangling.nii": ("IMAGE_MISSING", "a link to a file that is not there"),
        "loop.nii": ("IMAGE_UNREADABLE", "symbolic links"),
        "folder.nii": ("IMAGE_NOT_A_FILE", "a folder"),
        "pipe.nii": ("IMAGE_NOT_A_FILE", "a device, pipe or socket"),
        "file/mask.nii": ("IMAGE_UNREADABLE", "Not a directory"),
        "n" * 300 + ".nii": ("IMAGE_UNREADABLE", "too long"),
        "zero\0byte.nii": ("IMAGE_UNREADABLE", "null byte"),
    }
    for name, (code, shown) in expected.items():
        (finding,) = refused(read_labels, tmp_path / name)
        assert finding.code == code, name
        assert shown in finding.message, name


@pytest.mark.parametrize(
    "error, code", [(PermissionError(13, "Permission denied"), "IMAGE_UNREADABLE"), (MemoryError(), "IMAGE_TOO_LARGE")]
)
def test_file__that_may_not_be_read_is_refused(labels, save, refused, monkeypatch, error, code):
    path = save(labels)

    def fail(*_):
        raise error

    monkeypatch.setattr(GzipStream, "take", fail)
    assert refused(read_labels, path)[0].code == code


@pytest.mark.parametrize("name", ["Fälle Köln/маска 症例 1.nii.gz", "a b/c d.NII.GZ", "x/mask's (1).nii"])
def test_file__names_with_blanks_and_other_letters(labels, save, codes, name, tmp_path):
    (tmp_path / name).parent.mkdir()
    path = tmp_path / name
    save(labels, name="plain.nii" if name.endswith("nii") else "packed.nii.gz").rename(path)
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    assert codes(volume) == []


def test_file__content_decides_and_a_name_that_says_otherwise_is_told(labels, save, codes):
    packed = save(labels).rename(save(labels).with_name("packed.nii"))
    plain = save(labels, name="mask.nii")
    plain = plain.rename(plain.with_name("plain.nii.gz"))
    for path, shown in ((packed, ".nii.gz"), (plain, ".nii")):
        volume = read_labels(path)
        np.testing.assert_array_equal(volume.labels, labels)
        assert codes(volume) == ["IMAGE_EXTENSION"]
        assert f"usually named {shown}." in volume.findings[0].message


def test_file__a_socket_is_no_image(tmp_path, refused, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("s.nii")
        assert refused(read_labels, tmp_path / "s.nii")[0].code == "IMAGE_NOT_A_FILE"


def _tiny_nifti(size=348):
    """Return the bytes of a 3x4x5 label map, packed with stored blocks so that mutations reach every layer."""
    data = bytearray(size + 4 + 60)
    struct.pack_into("<i", data, 0, size)
    if size == 348:
        struct.pack_into("<8h", data, 40, 3, 3, 4, 5, 1, 1, 1, 1)
        struct.pack_into("<hh", data, 70, 2, 8)
        struct.pack_into("<8f4f", data, 76, 1, 2, 2, 3, 1, 1, 1, 1, 352, 1, 0, 0)
        struct.pack_into("<hh3f3f", data, 252, 1, 1, 0, 0, 0, 0, 0, 0)
        struct.pack_into("<12f", data, 280, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0)
        data[344:348] = b"n+1\0"
    else:
        data[4:12] = b"n+2\0\r\n\x1a\n"
        struct.pack_into("<hh8q", data, 12, 2, 8, 3, 3, 4, 5, 1, 1, 1, 1)
        struct.pack_into("<8dqdd", data, 104, 1, 2, 2, 3, 1, 1, 1, 1, 544, 1, 0)
        struct.pack_into("<ii6d12d", data, 344, 1, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0)
    data[size + 4 :] = bytes(i % 3 for i in range(60))
    return bytes(data)


@pytest.mark.parametrize("size", [348, 540])
@pytest.mark.parametrize("layer", ["plain", "inside the gzip", "stored gzip", "deflated gzip"])
def test_fuzz__changed_bytes_give_a_volume_or_an_error(tmp_path, size, layer):
    plain = _tiny_nifti(size)
    path = tmp_path / "mask.nii.gz"
    seed = {"plain": plain, "inside the gzip": plain, "stored gzip": gzip.compress(plain, 0, mtime=0)}.get(
        layer, gzip.compress(plain, 9, mtime=0)
    )
    path.write_bytes(seed)
    whole = read_labels(path)
    assert whole.labels.sum() == 60

    edit = st.tuples(st.integers(0, len(seed) - 1), st.binary(min_size=1, max_size=8))

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(edits=st.lists(edit, min_size=1, max_size=4), cut=st.integers(0, 40), tail=st.binary(max_size=30))
    def check(edits, cut, tail):
        data = bytearray(seed)
        for place, new in edits:
            data[place : place + len(new)] = new[: len(data) - place]
        data = bytes(data[: len(data) - cut]) + tail
        path.write_bytes(gzip.compress(data, 1) if layer == "inside the gzip" else data)
        volume = _outcome(read_labels, path, max_bytes=1 << 24)
        if isinstance(volume, AuditError):
            return
        assert isinstance(volume, LabelVolume)
        assert volume.grid == read_header(path)
        assert volume.labels.dtype.kind in "iu"
        assert volume.labels.shape == volume.grid.shape
        assert min(volume.grid.spacing_mm) > 0
        if layer in {"stored gzip", "deflated gzip"}:  # what passes the checksum is what was packed
            np.testing.assert_array_equal(volume.labels, whole.labels)
        brought = _outcome(on_grid, volume, whole.grid, "fuzz")
        assert isinstance(brought, LabelVolume) or brought.findings[0].code == "GRID_MISMATCH"

    check()


def test_gzip__agrees_with_zlib_on_every_level_and_strategy(labels, save):
    path = save(labels)
    plain = gzip.decompress(path.read_bytes())
    for level in range(10):
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED):
            packer = zlib.compressobj(level, zlib.DEFLATED, 31, 8, strategy)
            path.write_bytes(packer.compress(plain) + packer.flush())
            np.testing.assert_array_equal(read_labels(path).labels, labels)
