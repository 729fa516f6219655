"""Our own CSV lists, and their cells: text that a spreadsheet does not run, and that reads back as what it was."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pandas as pd

from tdrop.base import unwritable

#: What a spreadsheet takes for a formula, also behind apostrophes: each writing adds one, each reading takes one away.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def neutralise(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def restore(text: str) -> str:
    """Returns what `neutralise` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def write_patients(path: Path, table: pd.DataFrame) -> None:
    """Writes a table of patients that only its owner can read, with no cell that a spreadsheet would run.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    safe = table.copy()
    safe.columns = [neutralise(str(name)) for name in safe.columns]
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_bool_dtype(safe[name]):
            safe[name] = safe[name].map(neutralise)
        elif pd.api.types.is_float_dtype(safe[name]):
            safe[name] = safe[name].round(6)
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.unlink(missing_ok=True)
        # Opened with its final mode: there is no moment in which others could read it.
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as stream:
            safe.to_csv(stream, index=False)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(error) or error from error
