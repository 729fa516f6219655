"""Tells whoever listens how far a run has come.

Tasks report here; the command line listens and draws. Nothing listens in a deployment, where
Prefect's own page shows the same.
"""

from __future__ import annotations

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
        detail: What a person may want to know: counts, a verdict.
    """

    site: str
    stage: str
    done: int
    total: int
    detail: str = ""


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Adds a listener."""
    _listeners.append(listener)


def silence() -> None:
    """Removes every listener."""
    _listeners.clear()


def report(site: str, stage: str, done: int = 1, total: int = 1, detail: str = "") -> None:
    """Tells the listeners."""
    for listener in _listeners:
        listener(Event(site, stage, done, total, detail))
