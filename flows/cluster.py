"""Where tasks run: threads that hand fits to processes of this machine, or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from tdrop.base import Unavailable, UsageError, did_you_mean

RUNNERS = ("processes", "dask")
CONNECT_LIMIT_SECONDS = 15


def check_runner(name: str, address: str | None) -> None:
    """Refuses what cannot be run on, before anything is started."""
    if name not in RUNNERS:
        raise UsageError(f"unknown runner '{name}'{did_you_mean(name, RUNNERS)}")
    if name == "processes" and address is not None:
        raise UsageError("--address is for a Dask scheduler; add --runner dask")
    if name == "dask" and find_spec("prefect_dask") is None:
        raise UsageError("the dask runner needs an extra: pip install 'tdrop[cluster]'")


@contextmanager
def dask_scheduler(address: str | None) -> Iterator[str]:
    """The address of a Dask scheduler that answers: the one given, or one of processes of this machine."""
    from distributed import Client, LocalCluster

    if address is None:
        # One thread per worker: torch keeps state per process. No dashboard: nobody asked for a port.
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
