"""Commands that run the pipeline or a part of it."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.commands.options import (
    DEFAULT_CONTRACTS,
    Address,
    Again,
    AsJson,
    AtOnce,
    Committee,
    Contracts,
    Methods,
    Processes,
    Runner,
    Seeds,
    SiteName,
    Trials,
    answering,
)
from tdrop.base import UsageError


def demo(
    full: Annotated[bool, typer.Option("--full", help="20,000 source rows and the full search")] = False,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Move a simulated registry's model to three simulated hospitals, end to end."""
    from flows.demo import run_demo

    run_demo(full=full, seeds=seeds, processes=processes, console=answering(as_json))


def validate(
    site: Annotated[str | None, typer.Argument(help="Name of a site in sites/", metavar="SITE")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every site of the network")] = False,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Check a site's extract against its contract; exit 1 when it must not be used."""
    from flows.validate import run_validate

    if (site is None) != everything:
        raise UsageError("give one SITE, or --all for every site of the network")
    run_validate(site, contracts=contracts, console=answering(as_json))


def shift(site: SiteName, as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Show how different a site's patients are, before any training."""
    from flows.shift import run_shift

    run_shift(site, contracts=contracts, console=answering(as_json))


def transfer(
    sites: Annotated[list[str], typer.Argument(help="Target sites", metavar="SITE...")],
    seeds: Seeds = 3,
    trials: Trials = 12,
    method: Methods = None,
    committee: Committee = True,
    processes: Processes = None,
    again: Again = False,
    runner: Runner = "processes",
    address: Address = None,
    at_once: AtOnce = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Check, compare, train, choose, evaluate and report, for one or several target sites."""
    from flows.transfer_command import run_transfer
    from tdrop.runs import TransferSettings

    run_transfer(
        sites,
        TransferSettings(seeds=seeds, trials=trials, methods=tuple(method or ()), committee=committee),
        contracts=contracts,
        processes=processes,
        again=again,
        runner=runner,
        address=address,
        at_once=at_once,
        console=answering(as_json),
    )
