"""Reads numbers back from where a drawing puts its points, bars and steps, as an attacker with a ruler would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

Point = tuple[float, float]
_NUMBER = r"[-\d.]+"


@dataclass(frozen=True)
class Panel:
    """One panel of a drawing, in the drawing's own units.

    Attributes:
        title: Above it.
        markers: Where points are.
        paths: Corners of bars, steps and lines, by path.
        bands: Corners of areas between two lines.
        x_ticks: Place and label of the marks on the horizontal axis that are numbers.
        y_ticks: The same on the vertical one.
    """

    title: str
    markers: tuple[Point, ...]
    paths: tuple[tuple[Point, ...], ...]
    bands: tuple[Point, ...]
    x_ticks: tuple[tuple[float, float], ...]
    y_ticks: tuple[tuple[float, float], ...]

    def x_values(self) -> list[float]:
        """What the points mean on the horizontal axis."""
        return [_by(self.x_ticks, x) for x, _ in self.markers]

    def y_values(self) -> list[float]:
        """What the points, and the edges of areas, mean on the vertical one."""
        return [_by(self.y_ticks, y) for _, y in (*self.markers, *self.bands)]

    def widths(self) -> list[float]:
        """How long each bar that lies on its side is, on the horizontal axis."""
        scale = _by(self.x_ticks, 1.0) - _by(self.x_ticks, 0.0)
        return [scale * (max(x for x, _ in path) - min(x for x, _ in path)) for path in self.paths]

    def steps(self) -> list[list[float]]:
        """For each path of steps, the height of every step, in no unit."""
        heights = []
        for path in self.paths:
            ground = max(y for _, y in path)
            flat = [(a, b) for a, b in pairwise(path) if a[1] == b[1] and b[0] > a[0]]
            heights.append([ground - a[1] for a, _ in flat])
        return heights


def _by(ticks: tuple[tuple[float, float], ...], place: float) -> float:
    (first, low), (last, high) = ticks[0], ticks[-1]
    return low + (place - first) * (high - low) / (last - first)


def panels_of(svg: str) -> list[Panel]:
    """The panels of a drawing; legends, axes and grids left out."""
    parts = re.split(r'<g id="axes_\d+">', svg)[1:]
    return [_panel(re.split(r'<g id="legend_\d+">', part)[0]) for part in parts]


def _panel(part: str) -> Panel:
    # The vertical axis comes last, and what is drawn after it.
    axes = [match.start() for match in re.finditer(r'<g id="matplotlib\.axis_\d+"', part)]
    body = part[axes[-1] :] if axes else part
    # What is drawn is cut off at the panel's edge; spines are not.
    body = re.sub(r'<g id="ytick_.*?</text>', "", body, flags=re.S)
    body, bands = _without_bands(body)
    shapes = re.findall(r'<path d="([^"]*)" clip-path=', body)
    marked = re.findall(rf'<use xlink:href="[^"]*" x="({_NUMBER})" y="({_NUMBER})"', body)
    titles = re.findall(r"font-weight: 700[^>]*>([^<]*)</text>", body)
    return Panel(
        " ".join(titles),
        tuple((float(x), float(y)) for x, y in marked),
        tuple(
            tuple((float(x), float(y)) for x, y in re.findall(rf"[ML] ({_NUMBER}) ({_NUMBER})", shape))
            for shape in shapes
        ),
        bands,
        _ticks(part, "x"),
        _ticks(part, "y"),
    )


def _without_bands(body: str) -> tuple[str, tuple[Point, ...]]:
    """A panel without its areas, and their corners: an area's shape is moved to its place as a whole."""
    band = r'<g id="FillBetween.*?<path id="[^"]*" d="([^"]*)".*?<use [^>]*y="([\d.]+)".*?</g>'
    corners = [
        (float(x), float(y) + float(down))
        for shape, down in re.findall(band, body, flags=re.S)
        for x, y in re.findall(rf"[ML] ({_NUMBER}) ({_NUMBER})", shape)
    ]
    return re.sub(band, "", body, flags=re.S), tuple(corners)


def _ticks(part: str, axis: str) -> tuple[tuple[float, float], ...]:
    pattern = rf'<g id="{axis}tick_\d+">.*?<use [^>]*\b{axis}="({_NUMBER})".*?>([^<]*)</text>'
    found = []
    for place, label in re.findall(pattern, part, flags=re.S):
        text = label.replace("−", "-").replace(",", "")
        if re.fullmatch(r"-?[\d.]+%?", text):
            found.append((float(place), float(text.rstrip("%")) / (100 if text.endswith("%") else 1)))
    return tuple(found)


def proportional(steps: list[float], counts: list[float]) -> bool:
    """Whether heights are those of these counts, in whatever unit."""
    if len(steps) != len(counts) or not sum(counts):
        return len(steps) == len(counts) and not sum(steps)
    return bool(np.allclose(np.array(steps) / sum(steps), np.array(counts) / sum(counts), atol=1e-4))
