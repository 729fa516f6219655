"""Work runs in worker processes or in place, and overlapping work counts once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tasks import pool
from tdrop.errors import FitError


def die_at_first(marker: str) -> str:
    """Kills its own process, as a machine without memory does, unless it has done so before."""
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_work_runs_in_place_without_a_pool():
    assert pool.compute(os.getpid) == os.getpid()


def test_zero_processes_work_in_place():
    with pool.worker_processes(0):
        assert pool.compute(os.getpid) == os.getpid()


def test_overlapping_work_counts_once(monkeypatch):
    monkeypatch.setattr(pool, "_spans", [(0.0, 4.0), (1.0, 2.0), (3.0, 6.0), (10.0, 11.0)])
    assert pool.busy_seconds() == pytest.approx(7.0)


def test_a_worker_that_dies_costs_nothing_but_time(tmp_path):
    with pool.worker_processes(1):
        assert pool.compute(die_at_first, str(tmp_path / "marker")) == "done"


def test_work_that_always_kills_its_worker_fails_alone():
    with pool.worker_processes(1):
        with pytest.raises(FitError, match="died twice"):
            pool.compute(die)
        assert pool.compute(os.getpid) != os.getpid()
