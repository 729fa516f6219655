"""Why this method, on the first screen: no more than the tables say."""

from __future__ import annotations

from tdrop.evaluate import ALL
from tdrop.report.data import ReportData
from tdrop.report.text import method_label

SIMPLE = "logistic_regression"


def method_sentence(data: ReportData) -> str:
    """Says why this method, without jargon, and where the outcomes speak against it."""
    better = clearly_better(data)
    if better:
        return (
            f"Chosen without outcomes. Now that they are known, {method_label(better)} fits them clearly better here."
        )
    if data.method == SIMPLE:
        if data.labelled:
            return "The simplest method; by the outcomes no other is clearly better here."
        return "The simplest method; on source patients like these no other is clearly better."
    if not data.choice.runner_up:
        return "The only method that could be compared."
    simple = next((row for row in data.choice.table if row.method == SIMPLE), None)
    if simple is None or simple.behind is None:
        return "Best on source patients like these."
    if simple.tied:
        return "Best on source patients like these; plain logistic regression is as good within error."
    return "Best on source patients like these; clearly better than plain logistic regression."


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
