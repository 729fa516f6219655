"""The forecast for several classes and for a continuous outcome.

Several classes: what the method did on source patients it had not seen, weighted to look like the target. A continuous
outcome: a model of the loss (the distance of prediction and outcome, and its square) is fitted on those patients and
asked about the target's, as NannyML's direct loss estimation does; the weighted loss stands beside it.

Sampling is over source patients (bootstrap) and over which outcomes the target's patients will have.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from tdrop.base import Doubles, Task
from tdrop.forecast.estimators import Estimates, Evidence, Quantity
from tdrop.metrics import class_brier, count_blocks, macro_auroc, misclassified, per_row_loss
from tdrop.shift import effective_n


def estimate_kind(evidence: Evidence, task: Task, resamples: int, seed: int) -> Estimates:
    """Every number of a method that gives classes or values, with its standard deviation."""
    losses = _losses(evidence, task)
    draws = np.concatenate(list(count_blocks(len(evidence.y), resamples, seed, evidence.persons)))
    counted = draws.astype(np.float64) * evidence.weights
    # As many target patients as there are will show the number: their outcomes vary as the source's do.
    widen = float(np.sqrt(1 + effective_n(evidence.weights) / max(1, len(evidence.target))))
    estimates: Estimates = {}
    for name, values in losses.items():
        by: dict[str, float | None] = {
            "importance_weighted": _shown(name, _weighted(values, evidence.weights[None])[0])
        }
        sampling = float(np.std(_weighted(values, counted))) * widen
        if task == "regression":
            by["loss_model"] = _shown(name, _model_loss(evidence, values, seed))
        if name == "rmse":
            sampling /= 2 * max(by["loss_model"] or 0.0, 1e-12)
        estimates[name] = by, sampling
    if task == "classes":
        # A few of the draws are enough for a standard deviation.
        some = [macro_auroc(evidence.y, evidence.source, weights) for weights in counted[:50]]
        error = float(np.std([value for value in some if value is not None] or [0.0]))
        value = macro_auroc(evidence.y, evidence.source, evidence.weights)
        estimates["auroc"] = {"importance_weighted": value}, error * widen
    return estimates


def _losses(evidence: Evidence, task: Task) -> dict[Quantity, Doubles]:
    """What is averaged over patients (source rows,), by number; the square of the root mean squared error."""
    y, predicted = evidence.y, evidence.source
    if task == "regression":
        distance = np.abs(predicted - y)
        return {"mae": distance, "rmse": distance**2}
    return {
        "error_rate": misclassified(y, predicted).astype(np.float64),
        "log_loss": per_row_loss(y, predicted, task),
        "brier": class_brier(y, predicted),
    }


def _weighted(losses: Doubles, weights: Doubles) -> Doubles:
    """Weighted means (draws,) of losses (rows,) under weights (draws, rows)."""
    means: Doubles = weights @ losses / weights.sum(axis=1)
    return means


def _shown(name: Quantity, value: float) -> float:
    return float(np.sqrt(max(0.0, value))) if name == "rmse" else float(value)


def _model_loss(evidence: Evidence, losses: Doubles, seed: int) -> float:
    """The mean loss of the target's patients by a model of the loss given the features."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to load, and only needed here

    assert evidence.features is not None
    X, target_X = evidence.features
    model = HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=20, l2_regularization=1.0, random_state=seed
    )
    with threadpool_limits(limits=1):
        model.fit(X, losses, sample_weight=evidence.weights)
        # No patient is expected to be nearer or further than any that was seen.
        predicted = np.clip(model.predict(target_X), losses.min(), losses.max())
    return float(predicted.mean())
