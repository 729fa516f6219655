"""How a result looks in a notebook: a small table of what it holds, never a patient's values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """An HTML table with a caption; every text is escaped."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    start = f"<table><caption>{escape(caption)}</caption>"
    return f"{start}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def three_decimals(value: float | None) -> str:
    """A number with three decimals, or a dash."""
    return "–" if value is None else f"{value:.3f}"
