"""What details.html asks for beside sentences: figures, patients in groups, and which metrics its tables show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop import figures
from tdrop.base import UsageError
from tdrop.contracts import Column, Contract
from tdrop.disclosure import HIDDEN, is_small, shown_count, shown_mean, shown_share
from tdrop.evaluate import Recalibration, suggest_recalibration
from tdrop.figures import Compared, Drawing
from tdrop.forecast import SiteNumber
from tdrop.methods import describe_method
from tdrop.metrics import METRICS, OUTCOME_KINDS, likeliest, misclassified
from tdrop.report import sentences
from tdrop.report.data import ReportData
from tdrop.report.text import NOTHING, axis_titles, count, feature_titles, method_label, number, share, value_names
from tdrop.shift import Matching, Shift

#: Metrics of ranking that are drawn on one scale.
RANKINGS = ("auroc", "error_auroc_sd", "error_auroc_risk")
#: Counts of patients stand on the first page.
_ON_THE_FIRST_PAGE = ("patients", "referred", "left_out", "capacity_referrals", "unlike_referrals")
SITE_TITLES: Mapping[SiteNumber, str] = {
    "auroc": "AUROC",
    "log_loss": "Log loss",
    "error_rate": "Misclassified",
    "net_benefit": "Net benefit",
    "observed_expected": "Observed / expected",
    "slope": "Calibration slope",
    "accuracy": "Accuracy",
    "rmse": "Root mean squared error",
    "r2": "Explained share (R2)",
    "coverage": "Interval coverage",
}


# Figures ------------------------------------------------------------------------------------------


def draw_patients(shift: Shift, matching: Matching | None, contract: Contract | None) -> dict[str, Drawing | None]:
    """Draws how different the patients are."""
    # As the first screen and the table order them.
    order = list(dict.fromkeys(row.column for row in shift.by_difference))
    balance = () if matching is None else matching.balance
    return {
        "densities": figures.draw_densities(shift.features, axis_titles(contract), order, value_names(contract)),
        "propensity": figures.draw_propensity(shift.propensity),
        "balance": figures.draw_balance(balance, feature_titles(contract)),
    }


def draw_methods(data: ReportData) -> dict[str, Drawing | None]:
    """Draws the methods, of a binary outcome; figures that need known outcomes are left out without them."""
    summary, level = data.predictions[data.method][0], data.site.decision.risk_level
    drawn: dict[str, Drawing | None] = {
        "risks": figures.draw_risk_histogram(summary, data.referrals.referred, level, data.hide_below),
        "ladder": None if data.ladder is None else figures.draw_ladder(data.ladder),
    }
    if data.labelled:
        span = figures.metric_span(data.evaluation, RANKINGS)
        for name in RANKINGS:
            drawn[name] = figures.draw_metric(data.evaluation, name, method_label, data.method, span)
    if not data.labelled or data.y is None:
        return drawn
    decision, named = data.site.decision, _named_methods(data)
    compared = Compared(data.predictions, data.y, method_label, named, data.weight, data.weighted_follow_up)
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


def draw_sites_follow_up(data: ReportData) -> Drawing | None:
    """Draws how long every site followed its patients; steps of the curves are single patients and stay at a site."""
    here = {} if data.follow_up is None else {data.site.title or data.site.name: data.follow_up}
    unit = data.contract.column(data.contract.outcome.time).unit if data.contract.outcome.time else None
    return figures.draw_follow_up({**data.followed, **here}, str(unit))


def draw_lost_rows(data: ReportData) -> Drawing | None:
    """Draws rows from the extract to the evaluation, where some were lost."""
    validation, evaluation = data.validation, data.evaluation
    lost = {"Duplicates": validation.duplicates, "Set aside": validation.quarantined}
    if not any(lost.values()) and evaluation.labelled == evaluation.patients:
        return None
    used = {"Used": validation.used, "Outcome known": evaluation.labelled}
    return figures.draw_attrition({"Rows read": validation.read, **lost, **used}, lost)


# What tables hold ---------------------------------------------------------------------------------


def result_metrics(data: ReportData, *, first_page: bool) -> list[str]:
    """The metrics of this kind of outcome that there is a number for."""
    known = {row.metric for row in data.evaluation.rows if row.value is not None or row.why is not None}
    task, main = data.contract.task, OUTCOME_KINDS[data.contract.task].first_page
    shown = [name for name in METRICS if (name in main if first_page else name not in _ON_THE_FIRST_PAGE)]
    return [name for name in shown if name in known and METRICS[name].part is not None and task in METRICS[name].tasks]


def recalibration_of(data: ReportData) -> Recalibration | None:
    """The recalibration that the outcomes suggest; None where they are too few."""
    if data.y is None or sentences.too_few(data.evaluation):
        return None
    risk = data.predictions[data.method][0].mean
    return data.recalibration or suggest_recalibration(data.y, risk, data.weight, left_early=data.weight)


def about_method(method: str) -> str:
    """Describes a method; says nothing of a method from another version."""
    try:
        description = describe_method(method)
    except UsageError:
        return ""
    name = method_label(method)
    if description.lower().startswith(name.lower()):
        return description
    return f"{name}: {description[:1].lower()}{description[1:]}"


def confusion_counts(data: ReportData) -> list[tuple[str, list[int]]]:
    """Patients by the class that came and the likeliest class; at the site only, and with known outcomes."""
    if data.contract.task != "classes" or data.y is None or data.hide_below:
        return []
    known, names = np.isfinite(data.y), data.contract.classes
    came, expected = data.y[known].astype(int), likeliest(data.predictions[data.method][0].mean[known])
    counts = np.zeros((len(names), len(names)), dtype=int)
    np.add.at(counts, (came, expected), 1)
    return list(zip(names, counts.tolist(), strict=True))


# Patients in groups -------------------------------------------------------------------------------

Groups = Mapping[str, pd.DataFrame]


def group_lines(data: ReportData) -> list[list[str]]:
    """Who is misclassified and who is referred for review: the mean of each feature in each group, in natural units.

    Of the chosen method's first seed; the first line has the headings. Empty without the sites' features.
    """
    if data.source_frame is None or data.target_frame is None:
        return []
    groups, hide_below = _groups(data, data.source_frame, data.target_frame), data.hide_below
    small = {name: is_small(len(frame), hide_below) for name, frame in groups.items()}
    patients = [shown_count(len(frame), hide_below) if hide_below else len(frame) for frame in groups.values()]
    lines = [["Feature", *groups], ["Patients", *map(count, patients)]]
    for column in data.contract.features:
        if all(column.name in frame for frame in groups.values()):
            lines += _group_lines(column, groups, small, hide_below)
    return lines


def _groups(data: ReportData, source: pd.DataFrame, target: pd.DataFrame) -> dict[str, pd.DataFrame]:
    summary = data.predictions[data.method][0]
    groups = {"Source": source, "This site": target}
    if data.y is not None:
        known = np.isfinite(data.y)
        wrong = np.zeros(len(target), dtype=np.bool_)
        level = data.site.decision.threshold
        wrong[known] = misclassified(data.y[known], summary.mean[known], level)
        groups[f"Misclassified at {share(level, 0)}"] = target[wrong]
    groups["For review"] = target[data.referrals.referred]
    return groups


def _group_lines(column: Column, groups: Groups, small: Mapping[str, bool], hide_below: int) -> list[list[str]]:
    """The mean of a number; of a column with two or more values the share of each, or of the first of two."""
    if column.categories:
        titles = [f"{column.label}: {column.category_titles.get(label, label)}" for label in column.categories]
        labels = {name: frame[column.name].astype("str") for name, frame in groups.items()}
        counts = {name: [int(values.eq(label).sum()) for label in column.categories] for name, values in labels.items()}
    else:
        numbers = {name: _numbers(frame[column.name]) for name, frame in groups.items()}
        if column.type != "binary":
            unit = f" ({column.unit})" if column.unit and not column.label.endswith(")") else ""
            means = (_mean(values, hide_below, small=small[name]) for name, values in numbers.items())
            return [[f"{column.label}, mean{unit}", *means]]
        titles = [column.label]
        counts = {name: [int(values.sum()), int(len(values) - values.sum())] for name, values in numbers.items()}
    shown = {name: _shares(group, hide_below, small=small[name]) for name, group in counts.items()}
    return [[title, *(shown[name][place] for name in groups)] for place, title in enumerate(titles)]


def _numbers(values: pd.Series) -> NDArray[Any]:
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    return np.asarray(numbers[np.isfinite(numbers)], dtype=np.float64)


def _mean(values: NDArray[Any], hide_below: int, *, small: bool) -> str:
    if small or is_small(len(values), hide_below):
        return str(HIDDEN)
    if not len(values):
        return NOTHING
    return number(shown_mean(values, hide_below) if hide_below else values.mean(), 1)


def _shares(counts: Sequence[int], hide_below: int, *, small: bool) -> list[str]:
    """Writes counts of a group as shares, no finer than two counts that may leave."""
    total = sum(counts)
    if not hide_below:
        return [share(value / total if total else None) for value in counts]
    shares = [None if small else shown_share(value, total, hide_below) for value in counts]
    return [str(HIDDEN) if part is None else share(part) for part in shares]
