"""A process that nobody waits for any more ends, also while it loads what it needs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

#: How often it looks whether its parent is still there.
LOOK_SECONDS = 0.5


@contextmanager
def ending_with_parent() -> Iterator[None]:
    """Ends this process when its parent does, for the block.

    By a timer and not by a thread: what is forked from a process with threads may wait for ever.
    """
    parent = os.getppid()

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(1)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
