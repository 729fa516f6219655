"""Where a command's words go: to a person, or aside so that a script gets one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO

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

    def answer(self, result: Mapping[str, object]) -> None:
        """Prints a command's result as one JSON document, where that was asked for."""
        if self.as_json:
            self.file.write(json.dumps(result, indent=1, allow_nan=False) + "\n")
            self.file.flush()

    def remark(self, words: str) -> None:
        """Prints what is no result: where to look next, how the time was spent."""
        if not self.brief:
            self.print(words, markup=False)

    @property
    def progress(self) -> Console:
        """Where progress is shown: nowhere when brief, beside the document when a script reads that."""
        if self.brief:
            return Console(quiet=True)
        return Console(stderr=True, highlight=False, soft_wrap=True) if self.as_json else self
