"""The command `python -m benchmarks NAME`: one clear sentence and an exit code instead of a traceback."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import BENCHMARKS
from benchmarks.public_tables import require_package
from benchmarks.results import write_results
from benchmarks.units import Options
from tdrop.base import TdropError, UsageError, did_you_mean

LIST = "\n\n".join(f"{name}: {benchmark.about}" for name, benchmark in BENCHMARKS.items())
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help=f"Run the paper's experiments and the studies behind the defaults:\n\n{LIST}")
def main(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One of the list; without it, the list")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The smallest form, to see that it works")] = False,
    seeds: Annotated[int | None, typer.Option(help="Draws, splits or refits; default its own", min=1)] = None,
    only: Annotated[list[str] | None, typer.Option(help="A problem or family, for a part; may be repeated")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A method, for some of them; may be repeated")] = None,
    trials: Annotated[int | None, typer.Option(help="Tuning trials per method; default its own", min=1)] = None,
    every: Annotated[int, typer.Option(help="Of transfers, one in so many in their order", min=1)] = 1,
    output: Annotated[Path | None, typer.Option(help="Folder of the results; default below the home")] = None,
    home: Annotated[Path, typer.Option(envvar="TDROP_HOME", help="Where finished work is kept")] = Path(".tdrop"),
    processes: Annotated[int | None, typer.Option(help="Worker processes; default one per core", min=1)] = None,
) -> None:
    """Runs a benchmark, writes its tables and figures and prints its page."""
    if name is None:
        print("\n".join(f"{title:15} {benchmark.about}" for title, benchmark in BENCHMARKS.items()))
        return
    started = time.monotonic()
    options = Options(quick, seeds, tuple(only or ()), tuple(method or ()), trials, every, home, processes)
    folder = run_benchmark(name, options, output)
    print((folder / "results.md").read_text(encoding="utf-8"))
    print(f"{name}: {folder} ({time.monotonic() - started:.0f} s)")


def run_benchmark(name: str, options: Options, output: Path | None = None) -> Path:
    """Runs a benchmark and returns the folder with its results; finished units of an earlier run are not repeated."""
    if name not in BENCHMARKS:
        raise UsageError(f"there is no benchmark '{name}'{did_you_mean(name, BENCHMARKS)}")
    # The quick form of the studies over public tables is simulated, that of networks needs one table of SurvSet.
    if not (options.quick and name in ("transfers", "placebos", "networks", "ladder")):
        for package in BENCHMARKS[name].packages:
            require_package(package)
    folder = (output or options.folder / name).absolute()
    write_results(resolve_name(BENCHMARKS[name].function)(options), folder)
    return folder


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        app(prog_name="python -m benchmarks")
    except TdropError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"benchmarks: {error}", markup=False)
        sys.exit(error.exit_code)
