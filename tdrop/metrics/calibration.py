"""Calibration: of the patients with a risk of 20%, do 20 in 100 have the outcome?

The line is the logistic regression of the outcome on the logit of the risk. The intercept is read with
the slope held at 1 (0: right on average; above 0: risks too low); the slope is read with its own
intercept (1: right spread; below 1: risks too extreme).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from tdrop.base import INTERVAL_LEVEL, Doubles, Indices
from tdrop.metrics.scores import as_pair, logit

#: Deciles: the usual number of groups in a calibration plot and in the calibration error.
GROUPS_OF_RISK = 10
#: Prior standard deviations of a line's intercept and slope around "as it is" (0, 1). Hundreds of patients overrule
#: them; a handful cannot bend the line out of reason, and one class alone still gives a line.
LINE_PRIOR = (1.0, 0.5)

_STEPS = 50
_TOLERANCE = 1e-9
_LARGEST = 1e3  # a coefficient beyond this is separation on its way to infinity
_DRAWS = 1000  # of chance, behind the calibration error and its interval
_PRECISION = 1e-4


def fit_line(y: NDArray[Any], design: Doubles, offset: Doubles, weights: NDArray[Any] | None = None) -> Doubles | None:
    """Fits y (rows,) ~ expit(offset + design @ beta) by Newton's method; None when it does not converge.

    Args:
        y: Outcomes (rows,).
        design: Columns (rows, coefficients).
        offset: Part of the logit that is held fixed (rows,).
        weights: For how many patients each row stands (rows,); all alike without.
    """
    row_weights = 1.0 if weights is None else np.asarray(weights, dtype=np.float64)
    beta = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        p = expit(offset + design @ beta)
        curvature = design.T @ (design * (row_weights * p * (1 - p))[:, None])
        try:
            step = np.linalg.solve(curvature, design.T @ (row_weights * (y - p)))
        except np.linalg.LinAlgError:
            return None
        # A step longer than 1 on the logit scale overshoots where the curve is flat.
        beta = beta + step * min(1.0, 1.0 / max(1e-12, float(np.abs(step).max())))
        if not np.isfinite(beta).all() or np.abs(beta).max() > _LARGEST:
            return None
        if np.abs(step).max() < _TOLERANCE:
            return np.asarray(beta, dtype=np.float64)
    return None


def calibration_intercept(y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None) -> float | None:
    """Returns the intercept with slope 1, or None where it does not exist (one class only)."""
    outcome, risk = as_pair(y, p)
    if len(np.unique(outcome)) < 2:
        return None
    beta = fit_line(outcome, np.ones((len(outcome), 1)), logit(risk), weights)
    return None if beta is None else float(beta[0])


def calibration_line(
    y: NDArray[Any], p: NDArray[Any], weights: NDArray[Any] | None = None
) -> tuple[float, float] | None:
    """Returns (intercept, slope) fitted together, or None where they do not exist (one class, one risk)."""
    outcome, risk = as_pair(y, p)
    if len(np.unique(outcome)) < 2 or len(np.unique(risk)) < 2:
        return None
    score = logit(risk)
    beta = fit_line(outcome, np.column_stack([np.ones(len(score)), score]), np.zeros(len(score)), weights)
    return None if beta is None else (float(beta[0]), float(beta[1]))


def recalibrated(p: NDArray[Any], intercept: float | Doubles, slope: float = 1.0) -> Doubles:
    """Returns risks (rows,) moved by a calibration line, whose intercept may differ from row to row (rows,)."""
    return np.asarray(expit(intercept + slope * logit(p)), dtype=np.float64)


def weighted_lines(
    y: NDArray[Any],
    risk: NDArray[Any],
    weights: NDArray[Any],
    *,
    start: Doubles | None = None,
    slope: bool = True,
    prior: Sequence[float] = LINE_PRIOR,
) -> Doubles:
    """Fits r = expit(a + b logit p) for many sets of weights at once, by Newton's method: (sets, 2).

    The weights of a set are scaled to add up to its effective n: weighted rows are worth that many patients.

    Args:
        y: Outcomes (rows,).
        risk: Risks (rows,).
        weights: One set per line (sets, rows).
        start: Where to start (2,); (0, 1) by default.
        slope: Whether the slope is fitted too, or held at 1.
        prior: Standard deviations of the normal priors of intercept and slope, around 0 and 1.
    """
    outcome, score = np.asarray(y, dtype=np.float64), logit(risk)
    scaled = np.asarray(weights, dtype=np.float64)
    scaled = scaled * (scaled.sum(axis=1) / np.maximum((scaled**2).sum(axis=1), 1e-300))[:, None]
    lines = np.tile(np.array([0.0, 1.0]) if start is None else start, (len(scaled), 1))
    precision = 1 / np.asarray(prior, dtype=np.float64) ** 2
    for _ in range(_STEPS):
        p = expit(lines[:, :1] + lines[:, 1:] * score[None])
        pull, curve = scaled * (outcome - p), scaled * p * (1 - p)
        first = pull.sum(axis=1) - precision[0] * lines[:, 0]
        second = pull @ score - precision[1] * (lines[:, 1] - 1)
        a, b, c = curve.sum(axis=1) + precision[0], curve @ score, curve @ score**2 + precision[1]
        if slope:
            step = np.stack([c * first - b * second, a * second - b * first], axis=1) / (a * c - b * b)[:, None]
        else:
            step = np.stack([first / a, np.zeros(len(a))], axis=1)
        # A step longer than 1 overshoots where the curve is flat.
        longest = np.abs(step).max(axis=1, keepdims=True)
        lines += step / np.maximum(longest, 1.0)
        if longest.max() < 1e-8:
            break
    return lines


def apply_lines(risk: NDArray[Any], lines: Doubles) -> Doubles:
    """Risks moved by each line (lines, rows)."""
    return np.asarray(expit(lines[:, :1] + lines[:, 1:] * logit(risk)[None]), dtype=np.float64)


def group_by_risk(p: NDArray[Any], groups: int = GROUPS_OF_RISK) -> Indices:
    """Returns each patient's group (rows,), from 0: groups are equally large, and equal risks share a group."""
    risk = np.asarray(p, dtype=np.float64)
    if not len(risk):
        return np.zeros(0, dtype=np.int64)
    edges = np.unique(np.quantile(risk, np.linspace(0, 1, groups + 1)[1:-1]))
    return np.asarray(np.unique(np.searchsorted(edges, risk, side="right"), return_inverse=True)[1], dtype=np.int64)


