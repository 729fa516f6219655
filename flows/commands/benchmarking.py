"""The command that measures: the paper's experiments and their extensions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.benchmarks import BENCHMARKS
from flows.commands.options import Processes, console


def benchmark(
    name: Annotated[
        str,
        typer.Argument(
            help=", ".join(BENCHMARKS),
            metavar="NAME",
        ),
    ],
    quick: Annotated[bool, typer.Option("--quick", help="The smallest form, to see that it works")] = False,
    seeds: Annotated[int | None, typer.Option(help="Draws, splits or refits; default its own", min=1)] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the results; default below the home")] = None,
    processes: Processes = None,
) -> None:
    """Reproduce the paper's experiments and their extensions; an interrupted one goes on where it stopped."""
    from flows.benchmark import run_benchmark

    run_benchmark(name, quick=quick, seeds=seeds, output=output, processes=processes, console=console)
