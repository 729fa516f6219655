"""The `tdrop` command. Heavy packages are imported by the command that needs them, not before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tdrop.errors import TdropError, UsageError

app = typer.Typer(
    help="Moves a clinical prediction model to a new site and says for whom it should not be trusted.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    epilog="Start with: tdrop demo",
)
console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, highlight=False, soft_wrap=True)

VERBOSE = {"-v", "--verbose"}
Contracts = Annotated[
    Path, typer.Option("--contracts", help="Folder with tables/ and sites/", metavar="DIR", show_default=True)
]
DEFAULT_CONTRACTS = Path("data_contracts")
SiteName = Annotated[str, typer.Argument(help="Name of a site in sites/", metavar="SITE")]
Seeds = Annotated[int, typer.Option(help="Refits that show the spread", min=1)]
Trials = Annotated[int, typer.Option(help="Tuning trials, the same for every method", min=1)]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Train only this method; repeat for several", metavar="NAME")
]
Processes = Annotated[int | None, typer.Option(help="Worker processes; default one a core", min=1)]
Again = Annotated[bool, typer.Option("--again", help="Run even when nothing changed")]
Runner = Annotated[str, typer.Option(help="Where fits run: processes of this machine, or dask")]
Address = Annotated[str | None, typer.Option(help="Dask scheduler, e.g. tcp://host:8786", metavar="URL")]


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        console.print(version("tdrop"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show logs and tracebacks")] = False,
) -> None:
    """Reads the options that every command has."""


@app.command(epilog="Example: tdrop demo --full")
def demo(
    full: Annotated[bool, typer.Option("--full", help="20,000 source rows and the full search")] = False,
    seeds: Seeds = 3,
    processes: Processes = None,
) -> None:
    """Move a simulated registry's model to three simulated hospitals, end to end."""
    from flows.demo import run_demo

    run_demo(full=full, seeds=seeds, processes=processes, console=console)


@app.command(epilog="Example: tdrop validate harbour, or: tdrop validate --all")
def validate(
    site: Annotated[str | None, typer.Argument(help="Name of a site in sites/", metavar="SITE")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every site of the network")] = False,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Check a site's extract against its contract; exit 1 when it must not be used."""
    from flows.validate import run_validate

    if (site is None) == (not everything):
        raise UsageError("give one SITE, or --all for every site of the network")
    run_validate(site, contracts=contracts, console=console)


@app.command(epilog="Example: tdrop shift hillside")
def shift(site: SiteName, contracts: Contracts = DEFAULT_CONTRACTS) -> None:
    """Show how different a site's patients are, before any training."""
    from flows.shift import run_shift

    run_shift(site, contracts=contracts, console=console)


@app.command(epilog="Example: tdrop transfer harbour hillside --seeds 5")
def transfer(
    sites: Annotated[list[str], typer.Argument(help="Target sites", metavar="SITE...")],
    seeds: Seeds = 3,
    trials: Trials = 12,
    method: Methods = None,
    processes: Processes = None,
    again: Again = False,
    runner: Runner = "processes",
    address: Address = None,
    contracts: Contracts = DEFAULT_CONTRACTS,
) -> None:
    """Check, compare, train, choose, evaluate and report, for one or several target sites."""
    from flows.transfer_command import run_transfer
    from tasks.settings import TransferSettings

    settings = TransferSettings(seeds=seeds, trials=trials, methods=tuple(method or ()))
    run_transfer(
        sites,
        settings,
        contracts=contracts,
        processes=processes,
        again=again,
        runner=runner,
        address=address,
        console=console,
    )


def main() -> None:
    """Runs the command; one clear sentence and an exit code instead of a traceback."""
    verbose = bool(VERBOSE & set(sys.argv[1:]))
    arguments = [argument for argument in sys.argv[1:] if argument not in VERBOSE]
    if not verbose:
        _quieten()
    try:
        app(args=arguments, prog_name="tdrop", standalone_mode=True)
    except TdropError as error:
        _fail(str(error), error.exit_code, verbose)
    except KeyboardInterrupt:
        _fail("interrupted: nothing is half-written, and the same command goes on from the last finished step", 1, False)
    except Exception as error:  # a person gets a sentence; the traceback is there for the asking
        _fail(f"internal error ({type(error).__name__} {_where(error)}); -v shows the traceback", 1, verbose)


def _fail(sentence: str, exit_code: int, verbose: bool) -> None:
    if verbose:
        errors.print_exception()
    errors.print(f"[bold red]tdrop:[/] {_escaped(sentence)}")
    sys.exit(exit_code)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _where(error: Exception) -> str:
    """File and line of our own code nearest to the failure; the message may hold patients' values."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        if {"tdrop", "tasks", "flows"} & set(path.parts[-4:-1]) and "site-packages" not in path.parts:
            place = f"in {path.parent.name}/{path.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _quieten() -> None:
    import logging
    import warnings

    from tasks.environment import quieten

    quieten()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


if __name__ == "__main__":
    main()
