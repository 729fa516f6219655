"""The parts of a report after its first screen: a heading, sentences, tables and figures each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from tdrop import figures, metrics
from tdrop.contracts.schema import Contract
from tdrop.errors import UsageError
from tdrop.evaluate import Recalibration, suggest_recalibration
from tdrop.methods import describe
from tdrop.report import tables
from tdrop.report.choice import choice_table, settings_table
from tdrop.report.data import ReportData
from tdrop.report.expected import forecast_sentence, forecast_table
from tdrop.report.extract import label_table, plain_table, rows_sentence, shift_table, validation_table
from tdrop.report.sentences import (
    choice_sentence,
    evaluation_warnings,
    label_sentences,
    matching_sentences,
    referral_sentence,
    shift_notes,
    shift_sentence,
)
from tdrop.report.tables import Table
from tdrop.report.text import method_label, moment, share
from tdrop.report.titles import feature_titles, value_names
from tdrop.report.tripod import tripod_table
from tdrop.report.who import who_table
from tdrop.report.words import referral_counts


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption."""

    svg: Markup
    caption: str


Part = Table | Drawing


@dataclass(frozen=True)
class Section:
    """One part of a page.

    Attributes:
        name: Unique in its page.
        title: Its heading.
        sentences: What it says before its parts.
        parts: Tables and figures.
        warnings: Sentences that must not be missed.
    """

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    warnings: tuple[str, ...] = ()


def drawing(svg: str | None, caption: str) -> list[Part]:
    """Wraps a figure; nothing where nothing was drawn."""
    # The figures module escapes every text that it puts into an SVG.
    return [] if svg is None else [Drawing(Markup(svg), caption)]


def found(table: Table | None) -> list[Part]:
    """Wraps a table; nothing where there is none."""
    return [] if table is None else [table]


def report_sections(data: ReportData) -> list[Section]:
    """Returns the sections of a report."""
    sections = [
        _forecast(data),
        _results(data),
        _referrals(data),
        _benefit(data),
        _calibration(data),
        _who(data),
        _choice(data),
    ]
    sections += shift_sections(data.shift, data.matching, data.validation, data.contract)
    sections += [_attrition(data), _uncertainty(data), _making(data), _tripod(data)]
    return [section for section in sections if section.parts or section.sentences]


def _forecast(data: ReportData) -> Section:
    sentences = tuple(filter(None, [forecast_sentence(data)]))
    return Section("forecast", "What was expected", sentences, tuple(found(forecast_table(data))))


def _results(data: ReportData) -> Section:
    parts: list[Part] = [tables.main_table(data)]
    if data.labelled:
        names = ("auroc", "error_auroc_sd", "error_auroc_risk")
        svg = figures.draw_metric(data.evaluation, names, method_label, data.method, "aurocs")
        parts += drawing(svg, "How well each method ranks patients, and its own errors. One scale for all.")
        parts += found(tables.difference_table(data))
    parts += found(tables.subgroup_table(data))
    sentences = tuple(filter(None, [_hindsight(data)]))
    warned = tuple(evaluation_warnings(data.evaluation, data.hide_below))
    return Section("results", "Results at this site", sentences, tuple(parts), warned)


def _hindsight(data: ReportData) -> str:
    """Says whether the outcomes agree with a choice that was made without them."""
    losses = {method: data.evaluation.value(method, "log_loss") for method in data.evaluation.methods}
    known = {method: loss for method, loss in losses.items() if loss is not None}
    if data.method not in known or len(known) < 2:
        return ""
    best = min(known, key=known.__getitem__)
    chosen = f"{method_label(data.method)} was chosen without the outcomes"
    if best == data.method:
        return f"{chosen}, and by them it has the lowest log loss ({known[best]:.3f}) of all methods here."
    return (
        f"{chosen}. By them, {method_label(best)} has the lowest log loss here ({known[best]:.3f}, against "
        f"{known[data.method]:.3f})."
    )


def _referrals(data: ReportData) -> Section:
    decision = data.site.decision
    summary = data.predictions[data.method][0]
    parts = drawing(
        figures.draw_risk_histogram(summary, data.referrals.referred, decision.risk_level, data.hide_below),
        f"Predicted risks of {method_label(data.method)} and who is referred (first seed).",
    )
    if data.labelled:
        parts += [tables.equal_table(data), tables.retained_table(data)]
    if data.labelled and data.y is not None:
        parts += drawing(
            figures.draw_risk_coverage(data.predictions, data.y, decision.threshold, method_label),
            "Error rate among patients who are not referred, as more are referred (first seed).",
        )
    sentences = (
        f"A patient is referred when the risk is below {share(decision.risk_level, 0)} but the "
        f"{share(decision.interval_level, 0)} interval reaches it, when the prediction is among the "
        f"{share(decision.capacity, 0)} with most expected loss, or when the patient is unlike anyone the model "
        "learned from. No outcome is needed for that.",
        referral_sentence(referral_counts(data)),
    )
    return Section("referrals", "Who is referred", sentences, tuple(parts))


def _benefit(data: ReportData) -> Section:
    if not data.labelled:
        return Section("benefit", "")
    decision = data.site.decision
    summary = data.predictions[data.method][0]
    svg = (
        None
        if data.y is None
        else figures.draw_decision_curve(
            summary, data.y, decision.interval_level, decision.capacity, decision.risk_level
        )
    )
    parts = drawing(svg, f"Net benefit of {method_label(data.method)} (first seed) with “refer” as a third action.")
    parts.append(tables.benefit_table(data))
    sentences = (
        "Net benefit counts the patients rightly acted on, less those wrongly acted on, weighed by the risk from which "
        "one acts. Referred patients are taken to be decided rightly by the clinician; the cost of looking is not "
        "counted, so the last column says how many looks one more net true positive takes.",
    )
    return Section("benefit", "Does acting on it pay?", sentences, tuple(parts))


