"""Figures about referral: who is reviewed, which errors are left, and whether acting is worth it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.data import FollowUp
from tdrop.disclosure import shown_parts
from tdrop.evaluate import Ladder
from tdrop.figures.methods import Naming, Predictions, draw_curves, draw_groups
from tdrop.figures.style import (
    HIGHLIGHT,
    INK,
    MUTED,
    SOURCE_COLOUR,
    TARGET_COLOUR,
    WIDTH,
    Canvas,
    Drawing,
    enough,
    percent_axes,
    styled,
)

#: Shares referred at which a risk-coverage curve is drawn.
_SHARES = np.linspace(0, 0.6, 41)

#: Thresholds at which net benefit is drawn.
_THRESHOLDS = np.linspace(0.02, 0.6, 59)


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
    panel.set_xlabel("predicted risk")
    panel.set_ylabel("patients")
    percent_axes(panel.xaxis)
    panel.grid(axis="x", visible=False)
    canvas.figure.legend(loc="outside lower center", ncols=1)
    counts = f"{len(summary.mean):,} patients by predicted risk; {int(referred.sum()):,} of them are referred."
    hidden = f"Patients by predicted risk and referral; bars of fewer than {hide_below} patients are not drawn."
    return canvas.finish("risks", "Predicted risks and referrals", hidden if hide_below else counts)


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
def draw_risk_coverage(
    predictions: Predictions,
    y: NDArray[Any],
    threshold: float,
    naming: Naming,
    named: Sequence[str],
    weight: NDArray[Any] | None = None,
) -> Drawing | None:
    """Draws the error rate among those not referred as more are referred, by expected loss and by sd; first seed.

    Args:
        predictions: By method, one summary per seed.
        y: Outcomes (rows,), NaN where unknown.
        threshold: The risk from which one acts.
        naming: A method's name for people.
        named: The methods in colour, the bold one first; the others are light grey.
        weight: For how many patients each outcome stands (rows,); one unless given.
    """
    known = np.isfinite(y)
    each = None if weight is None else weight[known]
    if not enough(y[known]):
        return None
    canvas = Canvas(WIDTH, 3.0, 1, 2, sharex=True, sharey=True)
    scores: list[Callable[[Summary], NDArray[Any] | None]] = [
        lambda summary: metrics.expected_loss(summary.mean, threshold),
        lambda summary: summary.sd if summary.passes > 1 else None,
    ]
    for panel, score, title in zip(canvas.panels[0], scores, ("By expected loss", "By sd"), strict=True):
        curves = {}
        for method, (summary, *_) in predictions.items():
            order = score(summary)
            if order is not None:
                curve = metrics.risk_coverage(y[known], summary.mean[known], order[known], threshold, each)
                curves[method] = _thinned(curve)
        draw_curves(panel, curves, naming, named)
        panel.set_title(title, fontsize=8)
        percent_axes(panel.xaxis, panel.yaxis)
        panel.set_xlabel("share referred")
    canvas.panel.set_ylabel("error rate among the rest")
    canvas.panel.set_ylim(bottom=0)
    handles, names = canvas.panel.get_legend_handles_labels()
    canvas.figure.legend(handles, names, loc="outside lower center", ncols=1)
    return canvas.finish(
        "coverage",
        "Error among patients who stay with the model",
        "The lower the curve, the better the ranking finds the patients who would be predicted wrongly.",
    )


def _thinned(curve: metrics.Curve) -> tuple[Doubles, Doubles]:
    """Keeps some points of a curve."""
    index = np.unique(np.minimum((_SHARES * len(curve.x)).astype(int), len(curve.x) - 1))
    return curve.x[index], curve.y[index]


@styled
def draw_decision_curve(
    summary: Summary,
    y: NDArray[Any],
    interval_level: float,
    capacity: float,
    level: float,
    weight: NDArray[Any] | None = None,
) -> Drawing | None:
    """Draws net benefit by the risk from which one acts: nobody, everybody, the model, the model with referral.

    Each outcome stands for `weight` (rows,) patients, for one unless given.
    """
    known = np.isfinite(y)
    each = None if weight is None else weight[known]
    outcome, risk = y[known], summary.mean[known].astype(np.float64)
    if not enough(outcome):
        return None
    _, high = summary.interval(interval_level)
    thresholds = _THRESHOLDS
    bound = []
    for threshold in thresholds:
        doubtful = metrics.highest(metrics.expected_loss(risk, threshold), metrics.capacity_count(len(risk), capacity))
        referred = doubtful | metrics.referred_at_level(risk, high[known], threshold)
        bound.append(float(np.average(metrics.per_row_benefit(outcome, risk, threshold, referred), weights=each)))
    everybody = metrics.benefit_curve(outcome, np.ones(len(risk)), thresholds, each)
    return _draw_benefit(metrics.benefit_curve(outcome, risk, thresholds, each), everybody, np.asarray(bound), level)


def _draw_benefit(model: metrics.Curve, everybody: metrics.Curve, bound: Doubles, level: float) -> Drawing:
    canvas = Canvas(WIDTH, 3.0)
    panel = canvas.panel
    panel.fill_between(model.x, model.low, model.high, color=TARGET_COLOUR, alpha=0.18, linewidth=0)
    panel.plot(model.x, model.y, color=TARGET_COLOUR, linewidth=2.2, label="act by the model, with its 95% interval")
    panel.fill_between(everybody.x, everybody.low, everybody.high, color=SOURCE_COLOUR, alpha=0.12, linewidth=0)
    panel.plot(everybody.x, everybody.y, color=SOURCE_COLOUR, linestyle=(0, (5, 2)), linewidth=1.2,
               label="act on everybody, with its interval")  # fmt: skip
    panel.axhline(0, color=MUTED, linewidth=0.9, label="act on nobody")
    # The perfect clinician is a bound, not a result: the faintest line.
    panel.plot(model.x, bound, color=HIGHLIGHT, linestyle=(0, (1, 1.5)), linewidth=0.9,
               label="bound: every referred patient decided rightly")  # fmt: skip
    panel.axvline(level, color=INK, linewidth=1, linestyle=(0, (3, 2)))
    top = float(max(bound.max(), np.nanmax(model.high)))
    panel.set_ylim(-0.2 * top, 1.05 * top)
    panel.set_xlabel(f"risk from which one acts (dashed: {level:.0%}, this site's)")
    panel.set_ylabel("net benefit")
    percent_axes(panel.xaxis)
    canvas.figure.legend(loc="outside lower center", ncols=1)
    return canvas.finish(
        "benefit",
        "Decision curve",
        "Net benefit by the risk from which one acts: by the model and on everybody, each with its 95% interval over "
        "patients, on nobody, and by the model were every referred patient decided rightly; higher is better.",
    )


@styled
def draw_recalibration(
    y: NDArray[Any], risks: Mapping[str, NDArray[Any]], follow_up: FollowUp | None = None
) -> Drawing | None:
    """Draws calibration before and after each recalibration, one panel each, same scale.

    Args:
        y: Outcomes (rows,), NaN where unknown.
        risks: By name, risks (rows,).
        follow_up: How long patients were followed, where outcomes are weighted.
    """
    if not np.isfinite(y).any():
        return None
    canvas = Canvas(WIDTH, 1.9, 1, len(risks), sharex=True, sharey=True)
    for panel, (name, risk) in zip(canvas.panels[0], risks.items(), strict=True):
        draw_groups(panel, y, risk, name, follow_up=follow_up, color=TARGET_COLOUR, marker="o")
    canvas.figure.supxlabel("predicted risk", fontsize=8.5)
    canvas.panel.set_ylabel("observed share")
    return canvas.finish(
        "recalibration",
        "Calibration before and after recalibration",
        "On the dashed line predicted equals observed.",
    )


@styled
def draw_ladder(ladder: Ladder) -> Drawing | None:
    """Draws the expected log loss of the rungs that move risks by the number of outcomes; None without a curve."""
    names = list(dict.fromkeys(point.name for point in ladder.curve))
    if len(names) < 2:
        return None
    canvas = Canvas(WIDTH / 2, 2.0)
    looks = ((MUTED, ":"), (SOURCE_COLOUR, "--"), (TARGET_COLOUR, "-."), (HIGHLIGHT, "-"))
    for name, (colour, dash) in zip(names, looks, strict=False):
        points = [point for point in ladder.curve if point.name == name]
        canvas.panel.plot([p.labels for p in points], [p.log_loss for p in points], dash, color=colour, label=name)
    canvas.panel.axvline(ladder.n, color=INK, linewidth=0.8)
    canvas.panel.set_xscale("log")
    canvas.panel.set_xlabel("known outcomes (the line: those known now)")
    canvas.panel.set_ylabel("expected log loss")
    canvas.panel.legend(fontsize=7)
    return canvas.finish(
        "ladder",
        "What more outcomes would bring",
        "Expected log loss of other patients by the number of known outcomes, for the risks as they are and for those "
        "that outcomes would move; right of the line it is continued as a + b / outcomes.",
    )
