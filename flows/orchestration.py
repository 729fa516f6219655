"""Prefect for one command: the server that is configured, or an embedded one for as long as it takes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tdrop.errors import TdropError, Unavailable, UsageError

START_LIMIT_SECONDS = 180
STOP_LIMIT_SECONDS = 8


@contextmanager
def orchestrated() -> Iterator[None]:
    """Brings an embedded Prefect up once for the block, unless a server is configured."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    if PREFECT_API_URL.value():
        yield
        return
    home = PREFECT_HOME.value()
    home.mkdir(parents=True, exist_ok=True)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with serving("Prefect", prefect_command(port), f"{url}/health", home / "server.log", {}):
        # Worker processes read the environment, this process reads its settings.
        os.environ["PREFECT_API_URL"] = url
        try:
            with temporary_settings({PREFECT_API_URL: url}):
                yield
        finally:
            os.environ.pop("PREFECT_API_URL", None)


def require_server() -> str:
    """The address of the configured Prefect server, which must answer."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not url:
        raise UsageError(
            "no Prefect server is configured; start one with `tdrop ui` and set PREFECT_API_URL as it says"
        )
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=10):
            return str(url)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(
            f"the Prefect server at {url} does not answer ({reason}); start it or correct PREFECT_API_URL"
        ) from error


def prefect_command(port: int) -> list[str]:
    """The command of a Prefect server on this machine alone."""
    return [
        *(sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"),
    ]


@contextmanager
def serving(
    name: str, command: Sequence[str], health: str, log: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server for the block, its output in `log`; leaves when `health` has answered."""
    with log.open("ab") as stream:
        # A session of its own: Ctrl-C reaches the command, which then stops the server in order.
        process = subprocess.Popen(
            list(command),
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    try:
        _wait_until_healthy(name, process, health, log)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_healthy(name: str, process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + START_LIMIT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TdropError(f"{name} stopped while starting (exit code {process.returncode}); its log is {log}")
        try:
            with urllib.request.urlopen(health, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TdropError(f"{name} did not answer within {START_LIMIT_SECONDS} s; its log is {log}")


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free(port: int, name: str) -> None:
    """Says in one sentence that a port is taken."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TdropError(
                f"port {port} for {name} is in use ({error.strerror}); stop what listens there or choose another port"
            ) from error
