"""Stages in use are leased: pruning leaves them alone for as long as the process that uses them lives.

A lease is a list of stages and a lock on it. The system lets go of the lock however the process ends, kill -9
included; a list without its lock is nobody's.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from filelock import FileLock, Timeout

#: Below the home.
LEASES = "leases"


@contextmanager
def leased(folder: Path) -> Iterator[None]:
    """Leases a stage for the rest of this process; in the block, nobody decides what is pruned."""
    home = folder.parents[2]
    with deciding(home):
        with _own(home).open("a", encoding="utf-8") as stream:
            stream.write(f"{folder.relative_to(home / 'store').as_posix()}\n")
        yield


def deciding(home: Path) -> FileLock:
    """Keeps stages from being leased, or their removal from being decided, for the block."""
    (home / LEASES).mkdir(exist_ok=True, mode=0o700)
    return FileLock(home / LEASES / "gate.lock", mode=0o600)


def in_use(home: Path) -> set[Path]:
    """The stages that running processes use; lists that nobody holds any more are removed."""
    found: set[Path] = set()
    for file in (home / LEASES).glob("*.txt"):
        if _held(file):
            found |= {home / "store" / line for line in file.read_text(encoding="utf-8").splitlines()}
        else:
            file.unlink(missing_ok=True)
            file.with_suffix(".lock").unlink(missing_ok=True)
    return found


def _held(file: Path) -> bool:
    lock = FileLock(file.with_suffix(".lock"), mode=0o600)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


@lru_cache(maxsize=64)
def _own(home: Path) -> Path:
    """This process's list of the stages below a home, held until the process ends."""
    file = home / LEASES / f"{uuid.uuid4().hex}.txt"
    lock = FileLock(file.with_suffix(".lock"), mode=0o600)
    lock.acquire()
    _locks.append(lock)
    return file


def let_go() -> None:
    """Gives up everything that this process has leased, as its end does."""
    _own.cache_clear()
    while _locks:
        _locks.pop().release()


#: A lock that is collected is let go.
_locks: list[FileLock] = []
