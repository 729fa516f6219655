"""How alike the matched rows and the target are, feature by feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.shift.marginal import compare_means, standardise
from tdrop.types import Cohort, Doubles, Indices

#: A standardised mean difference below this counts as balanced.
BALANCED = 0.1


@dataclass(frozen=True)
class Balance:
    """One feature's standardised mean difference to the target, before and after matching.

    All use the same denominator, the pooled standard deviation before matching, so that a smaller
    number means closer means and not a larger spread. None where there is no finite value.

    Attributes:
        feature: Name of the feature.
        before: Target minus source.
        after: Target with overlap minus matched source.
        before_overlap: Target with overlap minus source.
    """

    feature: str
    before: float | None
    after: float | None
    before_overlap: float | None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `dataclasses.asdict` wrote."""
        return cls(**data)

    @property
    def reached(self) -> bool:
        """Whether a difference above BALANCED was halved, or a smaller one stayed below it."""
        if self.before is None or self.after is None or self.before_overlap is None:
            return False
        return bool(abs(self.after) <= max(BALANCED, min(abs(self.before), abs(self.before_overlap)) / 2))


@dataclass(frozen=True)
class Scale:
    """What a matched set is compared with, worked out once.

    Attributes:
        features: Names of the features.
        X: Source rows (source rows, features).
        target: Mean of the target rows with overlap (features,).
        pooled_sd: Denominator (features,).
        before: Target minus source (features,).
        before_overlap: Target with overlap minus source (features,).
    """

    features: tuple[str, ...]
    X: NDArray[np.float32]
    target: Doubles
    pooled_sd: Doubles
    before: Doubles
    before_overlap: Doubles

    @classmethod
    def prepare(cls, source: Cohort, target: Cohort, near: NDArray[np.bool_]) -> Self:
        """Compares the sites; `near` are the target rows with overlap (all, when none has)."""
        moments = compare_means(source.X, target.X)
        mean = target.X[near].mean(axis=0, dtype=np.float64) if near.any() else moments.target_mean
        before_overlap = standardise(mean - moments.source_mean, moments.pooled_sd)
        return cls(source.features, source.X, mean, moments.pooled_sd, moments.smd, before_overlap)

    def measure(self, rows: Indices) -> tuple[Balance, ...]:
        """Returns the balance of the matched rows, one record a feature."""
        after = standardise(self.target - self.X[rows].mean(axis=0, dtype=np.float64), self.pooled_sd)
        numbers = np.stack([self.before, after, self.before_overlap], axis=1)
        return tuple(
            Balance(feature, *(float(value) if np.isfinite(value) else None for value in row))
            for feature, row in zip(self.features, numbers, strict=True)
        )

    def worst(self, rows: Indices) -> float:
        """Returns by how much the worst feature misses what was to be reached; 0 or less is balanced."""
        after = np.abs(standardise(self.target - self.X[rows].mean(axis=0, dtype=np.float64), self.pooled_sd))
        allowed = np.maximum(BALANCED, np.minimum(np.abs(self.before), np.abs(self.before_overlap)) / 2)
        excess = np.where(np.isfinite(after) & np.isfinite(self.before_overlap), after - allowed, np.inf)
        return float(excess.max(initial=-np.inf))
