"""The metrics that only several classes or a continuous outcome have, one entry each, as in `table.py`."""

from __future__ import annotations

import numpy as np

from tdrop.metrics.metric import Mean, Patients, metric
from tdrop.metrics.resampling import Statistic
from tdrop.metrics.scores import crps


@metric(
    "Accuracy",
    "Share of patients whose likeliest class is the one that came.",
    shape="share",
    better="higher",
    subgroups=True,
    compared=True,
    recorded=True,
    tasks=("classes",),
)
def _accuracy(patients: Patients) -> Mean:
    """share of patients whose likeliest class is the one that came; several classes only"""
    return Mean(~patients.wrong)


@metric(
    "Root mean squared error",
    "Typical distance of value and outcome, in the outcome's unit; large ones count most.",
    better="lower",
    recorded=True,
    tasks=("regression",),
)
def _rmse(patients: Patients) -> Statistic:
    """root of the mean of (value - outcome)^2; continuous outcomes only, as are those below"""
    return patients.fit


@metric(
    "Explained share (R2)",
    "Share of the outcome's variance that the values explain; below 0: worse than the mean of these patients.",
    better="higher",
    recorded=True,
    tasks=("regression",),
)
def _r2(patients: Patients) -> Statistic:
    """1 - mean of (value - outcome)^2 / variance of the outcome"""
    return patients.fit


@metric(
    "Mean absolute error",
    "Average distance of value and outcome, in the outcome's unit.",
    better="lower",
    subgroups=True,
    compared=True,
    recorded=True,
    tasks=("regression",),
)
def _mae(patients: Patients) -> Mean:
    """mean of |value - outcome|"""
    return Mean(np.abs(patients.risk - patients.y))


@metric(
    "Interval coverage",
    "Share of patients whose outcome lies in their interval; it should be the interval's level.",
    shape="share",
    spread=True,
    subgroups=True,
    recorded=True,
    tasks=("regression",),
)
def _coverage(patients: Patients) -> Mean:
    """share of outcomes within the interval"""
    low, high = patients.summary.interval(patients.decision.interval_level)
    return Mean((low <= patients.y) & (patients.y <= high))


@metric(
    "CRPS",
    "Distance of the whole prediction from the outcome, in the outcome's unit: small for narrow intervals that hold.",
    better="lower",
    spread=True,
    compared=True,
    recorded=True,
    tasks=("regression",),
)
def _crps(patients: Patients) -> Mean:
    """mean continuous ranked probability score of a normal prediction with the value as mean and the sd"""
    return Mean(crps(patients.y, patients.risk, patients.sd))
