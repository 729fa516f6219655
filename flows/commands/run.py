"""`tdrop demo`, `validate`, `shift`, `transfer` and `rehearse`: run the pipeline or a part of it."""

from __future__ import annotations

from typing import Annotated

import typer

from flows.printer import DEFAULT_CONTRACTS, AsJson, Contracts, Processes, Seeds, SiteName, make_printer, only_table
from tdrop.base import SiteStopped, UsageError
from tdrop.home import Workspace

Trials = Annotated[
    int, typer.Option(help="Tuning trials, the same number for every method", metavar="N", min=1, max=200)
]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Train only this method; may be repeated", metavar="NAME")
]
Committee = Annotated[
    bool,
    typer.Option(
        "--committee/--single", help="Average the methods that are about equally good at source patients, or use one"
    ),
]
Shares = Annotated[
    bool,
    typer.Option(
        "--shares/--pooled",
        help="With three or more sources: let methods know each patient's source if that helps, or never",
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Run even when nothing changed")]
Runner = Annotated[
    str,
    typer.Option(help="Where models are trained: in processes of this machine or on dask", metavar="processes|dask"),
]
Address = Annotated[str | None, typer.Option(help="Dask scheduler, e.g. tcp://host:8786", metavar="URL")]
AtOnce = Annotated[
    int | None, typer.Option(help="Sites that run at the same time; default: 1, or 4 on dask", metavar="N", min=1)
]


def demo(
    full: Annotated[bool, typer.Option("--full", help="20,000 source patients and the full tuning")] = False,
    seeds: Seeds = 3,
    processes: Processes = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline on a simulated registry and simulated hospitals."""
    from flows.demo import run_demo

    run_demo(full=full, seeds=seeds, processes=processes, console=make_printer(as_json))


def validate(
    site: Annotated[str | None, typer.Argument(help="Name of a site in sites/", metavar="SITE")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every site of the network")] = False,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Check a site's extract against its contract; the exit code is 1 when it must not be used."""
    if (site is None) != everything:
        raise UsageError("give one SITE, or --all for every site of the network")
    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    network = workspace.network()
    sites = sorted(network.sites) if site is None else [network.site(site).name]
    from flows.validate import check_sites

    results, problems = check_sites(sites, workspace, console)
    console.print_result({"sites": results})
    if problems:
        raise SiteStopped("; ".join(problems))


def shift(site: SiteName, as_json: AsJson = False, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Show how different a site's patients are from the source's, before any training."""
    workspace, console = Workspace.at(contracts=contracts), make_printer(as_json)
    workspace.network().target(site)
    from flows.shift import compare_patients

    page = compare_patients(workspace.resolve(site))
    console.print_result({"site": site, **vars(page)})
    console.print(f"[bold]{site}: {page.verdict}[/]\n{page.reason}\n{page.page}")


def transfer(
    sites: Annotated[list[str], typer.Argument(help="Target sites", metavar="SITE")],
    seeds: Seeds = 3,
    trials: Trials = 12,
    method: Methods = None,
    committee: Committee = True,
    shares: Shares = False,
    processes: Processes = None,
    again: Again = False,
    new_patients: Annotated[
        bool,
        typer.Option(
            "--new-patients", help="Use the patients of all batches since the promotion instead of the extract"
        ),
    ] = False,
    runner: Runner = "processes",
    address: Address = None,
    at_once: AtOnce = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Run the whole pipeline for one or several target sites: check, compare, train, choose, evaluate, report."""
    from tasks.settings import TransferSettings

    # Before the training libraries load, which takes seconds.
    network = Workspace.at(contracts=contracts).network()
    for site in sites:
        network.target(site)
    settings = TransferSettings(
        seeds=seeds, trials=trials, methods=tuple(method or ()), committee=committee, shares=shares
    )
    settings.chosen_methods()
    from flows.transfer_command import Workers, run_transfer

    run_transfer(
        sites,
        settings,
        contracts=contracts,
        console=make_printer(as_json),
        workers=Workers(processes, runner, address, at_once),
        again=again,
        new_patients=new_patients,
    )


def rehearse(
    table: Annotated[str | None, typer.Argument(help="Name of a table; default: the only one", metavar="TABLE")] = None,
    seeds: Seeds = 1,
    trials: Trials = 12,
    method: Methods = None,
    shares: Shares = False,
    processes: Processes = None,
    again: Again = False,
    runner: Runner = "processes",
    address: Address = None,
    at_once: AtOnce = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Test the pipeline: treat each site with outcomes as if it were new, then compare with its outcomes."""
    from tasks.settings import TransferSettings

    network = Workspace.at(contracts=contracts).network()
    table = table or only_table(network, "tdrop rehearse TABLE")
    network.contract(table)
    settings = TransferSettings(seeds=seeds, trials=trials, methods=tuple(method or ()), shares=shares)
    settings.chosen_methods()
    from flows.transfer_command import Workers, run_rehearsal

    workers, console = Workers(processes, runner, address, at_once), make_printer(as_json)
    run_rehearsal(table, settings, contracts=contracts, console=console, workers=workers, again=again)
