"""A fixed budget: the same inputs every time, and an end to time and memory for each."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def _memory_mib(key: str) -> float:
    """Memory of this process by a line of its status: VmRSS as it is, VmHWM at its highest."""
    return int(Path("/proc/self/status").read_text().split(f"{key}:")[1].split()[0]) / 1024


@contextmanager
def _bounded(seconds: float = 5.0, mib: float = 256.0) -> Iterator[None]:
    """Fail when the block takes longer than `seconds`, or memory rises at any moment by more than `mib`."""
    on_linux = sys.platform == "linux"
    if on_linux:
        Path("/proc/self/clear_refs").write_text("5")  # forgets what earlier tests used
        before = _memory_mib("VmRSS")
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds
    if on_linux:
        assert _memory_mib("VmHWM") - before < mib


@pytest.fixture
def bounded() -> Callable[..., object]:
    return _bounded
