"""Whether this command was told to stop: every step asks before it begins.

An interrupted run must neither choose among the fits that happened to be done nor open a label. Fits that were ended
are therefore `Interrupted`, never a method's failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tdrop.base import TdropError

SENTENCE = "interrupted: nothing is half-written, and the same command goes on from the last finished step"

_asked = threading.Event()
_actions: list[Callable[[], None]] = []
_last_words: list[Callable[[], None]] = []


class Interrupted(TdropError):
    """The command was told to stop."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__(SENTENCE)


def requested() -> bool:
    """Whether the command was told to stop."""
    return _asked.is_set()


def check() -> None:
    """Raises `Interrupted` once the command was told to stop."""
    if requested():
        raise Interrupted


def request() -> None:
    """Tells everything in this process to stop, and ends at once what can be ended."""
    if not _asked.is_set():
        _asked.set()
        _each(_actions)


def fulfil() -> None:
    """Takes the request for done, where a command was only waiting for it."""
    _asked.clear()


@contextmanager
def when_asked(action: Callable[[], None]) -> Iterator[None]:
    """Has something done in the moment of the request, for the block."""
    _actions.append(action)
    try:
        yield
    finally:
        _actions.remove(action)


@contextmanager
def last_words(say: Callable[[], None]) -> Iterator[None]:
    """Has something written down when a request ends the block, or the process before the block could end."""
    _last_words.append(say)
    try:
        yield
    except BaseException as error:
        # Prefect answers a polite kill with an exception of its own, before anybody could ask for the end here.
        if requested() or not isinstance(error, Exception):
            say()
        raise
    finally:
        _last_words.remove(say)


def say_last_words() -> None:
    """What is left to do where the process ends with blocks still open."""
    _each(_last_words)


def _each(actions: list[Callable[[], None]]) -> None:
    for action in list(actions):
        # The process is on its way out: one that fails must not keep the others from being done.
        with suppress(Exception):
            action()
