"""segaudit audits segmentation models for group disparities, and the reference they are scored against."""

__version__ = "0.1.0"
