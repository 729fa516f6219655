"""What details.html shows: its tables and figures by name, as the templates ask for them."""

from __future__ import annotations

from typing import Any

from tdrop import figures, metrics
from tdrop.base import UsageError
from tdrop.contracts import Contract, Validation
from tdrop.evaluate import ALL, LeftOut, Recalibration, suggest_recalibration
from tdrop.figures import Drawing
from tdrop.methods import describe_method
from tdrop.report import tables
from tdrop.report.data import ReportData
from tdrop.report.groups import groups_table
from tdrop.report.sentences import (
    SIMPLE,
    choice_sentence,
    difference_sentence,
    evaluation_warnings,
    hindsight,
    left_early_sentences,
    left_out_sentence,
    matching_sentence,
    shift_notes,
    shift_sentence,
    too_few,
    unlabelled_sentences,
    verdict_words,
)
from tdrop.report.sites import held_out_table, influence_table, odd_sources, site_sentences
from tdrop.report.summary import unknowns
from tdrop.report.text import axis_titles, feature_titles, method_label, moment, row_interval, row_text, value_names
from tdrop.shift import Matching, Shift

Drawings = dict[str, Drawing | None]

#: Metrics of ranking that are drawn on one scale.
_RANKINGS = ("auroc", "error_auroc_sd", "error_auroc_risk")

#: Figures that need known outcomes, and are not there without them.
_DRAWINGS = (
    *_RANKINGS,
    "roc",
    "precision",
    "smooth",
    "calibration",
    "recalibration",
    "ladder",
    "coverage",
    "benefit",
    "sweep",
)


def shared_values(data: ReportData) -> dict[str, Any]:
    """Returns what the details of every kind of outcome are filled with."""
    made = {} if data.provenance is None else {**vars(data.provenance), "created": moment(data.provenance.created)}
    return {
        **patient_values(data.shift, data.matching, data.validation, data.contract, data.left_out),
        "warnings": evaluation_warnings(data.evaluation, data.hide_below, weighted=data.weighted),
        "subgroups": tables.subgroup_table(data),
        "settings": tables.settings_table(data),
        "held_out": held_out_table(data),
        "labels": None if data.labels is None else tables.label_table(data.labels),
        "provenance": tables.plain_table("provenance", "How this report was made", made) if made else None,
    }


def details_values(data: ReportData) -> dict[str, Any]:
    """Returns what the template of details.html is filled with."""
    recalibration = _recalibration(data)
    return {
        **shared_values(data),
        "drawings": {
            **dict.fromkeys(_DRAWINGS),
            **_outcome_drawings(data),
            **_other_drawings(data),
            **_recalibration_drawing(data, recalibration),
            "ladder": None if data.ladder is None else figures.draw_ladder(data.ladder),
        },
        "method_tables": tables.method_tables(data),
        "groups": groups_table(data),
        "influence": influence_table(data),
        "site_sentences": [*odd_sources(data), *site_sentences(data)],
        "recalibration": None if recalibration is None else tables.recalibration_table(recalibration),
        "ladder": None if data.ladder is None else tables.ladder_table(data.ladder),
        "database": tables.attrition_table(data.validation),
        "left_early": left_early_sentences(data),
        "hindsight": hindsight(data),
        "about_method": _about(data.method),
        "choice_sentence": choice_sentence(data.choice),
        "unlabelled": unlabelled_sentences(data),
        "tripod": _tripod_values(data),
    }


def patient_values(
    shift: Shift,
    matching: Matching | None,
    validation: Validation,
    contract: Contract | None,
    left_out: LeftOut | None = None,
) -> dict[str, Any]:
    """Returns what the sections about the extract and its patients are filled with."""
    titles = feature_titles(contract)
    # As the first screen and the table order them.
    order = list(dict.fromkeys(row.column for row in shift.by_difference))
    return {
        "shift": shift,
        "validation": validation,
        "densities": figures.draw_densities(shift.features, axis_titles(contract), order, value_names(contract)),
        "propensity": figures.draw_propensity(shift.propensity),
        "balance": figures.draw_balance(() if matching is None else matching.balance, titles),
        "shift_sentence": shift_sentence(shift),
        "matching_sentence": "" if matching is None else matching_sentence(matching, titles),
        "left_out": left_out_sentence(left_out, contract),
        "shift_table": tables.shift_table(shift, titles),
        "findings": tables.validation_table(validation),
        "shift_notes": shift_notes(shift),
    }


