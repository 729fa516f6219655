"""Ctrl-C and SIGTERM: one line at once, no worker process left, exit code 130 within seconds, no traceback.

This module imports nothing heavy: it is the first that a command loads.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

#: Exit code of an interrupted command.
EXIT_CODE = 130
#: Longest time from the signal to the end of the process.
LIMIT_SECONDS = 8.0

_stopping = threading.Event()
_exiting = threading.Lock()
_handled: list[int] = []


def install_signal_handlers() -> None:
    """Turns the first Ctrl-C or SIGTERM into KeyboardInterrupt and the second into the end of the process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    # A signal is written to this pipe even while the main thread is busy in C code; `_watch` reads it.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), name="tdrop-signals", daemon=True).start()


def signal_received() -> bool:
    """Whether a signal has come."""
    return _stopping.is_set()


def forget_signal() -> None:
    """Forgets the signal: `tdrop ui` ends by one as it should."""
    _stopping.clear()


def _watch(reader: int) -> None:
    """Acts on the first signal also while the main thread is busy in C code; ends the process if it does not end."""
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
    write_stderr("Stopping ...")
    # Interrupted threads and finalisers would print tracebacks that help nobody.
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None
    home: Any = sys.modules.get("tdrop.home.progress")
    if home is not None:
        home.request_interrupt()


def exit_now() -> NoReturn:
    """Ends the process at once: threads that wait for a server would keep it alive for minutes."""
    _exiting.acquire()
    write_stderr("tdrop: interrupted: nothing is half-written; the same command goes on from the last finished step")
    os._exit(EXIT_CODE)


def write_stderr(sentence: str) -> None:
    """Writes a line past the progress display, which may be in the middle of drawing."""
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())
