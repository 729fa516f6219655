"""What several sources cost beside one source of as many patients: processor time of training, and memory.

Training is what grows with the number of sources, because whole sites are left out in turn; everything else in a
transfer is the same, so that a whole transfer's ratio is nearer to 1. Times are the process's own processor time,
which other work on the machine disturbs least. Patients are simulated; the same patients teach as one source and as
several.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.results import Results, Row, Table
from benchmarks.speed import measure
from benchmarks.units import Options, run_units
from tdrop.base import Cohort, Indices
from tdrop.choose import count_folds, refit, tune
from tdrop.data import simulated_cohort
from tdrop.methods import method_names

#: Patients of all sources together; the new site has a tenth of them.
ROWS, TRIALS, SOURCES, MANY = 2_000, 12, 5, 40
#: Rows behind the memory, at which patients count and imports do not.
MEMORY_ROWS = 100_000
FOLDS = 3
NOBODY: Indices = np.array([], dtype=np.int64)
#: Prints the largest memory in MB of comparing, matching and tuning with so many sources.
MEASURED = (
    "import resource; from benchmarks.sources import use_sources; use_sources({rows}, {sources}); "
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
)


def run(options: Options) -> Results:
    """Trains every method with one source, with five, and as a rehearsal of the five does; then measures memory."""
    rows, trials = (300 if options.quick else ROWS), options.trials_or(TRIALS)
    methods = options.methods_or(method_names(), ("logistic_regression",))
    units = [{"method": method, "rows": rows, "trials": trials} for method in methods]
    # In this process, one after the other: fits beside each other would share caches.
    seconds = run_units(replace(options, processes=0), "sources", measure_method, units)
    sums = {name: sum(one[name] for one in seconds) for name in seconds[0]}
    lone, many = (_memory(10 * rows if options.quick else MEMORY_ROWS, sources) for sources in (1, MANY))
    figures: list[Row] = [
        measure("five sources beside one, these methods together", sums["five"] / sums["one"], "times", 2.2),
        measure("rehearsal of five sites beside one transfer", sums["rehearsal"] / sums["five"], "times", 5),
        measure("memory of forty sources beside one", many / lone, "times", 1.1),
    ]
    figures += [
        measure(f"{method}: five sources beside one", one["five"] / one["one"], "times")
        for method, one in zip(methods, seconds, strict=True)
    ]
    return Results(
        "What several sources cost",
        f"{rows:,} simulated source patients, {trials} trials per method and one refit; processor time.",
        [Table("sources", "Training with several sources (simulated patients)", figures)],
    )


def measure_method(method: str, rows: int, trials: int) -> dict[str, float]:
    """Processor seconds of tuning and refitting a method: from one source, from five, and in a rehearsal of five."""
    one, several, new = draw_sources(rows, SOURCES)
    assert several.origins is not None
    costs = {
        "one": _train(method, one, new, trials),
        "five": _train(method, several, new, trials),
        "rehearsal": 0.0,
    }
    for site in np.unique(several.origins):
        own = several.origins == site
        costs["rehearsal"] += _train(method, several.take(~own), several.take(own).unlabelled(), trials)
    return costs


def draw_sources(rows: int, sources: int) -> tuple[Cohort, Cohort, Cohort]:
    """Draws one source, the same patients as so many sources, and a new site."""
    source = simulated_cohort("source", rows, seed=0)
    origins = np.array([f"source {number % sources}" for number in range(rows)])
    new = simulated_cohort("moderate", max(50, rows // 10), seed=1)
    return source, replace(source, origins=origins), new.unlabelled()


def _train(method: str, source: Cohort, target: Cohort, trials: int) -> float:
    started = time.process_time()
    tuned = tune(method, source, target, NOBODY, budget=trials, folds=count_folds(source, FOLDS))
    refit(method, tuned.picked, source, target, seed=0)
    return time.process_time() - started


def use_sources(rows: int, sources: int) -> None:
    """Compares, matches and trains with so many sources."""
    from tdrop.shift import estimate_shift, match, propensity

    one, several, new = draw_sources(rows, sources)
    source = one if sources == 1 else several
    fitted = propensity(source, new, seed=0, kind="logistic")
    estimate_shift(source, new, fitted=fitted)
    match(source, new, fitted=fitted)
    _train("logistic_regression", source, new, 1)


def _memory(rows: int, sources: int) -> float:
    """Largest memory of a process of its own, in MB."""
    command: Sequence[str] = [sys.executable, "-c", MEASURED.format(rows=rows, sources=sources)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