def _outcome_drawings(data: ReportData) -> Drawings:
    """Figures that need single known outcomes."""
    evaluation, y, decision, weight = data.evaluation, data.y, data.site.decision, data.weight
    if not data.labelled:
        return {}
    span = figures.metric_span(evaluation, _RANKINGS)
    drawn: Drawings = {
        name: figures.draw_metric(evaluation, name, method_label, data.method, span) for name in _RANKINGS
    }
    if y is None:
        return drawn
    first, named = data.predictions[data.method][0], _named_methods(data)
    return {
        **drawn,
        "roc": figures.draw_roc(data.predictions, y, method_label, named, weight),
        "precision": figures.draw_precision_recall(data.predictions, y, method_label, named, weight),
        "smooth": figures.draw_smooth_calibration(first, y, decision.risk_level, weight, data.weighted_follow_up),
        "calibration": figures.draw_calibration(data.predictions, y, method_label, named, data.weighted_follow_up),
        "coverage": figures.draw_risk_coverage(data.predictions, y, decision.threshold, method_label, named, weight),
        "benefit": figures.draw_decision_curve(
            first, y, decision.interval_level, decision.capacity, decision.risk_level, weight
        ),
        "sweep": figures.draw_interval_sweep(data.predictions, y, method_label, named, weight),
    }


def _named_methods(data: ReportData) -> list[str]:
    """The chosen method, the one of highest AUROC by the outcomes, and logistic regression."""
    values = {method: data.evaluation.value(method, "auroc") for method in data.predictions}
    known = {method: value for method, value in values.items() if value is not None}
    best = max(known, key=known.__getitem__, default=data.method)
    return [name for name in dict.fromkeys((data.method, best, SIMPLE)) if name in data.predictions]


def _other_drawings(data: ReportData) -> Drawings:
    validation, evaluation = data.validation, data.evaluation
    steps = {
        "Rows read": validation.read,
        "Duplicates": validation.duplicates,
        "Set aside": validation.quarantined,
        "Used": validation.used,
        "Outcome known": evaluation.labelled,
    }
    lost = bool(validation.duplicates or validation.quarantined) or evaluation.labelled != evaluation.patients
    return {
        "risks": figures.draw_risk_histogram(
            data.predictions[data.method][0], data.referrals.referred, data.site.decision.risk_level, data.hide_below
        ),
        "rates": figures.draw_dropout_rates(data.dropout_rates, method_label),
        "follow_up": _follow_up_drawing(data),
        "attrition": figures.draw_attrition(steps, frozenset({"Duplicates", "Set aside"})) if lost else None,
        **{f"moved_{moved.method}": figures.draw_moved(moved) for moved in data.moved},
    }


def _follow_up_drawing(data: ReportData) -> Drawing | None:
    """How long every site followed its patients; the steps of the curves are single patients and stay at a site."""
    own = {} if data.follow_up is None else {data.site.title or data.site.name: data.follow_up}
    unit = data.contract.column(data.contract.outcome.time).unit if data.contract.outcome.time else None
    return figures.draw_follow_up({**data.followed, **own}, str(unit))


def _recalibration(data: ReportData) -> Recalibration | None:
    """What the outcomes suggest to do about the risks; None where they are too few."""
    if data.y is None or too_few(data.evaluation):
        return None
    risk = data.predictions[data.method][0].mean
    return data.recalibration or suggest_recalibration(data.y, risk, data.weight, left_early=data.weight)


def _recalibration_drawing(data: ReportData, recalibration: Recalibration | None) -> Drawings:
    if recalibration is None or data.y is None:
        return {}
    risk = data.predictions[data.method][0].mean
    risks = {
        "As it is" if adjusted.name == "as it is" else f"After: {adjusted.name}": metrics.recalibrated(
            risk, adjusted.intercept, adjusted.slope
        )
        for adjusted in recalibration.adjustments
    }
    return {"recalibration": figures.draw_recalibration(data.y, risks, data.weighted_follow_up)}


def _about(method: str) -> str:
    """Says what a method is; nothing about one of another version."""
    try:
        description = describe_method(method)
    except UsageError:
        return ""
    name = method_label(method)
    if description.lower().startswith(name.lower()):
        return description
    return f"{name}: {description[:1].lower()}{description[1:]}"


def _tripod_values(data: ReportData) -> dict[str, Any]:
    """What the list for a publication states of this run."""
    auroc = data.evaluation.row(data.method, "auroc")
    features = data.contract.features
    policies = {
        policy: [column.label for column in features if column.missing.policy == policy]
        for policy in ("indicator", "quarantine")
    }
    return {
        "verdict": verdict_words(data.verdict)["sentence"],
        "difference": difference_sentence(data),
        "unknowns": unknowns(data),
        "columns": [column.label for column in features],
        "groups": list(dict.fromkeys(row.group.split(": ")[0] for row in data.evaluation.rows if row.group != ALL)),
        "learned": next((ground for ground in data.shift.grounds if ground.kind == "source_outcomes"), None),
        "models": None if data.provenance is None else data.provenance.digests.get("models"),
        "auroc": row_text(auroc) if auroc is not None and auroc.value is not None else "",
        "auroc_interval": row_interval(auroc),
        "marked": policies["indicator"],
        "needed": policies["quarantine"],
    }
