"""Forest plots: a number with its interval, one line per method or per site, always on the same scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from tdrop.evaluate import Evaluation
from tdrop.figures.style import HIGHLIGHT, REFERENCE, TARGET_COLOUR, WIDTH, Canvas, Drawing, look, styled
from tdrop.metrics import METRICS

#: Letters of a name beside its line, of which there are two at most.
_LONGEST_NAME = 24
#: Inches of a line of text.
_TEXT_LINE = 0.14
#: From the middle of a site's line to each of its two intervals.
_APART = 0.14


@dataclass(frozen=True)
class Mark:
    """A value with its interval, as it is drawn on a line.

    Attributes:
        value: The value.
        ends: Ends of its interval, or None.
        colour: Of both.
        marker: Of the value.
        width: Of the interval.
        shift: How far below the middle of the line.
    """

    value: float
    ends: tuple[float, float] | None
    colour: str
    marker: str
    width: float = 2.0
    shift: float = 0.0


def _draw_lines(
    panel: Any, lines: Sequence[tuple[str, Sequence[Mark]]], title: str, reference: float | None = None
) -> None:
    for place, (_, marks) in enumerate(lines):
        for mark in marks:
            height = place + mark.shift
            if mark.ends is not None:
                panel.plot(mark.ends, [height, height], color=mark.colour, linewidth=mark.width)
            panel.plot([mark.value], [height], color=mark.colour, marker=mark.marker, markersize=5, linestyle="")
    if reference is not None:
        panel.axvline(reference, **REFERENCE)
    _name_lines(panel, [name for name, _ in lines], title)


def _wrapped(name: str) -> str:
    return "\n".join(wrap(name, _LONGEST_NAME, max_lines=2, placeholder=" …"))


def _height_of(names: Sequence[str]) -> float:
    """Inches of a figure with a line per name."""
    return 0.9 + len(names) * (0.24 + _TEXT_LINE * any("\n" in _wrapped(name) for name in names))


def _name_lines(panel: Any, names: Sequence[str], title: str) -> None:
    panel.set_yticks(range(len(names)), list(map(_wrapped, names)))
    panel.set_ylim(len(names) - 0.4, -0.6)
    panel.grid(axis="y", visible=False)
    panel.set_title(title)


@styled
def draw_metric(
    evaluation: Evaluation, name: str, naming: Callable[[str], str], chosen: str, span: tuple[float, float]
) -> Drawing | None:
    """Draws a metric with its intervals, one line per method.

    Args:
        evaluation: The numbers.
        name: The metric, whose name is also the figure's.
        naming: A method's name for people.
        chosen: The method in bold.
        span: Ends of the axis, so that several figures have one scale; see `metric_span`.
    """
    lines = []
    for method in evaluation.methods:
        row, style = evaluation.row(method, name), look(method)
        if row is not None and row.value is not None:
            ends = None if row.low is None or row.high is None else (row.low, row.high)
            lines.append((method, [Mark(row.value, ends, style.colour, style.marker)]))
    if not lines:
        return None
    canvas = Canvas(WIDTH, 0.6 + 0.19 * len(lines))
    _draw_lines(canvas.panel, [(naming(method), marks) for method, marks in lines], METRICS[name].title)
    canvas.panel.set_xlim(span)
    for tick, (method, _) in zip(canvas.panel.get_yticklabels(), lines, strict=True):
        tick.set_fontweight("bold" if method == chosen else "normal")
    return canvas.finish(
        name,
        f"{METRICS[name].title} by method",
        "Points are means over seeds, bars 95% intervals over patients; the chosen method is in bold.",
    )


def metric_span(evaluation: Evaluation, names: Sequence[str]) -> tuple[float, float]:
    """Returns the axis that holds every value and interval of these metrics, with a little air."""
    rows = [evaluation.row(method, name) for method in evaluation.methods for name in names]
    ends = [end for row in rows if row for end in (row.value, row.low, row.high) if end is not None]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    air = 0.04 * max(high - low, 0.01)
    return low - air, high + air


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

    def marks(self) -> list[Mark]:
        """The forecast and what was observed; two intervals lie one above the other."""
        apart = 0.0 if self.observed_ends is None else _APART
        marks = []
        if self.expected is not None:
            value, *ends = self.expected
            marks.append(Mark(value, (ends[0], ends[1]), TARGET_COLOUR, "o", shift=-apart))
        if self.observed is not None:
            marks.append(Mark(self.observed, self.observed_ends, HIGHLIGHT, "D", 1.0, apart))
        return marks


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
    lines = [(site.name, site.marks()) for site in sites]
    if not any(marks for _, marks in lines):
        return None
    canvas = Canvas(WIDTH, _height_of([site.name for site in sites]))
    _draw_lines(canvas.panel, lines, title, reference)
    return canvas.finish(name, f"{title}, by site", "Forecast with its interval, and what was observed with its own.")


@styled
def draw_site_reviews(sites: Sequence[SiteLine]) -> Drawing | None:
    """Draws which share of every site's patients is referred for review; None where that is known of none."""
    shares = [site.review or 0.0 for site in sites]
    if all(site.review is None for site in sites):
        return None
    canvas = Canvas(WIDTH, _height_of([site.name for site in sites]))
    panel = canvas.panel
    panel.barh(range(len(sites)), shares, height=0.5, color=TARGET_COLOUR, alpha=0.55)
    for height, site in enumerate(sites):
        if site.review is not None:
            panel.text(site.review, height, f" {site.review:.0%}", va="center", fontsize=8)
    _name_lines(panel, [site.name for site in sites], "Referred for review")
    panel.set_xlim(0, 1.15 * max(shares) or 1)
    canvas.label("share of the patients", percent="x")
    return canvas.finish("reviews", "Patients for review by site", "Share of each site's patients who are reviewed.")
