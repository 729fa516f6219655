"""Work runs in worker processes or in place, and overlapping work counts once."""

from __future__ import annotations

import os

import pytest

from tasks import pool


def test_work_runs_in_place_without_a_pool():
    assert pool.compute(os.getpid) == os.getpid()


def test_zero_processes_work_in_place():
    with pool.worker_processes(0):
        assert pool.compute(os.getpid) == os.getpid()


def test_overlapping_work_counts_once(monkeypatch):
    monkeypatch.setattr(pool, "_spans", [(0.0, 4.0), (1.0, 2.0), (3.0, 6.0), (10.0, 11.0)])
    assert pool.busy_seconds() == pytest.approx(7.0)
