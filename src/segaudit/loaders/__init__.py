"""Loaders: a folder as others deliver it becomes a cohort."""
