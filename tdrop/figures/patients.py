"""Figures about patients: how the two sites differ, where rows went, who is referred, how long they were followed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from textwrap import shorten, wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Count, Doubles, Summary, written
from tdrop.data import FollowUp, chance_still_followed
from tdrop.disclosure import shown_parts
from tdrop.figures.style import (
    GRID,
    HIGHLIGHT,
    INK,
    MUTED,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WIDTH,
    Canvas,
    Drawing,
    styled,
)
from tdrop.shift import Balance, Density, FeatureShift

#: More features than this make a figure nobody reads; the table has the rest.
MOST_FEATURES = 15
MOST_DENSITIES = 6
#: Letters of a category's name below its bar: slanting, longer ones run into the next panel.
LONGEST_TICK = 14
#: Letters of a site's name in a legend.
_LONGEST_SITE = 26
#: Points of a curve over time.
_TIMES = 100


@styled
def draw_balance(balance: Sequence[Balance], titles: Mapping[str, str]) -> Drawing | None:
    """Draws how far each feature's mean is from the target, before and after matching; None without features."""
    known = [(row.before, row) for row in balance if row.before is not None]
    rows = sorted(known, key=lambda pair: abs(pair[0]), reverse=True)[:MOST_FEATURES][::-1]
    if not rows:
        return None
    names = ["\n".join(wrap(titles.get(row.feature, row.feature), 28)) for _, row in rows]
    spaces = [1.0 + 0.75 * name.count("\n") for name in names]
    canvas = Canvas(WIDTH, 1.0 + 0.2 * sum(spaces))
    panel = canvas.panel
    height = np.cumsum(spaces) - np.asarray(spaces) / 2
    panel.axvspan(-0.1, 0.1, color="#eef2f6", zorder=0)
    panel.axvline(0, color=MUTED, linewidth=0.8)
    before = [start for start, _ in rows]
    after = [np.nan if row.after is None else row.after for _, row in rows]
    for y, start, end in zip(height, before, after, strict=True):
        if np.isfinite(end):
            panel.plot([start, end], [y, y], color=GRID, linewidth=2, zorder=1)
    panel.scatter(before, height, color=SOURCE_COLOUR, marker="o", s=22, label="all source patients", zorder=2)
    panel.scatter(after, height, color=HIGHLIGHT, marker="D", s=20, label="matched source patients", zorder=3)
    panel.set_yticks(height, names)
    panel.tick_params(axis="y", labelsize=7.5)
    panel.grid(axis="y", visible=False)
    canvas.label("standard deviations from this site")
    meaning = f"{len(rows)} features; a dot near zero means that the source patients resemble this site's."
    return canvas.finish("balance", "Difference of each feature before and after matching", meaning, "above")


