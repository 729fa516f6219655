"""A page as a test reads it: its elements, its words, its tables and its figures."""

from __future__ import annotations

import re
from base64 import b64decode
from html.parser import HTMLParser

#: Elements that begin a piece of text of their own.
BLOCKS = ("p", "td", "th", "dd", "dt", "li", "h1", "h2", "caption", "figcaption", "legend", "label")


class Page(HTMLParser):
    """Collects what a test wants to know of a page; styles, scripts and figures hold no words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.blocks: list[str] = [""]
        self._muted = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._muted += tag in ("style", "script", "svg", "title")
        if tag in BLOCKS:
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._muted -= tag in ("style", "script", "svg", "title")

    def handle_data(self, data: str) -> None:
        if not self._muted:
            self.blocks[-1] = " ".join(f"{self.blocks[-1]} {data}".split())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.blocks).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def table(self, name: str) -> list[list[str]]:
        """The rows of a table, each the words of its cells."""
        start = self.source.index(f'id="table-{name}"')
        body = self.source[start : self.source.index("</table>", start)]
        rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, flags=re.S)
        return [[Page(cell).text for cell in re.findall(r"<t[hd].*?</t[hd]>", row, flags=re.S)] for row in rows]

    def has(self, name: str) -> bool:
        """Whether an element of this id is there."""
        return f'id="{name}"' in self.source

    def figure(self, name: str) -> str:
        """The SVG of a figure."""
        found = re.search(rf'id="figure-{name}"><img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]+)"', self.source)
        assert found, name
        return b64decode(found.group(1)).decode()
