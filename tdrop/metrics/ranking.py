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

    The running total, which is what costs, is taken over the rarer class.

    Attributes:
        name: What the number is called.
        rarer: Rows of the rarer class in ascending order of score (rarer,).
        others: Rows of the other class (others,).
        below: For each of `others`, how many of `rarer` lie strictly below it (others,).
        not_above: For each of `others`, how many lie below or level with it (others,).
        rarer_is_event: Whether the rarer class is that of the event.
    """

    name: str
    rarer: Indices
    others: Indices
    below: Indices
    not_above: Indices
    rarer_is_event: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The one name, as `Statistic` wants it."""
        return (self.name,)

    @property
    def rests_on(self) -> tuple[tuple[int, int], ...]:
        """Patients and events."""
        events = self.rarer if self.rarer_is_event else self.others
        return ((len(self.rarer) + len(self.others), len(events)),)

    @classmethod
    def of(cls, y: NDArray[Any], score: NDArray[Any], *, name: str = "auroc", rows: Indices | None = None) -> Self:
        """Ranks score (rows,) for events y (rows,); `rows` keeps only some patients."""
        outcome, value = as_pair(y, score)
        kept = np.arange(len(outcome)) if rows is None else rows
        classes = kept[outcome[kept] > 0.5], kept[outcome[kept] <= 0.5]
        rarer, others = sorted(classes, key=len)
        rarer = rarer[np.argsort(value[rarer], kind="stable")]
        below, not_above = (np.searchsorted(value[rarer], value[others], side=side) for side in ("left", "right"))
        return cls(name, rarer, others, below, not_above, rarer_is_event=len(classes[0]) <= len(classes[1]))

    def resampled(self, counts: Floats | Doubles) -> Doubles:
        """Returns the AUROC of each resample (1, resamples); NaN where a resample holds one class only.

        Args:
            counts: How often each patient was drawn (resamples, rows).
        """
        drawn = _take(counts, self.others)
        running = np.zeros((len(counts), len(self.rarer) + 1), dtype=counts.dtype)
        np.cumsum(_take(counts, self.rarer), axis=1, out=running[:, 1:])
        beaten = _take(running, self.below)
        if not np.array_equal(self.below, self.not_above):
            beaten = 0.5 * (beaten + _take(running, self.not_above))
        pairs = drawn.sum(axis=1, dtype=np.float64) * running[:, -1]
        lower = divide(np.vecdot(drawn, beaten).astype(np.float64), pairs)
        return (1 - lower if self.rarer_is_event else lower)[None, :]


def _take(values: Floats | Doubles, columns: Indices) -> Floats | Doubles:
    """Returns some columns; without the bounds check, which costs as much as the copy."""
    return values.take(columns, axis=1, mode="clip")
