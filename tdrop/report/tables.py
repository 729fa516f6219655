"""The tables of a report, as plain text cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tdrop.evaluate import Evaluation, Recalibration, Row
from tdrop.metrics import FEW_EVENTS, METRICS, difference_name, metrics_in_view, subgroup_metrics
from tdrop.report.data import ReportData
from tdrop.report.text import count, method_label, number, row_interval, row_spread, row_text, share


@dataclass(frozen=True)
class Cell:
    """One cell: its text, smaller text beside and below it, and what a browser sorts by."""

    text: str
    below: str = ""
    beside: str = ""
    order: str = ""


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
    lines: tuple[tuple[Cell, ...], ...]
    note: str = ""
    marked: int | None = None
    meanings: tuple[tuple[str, str], ...] = ()
    prose: tuple[str, ...] = ()


def cells(*texts: Any) -> tuple[Cell, ...]:
    """Makes cells of plain texts."""
    return tuple(text if isinstance(text, Cell) else Cell(str(text)) for text in texts)


def metric_cell(row: Row | None) -> Cell:
    """Makes the cell of one number."""
    if row is None or row.value is None:
        # "not estimable (4 with the outcome)": the reason below, so that it does not widen its column.
        told, _, why = row_text(row).partition(" (")
        return Cell(told, why.removesuffix(")"))
    return Cell(row_text(row), row_interval(row), row_spread(row), repr(row.value))


def metric_table(
    data: ReportData,
    name: str,
    caption: str,
    metrics: Sequence[str],
    note: str = "",
    *,
    titles: Sequence[str] = (),
) -> Table:
    """Makes a table of methods by metrics; with `titles` of its own it needs no list of meanings."""
    evaluation = data.evaluation
    methods = evaluation.methods
    return Table(
        name=name,
        caption=caption,
        head=("Method", *(titles or (METRICS[metric].title for metric in metrics))),
        lines=tuple(
            (Cell(method_label(method)), *(metric_cell(evaluation.row(method, metric)) for metric in metrics))
            for method in methods
        ),
        note=note,
        marked=methods.index(data.method) if data.method in methods else None,
        meanings=() if titles else tuple((METRICS[metric].title, METRICS[metric].meaning) for metric in metrics),
    )


def main_table(data: ReportData) -> Table:
    """The paper's Table 1, or what can be known of it without outcomes."""
    seeds = len(data.evaluation.seeds)
    spread = f"Mean over {seeds} seeds" + (" (± standard deviation)" if seeds > 1 else "")
    if data.labelled:
        note = (
            f"{spread}; in small print the 95% interval over {_basis(data.evaluation)}: by bootstrap, and for an AUROC "
            f"with fewer than {FEW_EVENTS} events DeLong's on the logit scale. INPT grows with interval width by "
            "itself; see the comparison at equal referrals."
        )
        return metric_table(data, "main", "All methods at this site", metrics_in_view("main"), note)
    note = f"{spread} over {count(data.evaluation.patients)} patients. Without outcomes no line is about being right."
    return metric_table(data, "main", "All methods at this site, without outcomes", metrics_in_view("unlabelled"), note)


def _basis(evaluation: Evaluation) -> str:
    """Says how many patients and outcomes the numbers of a table rest on."""
    if evaluation.labelled is None or evaluation.outcomes is None:
        return "patients with a known outcome"
    return f"{count(evaluation.labelled)} patients with a known outcome, {count(evaluation.outcomes)} of whom had it"


def score_table(data: ReportData) -> Table:
    """Calibration and proper scores."""
    level = share(data.site.decision.threshold, 0)
    note = f"Over {_basis(data.evaluation)}. Error rate: share of wrong classes when acting from {level} risk on."
    return metric_table(data, "scores", "Calibration and accuracy of the risks", metrics_in_view("scores"), note)


def equal_table(data: ReportData) -> Table:
    """The comparison at an equal number of referrals."""
    note = (
        f"At equal referrals every method refers {share(data.site.decision.capacity, 0)} of the patients with a known "
        "outcome, so wide intervals earn nothing by being wide."
    )
    return metric_table(
        data, "equal", "Patients caught at an equal number of referrals", metrics_in_view("equal"), note
    )


def retained_table(data: ReportData) -> Table:
    """Error among those who stay with the model."""
    names = metrics_in_view("retained")
    titles = [METRICS[name].short for name in names]
    note = (
        "Share of wrong classes among patients who stay with the model, when some are referred: those whom the model "
        "itself expects to get wrong, or those with the largest sd."
    )
    return metric_table(data, "retained", "Error left when patients are referred", names, note, titles=titles)


def benefit_table(data: ReportData) -> Table:
    """Net benefit with and without referral."""
    note = f"Acting from a risk of {share(data.site.decision.risk_level, 0)} on."
    return metric_table(data, "benefit", "Net benefit", metrics_in_view("benefit"), note)


def difference_table(data: ReportData) -> Table | None:
    """Each method against the reference on the same resamples; None when nothing was compared."""
    plain = tuple(name for name, metric in METRICS.items() if metric.compared)
    names = tuple(map(difference_name, plain))
    compared = [row for row in data.evaluation.rows if row.metric in names]
    if not compared:
        return None
    reference = method_label(compared[0].reference or "")
    note = "On the same resamples of patients for both methods. An interval that holds 0 shows no difference."
    titles = [METRICS[name].title for name in plain]
    return metric_table(data, "differences", f"Difference to {reference}", names, note, titles=titles)


def subgroup_table(data: ReportData) -> Table | None:
    """The chosen method by subgroup; None without subgroups."""
    evaluation: Evaluation = data.evaluation
    if not evaluation.groups:
        return None
    names = subgroup_metrics(labelled=data.labelled)
    lines = tuple(
        (Cell(group), *(metric_cell(evaluation.row(data.method, name, group=group)) for name in names))
        for group in evaluation.groups
    )
    head = ("Subgroup", *(METRICS[name].title for name in names))
    level = share(data.site.decision.threshold, 0)
    note = "Mean over seeds, with 95% intervals over patients in small print." + (
        f" Error rate: share of wrong classes when acting from {level} risk on." if data.labelled else ""
    )
    return Table("subgroups", f"{method_label(data.method)} by subgroup", head, lines, note)


def recalibration_table(recalibration: Recalibration) -> Table:
    """Risks before and after the recalibration that the outcomes suggest."""
    head = (
        "Risks",
        "Intercept",
        "Slope",
        "Intercept left",
        "Slope left",
        "Calibration error",
        "Log loss",
        "Brier score",
    )
    lines = tuple(
        cells(
            f"after: {one.name}" if one.name != "as it is" else one.name,
            number(one.intercept, 2),
            number(one.slope, 2),
            number(one.calibration_intercept, 2),
            number(one.calibration_slope, 2),
            Cell(number(one.ece), "" if one.ece is None else f"{number(one.ece_low)} to {number(one.ece_high)}"),
            number(one.log_loss),
            number(one.brier),
        )
        for one in recalibration.adjustments
    )
    note = recalibration.note or (
        f"Suggested by {count(recalibration.n)} known outcomes, and not applied. Quality after is measured on patients "
        "who did not take part in fitting the line."
    )
    return Table("recalibration", "Recalibration that the outcomes suggest", head, lines, _as_sentence(note))


def _as_sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")
