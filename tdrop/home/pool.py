"""Processes that fit models, and the record of when they did.

Torch keeps state per process and steps run beside each other in threads: a step therefore hands its
fit to a plain worker process and waits. On a Dask cluster the step is already in a process of its
own, no pool is open, and the same call runs in place. Results are identical either way.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

from tdrop.base import FitError
from tdrop.home import stopping
from tdrop.home.collecting import collect_seldom
from tdrop.home.line import Line

P = ParamSpec("P")
R = TypeVar("R")

#: Not forked from this process, whose threads torch would not survive: on Linux from one that runs none, which loads
#: once what every worker needs, so that they share its memory; elsewhere each loads it anew.
STARTED = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
STARTED.set_forkserver_preload(["tdrop.home.preload"])
#: Threads only wait for worker processes; enough of them that whose turn it is never waits for one.
THREADS = 256
#: A fit that takes this long will not end well.
FIT_LIMIT_SECONDS = 24 * 3600
TOO_LONG = f"a fit took longer than {FIT_LIMIT_SECONDS / 3600:.0f} h; use fewer rows or steps"
#: A fit whose worker died is tried this often: it may have been a neighbour's memory that ran out.
TRIES = 3

#: A worker that could not be started at all is tried this often, after a moment: who forks them was killed, and the
#: system is still about it.
REFUSALS, REFUSED_SECONDS = 300, 0.1

_pool: Workers | None = None
_threads: ThreadPoolExecutor | None = None
_spans: list[tuple[float, float]] = []
_turn: ContextVar[int] = ContextVar("turn", default=0)


@contextmanager
def turn(place: int) -> Iterator[None]:
    """Lets the work of the block go before that of a later place: a site's report is then written while others fit."""
    token = _turn.set(place)
    try:
        yield
    finally:
        _turn.reset(token)


def place_in_line() -> int:
    """Whose turn the work of this thread waits for."""
    return _turn.get()


class NotStarted(Exception):
    """A worker process could not be started."""


