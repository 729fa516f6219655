"""The figure of rows on their way from the extract to the evaluation."""

from __future__ import annotations

from collections.abc import Mapping

from tdrop.figures.style import INK, SOURCE_COLOUR, TARGET_COLOUR, Canvas, styled


@styled
def draw_attrition(steps: Mapping[str, int | str | None], lost: frozenset[str] = frozenset()) -> str | None:
    """Draws a bar a step with its count; a hidden count has its mark and no bar.

    Args:
        steps: By name, in order, rows; a text stands for a hidden count, None for an unknown one.
        lost: Names of steps that take rows away.
    """
    known = {name: rows for name, rows in steps.items() if rows is not None}
    if not any(isinstance(rows, int) and rows > 0 for rows in known.values()):
        return None
    canvas = Canvas(7.2, 0.5 + 0.32 * len(known))
    panel = canvas.panels[0][0]
    most = max(rows for rows in known.values() if isinstance(rows, int))
    for height, (name, rows) in enumerate(known.items()):
        length = rows if isinstance(rows, int) else 0
        panel.barh(height, length, height=0.6, color=SOURCE_COLOUR if name in lost else TARGET_COLOUR, alpha=0.55)
        told = f"{rows:,}" if isinstance(rows, int) else rows
        panel.text(length + 0.01 * most, height, told, va="center", fontsize=8.5, color=INK)
    panel.set_yticks(range(len(known)), list(known))
    panel.set_xlim(0, 1.12 * most)
    panel.set_ylim(len(known) - 0.5, -0.5)
    panel.set_xlabel("rows")
    panel.grid(axis="y", visible=False)
    told = "; ".join(f"{name} {rows:,}" if isinstance(rows, int) else f"{name} {rows}" for name, rows in known.items())
    return canvas.svg("attrition", "Rows from extract to evaluation", f"{told}.")
