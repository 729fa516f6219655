"""Markdown tables, and the page about an extract, for whose sake nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tdrop.contracts import MEANINGS, Validation


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    text = f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def validation_page(site: str, shown: Validation) -> str:
    """What was found in an extract."""
    counts = [[shown.read, shown.used, shown.quarantined, shown.duplicates]]
    findings = [
        [one.sentence, "" if one.about == "file" else one.count, MEANINGS[one.severity]] for one in shown.findings
    ]
    return (
        f"# {site}: validation\n\n"
        + table(["rows read", "used", "set aside", "duplicates"], counts)
        + "\n\n"
        + (table(["finding", "rows", "what it means"], findings) if findings else "Nothing to report.")
    )
