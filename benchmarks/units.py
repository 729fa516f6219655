"""Units of work: pure functions computed in worker processes, each result kept, so that a benchmark resumes."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import torch
from joblib import Memory, Parallel, delayed
from rich.console import Console
from rich.progress import track

import tdrop
from benchmarks import CONTRACTS
from tdrop.base import UsageError, did_you_mean
from tdrop.methods import method_names

Result = TypeVar("Result")
#: The arguments of one unit.
Unit = Mapping[str, Any]

#: A network that is fitted in no time, where numbers mean nothing.
QUICK_NETWORK: Mapping[str, Any] = {"hidden": [8], "steps": 2}
#: Packages whose version decides what a unit returns.
PACKAGES = ("torch", "scikit-learn", "numpy", "pandas", "scipy")
#: Modules that say what the patients of a problem are.
DEFINITIONS = ("problems.py", "public_tables.py", "site_pairs.py")


@dataclass(frozen=True)
class Options:
    """How a benchmark runs.

    Attributes:
        quick: A few seconds, to see that it works; its numbers mean nothing.
        seeds: How many seeds, draws or splits; None for the benchmark's own number.
        only: Names of problems or families, for a part of a benchmark; empty for all.
        methods: Names of methods; empty for the benchmark's own.
        trials: Tuning trials per method; None for the benchmark's own number.
        every: One transfer in so many, in the order of the collections.
        home: Where finished units and results are kept.
        processes: Worker processes; None for one per core, 1 to work in this process.
    """

    quick: bool = False
    seeds: int | None = None
    only: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    trials: int | None = None
    every: int = 1
    home: Path = field(default_factory=lambda: Path(os.environ.get("TDROP_HOME", ".tdrop")))
    processes: int | None = None

    @property
    def folder(self) -> Path:
        """Folder of all benchmarks' results and finished units."""
        return self.home / "benchmarks"

    def seeds_or(self, full: int, quick: int = 1) -> int:
        """The number of seeds asked for, or the benchmark's own."""
        return self.seeds or (quick if self.quick else full)

    def trials_or(self, full: int) -> int:
        """The number of tuning trials asked for, or the benchmark's own; one in the quick form."""
        return self.trials or (1 if self.quick else full)

    def methods_or(self, full: Sequence[str], quick: Sequence[str] = ()) -> tuple[str, ...]:
        """The methods asked for, or the benchmark's own, or in the quick form some of them."""
        for name in self.methods:
            if name not in method_names():
                raise UsageError(f"there is no method '{name}'{did_you_mean(name, method_names())}")
        return self.methods or tuple(quick if self.quick and quick else full)


def run_units(options: Options, title: str, function: Callable[..., Result], units: Sequence[Unit]) -> list[Result]:
    """Computes a function for every unit that was not computed before; returns the results in the same order.

    Args:
        options: Where results are kept, and how many processes work.
        title: What the progress bar says.
        function: A function of a module, of plain values.
        units: Its arguments, one mapping per call.
    """
    cached = Memory(options.folder / "units" / _digest_of_code(function), verbose=0).cache(function)
    workers = Parallel(n_jobs=options.processes or -1, return_as="generator")
    results = workers(delayed(_on_one_thread)(cached, unit) for unit in units)
    return list(track(results, title, len(units), console=Console(stderr=True), transient=True))


def run_grid(options: Options, title: str, function: Callable[..., Any], **values: Sequence[Any]) -> pd.DataFrame:
    """Computes a function for every combination of values of its arguments, the last changing fastest.

    Returns:
        The arguments and what the function returned for them: one row per mapping, of which it returns one or a list.
    """
    units = [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]
    rows = []
    for unit, result in zip(units, run_units(options, title, function, units), strict=True):
        rows += [{**unit, **row} for row in (result if isinstance(result, list) else [result])]
    return pd.DataFrame(rows)


def _on_one_thread(function: Callable[..., Result], unit: Unit) -> Result:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return function(**unit)
    finally:
        torch.set_num_threads(threads)


def _digest_of_code(function: Callable[..., Any]) -> str:
    """Digest of all code that decides a result: the function's module, the problems, the library and PACKAGES."""
    return hashlib.sha256(f"{_digest(Path(inspect.getfile(function)))}\n{_shared_digest()}".encode()).hexdigest()[:32]


@cache
def _shared_digest() -> str:
    here, library = Path(__file__).parent, Path(tdrop.__file__).parent
    drawing = {library / "report", library / "figures"}
    modules = [file for file in sorted(library.rglob("*.py")) if not drawing & set(file.parents)]
    files = [*modules, *(here / name for name in DEFINITIONS), *sorted(CONTRACTS.rglob("*.yaml"))]
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return hashlib.sha256("\n".join([*versions, *map(_digest, files)]).encode()).hexdigest()


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