@dataclass(frozen=True)
class CalibrationTable:
    """A calibration plot as numbers, one entry per group of patients of like risk.

    Attributes:
        risk: Mean predicted risk (groups,).
        rate: Observed share (groups,).
        mass: For how many patients a group stands (groups,).
        size: Equally weighted patients who say as much (groups,): the same where all count alike.
    """

    risk: Doubles
    rate: Doubles
    mass: Doubles
    size: Doubles

    @classmethod
    def group(
        cls, y: NDArray[Any], p: NDArray[Any], groups: int = GROUPS_OF_RISK, weights: NDArray[Any] | None = None
    ) -> Self:
        """Groups patients by risk; each stands for `weights` (rows,) patients, for one unless given."""
        outcome, risk = as_pair(y, p)
        group = group_by_risk(risk, groups)
        row_weights = np.ones(len(risk)) if weights is None else np.asarray(weights, dtype=np.float64)
        mass, squares = (np.bincount(group, power).astype(np.float64) for power in (row_weights, row_weights**2))
        mean_risk, rate = (np.bincount(group, row_weights * value) / mass for value in (risk, outcome))
        return cls(mean_risk, rate, mass, mass**2 / squares)

    @property
    def plain_error(self) -> float:
        """Mean distance of mean risk and observed share over groups, each as large as what it stands for.

        Chance alone keeps shares away from risks, so this is above 0 for risks that are right; `CalibrationError` is
        not.
        """
        return float(np.abs(self.risk - self.rate) @ self.mass / self.mass.sum())


@dataclass(frozen=True)
class CalibrationError:
    """The calibration error, corrected for chance, and its interval.

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
    def measure(
        cls,
        y: NDArray[Any],
        p: NDArray[Any],
        groups: int = GROUPS_OF_RISK,
        level: float = INTERVAL_LEVEL,
        weights: NDArray[Any] | None = None,
    ) -> Self | None:
        """Corrects the plain error of risks p (rows,) for outcomes y (rows,) for chance; None without rows."""
        if not len(y):
            return None
        table = CalibrationTable.group(y, p, groups, weights)
        seen = table.plain_error
        few = (1 - level) / 2
        # Shares closer to the risks than chance allows are luck, and no reason for a short interval.
        high = _error_behind(table, max(seen, float(np.median(_plain_errors(table, 0.0)))), few)
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
    weight, gap, seen = table.mass / table.mass.sum(), table.risk - table.rate, table.plain_error
    off = error * (gap / seen if seen > 0 else np.ones(len(gap)))
    # No patient with the outcome in a small group is no certainty: the variance is that of one more patient.
    edge = np.minimum(np.minimum(table.risk, 1 - table.risk), 1 / (table.size + 2))
    rate = np.clip(table.risk - off, edge, 1 - edge)
    return np.asarray(
        np.abs(off + _noise(len(gap)) * np.sqrt(rate * (1 - rate) / table.size)) @ weight, dtype=np.float64
    )


@cache
def _noise(groups: int) -> Doubles:
    """Returns the same draws of chance (draws, groups) at every call, so that errors differ by the risks alone."""
    return np.random.default_rng(0).standard_normal((_DRAWS, groups))
