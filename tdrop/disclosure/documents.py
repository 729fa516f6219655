"""What leaves of validation, trials, choice, labels and summary: rounded numbers, and no sentence.

Sentences are written from what these functions return, by `tdrop.report`; none of them reads a word of prose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from tdrop.base import Amount, Count, Hidden
from tdrop.contracts import Finding, Validation
from tdrop.data import LabelCounts
from tdrop.disclosure.cells import DECIMALS, HIDDEN, Policy, gives_away, is_small, limit, shown_count, to_number

if TYPE_CHECKING:
    # A check of an extract uses this module and loads no method.
    from tdrop.choose import Choice, ChoiceRow, Trial


Brief = TypeVar("Brief")


def disclose_validation(validation: Validation, policy: Policy) -> Validation:
    """Returns a validation with rounded counts; facts about the file, such as a missing column, stay as they are."""
    threshold = limit(policy)
    if not threshold:
        return validation
    return replace(
        validation,
        read=shown_count(validation.read, threshold),
        used=shown_count(validation.used, threshold),
        quarantined=shown_count(validation.quarantined, threshold),
        duplicates=shown_count(validation.duplicates, threshold),
        findings=tuple(_finding(item, threshold) for item in validation.findings),
    )


def conceal_validation(validation: Validation, policy: Policy) -> Validation:
    """Returns a validation without a number of patients: what is wrong may be told before a report leaves."""
    if not limit(policy):
        return validation
    return replace(
        validation,
        read=HIDDEN,
        used=HIDDEN,
        quarantined=HIDDEN,
        duplicates=HIDDEN,
        findings=tuple(
            item
            if item.about == "file"
            else replace(item, count=HIDDEN, total=HIDDEN, others=dict.fromkeys(item.others, HIDDEN))
            for item in validation.findings
        ),
    )


def _finding(item: Finding, threshold: int) -> Finding:
    if item.about == "file":
        return item
    return replace(
        item,
        count=shown_count(item.count, threshold),
        total=shown_count(item.total, threshold),
        others={name: shown_count(value, threshold) for name, value in item.others.items()},
    )


def disclose_trials(trials: Sequence[Trial], policy: Policy) -> tuple[Trial, ...]:
    """Returns trials with rounded counts, without their losses by block."""
    threshold = limit(policy)
    return tuple(_trial(trial, threshold) for trial in trials) if threshold else tuple(trials)


def _trial(trial: Trial, threshold: int) -> Trial:
    errors, n, matched_n = (to_number(value) for value in (trial.errors, trial.n, trial.matched_n))
    few = is_small(errors, threshold) or is_small(n, threshold) or gives_away(errors, n, threshold)
    return replace(
        trial,
        log_loss=_short(trial.log_loss),
        standard_error=_short(trial.standard_error),
        error_auroc=None if few else _short(trial.error_auroc),
        errors=shown_count(trial.errors, threshold),
        n=shown_count(trial.n, threshold),
        auroc=_short(trial.auroc),
        brier=_short(trial.brier),
        matched_log_loss=None if is_small(matched_n, threshold) else _short(trial.matched_log_loss),
        matched_n=shown_count(trial.matched_n, threshold),
        matched_losses=None,
        losses=None,
    )


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)


def disclose_choice(choice: Choice, policy: Policy, matched: Count = 0) -> Choice:
    """Returns a choice with rounded counts and losses; a mean of all digits tells the outcomes behind it.

    Args:
        choice: The choice.
        policy: The site's disclosure settings.
        matched: Rows of the matched validation set, where its losses are to leave.
    """
    threshold = limit(policy)
    if not threshold:
        return choice
    return replace(choice, table=tuple(_choice_row(row, to_number(matched), threshold) for row in choice.table))


def _choice_row(row: ChoiceRow, matched: int, threshold: int) -> ChoiceRow:
    few = is_small(to_number(row.n), threshold)
    return replace(
        row,
        log_loss=None if few else _short(row.log_loss),
        standard_error=None if few else _short(row.standard_error),
        behind=None if few else _short(row.behind),
        behind_error=None if few else _short(row.behind_error),
        matched_log_loss=None if matched < threshold else _short(row.matched_log_loss),
        weighted_log_loss=_short(row.weighted_log_loss),
        plain_log_loss=_short(row.plain_log_loss),
        n=shown_count(row.n, threshold),
        effective_n=None if row.effective_n is None else shown_count(row.effective_n, threshold),
    )


def disclose_labels(labels: LabelCounts, policy: Policy) -> LabelCounts:
    """Returns the rounded counts of a label file."""
    threshold = limit(policy)
    if not threshold:
        return labels
    return LabelCounts(*(shown_count(getattr(labels, field.name), threshold) for field in fields(labels)))


def disclose_summary(summary: Brief, policy: Policy) -> Brief:
    """Returns a report's summary with rounded counts, without the sentences that were made from whole ones.

    `report_summary` of data that were disclosed as a whole keeps its sentences and needs this no more.

    Args:
        summary: A `tdrop.report.SiteSummary`.
        policy: The site's disclosure settings.
    """
    threshold = limit(policy)
    if not threshold:
        return summary
    whole: Any = summary
    outcomes = _shown(whole.outcomes, threshold)
    shown: Brief = replace(
        whole,
        reason="",
        use="",
        things=(),
        patients=_shown(whole.patients, threshold),
        referred=_shown(whole.referred, threshold),
        labelled=_shown(whole.labelled, threshold),
        outcomes=outcomes,
        reasons={name: _shown(count, threshold) for name, count in whole.reasons.items()},
        auroc=None if isinstance(outcomes, Hidden) else whole.auroc,
        methods=tuple(
            replace(
                one,
                referrals=_shown(one.referrals, threshold),
                referred=_shown(one.referred, threshold),
                inpt=_shown(one.inpt, threshold),
            )
            for one in whole.methods
        ),
    )
    return shown


def _shown(count: Amount | None, threshold: int) -> Count | None:
    return shown_count(count, threshold) if isinstance(count, int | float) else count
