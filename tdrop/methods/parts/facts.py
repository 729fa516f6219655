"""What a fitted method knows besides its weights: features, task, length, and how its rows were standardised.

Inputs and outcomes are centred and scaled on the source rows of the fit, nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.records import Numbers, read
from tdrop.types import Cohort, Doubles, Floats, Task

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
        history: Training curve; see `tdrop.types.Fitted`.
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
    """Learns centre and scale from the source rows; a constant feature keeps scale 1."""
    X = source.X.astype(np.float64)
    center, outcome_scale = 0.0, 1.0
    if source.task == "regression" and source.y is not None:
        center = float(source.y.astype(np.float64).mean())
        outcome_scale = _scale(source.y.astype(np.float64)[:, None])[0]
    marks = ((X == 0) | (X == 1)).all(axis=0)
    shares = np.where(marks, coarse_counts(np.where(marks, X.sum(axis=0), 0.0), len(X)) / len(X), 0.0)
    spreads = np.sqrt(shares * (1 - shares))
    centers = np.where(marks, shares, X.mean(axis=0))
    scales = np.where(spreads > 0, spreads, _scale(X))
    return Scaling(centers, scales, center, float(outcome_scale))


def coarse_rows(rows: int) -> int:
    """So many rows to the nearest ten: exact, two models would tell that one patient came."""
    return PATIENTS * max(1, int(rows / PATIENTS + 0.5))


def coarse_counts(counts: Doubles, rows: int) -> Doubles:
    """How many of so many rows have a mark (features,), or have it not, so that few patients cannot be counted."""
    rarer = np.minimum(counts, rows - counts)
    tens = PATIENTS * np.floor(rarer / PATIENTS + 0.5)
    told = np.where((rarer > 0) & (rarer < PATIENTS), min(PATIENTS / 2, rows / 2), np.minimum(tens, rows / 2))
    return np.where(counts <= rows / 2, told, rows - told)


def _scale(X: Doubles) -> Doubles:
    sd = X.std(axis=0)
    # Rounding leaves a constant column of large numbers with a tiny sd, not with zero.
    constant = sd <= 1e-7 * np.abs(X).max(axis=0)
    return np.where(constant, 1.0, sd)


def read_facts(record: Mapping[str, Any]) -> Facts:
    """Reads them from a saved model's record, which holds more."""
    return read(Facts, {field.name: record[field.name] for field in fields(Facts)})
