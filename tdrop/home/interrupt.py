"""Whether this command was interrupted: every fit asks before it begins.

An interrupted run must neither choose among the fits that happened to be done nor open a label. Fits that were ended
early therefore raise `Interrupted`, which is never counted as a method's failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tdrop.base import TdropError

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
