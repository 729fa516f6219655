"""Takes the pictures of README and docs from the demo's results: `python docs/draw_picture.py` after `tdrop demo`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from flows.orchestration import START_LIMIT_SECONDS, free_port, is_up
from tasks.recording import view_address, view_key
from tasks.tracking import EXPERIMENTS, connect
from tdrop.home.workspace import Workspace

PICTURES = Path(__file__).resolve().parent / "pictures"
#: Whose report and whose methods.
SITE = "hillside"
COLOURS = 96
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")


def draw_report(browser: Browser, workspace: Workspace) -> None:
    """The report's first screen."""
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto((workspace.latest(SITE) / "report.html").resolve().as_uri())
    _keep(page, "report.png")


def draw_servers(browser: Browser, workspace: Workspace) -> None:
    """The site's methods in MLflow as charts, and the flow runs in Prefect."""
    experiment = connect(workspace).search_experiments(filter_string=EXPERIMENTS)[0].experiment_id
    ports = {"--prefect-port": free_port(), "--mlflow-port": free_port()}
    options = [str(word) for pair in ports.items() for word in pair]
    pages = subprocess.Popen([str(Path(sys.executable).with_name("tdrop")), "ui", *options], start_new_session=True)
    prefect, mlflow = (f"http://127.0.0.1:{port}" for port in ports.values())
    try:
        for _ in range(START_LIMIT_SECONDS):
            if is_up(f"{mlflow}/health") and is_up(f"{prefect}/api/health"):
                break
            time.sleep(1)
        page = browser.new_page(viewport={"width": 1500, "height": 860})
        page.goto(view_address(mlflow, experiment, view_key(SITE)) + "&compareRunsMode=CHART")
        page.get_by_text("transductive_dropout").first.wait_for(timeout=1000 * START_LIMIT_SECONDS)
        for close in page.get_by_role("button", name=re.compile("close", re.IGNORECASE)).all():
            # MLflow's assistant and its remark about saved views take room from the charts.
            if close.is_visible():
                close.click()
        page.wait_for_timeout(5000)
        _keep(page, "comparison.png")
        page = browser.new_page(viewport={"width": 1300, "height": 860}, color_scheme="light")
        page.goto(f"{prefect}/runs")
        page.get_by_text(f"transfer {SITE}").first.wait_for(timeout=1000 * START_LIMIT_SECONDS)
        page.wait_for_timeout(2000)
        _keep(page, "prefect.png")
    finally:
        os.killpg(pages.pid, signal.SIGINT)
        pages.wait()


def _keep(page: Page, name: str) -> None:
    """Writes what the page shows with few colours: a third of the bytes, and nobody sees it."""
    file = PICTURES / name
    page.screenshot(path=file)
    Image.open(file).convert("RGB").quantize(COLOURS).save(file, optimize=True)
    file.chmod(0o644)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        draw_report(started, Workspace.at())
        draw_servers(started, Workspace.at())
        started.close()
