"""Ctrl-C and SIGTERM: one line at once, worker processes ended, exit code 130 within seconds, no traceback.

This module imports nothing heavy: it is the first that the command loads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

#: The exit code of a command that was told to stop.
EXIT_CODE = 130
#: From the signal to the end of the process, at most.
LIMIT_SECONDS = 8.0

_stopping = threading.Event()
_exiting = threading.Lock()
_handled: list[int] = []


def install_signal_handlers() -> None:
    """Turns the first Ctrl-C or SIGTERM into KeyboardInterrupt and the second into the end of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    # Wakes the main thread's handler even where it waits in another language, and the watcher below it.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), name="tdrop-signals", daemon=True).start()


def signal_received() -> bool:
    """Whether a signal has come."""
    return _stopping.is_set()


def forget_signal() -> None:
    """Forgets the signal, where a command was only waiting for it."""
    _stopping.clear()


def _watch(reader: int) -> None:
    """Acts on the first signal also while the main thread is busy in another language, and ends what does not end."""
    while os.read(reader, 1)[0] not in (signal.SIGINT, signal.SIGTERM):
        pass
    _stop()
    threading.Event().wait(LIMIT_SECONDS)
    if signal_received():
        exit_now()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _handled.append(number)
    if _handled.count(signal.SIGINT) > 1:
        exit_now()
    _stop()
    raise KeyboardInterrupt


def _stop() -> None:
    """Says once that the command stops, and ends its worker processes."""
    with _exiting:
        if signal_received():
            return
        _stopping.set()
    _write("Stopping ...")
    # What is interrupted in a thread or a finaliser prints tracebacks that nobody can act on.
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None
    home: Any = sys.modules.get("tdrop.home.progress")
    if home is not None:
        home.request_interrupt()


def exit_now() -> NoReturn:
    """Ends the process: threads that wait for a server would keep it alive for minutes."""
    _exiting.acquire()
    _write("tdrop: interrupted: nothing is half-written, and the same command goes on from the last finished step")
    os._exit(EXIT_CODE)


def _write(sentence: str) -> None:
    # Past the progress display, which may be in the middle of drawing.
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())
