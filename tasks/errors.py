"""Errors of tasks: which messages Prefect may keep, and which failures are tried again.

Prefect stores and logs the message of every error. Another package's message may hold patients' values ("could not
convert '...'"), so only its class and the line of our code are kept. The message of a `TdropError` is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TypeVar

from prefect.cache_policies import NO_CACHE

from tdrop.base import (
    Damaged,
    DataError,
    LabelsRefused,
    OutOfTime,
    TdropError,
    Unavailable,
    Unwritable,
    describe,
    notice_another_try,
    resource_error,
)
from tdrop.disclosure import limit, without_numbers
from tdrop.home import Interrupted, ResolvedSite, files, write_private

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds between tries of a reader or a tracking server that does not answer.
BACKOFF_SECONDS = [2.0, 6.0, 15.0]


def sanitize_errors(fn: Callable[P, R]) -> Callable[P, R]:
    """Re-raises TdropError and Prefect's own errors; replaces any other's message, which may hold patient values."""

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        name = fn.__name__.replace("_", " ")
        try:
            return fn(*args, **kwargs)
        except TdropError as error:
            raise _without_counts(error, [*args, *kwargs.values()]) from None
        except (ConnectionError, TimeoutError) as error:
            raise Unavailable(f"{name}: {describe(error)}; try again later") from None
        except Exception as error:
            if type(error).__module__.split(".")[0] in {"prefect", "httpx"}:
                raise
            if (exhausted := resource_error(error)) is not None:
                raise exhausted from None
            raise TdropError(f"{name} failed with {describe(error)}") from None

    return run


def _without_counts(error: TdropError, arguments: Sequence[object]) -> TdropError:
    """The error as Prefect may keep it: a sentence with a number of rows stays at a site that hides small ones.

    Names stand in quotation marks; any other number may count rows.
    """
    site = next((each for each in _flatten(arguments) if isinstance(each, ResolvedSite)), None)
    if site is None or not limit(site.policy) or type(error) is not DataError or without_numbers(str(error), ""):
        return error
    file = site.workspace.site(site.name) / files.REFUSED_EXTRACT / "why.txt"
    write_private(file, f"{error}\n")
    return DataError(f"the data of site '{site.name}' cannot be used; why is in '{file}'")


def _flatten(arguments: Iterable[object]) -> Iterator[object]:
    """Arguments, and what stands in those that are lists."""
    for argument in arguments:
        yield from argument if isinstance(argument, list | tuple) else [argument]


def refuse_labels(site: ResolvedSite, error: DataError) -> DataError:
    """The refusal of a label file as Prefect may keep it: without counts if the site hides small ones."""
    if not limit(site.policy) or isinstance(error, Unavailable):
        return error
    file = site.workspace.site(site.name) / files.REFUSED_EXTRACT / "labels.txt"
    write_private(file, f"{error}\n")
    return LabelsRefused(f"the label file for site '{site.name}' was refused; why is in {file}", file)


def try_to_record(what: str, record: Callable[..., object], *args: Any) -> str | None:
    """Records something in MLflow; returns a sentence if that failed, and the run goes on."""
    try:
        sanitize_errors(record)(*args)
    except (Interrupted, Unwritable):
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, TdropError) else type(error).__name__
        return f"{what} was not recorded in MLflow: {reason}"
    return None


def _retry(worth_it: Callable[[Any], bool]) -> dict[str, Any]:
    """Options of a task that is tried again after some failures; the user is told of each further try."""

    def again(task: Any, task_run: Any, state: Any) -> bool:
        failure = state.result(raise_on_failure=False)
        if not worth_it(failure):
            return False
        if task_run.run_count <= len(BACKOFF_SECONDS):
            notice_another_try(task.name, failure, BACKOFF_SECONDS[task_run.run_count - 1])
        return True

    return {
        "cache_policy": NO_CACHE,
        "retries": len(BACKOFF_SECONDS),
        "retry_delay_seconds": BACKOFF_SECONDS,
        "retry_condition_fn": again,
    }


#: For tasks that read: only sources that were out of reach are tried again, unless the time limit was used up.
RETRY_UNAVAILABLE = _retry(lambda failure: isinstance(failure, Unavailable) and not isinstance(failure, OutOfTime))
#: For tasks that record: everything is tried again, except what only a person can repair.
RETRY_RECORDING = _retry(lambda failure: not isinstance(failure, Damaged | Unwritable))
