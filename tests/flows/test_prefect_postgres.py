"""Prefect's own database on a real PostgreSQL, as a server for many hospitals has it, and what is killed there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from conftest import PROJECT, compared_network
from waiting import LIMIT_SECONDS, is_gone, wait_until

from flows.orchestration import free_port, prefect_command, start_server
from tdrop.home import read_note, read_status

SITE = "harbour"


class Postgres:
    """A PostgreSQL server of our own that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.port = folder, str(folder / "data"), free_port()
        self.programs = _find_programs()
        # PostgreSQL refuses to run as root, and pytest's folders are closed to the user it then runs as.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user is not None:
            shutil.chown(folder, self.user)

    @property
    def address(self) -> str:
        """Its database, as Prefect takes it."""
        return f"postgresql+asyncpg://prefect@127.0.0.1:{self.port}/prefect"

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs one of PostgreSQL's programs."""
        return subprocess.run(
            [self.programs / program, *arguments], user=self.user, capture_output=True, text=True, timeout=600
        )

    def create(self) -> None:
        """Makes an empty database with the extension that Prefect needs."""
        client = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "prefect")
        made = [self.run("initdb", "-D", self.data, "-U", "prefect", "-A", "trust"), self.start()]
        made.append(self.run("createdb", *client, "prefect"))
        made.append(self.run("psql", *client, "-c", "CREATE EXTENSION pg_trgm", "prefect"))
        assert all(each.returncode == 0 for each in made), [each.stderr for each in made]

    def is_started(self) -> bool:
        """Starts it where it was killed; False while its other processes have not all ended."""
        return self.start().returncode == 0

    def start(self) -> subprocess.CompletedProcess[str]:
        """Starts the server, also after it was killed."""
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        return self.run("pg_ctl", "-D", self.data, "-o", options, "-l", str(self.folder / "log"), "-w", "start")

    def kill(self) -> None:
        """Kills the server as a machine does that runs out of memory; its other processes follow it."""
        server = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(server, signal.SIGKILL)
        wait_until(lambda: is_gone(server))

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.data, "-m", "immediate", "stop")


def _find_programs() -> Path:
    """The folder of a whole PostgreSQL; the wheel that other tests use lacks the extension that Prefect needs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None or os.geteuid() == 0:
        pytest.skip("needs a PostgreSQL of the system: apt install postgresql")
    return Path(on_path).resolve().parent


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="tdrop-postgres-"))
    server = Postgres(folder)
    try:
        server.create()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


class Prefect:
    """Prefect's server on that database, and commands that use it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        #: What a command says that loses the server.
        self.lost = (
            f"tdrop: the Prefect server at {url} stopped answering; finished steps are kept: run the same command "
            "again when it is back"
        )

    def begin(self, workspace) -> subprocess.Popen[str]:
        """Starts a transfer."""
        command = [sys.executable, "-m", "flows.cli", "transfer", SITE, "--contracts", workspace.contracts]
        methods = ("--method", "mlp", "--method", "logistic_regression")
        command += ["--seeds", "1", "--trials", "3", *methods, "--processes", "0"]
        home = {"TDROP_HOME": workspace.home, "PREFECT_HOME": str(self.folder), "PREFECT_API_URL": self.url}
        return subprocess.Popen(
            command, cwd=PROJECT, env={**os.environ, **home},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    @contextmanager
    def under_way(self, workspace) -> Iterator[subprocess.Popen[str]]:
        """A transfer that has built a stage of the training, unless the one before left none to build."""
        stages, note = stages_of(workspace), read_note(workspace, SITE)

        def trains() -> bool:
            return read_note(workspace, SITE) != note and (note is not None or stages_of(workspace) != stages)

        process = self.begin(workspace)
        try:
            wait_until(lambda: trains() or process.poll() is not None)
            assert process.poll() is None, process.communicate()
            yield process
        finally:
            process.kill()
            process.communicate()

    def finish(self, workspace) -> None:
        """A transfer to its end, which must be good."""
        process = self.begin(workspace)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 0, errors

    def states(self) -> list[tuple[str, str]]:
        """Type and name of the state of all flow runs, in the order of their start."""
        return [(run["state_type"], run["state_name"]) for run in self._runs("flow_runs", sort="START_TIME_ASC")]

    def open_tasks(self) -> list[str]:
        """The tasks that Prefect shows as not ended."""
        final = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
        return [run["name"] for run in self._runs("task_runs") if run["state_type"] not in final]

    def _runs(self, kind: str, **asked: str) -> list[dict]:
        answer = httpx.post(f"{self.url}/{kind}/filter", json=asked, timeout=LIMIT_SECONDS)
        answer.raise_for_status()
        return answer.json()


@pytest.fixture(scope="module")
def prefect(postgres, tmp_path_factory) -> Iterator[Prefect]:
    folder = tmp_path_factory.mktemp("prefect")
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    settings = {"PREFECT_API_URL": url, "PREFECT_HOME": str(folder)}
    settings["PREFECT_API_DATABASE_CONNECTION_URL"] = postgres.address
    with start_server("Prefect", prefect_command(port), f"{url}/health", folder / "log", settings) as server:
        server.wait_until_up()
        yield Prefect(url, folder)
        assert not list(folder.glob("*.db"))


def stages_of(workspace) -> dict[Path, int]:
    """The finished stages, and when each was finished."""
    manifests = (workspace.root / "store").glob("*/[!.]*/manifest.json")
    return {file: file.stat().st_mtime_ns for file in manifests}


def test_a_killed_command_is_closed_by_the_next_which_goes_on(prefect, tmp_path):
    workspace = compared_network(tmp_path)
    with prefect.under_way(workspace) as process:
        process.kill()
        process.wait()
    kept = stages_of(workspace)
    assert prefect.states()[-1] == ("RUNNING", "Running")
    assert prefect.open_tasks()

    prefect.finish(workspace)
    assert prefect.states()[-2:] == [("CRASHED", "Interrupted"), ("COMPLETED", "Go")]
    wait_until(lambda: not prefect.open_tasks(), prefect.open_tasks)
    assert kept.items() <= stages_of(workspace).items(), "a finished stage was built again"


def test_a_killed_database_ends_the_command_in_a_sentence_and_leaves_no_run_open(prefect, postgres, tmp_path):
    workspace = compared_network(tmp_path)
    with prefect.under_way(workspace) as process:
        postgres.kill()
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert (process.returncode, errors.splitlines()[-1:]) == (1, [prefect.lost])
    assert read_status(workspace, SITE).outcome == "interrupted"
    kept = stages_of(workspace)
    wait_until(postgres.is_started)

    # Killed once more, it comes back while a run is under way, which goes on or ends like the first.
    with prefect.under_way(workspace) as process:
        postgres.kill()
        wait_until(postgres.is_started)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
    if process.returncode:
        assert errors.splitlines()[-1:] == [prefect.lost]
        prefect.finish(workspace)
    assert prefect.states()[-1] == ("COMPLETED", "Go")
    assert set(prefect.states()) == {("CRASHED", "Interrupted"), ("COMPLETED", "Go")}
    wait_until(lambda: not prefect.open_tasks(), prefect.open_tasks)
    assert kept.items() <= stages_of(workspace).items(), "a finished stage was built again"
