"""write_labels: what nibabel reads back, the same bytes for the same labels, and a file whole or not at all."""

import nibabel as nib
import numpy as np
import pytest

from segaudit.volumes import read_labels, write_labels


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", ">i2"])
@pytest.mark.parametrize("name", ["a b.nii", "ä.nii.gz"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_write__nibabel_and_we_read_it_back(tmp_path, labels, affine, dtype, name, order):
    affine[:3, :3] = affine[:3, :3] @ [[0, 1, 0], [0, 0, -1], [1, 0, 0]]
    path = tmp_path / name
    write_labels(path, np.array(labels, dtype, order=order), affine=affine)
    image = nib.load(path)
    stored = np.asarray(image.dataobj)
    np.testing.assert_array_equal(stored, labels)
    np.testing.assert_array_equal(image.affine, affine)
    assert image.header.get_zooms() == (0.5, 4.0, 0.5) or image.header.get_zooms() == (0.5, 0.5, 4.0)
    assert image.header.get_xyzt_units()[0] == "mm"
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    np.testing.assert_array_equal(volume.grid.affine, affine)
    assert volume.labels.dtype == np.dtype(dtype).newbyteorder("=")
    assert volume.findings == ()


def test_write__bool_and_two_dimensions(tmp_path, labels):
    path = tmp_path / "slice.nii.gz"
    write_labels(path, labels[2] == 1, spacing_mm=(0.5, 0.25))
    volume = read_labels(path)
    assert volume.labels.dtype == np.uint8
    assert volume.grid.spacing_mm == (0.5, 0.25)
    np.testing.assert_array_equal(volume.labels, labels[2] == 1)
    assert nib.load(path).shape == (20, 24)


def test_write__the_same_labels_give_the_same_bytes(tmp_path, labels):
    for name in ("one.nii.gz", "another name.nii.gz"):
        write_labels(tmp_path / name, labels, spacing_mm=(4, 0.5, 0.5))
    one, other = ((tmp_path / name).read_bytes() for name in ("one.nii.gz", "another name.nii.gz"))
    assert one == other
    assert one[4:8] == bytes(4)


def test_write__a_failure_leaves_the_old_file_and_nothing_else(tmp_path, labels, refused, monkeypatch):
    path = tmp_path / "mask.nii.gz"
    write_labels(path, labels, spacing_mm=(1, 1, 1))
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("segaudit.volumes.writers._write", fail)
    (finding,) = refused(write_labels, path, labels + 1, spacing_mm=(1, 1, 1))
    assert finding.code == "IMAGE_NOT_WRITTEN"
    assert "No space left" in finding.message
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["mask.nii.gz"]


def test_write__a_missing_folder_is_told(tmp_path, labels, refused):
    assert (
        refused(write_labels, tmp_path / "no" / "mask.nii", labels, spacing_mm=(1, 1, 1))[0].code == "IMAGE_NOT_WRITTEN"
    )


@pytest.mark.parametrize(
    "array, name, options, shown",
    [
        (np.zeros((2, 2, 2), np.float32), "m.nii", {"spacing_mm": (1, 1, 1)}, "float32"),
        (np.zeros((2, 2, 2, 2), np.uint8), "m.nii", {"affine": np.eye(4)}, "(2, 2, 2, 2)"),
        (np.zeros((0, 2, 2), np.uint8), "m.nii", {"affine": np.eye(4)}, "(0, 2, 2)"),
        (np.zeros((40000, 2, 2), np.uint8), "m.nii", {"affine": np.eye(4)}, "40000"),
        (np.zeros((2, 2, 2), np.uint8), "m.png", {"affine": np.eye(4)}, "m.png"),
        (np.zeros((2, 2, 2), np.uint8), "m.nii", {}, "spacing_mm or affine"),
        (
            np.zeros((2, 2, 2), np.uint8),
            "m.nii",
            {"affine": np.eye(4), "spacing_mm": (1, 1, 1)},
            "spacing_mm or affine",
        ),
    ],
)
def test_write__what_cannot_be_written_is_a_fault_of_the_program(tmp_path, array, name, options, shown):
    with pytest.raises(ValueError) as caught:
        write_labels(tmp_path / name, array, **options)
    assert shown in str(caught.value)
    assert list(tmp_path.iterdir()) == []
