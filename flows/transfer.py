"""The flow of one target site and the flow of several: locks, states and tags around the steps of `flows.pipeline`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, TaskRunFilter
from prefect.client.schemas.objects import State
from prefect.exceptions import MissingContextError, PrefectException
from prefect.runtime import flow_run as current_run
from prefect.states import Cancelled, Completed, Crashed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.orchestration import is_server_lost
from flows.pipeline import TransferResult, run_pipeline
from tasks.gather import SUMMARY
from tasks.new_patients import is_current, remember_proposal
from tasks.prepare import digest_inputs, gather_new_patients
from tasks.publish import create_page, escape_markdown, publish_halt, publish_index
from tasks.settings import TransferSettings
from tdrop.base import SiteStopped, TdropError, Unwritable, describe, read_record, resource_error
from tdrop.home import (
    SENTENCE,
    Event,
    Inputs,
    Interrupted,
    ResolvedSite,
    Status,
    Workspace,
    add_listener,
    emit_progress,
    interrupt_requested,
    lock_site,
    mark_as_running,
    nothing_changed,
    now,
    prepare_environment,
    read_note,
    read_status,
    worker_processes,
    write_status,
)
from tdrop.report import SiteSummary

#: Threads only wait for worker processes; a few more than cores keep those busy.
THREADS = 2 * (os.cpu_count() or 1) + 2
#: Tasks that have not ended, as Prefect finds them.
OPEN_TASKS = TaskRunFilter.model_validate({"state": {"type": {"any_": ["SCHEDULED", "PENDING", "RUNNING"]}}})
#: How long running sites have to end after Ctrl-C.
SHUTDOWN_SECONDS = 7.0


@dataclass(frozen=True)
class SiteFailure:
    """Why a site has no result, in a sentence."""

    sentence: str

    def to_json(self) -> dict[str, object]:
        """What `--json` prints of it."""
        return {"failed": self.sentence}


def _mark_cancelled(flow: Any, flow_run: Any, state: Any) -> None:
    """Marks an interrupted run as cancelled, not as failed or crashed."""
    if interrupt_requested():
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Cancelled(message=SENTENCE), force=True)


def _log_to_prefect(event: Event) -> None:
    """Logs a finished step in its flow run or task run."""
    if event.done:
        with suppress(MissingContextError):
            count = f" {event.done} of {event.total}" if event.total > 1 else ""
            get_run_logger().info("%s: %s%s%s", event.site, event.stage, count, event.public and f": {event.public}")


@flow(
    name="transfer-site",
    flow_run_name="transfer {site}",
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=THREADS),  # type: ignore[arg-type]
    on_failure=[_mark_cancelled],
    on_crashed=[_mark_cancelled],
)
def transfer_site(
    site: str, settings: TransferSettings = TransferSettings(), again: bool = False, new_patients: bool = False
) -> Any:
    """Moves the source's model to one target site and publishes its report.

    Reads contracts from `$TDROP_CONTRACTS` and writes below `$TDROP_HOME`. The run's state is the verdict (Go, Caution,
    Stop or Too few to say), or Stopped if the extract must not be used.

    Args:
        site: Name of the target site.
        settings: What to train and how long.
        again: Run even if data, contract, settings and code are unchanged.
        new_patients: Use the patients of all batches since the promotion instead of the extract.

    Returns:
        A `TransferResult`.
    """
    prepare_environment()
    add_listener(_log_to_prefect)
    settings.chosen_methods()
    resolved = Workspace.at().resolve(site)
    resolved.network.target(site)
    workspace, run_id = resolved.workspace, str(current_run.id)
    with lock_site(workspace, site):
        _close_interrupted_run(workspace, site)
        _tag_run(resolved)
        with mark_as_running(workspace, site, run_id, is_server_lost):
            try:
                result = _transfer_if_changed(
                    gather_new_patients(resolved) if new_patients else resolved, settings, again
                )
                if new_patients:
                    remember_proposal(resolved)
            except SiteStopped as error:
                create_page(site, "letter", escape_markdown(error.letter or str(error)))
                return Failed(name="Stopped", message=str(error), data=error)
    verdict = result.summary.verdict
    _tag_run(resolved, f"verdict:{verdict}")
    name = verdict.capitalize() + (", unchanged" if result.unchanged else "")
    sentence = result.unchanged or result.not_recorded or "report published and recorded"
    state: State[TransferResult] = Completed(name=name, message=f"verdict {verdict}: {sentence}", data=result)
    return state


def _tag_run(site: ResolvedSite, *more: str) -> None:
    """Tags this run with its site, table and source; goes on without tags if the server refuses them."""
    sources = (f"source:{source.name}" for source in site.sources)
    added = {f"site:{site.name}", f"table:{site.contract.name}", *sources, *more}
    added |= {"simulated"} if site.site.simulated else set()
    with suppress(PrefectException), get_client(sync_client=True) as client:
        run = client.read_flow_run(current_run.id)
        client.update_flow_run(run.id, tags=sorted({*run.tags, *added}))


def _close_interrupted_run(workspace: Workspace, site: str) -> None:
    """Closes a run that Prefect still shows as running, with its tasks, although its process has ended.

    This run holds the site's lock, so the process of any run that is still noted as running has ended.
    """
    note = read_note(workspace, site)
    if note is None:
        return
    closed: State[Any] = Crashed(name="Interrupted", message="its process ended before the run did")
    with suppress(PrefectException), get_client(sync_client=True) as client:
        run = client.read_flow_run(note.flow_run)  # type: ignore[arg-type]
        parents = [client.read_task_run(run.parent_task_run_id).flow_run_id] if run.parent_task_run_id else []
        runs = FlowRunFilter.model_validate({"id": {"any_": [run.id, *parents]}})
        for task in client.read_task_runs(flow_run_filter=runs, task_run_filter=OPEN_TASKS):
            client.set_task_run_state(task.id, closed, force=True)
        for run_id in (run.id, *parents):
            state = client.read_flow_run(run_id).state  # type: ignore[arg-type]
            if state is not None and not state.is_final():
                client.set_flow_run_state(run_id, closed, force=True)  # type: ignore[arg-type]


def _transfer_if_changed(site: ResolvedSite, settings: TransferSettings, again: bool) -> TransferResult:
    """Runs the pipeline if anything changed, and writes the site's status."""
    workspace, started = site.workspace, now()
    inputs: Inputs | None = None
    try:
        inputs = digest_inputs(site, settings)
        if not again and (nothing_changed(workspace, site.name, inputs) or _is_current_for_new_patients(site, inputs)):
            return _unchanged_result(workspace, site.name)
        with worker_processes():
            result = run_pipeline(site, settings, inputs)
    except Interrupted:
        raise
    except Exception as error:
        error = resource_error(error) or error
        outcome, sentence = "stopped" if isinstance(error, SiteStopped) else "failed", explain(site.name, error)
        emit_progress(site.name, outcome)
        # On a full disk the status cannot be written either; the first error matters more.
        with suppress(Unwritable):
            reason = error.reason if isinstance(error, SiteStopped) else ""
            write_status(workspace, Status(site.name, inputs, outcome, now(), started, sentence, reason))
            _show_halt(workspace, site.name)
        if isinstance(error, TdropError) or is_server_lost(error):
            raise error
        # Prefect keeps an error's message.
        raise TdropError(sentence) from None
    # If recording failed, the next run repeats it and finds every stage ready.
    outcome = "done" if result.not_recorded is None else "not recorded"
    write_status(
        workspace, Status(site.name, inputs, outcome, now(), started, result.not_recorded or result.summary.use)
    )
    # Only now is an earlier stop over.
    publish_index(workspace)
    return result


