"""Forty small sites in one flow: how much memory it takes, and what orchestration costs."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flows.benchmarks import CONTRACTS
from flows.benchmarks.drawings import draw_memory
from flows.benchmarks.results import Results, Scale, Table
from flows.network import transfer_network
from flows.recipe import Failed
from tdrop.base import TdropError
from tdrop.data import write_demo_network
from tdrop.home import Event, Place, busy_seconds, listen, reset_spans
from tdrop.methods import method_names
from tdrop.runs import TransferSettings

SITES = 40
ROWS = {"registry": 300, "harbour": 150}
SMALL: Mapping[str, Any] = {"hidden": [8], "steps": 12, "batch": 128}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(method_names(), SMALL),
    "ensemble": {**SMALL, "members": 2},
    "transductive_ensemble": {**SMALL, "members": 2},
    "logistic_regression": {"refits": 5},
    "gradient_boosting": {"refits": 2},
}


def run(place: Place, scale: Scale) -> Results:
    """Transfers to one simulated hospital under many names, in a home of their own; `seeds` is how many refits."""
    settings = TransferSettings(
        method_settings={name: dict(own) for name, own in SETTINGS.items()},
        seeds=scale.seeds_or(3),
        trials=1,
        passes=10,
        folds=2,
        bootstrap=50,
    )
    curve: list[tuple[float, float]] = []

    def watch(event: Event) -> None:
        if event.stage == "record":
            curve.append((_memory(os.getpid()), sum(map(_memory, _started_by(os.getpid())))))

    with tempfile.TemporaryDirectory(prefix="memory-", dir=place.root) as folder:
        own, sites = _write_sites(Path(folder), 2 if scale.quick else SITES)
        listen(watch)
        reset_spans()
        started = time.monotonic()
        found = transfer_network(sites, settings, own.contracts, own.home)
        outside = (time.monotonic() - started - busy_seconds()) / len(sites)
    failed = {site: result.sentence for site, result in found.items() if isinstance(result, Failed)}
    if failed:
        raise TdropError(f"{len(failed)} of {len(sites)} sites failed, the first with: {next(iter(failed.values()))}")
    caption = (
        "Memory after each site of simulated patients, what processes share counted in equal parts (MB); "
        f"{outside:.2f} s a site outside fitting, sampling, comparing and evaluating."
    )
    rows = [
        {"sites": number, "flow_mb": round(flow), "other_processes_mb": round(others)}
        for number, (flow, others) in enumerate(curve, start=1)
    ]
    return Results(
        title="Many sites in one flow (simulated)",
        about=f"{len(sites)} simulated sites x {len(SETTINGS)} methods x {settings.seeds} seeds of small fits.",
        tables=[Table("network_memory", caption, rows)],
        figures={"network_memory": draw_memory(curve)},
        metrics={"seconds_outside_a_site": outside, "growth_mb": curve[-1][0] - curve[len(curve) // 2][0]},
        params={"sites": len(sites), "seeds": settings.seeds},
    )


def _write_sites(folder: Path, count: int) -> tuple[Place, list[str]]:
    """The demo network with one of its sites under many names."""
    contracts = folder / "data_contracts"
    shutil.copytree(CONTRACTS.parent, contracts)
    place = Place.at(folder / "home", contracts)
    demo = place.root / "demo"
    write_demo_network(demo, ROWS)
    template = (contracts / "sites" / "harbour.yaml").read_text(encoding="utf-8")
    sites = [f"site-{number:02d}" for number in range(1, count + 1)]
    for site in sites:
        (contracts / "sites" / f"{site}.yaml").write_text(template.replace("/harbour", f"/{site}"), encoding="utf-8")
        for name in ("harbour.csv", "harbour_outcomes.csv"):
            shutil.copyfile(demo / name, demo / name.replace("harbour", site))
    return place, sites


def _memory(pid: int) -> float:
    """Megabytes of a process, what it shares with others in equal parts; 0 when it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return int(text.split("Pss:")[1].split()[0]) / 1024


def _started_by(pid: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for file in files for child in file.read_text().split()]
    return children + [each for child in children for each in _started_by(child)]
