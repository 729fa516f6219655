"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.printer import Printer

console = Printer()
DEFAULT_CONTRACTS = Path("data_contracts")

Contracts = Annotated[Path, typer.Option("--contracts", help="Folder with tables/ and sites/", metavar="DIR")]
SiteName = Annotated[str, typer.Argument(help="Name of a site in sites/", metavar="SITE")]
Seeds = Annotated[int, typer.Option(help="Refits that show the spread", min=1, max=50)]
Committee = Annotated[
    bool,
    typer.Option(
        "--committee/--single", help="Use methods that source patients cannot tell apart together, or one of them alone"
    ),
]
Trials = Annotated[int, typer.Option(help="Tuning trials, the same for every method", min=1, max=200)]
Methods = Annotated[
    list[str] | None, typer.Option("--method", help="Train only this method; repeat for several", metavar="NAME")
]
Processes = Annotated[int | None, typer.Option(help="Worker processes; default one a core, 0 works in place", min=0)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
Again = Annotated[bool, typer.Option("--again", help="Run even when nothing changed")]
Runner = Annotated[str, typer.Option(help="Where fits run: processes (of this machine) or dask")]
Address = Annotated[str | None, typer.Option(help="Dask scheduler, e.g. tcp://host:8786", metavar="URL")]
AtOnce = Annotated[int | None, typer.Option(help="Sites under way together; default 1, on dask 4", min=1)]


def answering(as_json: bool) -> Printer:
    """The printer of a command that has a result: as brief as was asked for, as JSON or in words."""
    return Printer(as_json=as_json, brief=console.brief)


def repeat(contracts: Path) -> str:
    """The option that the next command needs as well, when it is not the default."""
    return "" if contracts == DEFAULT_CONTRACTS else f" --contracts {contracts}"
