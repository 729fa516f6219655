"""Figures that set the methods side by side, always on the same scale."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.evaluate import METRICS, Evaluation
from tdrop.figures.style import HIGHLIGHT, INK, MUTED, TARGET_COLOUR, Canvas, look
from tdrop.types import Summary

Naming = Callable[[str], str]

#: The paper's second risk level, at which the interval level is swept.
SWEEP_LEVEL = 0.5


def draw_metric(evaluation: Evaluation, names: Sequence[str], naming: Naming, chosen: str, label: str) -> str | None:
    """Draws metrics with their intervals, one line a method, one panel a metric, same scale."""
    methods = [m for m in evaluation.methods if any(evaluation.value(m, name) is not None for name in names)][::-1]
    if not methods:
        return None
    canvas = Canvas(2.1 + 2.1 * len(names), 0.8 + 0.27 * len(methods), 1, len(names), sharex=True, sharey=True)
    for panel, name in zip(canvas.panels[0], names, strict=True):
        for height, method in enumerate(methods):
            row = evaluation.row(method, name)
            if row is None or row.value is None:
                panel.text(
                    0.02, height, "n/a", transform=panel.get_yaxis_transform(), color=MUTED, va="center", fontsize=8
                )
                continue
            style = look(method)
            if row.low is not None and row.high is not None:
                panel.plot([row.low, row.high], [height, height], color=style.colour, linewidth=2)
            panel.plot([row.value], [height], color=style.colour, marker=style.marker, markersize=6, linestyle="")
        panel.set_title(METRICS[name].title)
        panel.grid(axis="y", visible=False)
        panel.set_ylim(-0.6, len(methods) - 0.4)
    canvas.panels[0][0].set_yticks(range(len(methods)), [naming(method) for method in methods])
    for tick, method in zip(canvas.panels[0][0].get_yticklabels(), methods, strict=True):
        tick.set_fontweight("bold" if method == chosen else "normal")
    return canvas.svg(
        label,
        " and ".join(METRICS[name].title for name in names) + " by method",
        "Points are means over seeds, bars 95% bootstrap intervals over patients; the chosen method is in bold.",
    )


def draw_interval_sweep(
    predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any], naming: Naming, hide_below: int = 0
) -> str | None:
    """Draws INPT at a 50% risk level against mean interval width as the interval level sweeps (the paper's figure).

    Points that rest on fewer than `hide_below` patients are left out.
    """
    known = np.isfinite(y)
    canvas = Canvas(6.8, 3.9)
    panel = canvas.panels[0][0]
    drawn = 0
    for method, summaries in predictions.items():
        if summaries[0].passes < 2:
            continue
        points = np.mean([_sweep(summary, y, known) for summary in summaries], axis=0)
        points = points[points[:, 1] >= hide_below]
        style = look(method)
        panel.plot(
            points[:, 0],
            points[:, 1],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker,
            markersize=4,
            label=naming(method),
        )
        drawn += len(points) > 0
    if not drawn:
        return None
    panel.set_xlabel("mean interval width, as the interval level rises from 50% to 99%")
    panel.set_ylabel("INPT at a 50% risk level (patients)")
    panel.set_ylim(bottom=0)
    canvas.figure.legend(loc="outside right center")
    return canvas.svg(
        "sweep",
        "Additional patients caught against interval width",
        "Wider intervals catch more patients under every method; a higher curve catches more at the same width.",
    )


def _sweep(summary: Summary, y: NDArray[Any], known: NDArray[Any]) -> NDArray[Any]:
    """Returns (mean width, INPT) at each level (levels, 2)."""
    points = []
    for level in summary.levels:
        low, high = summary.interval(level)
        caught = metrics.inpt(y[known], summary.mean[known], high[known], SWEEP_LEVEL)
        points.append(((high - low).mean(), caught))
    return np.asarray(points, dtype=np.float64)


def draw_calibration(
    predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any], naming: Naming, hide_below: int = 0
) -> str | None:
    """Draws observed against predicted risk in ten groups, one panel a method, same scale; first seed."""
    known = np.isfinite(y)
    if not known.any():
        return None
    columns = min(5, len(predictions))
    lines = -(-len(predictions) // columns)
    canvas = Canvas(1.55 * columns + 0.4, 1.75 * lines + 0.35, lines, columns, sharex=True, sharey=True)
    for panel, (method, summaries) in zip(canvas.panels.flat, predictions.items(), strict=False):
        table = metrics.CalibrationTable.of(y[known], summaries[0].mean[known])
        shown = (table.events >= hide_below) & (table.n - table.events >= hide_below)
        panel.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (3, 2)))
        style = look(method)
        panel.plot(
            table.risk[shown], table.rate[shown], color=style.colour, marker=style.marker, markersize=3.5, linewidth=1.3
        )
        panel.set_title(naming(method), fontsize=8)
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        panel.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        panel.set_yticks([0, 0.5, 1], ["0", ".5", "1"])
    for panel in list(canvas.panels.flat)[len(predictions) :]:
        panel.set_axis_off()
    canvas.figure.supxlabel("predicted risk", fontsize=9)
    canvas.figure.supylabel("observed share", fontsize=9)
    return canvas.svg(
        "calibration",
        "Calibration by method",
        f"{int(known.sum()):,} patients in ten groups of like risk; on the dashed line predicted equals observed.",
    )


def draw_risk_histogram(summary: Summary, referred: NDArray[Any], level: float, hide_below: int = 0) -> str:
    """Draws how many patients have which risk, and which of them are referred (chosen method, first seed)."""
    edges = np.linspace(0, 1, 26)
    kept = np.histogram(summary.mean[~referred], edges)[0].astype(float)
    looked = np.histogram(summary.mean[referred], edges)[0].astype(float)
    for counts in (kept, looked):
        counts[counts < hide_below] = 0
    canvas = Canvas(6.8, 2.7)
    panel = canvas.panels[0][0]
    centre, width = (edges[:-1] + edges[1:]) / 2, edges[1] * 0.94
    panel.bar(centre, kept, width=width, color=TARGET_COLOUR, alpha=0.45, label="the model's risk can be used")
    panel.bar(
        centre,
        looked,
        width=width,
        bottom=kept,
        color=HIGHLIGHT,
        label="a clinician looks",
        hatch="///",
        edgecolor="white",
        linewidth=0,
    )
    panel.axvline(level, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    panel.text(level, 1.0, f" risk level {level:.0%}", transform=panel.get_xaxis_transform(), va="bottom", fontsize=8)
    panel.set_xlabel("predicted risk")
    panel.set_ylabel("patients")
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel.grid(axis="x", visible=False)
    canvas.figure.legend(loc="outside upper center", ncols=2)
    return canvas.svg(
        "risks",
        "Predicted risks and referrals",
        f"{len(summary.mean):,} patients by predicted risk; {int(referred.sum()):,} of them are referred."
        if not hide_below
        else "Patients by predicted risk, and who is referred; small groups are not drawn.",
    )


def draw_risk_coverage(
    predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any], threshold: float, naming: Naming, hide_below: int = 0
) -> str | None:
    """Draws the error rate among those not referred as more are referred, by expected error and by sd; first seed."""
    known = np.isfinite(y)
    if not known.any():
        return None
    canvas = Canvas(7.4, 3.4, 1, 2, sharex=True, sharey=True)
    for method, summaries in predictions.items():
        summary = summaries[0]
        scores: dict[str, NDArray[Any]] = {
            "expected": metrics.expected_error(summary.mean, threshold),
            "sd": summary.sd,
        }
        for panel, (kind, score) in zip(canvas.panels[0], scores.items(), strict=True):
            if kind == "sd" and summary.passes < 2:
                continue
            curve = metrics.risk_coverage(y[known], summary.mean[known], score[known], threshold)
            x, error = _thin(curve, hide_below)
            style = look(method)
            panel.plot(x, error, color=style.colour, linestyle=style.dash, linewidth=1.4, label=naming(method))
    for panel, title in zip(canvas.panels[0], ("ranked by expected error", "ranked by sd"), strict=True):
        panel.set_title(title)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        panel.set_xlabel("share of patients referred")
    canvas.panels[0][0].set_ylabel("error rate among the rest")
    canvas.panels[0][0].set_ylim(bottom=0)
    handles, names = canvas.panels[0][0].get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside lower center", ncols=4)
    return canvas.svg(
        "coverage",
        "Error among patients who stay with the model",
        "The lower the curve, the better the ranking finds the patients who would be predicted wrongly.",
    )


def _thin(curve: metrics.RiskCoverage, hide_below: int, points: int = 60) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keeps a curve's points up to 60% referred that rest on enough errors."""
    share = np.linspace(0, 0.6, points)
    index = np.minimum((share * len(curve.referred)).astype(int), len(curve.referred) - 1)
    enough = curve.error[index] * curve.n[index] >= max(1, hide_below) - 0.5
    return curve.referred[index][enough], curve.error[index][enough]