def _is_current_for_new_patients(site: ResolvedSite, inputs: Inputs) -> bool:
    """Whether the last run was for new patients and the extract has not changed since."""
    last = read_status(site.workspace, site.name)
    if last is None or last.inputs is None or last.outcome != "done":
        return False
    same = replace(inputs, target_data=last.inputs.target_data, labels=last.inputs.labels) == last.inputs
    return same and is_current(site, last.inputs.target_data, inputs.target_data)


def _show_halt(workspace: Workspace, site: str) -> None:
    """Shows on the pages why the run ended; a page that cannot be written must not hide that."""
    try:
        publish_halt(workspace, site)
    except (OSError, TdropError) as error:
        get_run_logger().warning("site %s: the page about this run was not written (%s)", site, type(error).__name__)


def explain(site: str, error: Exception) -> str:
    """One sentence about a failure, without other packages' messages, which may hold patients' values."""
    if isinstance(error, TdropError):
        return str(error)
    if exhausted := resource_error(error):
        return f"site '{site}': {exhausted}"
    if is_server_lost(error):
        return f"site '{site}': the Prefect server stopped answering; finished steps are kept"
    return f"site '{site}' failed with {describe(error)}"


def _unchanged_result(workspace: Workspace, site: str) -> TransferResult:
    same = "nothing changed since the last run: data, contract, settings and code are the same"
    emit_progress(site, "unchanged", detail=same, public=same)
    return TransferResult(read_record(SiteSummary, workspace.latest(site) / SUMMARY), unchanged=same)


