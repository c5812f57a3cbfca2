"""Every real mask at hand: read as nibabel reads it, and paired on one grid except the two known pairs."""

import nibabel as nib
import numpy as np
import pytest

from segaudit.errors import AuditError
from segaudit.volumes import on_grid, read_header, read_labels

FOLDERS = {"cxr_two_physicians": 150, "lidc_four_readers": 532, "prostate_human_vs_ai": 590}
PAIRS = [
    ("cxr_two_physicians/masks/physician_1", "cxr_two_physicians/masks/auto_hybridgnet"),
    ("cxr_two_physicians/masks/physician_2", "cxr_two_physicians/masks/auto_hybridgnet"),
    ("lidc_four_readers/masks/reader1", "lidc_four_readers/masks/reader2"),
    ("lidc_four_readers/masks/reader1", "lidc_four_readers/masks/reader3"),
    ("lidc_four_readers/masks/reader1", "lidc_four_readers/masks/reader4"),
    ("prostate_human_vs_ai/lesion_human", "prostate_human_vs_ai/lesion_ai_Bosma22a"),
]
OTHER_GRIDS = {"10408_1000415.nii.gz", "10459_1000467.nii.gz"}


@pytest.mark.parametrize(
    "folder", [pytest.param(name, marks=pytest.mark.slow) if "prostate" in name else name for name in FOLDERS]
)
def test_real_masks__are_read_as_nibabel_reads_them(shared, folder):
    paths = sorted((shared / "data" / folder).rglob("*.nii.gz"))
    assert len(paths) == FOLDERS[folder]
    for path in paths:
        volume, image = read_labels(path), nib.load(path)
        expected = np.asarray(image.dataobj)
        assert volume.labels.dtype == expected.dtype, path
        assert np.array_equal(volume.labels, expected), path
        np.testing.assert_allclose(volume.grid.affine, image.affine, rtol=0, atol=1e-9, err_msg=str(path))
        assert volume.findings == (), path


@pytest.mark.parametrize("reference, prediction", PAIRS)
def test_real_masks__only_two_pairs_lie_on_different_grids(shared, reference, prediction):
    for path in sorted((shared / "data" / reference).glob("*.nii.gz")):
        other = shared / "data" / prediction / path.name
        grid = read_header(path)
        volume = read_labels(other)
        if path.name in OTHER_GRIDS:
            with pytest.raises(AuditError, match=r"GRID_MISMATCH: .* differ in shape .*, spacing "):
                on_grid(volume, grid, str(other))
        else:
            brought = on_grid(volume, grid, str(other))
            assert brought.labels is volume.labels
            assert {finding.code for finding in brought.findings} <= {"GRID_ROUNDED"}
