"""The tables of a report, as plain text cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tdrop.base import whole
from tdrop.choose import ChoiceRow, Trial
from tdrop.contracts import MEANINGS, Validation
from tdrop.data import LabelCounts
from tdrop.evaluate import Ladder, Recalibration, Row
from tdrop.forecast import Answer, Forecast, Observation, Quantity
from tdrop.methods import COMMITTEE
from tdrop.metrics import FEW_EVENTS, METRICS, difference_name, metrics_in_view, subgroup_metrics
from tdrop.report.data import ReportData
from tdrop.report.sentences import picked_trial
from tdrop.report.summary import inside_text, observation
from tdrop.report.text import (
    NOTHING,
    count,
    listed,
    method_label,
    number,
    row_interval,
    row_spread,
    row_text,
    say,
    share,
    write_out,
)
from tdrop.shift import Shift


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
        prose: Titles of columns that hold words, which stand to the left.
    """

    name: str
    caption: str
    head: tuple[str, ...]
    lines: tuple[Line, ...]
    note: str = ""
    marked: int | None = None
    meanings: tuple[tuple[str, str], ...] = ()
    prose: tuple[str, ...] = ()


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
    "unlabelled": ("Ranking and doubt", "All methods at this site, without outcomes"),
    "main": ("Ranking and doubt", "All methods at this site"),
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


def _percent(value: float) -> str:
    return share(value, 0)


def _decimals(value: float) -> str:
    return number(value, 2)


#: By number of the forecast, its title and how it is written: no finer than the page of a site that hides counts may.
_FORECASTS: dict[Quantity, tuple[str, Callable[[float], str]]] = {
    "auroc": ("AUROC", _decimals),
    "error_rate": ("Error rate", _percent),
    "net_benefit": ("Net benefit", _decimals),
    "brier": ("Brier score", _decimals),
    "outcomes": ("Patients with the outcome", _percent),
}


def _forecast_table(data: ReportData) -> Table | None:
    """Every method's forecast, and what was observed; None without a forecast."""
    forecast = data.forecast
    if forecast is None:
        return None
    methods = list(dict.fromkeys(answer.method for answer in forecast.answers))
    lines = tuple(_forecast_line(data, forecast, method) for method in methods)
    head = ("Method", *(title for title, _ in _FORECASTS.values()))
    caption, note = "What was expected of each method before any outcome", say("note_forecast", forecast=forecast)
    return Table("forecast", caption, head, lines, note, _place(data.method, methods))


def _forecast_line(data: ReportData, forecast: Forecast, method: str) -> Line:
    return cells(
        method_label(method),
        *(
            _forecast_cell(forecast.find(method, quantity), observation(data, method, quantity), write)
            for quantity, (_, write) in _FORECASTS.items()
        ),
    )


def _forecast_cell(answer: Answer | None, seen: Observation | None, write: Callable[[float], str]) -> Cell:
    if answer is None or answer.value is None:
        return Cell(NOTHING)
    below = [] if answer.low is None or answer.high is None else [f"{write(answer.low)} to {write(answer.high)}"]
    below += [] if seen is None else [f"observed {write(seen.observed)}, {inside_text(seen)}"]
    return Cell(write(answer.value), "; ".join(below))


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


def settings_table(data: ReportData) -> Table | None:
    """The settings that each method was refitted with; None without trials."""
    lines = []
    for method, trials in data.tuning.items():
        trial = picked_trial(trials)
        if trial is not None and trial.method == COMMITTEE:
            members = listed([method_label(name) for name in trial.settings["members"]])
            lines.append(cells(method_label(method), NOTHING, f"the average of {members}"))
        elif trial is not None:
            settings = write_out(trial.settings)
            lines.append(cells(method_label(method), count(len(trials)), settings))
    head = ("Method", "Trials", "Settings")
    if not lines:
        return None
    return Table("settings", "Settings of the winning trials", head, tuple(lines), prose=("Settings",))


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


