"""How far a run has come, and whether it was told to stop.

Tasks say here how far they are, the command line draws it, and Prefect's log keeps what may leave.

Every fit asks before it begins whether the command was interrupted: an interrupted run must neither choose among the
fits that happened to be done nor open a label. Fits that were ended early therefore raise `Interrupted`, which is never
counted as a method's failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tdrop.base import TdropError


@dataclass(frozen=True)
class Event:
    """One step of a run.

    Attributes:
        site: The site it belongs to.
        stage: The stage in words: "read and check", "tune", ...
        done: Steps of the stage finished; equal to total when the stage is over.
        total: Steps of the stage.
        detail: What the person at the terminal may want to know: counts, a verdict.
        public: The part of it that may be kept by a Prefect server: no number of patients.
    """

    site: str
    stage: str
    done: int
    total: int
    detail: str = ""
    public: str = ""


Listener = Callable[[Event], None]
_listeners: list[Listener] = []
_counts: dict[tuple[str, str], tuple[int, int]] = {}
_lock = threading.Lock()


def add_listener(listener: Listener) -> None:
    """Adds a listener, once."""
    if listener not in _listeners:
        _listeners.append(listener)


def remove_listeners() -> None:
    """Removes every listener."""
    _listeners.clear()


def emit_progress(site: str, stage: str, done: int = 1, total: int = 1, detail: str = "", public: str = "") -> None:
    """Tells the listeners."""
    for listener in _listeners:
        listener(Event(site, stage, done, total, detail, public))


def start_stage(site: str, stage: str, total: int) -> None:
    """Announces how many steps a stage has."""
    with _lock:
        _counts[site, stage] = (0, total)
    emit_progress(site, stage, 0, total)


def set_steps_done(site: str, stage: str, done: int, detail: str = "") -> None:
    """Tells that at least so many announced steps are done."""
    with _lock:
        before, total = _counts.get((site, stage), (done, done))
        if before >= done:
            return
        _counts[site, stage] = (min(done, total), total)
    emit_progress(site, stage, done, total, detail, detail)


def advance(site: str, stage: str, detail: str = "") -> None:
    """Tells that one more announced step is done; silent where nothing was announced, as on a cluster's worker."""
    with _lock:
        if (site, stage) not in _counts:
            return
        done, total = _counts[site, stage]
        done = min(done + 1, total)
        _counts[site, stage] = (done, total)
    emit_progress(site, stage, done, total, detail, detail)


SENTENCE = "interrupted: nothing is half-written, and the same command goes on from the last finished step"

_requested = threading.Event()
_callbacks: list[Callable[[], None]] = []


class Interrupted(TdropError):
    """The command was told to stop."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__(SENTENCE)


def interrupt_requested() -> bool:
    """Whether the command was told to stop."""
    return _requested.is_set()


def raise_if_interrupted() -> None:
    """Raises `Interrupted` once the command was told to stop."""
    if _requested.is_set():
        raise Interrupted


def request_interrupt() -> None:
    """Tells everything in this process to stop, and runs the callbacks once."""
    if _requested.is_set():
        return
    _requested.set()
    for callback in list(_callbacks):
        # The process is about to end: a callback that fails must not keep the others from running.
        with suppress(Exception):
            callback()


def clear_interrupt() -> None:
    """Forgets the request, where a command was only waiting for it."""
    _requested.clear()


@contextmanager
def on_interrupt(callback: Callable[[], None]) -> Iterator[None]:
    """Runs a callback as soon as an interrupt is requested, for the block."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)
