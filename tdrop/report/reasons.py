"""Why this method, on the first screen: no more than the tables say."""

from __future__ import annotations

from tdrop.choose import HANDICAP, Choice
from tdrop.evaluate import ALL
from tdrop.report.data import ReportData
from tdrop.report.text import listed, method_label

SIMPLE = "logistic_regression"
_NOT_SETTLED = "source patients like these do not tell which of them is best"


def method_sentence(data: ReportData) -> str:
    """Says why this method, without jargon, and where the outcomes speak against it."""
    better = clearly_better(data)
    if better:
        return (
            f"Chosen without outcomes. Now that they are known, {method_label(better)} fits them clearly better here."
        )
    if data.choice.members:
        told = "by the outcomes no single method is clearly better here" if data.labelled else _NOT_SETTLED
        return f"The mean of {listed([method_label(name) for name in data.choice.members])}: {told}."
    if data.method == SIMPLE:
        if data.labelled:
            return "The simplest method; by the outcomes no other is clearly better here."
        aside = " (leaving out trees, which do not extrapolate)" if _lowest(data.choice) in HANDICAP else ""
        return f"The simplest method; on source patients like these no other is clearly better{aside}."
    if not data.choice.runner_up:
        return "The only method that could be compared."
    return f"{_standing(data.choice)}{_beside_simple(data.choice)}."


def _lowest(choice: Choice) -> str:
    """Of the methods that could be chosen, the one with the lowest log loss; empty where none was scored."""
    losses = {row.method: row.log_loss for row in choice.table if row.candidate and row.log_loss is not None}
    return min(losses, key=losses.__getitem__, default="")


def _standing(choice: Choice) -> str:
    """How the chosen method did on source patients: as the table under "Chosen by" has it, not better."""
    lowest = _lowest(choice)
    if lowest == choice.method:
        return "Best on source patients like these"
    alike = "as good as any on source patients like these, within error"
    return f"Leaving out trees, which do not extrapolate, {alike}" if lowest in HANDICAP else alike.capitalize()


def _beside_simple(choice: Choice) -> str:
    simple = next((row for row in choice.table if row.method == SIMPLE), None)
    if simple is None or simple.behind is None:
        return ""
    if simple.tied:
        return "; plain logistic regression is as good within error"
    return "; clearly better than plain logistic regression"


def clearly_better(data: ReportData) -> str:
    """Of the methods that could have been chosen, the best that by the outcomes beats the chosen one; empty without.

    All are compared with one reference on the same resamples, so intervals that do not meet tell two methods apart.
    """
    differences = {
        row.method: (row.value, row.low, row.high)
        for row in data.evaluation.rows
        if row.metric == "log_loss_difference" and (row.seed, row.group) == (ALL, ALL)
    }
    _, bound, _ = differences.get(data.method, (0.0, 0.0, 0.0))
    candidates = {row.method for row in data.choice.table if row.candidate}
    found = {
        name: value
        for name, (value, _, high) in differences.items()
        if name in candidates and value is not None and high is not None and bound is not None and high < bound
    }
    return min(found, key=found.__getitem__, default="")
