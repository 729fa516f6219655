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
from tdrop.data import FollowUp, observed_share
from tdrop.evaluate import Evaluation
from tdrop.figures.style import (
    FAINT,
    REFERENCE,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WIDTH,
    Canvas,
    Drawing,
    enough,
    look,
    percent_axes,
    styled,
)
from tdrop.metrics import METRICS

Naming = Callable[[str], str]
Predictions = Mapping[str, Sequence[Summary]]
Span = tuple[float, float]

#: The paper's second risk level, at which the interval level is swept.
SWEEP_LEVEL = 0.5

#: Points that are drawn of a curve over single patients.
_POINTS = 60


@styled
def draw_metric(evaluation: Evaluation, name: str, naming: Naming, chosen: str, span: Span) -> Drawing | None:
    """Draws a metric with its intervals, one line per method.

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
    panel = canvas.panel
    for height, method in enumerate(methods):
        row, style = evaluation.row(method, name), look(method)
        if row is None or row.value is None:
            continue
        if row.low is not None and row.high is not None:
            panel.plot([row.low, row.high], [height, height], color=style.colour, linewidth=2, linestyle="-")
        panel.plot([row.value], [height], color=style.colour, marker=style.marker, markersize=6, linestyle="")
    panel.set_title(METRICS[name].title)
    panel.grid(axis="y", visible=False)
    panel.set(xlim=span, ylim=(-0.6, len(methods) - 0.4))
    panel.set_yticks(range(len(methods)), [naming(method) for method in methods])
    for tick, method in zip(panel.get_yticklabels(), methods, strict=True):
        tick.set_fontweight("bold" if method == chosen else "normal")
    return canvas.finish(
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


@styled
def draw_roc(
    predictions: Predictions,
    y: NDArray[Any],
    naming: Naming,
    named: Sequence[str],
    weight: NDArray[Any] | None = None,
) -> Drawing | None:
    """Draws sensitivity against 1 - specificity of the first seed.

    Args:
        predictions: By method, one summary per seed.
        y: Outcomes (rows,), NaN where unknown.
        naming: A method's name for people.
        named: The methods in colour, the bold one first; the others are light grey.
        weight: For how many patients each outcome stands (rows,); one unless given.
    """
    canvas = _draw_ranking(predictions, y, naming, named, weight, metrics.roc_curve)
    if canvas is None:
        return None
    canvas.panel.plot([0, 1], [0, 1], **REFERENCE)
    canvas.panel.set_xlabel("1 - specificity: share of the others called positive")
    canvas.panel.set_ylabel("sensitivity")
    return canvas.finish(
        "roc",
        "ROC curves",
        "Sensitivity against 1 - specificity by method; the dashed line is guessing, the bold one the chosen method.",
    )


@styled
def draw_precision_recall(
    predictions: Predictions,
    y: NDArray[Any],
    naming: Naming,
    named: Sequence[str],
    weight: NDArray[Any] | None = None,
) -> Drawing | None:
    """Draws precision against recall of the first seed; the arguments are those of `draw_roc`."""
    canvas = _draw_ranking(predictions, y, naming, named, weight, metrics.precision_recall_curve)
    if canvas is None:
        return None
    known = np.isfinite(y)
    share = float(np.average(y[known], weights=None if weight is None else weight[known]))
    canvas.panel.axhline(share, **REFERENCE)
    canvas.panel.set_xlabel("recall: share of those with the outcome found")
    canvas.panel.set_ylabel("precision")
    return canvas.finish(
        "precision",
        "Precision-recall curves",
        f"Precision against recall by method; the dashed line is guessing ({share:.0%} have the outcome), the bold one "
        "the chosen method.",
    )


def _draw_ranking(
    predictions: Predictions,
    y: NDArray[Any],
    naming: Naming,
    named: Sequence[str],
    weight: NDArray[Any] | None,
    trace: Callable[[NDArray[Any], NDArray[Any], NDArray[Any] | None], metrics.Curve | None],
) -> Canvas | None:
    known = np.isfinite(y)
    if not enough(y[known]):
        return None
    canvas = Canvas(WIDTH, 3.6)
    each = None if weight is None else weight[known]
    traced = {method: trace(y[known], summaries[0].mean[known], each) for method, summaries in predictions.items()}
    draw_curves(canvas.panel, {name: _thinned(curve) for name, curve in traced.items() if curve}, naming, named)
    canvas.panel.set(xlim=(0, 1), ylim=(0, 1.01))
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas


def draw_curves(
    panel: Any, curves: Mapping[str, tuple[Doubles, Doubles]], naming: Naming, named: Sequence[str], **style: Any
) -> None:
    """Draws one line per method: those named in colour, the first of them bold, and the others in light grey.

    Args:
        panel: Where.
        curves: By method, its points: x (points,) and y (points,).
        naming: A method's name for people.
        named: The methods in colour.
        style: More about the lines in colour.
    """
    for method, (x, height) in curves.items():
        if method not in named:
            panel.plot(x, height, color=FAINT, linewidth=0.7, zorder=2)
    for method in named:
        if method in curves:
            how, bold = look(method), method == named[0]
            dash, width = ("-", 2.2) if bold else (how.dash, 1.1)
            options = {"color": how.colour, "linestyle": dash, "linewidth": width, "zorder": 4 if bold else 3, **style}
            panel.plot(*curves[method], label=naming(method), **options)


def _thinned(curve: metrics.Curve) -> tuple[Doubles, Doubles]:
    """Takes points evenly along a curve, both ends among them."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(curve.x), np.diff(curve.y)))])
    index = np.unique(np.searchsorted(along, np.linspace(0, along[-1], _POINTS)).clip(0, len(along) - 1))
    return curve.x[index], curve.y[index]


