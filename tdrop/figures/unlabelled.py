"""What unlabelled patients did to the risks of a method that used them."""

from __future__ import annotations

from typing import Any

from tdrop.evaluate import Moved
from tdrop.figures.style import HIGHLIGHT, MUTED, SOURCE_COLOUR, WIDTH, Canvas, styled


@styled
def draw_moved(moved: Moved) -> str | None:
    """Draws how far risks moved by distance from the source and, with outcomes, reliability before and after.

    Every point is a mean of many patients; None where there are too few for a group.
    """
    if not moved.groups:
        return None
    lines = 1 if moved.reliability is None else 2
    canvas = Canvas(WIDTH, 2.2 * lines, lines)
    _draw_distance(canvas.panels[0][0], moved)
    if moved.reliability is not None:
        _draw_reliability(canvas.panels[1][0], moved)
    told = "Patients in groups, from most to least like the source; how far the unlabelled patients moved their risks"
    rest = "." if moved.reliability is None else "; below it observed against predicted risk, without and with them."
    return canvas.svg(f"moved-{moved.method.replace('_', '-')}", "What the unlabelled patients did", told + rest)


def _draw_distance(panel: Any, moved: Moved) -> None:
    places = range(1, len(moved.groups) + 1)
    panel.bar(places, [100 * group.moved for group in moved.groups], color=HIGHLIGHT, alpha=0.85, width=0.7)
    names = ["most", *[""] * (len(moved.groups) - 2), "least"] if len(moved.groups) > 1 else ["all"]
    panel.set_xticks(list(places), names)
    panel.set_xlabel("how much patients are like the source")
    panel.set_ylabel("risk moved by (points)")
    panel.set_ylim(bottom=0)
    panel.grid(axis="x", visible=False)
    panel.set_title("How far risks moved")


def _draw_reliability(panel: Any, moved: Moved) -> None:
    assert moved.reliability is not None
    largest = max(value for each in moved.reliability for value in (*each.risk, *each.rate))
    panel.plot([0, largest], [0, largest], color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
    looks = (("without them", SOURCE_COLOUR, "o"), ("with them", HIGHLIGHT, "D"))
    for each, (label, colour, marker) in zip(moved.reliability, looks, strict=True):
        panel.plot(each.risk, each.rate, color=colour, marker=marker, markersize=4, linewidth=1.3, label=label)
    panel.set_xlabel("predicted risk")
    panel.set_ylabel("observed share")
    panel.set_title("Are the risks right?")
    panel.legend(loc="upper left")
