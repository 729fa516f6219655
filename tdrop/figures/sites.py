"""Figures that set sites side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from textwrap import shorten

import numpy as np

from tdrop.data import FollowUp, chance_still_followed
from tdrop.figures.style import (
    HIGHLIGHT,
    REFERENCE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WIDTH,
    Canvas,
    Drawing,
    percent_axes,
    styled,
)

#: Letters of a site's name beside its line.
_LONGEST_NAME = 26
#: From the middle of a site's line to each of its two intervals.
_APART = 0.14
#: Points of a curve over time.
_TIMES = 100


@dataclass(frozen=True)
class SiteLine:
    """What is drawn of one site.

    Attributes:
        name: Its name for people.
        expected: Its forecast number, such as an AUROC, with the ends of its interval, or None.
        observed: The number that outcomes showed, or None.
        review: Share of its patients who are referred for review, or None.
        observed_ends: Ends of the observed number's interval, or None where that is not drawn.
    """

    name: str
    expected: tuple[float, float, float] | None = None
    observed: float | None = None
    review: float | None = None
    observed_ends: tuple[float, float] | None = None


def draw_site_ranking(sites: Sequence[SiteLine]) -> Drawing | None:
    """Draws the forecast AUROC of every site with its interval, and what was observed; None without any."""
    return draw_site_number(sites, "ranking", "Ranking: AUROC", 0.5)


@styled
def draw_site_number(
    sites: Sequence[SiteLine], name: str, title: str, reference: float | None = None
) -> Drawing | None:
    """Draws a number of every site: forecast and observed, with their intervals; None without any.

    Args:
        sites: One line each.
        name: Of the drawing.
        title: What the number is.
        reference: A value to compare with, such as that of guessing, or None.
    """
    if not any(site.expected or site.observed is not None for site in sites):
        return None
    canvas = _canvas(sites)
    panel = canvas.panel
    for place, site in enumerate(sites):
        # Two intervals of a site lie one above the other.
        apart = 0.0 if site.observed_ends is None else _APART
        height, below = place - apart, place + apart
        if site.expected is not None:
            value, low, high = site.expected
            panel.plot([low, high], [height, height], color=TARGET_COLOUR, linewidth=2)
            panel.plot([value], [height], color=TARGET_COLOUR, marker="o", markersize=5, linestyle="")
        if site.observed is not None:
            panel.plot([site.observed], [below], color=HIGHLIGHT, marker="D", markersize=5, linestyle="", zorder=3)
        if site.observed_ends is not None:
            panel.plot(site.observed_ends, [below, below], color=HIGHLIGHT, linewidth=1)
    if reference is not None:
        panel.axvline(reference, **REFERENCE)
    panel.set_title(title)
    return canvas.finish(name, f"{title}, by site", "Forecast with its interval, and what was observed with its own.")


@styled
def draw_site_reviews(sites: Sequence[SiteLine]) -> Drawing | None:
    """Draws which share of every site's patients is referred for review; None where that is known of none."""
    if all(site.review is None for site in sites):
        return None
    canvas = _canvas(sites)
    panel = canvas.panel
    for height, site in enumerate(sites):
        if site.review is not None:
            panel.barh(height, site.review, height=0.5, color=TARGET_COLOUR, alpha=0.55)
            panel.text(site.review, height, f" {site.review:.0%}", va="center", fontsize=8)
    panel.set_xlim(0, 1.15 * max(site.review or 0 for site in sites) or 1)
    percent_axes(panel.xaxis)
    panel.set_title("Referred for review")
    panel.set_xlabel("share of the patients")
    return canvas.finish("reviews", "Patients for review by site", "Share of each site's patients who are reviewed.")


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
        label = shorten(name, _LONGEST_NAME, placeholder=" …")
        panel.plot(at, chance_still_followed(site, at), color=colour, linestyle=dash, label=label)
    panel.set(xlim=(0, horizon), ylim=(0, 1.02))
    percent_axes(panel.yaxis)
    panel.set_xlabel(f"time ({unit})")
    panel.set_ylabel("still followed")
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.finish("follow_up", "Follow-up by site", "Share of patients still followed, by time to the horizon.")


def _canvas(sites: Sequence[SiteLine]) -> Canvas:
    canvas = Canvas(WIDTH, 0.9 + 0.24 * len(sites))
    panel = canvas.panel
    panel.grid(axis="y", visible=False)
    panel.set_ylim(len(sites) - 0.4, -0.6)
    names = [shorten(site.name, _LONGEST_NAME, placeholder=" …") for site in sites]
    panel.set_yticks(range(len(sites)), names)
    return canvas
