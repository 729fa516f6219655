"""`tdrop ui`: the pages of Prefect and MLflow on this machine, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from rich.console import Console

from flows.closed_server import own_hosts
from flows.orchestration import Server, announcing, answers, prefect_command, require_free, starting, starting_alone
from tasks.recording import SAVED_VIEW, view_address, view_key
from tasks.tracking import EXPERIMENTS, connect, tracking_uri
from tdrop.base import UsageError
from tdrop.home import PRIVATE, Place, stopping

POLL_SECONDS = 0.5


def run_pages(
    *, prefect_port: int, mlflow_port: int, console: Console, until: Callable[[], bool] = lambda: False
) -> None:
    """Serves both pages until Ctrl-C, or until `until` says so."""
    place = Place.at()
    logs = place.root / "logs"
    logs.mkdir(exist_ok=True, mode=PRIVATE)
    api, serve_prefect = _address("PREFECT_API_URL", f"http://127.0.0.1:{prefect_port}/api")
    tracking, serve_mlflow = _address("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{mlflow_port}")
    if prefect_port == mlflow_port:
        raise UsageError(f"Prefect and MLflow cannot share port {prefect_port}; give them two")
    for needed, port, name in ((serve_prefect, prefect_port, "Prefect"), (serve_mlflow, mlflow_port, "MLflow")):
        if needed:
            require_free(port, name)
    try:
        with ExitStack() as stack:
            console.print("Starting ...")
            servers: list[Server] = []
            with starting_alone(_prefect_home(place)):
                if serve_prefect:
                    servers.append(stack.enter_context(_prefect(place, prefect_port, logs)))
                if serve_mlflow:
                    servers.append(stack.enter_context(_mlflow(place, mlflow_port, logs)))
                for server in servers:
                    server.wait_until_up()
            if serve_prefect:
                stack.enter_context(announcing(place.root, api))
            _show(place, api, tracking, console)
            _wait(servers, until)
    except KeyboardInterrupt:
        # What the command was waiting for: it ends as it should.
        stopping.fulfil()


def _address(variable: str, own: str) -> tuple[str, bool]:
    """Where a page is: at the configured server when it answers, else at one of our own, to be started."""
    configured = os.environ.get(variable, "")
    if configured.startswith(("http://", "https://")) and answers(f"{configured}/health"):
        return configured, False
    return own, True


def _prefect(place: Place, port: int, logs: Path) -> AbstractContextManager[Server]:
    """A Prefect server with its page; its database is the one that embedded runs write to."""
    home = _prefect_home(place)
    api = f"http://127.0.0.1:{port}/api"
    environment = {"PREFECT_HOME": str(home), "PREFECT_API_URL": api, "PREFECT_UI_API_URL": api}
    return starting("Prefect", prefect_command(port), f"{api}/health", logs / "prefect.log", environment)


def _prefect_home(place: Place) -> Path:
    home = Path(os.environ.get("PREFECT_HOME") or place.root / "prefect")
    home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    return home


def _mlflow(place: Place, port: int, logs: Path) -> AbstractContextManager[Server]:
    """An MLflow server on the tracking store, which is brought up to date first."""
    connect(place)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--uvicorn-opts", "--log-level warning"),
        *("--allowed-hosts", ",".join(own_hosts(port))),
        *("--cors-allowed-origins", ",".join(f"http://{host}" for host in own_hosts(port))),
        *("--artifacts-destination", (place.root / "artifacts").as_uri()),
    ]
    # In the environment, not among the arguments, where everyone on the machine would see a password.
    environment = {"MLFLOW_BACKEND_STORE_URI": tracking_uri(place), "MLFLOW_TRACKING_URI": ""}
    health = f"http://127.0.0.1:{port}/health"
    return starting("MLflow", command, health, logs / "mlflow.log", environment)


def _show(place: Place, api: str, tracking: str, console: Console) -> None:
    console.print(f"Prefect   {api.removesuffix('/api')}   runs, schedules, artifacts")
    for page in experiment_pages(place, tracking):
        console.print(f"MLflow    {page}   compare methods")
    if (place.root / "index.html").is_file():
        console.print(f"Reports   {(place.root / 'index.html').as_uri()}   all sites")
    console.print("\nIn another shell, from this folder, so that deployments and workers find them:")
    console.print(f"  export PREFECT_API_URL={api}")
    console.print("  tdrop deploy && prefect worker start --pool tdrop")
    console.print(f"\nLogs are in {place.root / 'logs'}. Ctrl-C stops both.")


def experiment_pages(place: Place, tracking: str) -> list[str]:
    """Of each network the methods of its newest site run, best first; MLflow's own first page while there is none."""
    client, pages = connect(place), []
    for each in client.search_experiments(filter_string=EXPERIMENTS):
        newest = client.search_runs([each.experiment_id], "tags.kind = 'site'", max_results=1)
        site = newest[0].data.tags.get("site", "") if newest else ""
        if SAVED_VIEW + view_key(site) in each.tags:
            pages.append(view_address(tracking, each.experiment_id, site))
        else:
            pages.append(f"{tracking}/#/experiments/{each.experiment_id}/runs")
    return pages or [tracking]


def _wait(servers: Sequence[Server], until: Callable[[], bool]) -> None:
    while not until():
        for server in servers:
            server.require_running()
        time.sleep(POLL_SECONDS)
