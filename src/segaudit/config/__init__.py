"""The files a person writes (cohort.toml, audit.toml, limits.toml), checked before anything runs."""

from segaudit.config.base import read_toml as read_toml
