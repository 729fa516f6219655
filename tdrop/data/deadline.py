"""Gives up what takes too long, also where several sites run in threads and no signal can interrupt one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import TypeVar

from tdrop.base import OutOfTime, notice

Result = TypeVar("Result")

#: After so long a person is told what is waited for, and again each time that so long has passed after that.
NOTICE_SECONDS, AGAIN_SECONDS = 10.0, 60.0


def within(seconds: float, work: Callable[[], Result], sentence: str, waits_for: str = "an answer") -> Result:
    """Returns what `work` returns, or raises OutOfTime with `sentence` once `seconds` have passed.

    The work runs in a thread that nobody waits for when the process ends: a place that never answers keeps neither
    the caller nor the process. Whoever listens to notices is told early what is waited for, and until when.
    """
    answers: Queue[tuple[Result | None, BaseException | None]] = Queue(maxsize=1)

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:
            answers.put((None, error))

    threading.Thread(target=run, name="tdrop-reader", daemon=True).start()
    result, error = _wait(answers, seconds, sentence, waits_for)
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _wait(answers: Queue[Result], seconds: float, sentence: str, waits_for: str) -> Result:
    start, told = time.monotonic(), NOTICE_SECONDS
    while (passed := time.monotonic() - start) < seconds:
        try:
            return answers.get(timeout=max(0.0, min(told, seconds) - passed))
        except Empty:
            if (passed := time.monotonic() - start) < seconds:
                notice(f"waiting for {waits_for} since {passed:.0f} s; it is given up after {seconds:.0f} s")
                told += AGAIN_SECONDS
    raise OutOfTime(sentence)
