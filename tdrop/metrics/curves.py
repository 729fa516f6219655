"""Curves over all thresholds: ranking (ROC, precision and recall), calibration as a smooth line, net benefit.

The smooth calibration is the logistic regression of the outcome on a restricted cubic spline of the risk's logit
(Harrell, Regression Modeling Strategies, 2015), with a pointwise interval from its covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, Doubles, ascending
from tdrop.metrics.calibration import fit_line
from tdrop.metrics.referral import per_row_benefit
from tdrop.metrics.scores import as_pair, logit, misclassified

#: Where a spline's pieces meet, as quantiles of the risk; four where there are events enough to bend it twice.
_KNOTS_MANY, _KNOTS_FEW = (0.05, 0.35, 0.65, 0.95), (0.1, 0.5, 0.9)
_EVENTS_FOR_MANY = 100
#: Points of a smooth calibration, from the lowest to the highest hundredth of the risks.
_POINTS = 60
_NORMAL = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2))


@dataclass(frozen=True)
class Curve:
    """A line with its interval.

    Attributes:
        x: Places (points,).
        y: Values (points,).
        low: Lower ends (points,); empty where there is no interval.
        high: Upper ends (points,).
    """

    x: Doubles
    y: Doubles
    low: Doubles = field(default_factory=lambda: np.zeros(0))
    high: Doubles = field(default_factory=lambda: np.zeros(0))


def roc_curve(y: NDArray[Any], score: NDArray[Any], weights: NDArray[Any] | None = None) -> Curve | None:
    """Returns sensitivity against 1 - specificity, one point per distinct score; None with one class."""
    from sklearn import metrics

    outcome, value = as_pair(y, score)
    if len(np.unique(outcome)) < 2:
        return None
    alarms, hits, _ = metrics.roc_curve(outcome, value, sample_weight=weights, drop_intermediate=False)
    return Curve(alarms, hits)


def precision_recall_curve(y: NDArray[Any], score: NDArray[Any], weights: NDArray[Any] | None = None) -> Curve | None:
    """Returns precision against recall, one point per distinct score, highest first; None with one class."""
    from sklearn import metrics

    outcome, value = as_pair(y, score)
    if len(np.unique(outcome)) < 2:
        return None
    precision, recall, _ = metrics.precision_recall_curve(outcome, value, sample_weight=weights)
    # The last point of scikit-learn's is made up: nobody is called positive there.
    return Curve(recall[-2::-1], precision[-2::-1])


def risk_coverage(
    y: NDArray[Any], risk: NDArray[Any], score: NDArray[Any], threshold: float, weights: NDArray[Any] | None = None
) -> Curve:
    """Returns the error rate among those not referred, by the share referred in descending order of score (rows,).

    Each outcome stands for `weights` (rows,) patients, for one unless given.
    """
    outcome, value = as_pair(y, risk)
    order = ascending(-np.asarray(score, dtype=np.float64))
    row_weights = np.ones(len(order)) if weights is None else np.asarray(weights, dtype=np.float64)[order]
    wrong = misclassified(outcome, value, threshold)[order]
    errors, left = (np.cumsum(values[::-1])[::-1] for values in (row_weights * wrong, row_weights))
    everyone = left[:1].sum()
    return Curve((everyone - left) / max(everyone, 1e-300), errors / left)


def smooth_calibration(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> Curve | None:
    """Returns the observed share by predicted risk as a smooth line; None where it cannot be fitted.

    Args:
        y: Outcomes (rows,).
        p: Risks (rows,).
        weights: For how many patients each outcome stands (rows,); the interval then allows for unequal ones.
    """
    outcome, risk = as_pair(y, p)
    if len(np.unique(outcome)) < 2 or len(np.unique(risk)) < 2:
        return None
    events = min(outcome.sum(), len(outcome) - outcome.sum())
    score = logit(risk)
    knots = np.unique(np.quantile(score, _KNOTS_MANY if events >= _EVENTS_FOR_MANY else _KNOTS_FEW))
    design = _spline(score, knots)
    beta = fit_line(outcome, design, np.zeros(len(score)), weights)
    if beta is None:
        return None
    fitted = expit(design @ beta)
    row_weights = np.ones(len(fitted)) if weights is None else np.asarray(weights, dtype=np.float64)
    covariance = np.linalg.pinv(design.T @ (design * (row_weights * fitted * (1 - fitted))[:, None]))
    if weights is not None:
        pull = design * (row_weights * (outcome - fitted))[:, None]
        covariance = covariance @ (pull.T @ pull) @ covariance
    first, last = np.quantile(risk, [0.01, 0.99])
    x = np.linspace(float(first), float(last), _POINTS)
    grid = _spline(logit(x), knots)
    middle, error = grid @ beta, np.sqrt(np.einsum("ij,jk,ik->i", grid, covariance, grid))
    return Curve(x, expit(middle), expit(middle - _NORMAL * error), expit(middle + _NORMAL * error))


def _spline(score: Doubles, knots: Doubles) -> Doubles:
    """Returns a constant, the score, and a restricted cubic spline's bends (rows, knots); fewer knots, fewer bends."""
    columns = [np.ones(len(score)), score]
    if len(knots) >= 3:
        cubes = np.clip(score[:, None] - knots, 0, None) ** 3
        end, before = knots[-1], knots[-2]
        for place, knot in enumerate(knots[:-2]):
            tail = (end - knot) * cubes[:, -2] - (before - knot) * cubes[:, -1]
            columns.append((cubes[:, place] - tail / (end - before)) / (end - knots[0]) ** 2)
    return np.column_stack(columns)


def benefit_curve(
    y: NDArray[Any], risk: NDArray[Any], thresholds: Doubles, weights: NDArray[Any] | None = None
) -> Curve:
    """Returns the net benefit of acting from each threshold on, with its interval over patients.

    Net benefit is a mean over patients, so its standard error is that of a mean.
    """
    outcome, value = as_pair(y, risk)
    rows = np.asarray([per_row_benefit(outcome, value, float(threshold)) for threshold in thresholds])
    if weights is not None:
        shares = np.asarray(weights, dtype=np.float64) / np.sum(weights)
        middle = rows @ shares
        error = np.sqrt(((rows - middle[:, None]) ** 2) @ shares**2)
        return Curve(thresholds, middle, middle - _NORMAL * error, middle + _NORMAL * error)
    middle = rows.mean(axis=1)
    error = rows.std(axis=1, ddof=1) / np.sqrt(len(outcome)) if len(outcome) > 1 else np.full(len(middle), np.nan)
    return Curve(thresholds, middle, middle - _NORMAL * error, middle + _NORMAL * error)
