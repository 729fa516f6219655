"""The tables of a report, as plain text cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.choose import ChoiceRow, Trial
from tdrop.contracts import Column
from tdrop.disclosure import HIDDEN, is_small, shown_count, shown_mean, shown_share
from tdrop.evaluate import Row
from tdrop.forecast import Answer, Quantity, SiteNumber
from tdrop.metrics import (
    FEW_EVENTS,
    METRICS,
    OUTCOME_KINDS,
    difference_name,
    likeliest,
    metrics_in_view,
    misclassified,
    subgroup_metrics,
)
from tdrop.report.data import ReportData
from tdrop.report.sentences import picked_trial
from tdrop.report.summary import observation
from tdrop.report.text import NOTHING, count, method_label, number, row_interval, row_spread, row_text, say, share


@dataclass(frozen=True)
class Cell:
    """One cell: its text, smaller text beside and below it, and what a browser sorts by."""

    text: str
    below: str = ""
    beside: str = ""
    order: str = ""


Line = tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first cell of each line is its heading.

    Attributes:
        name: Unique in its page.
        caption: What it shows.
        head: Column headings.
        lines: Cells.
        note: What a reader must know about it.
        marked: Index of the line to emphasise (the chosen method), or None.
        meanings: Column titles with a sentence each.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    marked: int | None = None
    meanings: tuple[tuple[str, str], ...] = ()


def cells(*texts: Any) -> Line:
    """Makes cells of plain texts."""
    return tuple(text if isinstance(text, Cell) else Cell(str(text)) for text in texts)


def metric_cell(row: Row | None) -> Cell:
    """Makes the cell of one number."""
    if row is None or row.value is None:
        # "not estimable (4 with the outcome)": the reason below, so that it does not widen its column.
        text, _, why = row_text(row).partition(" (")
        return Cell(text, why.removesuffix(")"))
    return Cell(row_text(row), row_interval(row), row_spread(row), repr(row.value))


def _place(method: str, methods: Sequence[str]) -> int | None:
    return methods.index(method) if method in methods else None


def metric_table(
    data: ReportData, name: str, caption: str, metrics: Sequence[str], note: str, titles: Sequence[str] = ()
) -> Table:
    """Makes a table of methods by metrics; with `titles` of its own it needs no list of meanings."""
    evaluation = data.evaluation
    methods = evaluation.methods
    return Table(
        name=name,
        caption=caption,
        head=("Method", *(titles or (METRICS[metric].title for metric in metrics))),
        lines=tuple(
            (Cell(method_label(method)), *map(metric_cell, rows))
            for method, rows in zip(methods, evaluation.find_rows(methods, metrics), strict=True)
        ),
        note=note,
        marked=_place(data.method, methods),
        meanings=() if titles else tuple((METRICS[metric].title, METRICS[metric].meaning) for metric in metrics),
    )


#: By view of the metrics, what it is about and what its table shows.
_VIEWS: dict[Literal["main", "unlabelled", "scores", "equal", "retained", "benefit"], tuple[str, str]] = {
    "unlabelled": ("Ranking and uncertainty", "All methods at this site, without outcomes"),
    "main": ("Ranking and uncertainty", "All methods at this site"),
    "scores": ("Are the risks right", "Calibration and accuracy of the risks"),
    "equal": ("At equal referrals", "Patients caught at an equal number of referrals"),
    "retained": ("Error left", "Error left when patients are referred for review"),
    "benefit": ("Net benefit", "Net benefit"),
}


def method_tables(data: ReportData) -> dict[str, Table]:
    """Returns, by what they are about, the tables of all methods: the paper's Table 1 first."""
    tables: dict[str, Table] = {}
    for view, (title, caption) in _VIEWS.items():
        if data.labelled == (view != "unlabelled"):
            name = "main" if view == "unlabelled" else view
            metrics, note = metrics_in_view(view), say(f"note_{name}", data=data, few_events=FEW_EVENTS)
            titles = [METRICS[metric].short for metric in metrics] if view == "retained" else ()
            tables[title] = metric_table(data, name, caption, metrics, note, titles)
    more = {
        "Differences": _difference_table(data),
        "Expected beforehand": _forecast_table(data),
        "Chosen by": _choice_table(data),
    }
    return tables | {title: table for title, table in more.items() if table is not None}


