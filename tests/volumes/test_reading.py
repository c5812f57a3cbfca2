"""What a header says, and which whole numbers the voxels are."""

import nibabel as nib
import numpy as np
import pytest

from segaudit.volumes import read_header, read_labels


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
@pytest.mark.parametrize("endianness", ["<", ">"])
@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
@pytest.mark.parametrize("name", ["mask.nii", "mask.nii.gz"])
def test_reading__keeps_the_stored_integer_type(labels, affine, save, dtype, endianness, kind, name):
    path = save(labels.astype(dtype), name=name, kind=kind, endianness=endianness)
    volume = read_labels(path)
    assert volume.labels.dtype == np.dtype(dtype)
    assert volume.labels.dtype.isnative
    assert volume.labels.flags.f_contiguous
    assert not volume.labels.flags.writeable
    np.testing.assert_array_equal(volume.labels, labels)
    np.testing.assert_array_equal(volume.grid.affine, affine)
    assert volume.grid.spacing_mm == (4.0, 0.5, 0.5)
    assert volume.findings == ()
    assert read_header(path) == volume.grid


@pytest.mark.parametrize(
    "factor, slope, dtype, shown, why",
    [
        (10, 0.1, "i2", [0, 1, 2], "scl_slope 0.1 in float32: values are 1.0000000149"),
        (1, 0.0, "u1", [0, 1, 2], "slope 0 means no scaling, whatever inter says"),
        (1, np.nan, "u1", [0, 1, 2], "slope NaN means no scaling"),
        (1, 1.0, "u1", [5, 6, 7], "slope 1 and inter 5 shift the labels"),
        (1, -3.0, "u1", [-1, 2, 5], "a negative slope gives negative labels"),
        (1, 300.0, "u1", [5, 305, 605], "scaled labels beyond the stored type do not wrap"),
    ],
)
def test_reading__scaling_gives_whole_numbers(labels, save, factor, slope, dtype, shown, why):
    inter = {0.1: 0.0}.get(slope, 5.0)
    path = save((labels * factor).astype(dtype), scl_slope=slope, scl_inter=inter)
    assert np.unique(read_labels(path).labels).tolist() == sorted(shown), why


@pytest.mark.parametrize(
    "values, expected, dtype, rounded, why",
    [
        ([0, 1, 2], [0, 1, 2], "u1", False, "whole floats need no note"),
        ([0, 0.99993, 1.99986], [0, 1, 2], "u1", True, "a resampled map"),
        ([-1.0, 0, 3], [-1, 0, 3], "i1", False, "negative values stay negative"),
        ([0, 256, 257], [0, 256, 257], "u2", False, "257 does not become 1"),
        ([-0.0, 0.0009, 1], [0, 0, 1], "u1", True, "the edge of the tolerance"),
        ([-70000, 0, 3e9], [-70000, 0, 3_000_000_000], "i8", False, "wide labels"),
    ],
)
@pytest.mark.parametrize("stored", ["f4", "f8"])
def test_reading__float_labels_are_rounded_within_a_thousandth(
    save, codes, values, expected, dtype, rounded, why, stored
):
    array = np.resize(np.array(values, stored), (3, 4, 5))
    volume = read_labels(save(array))
    np.testing.assert_array_equal(volume.labels, np.resize(np.array(expected), (3, 4, 5)), why)
    assert volume.labels.dtype == np.dtype(dtype), why
    assert codes(volume) == ["IMAGE_ROUNDED"] * rounded, why


@pytest.mark.parametrize(
    "bad, shown, why",
    [
        (0.25, "0.25", "a probability map"),
        (1.002, "1.002", "just outside the tolerance"),
        (np.nan, "nan", "NaN"),
        (np.inf, "inf", "infinite"),
        (-np.inf, "-inf", "minus infinite"),
        (1e30, "1e+30", "whole, but beyond what float64 counts exactly"),
    ],
)
def test_reading__values_that_are_no_labels_are_refused_with_the_worst(save, refused, bad, shown, why):
    array = np.zeros((4, 5, 6), np.float32)
    array[0, 0, 1] = 1.0015
    array[1, 2, 3] = bad
    (finding,) = refused(read_labels, save(array))
    assert finding.code == "IMAGE_NOT_LABELS", why
    assert f"voxel (1, 2, 3) holds {shown}" in finding.message, why
    assert "2 of the 120 values" in finding.message, why


def test_reading__the_worst_value_is_found_in_a_later_block(save, refused):
    array = np.zeros((80, 80, 80), np.float32)
    array[79, 79, 79] = 0.4
    (finding,) = refused(read_labels, save(array, name="mask.nii"))
    assert "voxel (79, 79, 79) holds 0.4" in finding.message