@styled
def draw_smooth_calibration(
    summary: Summary,
    y: NDArray[Any],
    level: float,
    weight: NDArray[Any] | None = None,
    follow_up: FollowUp | None = None,
) -> Drawing | None:
    """Draws the observed share by predicted risk as a smooth line with its interval, ten groups beside it.

    Args:
        summary: One method's predictions.
        y: Outcomes (rows,), NaN where unknown.
        level: The risk from which the site acts.
        weight: For how many patients each outcome stands (rows,); one unless given.
        follow_up: How long patients were followed, where outcomes are weighted.
    """
    known = np.isfinite(y)
    outcome, risk = y[known], summary.mean[known].astype(np.float64)
    each = None if weight is None else weight[known]
    curve = metrics.smooth_calibration(outcome, risk, weights=each) if enough(outcome) else None
    if curve is None:
        return None
    canvas = Canvas(WIDTH, 3.6)
    panel = canvas.panel
    predicted, observed = _observed_by_group(y, summary.mean, follow_up)
    panel.plot([0, 1], [0, 1], **REFERENCE, label="predicted is observed")
    panel.fill_between(curve.x, curve.low, curve.high, color=TARGET_COLOUR, alpha=0.18, linewidth=0)
    panel.plot(curve.x, curve.y, color=TARGET_COLOUR, linewidth=2, label="smooth, with its 95% interval")
    panel.plot(predicted, observed, color=TARGET_COLOUR, marker="o", markersize=3.5, linestyle="",
               markerfacecolor="white", label="ten groups of patients")  # fmt: skip
    panel.axvline(level, color=REFERENCE["color"], linewidth=0.8, linestyle=(0, (1, 1)))
    end = min(1.0, 1.05 * float(max(curve.x.max(), predicted.max(), curve.high.max(), observed.max())))
    panel.set(xlim=(0, end), ylim=(0, end))
    percent_axes(panel.xaxis, panel.yaxis)
    panel.set_xlabel(f"predicted risk (dotted: {level:.0%}, where one acts)")
    panel.set_ylabel("observed share")
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.finish(
        "smooth",
        "Calibration of the chosen method",
        f"Observed share against predicted risk of {int(known.sum()):,} patients as a smooth line with its 95% "
        "interval; on the dashed line the risks are right.",
    )


@styled
def draw_calibration(
    predictions: Predictions,
    y: NDArray[Any],
    naming: Naming,
    named: Sequence[str],
    follow_up: FollowUp | None = None,
) -> Drawing | None:
    """Draws observed against predicted risk in ten groups of the first seed; the arguments are those of `draw_roc`.

    With `follow_up` the observed shares are Kaplan-Meier's or Aalen-Johansen's.
    """
    known = np.isfinite(y)
    if not enough(y[known]):
        return None
    canvas = Canvas(WIDTH, 3.6)
    panel = canvas.panel
    panel.plot([0, 1], [0, 1], **REFERENCE)
    curves = {method: _observed_by_group(y, summaries[0].mean, follow_up) for method, summaries in predictions.items()}
    draw_curves(panel, curves, naming, named, marker="o", markersize=3)
    end = min(1.0, 1.05 * float(max(value.max() for curve in curves.values() for value in curve)))
    panel.set(xlim=(0, end), ylim=(0, end))
    percent_axes(panel.xaxis, panel.yaxis)
    panel.set_xlabel("predicted risk")
    panel.set_ylabel("observed share")
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.finish(
        "calibration",
        "Calibration by method",
        "Patients in ten groups of like risk; on the dashed line predicted equals observed.",
    )


def _observed_by_group(y: NDArray[Any], risk: NDArray[Any], follow_up: FollowUp | None) -> tuple[Doubles, Doubles]:
    """Mean risk and observed share of ten groups of like risk (groups,) each.

    Of patients who were followed for different times the share is Kaplan-Meier's, with competing events
    Aalen-Johansen's; a group of whom nobody reached the horizon has none and is left out.
    """
    if follow_up is None:
        known = np.isfinite(y)
        table = metrics.CalibrationTable.group(y[known], risk[known])
        return table.risk, table.rate
    some = np.flatnonzero(np.isfinite(follow_up.time))
    group = metrics.group_by_risk(risk[some])
    shares = [observed_share(follow_up.take(some[group == number])) for number in range(int(group.max()) + 1)]
    means = np.bincount(group, np.asarray(risk, dtype=np.float64)[some]) / np.bincount(group)
    estimable = np.array([share is not None for share in shares])
    return means[estimable], np.array([share for share in shares if share is not None], dtype=np.float64)


