"""Writes the tables of metrics in docs/EVALUATION.md from their entries: python docs/write_metrics.py"""

from __future__ import annotations

from pathlib import Path

from tdrop.metrics import METRICS

PAGE = Path(__file__).with_name("EVALUATION.md")
HEAD = "| metric | definition |\n|---|---|\n"


def metric_lines(*, outcomes: bool) -> str:
    """One line per definition; metrics with the same definition share it."""
    names: dict[str, list[str]] = {}
    for name, metric in METRICS.items():
        if (metric.needs != "patients") == outcomes:
            names.setdefault(metric.definition, []).append(name)
    return "".join(f"| {', '.join(those)} | {definition} |\n" for definition, those in names.items())


def written(page: str) -> str:
    """Returns the page with both tables as the entries have them."""
    for outcomes, heading in ((False, "## What needs no outcome"), (True, "## What needs outcomes")):
        before, heading, rest = page.partition(heading)
        introduction, head, table = rest.partition(HEAD)
        after = table[table.index("\n\n") + 1 :]
        page = before + heading + introduction + head + metric_lines(outcomes=outcomes) + after
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
