"""A watch in numbers at one time: sums over patients, which disclosure can round before they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Count, Feature, Numbers
from tdrop.watch.rules import RunningMean


@dataclass(frozen=True)
class FeatureSums:
    """How new patients differ from those the model was made for, feature by feature, as the model reads them.

    Attributes:
        names: Features.
        kinds: What each of them is: continuous, ordinal, binary, level or missing.
        before: Their means among those the model was made for (features,).
        spread: Their standard deviations there (features,).
        total: Sums over the new patients (features,).
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    before: Numbers
    spread: Numbers
    total: Numbers

    @classmethod
    def of(cls, features: Sequence[Feature], made_for: NDArray[Any]) -> FeatureSums:
        """Nobody new yet, beside those the model was made for (patients, features)."""
        X = np.asarray(made_for, dtype=np.float64)
        names, kinds = (tuple(getattr(feature, key) for feature in features) for key in ("name", "kind"))
        return cls(names, kinds, X.mean(axis=0), X.std(axis=0), np.zeros(X.shape[1]))

    def add(self, X: NDArray[Any]) -> FeatureSums:
        """Adds new patients (patients, features)."""
        return replace(self, total=self.total + np.asarray(X, dtype=np.float64).sum(axis=0))


@dataclass(frozen=True)
class FeatureMean:
    """A feature's mean, before and now, as the model reads it; None where it may not leave.

    Attributes:
        before: Among those the model was made for.
        now: Among the new patients.
        spread: Standard deviation among those the model was made for.
        kind: continuous, ordinal, binary, level or missing; of the last three the mean is a share.
    """

    before: float | None
    now: float | None
    spread: float
    kind: str = "continuous"

    @property
    def moved(self) -> float | None:
        """By how many standard deviations it moved."""
        if self.before is None or self.now is None or not self.spread:
            return None
        return (self.now - self.before) / self.spread


@dataclass(frozen=True)
class GroupPlace:
    """Where the new patients of one group stand: mean place with its confidence sequence."""

    patients: Count
    mean: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, running: RunningMean) -> GroupPlace:
        """From a running mean."""
        return cls(running.patients, running.mean, *running.interval)


@dataclass(frozen=True)
class WatchNumbers:
    """A watch in numbers.

    Attributes:
        patients: New patients who counted.
        outcomes: Known outcomes that counted.
        events: Of these with the outcome.
        expected: Mean of the predicted risks of these patients.
        review: New patients whose interval reaches the level.
        means: By quantity (place, review, loss), its running mean and the ends of its confidence sequence.
        evidence: By rule, log10 of its e-value.
        ranking: AUROC where outcomes are known, with its confidence sequence.
        features: By feature, its mean before and now.
        groups: By group, where its new patients stand.
        findings: By rule of the contract, rows that broke it.
    """

    patients: Count = 0
    outcomes: Count = 0
    events: Count = 0
    expected: float | None = None
    review: Count = 0
    means: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    evidence: Mapping[str, float] = field(default_factory=dict)
    ranking: tuple[float, float, float] | None = None
    features: Mapping[str, FeatureMean] = field(default_factory=dict)
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)
    findings: Mapping[str, Count] = field(default_factory=dict)

    @property
    def observed(self) -> float | None:
        """Share of those with a known outcome who had it, of counts that are shown."""
        shown = isinstance(self.events, int) and isinstance(self.outcomes, int) and self.outcomes
        return self.events / self.outcomes if shown else None  # type: ignore[operator]