def draw_groups(
    panel: Any,
    y: NDArray[Any],
    risk: NDArray[Any],
    title: str,
    *,
    follow_up: FollowUp | None = None,
    **style: Any,
) -> None:
    """Draws observed against predicted risk in ten groups into one panel, from 0 to 1 on both axes."""
    predicted, observed = _observed_by_group(y, risk, follow_up)
    panel.plot([0, 1], [0, 1], **REFERENCE)
    panel.plot(predicted, observed, markersize=2.5, linewidth=1.1, **style)
    panel.set_title("\n".join(wrap(title, 13)), fontsize=7.5)
    panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 1], yticks=[0, 1])


@styled
def draw_interval_sweep(
    predictions: Predictions,
    y: NDArray[Any],
    naming: Naming,
    named: Sequence[str],
    weight: NDArray[Any] | None = None,
) -> Drawing | None:
    """Draws INPT at a 50% risk level against mean interval width as the interval level sweeps (the paper's figure)."""
    known = np.isfinite(y)
    swept = {method: summaries for method, summaries in predictions.items() if summaries[0].passes > 1}
    if not swept:
        return None
    canvas = Canvas(WIDTH, 3.6)
    panel = canvas.panel
    points = {
        method: np.mean([_sweep(summary, y, known, weight) for summary in summaries], axis=0)
        for method, summaries in swept.items()
    }
    curves = {method: (values[:, 0], values[:, 1]) for method, values in points.items()}
    draw_curves(panel, curves, naming, named, marker="o", markersize=3)
    levels = [level for summaries in swept.values() for level in summaries[0].levels]
    panel.set_xlabel(f"mean interval width (interval level {min(levels):.0%} to {max(levels):.0%})")
    panel.set_ylabel("patients caught (INPT at 50%)")
    panel.set_ylim(bottom=0)
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.finish(
        "sweep",
        "Additional patients caught against interval width",
        "Wider intervals catch more patients under every method; a higher curve catches more at the same width.",
    )


def _sweep(summary: Summary, y: NDArray[Any], known: NDArray[np.bool_], weight: NDArray[Any] | None) -> Doubles:
    """Returns (mean width, INPT) at each level (levels, 2)."""
    points = []
    for level in summary.levels:
        low, high = summary.interval(level)
        referred = metrics.referred_at_level(summary.mean[known], high[known], SWEEP_LEVEL) & (y[known] > 0.5)
        caught = float(referred.sum() if weight is None else weight[known] @ referred)
        points.append(((high - low).mean(), caught))
    return np.asarray(points, dtype=np.float64)


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
def draw_dropout_rates(rates: Mapping[str, DropoutRates], naming: Naming) -> Drawing | None:
    """Draws how often units are dropped, source against target, one panel per method and layer, same scale."""
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
            density = _smooth_density(np.asarray(sides[side], dtype=np.float64), grid)
            label = "source" if side == "source" else "this site"
            panel.plot(grid, density, color=colour, label=label, linestyle="-" if side == "target" else (0, (3, 1)))
        panel.set_title("\n".join(wrap(f"{name}, layer {layer + 1}", 22)), fontsize=8)
        panel.grid(visible=False)
        panel.set_yticks([])
        panel.spines["left"].set_visible(False)
    canvas.blank_from(len(panels))
    canvas.figure.supxlabel("dropout rate", fontsize=9)
    handles, names = canvas.panel.get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside upper center", ncols=2)
    return canvas.finish(
        "rates",
        "Dropout rates at the source and at this site",
        "Higher rates mean less certain predictions; a curve further right at this site means that the method is "
        "less sure here.",
    )


def _common_grid(values: Sequence[NDArray[Any]]) -> Doubles:
    low, high = min(float(np.min(v)) for v in values), max(float(np.max(v)) for v in values)
    margin = 0.08 * max(high - low, 1e-3)
    return np.linspace(max(0.0, low - margin), min(1.0, high + margin), 80)


def _smooth_density(values: Doubles, grid: Doubles) -> Doubles:
    """Returns a Gaussian kernel density (points,) of values (rows,), by a histogram so that many rows cost little."""
    deviation = float(min(values.std(), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.34) or values.std())
    # Silverman's rule; a constant still gets a narrow bump.
    width = max(0.9 * deviation * len(values) ** -0.2, 1.5 * float(grid[1] - grid[0]))
    counts, edges = np.histogram(values, bins=400, range=(float(grid[0]), float(grid[-1])))
    centres = (edges[:-1] + edges[1:]) / 2
    kernel = np.exp(-0.5 * ((grid[:, None] - centres[None, :]) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return np.asarray(kernel @ counts / max(1, counts.sum()), dtype=np.float64)
