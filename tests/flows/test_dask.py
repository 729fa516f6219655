"""On a Dask cluster the numbers are the same, also when a worker is killed in the middle of a fit."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import TINY_METHODS, at, compared_network, leave_reports_out, transfer_several, write_tiny_network
from dask_workers import WorkerKiller
from waiting import LIMIT_SECONDS

from flows.transfer_command import Workers, dask_scheduler
from tdrop.base import Unavailable, UsageError

#: Long enough for a worker to be caught in the middle of it, and what sites could get from each other shows too.
METHODS = {
    "transductive_dropout": {"hidden": [16], "steps": 150, "batch": 32},
    "logistic_regression": TINY_METHODS["logistic_regression"],
}


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes that somebody else started."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_neither_a_killed_worker_nor_sites_at_once_change_a_digit(
    prefect_server, cluster, tiny_settings, tmp_path, monkeypatch
):
    leave_reports_out(monkeypatch)
    settings = tiny_settings.model_copy(update={"methods": tuple(METHODS), "method_settings": METHODS})

    def transfer_all(folder, **where):
        workspace = compared_network(tmp_path / folder)
        (workspace.root / "demo" / "hillside.csv").unlink()
        results = transfer_several(workspace, ["harbour", "hillside", "lakeside"], settings, **where)
        assert "does not exist" in results.pop("hillside").sentence
        assert list(results) == ["harbour", "lakeside"]
        assert all(result.not_recorded is None for result in results.values())
        return {site: (workspace.latest(site) / "evaluation.json").read_bytes() for site in results}

    one_by_one = transfer_all("one")
    killer = WorkerKiller(cluster, tmp_path / "cluster" / "home" / "store" / "held-out")
    killer.start()
    assert transfer_all("cluster", scheduler=cluster.scheduler.address, at_once=3) == one_by_one
    killer.join(LIMIT_SECONDS)
    assert killer.killed is not None, "no worker was caught in the middle of a task"
    after = {path: path.stat().st_mtime_ns for path in killer.finished}
    assert after == killer.finished, "a finished stage was built again"
    assert transfer_all("threads", at_once=3) == one_by_one


def test_without_an_address_processes_of_this_machine_are_the_cluster():
    with dask_scheduler(None) as address:
        assert address.startswith("tcp://127.0.0.1:")
    with pytest.raises(Unavailable, match="no Dask scheduler answers"), dask_scheduler(address):
        pass


def test_a_rehearsal_has_its_sites_side_by_side_with_the_same_numbers(
    prefect_server, cluster, tiny_settings, tmp_path, monkeypatch
):
    from flows.rehearse import rehearse_table

    leave_reports_out(monkeypatch)
    settings = tiny_settings.model_copy(update={"methods": ("logistic_regression",)})

    def rehearse(folder, **where):
        workspace = write_tiny_network(tmp_path / folder)
        file = Path(workspace.contracts) / "sites" / "harbour.yaml"
        file.write_text(file.read_text().replace("role: target", "role: both").replace("source: registry\n", ""))
        with at(workspace):
            rehearsal = rehearse_table("prostate", settings, **where)
        assert (rehearsal.failed, rehearsal.not_recorded) == ({}, "")
        return rehearsal.sites

    one_by_one = rehearse("one")
    assert [site.site for site in one_by_one] == ["harbour", "registry"]
    assert rehearse("cluster", at_once=2, scheduler=cluster.scheduler.address) == one_by_one


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [("dusk", None, "did you mean 'dask'"), ("processes", "tcp://host:8786", "add --runner dask")],
)
def test_a_runner_that_does_not_exist_is_wrong_usage(name, address, words):
    with pytest.raises(UsageError, match=words):
        Workers(runner=name, address=address)
