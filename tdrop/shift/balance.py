"""How alike the matched rows and the target are, feature by feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Doubles, Indices, Mask
from tdrop.shift.differences import compare_means, standardise

#: A standardised mean difference below this counts as balanced.
BALANCED_BELOW = 0.1
#: So does a ratio of variances between half and twice (Rubin's rule).
VARIANCE_RATIO = 2.0


@dataclass(frozen=True)
class Balance:
    """How far one feature's mean and variance are from the target's, before and after matching.

    Mean differences use the same denominator, the pooled standard deviation before matching, so that a smaller
    number means closer means and not a larger spread. None where there is no finite value.

    Attributes:
        feature: Name of the feature.
        before: Target minus source, in standard deviations.
        after: Target with overlap minus matched source.
        before_overlap: Target with overlap minus source.
        variance_before: Variance of the target with overlap over the source's; None for a feature with two values,
            whose mean says it all.
        variance_after: Variance of the target with overlap over that of the matched source.
    """

    feature: str
    before: float | None
    after: float | None
    before_overlap: float | None
    variance_before: float | None = None
    variance_after: float | None = None


@dataclass(frozen=True)
class Scale:
    """The target's means and variances, which every matched set is compared with; computed once.

    Attributes:
        features: Names of the features.
        X: Source rows (source rows, features).
        target: Mean of the target rows with overlap (features,).
        pooled_sd: Denominator (features,).
        before: Target minus source (features,).
        before_overlap: Target with overlap minus source (features,).
        variance: Variance of the target rows with overlap (features,); NaN where a mean says it all.
        variance_before: Over the source's (features,).
    """

    features: tuple[str, ...]
    X: NDArray[np.float32] | Doubles
    target: Doubles
    pooled_sd: Doubles
    before: Doubles
    before_overlap: Doubles
    variance: Doubles
    variance_before: Doubles

    @classmethod
    def compare(cls, features: tuple[str, ...], X: NDArray[Any], others: NDArray[Any], near: Mask) -> Self:
        """Compares source rows X (source rows, features) with target rows (target rows, features).

        `near` are the target rows with overlap (all, when none has).
        """
        moments = compare_means(X, others)
        compared = others[near] if near.any() else others
        mean = compared.mean(axis=0, dtype=np.float64)
        before_overlap = standardise(mean - moments.source_mean, moments.pooled_sd)
        variance = np.where(_many_valued(X, others), compared.var(axis=0, dtype=np.float64), np.nan)
        before = _ratio(variance, X.var(axis=0, dtype=np.float64))
        return cls(features, X, mean, moments.pooled_sd, moments.smd, before_overlap, variance, before)

    def measure(self, rows: Indices) -> tuple[Balance, ...]:
        """Returns the balance of the matched rows, one record per feature."""
        after, variance = self._after(rows)
        numbers = [self.before, after, self.before_overlap, self.variance_before, variance]
        return tuple(
            Balance(feature, *(float(value) if np.isfinite(value) else None for value in row))
            for feature, row in zip(self.features, np.stack(numbers, axis=1), strict=True)
        )

    def worst(self, rows: Indices) -> float:
        """Returns by how much the worst feature misses its goal; 0 or less means balanced.

        The goal is to halve mean differences above BALANCED_BELOW and to keep smaller ones below; variances likewise.
        """
        after, variance = self._after(rows)
        allowed = np.maximum(BALANCED_BELOW, np.minimum(np.abs(self.before), np.abs(self.before_overlap)) / 2)
        measured = np.isfinite(after) & np.isfinite(self.before_overlap)
        excess = np.subtract(np.abs(after), allowed, out=np.full(len(after), np.inf), where=measured)
        beyond = np.abs(np.log(variance)) - np.maximum(np.log(VARIANCE_RATIO), np.abs(np.log(self.variance_before)) / 2)
        known = np.where(np.isfinite(beyond), beyond, -np.inf)
        return float(np.maximum(excess, known).max(initial=-np.inf))

    def _after(self, rows: Indices) -> tuple[Doubles, Doubles]:
        """Mean differences and variance ratios of the matched rows, each (features,)."""
        matched = self.X[rows]
        after = standardise(self.target - matched.mean(axis=0, dtype=np.float64), self.pooled_sd)
        return after, _ratio(self.variance, matched.var(axis=0, dtype=np.float64))


def _many_valued(X: NDArray[Any], others: NDArray[Any]) -> Mask:
    """Which features have more than two values, both sites taken together (features,)."""
    low, high = np.minimum(X.min(axis=0), others.min(axis=0)), np.maximum(X.max(axis=0), others.max(axis=0))
    between = [((side != low) & (side != high)).any(axis=0) for side in (X, others)]
    return np.asarray(between[0] | between[1], dtype=np.bool_)


def _ratio(top: Doubles, bottom: Doubles) -> Doubles:
    """top / bottom where both are above rounding (features,); NaN elsewhere."""
    usable = np.isfinite(top) & (bottom > 1e-12) & (top > 1e-12)
    result: Doubles = np.divide(top, bottom, out=np.full(len(top), np.nan), where=usable)
    return result
