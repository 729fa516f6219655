"""The Prefect server of a command: the one that is configured, the one of `tdrop ui`, or one of its own."""

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

from tdrop.base import TdropError, Unavailable, UsageError
from tdrop.home import PRIVATE, default_home, interrupt_requested, request_interrupt, write_private

START_LIMIT_SECONDS = 180
STOP_LIMIT_SECONDS = 8
#: The same after Ctrl-C, when a person waits.
HURRIED_SECONDS = 2
#: Linux's PR_SET_PDEATHSIG.
PARENT_DEATH_SIGNAL = 1
#: Below the home, while `tdrop ui` runs: the address of its Prefect server.
SERVER_NOTE = "prefect-server.url"
#: Below the home, held while `tdrop ui` runs.
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


#: How often a command asks whether its Prefect server still answers, and after how much silence it says so and ends.
ASK_SECONDS, SAY_SECONDS, GIVE_UP_SECONDS = 2.0, 6.0, 45.0
#: The same for a server of our own whose process is still there.
BUSY_SECONDS = 300.0


@contextmanager
def prefect_server(meanwhile: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Makes flow runs inside the block run on the Prefect server at hand; yields its address.

    The server is the one that is configured, the one that `tdrop ui` runs on this home, or one that starts now and
    stops with the block; its database lies below the home.

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
        stack.enter_context(_using(url))
        stack.enter_context(_watching_server(url, server))
        stack.callback(_send_logs)
        yield url


def _send_logs() -> None:
    """Sends what Prefect's client still holds, before a server of our own stops; it would try for minutes after."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogHandler

    APILogHandler().flush()
    EventsWorker.drain_all(timeout=5)


def configured_server() -> str | None:
    """The address that the user set: in the environment, or in a profile of Prefect's home."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    if not Path(os.environ["PREFECT_HOME"], "profiles.toml").is_file():
        return None
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() or None


@contextmanager
def _using(url: str) -> Iterator[None]:
    """Makes this process, by its settings, and its workers, by the environment, use a server."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    before = os.environ.get("PREFECT_API_URL")
    os.environ["PREFECT_API_URL"] = url
    try:
        with temporary_settings({PREFECT_API_URL: url}):
            yield
    finally:
        if before is None:
            os.environ.pop("PREFECT_API_URL", None)


@contextmanager
def _local_server(meanwhile: Callable[[], None]) -> Iterator[tuple[str, Server]]:
    """A Prefect server of our own for the block; yields its address and itself."""
    home = Path(os.environ["PREFECT_HOME"])
    home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    with ExitStack() as stack:
        # Servers that set up one new database at the same time get in each other's way.
        with server_start_lock(home):
            log, environment = home / "server.log", dict.fromkeys(UNUSED_SERVICES, "false")
            server = stack.enter_context(
                start_server("Prefect", prefect_command(port), f"{url}/health", log, environment)
            )
            meanwhile()
            server.wait_until_up()
        yield url, server


def server_start_lock(home: Path) -> FileLock:
    """Keeps other commands from starting a Prefect server on this home for the block."""
    return FileLock(home / "start.lock", mode=0o600)


@contextmanager
def _watching_server(url: str, own: Server | None) -> Iterator[None]:
    """Says within seconds that the server stopped answering, and ends the command when it stays away.

    Prefect's client would go on trying to reach it for many minutes. A server of our own whose process lives is only
    slow on a busy machine, and is given longer.
    """
    ended = threading.Event()

    def watch() -> None:
        answered, said = time.monotonic(), False
        while not ended.wait(ASK_SECONDS):
            if answers(f"{url}/health"):
                answered, said = time.monotonic(), False
                continue
            silent = time.monotonic() - answered
            alive = own is not None and own.process.poll() is None
            if silent > (BUSY_SECONDS if alive else GIVE_UP_SECONDS):
                request_interrupt()
                _write(f"tdrop: {server_lost_message(url)}")
                os._exit(1)
            elif silent > SAY_SECONDS and not said:
                said = True
                _write(f"tdrop: the Prefect server at {url} does not answer; waiting for it")

    threading.Thread(target=watch, name="tdrop-server-watch", daemon=True).start()
    try:
        yield
    except Exception as error:
        if not is_server_lost(error):
            raise
        raise Unavailable(server_lost_message(url)) from error
    finally:
        ended.set()


def _write(sentence: str) -> None:
    # Past the progress display, which may be in the middle of drawing.
    with suppress(OSError):
        os.write(2, f"{sentence}\n".encode())


def is_server_lost(error: BaseException) -> bool:
    """Whether an error means that a Prefect server does not answer, or no longer reaches its own database."""
    # By name: a command that never spoke to a server has not imported httpx.
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith("httpx")}
    status = getattr(getattr(error, "response", None), "status_code", 0)
    return "TransportError" in names or ("HTTPStatusError" in names and status >= 500)


def server_lost_message(url: str) -> str:
    """One sentence about a Prefect server that stopped answering."""
    return (
        f"the Prefect server at {url} stopped answering; finished steps are kept: run the same command again when it "
        "is back"
    )


@contextmanager
def publish_server_address(home: Path, url: str) -> Iterator[None]:
    """Tells other commands on this home where its Prefect server is, for the block."""
    note = home / SERVER_NOTE
    write_private(note, url)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def find_ui_server(home: Path) -> str | None:
    """The Prefect server that `tdrop ui` runs on this home, if it answers.

    At the address of a `tdrop ui` that was killed another home's may answer: its own holds the home's lock.
    """
    try:
        url = (home / SERVER_NOTE).read_text(encoding="utf-8")
        with FileLock(home / UI_LOCK, blocking=False, mode=0o600):
            return None
    except Timeout:
        return url if answers(f"{url}/health") else None
    except OSError:
        return None


def answers(address: str) -> bool:
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
    """Says in one sentence that a Prefect server does not answer."""
    try:
        urllib.request.urlopen(f"{url}/health", timeout=10).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(
            f"the Prefect server at {url} does not answer ({reason}); start it or correct PREFECT_API_URL"
        ) from error


def prefect_command(port: int) -> list[str]:
    """The command of a Prefect server on this machine alone."""
    return [
        *(sys.executable, "-m", "uvicorn", "--factory", "flows.closed_server:create_app"),
        *("--host", "127.0.0.1", "--port", str(port), "--log-level", "error", "--lifespan", "on"),
    ]


@dataclass(frozen=True)
class Server:
    """A server that was started: its process, where it answers when it is up, and its log."""

    name: str
    process: subprocess.Popen[bytes]
    health: str
    log: Path

    def require_running(self) -> None:
        """Raises when the server has stopped by itself."""
        if self.process.poll() is not None:
            raise TdropError(f"{self.name} stopped (exit code {self.process.returncode}); its log is {self.log}")

    def wait_until_up(self) -> None:
        """Returns when the server answers."""
        deadline = time.monotonic() + START_LIMIT_SECONDS
        while time.monotonic() < deadline:
            self.require_running()
            if answers(self.health):
                return
            time.sleep(0.1)
        raise TdropError(f"{self.name} did not answer within {START_LIMIT_SECONDS} s; its log is {self.log}")


@contextmanager
def start_server(
    name: str, command: Sequence[str], health: str, log: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    """Starts a server for the block, its output in `log`; it need not be up yet."""
    with log.open("ab") as stream:
        # A session of its own: Ctrl-C reaches the command, which then stops the server in order.
        process = subprocess.Popen(
            list(command),
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
            preexec_fn=_leaving_with_parent(),
        )
    try:
        yield Server(name, process, health, log)
    finally:
        _stop(process)


@contextmanager
def run_server(
    name: str, command: Sequence[str], health: str, log: Path, environment: Mapping[str, str]
) -> Iterator[Server]:
    """The same, with the server up."""
    with start_server(name, command, health, log, environment) as server:
        server.wait_until_up()
        yield server


def _leaving_with_parent() -> Callable[[], None] | None:
    """What makes Linux end a server whose command was killed; elsewhere None."""
    control = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    return None if control is None else lambda: control(PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server and the processes it started: they share its session."""
    for order in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, order)
        with suppress(subprocess.TimeoutExpired):
            process.wait(HURRIED_SECONDS if interrupt_requested() else STOP_LIMIT_SECONDS)
            return


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free_port(port: int, name: str) -> None:
    """Says in one sentence that a port is taken."""
    with socket.socket() as probe:
        # Connections of a server that ended a moment ago do not keep its port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise TdropError(
                f"port {port} for {name} is in use ({error.strerror}); stop what listens there or choose another port"
            ) from error
