"""Every statistic of every method, on all patients and on the same resamples of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdrop import metrics
from tdrop.base import Doubles, Floats, Indices, Summary
from tdrop.evaluate.statistics import statistics_of
from tdrop.metrics import Decision, Mask, Patients, refer, take


@dataclass(frozen=True)
class KnownOutcomes:
    """Known outcomes: which rows they belong to, their values, how many resamples to draw, and whose rows they are."""

    rows: Indices
    y: Doubles
    resamples: int
    seed: int
    persons: Indices | None = None

    @property
    def events(self) -> int:
        return int(self.y.sum())


@dataclass(frozen=True)
class Numbers:
    """One method, one seed: the numbers of all patients, of every resample (resamples,), and what they rest on.

    `intervals` holds those over patients that a statistic makes itself.
    """

    point: Mapping[str, float]
    resampled: Mapping[str, Doubles]
    rests_on: Mapping[str, tuple[int, int]]
    intervals: Mapping[str, tuple[float, float]]


def patients_interval(name: str, fits: Sequence[Numbers]) -> tuple[float | None, float | None]:
    """Returns the interval over patients of a number's mean over fits.

    Where a fit has an interval of its own, the ends are averaged: fits of the same patients move together.
    """
    if not len(fits[0].resampled[name]):
        return None, None
    if any(name in one.intervals for one in fits):
        own = [one.intervals.get(name) or metrics.percentile_interval(one.resampled[name]) for one in fits]
        ends = np.array([pair for pair in own if None not in pair], dtype=np.float64).mean(axis=0)
        return float(ends[0]), float(ends[1])
    return metrics.percentile_interval(np.mean([one.resampled[name] for one in fits], axis=0))


def resample_all(
    predictions: Mapping[str, Sequence[Summary]],
    labels: KnownOutcomes,
    decision: Decision,
    groups: Mapping[str, Indices],
    unlike: Mask | None = None,
) -> dict[str, list[Numbers]]:
    """Computes every statistic on all patients and on every resample."""
    inside = {group: np.flatnonzero(np.isin(labels.rows, rows)) for group, rows in groups.items()}
    plans = {
        method: [_plan(summary, labels, decision, inside, unlike) for summary in summaries]
        for method, summaries in predictions.items()
    }
    blocks: dict[str, list[list[Doubles]]] = {method: [[] for _ in plan] for method, plan in plans.items()}
    for counts in metrics.count_blocks(len(labels.y), labels.resamples, labels.seed, labels.persons):
        for method, plan in plans.items():
            for index, statistics in enumerate(plan):
                blocks[method][index].append(_apply(statistics, counts))
    ones = np.ones((1, len(labels.y)))
    return {
        method: [
            _numbers(statistics, _apply(statistics, ones)[:, 0], blocks[method][index])
            for index, statistics in enumerate(plan)
        ]
        for method, plan in plans.items()
    }


def _plan(
    summary: Summary, labels: KnownOutcomes, decision: Decision, inside: Mapping[str, Indices], unlike: Mask | None
) -> list[metrics.Statistic]:
    referrals = refer(summary, decision, unlike).take(labels.rows)
    return statistics_of(Patients(take(summary, labels.rows), decision, referrals, labels.y), inside)


def _apply(statistics: Sequence[metrics.Statistic], counts: Floats | Doubles) -> Doubles:
    return np.concatenate([statistic.resampled(counts) for statistic in statistics])


def _numbers(statistics: Sequence[metrics.Statistic], point: Doubles, blocks: Sequence[Doubles]) -> Numbers:
    names = [name for statistic in statistics for name in statistic.names]
    resampled = np.concatenate(blocks, axis=1) if blocks else np.zeros((len(names), 0))
    basis = [pair for statistic in statistics for pair in statistic.rests_on]
    return Numbers(
        point=dict(zip(names, point.tolist(), strict=True)),
        resampled=dict(zip(names, resampled, strict=True)),
        rests_on=dict(zip(names, basis, strict=True)),
        intervals={name: pair for statistic in statistics for name, pair in statistic.intervals.items()},
    )
