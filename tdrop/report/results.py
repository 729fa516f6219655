"""The sections about known outcomes: all methods in one table, how they rank, whether risks are right, what it buys."""

from __future__ import annotations

import numpy as np

from tdrop import figures, metrics
from tdrop.evaluate import Recalibration, suggest_recalibration
from tdrop.metrics import METRICS
from tdrop.report import tables
from tdrop.report.choice import choice_table
from tdrop.report.data import ReportData
from tdrop.report.expected import forecast_table
from tdrop.report.parts import Part, Section, Views, drawing, found
from tdrop.report.sentences import evaluation_warnings
from tdrop.report.text import count, method_label

#: The views of the table of methods, as they are called on its switch.
MAIN, SCORES, EQUAL, RETAINED = "Ranking and doubt", "Are the risks right", "At equal referrals", "Error left"
BENEFIT, DIFFERENCES, EXPECTED, CHOICE = "Net benefit", "Differences", "Expected beforehand", "Chosen by"

_RANKINGS = ("auroc", "error_auroc_sd", "error_auroc_risk")


def methods_section(data: ReportData) -> Section:
    """All methods side by side, once, with a switch for what is told of them."""
    views = {MAIN: tables.main_table(data)}
    if data.labelled:
        views |= {
            SCORES: tables.score_table(data),
            EQUAL: tables.equal_table(data),
            RETAINED: tables.retained_table(data),
            BENEFIT: tables.benefit_table(data),
        }
    more = {DIFFERENCES: tables.difference_table(data), EXPECTED: forecast_table(data), CHOICE: choice_table(data)}
    views |= {name: table for name, table in more.items() if table is not None}
    parts: list[Part] = [Views("methods", "Methods side by side by", tuple(views.items()))]
    parts += found(tables.subgroup_table(data))
    sentences = tuple(filter(None, [hindsight(data)]))
    warned = tuple(evaluation_warnings(data.evaluation, data.hide_below))
    return Section("results", "Results at this site", sentences, tuple(parts), warned)


def hindsight(data: ReportData) -> str:
    """Says whether the outcomes agree with a choice that was made without them."""
    losses = {method: data.evaluation.value(method, "log_loss") for method in data.evaluation.methods}
    known = {method: loss for method, loss in losses.items() if loss is not None}
    if data.method not in known or len(known) < 2 or too_few(data):
        return ""
    best = min(known, key=known.__getitem__)
    chosen = f"{method_label(data.method)} was chosen without the outcomes"
    if best == data.method:
        return f"{chosen}, and by them it has the lowest log loss ({known[best]:.3f}) of all methods here."
    return (
        f"{chosen}. By them, {method_label(best)} has the lowest log loss here ({known[best]:.3f}, against "
        f"{known[data.method]:.3f})."
    )


def too_few(data: ReportData) -> bool:
    """Whether the known outcomes are too few to say which method is right, or how far; where hidden, they are."""
    labelled, outcomes = data.evaluation.labelled, data.evaluation.outcomes
    return labelled is None or outcomes is None or min(outcomes, labelled - outcomes) < metrics.FEWEST_EVENTS


def over(data: ReportData) -> str:
    """How many patients a figure rests on, after a comma; nothing where that is hidden."""
    labelled, outcomes = data.evaluation.labelled, data.evaluation.outcomes
    if labelled is None or outcomes is None:
        return ""
    return f", {count(labelled)} patients, {count(outcomes)} with the outcome"


def ranking_section(data: ReportData) -> Section:
    """How well methods rank patients, and their own errors."""
    if not data.labelled:
        return Section("ranking", "")
    parts: list[Part] = []
    if data.y is not None:
        chosen = method_label(data.method)
        svg = figures.draw_roc(data.predictions, data.y, method_label, data.method)
        parts += drawing(svg, f"ROC curves (first seed{over(data)}). Bold: {chosen}. Dashed: guessing.")
        svg = figures.draw_precision_recall(data.predictions, data.y, method_label, data.method)
        parts += drawing(svg, f"Precision against recall (first seed{over(data)}). Bold: {chosen}. Dashed: guessing.")
    span = figures.metric_span(data.evaluation, _RANKINGS)
    for name in _RANKINGS:
        svg = figures.draw_metric(data.evaluation, name, method_label, data.method, span)
        caption = f"{METRICS[name].title} by method, with 95% intervals{over(data)}. These figures have one scale."
        parts += drawing(svg, caption)
    return Section("ranking", "How well it ranks patients, and its own errors", parts=tuple(parts), see=(MAIN,))


def benefit_section(data: ReportData) -> Section:
    """Net benefit by threshold."""
    if not data.labelled:
        return Section("benefit", "")
    decision = data.site.decision
    parts: list[Part] = []
    if data.y is not None:
        svg = figures.draw_decision_curve(
            data.predictions[data.method][0], data.y, decision.interval_level, decision.capacity, decision.risk_level
        )
        chosen = method_label(data.method)
        parts += drawing(svg, f"Net benefit of {chosen} (first seed{over(data)}), with 95% intervals.")
    sentences = (
        "Net benefit counts the patients rightly acted on, less those wrongly acted on, weighed by the risk from which "
        "one acts. With referral, referred patients are taken to be decided rightly by the clinician, which is a bound "
        "and no promise; the cost of looking is not counted, so the table says how many looks one more net true "
        "positive takes.",
    )
    return Section("benefit", "Does acting on it pay?", sentences, tuple(parts), see=(BENEFIT,))


def calibration_section(data: ReportData) -> Section:
    """Whether the risks are right, and what the outcomes suggest to do about it."""
    if not data.labelled:
        return Section("calibration", "")
    parts: list[Part] = []
    if data.y is not None:
        first = data.predictions[data.method][0]
        parts += drawing(
            figures.draw_smooth_calibration(first, data.y, data.site.decision.risk_level),
            f"Observed share against the risk that {method_label(data.method)} predicts (first seed{over(data)}), with "
            "a 95% interval over patients.",
        )
        parts += drawing(
            figures.draw_calibration(data.predictions, data.y, method_label),
            "The same in ten groups of patients, by method (first seed).",
        )
        parts += _recalibrating(data)
    told = ("The known outcomes are too few to draw or to correct the risks by.",) if not parts else ()
    return Section("calibration", "Are the risks right?", told, tuple(parts), see=(SCORES,))


def _recalibrating(data: ReportData) -> list[Part]:
    recalibration = _recalibration(data)
    if recalibration is None or data.y is None or too_few(data):
        return []
    known = np.isfinite(data.y)
    risk = data.predictions[data.method][0].mean[known]
    risks = {
        "As it is" if one.name == "as it is" else f"After: {one.name}": metrics.recalibrated(
            risk, one.intercept, one.slope
        )
        for one in recalibration.adjustments
    }
    caption = f"{method_label(data.method)} before and after the recalibration that the outcomes suggest."
    drawn = drawing(figures.draw_recalibration(data.y[known], risks), caption)
    return [*drawn, tables.recalibration_table(recalibration)]


def _recalibration(data: ReportData) -> Recalibration | None:
    if data.recalibration is not None:
        return data.recalibration
    if data.y is None:
        return None
    return suggest_recalibration(data.y, data.predictions[data.method][0].mean)
