"""`tdrop ui`: both pages answer, say where they are, ask nobody else, and leave no process behind."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from command import tdrop
from waiting import LIMIT_SECONDS, is_gone, wait_until

from flows.orchestration import (
    SERVER_NOTE,
    UI_LOCK,
    find_ui_server,
    free_port,
    is_up,
    prefect_server,
    require_free_port,
    start_server,
)
from tdrop.base import TdropError, Unavailable
from tdrop.home import write_private

CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
#: Pages by server, as a person walks through them.
PAGES = {
    "prefect": ("/", "/dashboard", "/runs", "/deployments", "/flows", "/blocks", "/settings"),
    "mlflow": ("/", "/#/experiments/0/runs?workflowType=machine_learning", "/#/models", "/#/settings"),
}


@dataclass(frozen=True)
class Served:
    """A running `tdrop ui`: its process, the folder it runs in, what it said, and the address of each server."""

    process: subprocess.Popen[str]
    folder: Path
    said: str
    addresses: dict[str, str]

    @property
    def home(self) -> Path:
        return self.folder / "home"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("served")
    ports = {"prefect": free_port(), "mlflow": free_port()}
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    environment = {**ours, "TDROP_HOME": str(folder / "home"), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}
    command = [str(Path(sys.executable).with_name("tdrop")), "ui"]
    command += [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        said = read_until(process, "Ctrl-C stops both")
        yield Served(process, folder, said, {name: f"http://127.0.0.1:{port}" for name, port in ports.items()})
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(LIMIT_SECONDS)


def test_both_pages_answer_and_are_closed_to_others(served):
    prefect, mlflow = served.addresses.values()
    assert f"export PREFECT_API_URL={prefect}/api" in served.said
    assert "<html" in fetch(f"{prefect}/").lower()
    assert "mlflow" in fetch(f"{mlflow}/").lower()
    wait_until(lambda: find_ui_server(served.home) == f"{prefect}/api")
    assert_closed("POST", f"{prefect}/api/flows/", {"name": "planted"})
    assert_closed("POST", f"{mlflow}/api/2.0/mlflow/experiments/create", {"name": "planted"})
    assert_closed("PUT", f"{mlflow}/api/2.0/mlflow-artifacts/artifacts/planted.json", {"a": "b"})


def test_a_second_one_on_the_same_home_is_told_where_the_first_is(served, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", str(served.home))
    addresses = "Prefect {prefect}, MLflow {mlflow}".format(**served.addresses)
    with pytest.raises(TdropError, match=f"`tdrop ui` is running on {served.home} already: {addresses}"):
        tdrop("ui", "--prefect-port", free_port(), "--mlflow-port", free_port())
    assert find_ui_server(served.home) is not None, "the second took the first one's note away"


def test_the_note_of_a_killed_one_leads_nowhere_although_another_answers_there(served, tmp_path):
    write_private(tmp_path / SERVER_NOTE, f"{served.addresses['prefect']}/api")
    assert is_up(f"{served.addresses['prefect']}/api/health")
    assert find_ui_server(tmp_path) is None
    (tmp_path / UI_LOCK).touch()
    assert find_ui_server(tmp_path) is None


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium (apt install chromium) to open pages")
def test_no_page_asks_a_foreign_host(served):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=LIMIT_SECONDS * 1000)
        for server, paths in PAGES.items():
            requests: list[str] = []
            context = browser.new_context()
            context.on("request", lambda request, requests=requests: requests.append(request.url))
            page = context.new_page()
            page.set_default_timeout(LIMIT_SECONDS * 1000)
            page.on("websocket", lambda socket, requests=requests: requests.append(socket.url))
            for path in paths:
                page.goto(f"{served.addresses[server]}{path}")
                page.wait_for_function("document.body.innerText.trim().length > 0")
                # MLflow's page never stops asking its own server; what a page asks of others, it asks as it opens.
                page.wait_for_timeout(1500)
            context.close()
            asked = [url for url in requests if urlsplit(url).scheme in {"http", "https", "ws", "wss"}]
            assert len(asked) > len(paths)
            own = urlsplit(served.addresses[server]).netloc
            assert [url for url in asked if urlsplit(url).netloc != own] == []
        browser.close()


def test_ctrl_c_stops_both_and_leaves_nothing_beside_the_home(served):
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(LIMIT_SECONDS) == 0
    assert not is_up(f"{served.addresses['prefect']}/api/health")
    assert not is_up(f"{served.addresses['mlflow']}/health")
    assert find_ui_server(served.home) is None
    assert {file.name for file in (served.home / "logs").iterdir()} == {"prefect.log", "mlflow.log"}
    assert {file.name for file in served.folder.iterdir()} == {"home"}, "something was written beside the home"


def assert_closed(method: str, address: str, wanted: dict[str, str]) -> None:
    """Something is made for the server's own page, and for no other page or host name."""
    own = address.split("/api")[0]
    origins = ("https://evil.example", "null", "http://127.0.0.1:8080", "http://localhost:3000", "https://localhost")
    for foreign in (*({"Origin": origin} for origin in origins), {"Host": "evil.example"}):
        refused = httpx.request(method, address, json=wanted, headers=foreign, timeout=LIMIT_SECONDS)
        assert refused.status_code in {400, 403}, (address, foreign)
        assert "access-control-allow-origin" not in refused.headers
    made = httpx.request(method, address, json=wanted, headers={"Origin": own}, timeout=LIMIT_SECONDS)
    assert made.is_success, address


def read_until(process: subprocess.Popen[str], words: str) -> str:
    said = io.StringIO()
    for line in process.stdout:
        said.write(line)
        if words in line:
            return said.getvalue()
    raise AssertionError(said.getvalue())


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=LIMIT_SECONDS) as answer:
        return str(answer.read().decode())


def test_a_port_in_use_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", str(tmp_path / "home"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TdropError, match=f"^port {port} for Prefect is in use"):
            tdrop("ui", "--prefect-port", port, "--mlflow-port", free_port())


def test_a_port_is_free_as_soon_as_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        # Who closes first is the one whose end of the connection lingers.
        server.accept()[0].close()
        client.close()
    require_free_port(port, "Prefect")


def test_a_server_dies_with_the_command_that_started_it(tmp_path):
    program = (
        "import subprocess, sys, time\nfrom pathlib import Path\nfrom flows.orchestration import start_server\n"
        "with start_server('sleep', ['sleep', '3600'], '', Path(sys.argv[1]), {}) as server:\n"
        "    print(server.process.pid, flush=True)\n    time.sleep(3600)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "log")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_until(lambda: is_gone(child))


def test_a_server_that_stops_while_starting_is_one_sentence(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit(3)"]
    with (
        pytest.raises(TdropError, match=r"Prefect stopped \(exit code 3\); its log is"),
        start_server("Prefect", command, "http://127.0.0.1:9", tmp_path / "log", {}) as server,
    ):
        server.wait_until_up()


def test_a_configured_server_that_is_down_is_one_sentence(monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9/api does not answer"), prefect_server():
        pass
