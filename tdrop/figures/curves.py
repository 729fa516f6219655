"""Curves of methods side by side by known outcomes, and what more outcomes would bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.contracts import Decision
from tdrop.data import FollowUp, observed_share
from tdrop.evaluate import Ladder
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
    enough,
    look,
    styled,
)

#: The paper's second risk level, at which the interval level is swept.
SWEEP_LEVEL = 0.5
#: Points that are drawn of a curve over single patients.
_POINTS = 60
#: Shares referred at which a risk-coverage curve is drawn.
_SHARES = np.linspace(0, 0.6, 41)
#: Thresholds at which net benefit is drawn.
_THRESHOLDS = np.linspace(0.02, 0.6, 59)

Points = tuple[Doubles, Doubles]


@dataclass(frozen=True)
class Compared:
    """Methods and the outcomes that their curves are drawn by.

    Attributes:
        predictions: By method, one summary per seed.
        y: Outcomes (rows,), NaN where unknown.
        naming: A method's name for people.
        named: The methods in colour, the bold one first; the others are light grey.
        weight: For how many patients each outcome stands (rows,); one unless given.
        follow_up: How long patients were followed, where outcomes are weighted.
    """

    predictions: Mapping[str, Sequence[Summary]]
    y: NDArray[Any]
    naming: Callable[[str], str]
    named: Sequence[str]
    weight: NDArray[Any] | None = None
    follow_up: FollowUp | None = None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whose outcome is known (rows,)."""
        return np.asarray(np.isfinite(self.y))

    @property
    def outcome(self) -> NDArray[Any]:
        """The known outcomes (known,)."""
        return self.y[self.known]

    @property
    def weights(self) -> NDArray[Any] | None:
        """How many patients each of them stands for (known,), or None."""
        return None if self.weight is None else self.weight[self.known]

    @property
    def chosen(self) -> Summary:
        """The bold method's first seed."""
        return self.predictions[self.named[0]][0]

    @property
    def first_seeds(self) -> dict[str, Summary]:
        """By method, its first seed."""
        return {method: summaries[0] for method, summaries in self.predictions.items()}

    def draw(self, panel: Any, curves: Mapping[str, Points], **style: Any) -> None:
        """Draws one line per method into a panel: its points, x and y; `style` is more about those in colour."""
        for method, points in curves.items():
            if method not in self.named:
                panel.plot(*points, color=FAINT, linewidth=0.7, zorder=2)
        for method in self.named:
            if method in curves:
                how, bold = look(method), method == self.named[0]
                dash, width = ("-", 2.2) if bold else (how.dash, 1.1)
                options = {"color": how.colour, "linestyle": dash, "linewidth": width, "zorder": 4 if bold else 3}
                panel.plot(*curves[method], label=self.naming(method), **{**options, **style})


@styled
def draw_ranking(compared: Compared, name: Literal["roc", "precision"]) -> Drawing | None:
    """Draws sensitivity against 1 - specificity, or precision against recall, of the first seed."""
    if not enough(compared.outcome):
        return None
    trace = metrics.roc_curve if name == "roc" else metrics.precision_recall_curve
    known, canvas = compared.known, Canvas(WIDTH, 3.6)
    traced = {
        method: trace(compared.outcome, summary.mean[known], compared.weights)
        for method, summary in compared.first_seeds.items()
    }
    compared.draw(canvas.panel, {method: _thinned(curve) for method, curve in traced.items() if curve})
    canvas.panel.set(xlim=(0, 1), ylim=(0, 1.01))
    if name == "roc":
        canvas.panel.plot([0, 1], [0, 1], **REFERENCE)
        canvas.label("1 - specificity: share of the others called positive", "sensitivity")
        title, guessing = "ROC curves", "Sensitivity against 1 - specificity by method; the dashed line is guessing"
    else:
        share = float(np.average(compared.outcome, weights=compared.weights))
        canvas.panel.axhline(share, **REFERENCE)
        canvas.label("recall: share of those with the outcome found", "precision")
        guessing = f"Precision against recall by method; the dashed line is guessing ({share:.0%} have the outcome)"
        title = "Precision-recall curves"
    return canvas.finish(name, title, f"{guessing}, the bold one the chosen method.", "below")


