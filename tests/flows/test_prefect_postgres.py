"""Prefect's own database on a real PostgreSQL, as a server for many hospitals has it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import leave_reports_out, write_tiny_network

from flows.orchestration import free_port, prefect_command, serving

pytestmark = pytest.mark.timeout(400)
SITE = "harbour"


@pytest.fixture
def database(tmp_path_factory):
    """The address of an empty database on a PostgreSQL server of our own, as Prefect takes it."""
    programs = _find_programs()
    # PostgreSQL refuses to run as root, and then needs a folder that its own user can reach.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tmp_path_factory.mktemp("cluster"))
    if user is not None:
        for parent in (folder, *folder.parents[:3]):
            parent.chmod(0o755)
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    port = free_port()

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run([programs / program, *arguments], user=user, capture_output=True, text=True, timeout=120)
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


def _find_programs() -> Path:
    """The folder of a whole PostgreSQL; the wheel that other tests use lacks the extension that Prefect needs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        pytest.skip("needs a PostgreSQL of the system: apt install postgresql")
    return Path(on_path).resolve().parent


def test_a_transfer_is_kept_in_a_prefect_server_on_postgres(database, tiny_settings, tmp_path, monkeypatch):
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.network import transfer_network

    leave_reports_out(monkeypatch)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    environment = {"PREFECT_API_DATABASE_CONNECTION_URL": database, "PREFECT_HOME": str(tmp_path / "prefect")}
    with serving("Prefect", prefect_command(port), f"{url}/health", tmp_path / "server.log", environment):
        monkeypatch.setenv("PREFECT_API_URL", url)
        with temporary_settings({PREFECT_API_URL: url}):
            place = write_tiny_network(tmp_path)
            result = transfer_network([SITE], tiny_settings, place.contracts, place.home, 0)[SITE]
            assert result["not_recorded"] is None, result
            with get_client(sync_client=True) as client:
                flow_runs, task_runs = client.read_flow_runs(), client.read_task_runs(limit=200)
    assert sorted(run.state_name for run in flow_runs) == ["Completed", "Completed"]
    assert {"trial", "fit", "record"} <= {run.name.split(" ")[0] for run in task_runs}
    assert not list((tmp_path / "prefect").glob("*.db"))
