"""Waits for conditions, never for times: a machine that is merely slow fails no test."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Far more than anything takes that a test waits for, and less than a test's own limit.
LIMIT_SECONDS = 400


def wait_until(holds: Callable[[], Any], otherwise: Callable[[], Any] = lambda: "") -> None:
    """Waits until a condition holds; what stands in its way is told once nobody would wait any longer."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL of our own for the block."""
    import pgserver

    # Below pytest's own folder, which every session closes to others, the server's user could not reach its data.
    with tempfile.TemporaryDirectory(prefix="tdrop-postgres-") as folder:
        found: list[Any] = []

        def start() -> bool:
            # Its own limit for the start is ten seconds; who asks again finds the server that was still starting.
            try:
                found.append(pgserver.get_server(folder, cleanup_mode="stop"))
            except (subprocess.TimeoutExpired, AssertionError):
                return False
            return True

        wait_until(start)
        try:
            yield found[0].get_uri()
        finally:
            found[0].cleanup()
