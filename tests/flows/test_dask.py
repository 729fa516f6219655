"""On a Dask cluster the numbers are the same, also when a worker is killed in the middle of a fit."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from conftest import TINY_METHODS, leave_reports_out, transfer_several, write_tiny_network
from waiting import LIMIT_SECONDS

from flows.cluster import check_runner, dask_scheduler
from tdrop.base import Unavailable, UsageError

SITE = "harbour"
#: Long enough for a worker to be caught in the middle of it.
SLOW = {
    "transductive_dropout": {"hidden": [32], "steps": 1500, "batch": 32},
    "logistic_regression": TINY_METHODS["logistic_regression"],
}
#: What sites could get from each other shows in the cheapest method.
QUICK = {name: TINY_METHODS[name] for name in ("mlp", "logistic_regression")}


@pytest.fixture(scope="module")
def settings():
    from tasks.run import TransferSettings

    return TransferSettings(
        methods=tuple(SLOW), method_settings=SLOW, seeds=1, trials=1, passes=10, folds=2, bootstrap=50
    )


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes that somebody else started."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def transfer(place, settings, **where):
    from flows.transfer import Transferred

    result = transfer_several(place, [SITE], settings, **where)[SITE]
    assert isinstance(result, Transferred), result
    return (place.latest(SITE) / "evaluation.json").read_bytes()


def test_a_killed_worker_costs_one_task_and_no_digit(prefect_server, settings, cluster, tmp_path, monkeypatch):
    leave_reports_out(monkeypatch)
    here = transfer(write_tiny_network(tmp_path / "here"), settings)
    place = write_tiny_network(tmp_path / "there")
    killer = Killer(cluster, place.root / "store" / "held-out")
    killer.start()
    there = transfer(place, settings, scheduler=cluster.scheduler.address)
    killer.join(LIMIT_SECONDS)
    assert killer.killed is not None, "no worker was caught in the middle of a task"
    assert there == here
    after = {path: path.stat().st_mtime_ns for path in killer.finished}
    assert after == killer.finished, "a finished stage was built again"


class Killer(threading.Thread):
    """Waits until a worker has been in a task for a while, then kills its process."""

    def __init__(self, client, stages: Path) -> None:
        super().__init__(daemon=True)
        self.client, self.stages = client, stages
        self.killed: int | None = None
        self.finished: dict[Path, int] = {}

    def run(self) -> None:
        pids = self.client.run(os.getpid)
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            under_way = list(self.stages.glob(".*"))
            busy = [address for address, tasks in self.client.processing().items() if tasks]
            if under_way and busy:
                self.finished = {file: file.stat().st_mtime_ns for file in self.stages.glob("[!.]*/manifest.json")}
                os.kill(pids[busy[0]], signal.SIGKILL)
                self.killed = pids[busy[0]]
                return
            time.sleep(0.02)


def test_without_an_address_processes_of_this_machine_are_the_cluster():
    with dask_scheduler(None) as address:
        assert address.startswith("tcp://127.0.0.1:")
    with pytest.raises(Unavailable, match="no Dask scheduler answers"), dask_scheduler(address):
        pass


def test_sites_under_way_together_are_not_mixed_up(prefect_server, cluster, tiny_settings, tmp_path, monkeypatch):

    leave_reports_out(monkeypatch)
    settings = tiny_settings.model_copy(update={"methods": tuple(QUICK), "method_settings": QUICK})
    sites = ["harbour", "hillside", "lakeside"]

    def transfer_all(folder, **where):
        place = write_tiny_network(tmp_path / folder)
        (place.root / "demo" / "hillside.csv").unlink()
        results = transfer_several(place, sites, settings, **where)
        assert "does not exist" in results.pop("hillside").sentence
        assert list(results) == ["harbour", "lakeside"]
        assert all(result.not_recorded is None for result in results.values())
        return {site: (place.latest(site) / "evaluation.json").read_bytes() for site in results}

    one_by_one = transfer_all("one")
    assert transfer_all("cluster", scheduler=cluster.scheduler.address) == one_by_one
    assert transfer_all("threads", at_once=3) == one_by_one


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [("dusk", None, "did you mean 'dask'"), ("processes", "tcp://host:8786", "add --runner dask")],
)
def test_a_runner_that_does_not_exist_is_wrong_usage(name, address, words):
    with pytest.raises(UsageError, match=words):
        check_runner(name, address)
