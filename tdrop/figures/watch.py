"""Figures of a watch: evidence of each rule with its line, running means, and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdrop.figures.style import (
    FAINT,
    HIGHLIGHT,
    INK,
    MUTED,
    REFERENCE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WIDTH,
    Canvas,
    Drawing,
    styled,
)
from tdrop.watch import LINE, STOP_LINE, Moment

#: By rule, its title and the line at which it raises an alarm.
RULES = {
    "further": ("further away", LINE),
    "harm": ("harm without labels", LINE),
    "outcomes": ("known outcomes", STOP_LINE),
}
LINE_STYLE: dict[str, Any] = {"color": TARGET_COLOUR, "marker": "o", "markersize": 2.2, "linewidth": 1.2}
#: Evidence against an alarm is not drawn below this: it grows without end while all is well.
LOWEST = -2.0


@styled
def draw_evidence(history: Sequence[Moment]) -> Drawing | None:
    """Draws log10 of each rule's e-value over time with its line; None where there is nothing to draw."""
    if not any(moment.kind != "champion" for moment in history):
        return None
    canvas = Canvas(WIDTH, 0.6 + 1.3 * len(RULES), len(RULES), 1, sharex=True)
    texts = []
    for panel, (rule, (title, line)) in zip(canvas.panels.flat, RULES.items(), strict=True):
        limit = float(np.log10(line))
        values = [
            None if (wealth := moment.log_wealth.get(rule)) is None else wealth / np.log(10) for moment in history
        ]
        drawn = [None if value is None else max(LOWEST, value) for value in values]
        for spots in _runs(history, values):
            panel.plot([spot + 1 for spot in spots], [drawn[spot] for spot in spots], **LINE_STYLE)
        _mark(panel, history, f"{title}: log10 of the evidence", 0, limit)
        panel.set_ylim(LOWEST - 0.2, 1.15 * max([limit, *(value for value in drawn if value is not None)]))
        last = next((value for value in reversed(values) if value is not None), None)
        texts.append(f"{title} {'none' if last is None else f'{last:.1f}'}, alarm at {limit:.1f}")
    _dates(canvas, history)
    return canvas.finish("evidence", "Evidence of each rule over time", f"Last: {'; '.join(texts)}.")


@styled
def draw_running_means(history: Sequence[Moment], titles: Mapping[str, str], limit: float | None) -> Drawing | None:
    """Draws running means with their confidence sequences.

    Args:
        history: Moments, oldest first.
        titles: By quantity (place, review, loss), its title.
        limit: The largest mean place that is no reason for an alarm, or None.
    """
    names = [name for name in titles if any(name in moment.means for moment in history)]
    if not names:
        return None
    canvas = Canvas(WIDTH, 0.6 + 1.3 * len(names), len(names), 1, sharex=True)
    texts = []
    for panel, name in zip(canvas.panels.flat, names, strict=True):
        values = [moment.means.get(name) for moment in history]
        for spots in _runs(history, values):
            x = [spot + 1 for spot in spots]
            mean, low, high = np.array([values[spot] for spot in spots]).T
            panel.fill_between(x, low, high, color=TARGET_COLOUR, alpha=0.15, linewidth=0)
            panel.plot(x, mean, **LINE_STYLE)
        _mark(panel, history, titles[name], *((0.5, limit) if name == "place" and limit is not None else ()))
        panel.set_ylim(0, 1)
        last = next(value for value in reversed(values) if value is not None)
        texts.append(f"{titles[name]} {last[0]:.0%} ({last[1]:.0%} to {last[2]:.0%})")
    canvas.label(percent="y")
    _dates(canvas, history)
    return canvas.finish("means", "Running means with intervals that hold at all times", f"Last: {'; '.join(texts)}.")


