"""What leaves of a whole report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from tdrop.disclosure.cells import Policy, gives_away, is_small, limit, shown_count, to_number
from tdrop.disclosure.documents import (
    disclose_choice,
    disclose_labels,
    disclose_summary,
    disclose_trials,
    disclose_validation,
)
from tdrop.disclosure.evaluation import disclose_evaluation, disclose_moved, disclose_observations
from tdrop.disclosure.shift import disclose_matching, disclose_shift
from tdrop.evaluate import LeftOut

Document = TypeVar("Document")


def disclose(document: Document, policy: Policy) -> Document:
    """Returns a report's data with small counts hidden; what is rendered from it may leave the site.

    Args:
        document: A `tdrop.report.ReportData`.
        policy: The site's disclosure settings; an exempt site's data pass unchanged.
    """
    if not limit(policy):
        return document
    data: Any = document
    shift = disclose_shift(data.shift, policy)
    evaluation = disclose_evaluation(data.evaluation, policy)
    shown: Document = replace(
        data,
        validation=disclose_validation(data.validation, policy),
        source_validation=disclose_validation(data.source_validation, policy),
        shift=shift,
        matching=None if data.matching is None else disclose_matching(data.matching, shift, policy),
        tuning={method: disclose_trials(trials, policy) for method, trials in data.tuning.items()},
        choice=disclose_choice(data.choice, policy, 0 if data.matching is None else data.matching.retained),
        evaluation=evaluation,
        moved=disclose_moved(data.moved, policy),
        observations=disclose_observations(data.observations, evaluation, policy),
        labels=None if data.labels is None else disclose_labels(data.labels, policy),
        previous=None if data.previous is None else disclose_summary(data.previous, policy),
        left_out=None if data.left_out is None else disclose_left_out(data.left_out, policy),
        # Curves over single patients tell of single ones: only tables of rounded numbers leave.
        y=None,
        dropout_rates={},
        # Lists of new patients overlap, and so would what is told of them.
        batches=(),
        recalibration=None,
        hide_below=limit(policy),
    )
    return shown


def disclose_left_out(found: LeftOut, policy: Policy) -> LeftOut:
    """Returns what features that are not recorded cost, to two decimals; only their names where few had the outcome."""
    threshold, rows, outcomes = limit(policy), to_number(found.rows), to_number(found.outcomes)
    if is_small(outcomes, threshold) or gives_away(outcomes, rows, threshold) or not rows:
        return LeftOut(found.columns)
    return LeftOut(
        columns=found.columns,
        rows=shown_count(rows, threshold),
        outcomes=shown_count(outcomes, threshold),
        log_loss_with=_told(found.log_loss_with),
        log_loss_without=_told(found.log_loss_without),
        standard_error=_told(found.standard_error),
        auroc_with=_told(found.auroc_with),
        auroc_without=_told(found.auroc_without),
    )


def _told(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
