"""Commands that keep a network: new sites, deployments, pages, old runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import DEFAULT_CONTRACTS, AsJson, Contracts, answering, console
from tdrop.base import UsageError

Outcome = Annotated[str | None, typer.Option(help="Column with the outcome, of two values", metavar="COLUMN")]
Time = Annotated[str | None, typer.Option(help="Column with the time of follow-up", metavar="COLUMN")]
Event = Annotated[str | None, typer.Option(help="Column that says whether it was seen by then", metavar="COLUMN")]
Horizon = Annotated[str | None, typer.Option(help="Within what time, e.g. '5 years'", metavar="TIME")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that identifies a patient", metavar="COLUMN")]


def init(
    folder: Annotated[Path, typer.Argument(help="Folder of the new network", metavar="DIR")],
    data: Annotated[Path, typer.Option(help="A labelled extract: the source's", metavar="FILE")],
    outcome: Outcome = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    id_column: IdColumn = None,
    table: Annotated[str | None, typer.Option(help="Name of the table; default the folder's", metavar="NAME")] = None,
    as_json: AsJson = False,
) -> None:
    """Start a network from one labelled file: propose its table and source with each guess marked."""
    from flows.init import run_init
    from tdrop.data import Asked

    run_init(folder, data, Asked(outcome, time, event, horizon, id_column), table=table, console=answering(as_json))


def add_table(
    name: Annotated[str, typer.Argument(help="Name of the new table", metavar="NAME")],
    data: Annotated[Path, typer.Option(help="A labelled extract: the source's", metavar="FILE")],
    outcome: Outcome = None,
    time: Time = None,
    event: Event = None,
    horizon: Horizon = None,
    id_column: IdColumn = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Add a table and its source to a network, proposed from one labelled file."""
    from flows.init import run_add_table
    from tdrop.data import Asked

    asked = Asked(outcome, time, event, horizon, id_column)
    run_add_table(name, data, asked, contracts=contracts, console=answering(as_json))


def add_site(
    name: Annotated[str, typer.Argument(help="Name of the new site", metavar="NAME")],
    data: Annotated[Path, typer.Option(help="The extract that the site sent", metavar="FILE")],
    table: Annotated[str | None, typer.Option(help="The table it holds; default the only one", metavar="TABLE")] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Look at a new site's file, propose its YAML with each guess marked, and validate it."""
    from flows.add_site import run_add_site

    run_add_site(name, data, table, contracts=contracts, console=answering(as_json))


def status(as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Show how every site stands: done, stale, stopped, failed, interrupted, running or never run."""
    from flows.overview import run_status

    run_status(contracts=contracts, console=answering(as_json))


def deploy(
    remove: Annotated[bool, typer.Option("--remove", help="Also remove deployments whose site is gone")] = False,
    write_only: Annotated[bool, typer.Option("--write-only", help="Only write prefect.yaml")] = False,
    at_once: Annotated[int | None, typer.Option(help="Runs under way together; default 1", min=1)] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            help="Notification block of the server that tells of sites that stop, fail or have shifted",
            metavar="TYPE/NAME",
        ),
    ] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Keep prefect.yaml and the server in step with the sites: one deployment a target site."""
    from flows.deploy import run_deploy

    printer = answering(as_json)
    run_deploy(
        contracts=contracts, remove=remove, write_only=write_only, at_once=at_once, notify=notify, console=printer
    )


def ui(
    prefect_port: Annotated[int, typer.Option(help="Port of the Prefect page", min=1, max=65535)] = 4200,
    mlflow_port: Annotated[int, typer.Option(help="Port of the MLflow page", min=1, max=65535)] = 5000,
) -> None:
    """Bring up Prefect and MLflow on this machine until Ctrl-C."""
    from flows.pages import run_pages

    run_pages(prefect_port=prefect_port, mlflow_port=mlflow_port, console=console)


def prune(
    days: Annotated[int, typer.Option(help="Keep what was used within this many days", min=0)] = 30,
    erase: Annotated[str | None, typer.Option(help="Erase everything about one site", metavar="SITE")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Remove old runs and caches, never a champion's; or erase a site with everything about it."""
    from flows.prune import run_erase, run_prune

    question = (
        f"Remove stages and records of this network that nobody used for {days} days?"
        if erase is None
        else f"Erase reports, models and records of site '{erase}' for good?"
    )
    if as_json and not yes:
        raise UsageError("--json asks nothing; give --yes with it when the removal is meant")
    if not yes and not _agreed(question):
        console.print("Nothing was removed.")
        raise typer.Exit(1)
    if erase is None:
        run_prune(days=days, contracts=contracts, console=answering(as_json))
    else:
        run_erase(erase, contracts=contracts, console=answering(as_json))


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # nobody is there to answer
        return False
