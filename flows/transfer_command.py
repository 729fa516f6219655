"""`tdrop transfer`: runs the flows in this process and shows what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from flows.commands.options import repeat
from flows.console import watching
from flows.network import transfer_network
from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import Failed
from flows.runners import check_runner
from flows.transfer import Transferred
from tdrop.base import TdropError
from tdrop.evaluate import Evaluation
from tdrop.home import Place, busy_seconds, reset_spans
from tdrop.methods import COMMITTEE, label, method_names
from tdrop.runs import TransferSettings


def run_transfer(
    sites: Sequence[str],
    settings: TransferSettings,
    *,
    contracts: Path,
    console: Printer,
    processes: int | None = None,
    again: bool = False,
    runner: str = "processes",
    address: str | None = None,
    at_once: int | None = None,
    may_stop: Collection[str] = (),
) -> None:
    """Transfers to the sites, prints the results, and fails when a site failed that is not in `may_stop`."""
    place = Place.at(contracts=contracts)
    network = place.network()
    for site in sites:
        network.target(site)
    settings.chosen_methods()
    check_runner(runner, address)
    started = time.monotonic()
    with watching(sites, console.progress):
        with orchestrated(needed=runner == "dask"):
            ready = time.monotonic()
            reset_spans()
            given = (list(sites), settings, str(contracts), place.home, processes, again, runner, address, at_once)
            results = transfer_network(*given)
        elapsed = time.monotonic() - ready
    console.answer({"sites": {site: result.answer() for site, result in results.items()}})
    _show(place, results, console)
    _say_next([site for site, result in results.items() if isinstance(result, Transferred)], contracts, console)
    if runner == "processes":  # what a cluster's workers spent is not known here
        _show_time(console, elapsed, ready - started)
    judged = [result for site, result in results.items() if site not in may_stop]
    problems = [_problem(result) for result in judged]
    if any(problems):
        raise TdropError("; ".join(dict.fromkeys(problem for problem in problems if problem)))


def _problem(result: Transferred | Failed) -> str | None:
    return result.sentence if isinstance(result, Failed) else result.not_recorded


def _show(place: Place, results: Mapping[str, Transferred | Failed], console: Printer) -> None:
    """Prints sites x methods and where to look next."""
    table = Table(title=None, header_style="bold")
    table.add_column("method")
    done, evaluations = {}, {}
    for site, result in results.items():
        if isinstance(result, Failed):
            console.print(result.sentence, style="red", markup=False)
            continue
        done[site] = result
        text = (place.latest(site) / "evaluation.json").read_text(encoding="utf-8")
        evaluations[site] = Evaluation.from_dict(json.loads(text))
    if not done:
        return
    network = place.network()
    for site, evaluation in evaluations.items():
        simulated = ", simulated" if network.site(site).simulated else ""
        table.add_column(
            f"{site}\n{done[site].summary.verdict}{simulated}\n{evaluation.patients:,} patients", justify="right"
        )
    for method in (*method_names(), COMMITTEE):
        cells = [_cell(evaluation, method, done[site].summary.method) for site, evaluation in evaluations.items()]
        if any(cells):
            table.add_row(label(method), *cells)
    console.print(table)
    console.print(_legend([evaluation.labelled != 0 for evaluation in evaluations.values()]))
    for site, result in done.items():
        if result.unchanged:
            console.print(f"{site}: {result.unchanged}")
    for site in done:
        console.print(f"{site}: {place.latest(site) / 'report.html'}")
    console.print(f"all sites: {place.root / 'index.html'}")
    console.remark("compare in MLflow and Prefect: tdrop ui")


def _say_next(sites: Sequence[str], contracts: Path, console: Printer) -> None:
    """Tells what a person does after reading the reports."""
    if sites:
        site = sites[0] if len(sites) == 1 else "SITE"
        console.remark(f"Next, where a report convinces: tdrop promote {site} --by NAME --note TEXT{repeat(contracts)}")
        console.remark(f"and before that, whose outcomes to look up: tdrop label-list {site}{repeat(contracts)}")


def _legend(labelled: Sequence[bool]) -> str:
    """What the cells hold, at sites with outcomes and at those without."""
    with_labels = "AUROC of the risk (error AUROC by sd), mean over seeds"
    without = "patients referred at the risk level"
    cell = with_labels if all(labelled) else f"{with_labels}; where no outcome is known, {without}"
    return f"Each cell: {cell if any(labelled) else without}. * chosen without target labels."


def _cell(evaluation: Evaluation, method: str, chosen: str) -> str:
    mark = "*" if chosen == method else " "
    auroc = evaluation.value(method, "auroc")
    if auroc is None:
        referred = evaluation.value(method, "referrals")
        return f"{referred:,.0f}{mark}" if referred is not None else ""
    error = evaluation.value(method, "error_auroc_sd")
    return f"{auroc:.3f} ({'n/a' if error is None else f'{error:.3f}'}){mark}"


def _show_time(console: Printer, elapsed: float, start_up: float) -> None:
    """Prints how the time was spent: fitting and sampling, or everything around it."""
    busy = min(busy_seconds(), elapsed)
    share = (elapsed - busy) / elapsed if elapsed else 0.0
    console.remark(
        f"{elapsed:.0f} s after a start-up of {start_up:.0f} s: {busy:.0f} s fitting and sampling, "
        f"{elapsed - busy:.0f} s orchestration ({share:.0%})."
    )
