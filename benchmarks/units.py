"""Units of work: pure functions computed in worker processes, each result kept, so that a benchmark resumes."""

from __future__ import annotations

import hashlib
import inspect
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import torch
from pydantic import TypeAdapter
from rich.console import Console
from rich.progress import Progress

import tdrop
from benchmarks import CONTRACTS
from tdrop.base import UsageError, did_you_mean
from tdrop.methods import method_names

#: What a unit returns: a record, or a mapping or tuple of records, which is kept as JSON.
Result = TypeVar("Result")
#: The arguments of one unit, as plain values.
Unit = Mapping[str, Any]

#: A network that is fitted in no time, where numbers mean nothing.
QUICK_NETWORK: Mapping[str, Any] = {"hidden": [8], "steps": 2}
#: Packages whose version decides what a unit returns.
PACKAGES = ("torch", "scikit-learn", "numpy", "pandas", "scipy")
#: Modules that say what the patients of a problem are.
DEFINITIONS = ("families.py", "problems.py", "public_tables.py", "site_pairs.py")


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
        processes: Worker processes; None for one per core, 0 to work in this process.
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
        """Where everything of the benchmarks lies."""
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
        function: A function of a module, whose return type is annotated.
        units: Its arguments, one mapping per call.
    """
    files = [_file(options.folder / "units", function, unit) for unit in units]
    missing = {file: unit for file, unit in zip(files, units, strict=True) if not file.is_file()}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(title, total=len(files), completed=len(files) - len(missing))
        for _ in _computed(options, function, missing):
            progress.advance(bar)
    return [_adapter(function).validate_json(file.read_bytes()) for file in files]


def _computed(options: Options, function: Callable[..., Any], missing: Mapping[Path, Unit]) -> Iterator[None]:
    """Yields once per finished unit."""
    if options.processes == 0 or not missing:
        for file, unit in missing.items():
            _compute(function, unit, file)
            yield
        return
    pool = _workers(options.processes or os.cpu_count() or 1)
    futures = [pool.submit(_compute, function, unit, file) for file, unit in missing.items()]
    try:
        yield from (future.result() for future in as_completed(futures))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


@cache
def _workers(count: int) -> ProcessPoolExecutor:
    """Worker processes, started once per run; not forked, because torch's threads would not survive that."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def _compute(function: Callable[..., Any], unit: Unit, file: Path) -> None:
    """Writes what a function returns; a file appears only when it is complete."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        result = function(**unit)
    finally:
        torch.set_num_threads(threads)
    file.parent.mkdir(parents=True, exist_ok=True)
    incoming = file.with_suffix(f".{os.getpid()}")
    incoming.write_bytes(_adapter(function).dump_json(result))
    incoming.replace(file)


@cache
def _adapter(function: Callable[..., Result]) -> TypeAdapter[Result]:
    """Writes and reads what a function returns, by its annotation."""
    return TypeAdapter(get_type_hints(function, include_extras=True)["return"])


def _file(folder: Path, function: Callable[..., Any], unit: Unit) -> Path:
    """Named by everything that decides a unit's result: its arguments, its module, the problems and the library."""
    module = Path(inspect.getfile(function))
    inputs = [function.__qualname__, json.dumps(unit, sort_keys=True), _digest(module), _shared_digest()]
    key = hashlib.sha256("\n".join(inputs).encode()).hexdigest()
    return folder / function.__name__ / f"{key[:32]}.json"


@cache
def _shared_digest() -> str:
    """Of the library, of the definitions of all problems, and of the packages below them."""
    here, library = Path(__file__).parent, Path(tdrop.__file__).parent
    drawing = {library / "report", library / "figures"}
    modules = [file for file in sorted(library.rglob("*.py")) if not drawing & set(file.parents)]
    files = [*modules, *(here / name for name in DEFINITIONS), *sorted(CONTRACTS.rglob("*.yaml"))]
    versions = [f"{package} {version(package)}" for package in PACKAGES]
    return hashlib.sha256("\n".join([*versions, *map(_digest, files)]).encode()).hexdigest()


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
