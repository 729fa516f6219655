"""The `tdrop` command: one clear sentence and an exit code instead of a traceback."""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from flows.commands import benchmarking, models, running, upkeep
from flows.commands.options import console
from flows.interrupts import heeding_signals
from flows.orchestration import ServerSilent
from tdrop.base import TdropError, describe, listen_to_notices, unwritable
from tdrop.home import collect_seldom, quieten

VERBOSE = {"-v", "--verbose"}
QUIET = {"-q", "--quiet"}

app = typer.Typer(
    help="Moves a clinical prediction model to a new site and says for whom it should not be trusted.",
    no_args_is_help=True,
    epilog="Start with: tdrop demo",
)
app.command(epilog="Example: tdrop demo --full")(running.demo)
app.command(epilog="Example: tdrop validate harbour, or tdrop validate --all")(running.validate)
app.command(epilog="Example: tdrop shift hillside")(running.shift)
app.command(epilog="Example: tdrop transfer harbour hillside --seeds 5")(running.transfer)
app.command(epilog="Example: tdrop score harbour new_patients.csv")(models.score)
app.command("label-list", epilog="Example: tdrop label-list harbour --n 50")(models.label_list)
app.command(epilog="Example: tdrop audit harbour outcomes.csv")(models.audit)
app.command(epilog="Example: tdrop recalibrate harbour, or tdrop recalibrate harbour outcomes.csv")(models.recalibrate)
app.command(epilog='Example: tdrop promote harbour --by "Dr Chen" --note "for review clinics only"')(models.promote)
app.command(epilog="Example: tdrop rollback harbour")(models.rollback)
app.command(epilog="Example: tdrop export harbour --folder harbour_report")(models.export)
app.command(epilog="Example: tdrop init heart --data source.csv --outcome died")(upkeep.init)
app.command("add-table", epilog="Example: tdrop add-table stroke --data stroke.csv --outcome died")(upkeep.add_table)
app.command("add-site", epilog="Example: tdrop add-site quayside --data quayside.csv --table prostate")(upkeep.add_site)
app.command(epilog="Example: tdrop benchmark toy --quick")(benchmarking.benchmark)
app.command(epilog="Example: tdrop status --json")(upkeep.status)
app.command(epilog="Example: tdrop deploy")(upkeep.deploy)
app.command(epilog="Example: tdrop prune --days 30 --yes, or tdrop prune --erase harbour")(upkeep.prune)
app.command(epilog="Example: tdrop ui --mlflow-port 5001")(upkeep.ui)


def _show_version(value: bool) -> None:
    if value:
        console.print(version("tdrop"))
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show logs and tracebacks")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only")] = False,
) -> None:
    """Reads the options that every command has."""


def main() -> None:
    """Runs the command line."""
    verbose = bool(VERBOSE & set(sys.argv[1:]))
    if not verbose:
        _quieten()
    collect_seldom()
    console.brief = bool(QUIET & set(sys.argv[1:]))
    if not console.brief:
        listen_to_notices(lambda sentence: sys.stderr.write(f"tdrop: {sentence}\n"))
    with heeding_signals():
        _run(verbose)


def _run(verbose: bool) -> None:
    try:
        app(args=[argument for argument in sys.argv[1:] if argument not in VERBOSE | QUIET], prog_name="tdrop")
    except ServerSilent as error:
        _say(str(error))
        # Prefect's client would go on trying to reach it for minutes.
        os._exit(error.exit_code)
    except TdropError as error:
        _fail(str(error), error.exit_code, verbose)
    except Exception as error:  # a person gets a sentence; the traceback is there for the asking
        if full := unwritable(error):
            _fail(str(full), full.exit_code, verbose)
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            _fail(f"a path that was given cannot be one ({error.strerror}); check it", 2, verbose)
        _fail(f"internal error ({describe(error)}); -v shows the traceback", 1, verbose)


def _fail(sentence: str, exit_code: int, verbose: bool) -> None:
    if verbose:
        Console(stderr=True).print_exception()
    _say(sentence)
    sys.exit(exit_code)


def _say(sentence: str) -> None:
    # What a person typed may hold a line break.
    line = "".join(letter if letter.isprintable() else "?" for letter in sentence)
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]tdrop:[/] {escape(line)}")


def _quieten() -> None:
    quieten()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


if __name__ == "__main__":
    main()
