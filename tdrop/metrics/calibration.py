"""Calibration: of the patients told 20%, do 20 in 100 have the outcome?

The line is the logistic regression of the outcome on the logit of the risk. The intercept is read with
the slope held at 1 (0: right on average; above 0: risks too low); the slope is read with its own
intercept (1: right spread; below 1: risks too extreme).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.metrics.scores import add_up, as_pair, divide, logit
from tdrop.types import Doubles, Floats, Indices

#: Deciles: the usual number of groups in a calibration plot and in the calibration error.
BINS = 10

_STEPS = 50
_TOLERANCE = 1e-9
_LARGEST = 1e3  # a coefficient beyond this is separation on its way to infinity


def sigmoid(value: NDArray[Any]) -> Doubles:
    """Returns 1 / (1 + exp(-value)), same shape, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * np.asarray(value, dtype=np.float64))), dtype=np.float64)


def fit_line(y: NDArray[Any], design: Doubles, offset: Doubles) -> Doubles | None:
    """Fits y (rows,) ~ sigmoid(offset + design @ beta) by Newton's method; None when it does not converge.

    Args:
        y: Outcomes (rows,).
        design: Columns (rows, coefficients).
        offset: Part of the logit that is held fixed (rows,).
    """
    beta = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        p = sigmoid(offset + design @ beta)
        curvature = design.T @ (design * (p * (1 - p))[:, None])
        try:
            step = np.linalg.solve(curvature, design.T @ (y - p))
        except np.linalg.LinAlgError:
            return None
        # A step longer than 1 on the logit scale overshoots where the curve is flat.
        beta = beta + step * min(1.0, 1.0 / max(1e-12, float(np.abs(step).max())))
        if not np.isfinite(beta).all() or np.abs(beta).max() > _LARGEST:
            return None
        if np.abs(step).max() < _TOLERANCE:
            return np.asarray(beta, dtype=np.float64)
    return None


def calibration_intercept(y: NDArray[Any], p: NDArray[Any]) -> float | None:
    """Returns the intercept with slope 1, or None where it does not exist (one class only)."""
    outcome, risk = as_pair(y, p)
    if len(np.unique(outcome)) < 2:
        return None
    beta = fit_line(outcome, np.ones((len(outcome), 1)), logit(risk))
    return None if beta is None else float(beta[0])


def calibration_line(y: NDArray[Any], p: NDArray[Any]) -> tuple[float, float] | None:
    """Returns (intercept, slope) fitted together, or None where they do not exist (one class, one risk)."""
    outcome, risk = as_pair(y, p)
    if len(np.unique(outcome)) < 2 or len(np.unique(risk)) < 2:
        return None
    score = logit(risk)
    beta = fit_line(outcome, np.column_stack([np.ones(len(score)), score]), np.zeros(len(score)))
    return None if beta is None else (float(beta[0]), float(beta[1]))


def recalibrated(p: NDArray[Any], intercept: float, slope: float = 1.0) -> Doubles:
    """Returns risks (rows,) moved by a calibration line."""
    return sigmoid(intercept + slope * logit(p))


def risk_bins(p: NDArray[Any], bins: int = BINS) -> Indices:
    """Returns each patient's group (rows,), 0 upwards: equal counts, equal risks never split."""
    risk = np.asarray(p, dtype=np.float64)
    if not len(risk):
        return np.zeros(0, dtype=np.int64)
    edges = np.unique(np.quantile(risk, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.asarray(np.unique(np.searchsorted(edges, risk, side="right"), return_inverse=True)[1], dtype=np.int64)


@dataclass(frozen=True)
class CalibrationTable:
    """A calibration plot as numbers, one entry a group of patients of like risk.

    Attributes:
        n: Patients (groups,).
        events: Of these with the outcome (groups,).
        risk: Mean predicted risk (groups,).
        rate: Observed share (groups,).
    """

    n: Indices
    events: Indices
    risk: Doubles
    rate: Doubles

    @classmethod
    def of(cls, y: NDArray[Any], p: NDArray[Any], bins: int = BINS) -> Self:
        """Groups patients by risk."""
        outcome, risk = as_pair(y, p)
        group = risk_bins(risk, bins)
        n = np.bincount(group)
        events = np.bincount(group, weights=outcome)
        return cls(n, events.astype(np.int64), np.bincount(group, weights=risk) / n, events / n)


def expected_calibration_error(y: NDArray[Any], p: NDArray[Any], bins: int = BINS) -> float | None:
    """Returns the mean distance of mean risk and observed share over groups, weighted by patients."""
    if not len(y):
        return None
    table = CalibrationTable.of(y, p, bins)
    return float(np.abs(table.risk - table.rate) @ table.n / table.n.sum())


@dataclass(frozen=True)
class ResampledCalibration:
    """Intercept, slope and calibration error, prepared for many resamples.

    A resample's coefficients are one Newton step from the fit on all patients, which is exact to first
    order and costs a matrix product instead of a fit; the groups of the calibration error stay fixed.

    Attributes:
        sums: What a resample adds up over its patients (sums, rows).
        intercept: Calibration intercept of all patients; NaN where there is none.
        slope: Calibration slope of all patients; NaN where there is none.
        n: Patients.
        events: Of these with the outcome.
    """

    names: ClassVar[tuple[str, ...]] = ("calibration_intercept", "calibration_slope", "ece")
    sums: Doubles
    intercept: float
    slope: float
    n: int
    events: int

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """Patients and outcomes, the same for all three."""
        return ((self.n, self.events),) * len(self.names)

    @classmethod
    def of(cls, y: NDArray[Any], p: NDArray[Any]) -> Self:
        """Fits both lines on all patients."""
        outcome, risk = as_pair(y, p)
        intercept, line = calibration_intercept(outcome, risk), calibration_line(outcome, risk)
        group = risk_bins(risk)
        member = (group[None, :] == np.arange(group.max(initial=-1) + 1)[:, None]).astype(np.float64)
        flat = sigmoid(logit(risk) + (intercept or 0.0))
        tilted = sigmoid((line or (0, 1))[0] + (line or (0, 1))[1] * logit(risk))
        curve, score = tilted * (1 - tilted), logit(risk)
        sums = [
            np.ones(len(risk)),
            outcome - flat,
            flat * (1 - flat),
            outcome - tilted,
            (outcome - tilted) * score,
            curve,
            curve * score,
            curve * score**2,
            *(member * (risk - outcome)),
        ]
        return cls(
            sums=np.stack(sums),
            intercept=np.nan if intercept is None else intercept,
            slope=np.nan if line is None else line[1],
            n=len(outcome),
            events=int(outcome.sum()),
        )

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns intercept, slope and calibration error of each resample (3, resamples)."""
        total, pull, weight, first, second, a, b, c, *gaps = add_up(self.sums, counts)
        determinant = a * c - b * b
        slope = self.slope + divide(a * second - b * first, determinant)
        error = np.abs(np.stack(gaps)).sum(axis=0) / total
        return np.stack([self.intercept + divide(pull, weight), slope, error])
