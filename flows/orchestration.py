"""The Prefect server of a command: the configured one, that of `tdrop ui`, or one that the command starts."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from flows.interrupts import write_stderr
from tdrop.base import TdropError, Unavailable, UsageError
from tdrop.home import PRIVATE, default_home, environment, interrupt_requested, request_interrupt

START_LIMIT_SECONDS = 180
STOP_LIMIT_SECONDS = 8
#: The same after Ctrl-C, when a person waits.
INTERRUPTED_STOP_LIMIT_SECONDS = 2
#: Linux's PR_SET_PDEATHSIG.
PARENT_DEATH_SIGNAL = 1
#: File in the home with the address of the Prefect server of `tdrop ui`, which counts while that holds its lock.
SERVER_NOTE = "prefect-server.url"
#: Lock in the home, held while `tdrop ui` runs.
UI_LOCK = "ui.lock"
#: Parts of a Prefect server that a single command does not need.
UNUSED_SERVICES = (
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED",
    "PREFECT_SERVER_SERVICES_FOREMAN_ENABLED",
    "PREFECT_SERVER_SERVICES_CANCELLATION_CLEANUP_ENABLED",
    "PREFECT_SERVER_SERVICES_PAUSE_EXPIRATIONS_ENABLED",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED",
)


#: How often a command checks its Prefect server, and after how long without an answer it warns and gives up.
CHECK_SECONDS, WARN_SECONDS, GIVE_UP_SECONDS = 2.0, 6.0, 45.0
#: When it gives up on a server of its own whose process still runs.
BUSY_SECONDS = 300.0


@contextmanager
def prefect_server(meanwhile: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Runs flows inside the block on a Prefect server; yields its address.

    The server is the configured one, that of `tdrop ui` on this home, or one that starts now and stops with the block;
    its database is in the home.

    Args:
        meanwhile: Work that needs no server, done while one starts.
    """
    url = configured_server() or find_ui_server(default_home())
    server: Server | None = None
    with ExitStack() as stack:
        if url is None:
            url, server = stack.enter_context(_local_server(meanwhile))
        else:
            require_healthy(url)
            meanwhile()
        stack.enter_context(_use_server(url))
        stack.enter_context(_monitor_server(url, server))
        stack.callback(_send_logs)
        yield url


def _send_logs() -> None:
    """Sends the logs that Prefect's client still holds; after the server stopped it would try for minutes."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogHandler

    APILogHandler().flush()
    EventsWorker.drain_all(timeout=5)


def configured_server() -> str | None:
    """The address that the user set in the environment or in a Prefect profile."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    if not Path(os.environ["PREFECT_HOME"], "profiles.toml").is_file():
        return None
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or None


