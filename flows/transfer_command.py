"""`tdrop transfer`: runs the flows in this process and shows what came of it."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from flows.cluster import check_runner, dask_scheduler
from flows.console import watching
from flows.orchestration import prefect_server
from flows.printer import Printer, repeat
from tasks.run import TransferSettings
from tdrop.base import TdropError, UsageError, plain
from tdrop.data import fingerprint
from tdrop.evaluate import Evaluation
from tdrop.home import Place, busy_seconds, reset_spans, worker_processes
from tdrop.methods import COMMITTEE, label, method_names

if TYPE_CHECKING:
    from flows.transfer import Transferred

#: Sites under way together: on a cluster one site's trials rarely fill every worker.
AT_ONCE = {"processes": 1, "dask": 4}


def run_transfer(
    sites: Sequence[str],
    settings: TransferSettings,
    *,
    contracts: Path,
    console: Printer,
    processes: int | None = None,
    again: bool = False,
    new_patients: bool = False,
    runner: str = "processes",
    address: str | None = None,
    at_once: int | None = None,
    may_stop: Collection[str] = (),
) -> None:
    """Transfers to the sites, prints the results, and fails when a site failed that is not in `may_stop`."""
    # Flow runs find both here, in this process and in those that it starts.
    os.environ["TDROP_CONTRACTS"] = str(contracts.absolute())
    place = Place.at()
    network = place.network()
    for site in sites:
        network.target(site)
    if new_patients and len(sites) > 1:
        raise UsageError("--new-patients is about one site; name the one whose batches are meant")
    settings.chosen_methods()
    check_runner(runner, address)
    started = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(watching(sites, console.progress))
        stack.enter_context(worker_processes(0 if runner == "dask" else processes))
        stack.enter_context(prefect_server(meanwhile=lambda: _read_extracts(place, sites)))
        scheduler = stack.enter_context(dask_scheduler(address)) if runner == "dask" else None
        from flows.transfer import SiteFailed, Transferred, transfer_network, transfer_sites

        ready = time.monotonic()
        reset_spans()
        run: Any = partial(transfer_sites, new_patients=new_patients) if len(sites) == 1 else transfer_network
        results = run(list(sites), settings, again, at_once or AT_ONCE[runner], scheduler)
        elapsed = time.monotonic() - ready
    console.answer({"sites": {site: result.to_json() for site, result in results.items()}})
    failed = {site: result.sentence for site, result in results.items() if isinstance(result, SiteFailed)}
    done = {site: result for site, result in results.items() if isinstance(result, Transferred)}
    for sentence in failed.values():
        console.print(sentence, style="red", markup=False)
    _show(place, done, console)
    _say_next(done, contracts, console)
    if runner == "processes":  # what a cluster's workers spent is not known here
        _show_time(console, elapsed, ready - started)
    problems = failed | {site: result.not_recorded for site, result in done.items() if result.not_recorded}
    if counted := [sentence for site, sentence in problems.items() if site not in may_stop]:
        raise TdropError("; ".join(dict.fromkeys(counted)))


def run_rehearsal(
    table: str,
    settings: TransferSettings,
    *,
    contracts: Path,
    console: Printer,
    processes: int | None = None,
    again: bool = False,
    runner: str = "processes",
    address: str | None = None,
    at_once: int | None = None,
) -> None:
    """Rehearses a table and prints what came of it; fails where a site could not play or nothing was recorded."""
    os.environ["TDROP_CONTRACTS"] = str(contracts.absolute())
    place = Place.at()
    check_runner(runner, address)
    from flows.rehearse import PAGE, rehearsal_folder, rehearse_table, require_rehearsable

    sites = [site.name for site in require_rehearsable(place.network(), table)]
    with ExitStack() as stack:
        stack.enter_context(watching(sites, console.progress))
        stack.enter_context(worker_processes(0 if runner == "dask" else processes))
        stack.enter_context(prefect_server())
        scheduler = stack.enter_context(dask_scheduler(address)) if runner == "dask" else None
        rehearsal: Any = rehearse_table(table, settings, again, at_once or AT_ONCE[runner], scheduler)
    console.answer(plain(rehearsal))
    for sentence in rehearsal.sentences():
        console.print(f"- {sentence}")
    console.print(str(rehearsal_folder(place, table) / PAGE))
    if problems := [*rehearsal.failed.values(), *([rehearsal.not_recorded] if rehearsal.not_recorded else [])]:
        raise TdropError("; ".join(problems))


def _read_extracts(place: Place, sites: Sequence[str]) -> None:
    """Reads and checks the extracts while the server starts; the flow finds them in the store.

    Whatever goes wrong here goes wrong again in the flow, which says so.
    """
    from tasks.prepare import pool_sources, read_and_check

    with suppress(TdropError):
        for name in sites:
            site = place.resolve(name)
            where = {"home": place.root, "base": site.network.base}
            sources = site.resolved_sources()
            prepared = [read_and_check.fn(own, fingerprint(own.site, **where)) for own in sources]
            read_and_check.fn(site, fingerprint(site.site, **where), pool_sources(site, prepared))


def _show(place: Place, done: Mapping[str, Transferred], console: Printer) -> None:
    """Prints sites x methods and where to look next."""
    table = Table(title=None, header_style="bold")
    table.add_column("method")
    evaluations = {}
    for site in done:
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
    console.print(_legend(evaluations.values()))
    for site, result in done.items():
        if result.unchanged:
            console.print(f"{site}: {result.unchanged}")
    for site in done:
        console.print(f"{site}: {place.latest(site) / 'report.html'}")
    console.print(f"all sites: {place.root / 'index.html'}")
    console.remark("compare in MLflow and Prefect: tdrop ui")


def _say_next(done: Mapping[str, Transferred], contracts: Path, console: Printer) -> None:
    """Says why a site is stopped, and what a person may do after reading the other reports."""
    usable = [site for site, result in done.items() if result.summary.verdict != "stop"]
    for site, result in done.items():
        if site not in usable:
            why = re.split(r"(?<=[.!?])\s", result.summary.reason.strip())[0]
            console.print(f"{site}: stop, and no model to approve. {why}", style="red", markup=False)
    if usable:
        site = usable[0] if len(usable) == 1 else "SITE"
        options = repeat(contracts)
        console.remark(
            f"If the report convinces you, approve the model: tdrop promote {site} --by NAME --note TEXT{options}"
        )
        console.remark(f"To check it on a few patients first: tdrop label-list {site}{options}")


def _legend(evaluations: Collection[Evaluation]) -> str:
    """What the cells hold, at sites with outcomes and at those without."""
    known = [one for one in evaluations if one.labelled != 0]
    measured = []
    if any(not _is_number(one) for one in known):
        measured.append("AUROC of the risk (error AUROC by sd)")
    if any(_is_number(one) for one in known):
        measured.append("mean absolute error")
    cells = [f"{' or '.join(measured)}, mean over seeds"] if measured else []
    if len(known) < len(evaluations):
        at_level = all("threshold" in one.decision for one in evaluations)
        counted = "patients referred at the risk level" if at_level else "patients referred for review"
        cells.append(f"where no outcome is known, {counted}" if measured else counted)
    return f"Each cell: {'; '.join(cells)}. * chosen without target labels."


def _is_number(evaluation: Evaluation) -> bool:
    """Whether a number is predicted, and no risk."""
    return any(evaluation.value(method, "mae") is not None for method in evaluation.methods)


def _cell(evaluation: Evaluation, method: str, chosen: str) -> str:
    mark = "*" if chosen == method else " "
    auroc, distance = evaluation.value(method, "auroc"), evaluation.value(method, "mae")
    if distance is not None:
        return f"{distance:.3g}{mark}"
    if auroc is None:
        referred = evaluation.value(method, "referrals" if "threshold" in evaluation.decision else "referred")
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