def test_reading__labels_outside_a_byte_do_not_wrap(labels, save):
    wide = labels.astype(np.int16)
    wide[5, 19, 0:5], wide[5, 19, 5:10], wide[5, 19, 10:15] = 257, -1, 256
    read = read_labels(save(wide)).labels
    assert [int((read == value).sum()) for value in (1, 2, 257, -1, 256)] == [168, 72, 5, 5, 5]


@pytest.mark.parametrize("shape", [(6, 20, 24, 1), (6, 20, 24, 1, 1), (6, 20, 24, 1, 1, 1, 1)])
def test_reading__trailing_axes_of_length_one_are_left_out(labels, affine, save, shape):
    volume = read_labels(save(labels.reshape(shape)))
    assert volume.grid.shape == (6, 20, 24)
    np.testing.assert_array_equal(volume.labels, labels)


def test_reading__two_dimensions(labels, save):
    volume = read_labels(save(labels[2], np.diag([0.5, 0.25, 1, 1]), name="slice.nii"))
    assert volume.grid.shape == (20, 24)
    assert volume.grid.spacing_mm == (0.5, 0.25)
    np.testing.assert_array_equal(volume.labels, labels[2])


@pytest.mark.parametrize("shape", [(6, 20, 12, 2), (6, 20, 24, 1, 3), (2880,)])
def test_reading__other_numbers_of_dimensions_are_refused(labels, save, refused, shape):
    (finding,) = refused(read_labels, save(np.resize(labels, shape)))
    assert finding.code == "IMAGE_DIMENSIONS"
    assert str(shape) in finding.message


@pytest.mark.parametrize(
    "dim", [[0, 6, 20, 24, 1, 1, 1, 1], [3, 6, 0, 24, 1, 1, 1, 1], [3, -6, 20, 24, 1, 1, 1, 1], [8] * 8]
)
def test_reading__impossible_lengths_are_refused(labels, save, refused, dim):
    (finding,) = refused(read_labels, save(labels, dim=dim))
    assert finding.code == "IMAGE_DIMENSIONS"


@pytest.mark.parametrize(
    "datatype, code, why",
    [
        (128, "IMAGE_COLOUR", "RGB24"),
        (2304, "IMAGE_COLOUR", "RGBA32"),
        (32, "IMAGE_NOT_LABELS", "complex64"),
        (1792, "IMAGE_NOT_LABELS", "complex128"),
        (1, "IMAGE_NOT_LABELS", "1-bit"),
        (1536, "IMAGE_NOT_LABELS", "float128"),
        (77, "IMAGE_NOT_LABELS", "unknown code 77"),
    ],
)
def test_reading__types_that_hold_no_labels_are_refused(labels, save, refused, datatype, code, why):
    (finding,) = refused(read_labels, save(labels, datatype=datatype))
    assert (finding.code, why in finding.message) == (code, True)


def test_reading__all_faults_of_a_header_at_once(labels, save, refused):
    path = save(
        labels, dim=[4, 6, 20, 12, 2, 1, 1, 1], datatype=128, scl_slope=np.inf, vox_offset=3, srow_x=[0, 0, 0, 0]
    )
    found = [finding.code for finding in refused(read_labels, path)]
    assert found == ["IMAGE_DIMENSIONS", "IMAGE_COLOUR", "IMAGE_HEADER", "IMAGE_HEADER", "IMAGE_SPACING"]


def test_reading__starts_after_header_extensions(labels, save, tmp_path, affine):
    image = nib.Nifti1Image(labels, affine)
    image.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"x" * 100))
    path = tmp_path / "extended.nii.gz"
    nib.save(image, path)
    assert nib.load(path).dataobj.offset == 464
    volume = read_labels(path)
    np.testing.assert_array_equal(volume.labels, labels)
    assert read_header(path) == volume.grid


@pytest.mark.parametrize("offset", [0, 348, 351, 352.5, np.nan, np.inf, -352])
def test_reading__voxels_inside_the_header_are_refused(labels, save, refused, offset):
    (finding,) = refused(read_labels, save(labels, vox_offset=offset))
    assert finding.code == "IMAGE_HEADER"
    assert "vox_offset" in finding.message


@pytest.mark.parametrize("name", ["mask.nii", "mask.nii.gz"])
def test_reading__an_offset_beyond_the_file_is_refused(labels, save, refused, name):
    (finding,) = refused(read_labels, save(labels, name=name, vox_offset=1e20))
    assert finding.code == "IMAGE_TRUNCATED"


