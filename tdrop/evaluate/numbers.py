"""Every metric of every method, on all patients and on the same resamples of them, as tidy rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tdrop import metrics
from tdrop.base import Doubles, Floats, Indices, Mask, Summary, Task
from tdrop.contracts import Decision
from tdrop.data import CensoringModel
from tdrop.evaluate.records import ALL, Over, Row, Why
from tdrop.metrics import METRICS, Mean, MetricPart, Patients, Ranking, Ratio, Statistic, Total


@dataclass(frozen=True)
class KnownOutcomes:
    """Known outcomes and how they are resampled.

    Attributes:
        rows: Places of their patients among all (known,).
        y: Their values (known,).
        resamples: How many are drawn.
        seed: Decides the resamples.
        persons: Whose row each is (known,), where a person has several.
        weight: For how many patients each stands (known,); None where all count alike.
        tolerance: How far a continuous outcome may be from its prediction before that counts as an error.
        task: What is predicted.
        censoring: With it those who left are resampled too, and every resample has weights of its own.
    """

    rows: Indices
    y: Doubles
    resamples: int
    seed: int
    persons: Indices | None = None
    weight: Doubles | None = None
    tolerance: float = 0.0
    task: Task = "binary"
    censoring: CensoringModel | None = None

    @property
    def events(self) -> int:
        return int(self.y.sum()) if self.task == "binary" else 0

    def draw(self) -> Iterator[Floats | Doubles]:
        """For how many patients each outcome stands in some resamples at a time (resamples, known)."""
        leaving = self.censoring
        if leaving is None:
            return metrics.count_blocks(len(self.y), self.resamples, self.seed, self.persons, self.weight)
        drawn = metrics.count_blocks(len(leaving.X), self.resamples, self.seed, leaving.persons)
        return ((counts * leaving.weights(counts))[:, self.rows].astype(np.float32) for counts in drawn)


@dataclass(frozen=True)
class FitNumbers:
    """The numbers of one method and one seed, by metric.

    Attributes:
        point: Of all patients.
        resampled: Of every resample (resamples,).
        rests_on: Patients and events behind a number.
        percentiles: Central intervals of the resamples.
        intervals: Intervals over patients that a statistic computes itself.
    """

    point: Mapping[str, float]
    resampled: Mapping[str, Doubles]
    rests_on: Mapping[str, tuple[int, int]]
    percentiles: Mapping[str, tuple[float | None, float | None]]
    intervals: Mapping[str, tuple[float, float]]


def patients_interval(name: str, fits: Sequence[FitNumbers]) -> tuple[float | None, float | None]:
    """Returns the interval over patients of a number's mean over fits.

    Where a fit has an interval of its own, the ends are averaged: fits of the same patients move together.
    """
    if not len(fits[0].resampled[name]):
        return None, None
    if any(name in fit.intervals for fit in fits):
        intervals = [fit.intervals.get(name) or fit.percentiles[name] for fit in fits]
        ends = np.array([interval for interval in intervals if None not in interval], dtype=np.float64).mean(axis=0)
        return float(ends[0]), float(ends[1])
    if len(fits) == 1:
        return fits[0].percentiles[name]
    return metrics.percentile_interval(np.mean([fit.resampled[name] for fit in fits], axis=0))


def resample_all(
    predictions: Mapping[str, Sequence[Summary]],
    labels: KnownOutcomes,
    decision: Decision,
    groups: Mapping[str, Indices],
    unlike: Mask | None = None,
) -> dict[str, list[FitNumbers]]:
    """Computes every metric that needs outcomes, by method one per fit; those of subgroups are `metric@group`."""
    inside = {group: np.flatnonzero(np.isin(labels.rows, rows)) for group, rows in groups.items()}
    plans: list[list[Statistic]] = []
    for summary in (summary for summaries in predictions.values() for summary in summaries):
        referrals = metrics.refer(summary, decision, unlike).take(labels.rows)
        known = summary.take(labels.rows)
        patients = Patients(known, decision, referrals, labels.y, labels.weight, labels.tolerance)
        plans.append(_plan_statistics(patients, inside))
    resampled = metrics.resample_statistics(plans, labels.draw())
    once = np.ones(len(labels.y)) if labels.weight is None else labels.weight
    points = metrics.resample_statistics(plans, [once[None]])
    fits = iter([_collect(*numbers) for numbers in zip(plans, points, resampled, strict=True)])
    return {method: [next(fits) for _ in summaries] for method, summaries in predictions.items()}


def _collect(plan: Sequence[Statistic], points: Doubles, resampled: Doubles) -> FitNumbers:
    """The numbers of all patients (names, 1) and those of the resamples (names, resamples), by name."""
    names = [name for statistic in plan for name in statistic.names]
    rests_on = [pair for statistic in plan for pair in statistic.rests_on]
    return FitNumbers(
        point=dict(zip(names, points[:, 0].tolist(), strict=True)),
        resampled=dict(zip(names, resampled, strict=True)),
        rests_on=dict(zip(names, rests_on, strict=True)),
        percentiles=dict(zip(names, map(metrics.percentile_interval, resampled), strict=True)),
        intervals={name: pair for statistic in plan for name, pair in statistic.intervals.items()},
    )


def _plan_statistics(patients: Patients, groups: Mapping[str, Indices]) -> list[Statistic]:
    """Returns every metric that needs outcomes as statistics that are cheap to resample."""
    parts = {
        name: metric.part(patients)
        for name, metric in METRICS.items()
        if metric.part is not None and metric.needs != "patients" and patients.task in metric.tasks
    }
    everyone = np.arange(len(patients.y))
    whole = [(name, part, everyone) for name, part in parts.items()]
    inside = [
        (f"{name}@{group}", part, rows)
        for group, rows in groups.items()
        for name, part in parts.items()
        # The ranking of several classes is no sum, and is not made for subgroups.
        if METRICS[name].subgroups and (patients.task == "binary" or not isinstance(part, Statistic))
    ]
    return _statistics(whole, patients) + _statistics(inside, patients)


def _statistics(parts: Sequence[tuple[str, MetricPart, Indices]], patients: Patients) -> list[Statistic]:
    """One statistic of all sums, which is what makes them cheap, and one for each of the others."""
    y = patients.events
    sums = [(name, part, rows) for name, part, rows in parts if isinstance(part, Total | Mean | Ratio)]
    plan: list[Statistic] = [_sums(sums, y)] if sums else []
    for name, part, rows in parts:
        if len(rows) < len(y) and not isinstance(part, Total | Mean | Ranking):
            raise TypeError(f"metric '{name}': subgroups have totals, means and rankings only")
        if isinstance(part, Ranking):
            ranking = metrics.ranking_statistic(part.event, part.score, name=name, rows=rows, weights=patients.weight)
            plan.append(ranking)
        elif isinstance(part, Statistic) and all(part is not planned for planned in plan):
            # One statistic may stand for several metrics, as the calibration line does.
            plan.append(part)
    return plan


def _sums(parts: Sequence[tuple[str, Total | Mean | Ratio, Indices]], y: Doubles) -> Statistic:
    tops, bottoms, rests_on = [], [], []
    for _, part, rows in parts:
        if isinstance(part, Ratio):
            tops.append(np.asarray(part.top, dtype=np.float64))
            bottoms.append(np.asarray(part.bottom, dtype=np.float64))
            rests_on.append((len(y), int(y.sum())))
            continue
        member = np.zeros(len(y))
        member[rows] = 1.0
        among = part.among if isinstance(part, Mean) else None
        tops.append(part.each * member)
        bottoms.append(member if among is None else among * member)
        rests_on.append((int(bottoms[-1].sum()), _events(tops[-1], bottoms[-1], y, picked=among is not None)))
    plain = np.array([isinstance(part, Total) for _, part, _ in parts])
    return metrics.sums_statistic([name for name, _, _ in parts], np.stack(tops), np.stack(bottoms), plain, rests_on)


def _events(top: Doubles, bottom: Doubles, y: Doubles, *, picked: bool) -> int:
    """Events behind a sum: what it counts, else whom it picks, else the outcomes of its patients."""
    if np.isin(top, (0.0, 1.0)).all():
        return int(top.sum())
    return int(bottom.sum() if picked else y @ bottom)


def rows_without_outcomes(
    site: str,
    method: str,
    summaries: Sequence[Summary],
    decision: Decision,
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
