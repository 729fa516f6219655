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
Seeds = Annotated[int, typer.Option(help="Number of refits, to show variability", metavar="N", min=1, max=50)]
Processes = Annotated[
    int | None,
    typer.Option(help="Worker processes; default: one per core; 0 runs in this process", metavar="N", min=0),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]


def answering(as_json: bool) -> Printer:
    """The printer of a command that has a result: as brief as was asked for, as JSON or in words."""
    return Printer(as_json=as_json, brief=console.brief)


def repeat(contracts: Path) -> str:
    """The option that the next command needs as well, when it is not the default."""
    return "" if contracts == DEFAULT_CONTRACTS else f" --contracts {contracts}"
