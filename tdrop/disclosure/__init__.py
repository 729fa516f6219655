"""Disclosure control: the one exit through which a site's numbers leave its own folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tdrop.disclosure.cells import HIDDEN, Policy, limit, mark, shown_count, shown_parts, shown_share
from tdrop.disclosure.documents import (
    disclose_choice,
    disclose_labels,
    disclose_matching,
    disclose_shift,
    disclose_summary,
    disclose_trials,
    disclose_validation,
)
from tdrop.disclosure.evaluation import disclose_evaluation, disclose_observations, disclose_rows

__all__ = [
    "HIDDEN",
    "Policy",
    "disclose",
    "disclose_choice",
    "disclose_evaluation",
    "disclose_labels",
    "disclose_matching",
    "disclose_observations",
    "disclose_rows",
    "disclose_shift",
    "disclose_summary",
    "disclose_trials",
    "disclose_validation",
    "limit",
    "mark",
    "shown_count",
    "shown_parts",
    "shown_share",
]

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
        source_validation=disclose_validation(data.source_validation, policy) if data.source_validation else {},
        shift=shift,
        matching=disclose_matching(data.matching, shift, policy),
        tuning={method: disclose_trials(trials, policy) for method, trials in data.tuning.items()},
        choice=disclose_choice(data.choice, policy),
        evaluation=evaluation,
        observations=disclose_observations(data.observations, evaluation, policy),
        labels=None if data.labels is None else disclose_labels(data.labels, policy),
        previous=None if data.previous is None else _earlier(data.previous, policy),
        # Curves over patients with known outcomes tell of single ones: only tables of rounded numbers leave.
        y=None,
        recalibration=None,
        hide_below=limit(policy),
    )
    return shown


def _earlier(previous: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    return disclose_summary(previous, policy)
