"""Shows the progress of a run: a bar per site on a terminal, lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from tdrop.home import Event, add_listener, remove_listeners

#: Stages in order, with their rough share of the time, from which the rest is estimated.
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
#: Share of the work after which the remaining time is estimated: some of the tuning must be over.
ENOUGH_TO_ESTIMATE = 0.08
#: Without a terminal, a line is printed at least this often.
HEARTBEAT_SECONDS = 30.0


class StageColumn(ProgressColumn):
    """The stage of a site: "5/11 tune, about 2:10 to go"."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.fields['stage']}{to_go(task)}", style="dim" if task.start_time is None else "")


class RunProgress(Progress):
    """One bar per site, filled as stages end; draws nothing unless the console is a terminal."""

    def __init__(self, sites: Sequence[str], console: Console) -> None:
        super().__init__(
            TextColumn("[bold]{task.description}"),
            BarColumn(12),
            TimeElapsedColumn(),
            StageColumn(),
            TextColumn("{task.fields[detail]}", style="dim", markup=False),
            console=console,
            disable=not console.is_terminal,
            refresh_per_second=4,
        )
        self.bars = {
            site: self.add_task(site, start=False, total=1.0, stage="waiting", detail="", when=0.0) for site in sites
        }
        self.events: dict[str, dict[str, Event]] = {site: {} for site in sites}
        self.taking = threading.Lock()

    def on_event(self, event: Event) -> None:
        """Moves the site's bar."""
        if event.site not in self.bars:
            return
        bar = self.bars[event.site]
        with self.taking:
            self.start_task(bar)
            stages = self.events[event.site]
            stages[event.stage] = event
            weights = sum(STAGES.get(name, 0) * seen.done / max(seen.total, 1) for name, seen in stages.items())
            share = min(1.0, weights / sum(STAGES.values()))
            current = _current(stages)
            number = f"{list(STAGES).index(current.stage) + 1}/{len(STAGES)} " if current.stage in STAGES else ""
            self.update(bar, stage=f"{number}{current.stage}", detail=current.detail)
            if share > self.tasks[bar].completed:
                self.update(bar, completed=share, when=self.get_time())

    def summary_line(self) -> str:
        """The stage of every site, in one line."""
        return "; ".join(f"{task.description}: {task.fields['stage']}{to_go(task)}" for task in self.tasks)


def _current(stages: Mapping[str, Event]) -> Event:
    """The first stage that is running, or the last one that ended."""
    seen = [stages[name] for name in dict.fromkeys((*STAGES, *stages)) if name in stages]
    return next((event for event in seen if event.done < event.total), seen[-1])


def to_go(task: Task) -> str:
    """The estimated remaining time of a site, once enough of its work is done."""
    if task.start_time is None or not ENOUGH_TO_ESTIMATE < task.completed < 1:
        return ""
    when = task.fields["when"]
    # Estimated when the last step ended and counted down since, so that it does not grow during a long step.
    rest = (when - task.start_time) * (1 - task.completed) / task.completed - (task.get_time() - when)
    return f", about {_clock(rest)} to go" if rest >= 1 else ""


@contextmanager
def show_progress(sites: Sequence[str], console: Console) -> Iterator[None]:
    """Shows progress inside the block: bars on a terminal, lines elsewhere."""
    progress = RunProgress(sites, console)
    add_listener(progress.on_event)
    try:
        with progress if console.is_terminal else _lines(progress):
            yield
    finally:
        remove_listeners()


@contextmanager
def _lines(progress: RunProgress) -> Iterator[None]:
    """Prints one line per stage, and a heartbeat when no stage has ended for a while."""
    started, news, over = time.monotonic(), threading.Event(), threading.Event()
    # Sites that share a source all read it; one line is enough.
    printed: set[Event] = set()

    def say(words: str) -> None:
        progress.console.print(f"[{_clock(time.monotonic() - started)}] {words}", markup=False)

    def show(event: Event) -> None:
        if event.done >= event.total and event not in printed:
            printed.add(event)
            say(f"{event.site}: {event.stage}" + (f": {event.detail}" if event.detail else ""))
            news.set()

    def keep_alive() -> None:
        while not over.is_set():
            if not news.wait(HEARTBEAT_SECONDS):
                say(progress.summary_line())
            news.clear()

    add_listener(show)
    thread = threading.Thread(target=keep_alive, name="heartbeat", daemon=True)
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
