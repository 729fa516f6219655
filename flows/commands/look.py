"""`tdrop status` and `tdrop ui`: the state of every site, and the pages of Prefect and MLflow."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from filelock import FileLock, Timeout

from flows.interrupts import forget_signal
from flows.orchestration import (
    SERVER_NOTE,
    UI_LOCK,
    Server,
    is_up,
    prefect_command,
    require_free_port,
    server_start_lock,
    start_server,
)
from flows.printer import DEFAULT_CONTRACTS, AsJson, Contracts, console, contracts_option, make_printer
from tdrop.base import TdropError, UsageError
from tdrop.home import PRIVATE, Workspace, clear_interrupt, write_private

if TYPE_CHECKING:
    from tdrop.home import Inputs, ResolvedSite

#: What `status` compares with the last run; other code or settings are no news.
DATA = {"contract": "its contract", "source_data": "the source's data", "target_data": "its data", "labels": "labels"}
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Standing:
    """The state of one site.

    Attributes:
        site: Its name.
        state: done, stale, stopped, failed, not recorded, interrupted, running or never run.
        reason: Why, in a sentence; empty where there is nothing to say.
        next_step: What to do now, in words with the command.
        verdict: Verdict of its last report: go, caution, stop or too few to say; None without a report.
        champion: The approved model, who approved it and when; None without one.
        ended: When its last run ended (UTC), or None.
        report: When its report was made (UTC), or None without one.
        data: When its extract was written (UTC); None unless it is a file of this machine.
        watch: State of its champion's watch, or None without one.
    """

    site: str
    state: str
    reason: str
    next_step: str
    verdict: str | None
    champion: str | None
    ended: str | None
    report: str | None
    data: str | None
    watch: str | None


def status(as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Show each site's state, verdict, approved model and next step."""
    from tdrop.base import plain

    workspace, printer = Workspace.at(contracts=contracts, writes=False), make_printer(as_json)
    sites = [workspace.resolve(site.name) for site in workspace.network().targets]
    standings = [standing_of(site, contracts_option(contracts)) for site in sites]
    printer.print_result({"sites": [plain(standing) for standing in standings]})
    for standing in standings:
        data = f"data of {_minute(standing.data)}, " if standing.data else ""
        report = f"report of {_minute(standing.report)}" if standing.report else "no report"
        verdict = f", verdict {standing.verdict}" if standing.verdict else ""
        printer.print(f"[bold]{standing.site}[/]: {standing.state}{verdict}; {data}{report}")
        for words in (
            standing.reason,
            f"approved: {standing.champion or 'no model yet'}",
            standing.watch,
            f"next: {standing.next_step}",
        ):
            if words:
                printer.print(f"  {words}", markup=False)


def _watch_of(site: ResolvedSite) -> str | None:
    """State of a site's watch. A site that never had one costs neither an import nor a request to MLflow."""
    if not (site.workspace.site(site.name) / "watch.json").is_file():
        return None
    from tasks.watch import watch_sentence

    return watch_sentence(site.workspace, site.name)


def standing_of(site: ResolvedSite, options: str = "") -> Standing:
    """Reads a site's status and last report, and compares what it was made from with what is there now.

    `options` are those that the next command needs.
    """
    from tdrop.home import is_running, read_status
    from tdrop.methods import label

    workspace, name = site.workspace, site.name
    last = read_status(workspace, name)
    changed = _changes(site, last.inputs) if last is not None and last.outcome == "done" and last.inputs else ""
    if is_running(workspace, name):
        state, reason = "running", ""
    elif last is None:
        state, reason = "never run", ""
    else:
        state, reason = ("stale", changed) if changed else (last.outcome, last.sentence)
    summary = _summary(workspace, name)
    promotion = summary.get("promotion")
    champion = None
    if promotion is not None:
        version = f"version {promotion['version']} ({label(promotion['method'])})"
        champion = f"{version}, by {promotion['by']}, {promotion['when'][:10]}"
    verdict = summary.get("verdict")
    return Standing(
        name,
        state,
        reason,
        _next_step(name, state, verdict, champion, options),
        verdict,
        champion,
        None if last is None else last.ended,
        _written(workspace.latest(name) / "report.html"),
        _data_written(site),
        _watch_of(site),
    )