def _difference_table(data: ReportData) -> Table | None:
    """Each method against the reference on the same resamples; None when nothing was compared."""
    plain = tuple(name for name, metric in METRICS.items() if metric.compared)
    names = tuple(map(difference_name, plain))
    compared = [row for row in data.evaluation.rows if row.metric in names]
    if not compared:
        return None
    caption = f"Difference to {method_label(compared[0].reference or '')}"
    titles = [METRICS[name].title for name in plain]
    return metric_table(data, "differences", caption, names, say("note_differences"), titles)


#: By number of the forecast, its title and how it is written: no finer than the page of a site that hides counts may.
_FORECASTS: dict[Quantity, tuple[str, Callable[[float, int], str], int]] = {
    "auroc": ("AUROC", number, 2),
    "error_rate": ("Error rate", share, 0),
    "net_benefit": ("Net benefit", number, 2),
    "brier": ("Brier score", number, 2),
    "outcomes": ("Patients with the outcome", share, 0),
}


def _forecast_table(data: ReportData) -> Table | None:
    """Every method's forecast, and what was observed; None without a forecast."""
    forecast = data.forecast
    if forecast is None:
        return None
    methods = list(dict.fromkeys(answer.method for answer in forecast.answers))
    lines = tuple(
        (Cell(method_label(method)), *(_forecast_cell(data, forecast.find(method, name), name) for name in _FORECASTS))
        for method in methods
    )
    head = ("Method", *(title for title, *_ in _FORECASTS.values()))
    caption, note = "What was expected of each method before any outcome", say("note_forecast", forecast=forecast)
    return Table("forecast", caption, head, lines, note, _place(data.method, methods))


def _forecast_cell(data: ReportData, answer: Answer | None, quantity: Quantity) -> Cell:
    if answer is None or answer.value is None:
        return Cell(NOTHING)
    _, write, digits = _FORECASTS[quantity]
    seen, below = observation(data, answer.method, quantity), []
    if answer.low is not None and answer.high is not None:
        below.append(f"{write(answer.low, digits)} to {write(answer.high, digits)}")
    if seen is not None:
        below.append(f"observed {write(seen.observed, digits)}, {'as' if seen.inside else 'not as'} forecast")
    return Cell(write(answer.value, digits), "; ".join(below))


def _choice_table(data: ReportData) -> Table:
    """How the method was chosen, without outcomes of this site."""
    rows = data.choice.table
    head = ("Method", "Log loss", "Behind the best", "Matched log loss", "Source AUROC", "Source error AUROC by sd",
            "Can be chosen")  # fmt: skip
    note = say("note_choice", leads=any(row.behind is not None and row.behind < 0 for row in rows))
    lines = tuple(_choice_line(row, picked_trial(data.tuning.get(row.method, ()))) for row in rows)
    marked = _place(data.method, [row.method for row in rows])
    return Table("choice", "How the method was chosen", head, lines, note, marked)


def _choice_line(row: ChoiceRow, trial: Trial | None) -> Line:
    error = row.behind_error
    return cells(
        method_label(row.method),
        number(row.log_loss, 4),
        Cell(number(row.behind, 4), beside=f"± {number(error, 4)}" if error else ""),
        number(row.matched_log_loss, 4),
        Cell(number(trial.auroc), f"{count(trial.n)} patients") if trial else NOTHING,
        Cell(number(trial.error_auroc), f"{count(trial.errors)} errors") if trial else NOTHING,
        "yes" if row.candidate else "no",
    )


def subgroup_table(data: ReportData) -> Table | None:
    """The chosen method by subgroup; None without subgroups."""
    evaluation = data.evaluation
    if not evaluation.groups:
        return None
    names = subgroup_metrics(labelled=data.labelled, task=data.contract.task)
    lines = tuple(
        (Cell(group), *map(metric_cell, evaluation.find_rows([data.method], names, group)[0]))
        for group in evaluation.groups
    )
    head = ("Subgroup", *(METRICS[name].title for name in names))
    caption = f"{method_label(data.method)} by subgroup"
    return Table("subgroups", caption, head, lines, say("note_subgroups", data=data))


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


