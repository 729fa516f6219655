"""How fast the methods train and predict, and memory: one thread, ratios within one run.

Times are the thread's own processor time, the best of several repeats, so that other work on the machine disturbs
less, and competitors take turns. Bars are on ratios; seconds are shown beside them and mean nothing on another machine.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options
from tdrop.base import Cohort, UsageError, did_you_mean
from tdrop.methods import build, method_names

#: Features of the simulated patients, and samples behind their summaries.
FEATURES, PASSES = 10, 100
#: Patients of the paper's source.
SOURCE_ROWS = 240_486


def measure(what: str, value: float, unit: str, limit: float | None = None) -> Row:
    """One figure and the limit it must keep; without a limit it is only shown."""
    bar, met = "", ""
    if limit is not None:
        bar, met = f"at most {limit:g}", "yes" if value <= limit else "NO"
    return {"what": what, "value": Estimate(value), "unit": unit, "bar": bar, "met": met}


def run(options: Options) -> Results:
    """Measures every part, or those in `only`; nothing is kept, since each run is about this machine now."""
    quick = options.quick
    parts: Mapping[str, Callable[[], list[Row]]] = {
        "methods": lambda: measure_methods(repeats=1 if quick else 3, rows=500 if quick else 5_000),
        "memory": lambda: measure_memory(*((4_000, 20) if quick else (SOURCE_ROWS, 200))),
    }
    for name in options.only:
        if name not in parts:
            raise UsageError(f"there is no part '{name}' of speed{did_you_mean(name, parts)}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        rows = [row for name in options.only or parts for row in parts[name]()]
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
    return Results(
        title="How fast the methods train and predict",
        about="One thread, its own processor time, the best of several repeats; seconds mean nothing elsewhere.",
        tables=[Table("speed", "Every figure and the bar that it is held against.", rows)],
    )


def measure_memory(rows: int, passes: int, names: Sequence[str] = ("transductive_dropout", "last_layer")) -> list[Row]:
    """Extra memory at the peak of a summary, in a process of its own."""
    rows_of_table: list[Row] = []
    for name in names:
        megabytes, seconds = run_apart(_MEMORY.format(name=name, rows=rows, passes=passes))
        what = f"summarise {rows:,} x {passes}, {name}"
        rows_of_table += [measure(what, megabytes, "MB extra", 300.0), measure(what, seconds, "s")]
    return rows_of_table


_MEMORY = """
import time
from benchmarks.speed import example_cohort, peak_megabytes
from tdrop.methods import build
source, rows = example_cohort(2_000), example_cohort({rows}, seed=2).X
fitted = build("{name}", steps=10).fit(source, source.unlabelled(), seed=0)
fitted.summarise(source.X, 10, seed=0)
before, start = peak_megabytes(reset=True), time.thread_time()
fitted.summarise(rows, {passes}, seed=0)
print(peak_megabytes() - before, time.thread_time() - start)
"""


def run_apart(code: str) -> list[float]:
    """The numbers that Python code prints in a process of its own."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    return [float(word) for word in done.stdout.split()]


def peak_megabytes(*, reset: bool = False) -> float:
    """Peak memory of this process so far; with `reset`, the peak starts again from what is held now (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure_methods(repeats: int, rows: int) -> list[Row]:
    """Fits of methods at their defaults, with validation, and their summaries of as many rows."""
    source, target, validation = example_cohort(rows), example_cohort(2_000, seed=1), example_cohort(500, seed=2)
    fit, summary = f"fit of {rows:,} x {FEATURES}", f"summary of {rows:,} x {PASSES} passes"
    calls: dict[str, Callable[[], Any]] = {}
    for name in method_names():
        calls[f"{fit}, {name}"] = partial(build(name).fit, source, target.unlabelled(), validation, seed=0)
        fitted = build(name, steps=10).fit(validation, target.unlabelled(), None, seed=0)
        calls[f"{summary}, {name}"] = partial(fitted.summarise, source.X, PASSES, seed=0)
    seconds = best_seconds(calls, repeats)
    sampling = seconds[f"{summary}, transductive_dropout"] / seconds[f"{summary}, mc_dropout"]
    return [
        *[measure(what, best, "s") for what, best in seconds.items()],
        measure("sampling, transductive dropout / MC dropout", sampling, "times", 1.6),
        measure("fit, ensemble of 10 / one MLP", seconds[f"{fit}, ensemble"] / seconds[f"{fit}, mlp"], "times", 8.0),
    ]


def best_seconds(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Processor time of the quickest call of each, taking turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.thread_time()
            call()
            best[name] = min(best[name], time.thread_time() - start)
    return best


def example_cohort(rows: int, seed: int = 0) -> Cohort:
    """Normal features and an outcome that depends on three of them (simulated)."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, FEATURES)).astype(np.float32)
    risk = 1 / (1 + np.exp(-(X[:, 0] + np.sin(2 * X[:, 1]) - X[:, 2])))
    y = (generator.random(rows) < risk).astype(np.float32)
    return Cohort("speed", np.arange(rows), tuple(f"x{place}" for place in range(FEATURES)), X, y)
