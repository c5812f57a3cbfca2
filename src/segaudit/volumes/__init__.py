"""The only door to image files: from a file to whole-number labels on a checked grid, and back."""

from segaudit.volumes.grids import Grid, LabelVolume, on_grid
from segaudit.volumes.readers import DEFAULT_MAX_BYTES, read_header, read_labels
from segaudit.volumes.writers import write_labels

__all__ = ["DEFAULT_MAX_BYTES", "Grid", "LabelVolume", "on_grid", "read_header", "read_labels", "write_labels"]
