"""What leaves of validation, trials, choice, labels and features left out: rounded numbers, and no sentence.

Sentences are written from what these functions return, by `tdrop.report`; none of them reads a word of prose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tdrop.contracts import Finding, Validation
from tdrop.disclosure.cells import (
    HIDDEN,
    RULES,
    Policy,
    by_rule,
    fine_step,
    gives_away,
    is_small,
    limit,
    to_grid,
    to_number,
)

if TYPE_CHECKING:
    # A check of an extract uses this module and loads no method.
    from tdrop.base import Count
    from tdrop.choose import Choice, ChoiceRow, Trial
    from tdrop.data import LabelCounts
    from tdrop.evaluate import LeftOut
    from tdrop.forecast import Forecast, HeldOutSite, SiteNumber
    from tdrop.served import CalibrationLine


def disclose_validation(validation: Validation, policy: Policy) -> Validation:
    """Returns a validation with rounded counts; facts about the file, such as a missing column, stay as they are."""
    threshold = limit(policy)
    if not threshold:
        return validation
    findings = (item if item.about == "file" else by_rule(item, threshold) for item in validation.findings)
    attrition = tuple(by_rule(step, threshold) for step in validation.attrition)
    return by_rule(validation, threshold, findings=tuple(findings), attrition=attrition)


def conceal_validation(validation: Validation, policy: Policy) -> Validation:
    """Returns a validation without a number of patients: what is wrong may be known before a report leaves."""
    if not limit(policy):
        return validation
    counts: dict[str, Any] = dict.fromkeys(RULES["Validation"]["count"], HIDDEN)
    attrition = tuple(replace(step, count=HIDDEN) for step in validation.attrition)
    return replace(validation, **counts, findings=tuple(map(_conceal, validation.findings)), attrition=attrition)


def _conceal(item: Finding) -> Finding:
    if item.about == "file":
        return item
    return replace(item, count=HIDDEN, total=HIDDEN, others=dict.fromkeys(item.others, HIDDEN))


def disclose_trials(trials: Sequence[Trial], policy: Policy) -> tuple[Trial, ...]:
    """Returns trials with rounded counts, without their losses by block."""
    threshold = limit(policy)
    return tuple(_trial(trial, threshold) for trial in trials) if threshold else tuple(trials)


def _trial(trial: Trial, threshold: int) -> Trial:
    errors, n = to_number(trial.errors), to_number(trial.n)
    few = is_small(errors, threshold) or is_small(n, threshold) or gives_away(errors, n, threshold)
    hidden = {"error_auroc": None} if few else {}
    matched = _matched_loss(trial.matched_log_loss, to_number(trial.matched_n), threshold)
    return by_rule(trial, threshold, n, matched_log_loss=matched, **hidden)


def _matched_loss(loss: float | None, rows: int, threshold: int) -> float | None:
    """A loss over the matched validation set, which is smaller than what other losses rest on."""
    return None if rows < threshold else to_grid(loss, fine_step(rows, threshold))


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
    rows = to_number(row.n)
    names = ("log_loss", "standard_error", "behind", "behind_error") if is_small(rows, threshold) else ()
    loss = _matched_loss(row.matched_log_loss, matched, threshold)
    return by_rule(row, threshold, rows, matched_log_loss=loss, **dict.fromkeys(names))


def disclose_labels(labels: LabelCounts, policy: Policy) -> LabelCounts:
    """Returns the rounded counts of a label file."""
    return by_rule(labels, limit(policy)) if limit(policy) else labels


def disclose_forecast(forecast: Forecast, policy: Policy) -> Forecast:
    """Returns a forecast whose sources have rounded counts and two decimals; sources with few outcomes stay."""
    threshold = limit(policy)
    if not threshold:
        return forecast
    held_out = {
        method: tuple(
            by_rule(site, threshold, variances=_variances(site))
            for site in sites
            if site.events is None
            or not (is_small(site.events, threshold) or gives_away(site.events, site.n, threshold))
        )
        for method, sites in forecast.held_out.items()
    }
    influence = tuple(by_rule(own, threshold) for own in forecast.influence)
    return replace(forecast, held_out=held_out, influence=influence)


def _variances(site: HeldOutSite) -> dict[SiteNumber, float]:
    """The sampling variance of the number that a forest plot draws."""
    drawn: tuple[SiteNumber, ...] = ("auroc", "rmse")
    return {name: round(site.variances[name], 4) for name in drawn if name in site.variances}


def disclose_left_out(left_out: LeftOut, policy: Policy) -> LeftOut:
    """Returns what features that are not recorded cost, to two decimals; only their names where few had the outcome."""
    threshold, rows, outcomes = limit(policy), to_number(left_out.rows), to_number(left_out.outcomes)
    if is_small(outcomes, threshold) or gives_away(outcomes, rows, threshold) or not rows:
        return type(left_out)(left_out.columns, left_out.indicators)
    return by_rule(left_out, threshold)


def disclose_line(line: CalibrationLine, policy: Policy) -> CalibrationLine:
    """Returns the recalibration that a model leaves with, to two decimals: of all digits it is a fingerprint of the
    outcomes that it was fitted to, and a hundredth of log odds is far below what these can tell."""
    if not limit(policy):
        return line
    effects = tuple(round(effect, 2) for effect in line.effects)
    return replace(line, intercept=round(line.intercept, 2), slope=max(0.01, round(line.slope, 2)), effects=effects)
