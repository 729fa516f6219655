"""Fixtures that several packages share: one Prefect server per session, and a network small enough for seconds."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings as examples

# A shell lets what it runs in the background ignore Ctrl-C, and so would the commands that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Where files live in memory: databases sync every write, which takes longest on a disk. Less room is not enough.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def make_shared_folder() -> Path:
    """One temporary folder for all processes of the session, which inherit it from the first.

    Everything temporary is below it and goes with it, unless the user says by `TMPDIR` where it should be.
    """
    if "TDROP_TESTS_SHARED" in os.environ:
        return Path(os.environ["TDROP_TESTS_SHARED"])
    in_memory = "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    folder = Path(tempfile.mkdtemp(prefix="tdrop-tests-", dir=MEMORY if in_memory else None))
    # PostgreSQL's own user has its data below.
    folder.chmod(0o711)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TDROP_TESTS_SHARED"] = str(folder)
    if in_memory:
        # Also for what asked before and remembers the answer.
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


SHARED = make_shared_folder()
# Before anything of ours is imported: no test writes below the working directory or the user's home.
SCRATCH = Path(tempfile.mkdtemp(prefix="process-", dir=SHARED))
os.environ.update(TDROP_HOME=str(SCRATCH / "home"), PREFECT_HOME=str(SCRATCH / "prefect"))
for name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI"):
    os.environ.pop(name, None)
# Where it is set, as in many images, each command that a test starts would compile the whole project again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# As in a command's workers: other test processes have the other cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tdrop.home import prepare_environment, tune_garbage_collector  # noqa: E402

prepare_environment()
tune_garbage_collector()

# The same examples each time, however long a machine takes for them.
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.large_base_example]
examples.register_profile("unhurried", deadline=None, derandomize=True, suppress_health_check=UNHURRIED)
examples.load_profile("unhurried")

PROJECT = Path(__file__).resolve().parents[1]
#: Rows by site: enough to validate, match and evaluate, few enough for a transfer in seconds.
TINY_ROWS = {"registry": 300, "harbour": 150, "hillside": 130, "lakeside": 120}
#: Two patients as a hospital would send them.
TWO_PATIENTS = {
    "age": [61.0, 84.0],
    "psa": [5.0, 40.0],
    "grade_group": ["1", "5"],
    "stage": ["T1", "T3"],
    "comorbidity": [0.0, 1.0],
    "treatment": ["prostatectomy", "hormone"],
}
SMALL_NET = {"hidden": [8], "steps": 15, "batch": 64}
TINY_METHODS = {
    "mlp": SMALL_NET,
    "transductive_dropout": SMALL_NET,
    "logistic_regression": {"refits": 5},
}


#: The files that take longest, the longest first.
LONG = (
    *("deploy", "prefect_postgres", "at_the_same_moment", "two_machines", "dask", "readme", "side_by_side"),
    *("transfer", "watch", "other_kinds", "champion", "verdict", "rehearse", "pages", "leaving", "faults", "prune"),
    *("stopping", "browser", "events", "behaviour", "run", "additions", "wheel", "corpus", "server_down"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long files first: no process is left with one of them at the end while the others have nothing."""
    places = {f"test_{name}": number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: (places.get(item.path.stem, len(LONG)), "flows" not in item.path.parts))


@pytest.fixture(autouse=True)
def no_address_left() -> Iterator[None]:
    """Takes away what MLflow and commands write into the environment: a later test would work in an old workspace."""
    contracts = os.environ.get("TDROP_CONTRACTS")
    yield
    for name in ("MLFLOW_TRACKING_URI", "TDROP_CONTRACTS"):
        os.environ.pop(name, None)
    if contracts is not None:
        os.environ["TDROP_CONTRACTS"] = contracts


@pytest.fixture(scope="session")
def session_server(tmp_path_factory: pytest.TempPathFactory):
    """One Prefect server per test process on a database of its own; yields its settings by variable."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogHandler
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, PREFECT_LOCAL_STORAGE_PATH, temporary_settings
    from servers import prefect_server_in

    from flows.orchestration import UNUSED_SERVICES

    home = tmp_path_factory.mktemp("prefect")
    with prefect_server_in(home, **dict.fromkeys(UNUSED_SERVICES, "false")) as (url, _):
        values = {PREFECT_API_URL: url, PREFECT_HOME: home, PREFECT_LOCAL_STORAGE_PATH: home / "storage"}
        with temporary_settings(values):
            yield {setting.name: str(value) for setting, value in values.items()}
            # What is not sent yet would be tried for long after the server is gone.
            APILogHandler().flush()
            EventsWorker.drain_all(timeout=5)


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
def at(workspace) -> Iterator[None]:
    """Makes flows read and write in a workspace for the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TDROP_HOME", workspace.home)
        patch.setenv("TDROP_CONTRACTS", workspace.contracts)
        yield


