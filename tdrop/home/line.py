"""A line of those who wait for one of a few things: who has the lowest place goes first, and then who came first."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Line(Generic[T]):
    """Things that are free, and who waits for one."""

    def __init__(self, free: Sequence[T]) -> None:
        self._free, self._waiting = list(free), list[tuple[int, int]]()
        self._numbers, self._changed = itertools.count(), threading.Condition()

    def take(self, place: int) -> T:
        """Waits for its turn and a free thing, and takes that."""
        with self._changed:
            ticket = (place, next(self._numbers))
            heapq.heappush(self._waiting, ticket)
            self._changed.wait_for(lambda: bool(self._free) and self._waiting[0] == ticket)
            heapq.heappop(self._waiting)
            taken = self._free.pop(0)
            # Another may be free for who is first now.
            self._changed.notify_all()
            return taken

    def put(self, free: T) -> None:
        """Gives a thing back, or another in its place."""
        with self._changed:
            self._free.append(free)
            self._changed.notify_all()

    def waiting(self) -> int:
        """How many wait."""
        with self._changed:
            return len(self._waiting)

    def each(self, do: Callable[[T], object]) -> None:
        """Does something with every thing that is free."""
        with self._changed:
            for free in self._free:
                do(free)
