"""Scores per patient and ranking: how far risks are from outcomes, and whether a higher score goes with the event.

AUROC is the share of (event, no event) pairs in which the event has the higher score; ties count half.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from tdrop.base import INTERVAL_LEVEL, DataError, Doubles, Floats, Indices, Mask, Task

#: Risks are kept this far from 0 and 1 wherever a logarithm is taken: float32 rounds to the ends.
SMALLEST_RISK = 1e-7
#: The risk from which a patient counts as predicted positive when errors are counted.
CLASS_THRESHOLD = 0.5
#: With n patients of a class and nothing seen amiss, up to 3/n may still go unseen (the rule of three).
UNSEEN = 3.0


def as_pair(y: NDArray[Any], score: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """Returns both as finite float64 vectors of one length, or says what is wrong."""
    outcome, value = np.asarray(y, dtype=np.float64), np.asarray(score, dtype=np.float64)
    if outcome.shape != value.shape or outcome.ndim != 1:
        raise DataError(f"a metric needs one score per patient; got outcomes {outcome.shape} and scores {value.shape}")
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


def divide(top: Doubles, bottom: Doubles) -> Doubles:
    """Returns top / bottom, NaN where there is nothing to divide by."""
    result: Doubles = np.divide(top, bottom, out=np.full(np.shape(top), np.nan), where=bottom > 0)
    return result


def add_up(values: Doubles, counts: Floats | Doubles) -> Doubles:
    """Returns the sum of values over each resample's patients (sums, resamples).

    Args:
        values: What each patient adds (sums, rows).
        counts: How often each patient was drawn (resamples, rows); the product has its precision.
    """
    if counts.dtype == np.float32:
        return (values.astype(np.float32) @ counts.T.astype(np.float32, copy=False)).astype(np.float64)
    return np.asarray(values @ counts.T.astype(np.float64, copy=False), dtype=np.float64)


def per_row_log_loss(y: NDArray[Any], p: NDArray[Any]) -> Doubles:
    """Returns -log of the predicted probability of the observed outcome (rows,)."""
    outcome, risk = as_pair(y, p)
    clipped = clip_risk(risk)
    return np.asarray(-(outcome * np.log(clipped) + (1 - outcome) * np.log1p(-clipped)), dtype=np.float64)


def per_row_loss(y: NDArray[Any], predicted: NDArray[Any], task: Task, scale: float = 1.0) -> Doubles:
    """Returns the loss (rows,) for tuning, choosing and forecasts: log loss, or squared error over `scale` squared.

    Args:
        y: Outcomes (rows,).
        predicted: Risks or values (rows,), or the probabilities (rows, K) of K classes.
        task: What is predicted.
        scale: Standard deviation of a continuous outcome at the source: the loss is then the share left unexplained.
    """
    if task == "binary":
        return per_row_log_loss(y, predicted)
    outcome, value = np.asarray(y, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if task == "regression":
        return np.asarray(((value - outcome) / scale) ** 2, dtype=np.float64)
    return np.asarray(-np.log(clip_risk(value[np.arange(len(value)), outcome.astype(np.int64)])), dtype=np.float64)


def class_brier(y: NDArray[Any], p: NDArray[Any]) -> Doubles:
    """Returns half the squared distance of the probabilities (rows, K) from the observed class: (rows,).

    Half, so that of two classes it is the Brier score of either.
    """
    came = np.asarray(y)[:, None] == np.arange(p.shape[1])
    return np.asarray(0.5 * ((np.asarray(p, dtype=np.float64) - came) ** 2).sum(axis=1), dtype=np.float64)


def macro_auroc(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the mean over classes of the AUROC of a class's probability for that class; None without two classes.

    A class that nobody has, or everybody, is left out of the mean.
    """
    by_class = [auroc(np.asarray(y) == place, p[:, place], weights) for place in range(p.shape[1])]
    known = [value for value in by_class if value is not None]
    return float(np.mean(known)) if known else None


