"""Proper scores: how far predicted risks are from outcomes, patient by patient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, Floats

#: Risks are kept this far from 0 and 1 wherever a logarithm is taken: float32 rounds to the ends.
SMALLEST_RISK = 1e-7

#: The risk from which a patient counts as predicted positive when errors are counted.
CLASS_THRESHOLD = 0.5


def as_pair(y: NDArray[Any], score: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """Returns both as finite float64 vectors of one length, or says what is wrong."""
    outcome, value = np.asarray(y, dtype=np.float64), np.asarray(score, dtype=np.float64)
    if outcome.shape != value.shape or outcome.ndim != 1:
        raise DataError(f"a metric needs one score a patient; got outcomes {outcome.shape} and scores {value.shape}")
    bad = int((~np.isfinite(outcome)).sum() + (~np.isfinite(value)).sum())
    if bad:
        raise DataError(f"a metric got {bad:,} missing or infinite values in {len(outcome):,} rows; leave them out")
    return outcome, value


def clip_risk(p: NDArray[Any]) -> Doubles:
    """Returns risks (rows,) moved away from exactly 0 and 1."""
    return np.clip(np.asarray(p, dtype=np.float64), SMALLEST_RISK, 1 - SMALLEST_RISK)


def logit(p: NDArray[Any]) -> Doubles:
    """Returns log(p / (1 - p)) of clipped risks, same shape."""
    clipped = clip_risk(p)
    return np.asarray(np.log(clipped) - np.log1p(-clipped), dtype=np.float64)


def average(values: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the (weighted) mean of values (rows,), or None when there is nothing to average."""
    if weights is None:
        return float(np.mean(values)) if len(values) else None
    total = float(np.sum(weights))
    return float(np.dot(values, weights) / total) if total > 0 else None


def divide(top: Doubles, bottom: Doubles) -> Doubles:
    """Returns top / bottom, NaN where there is nothing to divide by."""
    result: Doubles = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0)
    return result


def add_up(values: Doubles, counts: Floats | Doubles) -> Doubles:
    """Returns the sum of values over each resample's patients (sums, resamples).

    Args:
        values: What each patient adds (sums, rows).
        counts: How often each patient was drawn (resamples, rows); its precision is that of the product.
    """
    if counts.dtype == np.float32:
        return (values.astype(np.float32) @ counts.T.astype(np.float32, copy=False)).astype(np.float64)
    return np.asarray(values @ counts.T.astype(np.float64, copy=False), dtype=np.float64)


def per_row_log_loss(y: NDArray[Any], p: NDArray[Any]) -> Doubles:
    """Returns -log of the probability given to what happened (rows,)."""
    outcome, risk = as_pair(y, p)
    clipped = clip_risk(risk)
    return np.asarray(-(outcome * np.log(clipped) + (1 - outcome) * np.log1p(-clipped)), dtype=np.float64)


def log_loss(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the mean of `per_row_log_loss`; `weights` (rows,) need not sum to one; None without rows."""
    return average(per_row_log_loss(y, p), weights)


def brier(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the mean squared distance of risk and outcome; None without rows."""
    outcome, risk = as_pair(y, p)
    return average((risk - outcome) ** 2, weights)


def misclassified(y: NDArray[Any], p: NDArray[Any], threshold: float = CLASS_THRESHOLD) -> NDArray[np.bool_]:
    """Returns where the class at `threshold` is wrong (rows,)."""
    outcome, risk = as_pair(y, p)
    return np.asarray((risk >= threshold) != (outcome > 0.5), dtype=np.bool_)