def _calibration(data: ReportData) -> Section:
    if not data.labelled:
        return Section("calibration", "")
    parts: list[Part] = [tables.score_table(data)]
    if data.y is None:
        return Section("calibration", "Are the risks right?", parts=tuple(parts))
    parts += drawing(
        figures.draw_calibration(data.predictions, data.y, method_label),
        "Observed share against predicted risk in ten groups of patients, by method (first seed).",
    )
    recalibration = _recalibration(data)
    outcomes = data.evaluation.outcomes
    if recalibration is not None and outcomes is not None:
        parts.append(tables.recalibration_table(recalibration))
        known = np.isfinite(data.y)
        risk = data.predictions[data.method][0].mean[known]
        risks = {
            "As it is" if one.name == "as it is" else f"After: {one.name}": metrics.recalibrated(
                risk, one.intercept, one.slope
            )
            for one in recalibration.adjustments
        }
        caption = f"{method_label(data.method)} before and after the recalibration that the outcomes suggest."
        parts += drawing(figures.draw_recalibration(data.y[known], risks), caption)
    return Section("calibration", "Are the risks right?", parts=tuple(parts))


def _recalibration(data: ReportData) -> Recalibration | None:
    if data.recalibration is not None:
        return Recalibration.from_dict(data.recalibration)
    if data.y is None:
        return None
    return suggest_recalibration(data.y, data.predictions[data.method][0].mean)


def _who(data: ReportData) -> Section:
    return Section("who", "Who is misclassified, who is referred", parts=tuple(found(who_table(data))))


def _choice(data: ReportData) -> Section:
    sentences = [_about(data.method), choice_sentence(data.choice)]
    if data.choice.get("mlp_better"):
        sentences.append("A plain network without intervals scores better still, but cannot say when it is unsure.")
    warnings = [f"{method_label(name)} could not be fitted: {why}" for name, why in data.failed_methods.items()]
    parts = (choice_table(data), *found(settings_table(data)))
    return Section("choice", "Why this method", tuple(filter(None, sentences)), parts, tuple(warnings))


def _about(method: str) -> str:
    """Says what a method is; nothing about one of another version."""
    try:
        told = describe(method)
    except UsageError:
        return ""
    name = method_label(method)
    return told if told.lower().startswith(name.lower()) else f"{name}: {told[:1].lower()}{told[1:]}"


def shift_sections(
    shift: Mapping[str, Any], matching: Mapping[str, Any], validation: Mapping[str, Any], contract: Contract | None
) -> list[Section]:
    """Returns the sections about the extract and its patients."""
    titles = feature_titles(contract)
    # As the first screen and the table order them.
    ranked = sorted(shift.get("features", ()), key=lambda row: -abs(row.get("smd") or 0.0))
    order = list(dict.fromkeys(row["column"] for row in ranked))
    parts = drawing(
        figures.draw_densities(shift.get("features", ()), titles, order, value_names(contract)),
        "The features that tell the sites apart most. Grey area: source. Blue line: this site.",
    )
    parts += drawing(
        figures.draw_propensity(shift.get("propensity")),
        "How much patients of both sites look like this site's. Where the blue line has no grey behind it, the model "
        "has seen nobody like them.",
    )
    parts.append(shift_table(shift, titles))
    parts += drawing(
        figures.draw_balance(matching.get("balance", ()), titles),
        "How far the source is from this site, before and after picking similar patients.",
    )
    sentences = [shift_sentence(shift), *matching_sentences(matching, titles)]
    extract = validation_table(validation, "validation", "What was found in the extract")
    return [
        Section("patients", "How different the patients are", tuple(filter(None, sentences)), tuple(parts)),
        Section("extract", "The extract", (rows_sentence(validation),), (extract,) if extract.lines else ()),
    ]


def _uncertainty(data: ReportData) -> Section:
    parts: list[Part] = []
    if data.labelled and data.y is not None:
        parts += drawing(
            figures.draw_interval_sweep(data.predictions, data.y, method_label),
            "Patients with the outcome whom the interval catches at a 50% risk level, against interval width, as the "
            "interval level rises; means over seeds.",
        )
    parts += drawing(
        figures.draw_dropout_rates(data.dropout_rates, method_label),
        "How often the methods with rates of their own drop a unit, source against this site (smoothed; first seed).",
    )
    return Section("uncertainty", "Uncertainty, as in the paper", parts=tuple(parts))


def _making(data: ReportData) -> Section:
    parts: list[Part] = [label_table(data.labels)] if data.labels else []
    if data.provenance:
        written = {**data.provenance, "created": moment(data.provenance.get("created"))}
        parts.append(plain_table("provenance", "How this report was made", written))
    told = label_sentences(data.labels) + shift_notes(data.shift)
    return Section("making", "How it was made", tuple(told), tuple(parts))


def _attrition(data: ReportData) -> Section:
    rows = {name: data.validation.get(name) for name in ("read", "duplicates", "quarantined", "used")}
    titles = dict(zip(rows, ("Rows read", "Duplicates", "Set aside", "Used"), strict=True))
    steps = {titles[name]: value for name, value in rows.items()}
    svg = figures.draw_attrition(
        {**steps, "Outcome known": data.evaluation.labelled}, frozenset({"Duplicates", "Set aside"})
    )
    caption = "Rows of this site from the extract to the evaluation. Grey: taken away."
    return Section("attrition", "From extract to evaluation", parts=tuple(drawing(svg, caption)))


def _tripod(data: ReportData) -> Section:
    return Section("tripod", "For a publication", parts=(tripod_table(data),))