def _summary(workspace: Workspace, site: str) -> dict[str, Any]:
    """Summary of a site's last report; empty without one."""
    try:
        values: dict[str, Any] = json.loads((workspace.latest(site) / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values


def _next_step(site: str, state: str, verdict: str | None, champion: str | None, options: str) -> str:
    if state == "running":
        return "wait for its run; `tdrop ui` shows how far it is"
    if state == "stopped":
        return f"correct the extract or its YAML, then `tdrop validate {site}{options}`"
    if state != "done":
        return f"`tdrop transfer {site}{options}`"
    if champion is not None:
        return f"`tdrop score {site} FILE{options}`"
    if verdict == "stop":
        return "read in the report why no model is offered; another extract or another source may help"
    return f"if the report convinces you, `tdrop promote {site} --by NAME --note TEXT{options}`"


def _written(file: Path) -> str | None:
    """When a file was written (UTC); None without the file."""
    if not file.is_file():
        return None
    return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="seconds")


def _data_written(site: ResolvedSite) -> str | None:
    from tdrop.data import resolve

    if site.site.location is None:
        return None
    try:
        location = resolve(site.site.location, **site.where)
    except TdropError:
        return None
    return None if location.is_url else _written(Path(location.address))


def _changes(site: ResolvedSite, before: Inputs) -> str:
    """What changed since the last run, in a sentence; empty when nothing did."""
    from tdrop.home import current_inputs

    try:
        now = current_inputs(site, before.settings)
    except TdropError as error:
        return str(error)
    new = [words for key, words in DATA.items() if getattr(now, key) != getattr(before, key)]
    if DATA["target_data"] in new and (site.workspace.site(site.name) / "new_patients.parquet").is_file():
        from tasks.new_patients import is_current

        # The last run was for new patients, and the extract is as it was then.
        if is_current(site, before.target_data, now.target_data):
            new = [words for words in new if words not in (DATA["target_data"], DATA["labels"])]
    return f"{' and '.join(new)} changed since its last run" if new else ""


def _minute(moment: str) -> str:
    return f"{moment[:16].replace('T', ' ')} UTC"


def ui(
    prefect_port: Annotated[
        int, typer.Option(help="Port of the Prefect page", metavar="PORT", min=1, max=65535)
    ] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow page", metavar="PORT", min=1, max=65535)] = 5000,
) -> None:
    """Serve the Prefect and MLflow pages on this machine until Ctrl-C."""
    if prefect_port == mlflow_port:
        raise UsageError(f"Prefect and MLflow cannot share port {prefect_port}; give them two")
    serve_pages(Workspace.at(), prefect_port, mlflow_port)


def serve_pages(workspace: Workspace, prefect_port: int, mlflow_port: int) -> None:
    """Serves both pages until Ctrl-C."""
    api, serve_prefect = _address("PREFECT_API_URL", f"http://127.0.0.1:{prefect_port}/api")
    tracking, serve_mlflow = _address("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{mlflow_port}")
    try:
        with _only_one(workspace, f"Prefect {api.removesuffix('/api')}, MLflow {tracking}"), ExitStack() as stack:
            console.print("Starting ...")
            servers: list[Server] = []
            with server_start_lock(_prefect_home(workspace)):
                if serve_prefect:
                    require_free_port(prefect_port, "Prefect")
                    servers.append(stack.enter_context(_prefect(workspace, prefect_port)))
                if serve_mlflow:
                    require_free_port(mlflow_port, "MLflow")
                    servers.append(stack.enter_context(_mlflow(workspace, mlflow_port)))
                for server in servers:
                    server.wait_until_up()
            if serve_prefect:
                write_private(workspace.root / SERVER_NOTE, api)
            _show_addresses(workspace, api, tracking)
            while True:
                for server in servers:
                    server.require_running()
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        # The usual end of this command.
        clear_interrupt()
        forget_signal()


@contextmanager
def _only_one(workspace: Workspace, addresses: str) -> Iterator[None]:
    """Lets one `tdrop ui` at a time serve a home; a second one is told where the first is."""
    note, lock = workspace.root / "ui.txt", FileLock(workspace.root / UI_LOCK, mode=0o600)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        where = note.read_text(encoding="utf-8") if note.is_file() else "starting"
        raise TdropError(
            f"`tdrop ui` is running on {workspace.root} already: {where}; use that one, or stop it"
        ) from None
    try:
        (workspace.root / SERVER_NOTE).unlink(missing_ok=True)  # of one that served another address
        write_private(note, addresses)
        yield
    finally:
        lock.release()


def _address(variable: str, own: str) -> tuple[str, bool]:
    """Address of a page, and whether a server must be started for it: not when the configured one answers."""
    configured = os.environ.get(variable, "")
    if configured.startswith(("http://", "https://")) and is_up(f"{configured}/health"):
        return configured, False
    return own, True


def _prefect(workspace: Workspace, port: int) -> AbstractContextManager[Server]:
    """Starts a Prefect server on the database that local runs write to."""
    api = f"http://127.0.0.1:{port}/api"
    environment = {"PREFECT_HOME": str(_prefect_home(workspace)), "PREFECT_API_URL": api, "PREFECT_UI_API_URL": api}
    return start_server("Prefect", prefect_command(port), f"{api}/health", _log(workspace, "prefect"), environment)


def _prefect_home(workspace: Workspace) -> Path:
    home = Path(os.environ.get("PREFECT_HOME") or workspace.root / "prefect")
    home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    return home


def _mlflow(workspace: Workspace, port: int) -> AbstractContextManager[Server]:
    """Starts an MLflow server on the tracking store, whose tables are migrated first."""
    from flows.closed_server import MLFLOW_APP
    from tasks.tracking import connect, tracking_uri

    connect(workspace)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--app-name", MLFLOW_APP),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--uvicorn-opts", "--log-level warning"),
        *("--artifacts-destination", (workspace.root / "artifacts").as_uri()),
    ]
    # In the environment, not among the arguments, where everyone on the machine would see a password.
    environment = {"MLFLOW_BACKEND_STORE_URI": tracking_uri(workspace), "MLFLOW_TRACKING_URI": ""}
    return start_server("MLflow", command, f"http://127.0.0.1:{port}/health", _log(workspace, "mlflow"), environment)