def crps(y: NDArray[Any], mean: NDArray[Any], sd: NDArray[Any]) -> Doubles:
    """Returns the continuous ranked probability score (rows,) of normal predictions with these means and sds."""
    spread = np.maximum(np.asarray(sd, dtype=np.float64), 1e-12)
    z = (np.asarray(y, dtype=np.float64) - mean) / spread
    score: Doubles = spread * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    return score


def log_loss(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the mean of `per_row_log_loss`; `weights` (rows,) need not sum to one; None without rows."""
    return _average(per_row_log_loss(y, p), weights)


def brier(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the mean squared distance of risk and outcome; None without rows."""
    outcome, risk = as_pair(y, p)
    return _average((risk - outcome) ** 2, weights)


def _average(values: Doubles, weights: NDArray[Any] | None) -> float | None:
    weight = np.ones(len(values)) if weights is None else np.asarray(weights, dtype=np.float64)
    return float(np.average(values, weights=weight)) if weight.sum() > 0 else None


def misclassified(y: NDArray[Any], p: NDArray[Any], threshold: float = CLASS_THRESHOLD) -> Mask:
    """Returns where the class at `threshold` is wrong (rows,); with p (rows, K), where the likeliest class is."""
    if np.ndim(p) == 2:
        return np.asarray(likeliest(p) != np.asarray(y), dtype=np.bool_)
    outcome, risk = as_pair(y, p)
    return np.asarray((risk >= threshold) != (outcome > 0.5), dtype=np.bool_)


def likeliest(p: NDArray[Any]) -> Indices:
    """Returns the likeliest class (rows,) by probabilities (rows, K); of equally likely ones the last."""
    return np.asarray(p.shape[1] - 1 - p[:, ::-1].argmax(axis=1), dtype=np.int64)


def auroc(y: NDArray[Any], score: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the AUROC of score (rows,) for events y (rows,), or None when only one class is there.

    With `weights` (rows,) a pair counts the product of its two: with those of `tdrop.data.weigh_outcomes` this is Uno's
    AUROC at the horizon.
    """
    outcome, value = as_pair(y, score)
    weight = np.ones(len(outcome)) if weights is None else np.asarray(weights, dtype=np.float64)
    events, others = outcome > 0.5, outcome <= 0.5
    pairs = float(weight[events].sum() * weight[others].sum())
    if pairs <= 0:
        return None
    order = np.argsort(value[others], kind="stable")
    running = np.concatenate([[0.0], np.cumsum(weight[others][order])])
    ranked = value[others][order]
    both = sum(running[np.searchsorted(ranked, value[events], side=side)] for side in ("left", "right"))
    return float(weight[events] @ both / (2.0 * pairs))


def delong(others: NDArray[Any], events: NDArray[Any]) -> tuple[float, float]:
    """Returns the AUROC of the events' scores over the others' and DeLong's variance of it, in O(n log n).

    The variance is 0 where a side has one patient only.
    """
    ranks = rankdata(np.concatenate([others, events]))
    above = (ranks[len(others) :] - rankdata(events)) / len(others)
    below = 1.0 - (ranks[: len(others)] - rankdata(others)) / len(events)
    variance = sum(float(part.var(ddof=1)) / len(part) for part in (above, below) if len(part) > 1)
    return float(above.mean()), variance


def auroc_interval(value: float, variance: float, fewest: int) -> tuple[float, float]:
    """Returns an AUROC's interval on the logit scale, where it stays within 0 and 1 and few events do not shrink it.

    Args:
        value: The AUROC.
        variance: DeLong's variance of it.
        fewest: Patients of the rarer class; a perfect ranking has no variance of its own, only this.
    """
    unseen = UNSEEN / fewest
    if value >= 1 or value <= 0 or variance <= 0:
        return max(0.0, value - unseen), min(1.0, value + unseen)
    width = float(norm.ppf((1 + INTERVAL_LEVEL) / 2)) * np.sqrt(variance) / (value * (1 - value))
    centre = np.log(value / (1 - value))
    # tanh does not overflow where a hardly known AUROC has an enormous width on this scale.
    low, high = (0.5 * (1 + np.tanh(0.5 * (centre + sign * width))) for sign in (-1, 1))
    return float(low), float(high)
