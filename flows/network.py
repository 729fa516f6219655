"""Several target sites in one flow; a site that fails does not take the others down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import TypeVar

from flows.recipe import Failed, recipe
from flows.runners import AT_ONCE, WIND_UP_SECONDS, task_runner
from flows.transfer import Transferred, explain, transfer_site
from tasks.step import in_a_flow_run, run_logger
from tdrop.home import Place, stopping, turn, worker_processes
from tdrop.runs import TransferSettings, publish_index

Result = TypeVar("Result")


@recipe("transfer-network", "transfer to {sites}")
def transfer_network(
    sites: Sequence[str],
    settings: TransferSettings = TransferSettings(),
    contracts: str = "data_contracts",
    home: str | None = None,
    processes: int | None = None,
    again: bool = False,
    runner: str = "processes",
    address: str | None = None,
    at_once: int | None = None,
) -> dict[str, Transferred | Failed]:
    """Transfers to each site, then links all reports from `index.html`.

    Every trial, refit and out-of-fold score of a site is a task of its own; `runner` and `address`
    say where those run (see `flows.runners`), `at_once` how many sites are under way together.

    Returns:
        By site: what came of it.
    """
    place = Place.at(home, contracts)
    network = place.network()
    settings.chosen_methods()
    for site in sites:
        network.site(site)
    with worker_processes(processes), task_runner(runner, address) as tasks_run_on:
        transfer = transfer_site.on(tasks_run_on)

        asked = tuple(dict.fromkeys(sites))

        def transfer_or_explain(site: str) -> Transferred | Failed:
            try:
                with turn(asked.index(site)):
                    return transfer(site, settings, contracts, home, processes, again)
            except stopping.Interrupted:
                raise
            except Exception as error:
                sentence = explain(site, error)
                if in_a_flow_run():
                    # Elsewhere whoever asked is told by the answer.
                    run_logger().error("%s", sentence)
                return Failed(sentence)

        results = _for_each(transfer_or_explain, asked, at_once or AT_ONCE[runner])
    publish_index(place)
    return results


def _for_each(transfer: Callable[[str], Result], sites: Sequence[str], at_once: int) -> dict[str, Result]:
    """Results by site; one site at a time stays in this thread, where Ctrl-C ends it at once."""
    if at_once == 1 or len(sites) == 1:
        return {site: transfer(site) for site in sites}
    threads = ThreadPoolExecutor(at_once)
    try:
        # Each thread gets the context that makes its flow a part of this one.
        futures = {site: threads.submit(copy_context().run, transfer, site) for site in sites}
        return {site: future.result() for site, future in futures.items()}
    finally:
        # After Ctrl-C their fits are over: they have a moment to say so.
        threads.shutdown(wait=False, cancel_futures=True)
        wait(futures.values(), timeout=WIND_UP_SECONDS)