def _log(workspace: Workspace, name: str) -> Path:
    logs = workspace.root / "logs"
    logs.mkdir(exist_ok=True, mode=PRIVATE)
    return logs / f"{name}.log"


def _show_addresses(workspace: Workspace, api: str, tracking: str) -> None:
    console.print(f"Prefect   {api.removesuffix('/api')}   runs, schedules, artifacts")
    for page in experiment_pages(workspace, tracking):
        console.print(f"MLflow    {page}   compare sites and methods")
    if (workspace.root / "index.html").is_file():
        console.print(f"Reports   {(workspace.root / 'index.html').as_uri()}   all sites")
    console.print("\nIn another shell, from this folder, so that deployments and workers find them:")
    console.print(f"  export PREFECT_API_URL={api}")
    console.print("  tdrop deploy && prefect worker start --pool tdrop")
    console.print(f"\nLogs are in {workspace.root / 'logs'}. Ctrl-C stops both.")


def experiment_pages(workspace: Workspace, tracking: str) -> list[str]:
    """Per table the address of its page in MLflow, with all sites side by side."""
    from tasks.recording import view_address
    from tasks.tracking import EXPERIMENTS, connect

    experiments = connect(workspace).search_experiments(filter_string=EXPERIMENTS)
    return [view_address(tracking, experiment.experiment_id) for experiment in experiments] or [tracking]
