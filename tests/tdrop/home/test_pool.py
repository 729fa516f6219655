"""Work runs in worker processes or in place, and overlapping work counts once."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from pool_work import (
    die,
    die_at_first,
    loaded_already,
    loaded_by_training,
    mark_and_sleep,
    own_megabytes,
)
from separate_process import worker_processes_of
from waiting import LIMIT_SECONDS, is_gone, wait_until

from tdrop.base import FitError
from tdrop.home import Interrupted, clear_interrupt, pool, request_interrupt


def test_work_runs_in_place_without_a_pool():
    assert pool.compute(os.getpid) == os.getpid()


def test_zero_processes_work_in_place():
    with pool.worker_processes(0):
        assert pool.compute(os.getpid) == os.getpid()


def test_overlapping_work_counts_once():
    assert pool.busy_seconds([(0.0, 4.0), (1.0, 2.0), (3.0, 6.0), (10.0, 11.0)]) == pytest.approx(7.0)


def test_a_worker_that_dies_costs_nothing_but_time(tmp_path):
    with pool.worker_processes(1):
        assert pool.compute(die_at_first, str(tmp_path / "marker")) == "done"


def test_work_that_always_kills_its_worker_fails_alone():
    with pool.worker_processes(1):
        with pytest.raises(FitError, match="died 3 times"):
            pool.compute(die)
        assert pool.compute(os.getpid) != os.getpid()


def kill_what_was_started(count: int) -> None:
    """Kills everything that this process started, who forks the workers included, once there is that much."""
    while len(started := worker_processes_of(os.getpid())) < count:
        time.sleep(0.01)
    for process in reversed(started):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:resource_tracker")
def test_whoever_starts_the_workers_may_die_with_them():
    with pool.worker_processes(1), ThreadPoolExecutor(1) as threads:
        pool.compute(os.getpid)
        killed = threads.submit(kill_what_was_started, 3)
        pool.compute(time.sleep, 0.3)
        killed.result()


def test_a_death_is_the_dead_workers_work_alone():
    """Whoever fits beside one that dies again and again is not drawn into it."""
    with pool.worker_processes(2), ThreadPoolExecutor(2) as threads:
        dying = threads.submit(pool.compute, die)
        others = [threads.submit(pool.compute, time.sleep, 0.5) for _ in range(4)]
        assert [future.result() for future in others] == [None] * 4
        assert isinstance(dying.exception(), FitError)


@pytest.fixture
def told_to_stop():
    yield request_interrupt
    clear_interrupt()


def test_a_request_ends_work_at_once_and_counts_as_nobodys_failure(tmp_path, told_to_stop):
    with pool.worker_processes(1), ThreadPoolExecutor(3) as threads:
        working = [threads.submit(pool.compute, mark_and_sleep, str(tmp_path)) for _ in range(3)]
        wait_until(lambda: any(tmp_path.iterdir()))
        assert not any(future.done() for future in working)
        told_to_stop()
        assert all(isinstance(future.exception(LIMIT_SECONDS), Interrupted) for future in working)
    (worker,) = (int(file.name) for file in tmp_path.iterdir())
    wait_until(lambda: is_gone(worker))


def test_the_outermost_block_decides_how_many_processes_there_are():
    with pool.worker_processes(0), pool.worker_processes(1):
        assert pool.compute(os.getpid) == os.getpid()


def test_a_worker_loads_no_record_no_checker_and_no_drawing():
    with pool.worker_processes(1):
        assert pool.compute(loaded_by_training) == []


def test_workers_that_were_started_early_do_the_work():
    with pool.worker_processes(1):
        pool.preload_workers()
        assert pool.compute(os.getpid) != os.getpid()
    pool.preload_workers()
    assert pool.compute(os.getpid) == os.getpid(), "without workers there is nothing to start"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every worker loads what it needs anew")
def test_workers_share_the_memory_of_what_they_loaded():
    with pool.worker_processes(1):
        assert pool.compute(loaded_already) == ["sklearn", "torch"]
        assert pool.compute(own_megabytes) < 60, "loading them anew takes 200"
