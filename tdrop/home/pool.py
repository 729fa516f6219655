"""Worker processes that fit models.

Torch keeps state per process and Prefect's tasks run in threads, so a task passes its fit to a worker process and
waits. On a Dask cluster every task has its own process: no pool is open, and the same call runs there. The results are
identical.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import copy_context
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from tdrop.base import FitError
from tdrop.home.progress import on_interrupt, raise_if_interrupted

P = ParamSpec("P")
R = TypeVar("R")

#: Not forked from this process, whose threads torch would not survive: on Linux from a server process that loads once
#: what every worker needs, so that they share its memory; elsewhere each worker loads it itself.
CONTEXT = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
#: What workers import, loaded once by the fork server.
PRELOADED = (
    "tdrop.methods.transductive_dropout",
    "tdrop.methods.gradient_boosting",
    "tdrop.methods.logistic_regression",
    "tdrop.evaluate.run",
    "tdrop.forecast.run",
    "tasks.train",
)
#: How often a fit is tried if its worker dies, for example because memory ran out.
TRIES = 3

_pool: WorkerPool | None = None
#: Whether the number of worker processes was decided.
_decided = False
_spans: list[tuple[float, float]] = []


class WorkerPool:
    """Worker processes with one fit each, so that a worker's death concerns that fit only."""

    def __init__(self, count: int) -> None:
        # A worker exits when the other end of its pipe closes: when this process ends or is interrupted.
        self._lifeline, self._hold = CONTEXT.Pipe(duplex=False)
        self._count = count
        self._idle: queue.Queue[ProcessPoolExecutor] = queue.Queue()
        for _ in range(count):
            self._idle.put(self._start())

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, CONTEXT, initializer=_start_worker, initargs=(self._lifeline,))

    def run(self, fn: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
        """Runs a picklable function in the next idle worker; a worker that dies is replaced and the fit tried again."""
        worker = self._idle.get()
        try:
            for _ in range(TRIES):
                raise_if_interrupted()
                try:
                    with _ignoring_ctrl_c():
                        future = worker.submit(_timed, fn, args, kwargs)
                    return future.result()
                except (BrokenProcessPool, OSError, EOFError):
                    # The server process that forks workers may be about to end with this one.
                    time.sleep(0.2)
                    worker = self._start()
            raise_if_interrupted()
            raise FitError(f"its worker process died {TRIES} times (out of memory?); run again with fewer processes")
        finally:
            self._idle.put(worker)

    def kill(self) -> None:
        """Ends every worker in the middle of its work."""
        self._hold.close()

    def close(self) -> None:
        """Waits until the workers have ended."""
        for _ in range(self._count):
            self._idle.get().shutdown(wait=True, cancel_futures=True)
        self._hold.close()
        self._lifeline.close()


@contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Processes that start inside the block never receive Ctrl-C, which a terminal sends to the whole group."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[None]:
    """Starts `count` worker processes (default: one per core) for the block; with 0 this process computes.

    Inside such a block a second one has no effect: the command decides.
    """
    global _pool, _decided
    if _decided:
        yield
        return
    _decided = True
    try:
        if count == 0:
            yield
            return
        preload_workers()
        pool = _pool = WorkerPool(count or os.cpu_count() or 1)
        try:
            with on_interrupt(pool.kill):
                yield
        finally:
            _pool = None
            pool.close()
    finally:
        _decided = False


def preload_workers() -> None:
    """Starts loading what workers need, in the background."""
    if CONTEXT.get_start_method() == "forkserver":
        CONTEXT.set_forkserver_preload(["tdrop.home.preload"])
        # First and separately, because it unblocks Ctrl-C when its process has started.
        resource_tracker.ensure_running()
        with _ignoring_ctrl_c():
            forkserver.ensure_running()


def compute(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a picklable function in a worker process, or here when no pool is open."""
    raise_if_interrupted()
    if _pool is None:
        start, end, result = _timed(fn, args, kwargs)
    else:
        start, end, result = _pool.run(fn, args, kwargs)
    _spans.append((start, end))
    return result


def compute_all(fn: Callable[..., R], calls: Sequence[tuple[Any, ...]], done: Callable[[], None]) -> list[R]:
    """Makes calls that use `compute` in parallel and returns their results in order; calls `done` after each.

    On a worker of a Dask cluster the calls are spread over the cluster.
    """

    def call(arguments: tuple[Any, ...]) -> R:
        result = fn(*arguments)
        done()
        return result

    if _pool is not None:
        with ThreadPoolExecutor(len(calls)) as threads:
            futures = [threads.submit(copy_context().run, call, arguments) for arguments in calls]
            return [future.result() for future in futures]
    if _on_dask_worker():
        from distributed import worker_client

        with worker_client() as client:
            results: list[R] = client.gather([client.submit(fn, *arguments, pure=False) for arguments in calls])
            return results
    return [call(arguments) for arguments in calls]


def _on_dask_worker() -> bool:
    """Whether this is a task of a Dask worker; a process that is one has imported Dask."""
    worker = sys.modules.get("distributed.worker")
    if worker is None:
        return False
    try:
        worker.get_worker()
    except ValueError:
        return False
    return True


def tune_garbage_collector() -> None:
    """Runs the garbage collector a hundred times less often: imports create a million permanent objects."""
    gc.set_threshold(70_000, 20, 20)


def set_one_thread() -> None:
    """Lets every fit use one thread, so that results do not depend on the number of cores."""
    # Torch reads this when it is loaded; work without torch need not load it.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


def _start_worker(lifeline: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, args=(lifeline,), daemon=True).start()
    tune_garbage_collector()
    set_one_thread()


def _exit_with_parent(lifeline: Connection) -> None:
    """Ends this worker when its parent's end of the pipe closes: it would get no more work."""
    lifeline.poll(None)
    os._exit(1)


def _timed(fn: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
    start = time.time()
    result = fn(*args, **kwargs)
    return start, time.time(), result


def reset_spans() -> None:
    """Forgets the fits recorded so far."""
    _spans.clear()


def busy_seconds(spans: Sequence[tuple[float, float]] | None = None) -> float:
    """Seconds during which at least one fit ran, by default in this run; overlaps count once."""
    total, reached = 0.0, 0.0
    for start, end in sorted(_spans if spans is None else spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
