"""Curves of known outcomes: how methods rank patients, and whether the chosen one's risks are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.figures.methods import Naming
from tdrop.figures.style import MUTED, TARGET_COLOUR, WIDTH, Canvas, enough, look, styled

Predictions = Mapping[str, Sequence[Summary]]
Tracing = Callable[[NDArray[Any], NDArray[Any]], metrics.Curve | None]

#: Points kept of a curve over single patients.
_POINTS = 60


@styled
def draw_roc(predictions: Predictions, y: NDArray[Any], naming: Naming, chosen: str) -> str | None:
    """Draws sensitivity against 1 - specificity, all methods thin and the chosen one bold; first seed."""
    canvas = _ranking(predictions, y, naming, chosen, metrics.roc_curve)
    if canvas is None:
        return None
    panel = canvas.panels[0][0]
    panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
    panel.set_xlabel("1 - specificity: share of the others called positive")
    panel.set_ylabel("sensitivity")
    return canvas.svg(
        "roc",
        "ROC curves",
        "Sensitivity against 1 - specificity by method; the dashed line is guessing, the bold one the chosen method.",
    )


@styled
def draw_precision_recall(predictions: Predictions, y: NDArray[Any], naming: Naming, chosen: str) -> str | None:
    """Draws precision against recall, all methods thin and the chosen one bold; first seed."""
    canvas = _ranking(predictions, y, naming, chosen, metrics.precision_recall_curve)
    if canvas is None:
        return None
    panel = canvas.panels[0][0]
    share = float(y[np.isfinite(y)].mean())
    panel.axhline(share, color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
    panel.set_xlabel("recall: share of those with the outcome found")
    panel.set_ylabel("precision")
    return canvas.svg(
        "precision",
        "Precision-recall curves",
        f"Precision against recall by method; the dashed line is guessing ({share:.0%} have the outcome), the bold one "
        "the chosen method.",
    )


def _ranking(predictions: Predictions, y: NDArray[Any], naming: Naming, chosen: str, trace: Tracing) -> Canvas | None:
    known = np.isfinite(y)
    if not enough(y[known]):
        return None
    canvas = Canvas(WIDTH, 4.1)
    panel = canvas.panels[0][0]
    for method, summaries in predictions.items():
        curve = trace(y[known], summaries[0].mean[known])
        if curve is not None:
            x, height = _thinned(curve)
            style, bold = look(method), method == chosen
            panel.plot(
                x, height, color=style.colour, linestyle="-" if bold else style.dash, linewidth=2.2 if bold else 0.9,
                zorder=3 if bold else 2, label=naming(method),
            )  # fmt: skip
    panel.set(xlim=(0, 1), ylim=(0, 1.01))
    canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas


def _thinned(curve: metrics.Curve) -> tuple[Doubles, Doubles]:
    """Keeps points evenly along a curve, both ends among them."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(curve.x), np.diff(curve.y)))])
    index = np.unique(np.searchsorted(along, np.linspace(0, along[-1], _POINTS)).clip(0, len(along) - 1))
    return curve.x[index], curve.y[index]


@styled
def draw_smooth_calibration(summary: Summary, y: NDArray[Any], level: float) -> str | None:
    """Draws the observed share by predicted risk as a smooth line with its interval, ten groups beside it.

    Args:
        summary: One method's predictions.
        y: Outcomes (rows,), NaN where unknown.
        level: The risk from which the site acts.
    """
    known = np.isfinite(y)
    outcome, risk = y[known], summary.mean[known].astype(np.float64)
    curve = metrics.smooth_calibration(outcome, risk) if enough(outcome) else None
    if curve is None:
        return None
    canvas = Canvas(WIDTH, 3.6)
    panel = canvas.panels[0][0]
    table = metrics.CalibrationTable.group(outcome, risk)
    panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)), label="predicted is observed")
    panel.fill_between(curve.x, curve.low, curve.high, color=TARGET_COLOUR, alpha=0.18, linewidth=0)
    panel.plot(curve.x, curve.y, color=TARGET_COLOUR, linewidth=2, label="smooth, with its 95% interval")
    panel.plot(table.risk, table.rate, color=TARGET_COLOUR, marker="o", markersize=3.5, linestyle="",
               markerfacecolor="white", label="ten groups of patients")  # fmt: skip
    panel.axvline(level, color=MUTED, linewidth=0.8, linestyle=(0, (1, 1)))
    end = min(1.0, 1.05 * float(max(curve.x.max(), table.risk.max(), curve.high.max(), table.rate.max())))
    panel.set(xlim=(0, end), ylim=(0, end))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel.set_xlabel(f"predicted risk (dotted: {level:.0%}, where one acts)")
    panel.set_ylabel("observed share")
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.svg(
        "smooth",
        "Calibration of the chosen method",
        f"Observed share against predicted risk of {int(known.sum()):,} patients as a smooth line with its 95% "
        "interval; on the dashed line the risks are right.",
    )
