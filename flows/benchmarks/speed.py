"""How fast the methods train and predict: one thread, the best of several repeats, ratios within one run.

Times are the thread's own processor time, so that other work on the machine disturbs less, and competitors take
turns. Bars are on ratios; seconds are shown beside them and mean nothing on another machine.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.textbook import textbook_step
from tdrop.base import Cohort
from tdrop.home import Place
from tdrop.methods import build, method_names
from tdrop.methods.parts.network import TrainingBatch
from tdrop.methods.parts.training import Optimiser, run_step

#: The setting of every training step: source and target rows, units of both hidden layers, passes, features.
ROWS, TARGET_ROWS, UNITS, PASSES, FEATURES = 512, 256, 128, 10, 10
#: Patients of the paper's source.
SOURCE_ROWS = 240_486


@dataclass(frozen=True)
class Measure:
    """One figure and the bar it is held against; `limit` None means that it is shown only."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the bar is met."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def run(place: Place, scale: Scale) -> Results:
    """Measures everything; nothing is kept between runs, since each is about this machine now."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        measures = [
            *measure_steps(rounds=4 if scale.quick else 40),
            *measure_sampling(rounds=2 if scale.quick else 6),
            *measure_rows(2_405 if scale.quick else SOURCE_ROWS // 10),
            *measure_memory(*((24_049, 50) if scale.quick else (SOURCE_ROWS, 200))),
            measure_import(),
            *measure_fits(repeats=1 if scale.quick else 3),
        ]
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
    return Results(
        title="How fast the methods train and predict",
        about="One thread, its own processor time, the best of several repeats; seconds mean nothing elsewhere.",
        tables=[Table("speed", "Every figure and the bar that it is held against.", list(map(_row, measures)))],
        metrics={_metric_name(one.name): one.value for one in measures if one.limit is not None},
        params={"torch": torch.__version__, "processor": platform.processor() or platform.machine()},
    )


def _row(measure: Measure) -> Row:
    words = {None: "", True: "yes", False: "NO"}
    bar = "" if measure.limit is None else f"{'at least' if measure.at_least else 'at most'} {measure.limit:g}"
    value = Estimate(measure.value)
    return {"what": measure.name, "value": value, "unit": measure.unit, "bar": bar, "met": words[measure.met]}


def _metric_name(name: str) -> str:
    """A measure's name with the characters that a record takes."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower())


