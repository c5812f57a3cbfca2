"""Metrics: what two masks of one case say of each other."""

from segaudit.metrics.base import METRICS as METRICS
