"""Where tasks run: threads that hand fits to processes of this machine, or a Dask cluster."""

from __future__ import annotations

import os
from typing import Any

from tdrop.errors import UsageError, did_you_mean

RUNNERS = ("processes", "dask")


def task_runner(name: str = "processes", address: str | None = None) -> Any:
    """Returns a Prefect task runner.

    Args:
        name: "processes" or "dask".
        address: An existing Dask scheduler; without one, dask starts processes on this machine.
    """
    if name not in RUNNERS:
        raise UsageError(f"unknown runner '{name}'{did_you_mean(name, RUNNERS)}")
    if name == "processes":
        from prefect.task_runners import ThreadPoolTaskRunner

        # Threads only wait for worker processes; a few more than cores keep those busy.
        return ThreadPoolTaskRunner(max_workers=2 * (os.cpu_count() or 1) + 2)
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError:
        raise UsageError("the dask runner needs an extra: pip install 'tdrop[cluster]'") from None
    if address is not None:
        return DaskTaskRunner(address=address)
    # One thread a worker: torch keeps state per process.
    return DaskTaskRunner(cluster_kwargs={"n_workers": os.cpu_count() or 1, "threads_per_worker": 1})
