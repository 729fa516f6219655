"""Commands that keep a network: new sites, deployments, pages, old runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.commands.options import DEFAULT_CONTRACTS, Contracts, console


def add_site(
    name: Annotated[str, typer.Argument(help="Name of the new site", metavar="NAME")],
    data: Annotated[Path, typer.Option(help="The extract that the site sent", metavar="FILE")],
    table: Annotated[str, typer.Option(help="The table it should hold", metavar="TABLE")],
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Look at a new site's file, propose its YAML with each guess marked, and validate it."""
    from flows.add_site import run_add_site

    run_add_site(name, data, table, contracts=contracts, console=console)


def deploy(
    remove: Annotated[bool, typer.Option("--remove", help="Also remove deployments whose site is gone")] = False,
    write_only: Annotated[bool, typer.Option("--write-only", help="Only write prefect.yaml")] = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Keep prefect.yaml and the server in step with the sites: one deployment a target site."""
    from flows.deploy import run_deploy

    run_deploy(contracts=contracts, remove=remove, write_only=write_only, console=console)


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
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Remove old runs and caches, never a champion's; or erase a site with everything about it."""
    from flows.prune import run_erase, run_prune

    if erase is None:
        run_prune(days=days, contracts=contracts, console=console)
    elif yes or typer.confirm(f"Erase reports, models and records of site '{erase}' for good?"):
        run_erase(erase, contracts=contracts, console=console)
