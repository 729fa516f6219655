"""`tdrop benchmark NAME`: the paper's experiments and their extensions, each a flow that resumes where it stopped."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

from flows.benchmarks import BENCHMARKS, CONTRACTS
from flows.benchmarks.extracts import require_extra
from flows.benchmarks.results import Results, Scale, write_results
from flows.console import watching
from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.artifacts import leave
from tasks.recording import record_benchmark
from tasks.step import run_logger
from tdrop.base import TdropError, UsageError, did_you_mean
from tdrop.home import Place, make_folder, worker_processes


def run_benchmark(
    name: str,
    *,
    quick: bool = False,
    seeds: int | None = None,
    output: Path | None = None,
    processes: int | None = None,
    console: Printer,
) -> Path:
    """Runs a benchmark, writes its tables and figures and returns their folder."""
    _require(name)
    place = Place.at(contracts=CONTRACTS)
    folder = (output or place.root / "benchmarks" / name).absolute()
    make_folder(folder)
    started = time.monotonic()
    with watching((name,), console.progress), orchestrated():
        page = benchmark(name, quick, seeds, str(folder), place.home, processes)
    console.print(page, markup=False)
    console.print(f"{name}: {folder} ({time.monotonic() - started:.0f} s)")
    return folder


def _require(name: str) -> None:
    """Refuses a name that is none, and one whose patients are not there, before anything is started."""
    if name not in BENCHMARKS:
        raise UsageError(f"there is no benchmark '{name}'{did_you_mean(name, BENCHMARKS)}")
    if BENCHMARKS[name].needs_extra:
        require_extra(name)


@recipe("benchmark", "benchmark {name}")
def benchmark(
    name: str,
    quick: bool = False,
    seeds: int | None = None,
    output: str | None = None,
    home: str | None = None,
    processes: int | None = None,
) -> str:
    """Measures, writes tables and figures, and records them; returns the page of results.

    Args:
        name: One of `flows.benchmarks.BENCHMARKS`.
        quick: The smallest form that goes through every step.
        seeds: Draws, splits or refits; default the benchmark's own number.
        output: Where tables and figures go.
        home: Where finished units are kept; default `$TDROP_HOME`.
        processes: Worker processes; default one a core, 0 works in place.
    """
    _require(name)
    place = Place.at(home, CONTRACTS)
    folder = Path(output) if output else place.root / "benchmarks" / name
    with worker_processes(processes):
        results: Results = import_module(f"flows.benchmarks.{name}").run(place, Scale(quick, seeds))
    write_results(results, folder)
    leave(name, "results", results.markdown())
    _record(place, name, quick, results, folder)
    return results.markdown()


def _record(place: Place, name: str, quick: bool, results: Results, folder: Path) -> None:
    """Records the run in MLflow; a record that fails costs nothing but itself."""
    params = {"quick": quick, **results.params}
    try:
        record_benchmark(place, name, params, results.metrics, str(folder))
    except TdropError as error:
        run_logger().warning("benchmark %s was not recorded: %s", name, error)
    except Exception as error:  # whatever MLflow says, the results are on disk
        run_logger().warning("benchmark %s was not recorded in MLflow (%s)", name, type(error).__name__)
