"""kill -9 of a transfer, and of a worker in the midst of its work: the next run ends with the same bytes."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from conftest import cheap, write_tiny_network
from separate_process import start_transfer, worker_processes_of

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]
SITE = "harbour"
SETTINGS = cheap("logistic_regression", "mlp", seeds=2)
#: What a finished run holds that carries no time of day.
TIMELESS = ("evaluation.json", "choice.json", "forecast.json", "models.json", "patients.csv", "shift.json")
#: What is there when the kill comes: early, in the midst, and when the last good report is about to appear.
MOMENTS = ("store/prepared/[!.]*", "store/fit/[!.]*", "sites/harbour/latest-versions/*")


def begin(workspace):
    return start_transfer(workspace, SETTINGS, SITE, 1)


def finish(workspace) -> dict[str, bytes]:
    """Runs to the end, whatever was there before; returns what it holds."""
    process = begin(workspace)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert not [path for path in workspace.root.rglob(".*") if path.parent == workspace.latest(SITE).resolve()]
    return {name: (workspace.latest(SITE) / name).read_bytes() for name in TIMELESS}


def wait_for(workspace, pattern: str, process) -> None:
    while not list(workspace.root.glob(pattern)):
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.01)


def kill(process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return finish(write_tiny_network(tmp_path_factory.mktemp("undisturbed")))


def test_a_transfer_killed_again_and_again_ends_with_the_same_bytes(tmp_path, undisturbed):
    workspace = write_tiny_network(tmp_path)
    for moment in MOMENTS:
        process = begin(workspace)
        wait_for(workspace, moment, process)
        kill(process)
        assert not workspace.latest(SITE).exists() or (workspace.latest(SITE) / "run.json").is_file()
    assert finish(workspace) == undisturbed


def test_a_killed_worker_costs_its_work_and_no_byte(tmp_path, undisturbed):
    workspace = write_tiny_network(tmp_path)
    process = begin(workspace)
    wait_for(workspace, "store/held-out/.*", process)
    workers = worker_processes_of(process.pid)
    assert workers
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert {name: (workspace.latest(SITE) / name).read_bytes() for name in TIMELESS} == undisturbed


@pytest.mark.timeout(7200)
def test_thirty_random_moments_end_with_the_same_bytes(tmp_path, undisturbed):
    chance = random.Random(0)
    started = time.monotonic()
    finish(write_tiny_network(tmp_path / "measured"))
    lasts = time.monotonic() - started
    for number in range(30):
        workspace = write_tiny_network(tmp_path / str(number))
        process = begin(workspace)
        time.sleep(chance.uniform(0, lasts))
        if chance.random() < 0.5:
            kill(process)
        else:
            for worker in worker_processes_of(process.pid):
                os.kill(worker, signal.SIGKILL)
            process.communicate(timeout=300)
        assert finish(workspace) == undisturbed, number
