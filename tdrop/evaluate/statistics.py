"""Turns metrics of one method's patients into statistics that are cheap to resample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tdrop.base import Doubles, Indices
from tdrop.metrics import METRICS, Mean, Part, Patients, Quotient, RankedPairs, Ranking, Ratio, Statistic, Sums, Total


def statistics_of(patients: Patients, groups: Mapping[str, Indices]) -> list[Statistic]:
    """Returns every metric that needs outcomes as statistics; those of subgroups are named `metric@group`.

    Args:
        patients: Patients with known outcomes.
        groups: By subgroup, its rows.
    """
    parts = {
        name: metric.part(patients)
        for name, metric in METRICS.items()
        if metric.part is not None and metric.needs != "patients"
    }
    everyone = np.arange(len(patients.y))
    whole = [(name, part, everyone) for name, part in parts.items()]
    inside = [
        (f"{name}@{group}", part, rows)
        for group, rows in groups.items()
        for name, part in parts.items()
        if METRICS[name].subgroups
    ]
    return _statistics(whole, patients.y) + _statistics(inside, patients.y)


def _statistics(parts: Sequence[tuple[str, Part, Indices]], y: Doubles) -> list[Statistic]:
    """One statistic of all sums, which is what makes them cheap, and one for each of the others."""
    sums = [(name, part, rows) for name, part, rows in parts if isinstance(part, Total | Mean)]
    plan: list[Statistic] = [_sums(sums, y)] if sums else []
    for name, part, rows in parts:
        if isinstance(part, Ranking):
            plan.append(RankedPairs.of(part.event, part.score, name=name, rows=rows))
        elif isinstance(part, Total | Mean):
            continue
        elif len(rows) < len(y):
            raise TypeError(f"metric '{name}': subgroups have totals, means and rankings only")
        elif isinstance(part, Ratio):
            plan.append(Quotient(name, part.top, part.bottom, int(y.sum())))
        elif all(part is not each for each in plan):
            # One statistic may stand for several metrics, as the calibration line does.
            plan.append(part)
    return plan


def _sums(parts: Sequence[tuple[str, Total | Mean, Indices]], y: Doubles) -> Sums:
    tops, bottoms, rests_on = [], [], []
    for _, part, rows in parts:
        member = np.zeros(len(y))
        member[rows] = 1.0
        among = part.among if isinstance(part, Mean) else None
        tops.append(part.each * member)
        bottoms.append(member if among is None else among * member)
        rests_on.append((int(bottoms[-1].sum()), _events(tops[-1], bottoms[-1], y, picked=among is not None)))
    return Sums(
        names=tuple(name for name, _, _ in parts),
        tops=np.stack(tops),
        bottoms=np.stack(bottoms),
        plain=np.array([isinstance(part, Total) for _, part, _ in parts]),
        rests_on=tuple(rests_on),
    )


def _events(top: Doubles, bottom: Doubles, y: Doubles, *, picked: bool) -> int:
    """Events behind a sum: what it counts, else whom it picks, else the outcomes of its patients."""
    if np.isin(top, (0.0, 1.0)).all():
        return int(top.sum())
    return int(bottom.sum() if picked else y @ bottom)
