"""From numbers to tidy rows: the mean over seeds, its interval, and why a number is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tdrop import metrics
from tdrop.base import Indices, Mask, Summary
from tdrop.evaluate.numbers import FitNumbers, KnownOutcomes, patients_interval
from tdrop.evaluate.records import ALL, Over, Row, Why
from tdrop.metrics import METRICS, DecisionLevels, Mean, MetricPart, Patients, Total


def rows_without_outcomes(
    site: str,
    method: str,
    summaries: Sequence[Summary],
    decision: DecisionLevels,
    seeds: Sequence[int],
    groups: Mapping[str, Indices],
    unlike: Mask | None = None,
) -> list[Row]:
    """Rows that need no outcome."""
    fits = [Patients(summary, decision, metrics.refer(summary, decision, unlike)) for summary in summaries]
    spread = all(map(metrics.has_spread, summaries))
    everyone = np.arange(len(summaries[0].mean))
    rows: list[Row] = []
    for name, metric in METRICS.items():
        if metric.needs != "patients" or metric.part is None or summaries[0].task not in metric.tasks:
            continue
        missing = metric.spread and not spread
        parts = [metric.part(fit) for fit in fits]
        for group, members in {ALL: everyone, **(groups if metric.subgroups else {})}.items():
            why: Why | None = "no spread" if missing else None
            template = Row(site, method, ALL, name, None, None, None, len(members), why, group=group)
            points = [None if missing else _point(name, part, members) for part in parts]
            if group == ALL:
                rows += [replace(template, seed=int(s), value=v) for s, v in zip(seeds, points, strict=True)]
            rows.append(_over_seeds(template, points))
    return rows


def _point(name: str, part: MetricPart, members: Indices) -> float | None:
    """The total or mean over some patients; None where there is nobody to take the mean of."""
    if not isinstance(part, Total | Mean) or (isinstance(part, Mean) and part.among is not None):
        raise TypeError(f"metric '{name}': without outcomes there are totals and plain means only")
    values = np.asarray(part.each, dtype=np.float64)[members]
    if isinstance(part, Total):
        return float(values.sum())
    return float(values.mean()) if len(values) else None


def _over_seeds(row: Row, points: Sequence[float | None]) -> Row:
    """Fills the row of all seeds with the mean and spread of their values."""
    known = [point for point in points if point is not None]
    if not known:
        return row
    estimable = len(known) if len(known) < len(points) else None
    spread = float(np.std(known, ddof=1)) if len(known) > 1 else None
    # Patients are whole, and those of the first seed are the ones on the list.
    value = known[0] if METRICS[row.metric].shape == "count" else float(np.mean(known))
    return replace(row, value=value, seed_sd=spread, estimable=estimable)


def rows_with_outcomes(
    site: str, method: str, summaries: Sequence[Summary], numbers: Sequence[FitNumbers], seeds: Sequence[int]
) -> list[Row]:
    """Rows that rest on known outcomes."""
    spread = all(map(metrics.has_spread, summaries))
    rows: list[Row] = []
    places = {name: place for place, name in enumerate(METRICS)}
    # Everyone before subgroups, in the order of the table of metrics.
    for name in sorted(numbers[0].point, key=lambda name: ("@" in name, places[name.partition("@")[0]])):
        metric, _, group = name.partition("@")
        template = Row(site, method, ALL, metric, None, None, None, 0, group=group or ALL)
        singles = [_seed_row(template, name, s, fit, spread) for s, fit in zip(seeds, numbers, strict=True)]
        if not group:
            rows += singles
        rows.append(_all_row(template, name, singles, numbers))
    return rows


def _seed_row(template: Row, name: str, seed: int, numbers: FitNumbers, spread: bool) -> Row:
    n, events = numbers.rests_on[name]
    row = replace(template, seed=int(seed), n=n, events=events)
    why = _why_not(template.metric, n, events, spread)
    if why or not np.isfinite(numbers.point[name]):
        return replace(row, why=why or "not estimable")
    low, high = patients_interval(name, [numbers])
    over: Over | None = None if low is None else "patients"
    # Patients are whole, also where each outcome stands for several.
    value = numbers.point[name]
    value = float(round(value)) if METRICS[template.metric].shape == "count" else value
    return replace(row, value=value, low=low, high=high, over=over)


def _why_not(name: str, n: int, events: int, spread: bool) -> Why | None:
    """Returns why a number cannot be given, or None."""
    metric = METRICS[name]
    if metric.spread and not spread:
        return "no spread"
    if n == 0:
        return "no outcome"
    if metric.needs == "errors" and events == 0:
        return "no errors"
    if metric.floor and min(events, n - events) < metrics.FEWEST_EVENTS:
        return "few events" if events <= n - events else "few others"
    return None


def _all_row(template: Row, name: str, singles: Sequence[Row], numbers: Sequence[FitNumbers]) -> Row:
    """The mean over seeds; its interval is that of the mean on shared resamples."""
    events = [row.events or 0 for row in singles]
    row = replace(template, n=min(row.n or 0 for row in singles), events=min(events))
    estimable = [fit for single, fit in zip(singles, numbers, strict=True) if single.value is not None]
    if not estimable:
        return replace(row, why=min(singles, key=lambda single: single.events or 0).why)
    if METRICS[template.metric].shape == "count":
        estimable = estimable[:1]
    points = [fit.point[name] for fit in estimable]
    patients = patients_interval(name, estimable)
    if len(points) > 1:
        patients = metrics.over_fits(float(np.mean(points)), patients, [points])
    low, high = patients
    if low is not None and high is not None and METRICS[template.metric].bounded:
        low, high = max(0.0, low), min(1.0, high)
    over: Over = "patients and fits" if len(points) > 1 else "patients"
    row = replace(row, low=low, high=high, over=None if low is None else over)
    return _over_seeds(row, [single.value for single in singles])


def difference_rows(
    site: str, method: str, reference: str, numbers: Mapping[str, Sequence[FitNumbers]], labels: KnownOutcomes
) -> list[Row]:
    """Rows that compare a method with the reference on the same resamples."""
    rows = []
    for name in [name for name, metric in METRICS.items() if metric.compared and labels.task in metric.tasks]:
        if _why_not(name, len(labels.y), labels.events, spread=True):
            continue
        sides = (numbers[method], numbers[reference])
        points = [[fit.point[name] for fit in fits] for fits in sides]
        value = float(np.mean(points[0]) - np.mean(points[1]))
        first, second = (np.mean([fit.resampled[name] for fit in fits], axis=0) for fits in sides)
        patients = metrics.percentile_interval(first - second)
        low, high = metrics.over_fits(value, patients, points)
        over: Over = "patients and fits" if min(map(len, sides)) > 1 else "patients"
        title = metrics.difference_name(name)
        row = Row(site, method, ALL, title, value, low, high, len(labels.y), reference=reference)
        rows.append(replace(row, events=labels.events, over=None if low is None else over))
    return rows
