"""What commands share: the console that prints words or one JSON document, and common options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from tdrop.base import UsageError

if TYPE_CHECKING:
    from tdrop.contracts import Network


class Printer(Console):
    """A console that tells results from hints.

    Attributes:
        as_json: Print no words, and the result as one JSON document.
        brief: Print results, but neither hints nor progress.
    """

    def __init__(
        self, *, as_json: bool = False, brief: bool = False, file: IO[str] | None = None, width: int | None = None
    ) -> None:
        super().__init__(highlight=False, soft_wrap=True, quiet=as_json, file=file, width=width)
        self.as_json, self.brief = as_json, brief

    def print_result(self, result: Mapping[str, object]) -> None:
        """Prints a command's result as one JSON document, where that was asked for."""
        if self.as_json:
            self.file.write(json.dumps(result, indent=1, allow_nan=False) + "\n")
            self.file.flush()

    def print_hint(self, words: str) -> None:
        """Prints what is not a result: where to look next, how the time was spent."""
        if not self.brief:
            self.print(words, markup=False)

    @property
    def progress(self) -> Console:
        """Where progress is shown: nowhere when brief, on stderr when a script reads JSON from stdout."""
        if self.brief:
            return Console(quiet=True)
        return Console(stderr=True, highlight=False, soft_wrap=True) if self.as_json else self


console = Printer()
DEFAULT_CONTRACTS = Path("data_contracts")

Contracts = Annotated[Path, typer.Option("--contracts", help="Folder with tables/ and sites/", metavar="DIR")]
SiteName = Annotated[str, typer.Argument(help="Name of a site in sites/", metavar="SITE")]
Seeds = Annotated[
    int,
    typer.Option(
        help="How often the tuned model is trained again, to show its variability", metavar="N", min=1, max=50
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        help="Worker processes; default: one per core; 0: none, everything runs in this process", metavar="N", min=0
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]


def make_printer(as_json: bool) -> Printer:
    """The printer of a command: JSON or words, and brief with --quiet."""
    return Printer(as_json=as_json, brief=console.brief)


def only_table(network: Network, how: str) -> str:
    """The network's only table; where there are several, a UsageError says how to name one."""
    if len(network.contracts) != 1:
        known = ", ".join(sorted(network.contracts)) or "none yet: `tdrop add-table` adds one"
        raise UsageError(f"name the table: {how}; known: {known}")
    return next(iter(network.contracts))


def contracts_option(contracts: Path) -> str:
    """The --contracts option that a suggested command needs; empty for the default."""
    return "" if contracts == DEFAULT_CONTRACTS else f" --contracts {contracts}"
