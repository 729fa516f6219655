"""One unit of a benchmark's work: a pure function computed in a worker process and kept in the store."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from flows.benchmarks import CONTRACTS
from tasks.step import Future, step
from tdrop.base import write_record
from tdrop.home import Place, Ref, Store, compute, report

#: What one unit finds: a record, which the store keeps as JSON.
Found = TypeVar("Found")
#: The arguments of one unit, as plain values.
Unit = Mapping[str, Any]

#: A network that is fitted in no time, where numbers mean nothing.
QUICK_NETWORK: Mapping[str, Any] = {"hidden": [8], "steps": 2}


@step("unit", "{label}")
def run_unit(place: Place, stage: str, label: str, function: Callable[..., Any], unit: Unit) -> Ref:
    """Computes a function of plain arguments, unless the store has it; the stage holds unit.json."""

    def build(folder: Path) -> None:
        write_record(folder / "unit.json", compute(function, **unit))

    # The store's key covers the library's code; a benchmark's own file and the transfers decide results as well.
    source = Path(inspect.getfile(function)).read_bytes()
    inputs = {
        "function": function.__qualname__,
        "file": hashlib.sha256(source).hexdigest(),
        "transfers": _transfers_digest(),
        "unit": dict(unit),
    }
    return Store(place.root).make(stage, inputs, build)


@cache
def _transfers_digest() -> str:
    files = sorted((CONTRACTS / "transfers").iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def run_units(place: Place, benchmark: str, function: Callable[..., Found], units: Sequence[Unit]) -> list[Found]:
    """Computes a function for every unit, side by side, and returns what it found in the same order."""
    futures = [
        run_unit.submit(place, f"benchmark-{benchmark}", f"{benchmark} {number + 1}", function, dict(unit))
        for number, unit in enumerate(units)
    ]
    kind: type[Found] = get_type_hints(function, include_extras=True)["return"]
    return [ref.record(kind, "unit.json") for ref in collect(benchmark, "fit", futures)]


def collect(benchmark: str, stage: str, futures: Sequence[Future[Ref]]) -> list[Ref]:
    """Waits for all futures and tells how far it is; the first failure ends the benchmark."""
    refs = []
    for number, future in enumerate(futures, start=1):
        refs.append(future.result())
        report(benchmark, stage, number, len(futures), f"{number} of {len(futures)}")
    return refs
