"""The tables, figures and sentences of details.html, by the names that its templates use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tdrop import figures
from tdrop.base import UsageError
from tdrop.contracts import MEANINGS, Contract, Validation
from tdrop.evaluate import ALL, LeftOut, Recalibration, suggest_recalibration
from tdrop.figures import Compared, Drawing
from tdrop.methods import describe_method
from tdrop.metrics import OUTCOME_KINDS
from tdrop.report import sentences, tables
from tdrop.report.data import ReportData
from tdrop.report.summary import unknowns
from tdrop.report.text import (
    axis_titles,
    feature_titles,
    method_label,
    number,
    row_interval,
    row_text,
    say,
    unit_of,
    value_names,
)
from tdrop.shift import Matching, Shift

#: Metrics of ranking that are drawn on one scale.
_RANKINGS = ("auroc", "error_auroc_sd", "error_auroc_risk")
#: Figures that are not there without known outcomes.
_BY_OUTCOMES = (*_RANKINGS, "roc", "precision", "calibration", "coverage", "benefit", "sweep")
#: What the counts of a label file are, for people.
_LABEL_COUNTS = {
    "known": "Patients with a known outcome",
    "missing": "Patients without one in the file",
    "horizon_not_reached": "Left before the horizon",
    "unknown_ids": "Ids in the file that are not among the patients",
    "duplicates": "Rows that repeat a patient",
    "conflicting": "Patients with contradicting outcomes",
    "unreadable": "Rows that cannot be read",
}


def details_values(data: ReportData) -> dict[str, Any]:
    """Returns what the template of details.html is filled with."""
    shared = {
        **patient_values(
            data.shift, data.matching, data.validation, data.contract, data.left_out, source_titles=data.source_titles
        ),
        "warnings": sentences.evaluation_warnings(data.evaluation, data.hide_below, weighted=data.weighted),
        "subgroups": tables.subgroup_table(data),
        "held_out": tables.held_out_table(data),
        "left_early": sentences.left_early_sentences(data),
        "label_counts": _label_counts(data),
        "follow_up": _follow_up_drawing(data),
        "attrition": _attrition_drawing(data),
        "split": sentences.split_sentence(data),
    }
    if data.contract.task != "binary":
        return {
            **shared,
            "choice_sentence": sentences.choice_sentence(data.choice) if data.contract.task == "classes" else "",
            "results": tables.result_table(data, first_page=False),
            "confusion": tables.confusion_table(data),
            "loss": OUTCOME_KINDS[data.contract.task].loss,
            "unit": unit_of(data.contract),
        }
    recalibration = _recalibration(data)
    return {
        **shared,
        "drawings": {**dict.fromkeys(_BY_OUTCOMES), **_outcome_drawings(data), **_other_drawings(data)},
        "method_tables": tables.method_tables(data),
        "groups": tables.groups_table(data),
        "site_sentences": [*sentences.odd_sources(data), *sentences.site_sentences(data)],
        "recalibration": recalibration,
        "note_recalibration": "" if recalibration is None else _recalibration_note(recalibration),
        "hindsight": sentences.hindsight(data),
        "about_method": _about(data.method),
        "choice_sentence": sentences.choice_sentence(data.choice),
        "unlabelled": sentences.unlabelled_sentences(data),
        "tripod": _tripod_values(data),
    }


def patient_values(
    shift: Shift,
    matching: Matching | None,
    validation: Validation,
    contract: Contract | None,
    left_out: LeftOut | None = None,
    *,
    source_titles: Mapping[str, str],
) -> dict[str, Any]:
    """Returns what the sections about the extract and its patients are filled with."""
    titles = feature_titles(contract)
    # As the first screen and the table order them.
    order = list(dict.fromkeys(row.column for row in shift.by_difference))
    return {
        "shift": shift,
        "validation": validation,
        "titles": titles,
        "meanings": MEANINGS,
        "densities": figures.draw_densities(shift.features, axis_titles(contract), order, value_names(contract)),
        "propensity": figures.draw_propensity(shift.propensity),
        "balance": figures.draw_balance(() if matching is None else matching.balance, titles),
        "shift_sentence": sentences.shift_sentence(shift),
        "shift_notes": sentences.shift_notes(shift),
        "matching_sentence": "" if matching is None else sentences.matching_sentence(matching, titles, source_titles),
        "left_out": sentences.left_out_sentence(left_out, contract),
    }


def _label_counts(data: ReportData) -> dict[str, Any]:
    """By title, counts of a label file, without those that are 0; empty without a file."""
    labels = data.labels
    if labels is None:
        return {}
    counts = {title: rows for name, title in _LABEL_COUNTS.items() if (rows := getattr(labels, name)) != 0}
    if labels.effective_n is not None:
        counts["Patients of equal weight who say as much"] = labels.effective_n
    if labels.largest_weight is not None:
        counts["Largest weight of a patient"] = number(labels.largest_weight, 1)
    return counts


def _outcome_drawings(data: ReportData) -> dict[str, Drawing | None]:
    """Figures that need known outcomes."""
    if not data.labelled:
        return {}
    evaluation, decision = data.evaluation, data.site.decision
    span = figures.metric_span(evaluation, _RANKINGS)
    drawn = {name: figures.draw_metric(evaluation, name, method_label, data.method, span) for name in _RANKINGS}
    if data.y is None:
        return drawn
    compared = Compared(
        data.predictions, data.y, method_label, _named_methods(data), data.weight, data.weighted_follow_up
    )
    return {
        **drawn,
        "roc": figures.draw_ranking(compared, "roc"),
        "precision": figures.draw_ranking(compared, "precision"),
        "calibration": figures.draw_calibration(compared, decision.risk_level),
        "coverage": figures.draw_risk_coverage(compared, decision.threshold),
        "benefit": figures.draw_decision_curve(compared, decision),
        "sweep": figures.draw_interval_sweep(compared),
    }


def _named_methods(data: ReportData) -> list[str]:
    """The chosen method, the one of highest AUROC by the outcomes, and logistic regression."""
    values = {method: data.evaluation.value(method, "auroc") for method in data.predictions}
    known = {method: value for method, value in values.items() if value is not None}
    best = max(known, key=known.__getitem__, default=data.method)
    return [name for name in dict.fromkeys((data.method, best, sentences.SIMPLE)) if name in data.predictions]


def _other_drawings(data: ReportData) -> dict[str, Drawing | None]:
    summary, level = data.predictions[data.method][0], data.site.decision.risk_level
    return {
        "risks": figures.draw_risk_histogram(summary, data.referrals.referred, level, data.hide_below),
        "ladder": None if data.ladder is None else figures.draw_ladder(data.ladder),
    }


def _follow_up_drawing(data: ReportData) -> Drawing | None:
    """How long every site followed its patients; the steps of the curves are single patients and stay at a site."""
    here = {} if data.follow_up is None else {data.site.title or data.site.name: data.follow_up}
    unit = data.contract.column(data.contract.outcome.time).unit if data.contract.outcome.time else None
    return figures.draw_follow_up({**data.followed, **here}, str(unit))


def _attrition_drawing(data: ReportData) -> Drawing | None:
    """Rows from the extract to the evaluation, where some were lost."""
    validation, evaluation = data.validation, data.evaluation
    lost = {"Duplicates": validation.duplicates, "Set aside": validation.quarantined}
    if not any(lost.values()) and evaluation.labelled == evaluation.patients:
        return None
    used = {"Used": validation.used, "Outcome known": evaluation.labelled}
    return figures.draw_attrition({"Rows read": validation.read, **lost, **used}, lost)


def _recalibration(data: ReportData) -> Recalibration | None:
    """The recalibration that the outcomes suggest; None where they are too few."""
    if data.y is None or sentences.too_few(data.evaluation):
        return None
    risk = data.predictions[data.method][0].mean
    return data.recalibration or suggest_recalibration(data.y, risk, data.weight, left_early=data.weight)


def _recalibration_note(recalibration: Recalibration) -> str:
    note = recalibration.note or say("note_recalibration", recalibration=recalibration)
    return f"{note[:1].upper()}{note[1:].removesuffix('.')}."


def _about(method: str) -> str:
    """Describes a method; says nothing of a method from another version."""
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
    return {
        "difference": sentences.difference_sentence(data),
        "unknowns": unknowns(data),
        "groups": list(dict.fromkeys(row.group.split(": ")[0] for row in data.evaluation.rows if row.group != ALL)),
        "auroc": row_text(auroc) if auroc is not None and auroc.value is not None else "",
        "auroc_interval": row_interval(auroc),
    }
