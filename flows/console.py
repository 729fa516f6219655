"""What a person sees while a run goes on, and the table when it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tdrop.home import Event, listen, silence

#: Stages in the order they come, with their rough share of the time: what an estimate starts from.
STAGES: Mapping[str, float] = {
    "read and check": 3,
    "encode": 1,
    "estimate shift": 4,
    "match": 1,
    "tune": 45,
    "fit": 35,
    "choose": 15,
    "forecast": 1,
    "evaluate": 3,
    "report": 3,
    "record": 3,
}


#: Share of the work after which the rest can be estimated: some of the tuning must have been seen.
ENOUGH_TO_ESTIMATE = 0.08
#: Where no terminal shows a clock, a line comes at least this often.
SIGN_OF_LIFE_SECONDS = 30.0


class RunDisplay:
    """Draws the stages of one or several sites with elapsed time and an estimate of the rest."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.sites = list(sites)
        self.started: dict[str, float] = {}
        self.done: dict[tuple[str, str], tuple[int, int, str]] = {}
        #: By site, the share of its work that was done when it was last more, and when that was.
        self.reached: dict[str, tuple[float, float]] = {}
        self.lock = threading.Lock()

    def take(self, event: Event) -> None:
        """Remembers how far a stage is."""
        if event.site in self.sites:
            with self.lock:
                self.started.setdefault(event.site, time.monotonic())
                self.done[event.site, event.stage] = (event.done, event.total, event.detail)
            share = self.share_done(event.site)
            if share > self.reached.get(event.site, (0.0, 0.0))[0]:
                self.reached[event.site] = share, time.monotonic()

    def share_done(self, site: str) -> float:
        """Share of a site's work done, by the stages' rough weights."""
        with self.lock:
            reached = sum(
                STAGES.get(stage, 0) * done / max(total, 1)
                for (name, stage), (done, total, _) in self.done.items()
                if name == site
            )
        return min(1.0, float(reached) / sum(STAGES.values()))

    def to_go(self, site: str) -> str:
        """An estimate of a site's rest, once there is something to go by."""
        share, when = self.reached.get(site, (0.0, 0.0))
        if not ENOUGH_TO_ESTIMATE < share < 1:
            return ""
        # From the last step that ended, and counted down since: within a long step the rest must not seem to grow.
        rest = (when - self.started[site]) * (1 - share) / share - (time.monotonic() - when)
        return f", about {_clock(rest)} to go" if rest >= 1 else ""

    def stage_of(self, site: str) -> tuple[str, int, int, str] | None:
        """The stage that a site is in: its name, steps done, steps in all and detail; None before its first."""
        with self.lock:
            stages = dict.fromkeys((*STAGES, *(stage for _, stage in self.done)))
            seen = [(stage, *self.done[site, stage]) for stage in stages if (site, stage) in self.done]
        open_stages = [entry for entry in seen if entry[1] < entry[2]]
        return open_stages[0] if open_stages else seen[-1] if seen else None

    def words_of(self, site: str) -> str:
        """Where a site is, in words: "5/11 tune, about 2:10 to go"."""
        current = self.stage_of(site)
        if current is None:
            return "waiting"
        stage = current[0]
        # A benchmark has stages of its own, which are not counted.
        number = f"{list(STAGES).index(stage) + 1}/{len(STAGES)} " if stage in STAGES else ""
        return f"{number}{stage}{self.to_go(site)}"

    def __rich__(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        for site in self.sites:
            _, done, total, detail = self.stage_of(site) or ("", 0, 1, "")
            bar = "━" * round(12 * done / max(total, 1))
            words = Text(self.words_of(site), style="" if site in self.started else "dim")
            grid.add_row(Text(site, style="bold"), words, Text(f"{bar:<12}", style="cyan"), Text(detail, style="dim"))
        with self.lock:
            first = min(self.started.values(), default=None)
        grid.add_row(Text("starting" if first is None else _clock(time.monotonic() - first), style="dim"))
        return grid


@contextmanager
def watching(sites: Sequence[str], console: Console) -> Iterator[None]:
    """Shows progress inside the block: a live table on a terminal, lines elsewhere."""
    display = RunDisplay(sites)
    listen(display.take)
    shown: AbstractContextManager[object] = _lines(display, console)
    if console.is_terminal:
        shown = Live(display, console=console, refresh_per_second=4)
    try:
        with shown:
            yield
    finally:
        silence()


@contextmanager
def _lines(display: RunDisplay, console: Console) -> Iterator[None]:
    """One line a stage, and a sign of life when no stage has ended for a while."""
    started, news, over = time.monotonic(), threading.Event(), threading.Event()
    # Sites with one source all read it; once is enough for a reader.
    told: set[Event] = set()

    def say(words: str) -> None:
        console.print(f"[{_clock(time.monotonic() - started)}] {words}", markup=False)

    def show(event: Event) -> None:
        if event.done >= event.total and event not in told:
            told.add(event)
            say(f"{event.site}: {event.stage}" + (f": {event.detail}" if event.detail else ""))
            news.set()

    def keep_alive() -> None:
        while not over.is_set():
            if not news.wait(SIGN_OF_LIFE_SECONDS):
                say("; ".join(f"{site}: {display.words_of(site)}" for site in display.sites))
            news.clear()

    listen(show)
    thread = threading.Thread(target=keep_alive, name="sign-of-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        news.set()
        thread.join()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
