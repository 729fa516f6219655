"""What a page's sections are put together from: tables, a table with several views, and figures."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from tdrop.report.tables import Table


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Views:
    """One table of which a reader picks what it holds; paper shows every view.

    Attributes:
        name: Unique in its page.
        title: What is picked.
        tables: By the view's name for people, the table; the same lines in each.
    """

    name: str
    title: str
    tables: tuple[tuple[str, Table], ...]


Part = Table | Drawing | Views


@dataclass(frozen=True)
class Section:
    """One part of a page.

    Attributes:
        name: Unique in its page.
        title: Its heading.
        sentences: What it says before its parts.
        parts: Tables and figures.
        warnings: Sentences that must not be missed.
        see: Views of the table of methods that belong here too.
    """

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


def drawing(svg: str | None, caption: str) -> list[Part]:
    """Wraps a figure; nothing where nothing was drawn."""
    # The figures module escapes every text that it puts into an SVG.
    return [] if svg is None else [Drawing(Markup(svg), caption)]


def found(table: Table | None) -> list[Part]:
    """Wraps a table; nothing where there is none."""
    return [] if table is None else [table]