class Workers:
    """Worker processes, each with one piece of work at a time: a death is known to be of that piece and no other's."""

    def __init__(self, count: int) -> None:
        self.count, self.closed = count, False
        # A worker ends when the other end of its pipe does: with this process, or when this one is told to stop.
        self._lifeline, self._hold = STARTED.Pipe(duplex=False)
        self._line: Line[ProcessPoolExecutor] = Line([self._start() for _ in range(count)])

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, STARTED, initializer=_start_worker, initargs=(self._lifeline,))

    def run(self, function: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
        """Runs a picklable function in the next idle worker; one that dies is replaced and its work tried again."""
        worker = self._line.take(place_in_line())
        died = refused = 0
        try:
            while died < TRIES and refused < REFUSALS:
                stopping.check()
                if self.closed:
                    raise FitError("the worker processes were closed before this fit began; run again")
                try:
                    return _submit(worker, function, args, kwargs).result(FIT_LIMIT_SECONDS)
                except NotStarted:
                    refused += 1
                    time.sleep(REFUSED_SECONDS)
                except BrokenProcessPool:
                    died += 1
                except TimeoutError as late:
                    stopping.check()
                    worker = self._start()
                    raise FitError(TOO_LONG) from late
                worker = self._start()
        finally:
            self._line.put(worker)
        stopping.check()
        raise FitError(f"its worker process died {TRIES} times (out of memory?); run again with fewer processes")

    def warm_up(self) -> None:
        """Starts the workers, which otherwise start with their first work: loading what they need takes seconds."""
        self._line.each(lambda worker: worker.submit(os.getpid))

    def end(self) -> None:
        """Ends every worker in the midst of its work."""
        self._hold.close()

    def shutdown(self) -> None:
        """Waits until the workers have ended."""
        self.closed = True
        for _ in range(self.count):
            worker = self._line.take(place_in_line())
            worker.shutdown(wait=True, cancel_futures=True)
        # Goes round among those who still wait for one, so that each learns that there is none.
        self._line.put(worker)
        self._hold.close()
        self._lifeline.close()


def _submit(
    worker: ProcessPoolExecutor, function: Callable[..., R], args: Any, kwargs: Any
) -> Future[tuple[float, float, R]]:
    """Hands work to a worker, which starts with its first; who forks it may have been killed and is then replaced."""
    try:
        return worker.submit(_timed, function, args, kwargs)
    except (OSError, EOFError) as error:
        raise NotStarted from error


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[None]:
    """Opens `count` worker processes (default: one a core) for the steps inside the block; 0 works in place."""
    global _pool, _threads
    if _pool is not None or count == 0:
        yield
        return
    workers = _pool = Workers(count or os.cpu_count() or 1)
    threads = _threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tdrop-step")
    try:
        with stopping.when_asked(workers.end):
            yield
    finally:
        # Waiting steps first: one that found the workers gone would fit in this process.
        threads.shutdown(wait=False, cancel_futures=True)
        workers.shutdown()
        threads.shutdown(wait=True)
        _pool = _threads = None


def warm_up() -> None:
    """Starts loading what workers need, while this process has other things to do.

    They are not forked yet: that takes no time, but would have to wait until all is loaded.
    """
    if STARTED.get_start_method() == "forkserver":
        forkserver.ensure_running()
    elif _pool is not None and not _pool.closed:
        _pool.warm_up()


def in_a_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Starts a call beside others; in place, and done when this returns, where no worker processes are open."""
    if _threads is not None:
        return _threads.submit(copy_context().run, partial(function, *args, **kwargs))
    future: Future[R] = Future()
    try:
        future.set_result(function(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def side_by_side(function: Callable[..., R], calls: Sequence[tuple[Any, ...]], done: Callable[[], None]) -> list[R]:
    """Makes calls that hand their work to `compute`, tells of each that is done, and returns the results in order.

    On a worker of a Dask cluster the calls spread over the cluster.
    """

    def call(given: tuple[Any, ...]) -> R:
        result = function(*given)
        done()
        return result

    if _pool is not None:
        with ThreadPoolExecutor(len(calls)) as threads:
            futures = [threads.submit(copy_context().run, call, given) for given in calls]
            return [future.result() for future in futures]
    if _on_a_cluster():
        from distributed import worker_client

        with worker_client() as client:
            found: list[R] = client.gather([client.submit(function, *given, pure=False) for given in calls])
            return found
    return [call(given) for given in calls]


def _on_a_cluster() -> bool:
    """Whether this is a task of a Dask worker; whoever is one has loaded Dask."""
    worker = sys.modules.get("distributed.worker")
    if worker is None:
        return False
    try:
        worker.get_worker()
    except ValueError:
        return False
    return True


def _start_worker(lifeline: Connection) -> None:
    # Ctrl-C belongs to the parent, which then ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, args=(lifeline,), daemon=True).start()
    collect_seldom()
    import torch

    torch.set_num_threads(1)


def _leave_with_parent(lifeline: Connection) -> None:
    """Ends this worker when its parent's end of the pipe closes: nobody would ever send it work again."""
    lifeline.poll(None)
    os._exit(1)


def compute(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Runs a picklable function in a worker process, or here when no pool is open."""
    stopping.check()
    start, end, result = _timed(function, args, kwargs) if _pool is None else _pool.run(function, args, kwargs)
    _spans.append((start, end))
    return result


def _timed(function: Callable[..., R], args: Any, kwargs: Any) -> tuple[float, float, R]:
    start = time.time()
    result = function(*args, **kwargs)
    return start, time.time(), result


def reset_spans() -> None:
    """Forgets the fits recorded so far."""
    _spans.clear()


def busy_seconds(spans: Sequence[tuple[float, float]] | None = None) -> float:
    """Seconds during which at least one fit or sampling ran, of this process unless given: overlaps count once."""
    total, reached = 0.0, 0.0
    for start, end in sorted(_spans if spans is None else spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
