"""Servers and databases that several tests need, set up once for all processes of a session."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from conftest import SHARED
from filelock import FileLock

from flows.orchestration import Server, free_port, prefect_command, start_server
from tasks.tracking import RECORD, connect
from tdrop.home import Workspace

#: The module of Prefect's server as a hospital runs it.
PLAIN_SERVER = "prefect.server.api.server"


def empty_record() -> Path:
    """MLflow's database with its tables and nothing in them."""
    record = SHARED / "record" / RECORD
    with FileLock(SHARED / "record.lock"):
        if not record.is_file():
            record.parent.mkdir()
            connect(Workspace.at(record.parent, record.parent))
    return record


@contextmanager
def prefect_server_in(home: Path, host: str = "127.0.0.1", **environment: str) -> Iterator[tuple[str, Server]]:
    """A Prefect server of its own with its files below `home`; yields the address of its API and the server.

    At another address than this machine's own it is Prefect's plain server, which other machines can reach.

    The first one of a session makes its tables; the others copy them, which takes half the time.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url, command = f"http://{host}:{port}/api", prefect_command(port)
    if host != "127.0.0.1":
        command = [each.replace("127.0.0.1", host).replace("flows.closed_server", PLAIN_SERVER) for each in command]
    settings = {**environment, "PREFECT_HOME": str(home), "PREFECT_API_URL": url}
    empty, own = SHARED / "prefect.db", home / "prefect.db"

    def start() -> Server:
        starting = start_server("Prefect", command, f"{url}/health", home / "log", settings)
        server = stack.enter_context(starting)
        server.wait_until_up()
        return server

    with ExitStack() as stack:
        with FileLock(SHARED / "prefect.lock"):
            if first := not empty.is_file():
                server = start()
                with closing(sqlite3.connect(own)) as made, closing(sqlite3.connect(empty)) as copy:
                    made.backup(copy)
        if not first:
            shutil.copy(empty, own)
            server = start()
        yield url, server
