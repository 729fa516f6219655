"""`tdrop transfer` and `tdrop rehearse`: run the flows in this process and print the results."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from flows.console import show_progress
from flows.orchestration import prefect_server
from flows.printer import Printer, contracts_option
from tasks.settings import TransferSettings
from tdrop.base import TdropError, Unavailable, UsageError, did_you_mean, plain, read_record
from tdrop.home import Workspace, busy_seconds, reset_spans, worker_processes
from tdrop.methods import COMMITTEE, label, method_names

if TYPE_CHECKING:
    from flows.pipeline import TransferResult
    from tdrop.evaluate import Evaluation

#: Where models are trained, and how many sites run at once: one site rarely keeps a whole cluster busy.
RUNNERS: Mapping[str, int] = {"processes": 1, "dask": 4}
CONNECT_LIMIT_SECONDS = 15


@dataclass(frozen=True)
class Workers:
    """Where a command trains its models.

    Attributes:
        processes: Worker processes of this machine; None for one per core, 0 for none.
        runner: `processes` or `dask`.
        address: Address of a Dask scheduler; None starts one on this machine.
        at_once: Sites that run at the same time; None for the default of the runner.
    """

    processes: int | None = None
    runner: str = "processes"
    address: str | None = None
    at_once: int | None = None

    def __post_init__(self) -> None:
        if self.runner not in RUNNERS:
            raise UsageError(f"unknown runner '{self.runner}'{did_you_mean(self.runner, RUNNERS)}")
        if self.runner == "processes" and self.address is not None:
            raise UsageError("--address is for a Dask scheduler; add --runner dask")
        if self.runner == "dask" and find_spec("prefect_dask") is None:
            raise UsageError("the dask runner needs an extra: pip install 'tdrop[cluster]'")

    @property
    def sites_at_once(self) -> int:
        """How many sites run at the same time."""
        return self.at_once or RUNNERS[self.runner]

    @contextmanager
    def ready(
        self, workspace: Workspace, sites: Sequence[str], console: Printer, meanwhile: Callable[[], None] = lambda: None
    ) -> Iterator[str | None]:
        """Starts workers and a Prefect server, shows the sites' progress, and does work `meanwhile` the server starts.

        Yields the address of a Dask scheduler, or None.
        """
        # Flow runs read this, in this process and in its workers.
        os.environ["TDROP_CONTRACTS"] = workspace.contracts
        with (
            show_progress(sites, console.progress),
            worker_processes(0 if self.runner == "dask" else self.processes),
            prefect_server(meanwhile),
            dask_scheduler(self.address) if self.runner == "dask" else nullcontext() as scheduler,
        ):
            yield scheduler


def run_transfer(
    sites: Sequence[str],
    settings: TransferSettings,
    *,
    contracts: Path,
    console: Printer,
    workers: Workers,
    again: bool = False,
    new_patients: bool = False,
    may_stop: Collection[str] = (),
) -> None:
    """Transfers to the sites and prints the results; raises if a site failed that is not in `may_stop`."""
    if new_patients and len(sites) > 1:
        raise UsageError("--new-patients works for one site at a time; name one site")
    workspace, started = Workspace.at(contracts=contracts), time.monotonic()
    with workers.ready(workspace, sites, console, lambda: _read_extracts(workspace, sites)) as scheduler:
        from flows.pipeline import TransferResult
        from flows.transfer import SiteFailure, transfer_network, transfer_sites

        ready = time.monotonic()
        reset_spans()
        run: Any = partial(transfer_sites, new_patients=new_patients) if len(sites) == 1 else transfer_network
        results = run(list(sites), settings, again, workers.sites_at_once, scheduler)
        elapsed = time.monotonic() - ready
    console.print_result({"sites": {site: result.to_json() for site, result in results.items()}})
    failed = {site: result.sentence for site, result in results.items() if isinstance(result, SiteFailure)}
    done = {site: result for site, result in results.items() if isinstance(result, TransferResult)}
    for sentence in failed.values():
        console.print(sentence, style="red", markup=False)
    _print_results(workspace, done, console)
    _print_next_steps(done, contracts, console)
    if workers.runner == "processes":  # the time spent by workers of a cluster is not known here
        _print_time(console, elapsed, ready - started)
    problems = failed | {site: result.not_recorded for site, result in done.items() if result.not_recorded}
    if counted := [sentence for site, sentence in problems.items() if site not in may_stop]:
        raise TdropError("; ".join(dict.fromkeys(counted)))


def run_rehearsal(
    table: str, settings: TransferSettings, *, contracts: Path, console: Printer, workers: Workers, again: bool = False
) -> None:
    """Rehearses a table and prints the result; raises if a site failed or nothing was recorded."""
    workspace = Workspace.at(contracts=contracts)
    from flows.rehearse import PAGE, rehearsal_folder, rehearse_table, require_rehearsable
    from tdrop.report import describe_rehearsal

    sites = [site.name for site in require_rehearsable(workspace.network(), table)]
    with workers.ready(workspace, sites, console) as scheduler:
        rehearsal: Any = rehearse_table(table, settings, again, workers.sites_at_once, scheduler)
    console.print_result(plain(rehearsal))
    for sentence in describe_rehearsal(rehearsal):
        console.print(f"- {sentence}")
    console.print(str(rehearsal_folder(workspace, table) / PAGE))
    if problems := [*rehearsal.failed.values(), *([rehearsal.not_recorded] if rehearsal.not_recorded else [])]:
        raise TdropError("; ".join(problems))


def _read_extracts(workspace: Workspace, sites: Sequence[str]) -> None:
    """Reads and checks the extracts while the server starts; the flow finds them in the store.

    An error is ignored: it will come again in the flow, which reports it.
    """
    from flows.shift import fingerprints, read_extracts

    for name in sites:
        with suppress(TdropError):
            site = workspace.resolve(name)
            read_extracts(site, *fingerprints(site))


def _print_results(workspace: Workspace, done: Mapping[str, TransferResult], console: Printer) -> None:
    """Prints a table of sites and methods, and where the reports are."""
    from tdrop.evaluate import Evaluation

    table = Table(title=None, header_style="bold")
    table.add_column("method")
    evaluations = {}
    for site in done:
        evaluations[site] = read_record(Evaluation, workspace.latest(site) / "evaluation.json")
    if not done:
        return
    network = workspace.network()
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
        console.print(f"{site}: {workspace.latest(site) / 'report.html'}")
    console.print(f"all sites: {workspace.root / 'index.html'}")
    console.print_hint("compare in MLflow and Prefect: tdrop ui")


def _print_next_steps(done: Mapping[str, TransferResult], contracts: Path, console: Printer) -> None:
    """Prints why sites are stopped, and the next step for the others."""
    usable = [site for site, result in done.items() if result.summary.verdict != "stop"]
    for site, result in done.items():
        if site not in usable:
            why = re.split(r"(?<=[.!?])\s", result.summary.reason.strip())[0]
            console.print(f"{site}: stop, so there is no model to approve. {why}", style="red", markup=False)
    if usable:
        site = usable[0] if len(usable) == 1 else "SITE"
        options = contracts_option(contracts)
        console.print_hint(
            f"If the report convinces you, approve the model: tdrop promote {site} --by NAME --note TEXT{options}"
        )
        console.print_hint(f"To check it on a few patients first: tdrop label-list {site}{options}")


def _legend(evaluations: Collection[Evaluation]) -> str:
    """Explains the cells, at sites with and without outcomes."""
    labelled = [evaluation for evaluation in evaluations if evaluation.labelled != 0]
    measured = []
    if any(not _is_number(evaluation) for evaluation in labelled):
        measured.append("AUROC of the risk (error AUROC by sd)")
    if any(_is_number(evaluation) for evaluation in labelled):
        measured.append("mean absolute error")
    cells = [f"{' or '.join(measured)}, mean over seeds"] if measured else []
    if len(labelled) < len(evaluations):
        at_level = all("threshold" in evaluation.decision for evaluation in evaluations)
        counted = "patients whose interval reaches the decision level" if at_level else "patients referred for review"
        cells.append(f"where no outcome is known, {counted}" if measured else counted)
    return f"Each cell: {'; '.join(cells)}. * chosen without target labels."


def _is_number(evaluation: Evaluation) -> bool:
    """Whether a number is predicted, not a risk."""
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


def _print_time(console: Printer, elapsed: float, start_up: float) -> None:
    """Prints how much time went into fitting and sampling, and how much into the rest."""
    busy = min(busy_seconds(), elapsed)
    share = (elapsed - busy) / elapsed if elapsed else 0.0
    console.print_hint(
        f"{elapsed:.0f} s after a start-up of {start_up:.0f} s: {busy:.0f} s fitting and sampling, "
        f"{elapsed - busy:.0f} s orchestration ({share:.0%})."
    )


@contextmanager
def dask_scheduler(address: str | None) -> Iterator[str]:
    """Yields the address of a running Dask scheduler: the given one, or one that starts on this machine."""
    from distributed import Client, LocalCluster

    if address is None:
        # One thread per worker, because torch keeps state per process; no dashboard, which would open a port.
        with LocalCluster(n_workers=os.cpu_count() or 1, threads_per_worker=1, dashboard_address=None) as cluster:
            yield str(cluster.scheduler_address)
        return
    try:
        Client(address, timeout=CONNECT_LIMIT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise Unavailable(
            f"no Dask scheduler answers at '{address}' ({type(error).__name__}); expected e.g. tcp://host:8786"
        ) from error
    yield address
