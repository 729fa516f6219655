"""Takes the README's picture from the demo's report: `python docs/draw_picture.py` after `tdrop demo`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURES = Path(__file__).resolve().parent / "pictures"
SITE = "harbour"


def draw_picture(home: Path) -> None:
    """Writes the report's first screen as a small PNG file."""
    report = home / "sites" / SITE / "latest" / "report.html"
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 720})
        page.goto(report.resolve().as_uri())
        page.screenshot(path=PICTURES / "report.png")
        browser.close()


if __name__ == "__main__":
    draw_picture(Path(os.environ.get("TDROP_HOME", ".tdrop")))
