"""What leaves of a watch: as it stood when the last patients came who were not few, in rounded numbers.

Between two moments that leave nobody came, or not few, so that their difference tells of few patients as little as
either does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tdrop.base import Count
from tdrop.disclosure.cells import (
    coarse,
    gives_away,
    is_small,
    mean_to_grid,
    share_end,
    shown_count,
    shown_share,
    shown_spread,
    step_of,
    to_number,
)
from tdrop.watch import FeatureMean, GroupPlace, Moment, WatchNumbers, together

#: In the place of a count of few patients.
HIDDEN_COUNT = -1
#: Decimals of places, losses, AUROCs and mean risks, and of log10 of evidence.
SHORT, EVIDENCE = 2, 1
#: A mean of a feature with few values tells no more than this share of its standard deviation.
COARSE_STEP = 0.1


def disclose_watch(numbers: WatchNumbers, threshold: int, made_for: int) -> WatchNumbers:
    """Returns a watch's numbers as they may leave.

    Args:
        numbers: Of a moment that may leave.
        threshold: Of disclosure.
        made_for: How many patients the model was made for; their means stand beside.
    """
    patients, known, events = (to_number(count) for count in (numbers.patients, numbers.outcomes, numbers.events))
    few = is_small(patients, threshold) or not patients
    few_known = is_small(known, threshold) or not known
    # Evidence and ranking follow from who had the outcome; where few had it, or all but few, they would tell.
    alike = few_known or is_small(events, threshold) or gives_away(events, known, threshold)
    hidden = {"outcomes"} if alike else set()
    hidden |= {"harm"} if is_small(numbers.review, threshold) else set()
    hidden |= {"further", "nearer", "harm"} if few else set()
    return WatchNumbers(
        patients=shown_count(patients, threshold),
        outcomes=shown_count(known, threshold),
        events=shown_count(events, threshold),
        expected=None if few_known or numbers.expected is None else round(numbers.expected, SHORT),
        review=shown_count(numbers.review, threshold),
        means={} if few else _means(numbers.means, to_number(numbers.review), patients, threshold),
        evidence={rule: round(value, EVIDENCE) for rule, value in numbers.evidence.items() if rule not in hidden},
        ranking=None if alike or numbers.ranking is None else _rounded(numbers.ranking),
        features={}
        if few
        else {name: _feature(mean, made_for, patients, threshold) for name, mean in numbers.features.items()},
        groups={name: _group(group, threshold) for name, group in numbers.groups.items()},
        findings={rule: shown_count(count, threshold) for rule, count in numbers.findings.items()},
    )


def _rounded(values: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = (round(one, SHORT) for one in values)
    return value, low, high


def _means(means: Any, review: int, patients: int, threshold: int) -> dict[str, tuple[float, float, float]]:
    """Running means; the share for review is a quotient of counts, its interval on the same grid."""
    shown = {name: _rounded(value) for name, value in means.items() if name != "review"}
    share = shown_share(review, patients, threshold)
    if "review" in means and share is not None:
        low = share_end(means["review"][1], patients, threshold, upper=False)
        high = share_end(means["review"][2], patients, threshold, upper=True)
        shown["review"] = (round(share, 3), round(max(0.0, low or 0.0), 3), round(1.0 if high is None else high, 3))
    return shown


def _feature(mean: FeatureMean, made_for: int, patients: int, threshold: int) -> FeatureMean:
    return replace(
        mean,
        before=_feature_mean(mean, mean.before, made_for, threshold),
        now=_feature_mean(mean, mean.now, patients, threshold),
        spread=shown_spread(mean.spread),
    )


def _feature_mean(mean: FeatureMean, value: float | None, rows: int, threshold: int) -> float | None:
    """A mean as it may leave: a share of counts, or a number on a grid that few patients do not move."""
    if value is None or not mean.spread or is_small(rows, threshold):
        return None
    if mean.kind in ("level", "binary", "missing"):
        share = shown_share(round(value * rows), rows, threshold)
        return None if share is None else round(share, 3)
    if mean.kind == "ordinal":
        # Of few values a mean tells counts: its grid is no finer than a tenth of its spread.
        rows = min(rows, round(threshold / max(COARSE_STEP, step_of(rows, threshold))))
    return mean_to_grid(value, mean.spread, rows, threshold)


def _group(group: GroupPlace, threshold: int) -> GroupPlace:
    count = to_number(group.patients)
    if is_small(count, threshold) or not count or group.mean is None:
        return GroupPlace(shown_count(count, threshold), None)
    ends = (None if end is None else round(end, SHORT) for end in (group.low, group.high))
    return GroupPlace(shown_count(count, threshold), round(group.mean, SHORT), *ends)


def disclose_moments(history: Sequence[Moment], threshold: int) -> tuple[Moment, ...]:
    """Returns the moments that may leave, with those before them put together, in rounded numbers.

    What stands at a champion's end and is of few is not shown. A count that is hidden is HIDDEN_COUNT.
    """
    shown = list[Moment]()
    waiting: Moment | None = None
    patients = review = 0
    for moment in history:
        if moment.kind == "champion":
            shown.append(replace(moment, log_wealth={}, means={}))
            waiting, patients, review = None, 0, 0
            continue
        merged = moment if waiting is None else together(waiting, moment)
        patients, review = patients + moment.patients, review + moment.review
        # A threshold that was raised since asks for more patients than came.
        few = any(is_small(count, threshold) for count in (merged.patients, merged.outcomes))
        waiting = merged if few or not moment.leaves else None
        if waiting is None:
            shown.append(_moment(merged, patients, review, threshold))
    return tuple(shown)


def _moment(moment: Moment, patients: int, review: int, threshold: int) -> Moment:
    few = is_small(review, threshold)
    counts: dict[str, Any] = {
        name: _hidden(getattr(moment, name), threshold)
        for name in ("patients", "outcomes", "review", "read", "filled_in", "set_aside")
    }
    step = float(np.log(10)) / 10**EVIDENCE
    return replace(
        moment,
        **counts,
        # What outcomes say is shown once, as it stands: step by step it would tell who had the outcome.
        log_wealth={
            rule: round(step * round(value / step), 3)
            for rule, value in moment.log_wealth.items()
            if rule != "outcomes" and not (few and rule == "harm")
        },
        means=_means(moment.means, review, patients, threshold) if patients else {},
    )


def _hidden(count: int, threshold: int) -> int:
    return HIDDEN_COUNT if is_small(count, threshold) else coarse(count, threshold)


def moment_counts(moment: Moment) -> dict[str, Count | None]:
    """The counts of a moment that may leave; None where one is hidden."""
    names = ("patients", "outcomes", "review", "read", "filled_in", "set_aside")
    return {name: None if getattr(moment, name) < 0 else getattr(moment, name) for name in names}
