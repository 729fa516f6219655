"""Progress of a run, and its interruption.

Tasks emit progress; the command line draws it, and Prefect's log stores what may leave.

Every stage and every fit first checks whether the command was interrupted: an interrupted run must neither choose among
the fits that happen to be done nor open a label. `Interrupted` is never counted as a method's failure.
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
        done: Finished steps of the stage; equal to `total` when the stage is over.
        total: Steps of the stage.
        detail: Text for the terminal: counts, a verdict.
        public: The part of it that a Prefect server may store: no number of patients.
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
    """Calls all listeners."""
    for listener in _listeners:
        listener(Event(site, stage, done, total, detail, public))


def start_stage(site: str, stage: str, total: int) -> None:
    """Starts a stage of so many steps."""
    with _lock:
        _counts[site, stage] = (0, total)
    emit_progress(site, stage, 0, total)


def advance(site: str, stage: str, detail: str = "", *, at_least: int | None = None) -> None:
    """Emits that one more step is done, or that at least so many are, unless this is known.

    Does nothing if the stage was not started here, as on a cluster's worker.
    """
    with _lock:
        if (site, stage) not in _counts:
            return
        before, total = _counts[site, stage]
        done = min(before + 1 if at_least is None else at_least, total)
        if at_least is not None and done <= before:
            return
        _counts[site, stage] = (done, total)
    emit_progress(site, stage, done, total, detail, detail)


SENTENCE = "interrupted: nothing is half-written; the same command goes on from the last finished step"

_requested = threading.Event()
_callbacks: list[Callable[[], None]] = []


class Interrupted(TdropError):
    """The command was interrupted."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__(SENTENCE)


def interrupt_requested() -> bool:
    """Whether the command was interrupted."""
    return _requested.is_set()


def raise_if_interrupted() -> None:
    """Raises `Interrupted` after the command was interrupted."""
    if _requested.is_set():
        raise Interrupted


def request_interrupt() -> None:
    """Interrupts everything in this process, and runs the callbacks once."""
    if _requested.is_set():
        return
    _requested.set()
    for callback in list(_callbacks):
        # The process is about to end: a callback that fails must not keep the others from running.
        with suppress(Exception):
            callback()


def clear_interrupt() -> None:
    """Forgets the request: `tdrop ui` ends by one as it should."""
    _requested.clear()


@contextmanager
def on_interrupt(callback: Callable[[], None]) -> Iterator[None]:
    """Runs a callback as soon as an interrupt is requested, for the block."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)
