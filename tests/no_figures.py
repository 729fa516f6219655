"""Pages without figures, for tests in which these are not the subject: drawing is half of a small transfer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdrop.figures.style import Canvas, Drawing


class Undrawn:
    """A figure, a panel or any part of one: takes whatever is drawn on it and keeps how many lines have a name."""

    def __getattr__(self, name: str) -> Undrawn:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Undrawn:
        return self

    def __getitem__(self, _: Any) -> Undrawn:
        return self

    def set_yticks(self, places: Any, *_: Any, **__: Any) -> None:
        self.lines = len(places)

    def get_yticklabels(self) -> list[Undrawn]:
        return [self] * self.lines


def leave_figures_empty(put: Callable[[object, str, Any], None]) -> None:
    """Replaces what a canvas has drawn by an empty figure, within this process; `put` sets an attribute."""

    def prepare(canvas: Any, width: float, height: float, rows: int = 1, columns: int = 1, **_: Any) -> None:
        canvas.figure, canvas.panels = Undrawn(), np.empty((rows, columns), dtype=object)
        canvas.panels[:] = [[Undrawn() for _ in range(columns)] for _ in range(rows)]

    def finish(_: Any, name: str, title: str, description: str, legend: str | None = None) -> Drawing:
        return Drawing(name, "<svg/>", f"{title}. {description}")

    put(Canvas, "__init__", prepare)
    put(Canvas, "finish", finish)
