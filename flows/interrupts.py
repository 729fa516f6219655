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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tasks import stopping

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
    threading.Thread(target=_watch, args=(reader,), name="tdrop-signals", daemon=True).start()
    try:
        yield
    finally:
        if stopping.requested():
            leave()
        signal.set_wakeup_fd(wakeup)
        for each, handler in before.items():
            signal.signal(each, handler)
        writer.close()


def _interrupt(_signal: int, _frame: Any) -> NoReturn:
    _begin()
    raise KeyboardInterrupt


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
        while reader.recv(1)[0] != signal.SIGINT:
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
