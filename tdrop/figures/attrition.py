"""The figure of rows on their way from the extract to the evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from tdrop.base import Count, written
from tdrop.figures.style import INK, SOURCE_COLOUR, TARGET_COLOUR, WIDTH, Canvas, styled


@styled
def draw_attrition(steps: Mapping[str, Count | None], lost: frozenset[str] = frozenset()) -> str | None:
    """Draws a bar a step with its count; a hidden count has its mark and no bar.

    Args:
        steps: By name, in order, rows; None where they are not known.
        lost: Names of steps that take rows away.
    """
    known = {name: rows for name, rows in steps.items() if rows is not None}
    if not any(isinstance(rows, int) and rows > 0 for rows in known.values()):
        return None
    canvas = Canvas(WIDTH, 0.5 + 0.28 * len(known))
    panel = canvas.panels[0][0]
    most = max(rows for rows in known.values() if isinstance(rows, int))
    for height, (name, rows) in enumerate(known.items()):
        length = rows if isinstance(rows, int) else 0
        panel.barh(height, length, height=0.6, color=SOURCE_COLOUR if name in lost else TARGET_COLOUR, alpha=0.55)
        panel.text(length + 0.01 * most, height, written(rows), va="center", fontsize=8, color=INK)
    panel.set_yticks(range(len(known)), list(known))
    panel.set_xlim(0, 1.2 * most)
    panel.set_ylim(len(known) - 0.5, -0.5)
    panel.set_xlabel("rows")
    panel.locator_params(axis="x", nbins=4)
    panel.grid(axis="y", visible=False)
    told = "; ".join(f"{name} {written(rows)}" for name, rows in known.items())
    return canvas.svg("attrition", "Rows from extract to evaluation", f"{told}.")
