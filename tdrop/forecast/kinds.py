"""The forecast for several classes and for a continuous outcome.

Several classes: what the method did on source patients it had not seen, weighted to look like the target. A continuous
outcome: a model of the loss (the distance of prediction and outcome, and its square) is fitted on those patients and
asked about the target's, as NannyML's direct loss estimation does; the weighted loss stands beside it.

An interval is value +- z sqrt(sampling^2 + tau^2). Sampling is over source patients (bootstrap) and over which outcomes
the target's patients will have. For shares and AUROC tau is the one that pairs of sites with a binary outcome showed.
Where whole sites were left out, their own estimate is joined with it by precision (`tdrop.forecast.sites`). For log
loss and distances nobody has measured tau: held-out sites then say how far sites lie apart, and without them the
intervals are over patients alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from tdrop.base import INTERVAL_LEVEL, DataError, Doubles, Floats, Indices, Task
from tdrop.forecast.estimators import Quantity
from tdrop.forecast.run import (
    FORECAST_RESAMPLES,
    HELD_OUT_SITES,
    TAU,
    Answer,
    Forecast,
    join_by_precision,
    look_up_tau,
)
from tdrop.forecast.sites import HeldOutSite, NextSite, SiteNumber, expect_next, measure_kind
from tdrop.metrics import class_brier, count_blocks, macro_auroc, misclassified, per_row_loss
from tdrop.shift import effective_n


@dataclass(frozen=True)
class KindEvidence:
    """All that the forecast of one method may look at; there is no place for a target outcome.

    Attributes:
        method: Name of the method.
        source: Values (source rows,) or class probabilities (source rows, K), each by a fit that did not see the row.
        y: Their outcomes (source rows,).
        weights: What makes them look like the target (source rows,).
        X: Their features (source rows, features).
        target_X: The features of the target's patients (target rows, features).
        persons: Whose source row it is (source rows,); None where no person has two rows.
        origins: Site of each source row where whole sites were left out (source rows,); else None.
    """

    method: str
    source: Doubles
    y: Doubles
    weights: Doubles
    X: Floats
    target_X: Floats
    persons: Indices | None = None
    origins: NDArray[Any] | None = None


def forecast_kinds(
    site: str,
    evidence: Sequence[KindEvidence],
    task: Task,
    *,
    resamples: int = FORECAST_RESAMPLES,
    level: float = INTERVAL_LEVEL,
    seed: int = 0,
) -> Forecast:
    """Forecasts every method's numbers at a site.

    Args:
        site: Name of the site.
        evidence: One per method, all of the same target patients.
        task: "classes" or "regression".
        resamples: Draws of source patients behind the intervals.
        level: Of the intervals.
        seed: Of the draws.
    """
    if not evidence:
        raise DataError(f"site '{site}': no method left out-of-fold predictions to forecast from; train at least one")
    first = evidence[0]
    answers: list[Answer] = []
    held_out = {one.method: _held_out(one, task) for one in evidence}
    next_site = {method: expect_next(sites, len(first.target_X), level) for method, sites in held_out.items()}
    for one in evidence:
        answers += _answers(one, task, resamples, level, seed, next_site[one.method])
    return Forecast(
        site=site,
        estimator="importance_weighted" if task == "classes" else "loss_model",
        threshold=None,
        level=level,
        source_rows=len(first.y),
        source_events=None,
        effective_n=effective_n(first.weights),
        target_rows=len(first.target_X),
        answers=tuple(answers),
        held_out={method: sites for method, sites in held_out.items() if sites},
        next_site={method: expected for method, expected in next_site.items() if expected},
    )


def _held_out(one: KindEvidence, task: Task) -> tuple[HeldOutSite, ...]:
    """How a method did at held-out sites; nothing where its patients came from one site or were dealt by patient."""
    if one.origins is None:
        return ()
    parts = ((str(site), one.origins == site) for site in np.unique(one.origins))
    measured = (measure_kind(site, one.y[own], one.source[own], task) for site, own in parts)
    return tuple(site for site in measured if site is not None)


def _answers(
    one: KindEvidence, task: Task, resamples: int, level: float, seed: int, expected: Mapping[SiteNumber, NextSite]
) -> list[Answer]:
    """Every number of one method, with its interval."""
    losses = _losses(one, task)
    draws = np.concatenate(list(count_blocks(len(one.y), resamples, seed, one.persons)))
    counted = draws.astype(np.float64) * one.weights
    size = effective_n(one.weights)
    # As many target patients as there are will show the number: their outcomes vary as the source's do.
    widen = float(np.sqrt(1 + size / max(1, len(one.target_X))))
    weighted = {name: _weighted(values, one.weights[None])[0] for name, values in losses.items()}
    spread = {name: float(np.std(_weighted(values, counted))) * widen for name, values in losses.items()}
    modelled = {name: _model_loss(one, values, seed) for name, values in losses.items()} if task == "regression" else {}
    answers = []
    for name in losses:
        by: dict[str, float | None] = {"importance_weighted": _shown(name, weighted[name])}
        if name in modelled:
            by["loss_model"] = _shown(name, modelled[name])
        value = by["loss_model"] if name in modelled else by["importance_weighted"]
        sampling = spread[name] / (2 * max(value or 0.0, 1e-12)) if name == "rmse" else spread[name]
        answers.append(_answer(one, name, value, sampling, by, level, expected))
    if task == "classes":
        auroc, error = _weighted_auroc(one, counted)
        answers.append(_answer(one, "auroc", auroc, error * widen, {"importance_weighted": auroc}, level, expected))
    return answers


def _losses(one: KindEvidence, task: Task) -> dict[Quantity, Doubles]:
    """What is averaged over patients (source rows,), by number; the square of the root mean squared error."""
    if task == "regression":
        distance = np.abs(one.source - one.y)
        return {"mae": distance, "rmse": distance**2}
    return {
        "error_rate": misclassified(one.y, one.source).astype(np.float64),
        "log_loss": per_row_loss(one.y, one.source, task),
        "brier": class_brier(one.y, one.source),
    }


def _weighted(losses: Doubles, weights: Doubles) -> Doubles:
    """Weighted means (draws,) of losses (rows,) under weights (draws, rows)."""
    means: Doubles = weights @ losses / weights.sum(axis=1)
    return means


def _shown(name: Quantity, value: float) -> float:
    return float(np.sqrt(max(0.0, value))) if name == "rmse" else float(value)


def _model_loss(one: KindEvidence, losses: Doubles, seed: int) -> float:
    """The mean loss of the target's patients by a model of the loss given the features."""
    model = HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=20, l2_regularization=1.0, random_state=seed
    )
    with threadpool_limits(limits=1):
        model.fit(one.X, losses, sample_weight=one.weights)
        # No patient is expected to be nearer or further than any that was seen.
        predicted = np.clip(model.predict(one.target_X), losses.min(), losses.max())
    return float(predicted.mean())


