"""How a task is declared here: never cached by Prefect, and silent about what other packages say.

Prefect keeps and logs the words of every error. Another package's may hold patients' values ("could not convert
'...'"), so that only its name and the place in our code get through; `TdropError`s are written to be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

from tasks import stopping
from tdrop.errors import TdropError, Unavailable, describe

P = ParamSpec("P")
R = TypeVar("R")

#: Waits between tries of a reader or a tracking server that does not answer.
BACKOFF_SECONDS = [2.0, 8.0, 30.0]


def may_go_through_later(_task: Any, _run: Any, state: Any) -> bool:
    """Tries again what was out of reach; what is wrong stays wrong."""
    return isinstance(state.result(raise_on_failure=False), Unavailable)


#: What a step that reads other people's data or servers adds to its declaration.
PATIENT: Mapping[str, Any] = {
    "retries": len(BACKOFF_SECONDS),
    "retry_delay_seconds": BACKOFF_SECONDS,
    "retry_condition_fn": may_go_through_later,
}


def step(name: str, run_name: str, **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Declares a Prefect task.

    Args:
        name: What all its runs are called together.
        run_name: What one run is called; may name the task's arguments in braces.
        options: Whatever else `prefect.task` takes, such as retries.
    """

    def declare(function: Callable[P, R]) -> Task[P, R]:
        return task(name=name, task_run_name=run_name, cache_policy=NO_CACHE, **options)(discreet(name, function))

    return declare


def discreet(what: str, function: Callable[P, R]) -> Callable[P, R]:
    """Lets our own errors and the orchestrator's through, and names every other without its words."""

    @functools.wraps(function)
    def run(*given: P.args, **named: P.kwargs) -> R:
        stopping.check()
        try:
            return function(*given, **named)
        except TdropError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise Unavailable(f"{what}: {describe(error)}; try again later") from None
        except Exception as error:
            if _orchestration(error):
                raise
            raise TdropError(f"{what} failed with {describe(error)}") from None

    return run


def _orchestration(error: Exception) -> bool:
    """Whether an error is Prefect's own, or its server's silence: others decide what becomes of those."""
    return type(error).__module__.split(".")[0] in {"prefect", "httpx"}
