"""Forty small sites in one flow: how much memory it takes, and what orchestration costs.

    python -m flows.benchmarks.network_memory --sites 40

Prints, after every site, the memory of this process and of its worker processes; at the end what a site spends on
each kind of work, and the time that was not fitting, sampling or bootstrap, on a running server.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tasks.report
import tdrop.home.store
import tdrop.report
import tdrop.runs.export
from flows.benchmarks.drawings import draw_memory
from flows.network import Failed, transfer_network
from flows.orchestration import orchestrated
from tdrop.data.demo import write_demo_network
from tdrop.home.place import Place
from tdrop.home.progress import Event, listen
from tdrop.runs.settings import TransferSettings

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
MEGABYTE = 1 << 20
#: Stages of the store that fit, sample or resample.
FITTING = ("held-out", "model", "fit", "fold", "evaluation")


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
    ends: list[float] = []
    started = time.monotonic()

    def watch(event: Event) -> None:
        if event.stage == "record":
            own, workers = _memory(os.getpid()), sum(_memory(pid) for pid in _children(os.getpid()))
            curve.append((own, workers))
            ends.append(time.monotonic())
            print(
                f"{len(curve):3d} {event.site}: {time.monotonic() - started:6.0f} s, "
                f"{own:5.0f} MB here, {workers:5.0f} MB in workers",
                flush=True,
            )

    listen(watch)
    with orchestrated(), _work_measured() as spans:
        results = transfer_network(sites, settings, place.contracts, place.home, processes)
    failed = [site for site, result in results.items() if isinstance(result, Failed)]
    _print_overhead(spans, ends, len(METHOD_SETTINGS))
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


@dataclass(frozen=True)
class Span:
    """When one piece of work ran, on the monotonic clock."""

    kind: str
    start: float
    end: float


@contextmanager
def _work_measured() -> Iterator[list[Span]]:
    """Collects when work ran: whatever the store builds, by stage, the drawing and the export."""
    spans: list[Span] = []

    def timed(kind: str, function: Any) -> Any:
        def run(*given: Any, **named: Any) -> Any:
            start = time.monotonic()
            try:
                return function(*given, **named)
            finally:
                spans.append(Span(kind, start, time.monotonic()))

        return run

    make = tdrop.home.store.Store.make
    replaced: list[tuple[Any, str, Any]] = [
        (
            tdrop.home.store.Store,
            "make",
            lambda self, stage, inputs, build: make(self, stage, inputs, timed(stage, build)),
        ),
        (tasks.report, "assemble", timed("assemble", tasks.report.assemble)),
        (tdrop.runs.export, "site_record", timed("export", tdrop.runs.export.site_record)),
        (tdrop.report, "render_report", timed("report", tdrop.report.render_report)),
    ]
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, replacement)
        yield spans


def _print_overhead(spans: list[Span], ends: list[float], methods: int) -> None:
    """Prints the time by kind of work and outside it; the first site is left out, which pays for the imports."""
    sites = list(itertools.pairwise(ends))
    if not sites:
        return
    for kind in dict.fromkeys(span.kind for span in spans):
        own = [span for span in spans if span.kind == kind]
        print(f"{kind}: median {statistics.median(_busy(own, *site) for site in sites):.2f} s a site")
    fitting = [span for span in spans if span.kind in FITTING]
    for title, work in (("outside fitting, sampling and bootstrap", fitting), ("outside all work", spans)):
        outside = [end - start - _busy(work, start, end) for start, end in sites]
        print(
            f"{title}: median {statistics.median(outside):.2f} s a site, least {min(outside):.2f} s, "
            f"for {methods} methods; at most {2 + methods / 2:.1f} s are allowed"
        )


def _busy(spans: list[Span], start: float, end: float) -> float:
    """Seconds between start and end during which at least one span ran."""
    busy, reached = 0.0, start
    for span in sorted(spans, key=lambda span: span.start):
        busy += max(0.0, min(span.end, end) - max(span.start, reached))
        reached = max(reached, min(span.end, end))
    return busy


def _memory(pid: int) -> float:
    """Resident megabytes of a process; 0 when it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


if __name__ == "__main__":
    main()
