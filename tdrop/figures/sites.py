"""Figures about patients: how the two sites differ and how well the matched ones agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from tdrop.figures.style import GRID, HIGHLIGHT, INK, MUTED, SOURCE_COLOUR, TARGET_COLOUR, Canvas, styled

#: More features than this make a figure nobody reads; the table has the rest.
MOST_FEATURES = 15
MOST_DENSITIES = 6


@styled
def draw_balance(balance: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> str | None:
    """Draws how far each feature's mean is from the target, before and after matching; None without features."""
    known = [row for row in balance if row.get("before") is not None]
    rows = sorted(known, key=lambda row: abs(row["before"]), reverse=True)[:MOST_FEATURES][::-1]
    if not rows:
        return None
    canvas = Canvas(7.2, 0.9 + 0.24 * len(rows))
    panel = canvas.panels[0][0]
    height = np.arange(len(rows))
    panel.axvspan(-0.1, 0.1, color="#eef2f6", zorder=0)
    panel.axvline(0, color=MUTED, linewidth=0.8)
    before = [row["before"] for row in rows]
    after = [np.nan if row.get("after") is None else row["after"] for row in rows]
    for y, start, end in zip(height, before, after, strict=True):
        if np.isfinite(end):
            panel.plot([start, end], [y, y], color=GRID, linewidth=2, zorder=1)
    panel.scatter(before, height, color=SOURCE_COLOUR, marker="o", s=22, label="all source patients", zorder=2)
    panel.scatter(after, height, color=HIGHLIGHT, marker="D", s=20, label="matched source patients", zorder=3)
    panel.set_yticks(height, [titles.get(row["feature"], row["feature"]) for row in rows])
    panel.grid(axis="y", visible=False)
    panel.set_xlabel("difference to this site, in standard deviations (grey band: alike)")
    canvas.figure.legend(loc="outside upper center", ncols=2)
    return canvas.svg(
        "balance",
        "Difference of each feature before and after matching",
        f"{len(rows)} features; a dot near zero means that the source patients resemble this site's.",
    )


@styled
def draw_densities(
    features: Sequence[Mapping[str, Any]],
    titles: Mapping[str, str],
    order: Sequence[str] = (),
    ticks: Mapping[str, Mapping[float, str]] | None = None,
) -> str | None:
    """Draws the distributions of the features that differ most, source against target.

    Args:
        features: `Shift.features` as dicts, with counts on common edges; a hidden count is None.
        titles: By feature, its name for people.
        order: Columns, those that differ most first.
        ticks: By feature, names of some of its values, such as {1: "T1"}.
    """
    ranked = sorted(
        (row for row in _whole_columns(features) if _varies(row)),
        key=lambda row: order.index(row["column"]) if row["column"] in order else len(order),
    )[:MOST_DENSITIES]
    if not ranked:
        return None
    columns = min(3, len(ranked))
    lines = -(-len(ranked) // columns)
    canvas = Canvas(7.2, 0.5 + 1.75 * lines, lines, columns)
    for panel, row in zip(canvas.panels.flat, ranked, strict=False):
        named = row.get("ticks") or ({0: "no", 1: "yes"} if row["kind"] == "binary" else {})
        names = (ticks or {}).get(row["feature"], named)
        _draw_density(panel, row, titles.get(row["feature"], row["feature"]), names)
    canvas.blank_from(len(ranked))
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside upper center", ncols=2)
    shown = ", ".join(titles.get(row["feature"], row["feature"]) for row in ranked)
    return canvas.svg("densities", "How the patients differ", f"Distribution at both sites of: {shown}.")


def _whole_columns(features: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Puts the levels of a categorical column together; one with a hidden level is left out."""
    rows = [row for row in features if row.get("kind") in ("continuous", "binary")]
    levels: dict[str, list[Mapping[str, Any]]] = {}
    for row in features:
        if row.get("kind") == "level":
            levels.setdefault(row["column"], []).append(row)
    for column, items in levels.items():
        if any(not item.get("density") or len(item["density"]["source"]) < 2 for item in items):
            continue
        names = {float(place): str(item["feature"]).partition("=")[2] for place, item in enumerate(items)}
        counts = {side: [item["density"][side][1] for item in items] for side in ("source", "target")}
        edges = (np.arange(len(items) + 1) - 0.5).tolist()
        rows.append({"feature": column, "column": column, "kind": "categorical", "ticks": names,
                     "density": {"edges": edges, **counts}})  # fmt: skip
    return rows


def _varies(row: Mapping[str, Any]) -> bool:
    density = row.get("density")
    return density is not None and len(density["edges"]) > 2


def _draw_density(panel: Any, row: Mapping[str, Any], title: str, ticks: Mapping[float, str]) -> None:
    edges = np.asarray(row["density"]["edges"], dtype=np.float64)
    for side, colour in (("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)):
        counts = np.asarray([0 if count is None else count for count in row["density"][side]], dtype=np.float64)
        share = counts / counts.sum() if counts.sum() else counts
        filled = side == "source"
        name = "source" if filled else "this site"
        panel.stairs(share, edges, color=colour, fill=filled, alpha=0.3 if filled else 1.0, linewidth=1.5, label=name)
    panel.set_title("\n".join(wrap(title, 30)))
    panel.set_yticks([])
    panel.set_ylim(bottom=0)
    if ticks:
        crowded = len(ticks) > 3 and sum(map(len, ticks.values())) > 24
        names = [f"{name[:8]}…" if crowded and len(name) > 9 else name for name in ticks.values()]
        panel.set_xticks(list(ticks), names)
    panel.grid(visible=False)
    panel.spines["left"].set_visible(False)
    panel.tick_params(labelsize=8, colors=INK)


@styled
def draw_propensity(histogram: Mapping[str, Any] | None) -> str | None:
    """Draws how target-like the patients of both sites are; where the two do not overlap, a model guesses."""
    if histogram is None:
        return None
    canvas = Canvas(7.2, 2.3)
    panel = canvas.panels[0][0]
    row = {"density": histogram, "kind": "continuous"}
    _draw_density(panel, row, "", {0: "like the source", 0.5: "no telling", 1: "like this site"})
    canvas.figure.legend(loc="outside upper center", ncols=2)
    return canvas.svg(
        "propensity",
        "Overlap of the two sites",
        "Both sites' patients by how much they look like this site's; overlapping areas mean comparable patients.",
    )
