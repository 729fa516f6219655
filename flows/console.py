"""What a person sees while a run goes on, and the table when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tasks.progress import Event, listen, silence

#: Stages in the order they come, with their rough share of the time: what an estimate starts from.
STAGES: Mapping[str, float] = {
    "read and check": 3,
    "encode": 1,
    "estimate shift": 4,
    "match": 1,
    "tune": 45,
    "fit": 35,
    "choose": 15,
    "evaluate": 3,
    "report": 3,
    "record": 3,
}


#: Share of the work after which the rest can be estimated: some of the tuning must have been seen.
ENOUGH_TO_ESTIMATE = 0.08


class RunDisplay:
    """Draws the stages of one or several sites with elapsed time and an estimate of the rest."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.sites = list(sites)
        self.started: float | None = None
        self.done: dict[tuple[str, str], tuple[int, int, str]] = {}
        self.lock = threading.Lock()

    def take(self, event: Event) -> None:
        """Remembers how far a stage is."""
        if event.site in self.sites:
            with self.lock:
                self.started = self.started or time.monotonic()
                self.done[event.site, event.stage] = (event.done, event.total, event.detail)

    def share_done(self) -> float:
        """Share of all work done, by the stages' rough weights."""
        with self.lock:
            reached = sum(
                STAGES.get(stage, 0) * done / max(total, 1) for (_, stage), (done, total, _) in self.done.items()
            )
        return min(1.0, float(reached) / (sum(STAGES.values()) * max(1, len(self.sites))))

    def __rich__(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for site in self.sites:
            with self.lock:
                seen = [(stage, *self.done[site, stage]) for stage in STAGES if (site, stage) in self.done]
            open_stages = [entry for entry in seen if entry[1] < entry[2]]
            current = open_stages[0] if open_stages else seen[-1] if seen else None
            grid.add_row(Text(site, style="bold"), *self._cells(current))
        grid.add_row(Text(self._time(), style="dim"))
        return grid

    def _time(self) -> str:
        """Time since the first stage ended, and an estimate of the rest once there is something to go by."""
        if self.started is None:
            return "starting Prefect"
        elapsed, share = time.monotonic() - self.started, self.share_done()
        rest = f", about {_clock(elapsed * (1 - share) / share)} to go" if ENOUGH_TO_ESTIMATE < share < 1 else ""
        return f"{_clock(elapsed)}{rest}"

    def _cells(self, current: tuple[str, int, int, str] | None) -> tuple[Text, Text, Text]:
        if current is None:
            return Text("waiting", style="dim"), Text(""), Text("")
        stage, done, total, detail = current
        number = list(STAGES).index(stage) + 1
        bar = "━" * round(12 * done / max(total, 1))
        return Text(f"{number}/{len(STAGES)} {stage}"), Text(f"{bar:<12}", style="cyan"), Text(detail, style="dim")


@contextmanager
def watching(sites: Sequence[str], console: Console) -> Iterator[None]:
    """Shows progress inside the block: a live table on a terminal, one line a stage elsewhere."""
    display = RunDisplay(sites)
    if not console.is_terminal:
        listen(_printer(console))
        try:
            yield
        finally:
            silence()
        return
    listen(display.take)
    try:
        with Live(display, console=console, refresh_per_second=4):
            yield
    finally:
        silence()


def _printer(console: Console) -> Any:
    started = time.monotonic()

    def show(event: Event) -> None:
        if event.done >= event.total:
            detail = f": {event.detail}" if event.detail else ""
            console.print(f"[{_clock(time.monotonic() - started)}] {event.site}: {event.stage}{detail}", markup=False)

    return show


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
