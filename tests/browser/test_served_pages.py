"""The pages that `tdrop ui` opens, in a real browser: they ask nobody but the two servers of this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from waiting import LIMIT_SECONDS

from flows.orchestration import free_port

CHROMIUM = shutil.which("chromium")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
#: Pages by server, as a person walks through them.
PAGES = {
    "prefect": ("/", "/dashboard", "/runs", "/deployments", "/flows", "/blocks", "/settings"),
    "mlflow": ("/", "/#/experiments/0/runs?workflowType=machine_learning", "/#/models", "/#/settings"),
}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium (apt install chromium) to open pages")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    """Runs `tdrop ui`; yields the addresses by server."""
    folder = tmp_path_factory.mktemp("served")
    ports = {"prefect": free_port(), "mlflow": free_port()}
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    command = [str(Path(sys.executable).with_name("tdrop")), "ui"]
    command += [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**ours, "TDROP_HOME": str(folder / "home"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert any("Ctrl-C stops both" in line for line in process.stdout)
        yield {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS), timeout=LIMIT_SECONDS * 1000)
        yield opened
        opened.close()


@pytest.mark.parametrize("server", PAGES)
def test_no_page_asks_a_foreign_host(server: str, served: dict[str, str], browser: Any) -> None:
    requests: list[str] = []
    context = browser.new_context()
    context.on("request", lambda request: requests.append(request.url))
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.on("websocket", lambda socket: requests.append(socket.url))
    for path in PAGES[server]:
        page.goto(f"{served[server]}{path}")
        page.wait_for_function("document.body.innerText.trim().length > 0")
        # MLflow's page never stops asking its own server; what a page asks of others, it asks as it opens.
        page.wait_for_timeout(1500)
    context.close()
    own = {urlsplit(served[server]).netloc}
    asked = [url for url in requests if urlsplit(url).scheme in {"http", "https", "ws", "wss"}]
    assert len(asked) > len(PAGES[server])
    assert [url for url in asked if urlsplit(url).netloc not in own] == []
