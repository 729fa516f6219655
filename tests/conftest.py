"""Fixtures that several packages share: one Prefect server per session, and a network small enough for seconds."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings as examples

# A shell lets what it runs in the background ignore Ctrl-C, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Before anything of ours is imported: no test writes below the working directory or the user's home.
SCRATCH = Path(tempfile.mkdtemp(prefix="tdrop-tests-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)
os.environ.update(TDROP_HOME=str(SCRATCH / "home"), PREFECT_HOME=str(SCRATCH / "prefect"))
for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
    os.environ.pop(name, None)

from tdrop.home.environment import prepare_environment  # noqa: E402

prepare_environment()

# The same examples each time, however long a machine takes for them.
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example]
examples.register_profile("unhurried", deadline=None, derandomize=True, suppress_health_check=UNHURRIED)
examples.load_profile("unhurried")

PROJECT = Path(__file__).resolve().parents[1]
#: Rows by site: enough to validate, match and evaluate, few enough for a transfer in seconds.
TINY_ROWS = {"registry": 300, "harbour": 150, "hillside": 130, "lakeside": 120}
SMALL_NET = {"hidden": [8], "steps": 15, "batch": 64}
TINY_METHODS = {
    "mlp": SMALL_NET,
    "transductive_dropout": SMALL_NET,
    "logistic_regression": {"refits": 5},
}


#: The longest files, the longest first.
LONG = ("deploy", "transfer", "dask", "verdict", "side_by_side", "stopping", "champion", "server_down", "rehearse")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long files first: of two processes neither is left with one of them while the other has nothing."""
    places = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: (places.get(item.path.stem, len(LONG)), "flows" not in item.path.parts))


@pytest.fixture(autouse=True)
def no_tracking_address_left() -> Iterator[None]:
    """Takes away the address that MLflow writes into the environment: a later test would record on a server gone by."""
    yield
    os.environ.pop("MLFLOW_TRACKING_URI", None)


@pytest.fixture(scope="session")
def session_server(tmp_path_factory: pytest.TempPathFactory):
    """One Prefect server for the whole session on a database of its own; yields its settings by variable."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_LOCAL_STORAGE_PATH, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    home = tmp_path_factory.mktemp("prefect")
    storage = home / "storage"
    with (
        temporary_settings({PREFECT_HOME: home, PREFECT_LOCAL_STORAGE_PATH: storage}),
        prefect_test_harness(server_startup_timeout=400),
    ):
        yield {
            "PREFECT_API_URL": str(PREFECT_API_URL.value()),
            "PREFECT_HOME": str(home),
            "PREFECT_LOCAL_STORAGE_PATH": str(storage),
        }


@pytest.fixture(scope="module")
def prefect_server(session_server):
    """Makes commands and flows use the session's server; yields its API address."""
    with on_server(session_server):
        yield session_server["PREFECT_API_URL"]


@contextmanager
def on_server(settings: dict[str, str]) -> Iterator[None]:
    """Puts the server's settings into the environment for the block; subprocesses find it there."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield


@contextmanager
def at(place) -> Iterator[None]:
    """Makes flows read and write at a place for the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDROP_HOME", place.home)
        patch.setenv("TDROP_CONTRACTS", place.contracts)
        yield


def transfer(place, site: str, settings, *, again: bool = False):
    """Runs the flow of one site in this process, on the session's server; returns its `Transferred`."""
    from flows.transfer import transfer_site
    from tdrop.home import worker_processes

    with at(place), worker_processes(0):
        return transfer_site(site, settings, again)


def transfer_several(place, sites, settings, *, processes: int = 0, **options):
    """Runs the flow of several sites in this process; returns what came of each."""
    from flows.transfer import transfer_network
    from tdrop.home import worker_processes

    with at(place), worker_processes(processes):
        return transfer_network(list(sites), settings, **options)


@pytest.fixture
def tiny_network(tmp_path: Path):
    """The demo network with a few hundred simulated patients; returns its Place."""
    return write_tiny_network(tmp_path)


def write_tiny_network(folder: Path, rows=TINY_ROWS, seed: int = 0):
    """Writes `folder/network/data_contracts` and the extracts below `folder/home`; returns the Place."""
    from tdrop.data import write_demo_network
    from tdrop.home import Place

    contracts = folder / "network" / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", contracts)
    # The demo's site that is stopped: tests that want one stop another. Of its sources one is enough.
    for name in ("ferryside", "riverside", "southgate"):
        (contracts / "sites" / f"{name}.yaml").unlink()
    place = Place.at(folder / "home", contracts)
    write_demo_network(place.root / "demo", rows, seed=seed)
    settle(place.root / "demo")
    return place


def settle(folder: Path) -> None:
    """Dates the extracts back, so that no reader waits for them to be left alone."""
    past = time.time() - 60
    for file in folder.iterdir():
        os.utime(file, (past, past))


@pytest.fixture
def plain_reports(monkeypatch):
    """Leaves out the drawing of reports, for tests of what happens around them."""
    leave_reports_out(monkeypatch)


def leave_reports_out(patch: pytest.MonkeyPatch) -> None:
    """Replaces a report's pages by a line each, within this process."""

    def write_lines(data, folder: Path) -> None:
        for name in ("report.html", "details.html"):
            (folder / name).write_text(f"<html>{data.site.name}</html>", encoding="utf-8")

    for module in ("tasks.publish", "tasks.export"):
        patch.setattr(f"{module}.write_pages", write_lines)


@pytest.fixture
def tiny_settings():
    """Three cheap methods, one trial, one seed: a transfer in a few seconds."""
    from tasks.run import TransferSettings

    return TransferSettings(
        methods=tuple(TINY_METHODS),
        method_settings=TINY_METHODS,
        seeds=1,
        trials=1,
        passes=10,
        folds=2,
        bootstrap=50,
    )


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves figures empty, for tests that read a page's words: drawing takes most of a page's time."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    monkeypatch.setattr(FigureCanvasSVG, "print_svg", lambda _, stream, **__: stream.write("<svg/>"))
