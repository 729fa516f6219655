"""Measurements behind the defaults and claims: each module has `run(place, scale) -> Results`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

#: The tables and sites of real patients.
CONTRACTS = Path(__file__).parents[1].joinpath("data_contracts").resolve() / "benchmarks"


@dataclass(frozen=True)
class Benchmark:
    """What one of the modules measures, and whether it reads real patients from the optional package."""

    about: str
    needs_extra: bool = False


BENCHMARKS: Mapping[str, Benchmark] = {
    "toy": Benchmark("the paper's 1-d regression"),
    "uci": Benchmark("the paper's appendix: breast cancer, iris, wine"),
    "prostate": Benchmark("the paper's Table 1 at its sizes, on simulated cohorts"),
    "prostate_hard": Benchmark("simulated cohorts that are hard: truncated, small, hidden treatment"),
    "breast": Benchmark("Rotterdam to GBSG, real patients", needs_extra=True),
    "support": Benchmark("SUPPORT's sepsis patients to four other groups, real patients", needs_extra=True),
    "extrapolation": Benchmark("little label noise and a large shift, simulated"),
    "lambda_rule": Benchmark("how to choose lambda, on source patients", needs_extra=True),
    "hedge": Benchmark("when an ensemble takes a line or its hedge, on source patients", needs_extra=True),
    "settle": Benchmark("which defaults every method should have, on source patients", needs_extra=True),
    "transductive": Benchmark(
        "ensemble against transductive ensemble, real pairs and simulated families, every rule for lambda",
        needs_extra=True,
    ),
    "network_memory": Benchmark("memory over forty sites in one flow, and what orchestration costs, simulated"),
    "speed": Benchmark("how fast a step and a prediction are"),
    "choosing": Benchmark("what choosing without target labels costs", needs_extra=True),
    "forecast": Benchmark("how good forecasts without target labels are, and what labels buy", needs_extra=True),
}
