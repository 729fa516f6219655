"""`tdrop benchmark NAME`: the paper's experiments and their extensions, each a flow that resumes where it stopped."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from flows.benchmarks.extracts import require_extra
from flows.benchmarks.results import Results, Scale, write_results
from flows.console import watching
from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.artifacts import leave
from tasks.place import Place
from tasks.pool import worker_processes
from tasks.recording import record_benchmark
from tasks.step import run_logger
from tdrop.errors import TdropError, UsageError, did_you_mean

#: Benchmarks whose module has `run(place, scale) -> Results`, by name: module and what it measures.
BENCHMARKS = {
    "toy": "the paper's 1-d regression",
    "uci": "the paper's appendix: breast cancer, iris, wine",
    "prostate": "the paper's Table 1 at its sizes, on simulated cohorts",
    "prostate_hard": "simulated cohorts that are hard: truncated, small, hidden treatment",
    "breast": "Rotterdam to GBSG, real patients",
    "support": "SUPPORT's sepsis patients to four other groups, real patients",
    "extrapolation": "label noise against shift, simulated",
    "lambda_rule": "how to choose lambda, on source patients",
    "speed": "how fast a step and a prediction are",
    "settle": "which defaults every method should have, on source patients",
    "transductive": "ensemble against transductive ensemble, real pairs and simulated families, every rule for lambda",
}
#: Measurements with a plain `run(output, *, quick)` of their own.
SCRIPTS = {
    "choosing": "what choosing without target labels costs",
    "forecast": "how good forecasts without target labels are, and what labels buy",
}
#: Those that read the optional package.
NEED_EXTRA = ("breast", "support", "lambda_rule", "settle", "transductive")
CONTRACTS = Path(__file__).with_name("data_contracts").resolve() / "benchmarks"


def names() -> tuple[str, ...]:
    """The benchmarks that can be run."""
    scripts = [name for name in SCRIPTS if find_spec(f"flows.benchmarks.{name}") is not None]
    return (*BENCHMARKS, *scripts)


def run_benchmark(
    name: str,
    *,
    quick: bool = False,
    seeds: int | None = None,
    splits: int | None = None,
    output: Path | None = None,
    processes: int | None = None,
    console: Printer,
) -> Path:
    """Runs a benchmark, writes its tables and figures and returns their folder."""
    if name not in names():
        raise UsageError(f"there is no benchmark '{name}'{did_you_mean(name, names())}")
    if name in NEED_EXTRA:
        require_extra(name)
    place = Place.at(contracts=CONTRACTS)
    folder = (output or place.root / "benchmarks" / name).absolute()
    started = time.monotonic()
    if name in SCRIPTS:
        _run_script(name, folder, quick)
    else:
        with watching((name,), console.progress), orchestrated():
            page = benchmark(name, quick, seeds, splits, str(folder), place.home, processes)
        console.print(page, markup=False)
    console.print(f"{name}: {folder} ({time.monotonic() - started:.0f} s)")
    return folder


def _run_script(name: str, folder: Path, quick: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    import_module(f"flows.benchmarks.{name}").run(folder, quick=quick)


@recipe("benchmark", "benchmark {name}")
def benchmark(
    name: str,
    quick: bool = False,
    seeds: int | None = None,
    splits: int | None = None,
    output: str | None = None,
    home: str | None = None,
    processes: int | None = None,
) -> str:
    """Measures, writes tables and figures, and records them; returns the page of results.

    Args:
        name: One of `BENCHMARKS`.
        quick: The smallest form that goes through every step.
        seeds: Draws or refits; default the benchmark's own number.
        splits: Train/test splits where it has them; default its own number.
        output: Where tables and figures go.
        home: Where finished units are kept; default `$TDROP_HOME`.
        processes: Worker processes; default one a core, 0 works in place.
    """
    place = Place.at(home, CONTRACTS)
    folder = Path(output) if output else place.root / "benchmarks" / name
    with worker_processes(processes):
        results = _measure(name, place, Scale(quick, seeds, splits))
    write_results(results, folder)
    leave(name, "results", results.markdown())
    _record(place, name, quick, results, folder)
    return results.markdown()


def _measure(name: str, place: Place, scale: Scale) -> Results:
    if name not in BENCHMARKS:
        raise UsageError(f"there is no benchmark '{name}'{did_you_mean(name, BENCHMARKS)}")
    module: Any = import_module(f"flows.benchmarks.{name}")
    results: Results = module.run(place, scale)
    return results


def _record(place: Place, name: str, quick: bool, results: Results, folder: Path) -> None:
    """Records the run in MLflow; a record that fails costs nothing but itself."""
    params = {"quick": quick, **results.params}
    try:
        record_benchmark(place, name, params, results.metrics, str(folder))
    except TdropError as error:
        run_logger().warning("benchmark %s was not recorded: %s", name, error)
    except Exception as error:  # whatever MLflow says, the results are on disk
        run_logger().warning("benchmark %s was not recorded in MLflow (%s)", name, type(error).__name__)
