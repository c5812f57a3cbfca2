"""The compiled kernel; None where none was built, and NumPy does the same work."""

try:
    from segaudit.metrics import _kernel

    KERNEL = _kernel
except ImportError:
    KERNEL = None  # type: ignore[assignment]
