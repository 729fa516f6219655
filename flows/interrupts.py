"""Ctrl-C and a polite kill: said at once, over within seconds, whatever the command is busy with.

Python runs a signal's handler between two steps of the main thread, which may be deep in somebody's matrix product.
A thread of its own therefore watches for signals: it says that the command stops, tells every part of it, and ends
the process when its parts do not end in time.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tdrop.home import stopping

#: What a command leaves with that was told to stop.
EXIT_CODE = 130
#: From the signal to the end of the process, at the most.
LIMIT_SECONDS = 8.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)

_beginning, _leaving = threading.Lock(), threading.Lock()


@contextmanager
def heeding_signals() -> Iterator[None]:
    """Turns Ctrl-C and a polite kill into the end of whatever the block does, with exit code 130."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = {each: signal.signal(each, _interrupt) for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN}
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    unraisable, sys.unraisablehook = sys.unraisablehook, _told_in_vain(sys.unraisablehook)
    threading.Thread(target=_watch, args=(reader,), name="tdrop-signals", daemon=True).start()
    try:
        yield
    finally:
        if stopping.requested():
            # Sites in other threads may be in the midst of something that no exception reaches.
            stopping.say_last_words()
            leave()
        signal.set_wakeup_fd(wakeup)
        sys.unraisablehook = unraisable
        for each, handler in before.items():
            signal.signal(each, handler)
        writer.close()


def leaving_at_once() -> None:
    """Ends the command at the first signal, until it heeds them itself: there is nothing yet to bring to an end."""

    def end(_signal: int, _frame: Any) -> NoReturn:
        _begin()
        leave()

    for each in SIGNALS:
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, end)


def _interrupt(_signal: int, _frame: Any) -> NoReturn:
    _begin()
    raise KeyboardInterrupt


def _told_in_vain(otherwise: Callable[[Any], object]) -> Callable[[Any], object]:
    """A hook for exceptions that nobody can catch, which keeps quiet about our own.

    Python drops an interrupt that meets a finaliser or a callback from C, and prints whatever was at hand there. The
    next step asks `stopping.check`, so that nothing is lost but the noise.
    """

    def hook(unraisable: Any) -> None:
        if not (stopping.requested() and issubclass(unraisable.exc_type, KeyboardInterrupt)):
            otherwise(unraisable)

    return hook


def _begin() -> None:
    """Says once that the command stops, and tells its parts."""
    if _beginning.acquire(blocking=False):
        _say("Stopping ...")
    stopping.request()


def _watch(reader: socket.socket) -> None:
    """Waits for the first signal; the second Ctrl-C, or the limit, ends the process as it is."""
    while (told := reader.recv(1)) and told[0] not in SIGNALS:
        pass
    if not told:
        reader.close()
        return
    _begin()
    reader.settimeout(LIMIT_SECONDS)
    with suppress(TimeoutError):
        # Nothing comes when the command ended by itself, as one does that only waited for the signal.
        while (told := reader.recv(1)) and told[0] != signal.SIGINT:
            pass
    if stopping.requested():
        stopping.say_last_words()
        leave()


def leave() -> NoReturn:
    """Ends the process: threads that wait for a server or a worker would keep it alive for minutes."""
    # Whoever comes second waits here for the end.
    _leaving.acquire()
    _say(f"tdrop: {stopping.SENTENCE}")
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(EXIT_CODE)


def _say(sentence: str) -> None:
    # Past the progress display, which may be in the middle of drawing.
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())