@styled
def draw_densities(
    features: Sequence[FeatureShift],
    titles: Mapping[str, str],
    order: Sequence[str] = (),
    ticks: Mapping[str, Mapping[float, str]] | None = None,
) -> Drawing | None:
    """Draws the distributions of the features that differ most, source against target.

    Args:
        features: Those of a `Shift`; a hidden bar is not drawn.
        titles: By feature, its name for people.
        order: Columns, those that differ most first.
        ticks: By feature, or by column where its levels are drawn together, names of its values, such as {1: "T1"}.
    """
    ranked = sorted(
        (histogram for histogram in _histograms(features) if len(histogram.density.edges) > 2),
        key=lambda histogram: order.index(histogram.column) if histogram.column in order else len(order),
    )[:MOST_DENSITIES]
    if not ranked:
        return None
    columns = min(2, len(ranked))
    lines = -(-len(ranked) // columns)
    canvas = Canvas(WIDTH, 0.4 + 1.4 * lines, lines, columns)
    for panel, row in zip(canvas.panels.flat, ranked, strict=False):
        names = (ticks or {}).get(row.name, row.ticks)
        _draw_density(panel, row.density, titles.get(row.name, row.name), names)
    canvas.blank_from(len(ranked))
    shown = ", ".join(titles.get(row.name, row.name) for row in ranked)
    return canvas.finish("densities", "How the patients differ", f"Distribution at both sites of: {shown}.", "above")


@dataclass(frozen=True)
class _Histogram:
    """One panel: a feature, or the levels of a column together."""

    name: str
    column: str
    density: Density
    ticks: Mapping[float, str] = field(default_factory=dict)


def _histograms(features: Sequence[FeatureShift]) -> list[_Histogram]:
    """Puts the levels of a categorical column together; one with a hidden level is left out."""
    histograms = [
        _Histogram(row.feature, row.column, row.density, {0: "no", 1: "yes"} if row.kind == "binary" else {})
        for row in features
        if row.kind in ("continuous", "binary")
    ]
    levels: dict[str, list[FeatureShift]] = {}
    for row in features:
        if row.kind == "level":
            levels.setdefault(row.column, []).append(row)
    for column, items in levels.items():
        if all(len(item.density.source) > 1 for item in items):
            names = {float(place): item.feature for place, item in enumerate(items)}
            edges = tuple((np.arange(len(items) + 1) - 0.5).tolist())
            source, target = (tuple(getattr(item.density, side)[1] for item in items) for side in ("source", "target"))
            histograms.append(_Histogram(column, column, Density(edges, source, target), names))
    return histograms


def _draw_density(
    panel: Any, density: Density, title: str, ticks: Mapping[float, str], *, slanting: bool = True
) -> None:
    edges = np.asarray(density.edges, dtype=np.float64)
    for side, bars, colour in (("source", density.source, SOURCE_COLOUR), ("target", density.target, TARGET_COLOUR)):
        counts = np.asarray([bar if isinstance(bar, int) else 0 for bar in bars], dtype=np.float64)
        share = counts / counts.sum() if counts.sum() else counts
        filled = side == "source"
        name = "source" if filled else "this site"
        panel.stairs(share, edges, color=colour, fill=filled, alpha=0.3 if filled else 1.0, linewidth=1.5, label=name)
    panel.set_title("\n".join(wrap(title, 24)), fontsize=8)
    panel.set_yticks([])
    panel.set_ylim(bottom=0)
    # A logarithm has more natural values than its axis shows.
    ticks = {place: name for place, name in ticks.items() if edges[0] - 1e-6 <= place <= edges[-1] + 1e-6}
    if ticks:
        names = [f"{name[: LONGEST_TICK - 1]}…" if len(name) > LONGEST_TICK else name for name in ticks.values()]
        crowded = sum(map(len, names)) > 20 and len(names) > 2
        panel.set_xticks(list(ticks), names, **({"rotation": 25, "ha": "right"} if crowded and slanting else {}))
    panel.grid(visible=False)
    panel.spines["left"].set_visible(False)
    panel.tick_params(labelsize=7.5, colors=INK)


@styled
def draw_propensity(histogram: Density | None) -> Drawing | None:
    """Draws how target-like the patients of both sites are; where the two do not overlap, a model guesses."""
    if histogram is None:
        return None
    canvas = Canvas(WIDTH, 2.0)
    _draw_density(canvas.panel, histogram, "", {0: "the source", 0.5: "no telling", 1: "this site"}, slanting=False)
    meaning = "Both sites' patients by how much they look like this site's; overlapping areas mean comparable patients."
    return canvas.finish("propensity", "Overlap of the two sites", meaning, "above")


@styled
def draw_attrition(steps: Mapping[str, Count | None], lost: Collection[str] = ()) -> Drawing | None:
    """Draws one bar per step with its count; a hidden count has its mark and no bar.

    Args:
        steps: By name, in order, rows; None where they are not known.
        lost: Names of steps that take rows away.
    """
    known = {name: rows for name, rows in steps.items() if rows is not None}
    if not any(isinstance(rows, int) and rows > 0 for rows in known.values()):
        return None
    canvas = Canvas(WIDTH, 0.5 + 0.28 * len(known))
    panel = canvas.panel
    most = max(rows for rows in known.values() if isinstance(rows, int))
    for height, (name, rows) in enumerate(known.items()):
        length = rows if isinstance(rows, int) else 0
        panel.barh(height, length, height=0.6, color=SOURCE_COLOUR if name in lost else TARGET_COLOUR, alpha=0.55)
        panel.text(length + 0.01 * most, height, written(rows), va="center", fontsize=8, color=INK)
    panel.set_yticks(range(len(known)), list(known))
    panel.set_xlim(0, 1.2 * most)
    panel.set_ylim(len(known) - 0.5, -0.5)
    canvas.label("rows")
    panel.locator_params(axis="x", nbins=4)
    panel.grid(axis="y", visible=False)
    counts = "; ".join(f"{name} {written(rows)}" for name, rows in known.items())
    return canvas.finish("attrition", "Rows from extract to evaluation", f"{counts}.")


@styled
def draw_risk_histogram(summary: Summary, referred: NDArray[np.bool_], level: float, hide_below: int = 0) -> Drawing:
    """Draws how many patients have which risk, and which of them are referred (chosen method, first seed)."""
    edges, used, reviewed = risk_bars(summary, referred, hide_below)
    canvas = Canvas(WIDTH, 2.6)
    panel = canvas.panel
    centre, width = (edges[:-1] + edges[1:]) / 2, 0.92 * edges[1]
    panel.bar(centre, used, width=width, color=TARGET_COLOUR, alpha=0.4, label="the model's risk can be used")
    panel.bar(
        centre, reviewed, width=width, bottom=used, color=HIGHLIGHT, hatch="////", edgecolor="white", linewidth=0,
        label="referred for review by a clinician",
    )  # fmt: skip
    panel.axvline(level, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    panel.text(level, 1.0, f" risk level {level:.0%}", transform=panel.get_xaxis_transform(), va="bottom", fontsize=7.5)
    canvas.label("predicted risk", "patients", percent="x")
    panel.grid(axis="x", visible=False)
    counts = f"{len(summary.mean):,} patients by predicted risk; {int(referred.sum()):,} of them are referred."
    hidden = f"Patients by predicted risk and referral; bars of fewer than {hide_below} patients are not drawn."
    return canvas.finish("risks", "Predicted risks and referrals", hidden if hide_below else counts, "below")


def risk_bars(summary: Summary, referred: NDArray[np.bool_], hide_below: int = 0) -> tuple[Doubles, Doubles, Doubles]:
    """Returns edges of bars of risks (bars + 1,) and patients who are not and who are referred (bars,).

    Where counts are hidden, the bars are wider, and those of few patients are empty.
    """
    edges = np.linspace(0, 1, 21 if hide_below else 31)
    used, reviewed = (np.histogram(summary.mean[mask], edges)[0].astype(float) for mask in (~referred, referred))
    if not hide_below:
        return edges, used, reviewed
    return edges, _rounded(used, hide_below), _rounded(reviewed, hide_below)


def _rounded(counts: Doubles, hide_below: int) -> Doubles:
    """Bars as they may leave; those of few patients are empty."""
    shown = shown_parts([int(count) for count in counts], hide_below)
    return np.asarray([bar if isinstance(bar, int) else 0 for bar in shown], dtype=np.float64)


@styled
def draw_follow_up(sites: Mapping[str, FollowUp], unit: str) -> Drawing | None:
    """Draws the share of each site's patients still followed as time goes to the horizon; None without any site.

    Args:
        sites: By site's name for people, the follow-up of its patients.
        unit: Of their times.
    """
    if not sites:
        return None
    canvas = Canvas(WIDTH, 2.8)
    panel = canvas.panel
    horizon = max(site.horizon for site in sites.values())
    at = np.linspace(0.0, horizon, _TIMES)
    for (name, site), dash in zip(sites.items(), cycle(("-", (0, (5, 2)), (0, (1, 1.5)))), strict=False):
        colour = TARGET_COLOUR if name == list(sites)[-1] else SOURCE_COLOUR
        label = shorten(name, _LONGEST_SITE, placeholder=" …")
        panel.plot(at, chance_still_followed(site, at), color=colour, linestyle=dash, label=label)
    panel.set(xlim=(0, horizon), ylim=(0, 1.02))
    canvas.label(f"time ({unit})", "still followed", percent="y")
    meaning = "Share of patients still followed, by time to the horizon."
    return canvas.finish("follow_up", "Follow-up by site", meaning, "below")
