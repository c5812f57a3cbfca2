"""Every finding an image file can give: its code, its level and the way to mend it, said once."""

from __future__ import annotations

from pathlib import Path

from segaudit.errors import AuditError, Finding, Level

_AGAIN = "copy or export the file again from where it came."
_AS_INTEGERS = "store one whole number a voxel."

FAULTS: dict[str, tuple[Level, str]] = {
    "IMAGE_MISSING": (
        "error",
        "check the path, or leave the mask out of the mask set so that the case counts as missing.",
    ),
    "IMAGE_NOT_A_FILE": ("error", "name the image file itself; DICOM folders must be converted to NIfTI first."),
    "IMAGE_UNREADABLE": ("error", "check the file's permissions and the disk."),
    "IMAGE_EMPTY_FILE": ("error", _AGAIN),
    "IMAGE_NOT_NIFTI": ("error", "convert the file to one single NIfTI file (.nii or .nii.gz)."),
    "IMAGE_NOT_PNG": ("error", "convert the file to PNG, or to NIfTI (.nii or .nii.gz)."),
    "IMAGE_TRUNCATED": ("error", _AGAIN),
    "IMAGE_CORRUPT": ("error", _AGAIN),
    "IMAGE_HEADER": ("error", "write the file again with a tool that keeps to the NIfTI standard."),
    "IMAGE_TOO_LARGE": ("error", "check the header, or raise max_bytes if the image is really that large."),
    "IMAGE_DIMENSIONS": ("error", "store one 2-D or 3-D label map a file."),
    "IMAGE_COLOUR": ("error", f"{_AS_INTEGERS[:-1]}, not a colour (a palette PNG is read by its indices)."),
    "IMAGE_NOT_LABELS": ("error", f"{_AS_INTEGERS[:-1]}: a label map, not probabilities or an image."),
    "IMAGE_SPACING": (
        "error",
        "write the voxel spacing and orientation of the image into the header (sform or qform).",
    ),
    "IMAGE_NOT_WRITTEN": ("error", "check that the folder exists, may be written to and has room."),
    "GRID_MISMATCH": (
        "error",
        "resample the mask to the image grid with nearest neighbours, or exclude the case with a reason.",
    ),
    "GRID_NO_ORIENTATION": ("warning", "write the image's sform or qform into both files."),
    "GRID_ROUNDED": ("note", "none needed: headers keep positions in float32."),
    "GRID_REORIENTED": ("note", "none needed: the voxels are the same, only their order in the file differs."),
    "IMAGE_TRAILING_BYTES": ("warning", "check that the file was not joined with another; the bytes were not used."),
    "IMAGE_PIXDIM": ("warning", "write pixdim and affine alike: other tools may take the other one."),
    "IMAGE_TWO_AFFINES": ("warning", "write sform and qform alike: other tools may take the other one."),
    "IMAGE_SHEARED": ("warning", "resample to perpendicular axes: distances are computed as if they were."),
    "IMAGE_UNITS": ("warning", "check that the header's unit of length is the one meant; it was converted to mm."),
    "IMAGE_NO_ORIENTATION": ("note", "write the image's sform or qform, so that grids can be compared in full."),
    "IMAGE_PIXELS": ("note", "read distances in pixels, or use NIfTI where they must be in mm."),
    "IMAGE_EXTENSION": ("note", "rename the file to what it holds."),
    "IMAGE_ROUNDED": ("note", _AS_INTEGERS),
}


def finding(code: str, message: str, where: Path | str) -> Finding:
    """Return the finding of this code with its level and fix."""
    level, fix = FAULTS[code]
    return Finding(code, message, str(where), fix, level)


def refusal(code: str, message: str, where: Path | str) -> AuditError:
    """Return the error, ready to raise, of one finding."""
    return AuditError(finding(code, message, where))
