"""What commands share: where their words go, to a person or aside for one JSON document, and common options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console


class Printer(Console):
    """A console that knows results from remarks.

    Attributes:
        as_json: Print no words at all, and every result as one JSON document.
        brief: Print results, but neither remarks nor progress.
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
        """Prints what is no result: where to look next, how the time was spent."""
        if not self.brief:
            self.print(words, markup=False)

    @property
    def progress(self) -> Console:
        """Where progress is shown: nowhere when brief, beside the document when a script reads that."""
        if self.brief:
            return Console(quiet=True)
        return Console(stderr=True, highlight=False, soft_wrap=True) if self.as_json else self


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


def make_printer(as_json: bool) -> Printer:
    """The printer of a command that has a result: as brief as was asked for, as JSON or in words."""
    return Printer(as_json=as_json, brief=console.brief)


def contracts_option(contracts: Path) -> str:
    """The option that the next command needs as well, when it is not the default."""
    return "" if contracts == DEFAULT_CONTRACTS else f" --contracts {contracts}"
