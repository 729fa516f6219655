"""Prefect's own database on a real PostgreSQL, as a server for many hospitals has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest
from conftest import PROJECT, compared_network
from waiting import LIMIT_SECONDS

from flows.orchestration import free_port, prefect_command, start_server

SITE = "harbour"


@pytest.fixture
def database():
    """The address of an empty database on a PostgreSQL server of our own, as Prefect takes it."""
    programs = _find_programs()
    # PostgreSQL refuses to run as root, and pytest's folders are closed to the user it then runs as.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="tdrop-postgres-"))
    if user is not None:
        shutil.chown(folder, user)
    port = free_port()

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run([programs / program, *arguments], user=user, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    data = str(folder / "data")
    run("initdb", "-D", data, "-U", "prefect", "-A", "trust")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    run("pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "prefect", "prefect")
        run("psql", "-h", "127.0.0.1", "-p", str(port), "-U", "prefect", "-c", "CREATE EXTENSION pg_trgm", "prefect")
        yield f"postgresql+asyncpg://prefect@127.0.0.1:{port}/prefect"
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder)


def _find_programs() -> Path:
    """The folder of a whole PostgreSQL; the wheel that other tests use lacks the extension that Prefect needs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None or os.geteuid() == 0:
        pytest.skip("needs a PostgreSQL of the system: apt install postgresql")
    return Path(on_path).resolve().parent


def test_a_transfer_is_kept_in_a_prefect_server_on_postgres(database, tmp_path):
    workspace = compared_network(tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    command = [sys.executable, "-m", "flows.cli", "transfer", SITE, "--contracts", workspace.contracts, "--seeds", "1"]
    command += ["--trials", "1", "--method", "logistic_regression", "--processes", "0"]
    home = {"TDROP_HOME": workspace.home, "PREFECT_HOME": str(workspace.root / "prefect"), "PREFECT_API_URL": url}
    environment = {**os.environ, **home, "PREFECT_API_DATABASE_CONNECTION_URL": database}
    log = tmp_path / "server.log"
    with start_server("Prefect", prefect_command(port), f"{url}/health", log, environment) as server:
        server.wait_until_up()
        done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr[-2000:]
        found = {
            kind: httpx.post(f"{url}/{kind}/filter", json={}, timeout=LIMIT_SECONDS).json()
            for kind in ("flow_runs", "task_runs")
        }
    assert [(run["name"], run["state_type"]) for run in found["flow_runs"]] == [(f"transfer {SITE}", "COMPLETED")]
    assert {"tune", "fit", "record"} <= {run["name"].split(" ")[0] for run in found["task_runs"]}
    assert not list((workspace.root / "prefect").glob("*.db"))
