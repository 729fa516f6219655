"""What leaves of an evaluation and of a whole report.

Counts leave as multiples of the threshold, shares as quotients of such counts, and nothing that rests on few patients.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tdrop.base import Hidden
from tdrop.disclosure.cells import (
    HIDDEN,
    Document,
    Policy,
    by_rule,
    coarse,
    fine_step,
    gives_away,
    is_small,
    limit,
    share_end,
    shown_count,
    shown_parts,
    shown_share,
    step_of,
    to_grid,
    without_numbers,
)
from tdrop.disclosure.documents import (
    disclose_choice,
    disclose_forecast,
    disclose_labels,
    disclose_left_out,
    disclose_trials,
    disclose_validation,
)
from tdrop.disclosure.shift import disclose_matching, disclose_shift
from tdrop.evaluate import ALL, Evaluation, Moved, MovedGroup, Placebo, Row, Why
from tdrop.forecast import Observation
from tdrop.metrics import METRICS, difference_name

#: Forecast numbers that the evaluation has under another name.
_OBSERVED = {"outcomes": "outcome_rate"}
#: The net benefit without and with referral: the second less the first is a gain.
_BENEFITS = ("net_benefit", "net_benefit_refer")
#: What all patients' classes are measured by: a share of some of them tells of the others.
_OF_ALL = "error_rate"


def is_share_of_counts(metric: str) -> bool:
    """Whether a metric is a number of patients over another."""
    return metric in METRICS and METRICS[metric].tells == "shares"


def disclose_rows(rows: Sequence[Row], policy: Policy) -> tuple[Row, ...]:
    """Returns the rows as they may leave."""
    threshold = limit(policy)
    if not threshold:
        return tuple(rows)
    silent = _silent_groups(rows, threshold)
    # What is hidden for one seed is hidden for all, and so is their mean.
    few = {(row.method, row.metric, row.group) for row in rows if _rests_on_few(row, threshold)}
    few |= _few_apart(rows, threshold)
    shown = [
        _show(row, (row.method, row.group) in silent or (row.method, row.metric, row.group) in few, threshold)
        for row in rows
    ]
    rates = {(row.method, row.seed, row.group, row.metric): row.value for row in shown}
    return tuple(_difference(row, rates, threshold) for row in shown)


def _few_apart(rows: Iterable[Row], threshold: int) -> set[tuple[str, str, str]]:
    """Finds rows that differ from others by what befell few patients: errors among few referred, a gain of few."""
    values = {(row.method, row.seed, row.group, row.metric): row for row in rows}
    few = set()
    for (method, seed, group, metric), row in values.items():
        whole = values.get((method, seed, group, _OF_ALL))
        gain = _gain(values, row) if METRICS[metric].tells == "gains" else None
        apart = is_share_of_counts(metric) and whole is not None and gives_away(row.n, whole.n, threshold)
        if apart or (gain is not None and gain < threshold):
            few.add((method, metric, group))
    return few


def _gain(values: Mapping[tuple[str, int | str, str, str], Row], row: Row) -> float | None:
    """How many net true positives referral adds, in patients."""
    plain, referred = (values.get((row.method, row.seed, row.group, name)) for name in _BENEFITS)
    if plain is None or referred is None or plain.value is None or referred.value is None:
        return None
    return (referred.value - plain.value) * (row.n or 0)


def _silent_groups(rows: Iterable[Row], threshold: int) -> set[tuple[str, str]]:
    """Finds groups too small to be told about, and those whose size would give such a one away."""
    tables: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for row in rows:
        if row.metric == "patients" and row.group != ALL and row.value is not None and row.seed == ALL:
            tables[row.method, row.group.split(": ")[0]].append((row.group, round(row.value)))
    silent = set()
    for (method, _), groups in tables.items():
        shown = shown_parts([size for _, size in groups], threshold)
        silent |= {(method, group) for (group, _), size in zip(groups, shown, strict=True) if isinstance(size, Hidden)}
    return silent


def _show(row: Row, silent: bool, threshold: int) -> Row:
    if silent or is_small(row.n, threshold):
        return _hide(row, threshold)
    if METRICS[row.metric].shape == "count":
        value = None if row.value is None else float(coarse(row.value, threshold))
        ends = [None if end is None else float(coarse(end, threshold)) for end in (row.low, row.high)]
        shown = replace(row, value=value, low=ends[0], high=ends[1], seed_sd=None)
    elif is_share_of_counts(row.metric):
        n = row.n or 0
        low, high = share_end(row.low, n, threshold, upper=False), share_end(row.high, n, threshold, upper=True)
        value = None if row.value is None else shown_share(_part(row), n, threshold)
        shown = replace(row, value=value, low=low, high=high, seed_sd=None)
    else:
        step = _step(row, threshold)
        ends = [to_grid(end, step) for end in (row.value, row.low, row.high, row.seed_sd)]
        shown = replace(row, value=ends[0], low=ends[1], high=ends[2], seed_sd=ends[3])
    return replace(
        shown, why=_why(row), estimable=None, n=_count(row.n, threshold), events=_count(row.events, threshold)
    )


def _step(row: Row, threshold: int) -> float:
    """How finely a number that is no share of counts may be told; one in a unit of its own, to two digits."""
    tells = METRICS[row.metric].tells
    if "regression" in METRICS[row.metric].tasks and row.value is not None and abs(row.value) > 1:
        return float(10 ** (math.floor(math.log10(abs(row.value))) - 1))
    if tells == "gains":
        return float(max(1, threshold // 2))
    # A weighed count is no finer than the threshold's share of the patients, so that no count can be read off.
    return step_of(row.n or threshold, threshold) if tells == "weights" else fine_step(row.n or threshold, threshold)


def _rests_on_few(row: Row, threshold: int) -> bool:
    if row.events is not None and (is_small(row.events, threshold) or gives_away(row.events, row.n, threshold)):
        return True
    if row.value is None:
        return False
    if METRICS[row.metric].shape == "count":
        return is_small(row.value, threshold) or (row.metric != "patients" and gives_away(row.value, row.n, threshold))
    part = _part(row)
    few = is_small(part, threshold) or gives_away(part, row.n, threshold)
    return is_share_of_counts(row.metric) and few


def _part(row: Row) -> float:
    """The patients behind a share; a division leaves 44.999999 of 45."""
    return round((row.value or 0.0) * (row.n or 0), 6)


def _hide(row: Row, threshold: int) -> Row:
    small = METRICS[row.metric].shape == "count" and is_small(row.value, threshold)
    bare = replace(row, value=None, low=None, high=None, seed_sd=None, n=None, events=None, estimable=None)
    if row.why == "no spread":
        return bare
    return replace(bare, why="hidden", hidden=Hidden(threshold) if small else HIDDEN)


def _why(row: Row) -> Why | None:
    """Why a row has no number, without which side is short of patients."""
    return row.why if row.why in (None, "no spread") else "not estimable"


def _count(value: int | None, threshold: int) -> int | None:
    shown = None if value is None else shown_count(value, threshold)
    return shown if isinstance(shown, int) else None


def _difference(row: Row, rates: Mapping[tuple[str, int | str, str, str], float | None], threshold: int) -> Row:
    """A difference of shares is that of the shares shown."""
    share = next((name for name in METRICS if difference_name(name) == row.metric and is_share_of_counts(name)), None)
    if share is None or row.value is None:
        return row
    mine, theirs = (rates.get((method, row.seed, row.group, share)) for method in (row.method, row.reference or ""))
    if mine is None or theirs is None:
        return _hide(row, threshold)
    n = row.n or 0
    low, high = share_end(row.low, n, threshold, upper=False), share_end(row.high, n, threshold, upper=True)
    return replace(row, value=mine - theirs, low=low, high=high)


def disclose_evaluation(evaluation: Evaluation, policy: Policy) -> Evaluation:
    """Returns the evaluation as it may leave."""
    threshold = limit(policy)
    if not threshold:
        return evaluation
    few = is_small(evaluation.outcomes, threshold) or gives_away(evaluation.outcomes, evaluation.labelled, threshold)
    return replace(
        evaluation,
        # Of single refits only counts: every further number would say a little more about each patient.
        rows=tuple(
            row
            for row in disclose_rows(evaluation.rows, policy)
            if row.seed == ALL or METRICS[row.metric].shape == "count"
        ),
        patients=_count(evaluation.patients, threshold),
        labelled=_count(evaluation.labelled, threshold),
        outcomes=None if few else _count(evaluation.outcomes, threshold),
    )


def disclose_observations(
    observations: Sequence[Observation], evaluation: Evaluation, policy: Policy
) -> tuple[Observation, ...]:
    """Returns what was observed beside a forecast as it may leave.

    A number leaves only where the evaluation as it leaves shows it too, and as finely as there: a coarser one beside
    it would protect nobody.

    Args:
        observations: Forecast and observed numbers.
        evaluation: As it may leave.
        policy: The site's disclosure settings.
    """
    threshold = limit(policy)
    if not threshold:
        return tuple(observations)
    known = {(row.method, row.metric) for row in evaluation.rows if row.value is not None and row.group == ALL}
    leaving = []
    for one in observations:
        metric = _OBSERVED.get(one.quantity, one.quantity)
        if is_share_of_counts(metric):
            value = shown_share(round(one.observed * one.n, 6), one.n, threshold)
        else:
            value = to_grid(one.observed, fine_step(one.n, threshold))
        if value is not None and not is_small(one.n, threshold) and (one.method, metric) in known:
            n = coarse(one.n, threshold)
            leaving.append(replace(one, observed=value, observed_low=None, observed_high=None, n=n))
    return tuple(leaving)


def disclose_moved(moved: Sequence[Moved], policy: Policy) -> tuple[Moved, ...]:
    """Returns what unlabelled patients did, as means of many patients to two decimals; nothing that outcomes say."""
    threshold = limit(policy)
    if not threshold:
        return tuple(moved)
    return tuple(
        replace(one, groups=_shown_groups(one.groups, threshold), reliability=None, placebo=_shown_placebo(one.placebo))
        for one in moved
    )


def _shown_placebo(placebo: Placebo | None) -> Placebo | None:
    """What all patients' risks say, to two decimals, without what outcomes say."""
    if placebo is None:
        return None
    return Placebo(round(placebo.slope, 2), round(placebo.explained, 2), round(placebo.remaining, 2))


def _shown_groups(groups: Sequence[MovedGroup], threshold: int) -> tuple[MovedGroup, ...]:
    """The groups, or none of them where one is of few patients."""
    if any(isinstance(one.n, Hidden) or one.n < threshold for one in groups):
        return ()
    return tuple(by_rule(one, threshold) for one in groups)


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
        forecast=None if data.forecast is None else disclose_forecast(data.forecast, policy),
        labels=None if data.labels is None else disclose_labels(data.labels, policy),
        left_out=None if data.left_out is None else disclose_left_out(data.left_out, policy),
        failed_methods={
            method: without_numbers(why, "the site's own report says why")
            for method, why in data.failed_methods.items()
        },
        # The report before may hold whole counts; whoever exports puts the one that left in its place.
        previous=None,
        # Curves over single patients tell of single ones: only tables of rounded numbers leave.
        y=None,
        weight=None,
        follow_up=None,
        followed={},
        censoring=by_rule(data.censoring, limit(policy)),
        # Lists of new patients overlap, and so would what is said of them.
        moved_by=None,
        unseen_classes=(),
        recalibration=None,
        ladder=None,
        split=None,
        hide_below=limit(policy),
    )
    return shown
