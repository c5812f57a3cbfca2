"""Run tasks over processes: few at a time, through the death of a worker, and without orphans."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, parent_process
from queue import SimpleQueue

from segaudit.errors import AuditError, Finding
from segaudit.scores.clusters import gave_up
from segaudit.scores.tasks import Done, Task, measure_case

# Tasks that wait or run at one time: enough that no worker idles, few enough that memory stays flat.
_WAITING_PER_WORKER = 4
_WAITING_ELSEWHERE = 1024
_SHOWN = 5

Results = Generator[tuple[Task, Done], None, list[Task]]


def run(tasks: Iterator[Task], workers: int, executor: Executor | None) -> Generator[tuple[Task, Done], None, None]:
    """Give each task with what came out of it, in the order in which they end.

    With own processes a worker that dies is replaced. The tasks that it may have died of are tried again, each alone:
    one that kills its worker again is given up with the error WORKER_KILLED, and the others go on.

    Raises
    ------
    AuditError
        EXECUTOR_BROKEN when an executor that was given ends before the tasks do, EXECUTOR_IMPORT when its workers have
        no segaudit.
    """
    if executor is not None:
        lost = yield from _window(executor, tasks, _WAITING_ELSEWHERE)
        if lost:
            raise _broken(lost)
    elif workers == 1:
        for task in tasks:
            yield task, measure_case(task)
    else:
        yield from _own(tasks, workers)


def _own(tasks: Iterator[Task], workers: int) -> Iterator[tuple[Task, Done]]:
    lost: list[Task] | None = None
    while lost is None or lost:
        with _pool(workers) as pool:
            lost = yield from _window(pool, tasks, _WAITING_PER_WORKER * workers)
        yield from _one_by_one(lost)


def _one_by_one(tasks: list[Task]) -> Iterator[tuple[Task, Done]]:
    """Give each task with what came out of it, where only the one under way can have killed the worker."""
    left = iter(tasks)
    killed = tasks
    while killed:
        with _pool(1) as pool:
            killed = yield from _window(pool, left, 1)
        for task in killed:
            yield task, Done(task.case, errors=(_killed(task),))


def _window(executor: Executor, tasks: Iterator[Task], size: int) -> Results:
    """Give each task that ended, with never more than `size` under way; return those that a broken executor lost."""
    ended: SimpleQueue[Future[Done]] = SimpleQueue()
    under_way: dict[Future[Done], Task] = {}
    lost: list[Task] = []
    while True:
        while len(under_way) < size and not lost and (task := next(tasks, None)) is not None:
            try:
                future = executor.submit(measure_case, task)
            except BrokenExecutor:
                lost.append(task)
            else:
                under_way[future] = task
                future.add_done_callback(ended.put)
        if not under_way:
            return lost
        future = ended.get()
        task = under_way.pop(future)
        error = None if future.cancelled() else future.exception()
        if future.cancelled() or isinstance(error, BrokenExecutor):
            lost.append(task)
        elif error is None:
            yield task, future.result()
        elif gave_up(error):
            yield task, Done(task.case, errors=(_killed(task),))
        elif isinstance(error, ImportError):
            fact = f"a worker cannot import what it needs: {error}."
            fix = "install the same version of segaudit where the workers run."
            raise AuditError(Finding("EXECUTOR_IMPORT", fact, "executor", fix)) from None
        else:
            raise error


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give own processes, which end with the block however it ends, and with this process however that ends."""
    pool = ProcessPoolExecutor(workers, initializer=_begin)
    try:
        yield pool
    except BaseException:  # an interrupt, too: nobody waits for what is under way
        for process in list((pool._processes or {}).values()):  # noqa: SLF001  # public from Python 3.14 on only
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a worker: an interrupt is its parent's to handle, and it does not outlive its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _killed(task: Task) -> Finding:
    fact = f"case '{task.case}' killed its worker twice, for want of memory most likely."
    where = ", ".join(dict.fromkeys(source.path for pair in task.pairs for source in pair))
    return Finding("WORKER_KILLED", fact, where, "use fewer workers or a machine with more memory, or leave it out.")


def _broken(lost: list[Task]) -> AuditError:
    shown = ", ".join(f"'{task.case}'" for task in lost[:_SHOWN]) + (" and others" if len(lost) > _SHOWN else "")
    fact = f"the executor ended while case {shown} ran."
    return AuditError(Finding("EXECUTOR_BROKEN", fact, "executor", "run again: what was measured is in the ledger."))