@styled
def draw_watched_batches(history: Sequence[Moment], review: str) -> Drawing | None:
    """Draws per batch the shares for review, with a filled-in value, and set aside; None without a batch.

    Args:
        history: Moments, oldest first.
        review: Who is for review, as a title.
    """
    spots = [spot for spot, moment in enumerate(history) if moment.kind == "batch" and moment.patients]
    if not spots:
        return None
    canvas = Canvas(WIDTH, 2.6)
    batches = [history[spot] for spot in spots]
    shares = {
        review[:1].lower() + review[1:]: [_share(batch.review, batch.patients) for batch in batches],
        "a value was filled in": [_share(batch.filled_in, batch.read) for batch in batches],
        "set aside by the contract": [
            _share(batch.set_aside, batch.read + max(0, batch.set_aside)) for batch in batches
        ],
    }
    looks = ((TARGET_COLOUR, "o"), (SOURCE_COLOUR, "s"), (HIGHLIGHT, "^"))
    for (label, values), (colour, marker) in zip(shares.items(), looks, strict=True):
        style = {**LINE_STYLE, "color": colour, "marker": marker}
        canvas.panel.plot([spot + 1 for spot in spots], values, label=label, **style)
    _mark(canvas.panel, history)
    highest = float(np.nanmax([*(value for values in shares.values() for value in values), 0.0]))
    canvas.panel.set_ylim(0, max(0.1, 1.3 * highest))
    canvas.label(percent="y")
    _dates(canvas, history)
    last = "; ".join(
        f"{label} {'hidden' if np.isnan(values[-1]) else f'{values[-1]:.0%}'}" for label, values in shares.items()
    )
    return canvas.finish("watched", "Batches over time", f"{len(spots)} batches. Last: {last}.", "below")


def _share(count: int, rows: int) -> float:
    """A share; not a number where the count is hidden, which leaves a gap in a line."""
    return count / rows if rows and count >= 0 else float("nan")


def _runs(history: Sequence[Moment], values: Sequence[Any]) -> list[list[int]]:
    """Places of moments with a value, one list per champion: lines of two champions do not meet."""
    lists: list[list[int]] = []
    for spot, moment in enumerate(history):
        if moment.kind == "champion" or not lists:
            lists.append([])
        if values[spot] is not None:
            lists[-1].append(spot)
    return [spots for spots in lists if spots]


def _mark(
    panel: Any, history: Sequence[Moment], title: str = "", agreed: float | None = None, limit: float | None = None
) -> None:
    """Marks what was agreed and the limit, promotions by a line, and audits by a tick at the bottom."""
    if agreed is not None and limit is not None:
        panel.axhline(agreed, **REFERENCE)
        panel.axhline(limit, color=HIGHLIGHT, linewidth=1.0, linestyle=(0, (3, 2)))
    panel.set_title(title, fontsize=7)
    for spot, moment in enumerate(history, start=1):
        if moment.kind == "champion":
            panel.axvline(spot, color=INK, linewidth=0.8)
            panel.annotate(
                f"v{moment.champion}", (spot, 1), xycoords=("data", "axes fraction"), fontsize=6, color=MUTED,
                xytext=(2, -7), textcoords="offset points",
                # The line of an alarm may run behind it.
                bbox={"facecolor": "white", "linewidth": 0, "pad": 0.4}, zorder=5,
            )  # fmt: skip
        elif moment.outcomes:
            panel.axvline(spot, ymax=0.08, color=INK, linewidth=1.2)
    panel.tick_params(labelsize=6.5)
    panel.locator_params(axis="y", nbins=4)


def _dates(canvas: Canvas, history: Sequence[Moment]) -> None:
    """Writes the days of the first and last moments below the lowest panel."""
    lowest = canvas.panels[-1][0]
    lowest.set_xlim(0.5, len(history) + 0.5)
    spots = sorted({1, len(history)})
    lowest.set_xticks(spots, [history[spot - 1].when[:10] for spot in spots], fontsize=6.5)
    lowest.set_xlabel("in the order of batches; lines: promotions; ticks: outcomes", fontsize=7, color=MUTED)
    lowest.tick_params(axis="x", color=FAINT)