def _thinned(curve: metrics.Curve) -> Points:
    """Takes points evenly along a curve, both ends among them."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(curve.x), np.diff(curve.y)))])
    index = np.unique(np.searchsorted(along, np.linspace(0, along[-1], _POINTS)).clip(0, len(along) - 1))
    return curve.x[index], curve.y[index]


@styled
def draw_calibration(compared: Compared, level: float) -> Drawing | None:
    """Draws observed against predicted risk of the first seed in ten groups, the bold method's as a smooth line too.

    With `follow_up` the observed shares are Kaplan-Meier's or Aalen-Johansen's. `level` is the risk from which the
    site acts.
    """
    risk = compared.chosen.mean[compared.known].astype(np.float64) if compared.predictions else np.zeros(0)
    if not enough(compared.outcome):
        return None
    canvas = Canvas(WIDTH, 3.9)
    panel = canvas.panel
    groups = {
        method: _observed_by_group(compared.y, summary.mean, compared.follow_up)
        for method, summary in compared.first_seeds.items()
    }
    highest = [value.max() for points in groups.values() for value in points]
    panel.plot([0, 1], [0, 1], **REFERENCE, label="predicted is observed")
    curve = metrics.smooth_calibration(compared.outcome, risk, weights=compared.weights)
    colour = look(compared.named[0]).colour
    if curve is not None:
        panel.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.18, linewidth=0)
        panel.plot(curve.x, curve.y, color=colour, linewidth=2.2, label="smooth, with its 95% interval")
        highest += [curve.x.max(), curve.high.max()]
    compared.draw(panel, groups, marker="o", markersize=3, markerfacecolor="white", linewidth=0.9)
    panel.axvline(level, color=REFERENCE["color"], linewidth=0.8, linestyle=(0, (1, 1)))
    end = min(1.0, 1.05 * float(max(highest)))
    panel.set(xlim=(0, end), ylim=(0, end))
    canvas.label(f"predicted risk (dotted: {level:.0%}, where one acts)", "observed share", percent="xy")
    return canvas.finish(
        "calibration",
        "Calibration",
        f"Observed share against predicted risk of {int(compared.known.sum()):,} patients in ten groups of like risk, "
        "of the chosen method as a smooth line with its 95% interval too; on the dashed line the risks are right.",
        "below",
    )


def _observed_by_group(y: NDArray[Any], risk: NDArray[Any], follow_up: FollowUp | None) -> Points:
    """Mean risk and observed share of ten groups of like risk (groups,) each.

    Of patients who were followed for different times the share is Kaplan-Meier's, with competing events
    Aalen-Johansen's; a group of whom nobody reached the horizon has none and is left out.
    """
    if follow_up is None:
        known = np.isfinite(y)
        table = metrics.CalibrationTable.group(y[known], risk[known])
        return table.risk, table.rate
    followed = np.flatnonzero(np.isfinite(follow_up.time))
    group = metrics.group_by_risk(risk[followed])
    shares = [observed_share(follow_up.take(followed[group == number])) for number in range(int(group.max()) + 1)]
    means = np.bincount(group, np.asarray(risk, dtype=np.float64)[followed]) / np.bincount(group)
    estimable = np.array([share is not None for share in shares])
    return means[estimable], np.array([share for share in shares if share is not None], dtype=np.float64)


@styled
def draw_interval_sweep(compared: Compared) -> Drawing | None:
    """Draws INPT at a 50% risk level against mean interval width as the interval level sweeps (the paper's figure)."""
    swept = {method: summaries for method, summaries in compared.predictions.items() if summaries[0].passes > 1}
    if not swept:
        return None
    canvas = Canvas(WIDTH, 3.6)
    points = {
        method: np.mean([_sweep(summary, compared) for summary in summaries], axis=0)
        for method, summaries in swept.items()
    }
    curves = {method: (values[:, 0], values[:, 1]) for method, values in points.items()}
    compared.draw(canvas.panel, curves, marker="o", markersize=3)
    levels = [level for summaries in swept.values() for level in summaries[0].levels]
    swept_levels = f"interval level {min(levels):.0%} to {max(levels):.0%}"
    canvas.label(f"mean interval width ({swept_levels})", "patients caught (INPT at 50%)")
    canvas.panel.set_ylim(bottom=0)
    meaning = "Wider intervals catch more patients under every method; a higher curve catches more at the same width."
    return canvas.finish("sweep", "Additional patients caught against interval width", meaning, "below")


def _sweep(summary: Summary, compared: Compared) -> Doubles:
    """Returns (mean width, INPT) at each level (levels, 2)."""
    known, events = compared.known, (compared.outcome > 0.5).astype(np.float64)
    each = events if compared.weights is None else events * compared.weights
    caught = metrics.referred_at_level(summary.mean[known], summary.high[:, known], SWEEP_LEVEL) @ each
    return np.stack([(summary.high - summary.low).mean(axis=1), caught], axis=1).astype(np.float64)


@styled
def draw_risk_coverage(compared: Compared, threshold: float) -> Drawing | None:
    """Draws the error rate among those not referred as more are referred, by expected loss and by sd; first seed.

    `threshold` is the risk from which one acts.
    """
    if not enough(compared.outcome):
        return None
    canvas = Canvas(WIDTH, 3.0, 1, 2, sharex=True, sharey=True)
    known = compared.known
    summaries = compared.first_seeds
    ranked: dict[str, dict[str, NDArray[Any]]] = {
        "By expected loss": {
            method: metrics.expected_loss(summary.mean, threshold) for method, summary in summaries.items()
        },
        "By sd": {method: summary.sd for method, summary in summaries.items() if summary.passes > 1},
    }
    for panel, (title, scores) in zip(canvas.panels[0], ranked.items(), strict=True):
        curves = {}
        for method, score in scores.items():
            risk = summaries[method].mean[known]
            curve = metrics.risk_coverage(compared.outcome, risk, score[known], threshold, compared.weights)
            index = np.unique(np.minimum((_SHARES * len(curve.x)).astype(int), len(curve.x) - 1))
            curves[method] = (curve.x[index], curve.y[index])
        compared.draw(panel, curves)
        panel.set_title(title, fontsize=8)
    canvas.label("share referred", "error rate among the rest", percent="xy")
    canvas.panel.set_ylim(bottom=0)
    meaning = "The lower the curve, the better the ranking finds the patients who would be predicted wrongly."
    return canvas.finish("coverage", "Error among patients who stay with the model", meaning, "below")


@styled
def draw_decision_curve(compared: Compared, decision: Decision) -> Drawing | None:
    """Draws net benefit by the risk from which one acts: nobody, everybody, the model, the model with referral."""
    outcome, weights = compared.outcome, compared.weights
    if not enough(outcome):
        return None
    risk = compared.chosen.mean[compared.known].astype(np.float64)
    high = compared.chosen.interval(decision.interval_level)[1][compared.known]
    bound = []
    for threshold in _THRESHOLDS:
        capacity = metrics.capacity_count(len(risk), decision.capacity)
        doubtful = metrics.highest(metrics.expected_loss(risk, threshold), capacity)
        referred = doubtful | metrics.referred_at_level(risk, high, threshold)
        bound.append(float(np.average(metrics.per_row_benefit(outcome, risk, threshold, referred), weights=weights)))
    everybody = metrics.benefit_curve(outcome, np.ones(len(risk)), _THRESHOLDS, weights)
    model = metrics.benefit_curve(outcome, risk, _THRESHOLDS, weights)
    return _draw_benefit(model, everybody, np.asarray(bound), decision.risk_level)


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
    canvas.label(f"risk from which one acts (dashed: {level:.0%}, this site's)", "net benefit", percent="x")
    return canvas.finish(
        "benefit",
        "Decision curve",
        "Net benefit by the risk from which one acts: by the model and on everybody, each with its 95% interval over "
        "patients, on nobody, and by the model were every referred patient decided rightly; higher is better.",
        "below",
    )


@styled
def draw_ladder(ladder: Ladder) -> Drawing | None:
    """Draws the expected log loss of the rungs that move risks by the number of outcomes; None without a curve."""
    names = list(dict.fromkeys(point.name for point in ladder.curve))
    if len(names) < 2:
        return None
    canvas = Canvas(WIDTH, 2.6)
    looks = ((MUTED, ":"), (SOURCE_COLOUR, "--"), (TARGET_COLOUR, "-."), (HIGHLIGHT, "-"))
    for name, (colour, dash) in zip(names, looks, strict=False):
        points = [point for point in ladder.curve if point.name == name]
        canvas.panel.plot([p.labels for p in points], [p.log_loss for p in points], dash, color=colour, label=name)
    canvas.panel.axvline(ladder.n, color=INK, linewidth=0.8)
    canvas.panel.set_xscale("log")
    canvas.label("known outcomes (the line: those known now)", "expected log loss")
    canvas.panel.legend(fontsize=7)
    return canvas.finish(
        "ladder",
        "What more outcomes would bring",
        "Expected log loss of other patients by the number of known outcomes, for the risks as they are and for those "
        "that outcomes would move; right of the line it is continued as a + b / outcomes.",
    )