def held_out_table(data: ReportData) -> Table | None:
    """Every held-out site in numbers, and what the next one may expect."""
    forecast = data.forecast
    expected = None if forecast is None else forecast.next_site.get(data.method)
    if forecast is None or not expected:
        return None
    lines = [
        cells(
            data.source_titles.get(site.site, site.site),
            count(site.n),
            *(number(getattr(site, name), 2) for name in expected),
        )
        for site in forecast.held_out[data.method]
    ]
    for title, pick in (("Mean", "mean"), ("95% interval: from", "low"), ("95% interval: to", "high")):
        lines.append(cells(title, "", *(number(getattr(site, pick), 2) for site in expected.values())))
    head = ("Site", "Patients", *(SITE_TITLES[name] for name in expected))
    return Table("held-out", f"{method_label(data.method)} at sites left out of its fits", head, tuple(lines))


# Several classes, or a number --------------------------------------------------------------------

#: Counts of patients stand on the first page.
_ON_THE_FIRST_PAGE = ("patients", "referred", "left_out", "capacity_referrals", "unlike_referrals")


def result_table(data: ReportData, *, first_page: bool) -> Table:
    """The methods by the metrics of this kind of outcome that there is a number for."""
    known = {row.metric for row in data.evaluation.rows if row.value is not None or row.why is not None}
    main = OUTCOME_KINDS[data.contract.task].first_page
    names = [
        name
        for name, metric in METRICS.items()
        if name in known
        and metric.part is not None
        and data.contract.task in metric.tasks
        and ((name in main) if first_page else name not in _ON_THE_FIRST_PAGE)
    ]
    caption = "All methods at this site" + ("" if data.labelled else ", without outcomes")
    return metric_table(data, "methods", caption, names, "")


def confusion_table(data: ReportData) -> Table | None:
    """Patients by the class that came and the likeliest class; at the site only, and with known outcomes."""
    if data.contract.task != "classes" or data.y is None or data.hide_below:
        return None
    known = np.isfinite(data.y)
    came, expected = data.y[known].astype(int), likeliest(data.predictions[data.method][0].mean[known])
    names = data.contract.classes
    lines = tuple(
        cells(name, *(count(int(((came == row) & (expected == column)).sum())) for column in range(len(names))))
        for row, name in enumerate(names)
    )
    caption = "Patients by the class that came (lines) and the likeliest class"
    return Table("confusion", caption, ("Class", *names), lines)


# Patients in groups -------------------------------------------------------------------------------

Groups = Mapping[str, pd.DataFrame]


def groups_table(data: ReportData) -> Table | None:
    """Who is misclassified and who is referred for review: the mean of each feature in each group, in natural units.

    Of the chosen method's first seed; None without the sites' features.
    """
    if data.source_frame is None or data.target_frame is None:
        return None
    groups, hide_below = _groups(data, data.source_frame, data.target_frame), data.hide_below
    small = {name: is_small(len(frame), hide_below) for name, frame in groups.items()}
    patients = [shown_count(len(frame), hide_below) if hide_below else len(frame) for frame in groups.values()]
    lines = [cells("Patients", *map(count, patients))]
    for column in data.contract.features:
        if all(column.name in frame for frame in groups.values()):
            lines += _group_lines(column, groups, small, hide_below)
    note = say("note_groups", wrong=data.y is not None)
    return Table("groups", "Patients of both sites, in groups", ("Feature", *groups), tuple(lines), note)


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


def _group_lines(column: Column, groups: Groups, small: Mapping[str, bool], hide_below: int) -> list[Line]:
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
            return [cells(f"{column.label}, mean{unit}", *means)]
        titles = [column.label]
        counts = {name: [int(values.sum()), int(len(values) - values.sum())] for name, values in numbers.items()}
    shown = {name: _shares(group, hide_below, small=small[name]) for name, group in counts.items()}
    return [cells(title, *(shown[name][place] for name in groups)) for place, title in enumerate(titles)]


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
