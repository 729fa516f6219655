"""Gives up what takes too long, also where several sites run in threads and no signal can interrupt one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, Queue
from typing import TypeVar

from tdrop.base import Unavailable

Result = TypeVar("Result")


def within(seconds: float, work: Callable[[], Result], sentence: str) -> Result:
    """Returns what `work` returns, or raises Unavailable with `sentence` once `seconds` have passed.

    The work runs in a thread that nobody waits for when the process ends: a place that never answers keeps neither
    the caller nor the process.
    """
    answers: Queue[tuple[Result | None, BaseException | None]] = Queue(maxsize=1)

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=run, name="tdrop-reader", daemon=True).start()
    try:
        result, error = answers.get(timeout=seconds)
    except Empty:
        raise Unavailable(sentence) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
