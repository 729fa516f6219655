"""What a person sees while a run goes on."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from flows import console as shown
from tdrop.home.progress import Event, report

#: Until when a line must have come; it comes within a fraction of it.
LIMIT_SECONDS = 400


def drawn(display: shown.RunDisplay) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(display)
    return out.getvalue()


def test_the_time_to_go_stands_beside_the_stage(monkeypatch):
    display = shown.RunDisplay(["harbour", "hillside"])
    assert "Prefect" not in drawn(display)
    assert drawn(display).count("waiting") == 2
    for stage in ("read and check", "encode", "estimate shift", "match"):
        display.take(Event("harbour", stage, 1, 1))
    now = time.monotonic()
    monkeypatch.setattr(shown.time, "monotonic", lambda: now)
    display.started["harbour"] = now - 60
    display.take(Event("harbour", "tune", 20, 40, "mlp"))
    share = display.share_done("harbour")
    assert share == pytest.approx((3 + 1 + 4 + 1 + 45 / 2) / sum(shown.STAGES.values()))
    rest = 60 * (1 - share) / share
    harbour, hillside = drawn(display).splitlines()[:2]
    assert f"5/{len(shown.STAGES)} tune, about {int(rest // 60)}:" in harbour
    assert "to go" not in hillside


def test_within_a_long_step_the_time_to_go_counts_down(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(shown.time, "monotonic", lambda: now)
    display = shown.RunDisplay(["harbour"])
    display.take(Event("harbour", "read and check", 0, 1))
    now += 60
    display.take(Event("harbour", "tune", 20, 40))
    rests = []
    for _ in range(4):
        minutes, _, seconds = display.to_go("harbour").removeprefix(", about ").removesuffix(" to go").partition(":")
        rests.append(60 * int(minutes) + int(seconds))
        now += 20
        display.take(Event("harbour", "tune", 20, 40, "still"))
    assert rests == [rests[0] - 20 * step for step in range(4)]
    now += 1000
    assert display.to_go("harbour") == ""


def test_where_no_terminal_is_a_stage_is_a_line_and_silence_is_broken(monkeypatch):
    monkeypatch.setattr(shown, "SIGN_OF_LIFE_SECONDS", 0.02)
    out = io.StringIO()
    with shown.watching(["harbour"], Console(file=out, width=100)):
        for _ in range(3):
            report("harbour", "encode", detail="9 features")
        report("harbour", "tune", 3, 40)
        deadline = time.monotonic() + LIMIT_SECONDS
        while "5/" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert out.getvalue().count("harbour: encode: 9 features\n") == 1, "told by three sites that share it"
    assert f"harbour: 5/{len(shown.STAGES)} tune" in out.getvalue()
    after = out.getvalue()
    time.sleep(0.1)
    assert out.getvalue() == after, "it went on after the run"


def test_a_benchmarks_own_stages_are_shown_without_a_number():
    display = shown.RunDisplay(["toy"])
    display.take(Event("toy", "draws", 2, 5, "2 of 5"))
    assert display.words_of("toy") == "draws"
