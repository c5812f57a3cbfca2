"""A fixed budget: the same inputs every time, and an end to time and memory for each."""

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


@contextmanager
def _bounded(seconds: float = 5.0, mib: float = 256.0) -> Iterator[None]:
    """Fail when the block takes longer than `seconds`, or the peak of memory grows by more than `mib`."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.monotonic() - start < seconds
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024 < mib


@pytest.fixture
def bounded() -> Callable[..., object]:
    return _bounded