def recalibration_table(recalibration: Recalibration) -> Table:
    """Risks before and after the recalibration that the outcomes suggest."""
    head = ("Risks", "Intercept", "Slope", "Intercept left", "Slope left", "Calibration error", "Log loss",
            "Gain in log loss", "Brier score")  # fmt: skip
    lines = tuple(
        cells(
            adjusted.name if adjusted.name == "as it is" else f"after: {adjusted.name}",
            number(adjusted.intercept, 2),
            number(adjusted.slope, 2),
            number(adjusted.calibration_intercept, 2),
            number(adjusted.calibration_slope, 2),
            Cell(
                number(adjusted.ece),
                "" if adjusted.ece is None else f"{number(adjusted.ece_low)} to {number(adjusted.ece_high)}",
            ),
            number(adjusted.log_loss),
            Cell(
                number(adjusted.gain),
                "" if adjusted.gain_low is None else f"{number(adjusted.gain_low)} to {number(adjusted.gain_high)}",
            ),
            number(adjusted.brier),
        )
        for adjusted in recalibration.adjustments
    )
    note = recalibration.note or say("note_recalibration", recalibration=recalibration)
    note = f"{note[:1].upper()}{note[1:].removesuffix('.')}."
    return Table("recalibration", "Recalibration that the outcomes suggest", head, lines, note)


def ladder_table(ladder: Ladder) -> Table:
    """What known outcomes could do, rung by rung."""
    lines = tuple(
        cells(
            f"{rung.name} (recommended)" if rung.name == ladder.recommended else rung.name,
            Cell(number(rung.log_loss), rung.why_not),
            Cell(
                number(rung.gain),
                "" if rung.gain_low is None else f"{number(rung.gain_low)} to {number(rung.gain_high)}",
            ),
        )
        for rung in ladder.rungs
    )
    head = ("Rung", "Log loss", "Gain")
    return Table("ladder", "What the known outcomes can do", head, lines, say("note_ladder", ladder=ladder))


def validation_table(validation: Validation) -> Table | None:
    """What the check of an extract found; None where it found nothing."""
    lines = tuple(
        cells(
            Cell(finding.sentence, finding.fix),
            *(NOTHING if finding.about == "file" else count(rows) for rows in (finding.count, finding.total)),
            MEANINGS[finding.severity],
        )
        for finding in validation.findings
    )
    head = ("Finding", "Rows", "Of", "What it means")
    if not lines:
        return None
    return Table("validation", "What was found in the extract", head, lines, prose=("What it means",))


def shift_table(shift: Shift, titles: Mapping[str, str]) -> Table:
    """Feature by feature, how the sites differ."""
    head = ("Feature", "Difference in sd", "Distance", "Outside the source's range")
    lines = tuple(
        cells(
            titles.get(row.feature, row.feature),
            Cell(number(row.smd, 2), order=str(abs(row.smd)) if row.smd is not None else ""),
            number(row.distance, 2),
            share(row.outside_range),
        )
        for row in shift.by_difference
    )
    return Table("shift", "Feature by feature", head, lines, say("note_shift"))


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


def label_table(labels: LabelCounts) -> Table:
    """What became of the rows of a label file."""
    pairs = {title: getattr(labels, name) for name, title in _LABEL_COUNTS.items()}
    if labels.effective_n is not None:
        pairs["Patients of equal weight who say as much"] = whole(labels.effective_n)
    if labels.largest_weight is not None:
        pairs["Largest weight of a patient"] = number(labels.largest_weight, 1)
    return plain_table("labels", "The label file", pairs)


def attrition_table(validation: Validation) -> Table | None:
    """From the persons in a site's database to the rows used; None where rows were sent."""
    steps = {step.title: step.count for step in validation.attrition}
    return plain_table("database", "From the database to rows", steps) if steps else None


def plain_table(name: str, caption: str, pairs: Mapping[str, Any]) -> Table:
    """Makes a table of names and values; a record inside becomes lines of its own."""
    lines = []
    for key, value in pairs.items():
        title = key.replace("_", " ")
        if isinstance(value, Mapping):
            lines += [cells(f"{title}: {inner.replace('_', ' ')}", write_out(item)) for inner, item in value.items()]
        else:
            lines.append(cells(title, write_out(value)))
    return Table(name, caption, ("", ""), tuple(lines))