def transfer(workspace, site: str, settings, *, again: bool = False):
    """Runs the flow of one site in this process, on the session's server; returns its `TransferResult`."""
    from flows.transfer import transfer_site
    from tdrop.home import worker_processes

    with at(workspace), worker_processes(0):
        return transfer_site(site, settings, again)


def transfer_several(workspace, sites, settings, *, processes: int = 0, **options):
    """Runs the flow of several sites in this process; returns what came of each."""
    from flows.transfer import transfer_network
    from tdrop.home import worker_processes

    with at(workspace), worker_processes(processes):
        return transfer_network(list(sites), settings, **options)


@pytest.fixture
def tiny_network(tmp_path: Path):
    """The demo network with a few hundred simulated patients; returns its workspace."""
    return write_tiny_network(tmp_path)


def write_tiny_network(folder: Path, rows=TINY_ROWS, seed: int = 0):
    """Writes `folder/network/data_contracts` and the extracts below `folder/home`; returns the workspace.

    MLflow's database is there, still empty: making one takes longer than most tests.
    """
    from servers import empty_record

    from tdrop.data import write_demo_network

    contracts = folder / "network" / "data_contracts"
    shutil.copytree(PROJECT / "data_contracts", contracts)
    # The demo's site that is stopped: tests that want one stop another. Of its sources one is enough.
    for name in ("ferryside", "riverside", "southgate"):
        (contracts / "sites" / f"{name}.yaml").unlink()
    workspace = workspace_in(folder)
    write_demo_network(workspace.root / "demo", rows, seed=seed)
    settle(workspace.root / "demo")
    shutil.copy(empty_record(), workspace.root / "mlflow.db")
    return workspace


def workspace_in(folder: Path):
    """The workspace of a tiny network in a folder."""
    from tdrop.home import Workspace

    return Workspace.at(folder / "home", folder / "network" / "data_contracts")


def copy_network(network: Path, folder: Path):
    """Copies a tiny network with all that its home holds; returns the copy's workspace."""
    shutil.copytree(network, folder, symlinks=True, dirs_exist_ok=True)
    return workspace_in(folder)


def compared_network(folder: Path):
    """The tiny network as `tdrop shift` leaves it: transfers of harbour and lakeside find all stages before training.

    Not for tests of what happens in these stages, nor of whether outcomes reach them.
    """

    def make(folder: Path) -> None:
        from flows.shift import compare_patients

        workspace = write_tiny_network(folder)
        for site in ("harbour", "lakeside"):
            compare_patients(workspace.resolve(site))
            shutil.rmtree(workspace.site(site))

    return copy_network(made_once("compared", make), folder)


def finished_network(folder: Path, *methods: str):
    """The tiny network after one transfer of harbour with the cheap settings of `cheap(*methods)`."""

    def make(folder: Path) -> None:
        transfer(compared_network(folder), "harbour", cheap(*methods))

    return copy_network(made_once("-".join(("finished", *methods)), make), folder)


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` fills once for all processes of the session; tests copy it and never write into it."""
    folder = SHARED / "networks" / name
    folder.parent.mkdir(exist_ok=True)
    with FileLock(SHARED / f"{name}.lock"):
        if not folder.is_dir():
            try:
                make(folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
    return folder


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
    """All cheap methods."""
    return cheap()


def cheap(*methods: str, **changed):
    """Settings of a transfer in a few seconds: some or all of the cheap methods, one trial, one seed."""
    from tasks.settings import TransferSettings

    few = {"seeds": 1, "trials": 1, "passes": 10, "folds": 2, "bootstrap": 50}
    chosen = {"methods": methods or tuple(TINY_METHODS), "method_settings": TINY_METHODS}
    return TransferSettings.model_validate({**few, **chosen, **changed})


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves figures empty, for tests that read a page's words: drawing takes most of a page's time."""
    from no_figures import leave_figures_empty

    leave_figures_empty(monkeypatch.setattr)


@pytest.fixture(scope="module", autouse=True)
def undrawn_flows(request: pytest.FixtureRequest) -> Iterator[None]:
    """The same for whole flows within the process: drawing is half of a small transfer, and has tests of its own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name == "flows" and not request.node.get_closest_marker("drawn"):
            from no_figures import leave_figures_empty

            leave_figures_empty(patch.setattr)
        yield
