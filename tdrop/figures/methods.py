"""Figures that set the methods side by side, always on the same scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.evaluate import Evaluation
from tdrop.figures.style import MUTED, SOURCE_COLOUR, TARGET_COLOUR, WIDTH, Canvas, enough, look, styled
from tdrop.metrics import METRICS

Naming = Callable[[str], str]
Span = tuple[float, float]

#: The paper's second risk level, at which the interval level is swept.
SWEEP_LEVEL = 0.5


@styled
def draw_metric(evaluation: Evaluation, name: str, naming: Naming, chosen: str, span: Span) -> str | None:
    """Draws a metric with its intervals, one line a method.

    Args:
        evaluation: The numbers.
        name: The metric, whose name is also the figure's.
        naming: A method's name for people.
        chosen: The method in bold.
        span: Ends of the axis, so that several figures have one scale; see `metric_span`.
    """
    methods = [method for method in evaluation.methods if evaluation.value(method, name) is not None][::-1]
    if not methods:
        return None
    canvas = Canvas(WIDTH, 0.6 + 0.19 * len(methods))
    panel = canvas.panels[0][0]
    for height, method in enumerate(methods):
        _draw_point(panel, height, method, evaluation, name)
    panel.set_title(METRICS[name].title)
    panel.grid(axis="y", visible=False)
    panel.set(xlim=span, ylim=(-0.6, len(methods) - 0.4))
    panel.set_yticks(range(len(methods)), [naming(method) for method in methods])
    for tick, method in zip(panel.get_yticklabels(), methods, strict=True):
        tick.set_fontweight("bold" if method == chosen else "normal")
    return canvas.svg(
        name,
        f"{METRICS[name].title} by method",
        "Points are means over seeds, bars 95% intervals over patients; the chosen method is in bold.",
    )


def metric_span(evaluation: Evaluation, names: Sequence[str]) -> Span:
    """Returns the axis that holds every value and interval of these metrics, with a little air."""
    rows = [evaluation.row(method, name) for method in evaluation.methods for name in names]
    ends = [end for row in rows if row for end in (row.value, row.low, row.high) if end is not None]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    air = 0.04 * max(high - low, 0.01)
    return low - air, high + air


def _draw_point(panel: Any, height: int, method: str, evaluation: Evaluation, name: str) -> None:
    row, style = evaluation.row(method, name), look(method)
    if row is None or row.value is None:
        return
    if row.low is not None and row.high is not None:
        panel.plot([row.low, row.high], [height, height], color=style.colour, linewidth=2, linestyle="-")
    panel.plot([row.value], [height], color=style.colour, marker=style.marker, markersize=6, linestyle="")


@styled
def draw_interval_sweep(predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any], naming: Naming) -> str | None:
    """Draws INPT at a 50% risk level against mean interval width as the interval level sweeps (the paper's figure)."""
    known = np.isfinite(y)
    canvas = Canvas(WIDTH, 4.1)
    panel = canvas.panels[0][0]
    drawn, levels = 0, (1.0, 0.0)
    for method, summaries in predictions.items():
        if summaries[0].passes < 2:
            continue
        points = np.mean([_sweep(summary, y, known) for summary in summaries], axis=0)
        style = look(method)
        panel.plot(
            points[:, 0], points[:, 1], color=style.colour, linestyle=style.dash, marker=style.marker, markersize=3.5,
            linewidth=1.2, label=naming(method),
        )  # fmt: skip
        drawn += len(points) > 0
        levels = min(levels[0], *summaries[0].levels), max(levels[1], *summaries[0].levels)
    if not drawn:
        return None
    panel.set_xlabel(f"mean interval width (interval level {levels[0]:.0%} to {levels[1]:.0%})")
    panel.set_ylabel("INPT at a 50% risk level (patients)")
    panel.set_ylim(bottom=0)
    canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg(
        "sweep",
        "Additional patients caught against interval width",
        "Wider intervals catch more patients under every method; a higher curve catches more at the same width.",
    )


def _sweep(summary: Summary, y: NDArray[Any], known: NDArray[np.bool_]) -> Doubles:
    """Returns (mean width, INPT) at each level (levels, 2)."""
    points = []
    for level in summary.levels:
        low, high = summary.interval(level)
        caught = int(
            (metrics.referred_at_level(summary.mean[known], high[known], SWEEP_LEVEL) & (y[known] > 0.5)).sum()
        )
        points.append(((high - low).mean(), caught))
    return np.asarray(points, dtype=np.float64)


@styled
def draw_calibration(predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any], naming: Naming) -> str | None:
    """Draws observed against predicted risk in ten groups, one panel a method, same scale; first seed."""
    known = np.isfinite(y)
    if not enough(y[known]):
        return None
    columns = min(3, len(predictions))
    lines = -(-len(predictions) // columns)
    canvas = Canvas(WIDTH, 1.22 * lines + 0.3, lines, columns, sharex=True, sharey=True)
    for panel, (method, summaries) in zip(canvas.panels.flat, predictions.items(), strict=False):
        table = metrics.CalibrationTable.group(y[known], summaries[0].mean[known])
        style = look(method)
        panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
        panel.plot(table.risk, table.rate, color=style.colour, marker=style.marker, markersize=2.5, linewidth=1.1)
        panel.set_title("\n".join(wrap(naming(method), 13)), fontsize=7.5)
        panel.grid(visible=False)
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        panel.set_xticks([0, 1])
        panel.set_yticks([0, 1])
    canvas.blank_from(len(predictions))
    canvas.figure.supxlabel("predicted risk", fontsize=9)
    canvas.figure.supylabel("observed share", fontsize=9)
    return canvas.svg(
        "calibration",
        "Calibration by method",
        "Patients in ten groups of like risk; on the dashed line predicted equals observed.",
    )


@dataclass(frozen=True)
class DropoutRates:
    """How often a method drops a unit.

    Attributes:
        source: For the source's patients (layers, rows) or (rows,).
        target: For this site's, alike.
    """

    source: NDArray[Any]
    target: NDArray[Any]


@styled
def draw_dropout_rates(rates: Mapping[str, DropoutRates], naming: Naming) -> str | None:
    """Draws how often units are dropped, source against target, one panel a method and layer, same scale."""
    panels = [
        (naming(method), layer, {side: np.atleast_2d(values)[layer] for side, values in vars(both).items()})
        for method, both in rates.items()
        for layer in range(len(np.atleast_2d(both.source)))
    ]
    if not panels:
        return None
    columns = min(2, len(panels))
    lines = -(-len(panels) // columns)
    canvas = Canvas(WIDTH, 0.6 + 1.2 * lines, lines, columns, sharex=True, sharey=False)
    grid = _common_grid([values for _, _, sides in panels for values in sides.values()])
    for panel, (name, layer, sides) in zip(canvas.panels.flat, panels, strict=False):
        for side, colour in (("source", SOURCE_COLOUR), ("target", TARGET_COLOUR)):
            density = smooth_density(np.asarray(sides[side], dtype=np.float64), grid)
            label = "source" if side == "source" else "this site"
            panel.plot(grid, density, color=colour, label=label, linestyle="-" if side == "target" else (0, (3, 1)))
        panel.set_title("\n".join(wrap(f"{name}, layer {layer + 1}", 22)), fontsize=8)
        panel.grid(visible=False)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    canvas.blank_from(len(panels))
    canvas.figure.supxlabel("dropout rate", fontsize=9)
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside upper center", ncols=2)
    return canvas.svg(
        "rates",
        "Dropout rates at the source and at this site",
        "Higher rates mean less certain predictions; a curve further right at this site means that the method is "
        "less sure here.",
    )


def _common_grid(values: Sequence[NDArray[Any]]) -> Doubles:
    low, high = min(float(np.min(v)) for v in values), max(float(np.max(v)) for v in values)
    margin = 0.08 * max(high - low, 1e-3)
    return np.linspace(max(0.0, low - margin), min(1.0, high + margin), 80)


def smooth_density(values: Doubles, grid: Doubles) -> Doubles:
    """Returns a Gaussian kernel density (points,) of values (rows,), by a histogram so that many rows cost little."""
    deviation = float(min(values.std(), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.34) or values.std())
    # Silverman's rule; a constant still gets a narrow bump.
    width = max(0.9 * deviation * len(values) ** -0.2, 1.5 * float(grid[1] - grid[0]))
    counts, edges = np.histogram(values, bins=400, range=(float(grid[0]), float(grid[-1])))
    centres = (edges[:-1] + edges[1:]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - centres[None, :]) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return np.asarray(kernel @ counts / max(1, counts.sum()), dtype=np.float64)