def measure_steps(rounds: int) -> list[Measure]:
    """Training steps against the textbook way, against sgemm, and against the simpler methods."""
    generator = torch.Generator().manual_seed(0)
    x, target = (torch.randn(rows, FEATURES, generator=generator) for rows in (ROWS, TARGET_ROWS))
    y = (x[:, 0] > 0).float()
    row_passes = (ROWS + TARGET_ROWS) * PASSES
    left, right = torch.randn(row_passes, UNITS), torch.randn(UNITS, UNITS)
    space = torch.empty(row_passes, UNITS)
    seconds = best_seconds(
        {
            "textbook": textbook_step(x, y, target, units=UNITS, passes=PASSES),
            "concrete": training_step(
                "transductive_dropout", TrainingBatch(x, y, target, 0.5), passes=PASSES, form="paper"
            ),
            "mc_dropout": training_step("mc_dropout", TrainingBatch(x, y, None, 0.5)),
            "mlp": training_step("mlp", TrainingBatch(x, y, None, 0.5)),
            "ensemble": training_step("ensemble", TrainingBatch(x.expand(10, -1, -1), y.expand(10, -1), None, 0.5)),
            "doubters": training_step(
                "transductive_ensemble",
                # As many rows as the method trains them on, half of a batch.
                TrainingBatch(
                    x[: ROWS // 2].expand(3, -1, -1), y[: ROWS // 2].expand(3, -1), target[: TARGET_ROWS // 2], 0.5
                ),
                form="joint",
                members=3,
            ),
            # As long as a step, so that both have the same chance of a quiet moment.
            "sgemm": lambda: [torch.mm(left, right, out=space) for _ in range(6)],
        },
        rounds,
        burst=4,
    )
    product = 2 * row_passes * UNITS * UNITS
    rate = 6 * product / seconds["sgemm"]
    return [*_step_measures(seconds), *_share_measures(seconds, 3 * product, rate), *_ratio_measures(seconds)]


def _step_measures(seconds: Mapping[str, float]) -> list[Measure]:
    shown = [Measure(f"step, {name}", 1e3 * seconds[name], "ms") for name in seconds if name != "sgemm"]
    faster = [
        Measure(f"textbook step / {masks} step", seconds["textbook"] / seconds[masks], "times", limit, at_least=True)
        for masks, limit in (("concrete", 2.0),)
    ]
    return [*shown, *faster]


def _share_measures(seconds: Mapping[str, float], operations: int, rate: float) -> list[Measure]:
    """Forward and two backward products of the hidden layer, all passes, as a share of sgemm's rate."""
    shares = [
        Measure(
            f"matmul share of sgemm, {name}",
            operations / seconds[name] / rate,
            "of sgemm",
            limit,
            at_least=True,
        )
        for name, limit in (("concrete", 0.50), ("textbook", None))
    ]
    return [Measure("sgemm at the layer's own shape", rate / 1e9, "GFLOP/s"), *shares]


def _ratio_measures(seconds: Mapping[str, float]) -> list[Measure]:
    passed = {
        "concrete": seconds["concrete"] / ((ROWS + TARGET_ROWS) * PASSES),
        "mc_dropout": seconds["mc_dropout"] / ROWS,
    }
    return [
        *[
            Measure(f"training, row and pass, {name} / MC dropout", passed[name] / passed["mc_dropout"], "times", 1.6)
            for name in ("concrete",)
        ],
        Measure("ensemble of 10 / one MLP", seconds["ensemble"] / seconds["mlp"], "times", 8.0),
        Measure("transductive ensemble / ensemble", 1 + seconds["doubters"] / seconds["ensemble"], "times", 1.3),
    ]


def training_step(name: str, batch: TrainingBatch, **settings: Any) -> Callable[[], Any]:
    """Returns a function that does one training step of a method."""
    method: Any = build(name, batch=ROWS, **settings)
    network = method.network(FEATURES, 10_000, "binary", torch.Generator().manual_seed(0))
    pool = network.pool(np.random.default_rng(0))
    return partial(run_step, network, batch, Optimiser(network, method.schedule()), pool, 0.5)


def measure_sampling(rounds: int, rows: int = 2_000, passes: int = 100) -> list[Measure]:
    """Prediction a row and pass, against MC dropout's."""
    source = example_cohort(rows)
    methods = {
        "mc_dropout": build("mc_dropout", steps=10),
        "concrete": build("transductive_dropout", steps=10, form="paper"),
        "last_layer": build("last_layer", steps=10),
    }
    fitted = {name: method.fit(source, source.unlabelled(), seed=0) for name, method in methods.items()}
    calls = {name: partial(model.summarise, source.X, passes, seed=0) for name, model in fitted.items()}
    seconds = best_seconds(calls, rounds)
    shown = [Measure(f"summarise, {name}", 1e6 * each / rows / passes, "us/row/pass") for name, each in seconds.items()]
    ratios = [
        Measure(f"sampling, row and pass, {name} / MC dropout", seconds[name] / seconds["mc_dropout"], "times", limit)
        for name, limit in (("concrete", 1.6), ("last_layer", None))
    ]
    return [*shown, *ratios]


def measure_rows(rows: int, steps: int = 60) -> list[Measure]:
    """Time of a fit of transductive dropout at `rows` and at ten times as many: its length is in steps."""
    small, large = fit_seconds(rows, steps), fit_seconds(10 * rows, steps)
    return [
        Measure(f"{steps} steps on {rows:,} rows", small, "s"),
        Measure(f"{steps} steps on {10 * rows:,} rows", large, "s"),
        Measure("fit of ten times the rows", large / small, "times", 1.5),
    ]


def fit_seconds(rows: int, steps: int, repeats: int = 3) -> float:
    """Processor time of the quickest of some fits."""
    source, target = example_cohort(rows), example_cohort(10_086, seed=1).unlabelled()
    method = build("transductive_dropout", batch=ROWS, passes=PASSES, steps=steps)
    return best_seconds({"fit": partial(method.fit, source, target, seed=0)}, repeats)["fit"]


def measure_memory(
    rows: int, passes: int, names: Sequence[str] = ("transductive_dropout", "last_layer")
) -> list[Measure]:
    """Extra memory at the peak of a summary, in a process of its own."""
    measures = []
    for name in names:
        command = [sys.executable, "-c", _MEMORY.format(name=name, rows=rows, passes=passes)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        megabytes, seconds = map(float, done.stdout.split())
        what = f"summarise {rows:,} x {passes}, {name}"
        measures += [Measure(what, megabytes, "MB extra", 300.0), Measure(what, seconds, "s")]
    return measures


_MEMORY = """
import time
from flows.benchmarks.speed import example_cohort, peak_megabytes
from tdrop.methods import build
source, rows = example_cohort(2_000), example_cohort({rows}, seed=2).X
fitted = build("{name}", steps=10).fit(source, source.unlabelled(), seed=0)
fitted.summarise(source.X, 10, seed=0)
before, start = peak_megabytes(reset=True), time.thread_time()
fitted.summarise(rows, {passes}, seed=0)
print(peak_megabytes() - before, time.thread_time() - start)
"""


def peak_megabytes(*, reset: bool = False) -> float:
    """Peak memory of this process so far; with `reset`, the peak starts again from what is held now (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def measure_import() -> Measure:
    """Time of `import tdrop` in a fresh interpreter."""
    code = "import time; start = time.perf_counter(); import tdrop; print(time.perf_counter() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return Measure("import tdrop", min(times), "s", 0.5)


def measure_fits(repeats: int, rows: int = 5_000) -> list[Measure]:
    """A fit of every method at its defaults, with validation."""
    source, target, validation = example_cohort(rows), example_cohort(2_000, seed=1), example_cohort(500, seed=2)
    fits = {name: partial(build(name).fit, source, target.unlabelled(), validation, seed=0) for name in method_names()}
    seconds = best_seconds(fits, repeats)
    return [Measure(f"fit of {rows:,} x {FEATURES}, {name}", each, "s") for name, each in seconds.items()]


def best_seconds(calls: Mapping[str, Callable[[], Any]], rounds: int, *, burst: int = 1) -> dict[str, float]:
    """Processor time of the quickest call of each, taking turns of `burst` calls in a row."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(burst):
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
