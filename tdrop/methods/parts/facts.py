"""What a fitted method knows besides its weights: features, task, length, and how its rows were standardised.

Inputs and outcomes are centred and scaled on the source rows of the fit, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, Doubles, Floats, Numbers, Task, read

#: A saved model leaves for the record: nothing in it tells counts of patients more finely than this.
PATIENTS = 10
#: A standardised value further out than this is held there: a network's answer is long saturated,
#: and sums of such values stay finite in float32.
FURTHEST = 1e6


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of the features (features,) and of the outcome (0 and 1 for a binary one)."""

    center: Numbers
    scale: Numbers
    outcome_center: float
    outcome_scale: float

    def inputs(self, X: Doubles) -> Floats:
        """Standardises X (rows, features)."""
        standardised = np.clip((X - self.center) / self.scale, -FURTHEST, FURTHEST)
        return np.ascontiguousarray(standardised, dtype=np.float32)

    def predictions(self, outputs: NDArray[Any]) -> Floats:
        """Puts outcomes back on their own scale."""
        return (outputs * self.outcome_scale + self.outcome_center).astype(np.float32)

    def outcomes(self, y: Floats) -> Floats:
        """Standardises outcomes (rows,); binary ones stay as they are."""
        return ((y - self.outcome_center) / self.outcome_scale).astype(np.float32)


@dataclass(frozen=True)
class Facts:
    """What was fitted, on what, and for how long.

    Attributes:
        features: Names of the features.
        task: What is predicted.
        steps: Steps (or iterations) behind the kept weights.
        history: Training curve; see `tdrop.base.Fitted`.
        rows: Source rows of the fit, to the nearest ten.
        scaling: Centre and scale learnt from those rows.
    """

    features: tuple[str, ...]
    task: Task
    steps: int
    history: tuple[dict[str, float | None], ...]
    rows: int
    scaling: Scaling


def learn_scaling(source: Cohort) -> Scaling:
    """Learns centre and scale from the source rows, neither finer than a model may tell; constants keep scale 1."""
    X = source.X.astype(np.float64)
    center, outcome_scale = np.zeros(1), np.ones(1)
    if source.task == "regression" and source.y is not None:
        center, outcome_scale = coarse_scaling(source.y.astype(np.float64)[:, None])
    marks = ((X == 0) | (X == 1)).all(axis=0)
    shares = np.where(marks, coarse_shares(np.where(marks, X.sum(axis=0), 0.0), len(X)), 0.0)
    spreads = np.sqrt(shares * (1 - shares))
    centers, scales = coarse_scaling(X)
    centers, scales = np.where(marks, shares, centers), np.where(spreads > 0, spreads, scales)
    return Scaling(centers, scales, float(center[0]), float(outcome_scale[0]))


def coarse_rows(rows: int) -> int:
    """So many rows to the nearest ten: exact, two models would tell that one patient came."""
    return PATIENTS * max(1, int(rows / PATIENTS + 0.5))


def coarse_shares(counts: Doubles, rows: int) -> Doubles:
    """Which share of so many rows has a mark (features,), so that neither few patients nor all can be counted."""
    rarer = np.minimum(counts, rows - counts)
    tens = PATIENTS * np.floor(rarer / PATIENTS + 0.5)
    told = np.where((rarer > 0) & (rarer < PATIENTS), PATIENTS / 2, tens)
    share = np.minimum(told / coarse_rows(rows), 0.5)
    return np.where(counts <= rows / 2, share, 1 - share)


def coarse_scaling(X: Doubles) -> tuple[Doubles, Doubles]:
    """Mean and sd (features,) of X (rows, features) as a model may tell them: two digits of the sd, hundredths of it.

    An exact mean of whole numbers is a fraction that gives the number of rows away, and with a second model's the
    values of a patient who came between them.
    """
    mean, sd = X.mean(axis=0), X.std(axis=0)
    # Rounding leaves a constant column of large numbers with a tiny sd, not with zero.
    constant = sd <= 1e-7 * np.abs(X).max(axis=0)
    scale = np.array([float(f"{value:.2g}") for value in np.where(constant, 1.0, sd)])
    step = scale / 100
    return np.where(constant, mean, np.round(mean / step) * step), scale


def read_facts(record: Mapping[str, Any]) -> Facts:
    """Reads them from a saved model's record, which holds more."""
    return read(Facts, {field.name: record[field.name] for field in fields(Facts)})
