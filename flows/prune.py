"""`tdrop prune`: removes what is old and needed by nothing, or everything about one site."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flows.orchestration import announced, configured_server, orchestrated
from flows.printer import Printer
from tasks.registry import forget_old, forget_site, kept_stages
from tdrop.base import UsageError, did_you_mean
from tdrop.home import Place, idle
from tdrop.runs import erase_files, prune_stages, publish_index


def run_prune(*, days: int, contracts: Path, console: Printer) -> None:
    """Removes stages and records that nobody used for so many days."""
    place = Place.at(contracts=contracts)
    with _nobody_runs(place, _sites_with_traces(place)):
        stages = prune_stages(place, days, kept_stages(place))
        runs = forget_old(place, days)
    console.answer({"days": days, "stages": stages, "mlflow_runs": runs})
    console.print(
        f"Removed {stages:,} stages and {runs:,} MLflow runs unused for {days} days; champions, candidates and "
        "what the last reports rest on are kept."
    )


def run_erase(site: str, *, contracts: Path, console: Printer) -> None:
    """Removes a site's reports, stages, records, model, deployment and artifacts."""
    place = Place.at(contracts=contracts)
    network = place.network()
    known = {*network.sites, *_sites_with_traces(place)}
    if site not in known:
        raise UsageError(f"there is nothing about a site '{site}' in {place.root}{did_you_mean(site, known)}")
    taught = [each.name for each in network.targets if each.source == site and place.latest(each.name).exists()]
    if taught:
        raise UsageError(
            f"site '{site}' is the source of {', '.join(taught)}, whose models "
            "were made from its rows; erase those first"
        )
    with _nobody_runs(place, [site]):
        stages = erase_files(place, site, kept_stages(place, besides=site))
        runs = forget_site(place, site)
        pages = _erase_from_prefect(place, site)
        publish_index(place)
    console.answer({"site": site, "stages": stages, "mlflow_runs": runs, "prefect": pages})
    console.print(f"Erased site '{site}': its reports, {stages:,} stages, {runs:,} MLflow runs and {pages}.")
    if site in network.sites:
        console.remark(f"Its extract and {network.sites[site].file} are yours to remove; then `tdrop deploy --remove`.")


def _sites_with_traces(place: Place) -> list[str]:
    return sorted(folder.name for folder in place.sites.glob("*") if folder.is_dir())


@contextmanager
def _nobody_runs(place: Place, sites: Sequence[str]) -> Iterator[None]:
    """Holds the sites still: what a run is about to use must not be taken from under it."""
    with ExitStack() as stack:
        for site in sites:
            stack.enter_context(idle(place, site))
        yield


def _erase_from_prefect(place: Place, site: str) -> str:
    """Removes a site's deployment, flow runs and artifacts, where there is a Prefect to ask."""
    known = configured_server() or announced(place.root)
    if not known and not Path(os.environ["PREFECT_HOME"], "prefect.db").is_file():
        return "nothing in Prefect, which has not run here"
    from flows.prefect_traces import erase_traces

    with orchestrated(needed=True):
        return erase_traces(site)
