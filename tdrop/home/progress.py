"""How far a run has come: tasks say it here, the command line draws it, and Prefect's log keeps what may leave."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One step of a run.

    Attributes:
        site: The site it belongs to.
        stage: The stage in words: "read and check", "tune", ...
        done: Steps of the stage finished; equal to total when the stage is over.
        total: Steps of the stage.
        detail: What the person at the terminal may want to know: counts, a verdict.
        public: The part of it that may be kept by a Prefect server: no number of patients.
    """

    site: str
    stage: str
    done: int
    total: int
    detail: str = ""
    public: str = ""


Listener = Callable[[Event], None]
_listeners: list[Listener] = []
_counts: dict[tuple[str, str], tuple[int, int]] = {}
_lock = threading.Lock()


def listen(listener: Listener) -> None:
    """Adds a listener, once."""
    if listener not in _listeners:
        _listeners.append(listener)


def remove_listeners() -> None:
    """Removes every listener."""
    _listeners.clear()


def emit_progress(site: str, stage: str, done: int = 1, total: int = 1, detail: str = "", public: str = "") -> None:
    """Tells the listeners."""
    for listener in _listeners:
        listener(Event(site, stage, done, total, detail, public))


def expect(site: str, stage: str, total: int) -> None:
    """Announces how many steps a stage has."""
    with _lock:
        _counts[site, stage] = (0, total)
    emit_progress(site, stage, 0, total)


def reach(site: str, stage: str, done: int, detail: str = "") -> None:
    """Tells that at least so many announced steps are done."""
    with _lock:
        before, total = _counts.get((site, stage), (done, done))
        if before >= done:
            return
        _counts[site, stage] = (min(done, total), total)
    emit_progress(site, stage, done, total, detail, detail)


def advance(site: str, stage: str, detail: str = "") -> None:
    """Tells that one more announced step is done; silent where nothing was announced, as on a cluster's worker."""
    with _lock:
        if (site, stage) not in _counts:
            return
        done, total = _counts[site, stage]
        done = min(done + 1, total)
        _counts[site, stage] = (done, total)
    emit_progress(site, stage, done, total, detail, detail)
