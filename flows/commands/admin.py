"""`tdrop deploy` and `tdrop prune`: scheduled runs on a Prefect server, and clearing up."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from flows.orchestration import configured_server, find_ui_server, prefect_server, require_server
from flows.printer import DEFAULT_CONTRACTS, AsJson, Contracts, Printer, console, make_printer
from tdrop.base import UsageError, did_you_mean
from tdrop.home import Workspace


def deploy(
    remove: Annotated[
        bool, typer.Option("--remove", help="Also remove deployments whose site no longer exists")
    ] = False,
    write_only: Annotated[bool, typer.Option("--write-only", help="Only write prefect.yaml")] = False,
    at_once: Annotated[
        int | None, typer.Option(help="Runs that may run at the same time; default: 1", metavar="N", min=1)
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            help="Notification block that reports sites that stop, fail, have shifted or raise an alarm",
            metavar="TYPE/NAME",
        ),
    ] = None,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Write prefect.yaml with one deployment per target site, and deploy it to the Prefect server."""
    from tdrop.base import counted
    from tdrop.contracts import load_network

    network, printer = load_network(contracts), make_printer(as_json)
    from flows.deployments import FILE, deploy_to_server, write_file

    url = None if write_only else require_server()
    planned, changed = write_file(network, _relative(contracts), remove=remove)
    number = sum(map(len, planned.by_flow.values()))
    printer.print(f"{FILE}: {counted(number, 'deployment')}, {'written' if changed else 'unchanged'}")
    if url is None:
        _print_leftovers(planned.gone, remove, printer)
        printer.print_result(planned.to_json())
        return
    limit = deploy_to_server(planned, at_once, notify, remove=remove)
    for flow, names in planned.by_flow.items():
        for name in names:
            printer.print(f"deployed {flow}/{name}")
    _print_leftovers(planned.gone, remove, printer)
    printer.print_result({**planned.to_json(), "removed": remove, "server": url, "at_once": limit, "notify": notify})
    _print_worker_hints(url, limit, notify, printer)


def _print_worker_hints(url: str, limit: int, notify: str | None, printer: Printer) -> None:
    from flows.deployments import AUTOMATION, POOL

    printer.print(f"on {url}; runs start when a worker serves the pool: prefect worker start --pool {POOL}")
    printer.print(f"at most {limit} at the same time; `tdrop deploy --at-once` changes that")
    if notify is not None:
        reports = f"block '{notify}' reports sites that stop, fail, have shifted or raise an alarm"
        printer.print(f"{reports}: automation '{AUTOMATION}'", markup=False)


def _relative(contracts: Path) -> str:
    """The contracts as seen from the working directory, which is where a deployment runs."""
    absolute, here = contracts.absolute(), Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else str(absolute)


def _print_leftovers(gone: Sequence[str], removed: bool, printer: Printer) -> None:
    for name in gone:
        rest = "removed" if removed else "kept; `tdrop deploy --remove` removes it"
        printer.print(f"deployment '{name}' has no site any more: {rest}")