@contextmanager
def _use_server(url: str) -> Iterator[None]:
    """Points this process (by its settings) and its workers (by the environment) at a server."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with environment(PREFECT_API_URL=url), temporary_settings({PREFECT_API_URL: url}):
        yield


@contextmanager
def _local_server(meanwhile: Callable[[], None]) -> Iterator[tuple[str, Server]]:
    """Starts a Prefect server for the block; yields its address and the server."""
    home = Path(os.environ["PREFECT_HOME"])
    home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with ExitStack() as stack:
        # Two servers that create the same database at once fail.
        with server_start_lock(home):
            log, environment = home / "server.log", dict.fromkeys(UNUSED_SERVICES, "false")
            server = stack.enter_context(
                start_server("Prefect", prefect_command(port), f"{url}/health", log, environment)
            )
            meanwhile()
            server.wait_until_up()
        yield url, server


def server_start_lock(home: Path) -> FileLock:
    """A lock under which one command at a time starts a Prefect server on a home."""
    return FileLock(home / "start.lock", mode=0o600)


@contextmanager
def _monitor_server(url: str, own: Server | None) -> Iterator[None]:
    """Warns within seconds that the server stopped answering, and ends the command if it does not come back.

    Prefect's client would go on trying for many minutes. A server of our own whose process still runs is only slow and
    gets more time.
    """
    ended = threading.Event()

    def watch() -> None:
        answered, warned = time.monotonic(), False
        while not ended.wait(CHECK_SECONDS):
            if is_up(f"{url}/health"):
                answered, warned = time.monotonic(), False
                continue
            silent = time.monotonic() - answered
            alive = own is not None and own.process.poll() is None
            if silent > (BUSY_SECONDS if alive else GIVE_UP_SECONDS):
                request_interrupt()
                write_stderr(f"tdrop: {server_lost_message(url)}")
                os._exit(1)
            elif silent > WARN_SECONDS and not warned:
                warned = True
                write_stderr(f"tdrop: the Prefect server at {url} does not answer; waiting for it")

    threading.Thread(target=watch, name="tdrop-server-watch", daemon=True).start()
    try:
        yield
    except Exception as error:
        if not is_server_lost(error):
            raise
        raise Unavailable(server_lost_message(url)) from error
    finally:
        ended.set()


def is_server_lost(error: BaseException) -> bool:
    """Whether an error means that the Prefect server does not answer, or cannot reach its database."""
    # By name, because importing httpx takes time that a command without a server need not spend.
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("httpx")}
    status = getattr(getattr(error, "response", None), "status_code", 0)
    return "TransportError" in names or ("HTTPStatusError" in names and status >= 500)


def server_lost_message(url: str) -> str:
    """The message about a Prefect server that stopped answering."""
    return (
        f"the Prefect server at {url} stopped answering; finished steps are kept: run the same command again when it "
        "is back"
    )


def find_ui_server(home: Path) -> str | None:
    """The address of the Prefect server that `tdrop ui` runs on this home, if it answers.

    After a `tdrop ui` was killed, another home's server may answer at its address: only the lock tells.
    """
    try:
        url = (home / SERVER_NOTE).read_text(encoding="utf-8")
        with FileLock(home / UI_LOCK, blocking=False, mode=0o600):
            return None
    except Timeout:
        return url if is_up(f"{url}/health") else None
    except OSError:
        return None


def is_up(address: str) -> bool:
    """Whether a server answers at an address within a few seconds."""
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (OSError, ValueError):
        return False


def require_server() -> str:
    """The address of the configured Prefect server, which must answer."""
    url = configured_server()
    if not url:
        raise UsageError(
            "no Prefect server is configured; start one with `tdrop ui` and set PREFECT_API_URL as it says"
        )
    require_healthy(url)
    return url


def require_healthy(url: str) -> None:
    """Raises `Unavailable` if the Prefect server does not answer."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=10).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(
            f"the Prefect server at {url} does not answer ({reason}); start it or correct PREFECT_API_URL"
        ) from error


def prefect_command(port: int) -> list[str]:
    """The command that starts a Prefect server for this machine only."""
    return [
        *(sys.executable, "-m", "uvicorn", "--factory", "flows.closed_server:create_app"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"),
    ]


@dataclass(frozen=True)
class Server:
    """A started server: its process, the address of its health check, and its log."""

    name: str
    process: subprocess.Popen[bytes]
    health: str
    log: Path

    def require_running(self) -> None:
        """Raises if the server has stopped by itself."""
        if self.process.poll() is not None:
            raise TdropError(f"{self.name} stopped (exit code {self.process.returncode}); its log is {self.log}")

    def wait_until_up(self) -> None:
        """Waits until the server answers."""
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < deadline:
            self.require_running()
            if is_up(self.health):
                return
            time.sleep(0.1)
        raise TdropError(f"{self.name} did not answer within {START_LIMIT_SECONDS} s; its log is {self.log}")


@contextmanager
def start_server(
    name: str, command: Sequence[str], health: str, log: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    """Starts a server for the block, its output in `log`; does not wait until it answers."""
    with log.open("ab") as stream:
        # In its own session, so that Ctrl-C reaches only the command, which then stops the server.
        process = subprocess.Popen(
            list(command),
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )
    try:
        yield Server(name, process, health, log)
    finally:
        _stop(process)


def _end_with_parent() -> Callable[[], None] | None:
    """A hook by which Linux ends the server when its command is killed; None on other systems."""
    control = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    return None if control is None else lambda: control(PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and the processes that it started, which share its session."""
    for order in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, order)
        with suppress(subprocess.TimeoutExpired):
            process.wait(INTERRUPTED_STOP_LIMIT_SECONDS if interrupt_requested() else STOP_LIMIT_SECONDS)
            return


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int, name: str) -> None:
    """Raises if a port is taken."""
    with socket.socket() as probe:
        # Closed connections of a server that has just ended do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TdropError(
                f"port {port} for {name} is in use ({error.strerror}); stop what listens there or choose another port"
            ) from error
