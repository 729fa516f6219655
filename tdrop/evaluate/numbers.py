"""Every metric of every method, on all patients and on the same resamples of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdrop import metrics
from tdrop.base import Doubles, Floats, Indices, Mask, Summary, Task
from tdrop.data import CensoringModel
from tdrop.metrics import METRICS, DecisionLevels, Mean, MetricPart, Patients, Ranking, Ratio, Statistic, Total


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
    decision: DecisionLevels,
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
        percentiles=dict(zip(names, metrics.percentile_intervals(resampled), strict=True)),
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
