"""Figures about patients: how the two sites differ and how well the matched ones agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdrop.figures.style import GRID, HIGHLIGHT, INK, MUTED, SOURCE_COLOUR, TARGET_COLOUR, Canvas

#: More features than this make a figure nobody reads; the table has the rest.
MOST_FEATURES = 15
MOST_DENSITIES = 6


def draw_balance(balance: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str | None:
    """Draws how far each feature's mean is from the target, before and after matching; None without features."""
    known = [row for row in balance if row.get("before") is not None]
    rows = sorted(known, key=lambda row: abs(row["before"]), reverse=True)[:MOST_FEATURES][::-1]
    if not rows:
        return None
    canvas = Canvas(6.4, 0.9 + 0.26 * len(rows))
    panel = canvas.panels[0][0]
    height = np.arange(len(rows))
    panel.axvspan(-0.1, 0.1, color="#eef2f6", zorder=0)
    panel.axvline(0, color=MUTED, linewidth=0.8)
    before = [row["before"] for row in rows]
    after = [np.nan if row.get("after") is None else row["after"] for row in rows]
    for y, start, end in zip(height, before, after, strict=True):
        if np.isfinite(end):
            panel.plot([start, end], [y, y], color=GRID, linewidth=2, zorder=1)
    panel.scatter(before, height, color=SOURCE_COLOUR, marker="o", s=26, label="all source patients", zorder=2)
    panel.scatter(after, height, color=HIGHLIGHT, marker="D", s=24, label="matched source patients", zorder=3)
    panel.set_yticks(height, [titles.get(row["feature"], row["feature"]) for row in rows])
    panel.grid(axis="y", visible=False)
    panel.set_xlabel("difference to the new site, in standard deviations (grey band: alike)")
    canvas.figure.legend(loc="outside upper center", ncols=2)
    return canvas.svg(
        "balance",
        "Difference of each feature before and after matching",
        f"{len(rows)} features; a dot near zero means that the source patients resemble the new site's.",
    )


def draw_densities(
    features: Sequence[Mapping[str, Any]], titles: Mapping[str, str], order: Sequence[str]
) -> str | None:
    """Draws the distributions of the features that differ most, source against target.

    Args:
        features: `Shift.features` as dicts, with counts on common edges; a hidden count is None.
        titles: By feature, its name for people.
        order: Columns, those that differ most first.
    """
    ranked = sorted(
        (row for row in features if row.get("kind") in ("continuous", "binary") and row.get("density")),
        key=lambda row: order.index(row["column"]) if row["column"] in order else len(order),
    )[:MOST_DENSITIES]
    if not ranked:
        return None
    columns = min(3, len(ranked))
    lines = -(-len(ranked) // columns)
    canvas = Canvas(7.2, 0.5 + 1.9 * lines, lines, columns)
    for panel, row in zip(canvas.panels.flat, ranked, strict=False):
        _draw_density(panel, row, titles.get(row["feature"], row["feature"]))
    for panel in list(canvas.panels.flat)[len(ranked) :]:
        panel.set_axis_off()
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside upper center", ncols=2)
    shown = ", ".join(titles.get(row["feature"], row["feature"]) for row in ranked)
    return canvas.svg("densities", "How the patients differ", f"Distribution at both sites of: {shown}.")


def _draw_density(panel: Any, row: Mapping[str, Any], title: str) -> None:
    edges = np.asarray(row["density"]["edges"], dtype=np.float64)
    for side, colour in (("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)):
        counts = np.asarray([np.nan if count is None else count for count in row["density"][side]], dtype=np.float64)
        total = np.nansum(counts)
        share = np.nan_to_num(100 * counts / total) if total else np.zeros(len(counts))
        name = "source" if side == "source" else "this site"
        panel.stairs(
            share, edges, color=colour, fill=side == "source", alpha=0.35 if side == "source" else 1.0, label=name
        )
    panel.set_title(title)
    panel.set_yticks([])
    panel.grid(visible=False)
    panel.spines["left"].set_visible(False)
    panel.tick_params(labelsize=8, colors=INK)
