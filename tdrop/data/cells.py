"""Cells of our own CSV lists: text that a spreadsheet does not run, and that reads back as what it was."""

from __future__ import annotations

import re
from typing import Any

#: What a spreadsheet takes for a formula, also behind apostrophes: each writing adds one, each reading takes one away.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def neutralise(value: Any) -> Any:
    """Puts an apostrophe before text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def restore(text: str) -> str:
    """Returns what `neutralise` was given."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