def _weighted_auroc(one: KindEvidence, counted: Doubles) -> tuple[float | None, float]:
    """The mean AUROC over classes of the weighted source rows, and its standard deviation over a few of the draws."""
    value = macro_auroc(one.y, one.source, one.weights)
    draws = [macro_auroc(one.y, one.source, weights) for weights in counted[:50]]
    return value, float(np.std([draw for draw in draws if draw is not None] or [0.0]))


def _answer(
    one: KindEvidence,
    name: Quantity,
    value: float | None,
    sampling: float,
    by: dict[str, float | None],
    level: float,
    expected: Mapping[SiteNumber, NextSite],
) -> Answer:
    share = effective_n(one.weights) / len(one.weights)
    between = look_up_tau(name, share) if name in TAU else 0.0
    if value is None:
        return Answer(one.method, name, None, None, None, None, between, by)
    seen = _seen(name, expected)
    if seen is not None:
        by[HELD_OUT_SITES] = seen[0]
        value, between = join_by_precision((value, between), seen) if between else (value, seen[1])
    half = float(norm.ppf((1 + level) / 2)) * float(np.hypot(sampling, between))
    most = 1.0 if name in ("auroc", "error_rate", "brier") else np.inf
    low, high = max(0.0, value - half), min(most, value + half)
    return Answer(one.method, name, value, low, high, sampling, between, by)


def _seen(name: Quantity, expected: Mapping[SiteNumber, NextSite]) -> tuple[float, float] | None:
    """What held-out sites say of a number, and its standard deviation at a new one; None where they say nothing."""
    numbers: dict[Quantity, SiteNumber] = {
        "auroc": "auroc",
        "log_loss": "log_loss",
        "rmse": "rmse",
        "error_rate": "accuracy",
    }
    own = expected.get(numbers[name]) if name in numbers else None
    if own is None:
        return None
    return (1 - own.mean if name == "error_rate" else own.mean), own.error