@flow(
    name="transfer-network",
    flow_run_name="transfer to several sites",
    persist_result=False,
    on_failure=[_mark_cancelled],
    on_crashed=[_mark_cancelled],
)
def transfer_network(
    sites: Sequence[str],
    settings: TransferSettings = TransferSettings(),
    again: bool = False,
    at_once: int = 1,
    scheduler: str | None = None,
) -> Any:
    """Transfers to several sites; a site that fails does not stop the others.

    Args:
        sites: Names of the target sites.
        settings: What to train and how long.
        again: Run even if nothing changed.
        at_once: How many sites run at the same time.
        scheduler: Address of a Dask scheduler for the tasks; None for worker processes of this machine.

    Returns:
        By site: a `TransferResult`, or a `SiteFailure`.
    """
    results = transfer_sites(sites, settings, again, at_once, scheduler)
    failed = {site: result.sentence for site, result in results.items() if isinstance(result, SiteFailure)}
    if not failed:
        return results
    name = f"Completed without {', '.join(failed)}"
    state: State[Any] = Completed(name=name, message="; ".join(failed.values()), data=results)
    return state


def transfer_sites(
    sites: Sequence[str],
    settings: TransferSettings,
    again: bool = False,
    at_once: int = 1,
    scheduler: str | None = None,
    new_patients: bool = False,
) -> dict[str, TransferResult | SiteFailure]:
    """Starts one flow run per site; sites that run at the same time have a thread each."""
    prepare_environment()
    network = Workspace.at().network()
    for site in sites:
        network.target(site)
    transfer = transfer_site if scheduler is None else transfer_site.with_options(task_runner=_dask_runner(scheduler))

    def transfer_or_explain(site: str) -> TransferResult | SiteFailure:
        try:
            result: Any = transfer(site, settings, again, new_patients)
        except Interrupted:
            raise
        except Exception as error:
            if is_server_lost(error):  # no other site can run either
                raise
            return SiteFailure(explain(site, error))
        assert isinstance(result, TransferResult)
        return result

    return _for_each(transfer_or_explain, tuple(dict.fromkeys(sites)), at_once)


def _dask_runner(scheduler: str) -> Any:
    from prefect_dask import DaskTaskRunner

    return DaskTaskRunner(address=scheduler)


def _for_each(
    transfer: Callable[[str], TransferResult | SiteFailure], sites: Sequence[str], at_once: int
) -> dict[str, TransferResult | SiteFailure]:
    """Results by site. A single site runs in this thread, where Ctrl-C ends it at once."""
    if at_once == 1 or len(sites) == 1:
        return {site: transfer(site) for site in sites}
    threads = ThreadPoolExecutor(at_once)
    try:
        # With this context, the threads' flow runs become children of this one.
        futures = {site: threads.submit(copy_context().run, transfer, site) for site in sites}
        return {site: future.result() for site, future in futures.items()}
    finally:
        # After Ctrl-C the fits are over; their flows have a moment to set their states.
        threads.shutdown(wait=False, cancel_futures=True)
        wait(futures.values(), timeout=SHUTDOWN_SECONDS)
