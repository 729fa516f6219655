"""A recipe as a flow of Prefect's; loads Prefect, so only where a server is at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed
from prefect.task_runners import ThreadPoolTaskRunner

from flows.notify import tell_of_shift
from flows.recipe import Failed
from tdrop.home import stopping

P = ParamSpec("P")
R = TypeVar("R")


def as_flow(name: str, run_name: str, function: Callable[P, R]) -> Flow[P, R]:
    """The flow, with its tasks in threads of this process."""
    # Threads only wait for worker processes; a few more than cores keep those busy.
    runner: Any = ThreadPoolTaskRunner(max_workers=2 * (os.cpu_count() or 1) + 2)
    declare: Any = prefect.flow(
        name=name,
        flow_run_name=lambda: name_of_run(run_name, flow_run.parameters),
        persist_result=False,
        task_runner=runner,
        on_completion=[tell_of_shift, _name_who_failed],
        on_failure=[_cancel_when_stopped],
        on_crashed=[_cancel_when_stopped],
    )
    found: Flow[P, R] = declare(function)
    return found


def name_of_run(template: str, parameters: Mapping[str, Any]) -> str:
    """What a run is called: its template with the run's arguments, several of them with commas between."""
    told = {name: ", ".join(value) if isinstance(value, list | tuple) else value for name, value in parameters.items()}
    return template.format(**told)


def _name_who_failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Tells on a run over several sites that some have no result: its children are red, and it went on without them."""
    came = state.result(raise_on_failure=False)
    found = came.items() if isinstance(came, Mapping) else ()
    failed = {str(part): one.sentence for part, one in found if isinstance(one, Failed)}
    if failed and not stopping.requested():
        told: State[Any] = Completed(name=f"Completed without {', '.join(failed)}", message="; ".join(failed.values()))
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, told, force=True)


def _cancel_when_stopped(flow: Any, flow_run: Any, state: Any) -> None:
    """Tells Prefect that a flow run was cancelled by a person, and did not fail or crash."""
    if stopping.requested():
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(flow_run.id, Cancelled(message=stopping.SENTENCE), force=True)
