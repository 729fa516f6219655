"""The pages of a site whose outcome has several classes or is a number: no decision level, no net benefit, no INPT."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdrop.forecast import Answer
from tdrop.metrics import METRICS, OUTCOME_KINDS, likeliest
from tdrop.report import tables
from tdrop.report.data import ReportData
from tdrop.report.details import shared_values
from tdrop.report.sentences import choice_sentence
from tdrop.report.sites import site_sentences
from tdrop.report.text import count, method_label, say

#: Counts of patients stand on the first page.
_ON_THE_FIRST_PAGE = ("patients", "referred", "left_out", "capacity_referrals", "unlike_referrals")


def report_values(data: ReportData) -> dict[str, Any]:
    """Returns what the template of the first page is filled with beside what all first pages have."""
    return {
        "expected": _expected(data),
        "site_sentences": site_sentences(data)[:2],
        "results": _results(data, first_page=True),
        "unit": unit_of(data),
    }


def other_details_values(data: ReportData) -> dict[str, Any]:
    """Returns what the template of the details is filled with."""
    return {
        **shared_values(data),
        "choice_sentence": choice_sentence(data.choice) if data.contract.task == "classes" else "",
        "results": _results(data, first_page=False),
        "confusion": _confusion(data),
        "losses": _losses(data),
        "tolerance": data.evaluation.decision.get("tolerance"),
        "unit": unit_of(data),
    }


def unit_of(data: ReportData) -> str:
    """The unit of a continuous outcome, with a space before it; empty for others."""
    column = data.contract.outcome.column
    unit = data.contract.column(column).unit if column is not None and data.contract.task == "regression" else None
    return f" {unit}" if unit else ""


def _expected(data: ReportData) -> list[str]:
    """What was forecast of the chosen method, while nothing has checked it."""
    if data.forecast is None or data.labelled:
        return []
    quantities = {"classes": ("error_rate",), "regression": ("mae", "rmse")}[data.contract.task]
    answers = [answer for name in quantities if (answer := data.forecast.find(data.method, name)) is not None]  # type: ignore[arg-type]
    return [_expected_sentence(data, answer) for answer in answers if answer.low is not None]


def _expected_sentence(data: ReportData, answer: Answer) -> str:
    return (
        say("expected_distance", answer=answer, unit=unit_of(data))
        if data.contract.task == "regression"
        else say("expected_class_errors", answer=answer)
    )


def _results(data: ReportData, *, first_page: bool) -> tables.Table:
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
    return tables.metric_table(data, "methods", caption, names, "")


def _losses(data: ReportData) -> tables.Table:
    """What the choice rests on."""
    rows = [row for row in data.choice.table if row.log_loss is not None]
    methods = [row.method for row in rows]
    lines = tuple(
        tables.cells(
            method_label(row.method),
            *(f"{value:.4f}" if value is not None else "–" for value in (row.log_loss, row.standard_error, row.behind)),
            count(row.n),
        )
        for row in rows
    )
    loss = OUTCOME_KINDS[data.contract.task].loss
    return tables.Table(
        name="choice",
        caption=f"Chosen by the {loss} of source patients left out of the fits, weighted to look like this site's",
        head=("Method", "Loss", "Standard error", "Behind the best", "Source patients"),
        lines=lines,
        marked=methods.index(data.method) if data.method in methods else None,
    )


def _confusion(data: ReportData) -> tables.Table | None:
    """Patients by the class that came and the likeliest class; at the site only, and with known outcomes."""
    if data.contract.task != "classes" or data.y is None or data.hide_below:
        return None
    known = np.isfinite(data.y)
    came, expected = data.y[known].astype(int), likeliest(data.predictions[data.method][0].mean[known])
    names = data.contract.classes
    lines = tuple(
        tables.cells(name, *(count(int(((came == row) & (expected == column)).sum())) for column in range(len(names))))
        for row, name in enumerate(names)
    )
    caption = "Patients by the class that came (lines) and the likeliest class"
    return tables.Table("confusion", caption, ("Class", *names), lines)
