"""The only door to Dask: an executor over the workers of a cluster that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module

from segaudit.errors import AuditError, Finding

_TIMEOUT_S = 10


@contextmanager
def cluster(address: str, *, timeout_s: float = _TIMEOUT_S) -> Iterator[Executor]:
    """Give an executor that runs what it is given on the workers of a Dask scheduler.

    The workers need the same version of segaudit and see the files under the same absolute paths. A task whose worker
    dies goes to another one; a task that several workers died of is given up.

    Parameters
    ----------
    address : str
        Of the scheduler, as tcp://host:8786.
    timeout_s : float
        How long to wait for it, in seconds.

    Raises
    ------
    AuditError
        CLUSTER_EXTRA_MISSING or CLUSTER_UNREACHABLE.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        fact = "the package 'distributed', which talks to the cluster, is not installed."
        fix = "pip install 'segaudit[dask]'"
        raise AuditError(Finding("CLUSTER_EXTRA_MISSING", fact, f"--scheduler {address}", fix)) from None
    try:
        client = distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        fact = f"no Dask scheduler answers at {address}: {str(error) or type(error).__name__}."
        fix = "start it (dask scheduler) or give the address that it tells, as tcp://host:8786."
        raise AuditError(Finding("CLUSTER_UNREACHABLE", fact, f"--scheduler {address}", fix)) from None
    with client, client.get_executor(pure=False) as executor:
        yield executor


def gave_up(error: BaseException) -> bool:
    """Return whether a cluster says that it gives a task up because its workers died of it."""
    kind = type(error)
    return kind.__name__ == "KilledWorker" and kind.__module__.partition(".")[0] == "distributed"
