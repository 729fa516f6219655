"""Ranking: does a higher score go with the event?

AUROC is the share of (event, no event) pairs in which the event has the higher score; ties count half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.metrics.scores import as_pair, divide
from tdrop.types import Doubles, Floats, Indices


def auroc(y: NDArray[Any], score: NDArray[Any]) -> float | None:
    """Returns the AUROC of score (rows,) for events y (rows,), or None when only one class is there."""
    outcome, value = as_pair(y, score)
    positive, negative = value[outcome > 0.5], np.sort(value[outcome <= 0.5])
    if not len(positive) or not len(negative):
        return None
    below = np.searchsorted(negative, positive, side="left")
    not_above = np.searchsorted(negative, positive, side="right")
    return float((below + not_above).sum() / (2.0 * len(positive) * len(negative)))


@dataclass(frozen=True)
class RankedPairs:
    """One AUROC prepared so that many resamples of its patients cost little.

    Attributes:
        name: What the number is called.
        positive: Rows with the event (events,).
        negative: Rows without, in ascending order of score (others,).
        below: For each event, how many of `negative` lie strictly below it (events,).
        not_above: For each event, how many lie below or level with it (events,).
    """

    name: str
    positive: Indices
    negative: Indices
    below: Indices
    not_above: Indices

    @property
    def names(self) -> tuple[str, ...]:
        """The one name, as `Statistic` wants it."""
        return (self.name,)

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """Patients and events."""
        return ((len(self.positive) + len(self.negative), len(self.positive)),)

    @classmethod
    def of(cls, y: NDArray[Any], score: NDArray[Any], *, name: str = "auroc", rows: Indices | None = None) -> Self:
        """Ranks score (rows,) for events y (rows,); `rows` keeps only some patients."""
        outcome, value = as_pair(y, score)
        kept = np.arange(len(outcome)) if rows is None else rows
        positive, negative = kept[outcome[kept] > 0.5], kept[outcome[kept] <= 0.5]
        negative = negative[np.argsort(value[negative], kind="stable")]
        ordered = value[negative]
        return cls(
            name,
            positive,
            negative,
            np.searchsorted(ordered, value[positive], side="left"),
            np.searchsorted(ordered, value[positive], side="right"),
        )

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns the AUROC of each resample (1, resamples); NaN where a resample holds one class only.

        Args:
            counts: How often each patient was drawn (rows, resamples).
        """
        drawn = counts[self.positive]
        running = np.zeros((len(self.negative) + 1, counts.shape[1]), dtype=counts.dtype)
        np.cumsum(counts[self.negative], axis=0, out=running[1:])
        beaten = running[self.below]
        if not np.array_equal(self.below, self.not_above):
            beaten = 0.5 * (beaten + running[self.not_above])
        pairs = drawn.sum(axis=0, dtype=np.float64) * running[-1]
        won = np.einsum("ij,ij->j", drawn, beaten, dtype=np.float64)
        return divide(won, pairs)[None, :]
