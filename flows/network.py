"""Several target sites in one flow; a site that fails does not take the others down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import flow, get_run_logger

from flows.runners import task_runner
from flows.transfer import explain, transfer_site
from tasks.place import Place
from tasks.pool import worker_processes
from tasks.report import publish_index
from tasks.settings import TransferSettings


@flow(name="transfer-network", persist_result=False)
def transfer_network(
    sites: Sequence[str],
    settings: TransferSettings = TransferSettings(),
    contracts: str = "data_contracts",
    home: str | None = None,
    processes: int | None = None,
    again: bool = False,
    runner: str = "processes",
    address: str | None = None,
) -> dict[str, Any]:
    """Transfers to each site in turn, then links all reports from `index.html`.

    Every trial, refit and out-of-fold score of a site is a task of its own; `runner` and `address`
    say where those run (see `flows.runners`).

    Returns:
        By site: its summary, or {"failed": sentence}.
    """
    place = Place.at(home, contracts)
    network = place.network()
    for site in sites:
        network.site(site)
    results: dict[str, Any] = {}
    with worker_processes(processes), task_runner(runner, address) as tasks_run_on:
        transfer = transfer_site.with_options(task_runner=tasks_run_on)
        for site in dict.fromkeys(sites):
            try:
                results[site] = transfer(site, settings, contracts, home, processes, again)
            except Exception as error:
                results[site] = {"failed": explain(site, error)}
                get_run_logger().error("site %s failed: %s", site, results[site]["failed"])
    publish_index(place)
    return results
