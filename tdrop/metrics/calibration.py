"""Calibration: of the patients told 20%, do 20 in 100 have the outcome?

The line is the logistic regression of the outcome on the logit of the risk. The intercept is read with
the slope held at 1 (0: right on average; above 0: risks too low); the slope is read with its own
intercept (1: right spread; below 1: risks too extreme).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from tdrop.base import INTERVAL_LEVEL, Doubles, Floats, Indices
from tdrop.metrics.scores import add_up, as_pair, divide, logit

#: Deciles: the usual number of groups in a calibration plot and in the calibration error.
BINS = 10

_STEPS = 50
_TOLERANCE = 1e-9
_LARGEST = 1e3  # a coefficient beyond this is separation on its way to infinity
_DRAWS = 1000  # of chance, behind the calibration error and its interval
_PRECISION = 1e-4


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
    def group(cls, y: NDArray[Any], p: NDArray[Any], bins: int = BINS) -> Self:
        """Groups patients by risk."""
        outcome, risk = as_pair(y, p)
        group = risk_bins(risk, bins)
        n = np.bincount(group)
        events = np.bincount(group, weights=outcome)
        return cls(n, events.astype(np.int64), np.bincount(group, weights=risk) / n, events / n)


def expected_calibration_error(y: NDArray[Any], p: NDArray[Any], bins: int = BINS) -> float | None:
    """Returns the mean distance of mean risk and observed share over groups, weighted by patients.

    Chance alone keeps shares away from risks, so this is above 0 for risks that are right; `CalibrationError` is not.
    """
    if not len(y):
        return None
    table = CalibrationTable.group(y, p, bins)
    return float(np.abs(table.risk - table.rate) @ table.n / table.n.sum())


@dataclass(frozen=True)
class CalibrationError:
    """The calibration error without what chance adds to it, and its interval.

    The plain error is compared with what it would be by chance if the risks were off by more and more, from not at
    all, in the direction seen. The value is where it would be as large in half of the draws; the interval ends where
    it would be as large, or as small, in few of them only.

    Attributes:
        value: The error; 0 where chance alone makes the plain one as large.
        low: Lower end of the interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @classmethod
    def measure(cls, y: NDArray[Any], p: NDArray[Any], bins: int = BINS, level: float = INTERVAL_LEVEL) -> Self | None:
        """Takes chance out of the plain error of risks p (rows,) for outcomes y (rows,); None without rows."""
        if not len(y):
            return None
        table = CalibrationTable.group(y, p, bins)
        seen = float(np.abs(table.risk - table.rate) @ table.n / table.n.sum())
        by_chance = _plain_errors(table, 0.0)
        few = (1 - level) / 2
        # Shares closer to the risks than chance allows are luck, and no reason for a short interval.
        high = _error_behind(table, max(seen, float(np.median(by_chance))), few)
        return cls(_error_behind(table, seen, 0.5), _error_behind(table, seen, 1 - few), high)


def _error_behind(table: CalibrationTable, seen: float, share: float) -> float:
    """Returns the true error under which the plain one is at most what was seen in `share` of the draws."""

    def excess(error: float) -> float:
        return float(np.quantile(_plain_errors(table, error), share)) - seen

    if excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, 1.0, xtol=_PRECISION)) if excess(1.0) > 0 else 1.0


def _plain_errors(table: CalibrationTable, error: float) -> Doubles:
    """Returns plain errors (draws,) by chance where the true one is `error`, in the direction that was seen."""
    weight, gap = table.n / table.n.sum(), table.risk - table.rate
    seen = float(np.abs(gap) @ weight)
    off = error * (gap / seen if seen > 0 else np.ones(len(gap)))
    # No patient with the outcome in a small group is no certainty: the variance is that of one more patient.
    edge = np.minimum(np.minimum(table.risk, 1 - table.risk), 1 / (table.n + 2))
    rate = np.clip(table.risk - off, edge, 1 - edge)
    return np.asarray(np.abs(off + _noise(len(gap)) * np.sqrt(rate * (1 - rate) / table.n)) @ weight, dtype=np.float64)


@cache
def _noise(groups: int) -> Doubles:
    """Returns the same draws of chance (draws, groups) at every call, so that errors differ by the risks alone."""
    return np.random.default_rng(0).standard_normal((_DRAWS, groups))


@dataclass(frozen=True)
class ResampledCalibration:
    """Intercept and slope, prepared for many resamples.

    A resample's coefficients are one Newton step from the fit on all patients, which is exact to first
    order and costs a matrix product instead of a fit.

    Attributes:
        sums: What a resample adds up over its patients (sums, rows).
        intercept: Calibration intercept of all patients; NaN where there is none.
        slope: Calibration slope of all patients; NaN where there is none.
        n: Patients.
        events: Of these with the outcome.
    """

    names: ClassVar[tuple[str, ...]] = ("calibration_intercept", "calibration_slope")
    sums: Doubles
    intercept: float
    slope: float
    n: int
    events: int

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """Patients and outcomes, the same for both."""
        return ((self.n, self.events),) * len(self.names)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """None of their own: resamples give them."""
        return {}

    @classmethod
    def of(cls, y: NDArray[Any], p: NDArray[Any]) -> Self:
        """Fits both lines on all patients."""
        outcome, risk = as_pair(y, p)
        intercept, line = calibration_intercept(outcome, risk), calibration_line(outcome, risk)
        flat = sigmoid(logit(risk) + (intercept or 0.0))
        tilted = sigmoid((line or (0, 1))[0] + (line or (0, 1))[1] * logit(risk))
        curve, score = tilted * (1 - tilted), logit(risk)
        sums = [
            outcome - flat,
            flat * (1 - flat),
            outcome - tilted,
            (outcome - tilted) * score,
            curve,
            curve * score,
            curve * score**2,
        ]
        return cls(
            sums=np.stack(sums),
            intercept=np.nan if intercept is None else intercept,
            slope=np.nan if line is None else line[1],
            n=len(outcome),
            events=int(outcome.sum()),
        )

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns intercept and slope of each resample (2, resamples)."""
        pull, weight, first, second, a, b, c = add_up(self.sums, counts)
        slope = self.slope + divide(a * second - b * first, a * c - b * b)
        return np.stack([self.intercept + divide(pull, weight), slope])


@dataclass(frozen=True)
class MeasuredError:
    """The calibration error as a statistic: resampling adds chance to chance, so the interval is its own.

    Attributes:
        error: The error; None without patients.
        n: Patients.
        events: Of these with the outcome.
    """

    names: ClassVar[tuple[str, ...]] = ("ece",)
    error: CalibrationError | None
    n: int
    events: int

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """Patients and outcomes."""
        return ((self.n, self.events),)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The error's own interval."""
        return {} if self.error is None else {"ece": (self.error.low, self.error.high)}

    @classmethod
    def of(cls, y: NDArray[Any], p: NDArray[Any]) -> Self:
        """Measures it on all patients."""
        outcome, risk = as_pair(y, p)
        return cls(CalibrationError.measure(outcome, risk), len(outcome), int(outcome.sum()))

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns the error (1, resamples), the same whoever is drawn."""
        return np.full((1, len(counts)), np.nan if self.error is None else self.error.value)