def test_spacing__is_of_the_affine_and_not_of_pixdim(labels, affine, save, codes):
    only_sform = read_labels(save(labels, sform_code=2, qform_code=0, pixdim=[1] * 8))
    both = read_labels(save(labels, sform_code=1, qform_code=1, pixdim=[1] * 8, quatern_b=0, qoffset_x=0))
    assert only_sform.grid.spacing_mm == both.grid.spacing_mm == (4.0, 0.5, 0.5)
    assert codes(only_sform) == ["IMAGE_PIXDIM"]
    assert "(1, 1, 1) mm, the sform in use (4, 0.5, 0.5) mm" in only_sform.findings[0].message
    assert codes(both) == ["IMAGE_PIXDIM", "IMAGE_TWO_AFFINES"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("hand", [1.0, -1.0])
def test_affine__of_a_qform_is_nibabels(labels, save, seed, hand):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    affine = np.eye(4)
    affine[:3, :3] = turn * np.sign(np.linalg.det(turn)) * [hand * 0.7, 1.3, 3.0]
    affine[:3, 3] = rng.normal(size=3) * 100
    path = save(labels, affine, sform_code=0, qform_code=1)
    nibabels = nib.load(path)
    nibabels.set_qform(affine, 1)
    nibabels.set_sform(None, 0)
    nib.save(nibabels, path)
    volume = read_labels(path)
    np.testing.assert_allclose(volume.grid.affine, nib.load(path).affine, rtol=0, atol=1e-9)
    np.testing.assert_allclose(volume.grid.affine, affine, rtol=0, atol=1e-3)
    np.testing.assert_allclose(volume.grid.spacing_mm, (0.7, 1.3, 3.0), rtol=1e-6)


def test_affine__without_codes_is_pixdim_without_orientation(labels, save, codes):
    path = save(labels, sform_code=0, qform_code=0, pixdim=[1, 4, 0.5, -0.5, 1, 1, 1, 1])
    volume = read_labels(path)
    assert volume.grid.spacing_mm == (4.0, 0.5, 0.5)
    assert not volume.grid.oriented
    assert codes(volume) == ["IMAGE_NO_ORIENTATION"]


@pytest.mark.parametrize("unit, spacing", [(1, (4000.0, 500.0, 500.0)), (3, (0.004, 0.0005, 0.0005))])
def test_affine__other_units_of_length_become_mm(labels, save, codes, unit, spacing):
    volume = read_labels(save(labels, xyzt_units=unit))
    assert volume.grid.spacing_mm == pytest.approx(spacing, rel=1e-12)
    assert codes(volume) == ["IMAGE_UNITS"]


@pytest.mark.parametrize(
    "fields, why",
    [
        ({"srow_y": [0, 0, 0, 0]}, "a spacing of 0"),
        ({"srow_x": [np.nan, 0, 0, 0]}, "NaN"),
        ({"srow_x": [3e38, 0, 0, 0]}, "beyond any image"),
        ({"srow_x": [4, 4, 0, 0], "srow_y": [0, 0, 0, 0], "srow_z": [0, 0, 0.5, 0]}, "two axes that run the same way"),
        ({"sform_code": 0, "qform_code": 0, "pixdim": [1, 0, 1, 1, 1, 1, 1, 1]}, "pixdim 0"),
        ({"sform_code": 0, "qform_code": 1, "pixdim": [1, 1, np.nan, 1, 1, 1, 1, 1]}, "pixdim NaN"),
        ({"sform_code": 0, "qform_code": 1, "quatern_b": 2.0}, "no unit quaternion"),
    ],
)
def test_affine__without_usable_spacing_is_refused(labels, save, refused, fields, why):
    (finding,) = refused(read_labels, save(labels, **fields))
    assert finding.code == "IMAGE_SPACING", why


def test_affine__a_shear_is_told(labels, affine, save, codes):
    affine[1, 0] = 0.4
    volume = read_labels(
        save(labels, affine, sform_code=1, qform_code=0, pixdim=[1, np.hypot(4, 0.4), 0.5, 0.5, 1, 1, 1, 1])
    )
    assert codes(volume) == ["IMAGE_SHEARED"]
    assert "84.29 degrees" in volume.findings[0].message


@pytest.mark.parametrize(
    "magic, shown",
    [(b"ni1\0", "another file"), (b"\0\0\0\0", "Analyze"), (b"n+2\0", "Analyze or damaged")],
)
def test_reading__other_348_byte_headers_are_refused(labels, save, refused, magic, shown):
    (finding,) = refused(read_labels, save(labels, magic=magic))
    assert finding.code == "IMAGE_NOT_NIFTI"
    assert shown in finding.message
