"""What a person sees while a run goes on."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from flows import console as shown
from tdrop.home import Event, emit_progress

#: Until when a line must have come; it comes within a fraction of it.
LIMIT_SECONDS = 400


class Clock:
    """A time that only a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def progress_of(*sites: str) -> tuple[shown.RunProgress, Clock]:
    clock = Clock()
    return shown.RunProgress(sites, Console(file=io.StringIO(), width=100, get_time=clock)), clock


def drawn(progress: shown.RunProgress) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=100).print(progress)
    return out.getvalue().splitlines()


def test_the_time_to_go_stands_beside_the_stage():
    progress, clock = progress_of("harbour", "hillside")
    assert sum("waiting" in line for line in drawn(progress)) == 2
    progress.on_event(Event("harbour", "read and check", 0, 1))
    clock.now += 60
    for stage in ("read and check", "encode", "estimate shift", "match"):
        progress.on_event(Event("harbour", stage, 1, 1))
    progress.on_event(Event("harbour", "tune", 20, 40, "mlp"))
    share = (3 + 1 + 4 + 1 + 45 / 2) / sum(shown.STAGES.values())
    assert progress.tasks[0].completed == pytest.approx(share)
    minutes, seconds = divmod(round(60 * (1 - share) / share), 60)
    harbour, hillside = drawn(progress)
    assert f"5/{len(shown.STAGES)} tune, about {minutes}:{seconds:02d} to go mlp" in harbour
    assert "0:01:00" in harbour, "the time since the site began"
    assert "to go" not in hillside


def test_within_a_long_step_the_time_to_go_counts_down():
    progress, clock = progress_of("harbour")
    progress.on_event(Event("harbour", "read and check", 0, 1))
    clock.now += 60
    progress.on_event(Event("harbour", "tune", 20, 40))
    rests = []
    for _ in range(4):
        words = shown.to_go(progress.tasks[0])
        minutes, _, seconds = words.removeprefix(", about ").removesuffix(" to go").partition(":")
        rests.append(60 * int(minutes) + int(seconds))
        clock.now += 20
        progress.on_event(Event("harbour", "tune", 20, 40, "still"))
    assert rests == [rests[0] - 20 * step for step in range(4)]
    clock.now += 1000
    assert shown.to_go(progress.tasks[0]) == ""


def test_where_no_terminal_is_a_stage_is_a_line_and_silence_is_broken(monkeypatch):
    monkeypatch.setattr(shown, "HEARTBEAT_SECONDS", 0.02)
    out = io.StringIO()
    with shown.show_progress(["harbour"], Console(file=out, width=100)):
        for _ in range(3):
            emit_progress("harbour", "encode", detail="9 features")
        emit_progress("harbour", "tune", 3, 40)
        deadline = time.monotonic() + LIMIT_SECONDS
        while "5/" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert out.getvalue().count("[0:00] harbour: encode: 9 features\n") == 1, "reported by three sites that share it"
    assert f"harbour: 5/{len(shown.STAGES)} tune" in out.getvalue()
    after = out.getvalue()
    time.sleep(0.1)
    assert out.getvalue() == after, "it went on after the run"


def test_a_terminal_shows_a_bar_per_site():
    out = io.StringIO()
    terminal = Console(file=out, width=100, force_terminal=True, color_system=None)
    with shown.show_progress(["harbour"], terminal):
        emit_progress("harbour", "draws", 2, 5, "2 of 5")
    assert "0:00:00 draws 2 of 5" in out.getvalue(), "a stage that is not the pipeline's has no number"
