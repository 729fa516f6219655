"""What known outcomes suggest: move the risks (intercept), or move and stretch them (intercept and slope).

The lines are fitted on all known outcomes, held lightly to "as it is" so that few of them do not carry a line away; how
good they are is read off folds that did not fit them, so that "after" is not flattered by its own data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import Doubles
from tdrop.metrics import weighted_lines

RECALIBRATION_FOLDS = 5
#: With fewer known outcomes a fitted slope costs more than it mends; the intercept alone is offered.
SLOPE_FROM = 200


@dataclass(frozen=True)
class Adjustment:
    """One way to recalibrate.

    Attributes:
        name: "as it is", "intercept" or "intercept and slope".
        intercept: Added to slope * logit of the risk.
        slope: Multiplies the logit of the risk.
        calibration_intercept: What is still left to add, out of fold; None where it has no value.
        calibration_slope: What is still left to stretch by, out of fold; None where it has no value.
        ece: Calibration error beyond chance, out of fold.
        ece_low: Lower end of its interval.
        ece_high: Upper end.
        log_loss: Out of fold.
        brier: Out of fold.
    """

    name: str
    intercept: float
    slope: float
    calibration_intercept: float | None
    calibration_slope: float | None
    ece: float | None
    ece_low: float | None
    ece_high: float | None
    log_loss: float | None
    brier: float | None


@dataclass(frozen=True)
class Recalibration:
    """Risks before and after recalibration.

    Attributes:
        n: Patients with a known outcome.
        events: Of these with the outcome.
        adjustments: Before, then the suggestions; only "before" when the outcomes are too few.
        note: Why nothing is suggested, or "".
        helps: Name of the adjustment with the lowest log loss out of fold; None where none beats "as it is".
    """

    n: int
    events: int
    adjustments: tuple[Adjustment, ...]
    note: str = ""
    helps: str | None = None


def suggest_recalibration(
    y: NDArray[Any],
    risk: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    folds: int = RECALIBRATION_FOLDS,
    seed: int = 0,
) -> Recalibration:
    """Fits both recalibrations of risk to known outcomes.

    Args:
        y: Outcomes (rows,), NaN where unknown.
        risk: Risks (rows,).
        weights: For how many patients each row stands (rows,), where some were likelier to be looked up; alike without.
        folds: How many.
        seed: Decides the folds.
    """
    known = np.isfinite(y)
    outcome, value = np.asarray(y, dtype=np.float64)[known], np.asarray(risk, dtype=np.float64)[known]
    weight = np.ones(len(value)) if weights is None else np.asarray(weights, dtype=np.float64)[known]
    events = int(outcome.sum())
    before = _describe("as it is", 0.0, 1.0, outcome, value, weight)
    fewest = min(events, len(outcome) - events)
    if fewest < metrics.FEWEST_EVENTS:
        return Recalibration(len(outcome), events, (before,), "too few known outcomes to suggest a recalibration")
    fold = _folds(outcome, folds, seed)
    adjustments = [before]
    offered = (("intercept", False), ("intercept and slope", True))
    for name, with_slope in offered if len(outcome) >= SLOPE_FROM else offered[:1]:
        after = np.empty(len(value))
        for index in range(folds):
            inside = fold == index
            line = _fit(outcome[~inside], value[~inside], weight[~inside], with_slope)
            after[inside] = metrics.recalibrated(value[inside], *line)
        adjustments.append(_describe(name, *_fit(outcome, value, weight, with_slope), outcome, after, weight))
    best = min(adjustments, key=lambda one: np.inf if one.log_loss is None else one.log_loss)
    return Recalibration(len(outcome), events, tuple(adjustments), helps=None if best is before else best.name)


def _fit(y: Doubles, risk: Doubles, weights: Doubles, with_slope: bool) -> tuple[float, float]:
    intercept, slope = weighted_lines(y, risk, weights[None], slope=with_slope)[0]
    return float(intercept), float(slope)


def _folds(y: Doubles, folds: int, seed: int) -> NDArray[np.int64]:
    """Returns each patient's fold (rows,).

    Outcomes are not spread evenly on purpose: folds of one and the same rate would tell each other the intercept, and
    moving risks that are right would look like help.
    """
    return np.random.default_rng([seed, 11]).permutation(np.arange(len(y)) % folds)


def _describe(name: str, intercept: float, slope: float, y: Doubles, risk: Doubles, weights: Doubles) -> Adjustment:
    """Scores are weighed; what compares outcomes with risks group by group is of the patients looked up."""
    line, error = metrics.calibration_line(y, risk), metrics.CalibrationError.measure(y, risk)
    return Adjustment(
        name=name,
        intercept=intercept,
        slope=slope,
        calibration_intercept=metrics.calibration_intercept(y, risk),
        calibration_slope=None if line is None else line[1],
        ece=None if error is None else error.value,
        ece_low=None if error is None else error.low,
        ece_high=None if error is None else error.high,
        log_loss=metrics.log_loss(y, risk, weights),
        brier=metrics.brier(y, risk, weights),
    )
