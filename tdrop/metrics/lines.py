"""Weighted recalibration: r = sigmoid(a + b logit p), fitted for many sets of weights at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Doubles
from tdrop.metrics.calibration import sigmoid
from tdrop.metrics.scores import logit

#: How far, as a standard deviation, a line may lie from "as it is" (0, 1) before any patient is seen. Hundreds of
#: patients overrule it; a handful cannot bend the line out of reason, and one class alone still has an answer.
PRIOR = np.array([1.0, 0.5])
_STEPS = 30
_TOLERANCE = 1e-8
#: A step longer than this overshoots where the curve is flat.
_LONGEST = 1.0


def weighted_lines(
    y: NDArray[Any], risk: NDArray[Any], weights: NDArray[Any], *, start: Doubles | None = None, slope: bool = True
) -> Doubles:
    """Fits intercept and slope (sets, 2) by Newton's method.

    The weights of a set are scaled to add up to its effective n: what weighted rows tell is worth that many patients.

    Args:
        y: Outcomes (rows,).
        risk: Risks (rows,).
        weights: One set a line (sets, rows).
        start: Where to start (2,); (0, 1) by default.
        slope: Whether the slope is fitted too, or held at 1.
    """
    score = logit(risk)
    scaled = np.asarray(weights, dtype=np.float64)
    scaled = scaled * (scaled.sum(axis=1) / np.maximum((scaled**2).sum(axis=1), 1e-300))[:, None]
    lines = np.tile(np.array([0.0, 1.0]) if start is None else start, (len(scaled), 1))
    for _ in range(_STEPS):
        step = _step(np.asarray(y, dtype=np.float64), score, scaled, lines, slope)
        longest = np.abs(step).max(axis=1, keepdims=True)
        lines += step * np.minimum(1.0, _LONGEST / np.maximum(longest, 1e-12))
        if longest.max() < _TOLERANCE:
            break
    return lines


def apply_lines(risk: NDArray[Any], lines: Doubles) -> Doubles:
    """Risks moved by each line (lines, rows)."""
    return sigmoid(lines[:, :1] + lines[:, 1:] * logit(risk)[None])


def _step(y: Doubles, score: Doubles, weights: Doubles, lines: Doubles, slope: bool) -> Doubles:
    """One Newton step of each set (sets, 2)."""
    p = sigmoid(lines[:, :1] + lines[:, 1:] * score[None])
    pull, curve = weights * (y - p), weights * p * (1 - p)
    precision = 1 / PRIOR**2
    first = pull.sum(axis=1) - precision[0] * lines[:, 0]
    second = pull @ score - precision[1] * (lines[:, 1] - 1)
    a, b, c = curve.sum(axis=1) + precision[0], curve @ score, curve @ score**2 + precision[1]
    if not slope:
        return np.stack([first / a, np.zeros(len(a))], axis=1)
    determinant = a * c - b * b
    return np.stack([(c * first - b * second) / determinant, (a * second - b * first) / determinant], axis=1)
