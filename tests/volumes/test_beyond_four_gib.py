"""Images of more than 4 GiB: sizes, places and the length that gzip keeps in 32 bits do not wrap."""

import gzip
import os

import nibabel as nib
import numpy as np
import pytest
from isal import igzip

from segaudit.metrics import measure
from segaudit.volumes import read_labels

SHAPE = (2048, 2048, 1030)  # voxels from slice 1024 on lie beyond 2**32
MARKED = range(1026, 1029)


@pytest.fixture(scope="module", params=[".nii.gz", ".nii"])
def large(request, tmp_path_factory):
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 10 * 2**30:
        pytest.skip("an image of 4.1 GiB is read where the machine has 10 GiB of memory")
    path = tmp_path_factory.mktemp("large") / f"large{request.param}"
    header = nib.Nifti1Header()
    header.set_data_dtype(np.uint8)
    header.set_data_shape(SHAPE)
    header.set_sform(np.eye(4), code=1)
    header["vox_offset"] = 352
    start = bytearray(header.binaryblock + bytes(4))
    start[344:348] = b"n+1\0"
    plane = np.zeros(SHAPE[:2], np.uint8, order="F")
    plane[100:140, 200:230] = 1
    planes = {False: bytes(plane.size), True: plane.tobytes(order="F")}
    if path.suffix == ".gz":
        with igzip.open(path, "wb", compresslevel=1) as file:
            file.write(start)
            for z in range(SHAPE[2]):
                file.write(planes[z in MARKED])
    else:
        with path.open("wb") as file:  # of which the zeros take no room on most disks
            file.write(start)
            for z in MARKED:
                file.seek(len(start) + z * plane.size)
                file.write(planes[True])
            file.truncate(len(start) + SHAPE[2] * plane.size)
    yield path
    path.unlink()


@pytest.mark.slow
def test_reading__labels_beyond_4_gib_are_in_place_and_counted(large):
    volume = read_labels(large)
    assert volume.labels.shape == SHAPE
    assert volume.findings == ()
    found = measure(volume.labels, volume.labels, {"a": (1,)}, {"a": (1,)}, (1.0, 1.0, 1.0))["a"]
    assert (found.counts.tp, found.counts.fp, found.counts.fn) == (3 * 40 * 30, 0, 0)
    assert found.counts.tn == np.prod(SHAPE, dtype=np.int64) - 3600
    assert (found.hd95, found.components_prediction) == (0.0, 1)
    np.testing.assert_array_equal(volume.labels[100:140, 200:230, 1026:1029], 1)
    if large.suffix == ".gz":
        with gzip.open(large) as file:  # the reader of Python agrees on the last voxels
            file.seek(352 + 1028 * 2048 * 2048)
            assert file.read(2048 * 2048) == volume.labels[:, :, 1028].tobytes(order="F")
