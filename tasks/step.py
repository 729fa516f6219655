"""A step: one call of a recipe, which Prefect shows as a task where a flow run is under way.

Without a flow run the same step is a plain call, with the same tries and the same words. Prefect is imported by
whoever runs a flow and by nobody else: workers and commands without a server never load it.

Prefect keeps and logs the words of every error. Another package's may hold patients' values ("could not convert
'...'"), so that only its name and the place in our code get through; `TdropError`s are written to be read.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar

from tdrop.base import Damaged, OutOfTime, TdropError, Unavailable, Unwritable, describe, notice_another_try, unwritable
from tdrop.home import in_a_thread, stopping

if TYPE_CHECKING:
    from prefect import Task

P = ParamSpec("P")
R = TypeVar("R")
Result = TypeVar("Result", covariant=True)

#: Waits between tries of a reader or a tracking server that does not answer.
BACKOFF_SECONDS = (2.0, 6.0, 15.0)
#: Whether a failure is worth another try.
Retry = Callable[[Any], bool]


class Future(Protocol[Result]):
    """What `submit` returns: it will have a result, or raise what went wrong."""

    def result(self) -> Result:
        """Waits for the result."""


def when_unavailable(failure: Any) -> bool:
    """Tries again what was out of reach; what is wrong stays wrong, and what took all its time would take it again."""
    return isinstance(failure, Unavailable) and not isinstance(failure, OutOfTime)


def unless_lasting(failure: Any) -> bool:
    """Tries again whatever happened, but for what only a person can mend."""
    return not isinstance(failure, Damaged | Unwritable)


class Step(Generic[P, R]):
    """A function that is a Prefect task inside a flow run and a plain call elsewhere."""

    def __init__(
        self, name: str, run_name: str, function: Callable[P, R], retry: Retry | None, limit_seconds: float | None
    ) -> None:
        functools.update_wrapper(self, function)
        self.name, self.run_name, self.retry, self.limit_seconds = name, run_name, retry, limit_seconds
        self.plainly = discreet(name, function)

    def __call__(self, *given: P.args, **named: P.kwargs) -> R:
        if in_a_flow_run():
            return self.task(*given, **named)
        waits = iter(BACKOFF_SECONDS if self.retry is not None else ())
        while True:
            try:
                return self.plainly(*given, **named)
            except Exception as error:
                wait = next(waits, None) if self.retry is not None and self.retry(error) else None
                if wait is None:
                    raise
                notice_another_try(self.name, error, wait)
                time.sleep(wait)

    def submit(self, *given: P.args, **named: P.kwargs) -> Future[R]:
        """Starts the step beside others and returns at once; in place where nothing runs beside."""
        if in_a_flow_run():
            future: Future[R] = self.task.submit(*given, **named)
            return future
        return in_a_thread(self, *given, **named)

    def _again(self, run: Any, state: Any) -> bool:
        """Whether Prefect tries again, and says so as a plain call does."""
        failure = state.result(raise_on_failure=False)
        again = self.retry is not None and self.retry(failure)
        if again and run.run_count <= len(BACKOFF_SECONDS):
            notice_another_try(self.name, failure, BACKOFF_SECONDS[run.run_count - 1])
        return again

    @functools.cached_property
    def task(self) -> Task[P, R]:
        """The step as Prefect knows it; never cached by Prefect, which would have to keep its result."""
        import prefect.cache_policies

        options: dict[str, Any] = {"timeout_seconds": self.limit_seconds} if self.limit_seconds else {}
        if self.retry is not None:
            options |= {
                "retries": len(BACKOFF_SECONDS),
                "retry_delay_seconds": list(BACKOFF_SECONDS),
                # Prefect asks a plain function and nothing else that can be called.
                "retry_condition_fn": lambda _task, run, state: self._again(run, state),
            }
        options |= {"task_run_name": self.run_name, "cache_policy": prefect.cache_policies.NO_CACHE}
        return prefect.task(name=self.name, **options)(self.plainly)


def step(
    name: str, run_name: str, *, retry: Retry | None = None, limit_seconds: float | None = None
) -> Callable[[Callable[P, R]], Step[P, R]]:
    """Declares a step.

    Args:
        name: What all its runs are called together.
        run_name: What one run is called; may name the step's arguments in braces.
        retry: Which failures are worth another try, after the waits of BACKOFF_SECONDS.
        limit_seconds: How long Prefect lets it take.
    """
    return lambda function: Step(name, run_name, function, retry, limit_seconds)


def in_a_flow_run() -> bool:
    """Whether a flow run is under way in this thread; whoever runs one has loaded Prefect."""
    context = sys.modules.get("prefect.context")
    return context is not None and context.FlowRunContext.get() is not None


def run_logger() -> Any:
    """The flow run's log, or this program's where none is under way."""
    if not in_a_flow_run():
        return logging.getLogger("tdrop")
    from prefect import get_run_logger

    return get_run_logger()


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
            if (disk := unwritable(error)) is not None:
                raise disk from None
            raise TdropError(f"{what} failed with {describe(error)}") from None

    return run


def _orchestration(error: Exception) -> bool:
    """Whether an error is Prefect's own, or its server's silence: others decide what becomes of those."""
    return type(error).__module__.split(".")[0] in {"prefect", "httpx"}
