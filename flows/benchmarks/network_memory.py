"""Forty small sites in one flow: how much memory it takes, and what orchestration costs.

    python -m flows.benchmarks.network_memory --sites 40

Prints, after every site, the memory of this process and of those it started; at the end the time a site spent outside
fitting, sampling, comparing and evaluating.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.benchmarks.drawings import draw_memory
from flows.network import transfer_network
from flows.orchestration import orchestrated
from flows.recipe import Failed
from tdrop.data import write_demo_network
from tdrop.home import Event, Place, busy_seconds, listen, reset_spans
from tdrop.runs import TransferSettings

CONTRACTS = Path(__file__).parents[1].joinpath("data_contracts").resolve()
ROWS = {"registry": 300, "harbour": 150, "hillside": 130, "lakeside": 120}
SMALL_NET: dict[str, Any] = {"hidden": [8], "steps": 12, "batch": 128}
METHOD_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("mlp", "mc_dropout", "concrete_dropout", "mixmatch", "last_layer", "tdnr"), SMALL_NET),
    "transductive_dropout": SMALL_NET,
    "ensemble": {**SMALL_NET, "members": 2},
    "logistic_regression": {"refits": 5},
    "gradient_boosting": {"refits": 2},
}


def main() -> None:
    """Runs the network and prints the curve and the overhead."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=None)
    parser.add_argument("--output", type=Path, help="also write the curve as CSV and SVG into this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tdrop-memory-") as folder:
        os.environ["TDROP_HOME"] = str(Path(folder, "home"))
        os.environ["PREFECT_HOME"] = str(Path(folder, "prefect"))
        os.environ.setdefault("PREFECT_LOGGING_LEVEL", "ERROR")
        place, sites = _write_sites(Path(folder), options.sites)
        curve = _run(place, sites, options.seeds, options.processes)
    if options.output is not None:
        write_curve(curve, options.output)


def _write_sites(folder: Path, count: int) -> tuple[Place, list[str]]:
    """The demo network with one of its sites under many names."""
    contracts = folder / "data_contracts"
    shutil.copytree(CONTRACTS, contracts)
    place = Place.at(folder / "home", contracts)
    write_demo_network(place.root / "demo", ROWS)
    template = (contracts / "sites" / "harbour.yaml").read_text(encoding="utf-8")
    sites = [f"site-{number:02d}" for number in range(1, count + 1)]
    for site in sites:
        (contracts / "sites" / f"{site}.yaml").write_text(template.replace("/harbour", f"/{site}"), encoding="utf-8")
        for name in ("harbour.csv", "harbour_outcomes.csv"):
            demo = place.root / "demo"
            shutil.copyfile(demo / name, demo / name.replace("harbour", site))
    return place, sites


def _run(place: Place, sites: list[str], seeds: int, processes: int | None) -> list[tuple[float, float]]:
    settings = TransferSettings(
        method_settings=METHOD_SETTINGS, seeds=seeds, trials=1, passes=10, folds=2, bootstrap=50
    )
    curve: list[tuple[float, float]] = []
    started = time.monotonic()

    def watch(event: Event) -> None:
        if event.stage == "record":
            own, workers = _memory(os.getpid()), sum(map(_memory, _started_by(os.getpid())))
            curve.append((own, workers))
            print(
                f"{len(curve):3d} {event.site}: {time.monotonic() - started:6.0f} s, "
                f"{own:5.0f} MB here, {workers:5.0f} MB in workers",
                flush=True,
            )

    listen(watch)
    with orchestrated():
        reset_spans()
        results = transfer_network(sites, settings, place.contracts, place.home, processes)
    failed = [site for site, result in results.items() if isinstance(result, Failed)]
    outside = (time.monotonic() - started - busy_seconds()) / len(sites)
    print(f"{outside:.2f} s a site outside fitting, sampling, comparing and evaluating, {len(METHOD_SETTINGS)} methods")
    middle = curve[len(curve) // 2][0] if curve else 0.0
    print(json.dumps({"sites": len(sites), "failed": failed, "growth_mb_second_half": round(curve[-1][0] - middle, 1)}))
    return curve


def write_curve(curve: Sequence[tuple[float, float]], folder: Path) -> None:
    """Writes the memory after every site, of the flow and of the processes it started, as a table and a figure."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "sites,flow_mb,other_processes_mb",
        *(f"{n},{own:.0f},{rest:.0f}" for n, (own, rest) in enumerate(curve, 1)),
    ]
    (folder / "network_memory.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "network_memory.svg").write_text(draw_memory(curve), encoding="utf-8")


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


if __name__ == "__main__":
    main()
