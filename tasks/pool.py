"""Processes that fit models, and the record of when they did.

Torch keeps state per process and Prefect's default runner is threads: a task therefore hands its
fit to a plain worker process and waits. On a Dask cluster the task is already in a process of its
own, no pool is open, and the same call runs in place. Results are identical either way.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from tdrop.errors import FitError

P = ParamSpec("P")
R = TypeVar("R")

#: Counted from when a fit is queued; a fit that takes this long will not end well.
FIT_LIMIT_SECONDS = 24 * 3600

#: A fit whose worker died is tried this often: it may have been a neighbour's memory that ran out.
TRIES = 2

_pool: ProcessPoolExecutor | None = None
_pool_lock = threading.Lock()
_spans: list[tuple[float, float]] = []


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[None]:
    """Opens `count` worker processes (default: one a core) for the tasks inside the block; 0 works in place."""
    global _pool
    if _pool is not None or count == 0:
        yield
        return
    _pool = _open_pool(count or os.cpu_count() or 1)
    try:
        yield
    finally:
        _pool.shutdown(wait=True, cancel_futures=True)
        _pool = None


def _open_pool(workers: int) -> ProcessPoolExecutor:
    # Spawned, not forked: the parent runs threads, and torch does not survive a fork of them.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_start_worker)


def _replace(broken: ProcessPoolExecutor) -> None:
    """Opens new workers where one has died: a broken pool refuses all further work, also other sites'."""
    global _pool
    with _pool_lock:
        if _pool is broken:
            _pool = _open_pool(broken._max_workers)  # type: ignore[attr-defined]


def _start_worker() -> None:
    import signal

    # Ctrl-C belongs to the parent, which then shuts the workers down.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _leave_with_parent() -> None:
    """Ends this worker when its parent is killed: nobody would ever send it work again."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def compute(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a picklable function in a worker process, or here when no pool is open."""
    start, end, result = _in_a_worker(function, args, kwargs)
    _spans.append((start, end))
    return result


def _in_a_worker(function: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
    for _ in range(TRIES):
        pool = _pool
        if pool is None:
            return _timed(function, args, kwargs)
        try:
            return pool.submit(_timed, function, args, kwargs).result(FIT_LIMIT_SECONDS)
        except TimeoutError as error:
            raise FitError(
                f"a fit took longer than {FIT_LIMIT_SECONDS / 3600:.0f} h; use fewer rows or steps"
            ) from error
        except BrokenProcessPool:
            _replace(pool)
    raise FitError("a worker process died twice (out of memory?); run again with fewer processes")


def _timed(function: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
    start = time.time()
    result = function(*args, **kwargs)
    return start, time.time(), result


def reset_spans() -> None:
    """Forgets the fits recorded so far."""
    _spans.clear()


def busy_seconds() -> float:
    """Seconds during which at least one fit or sampling ran: overlapping work counts once."""
    total, reached = 0.0, 0.0
    for start, end in sorted(_spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
