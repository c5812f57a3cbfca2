"""Label maps of the kinds that meet in practice, written by nibabel: not by the writer under test."""

import nibabel as nib
import numpy as np
import pytest

AFFINE = np.array([[4.0, 0, 0, -10], [0, 0.5, 0, -20], [0, 0, 0.5, -30], [0, 0, 0, 1]])


@pytest.fixture
def labels():
    """Two structures on a grid of three different lengths, so that no axis can be taken for another."""
    array = np.zeros((6, 20, 24), np.uint8)
    array[1:4, 3:10, 4:12] = 1
    array[1:4, 10:13, 4:12] = 2
    return array


@pytest.fixture
def affine():
    return AFFINE.copy()


@pytest.fixture
def save(tmp_path):
    """Return a function that writes an array with nibabel and then sets header fields in the file's bytes."""

    def write(array, affine=AFFINE, name="mask.nii.gz", kind=nib.Nifti1Image, endianness="<", **fields):
        header = kind.header_class(endianness=endianness)
        header.set_data_dtype(array.dtype)
        image = kind(array, affine, header)
        plain = bytearray(image.to_bytes())
        on_disk = kind.header_class(bytes(plain[: header.sizeof_hdr]), endianness, check=False)
        for field, value in fields.items():
            on_disk.structarr[field] = value
        plain[: header.sizeof_hdr] = on_disk.structarr.tobytes()
        path = tmp_path / name
        path.write_bytes(_packed(bytes(plain)) if name.endswith(".gz") else bytes(plain))
        return path

    return write


def _packed(data):
    import gzip

    return gzip.compress(data, 6, mtime=0)


@pytest.fixture
def codes():
    """Return a function: the finding codes of a volume."""
    return lambda volume: [finding.code for finding in volume.findings]


@pytest.fixture
def refused():
    """Return a function: the findings of the AuditError that a call must raise, each with place and fix."""
    from segaudit.errors import AuditError

    def call(fn, *args, **options):
        with pytest.raises(AuditError) as caught:
            fn(*args, **options)
        assert all(finding.where and finding.fix and finding.level == "error" for finding in caught.value.findings)
        return caught.value.findings

    return call