def prune(
    days: Annotated[int, typer.Option(help="Keep what was used in the last N days", metavar="N", min=0)] = 30,
    erase: Annotated[str | None, typer.Option(help="Delete everything about this site", metavar="SITE")] = None,
    forget_exports: Annotated[
        bool,
        typer.Option("--forget-exports", help="With --erase: also delete the record of whose reports were exported"),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation")] = False,
    as_json: AsJson = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Delete old runs and caches, but never an approved model's; or everything about one site."""
    workspace, printer = Workspace.at(contracts=contracts), make_printer(as_json)
    if erase is not None:
        _require_erasable(workspace, erase)
    if as_json and not yes:
        raise UsageError("--json cannot ask for confirmation; add --yes to remove without being asked")
    question = (
        f"Remove what this network has not used for {days} days?"
        if erase is None
        else f"Erase reports, models and records of site '{erase}' for good?"
    )
    if not yes and not _confirm(question):
        console.print("Nothing was removed.")
        raise typer.Exit(1)
    if erase is None:
        _prune(workspace, days, printer)
    else:
        _erase(workspace, erase, printer, forget_exports)


def _confirm(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:  # nobody is there to answer
        return False


def _prune(workspace: Workspace, days: int, printer: Printer) -> None:
    """Removes stages and MLflow runs that were not used for so many days."""
    from tasks.prune import prune_stages
    from tasks.registry import delete_old_runs, stages_of_versions
    from tdrop.base import counted

    with _lock_sites(workspace, _sites_with_results(workspace)):
        stages = prune_stages(workspace, days, stages_of_versions(workspace))
        runs = delete_old_runs(workspace, days)
    printer.print_result({"days": days, "stages": stages, "mlflow_runs": runs})
    printer.print(
        f"Removed {counted(stages, 'stage')} and {counted(runs, 'MLflow run')} unused for {counted(days, 'day')}; "
        "champions, candidates and what the last reports were made from are kept."
    )


def _require_erasable(workspace: Workspace, site: str) -> None:
    """Refuses an unknown site, and a source that other sites' models learned from."""
    network = workspace.network()
    known = {*network.sites, *_sites_with_results(workspace)}
    if site not in known:
        raise UsageError(f"there is nothing about a site '{site}' in {workspace.root}{did_you_mean(site, known)}")
    targets = [
        target.name
        for target in network.targets
        if site in {source.name for source in network.sources_of(target)} and workspace.latest(target.name).exists()
    ]
    if targets:
        raise UsageError(
            f"site '{site}' is the source of {', '.join(targets)}, whose models learned from it; erase those first"
        )


def _erase(workspace: Workspace, site: str, printer: Printer, forget_exports: bool) -> None:
    """Removes a site's reports, stages, records, model, deployment, artifacts and the rehearsals that it was part of.

    Unless `forget_exports` is set, a keyed digest per exported patient stays: a site that comes back must not export
    nearly the same patients again.
    """
    from tasks.export import published_in, published_names
    from tasks.prune import erase_files, rehearsals_of
    from tasks.publish import publish_index
    from tasks.registry import delete_site_runs, stages_of_versions
    from tdrop.base import counted

    with ExitStack() as stack:
        stack.enter_context(_lock_sites(workspace, [site]))
        names = set(published_names(site))
        for folder in rehearsals_of(workspace, site):
            played = Workspace.at(folder, folder / "contracts")
            stack.enter_context(_lock_sites(played, _sites_with_results(played)))
            # The other sites of a rehearsal learned from this one.
            names |= {published_names(other)[1] for other in _sites_with_results(played)}
        stages = erase_files(workspace, site, stages_of_versions(workspace, besides=site))
        for name in sorted(names):
            published_in(workspace).forget(name, patients=forget_exports)
        runs = delete_site_runs(workspace, site)
        pages = _erase_from_prefect(workspace, site)
        publish_index(workspace)
    printer.print_result({"site": site, "stages": stages, "mlflow_runs": runs, "prefect": pages})
    printer.print(
        f"Erased site '{site}': its reports, {counted(stages, 'stage')}, {counted(runs, 'MLflow run')} and {pages}."
    )
    network = workspace.network()
    if site in network.sites:
        printer.print_hint(
            f"Its extract and {network.sites[site].file} are yours to remove; then `tdrop deploy --remove`."
        )


def _sites_with_results(workspace: Workspace) -> list[str]:
    return sorted(folder.name for folder in workspace.sites.glob("*") if folder.is_dir())


@contextmanager
def _lock_sites(workspace: Workspace, sites: Sequence[str]) -> Iterator[None]:
    """Keeps runs of the sites from starting, so that nothing they use disappears."""
    from tdrop.home import lock_idle_site

    with ExitStack() as stack:
        for site in sites:
            stack.enter_context(lock_idle_site(workspace, site))
        yield


def _erase_from_prefect(workspace: Workspace, site: str) -> str:
    """Removes a site's deployment, flow runs and artifacts from Prefect, if it ever ran here."""
    known = configured_server() or find_ui_server(workspace.root)
    if not known and not Path(os.environ["PREFECT_HOME"], "prefect.db").is_file():
        return "nothing in Prefect, which has not run here"
    from flows.deployments import erase_traces

    with prefect_server():
        return erase_traces(site)
