"""Ranking: does a higher score go with the event?

AUROC is the share of (event, no event) pairs in which the event has the higher score; ties count half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from tdrop.base import INTERVAL_LEVEL, Doubles, Floats, Indices
from tdrop.metrics.scores import as_pair, divide

#: With fewer events, or non-events, resamples of an AUROC are too narrow; DeLong's interval takes their place.
FEW_EVENTS = 30

#: With n patients of a class and nothing seen amiss, up to 3/n may still go unseen (the rule of three).
UNSEEN = 3.0


def auroc(y: NDArray[Any], score: NDArray[Any]) -> float | None:
    """Returns the AUROC of score (rows,) for events y (rows,), or None when only one class is there."""
    outcome, value = as_pair(y, score)
    positive, negative = value[outcome > 0.5], np.sort(value[outcome <= 0.5])
    if not len(positive) or not len(negative):
        return None
    below = np.searchsorted(negative, positive, side="left")
    not_above = np.searchsorted(negative, positive, side="right")
    return float((below + not_above).sum() / (2.0 * len(positive) * len(negative)))


def delong(others: NDArray[Any], events: NDArray[Any]) -> tuple[float, float]:
    """Returns the AUROC of the events' scores over the others' and DeLong's variance of it, in O(n log n).

    The variance is 0 where a side has one patient only.
    """
    ranks = rankdata(np.concatenate([others, events]))
    above = (ranks[len(others) :] - rankdata(events)) / len(others)
    below = 1.0 - (ranks[: len(others)] - rankdata(others)) / len(events)
    variance = sum(float(part.var(ddof=1)) / len(part) for part in (above, below) if len(part) > 1)
    return float(above.mean()), variance


def auroc_interval(value: float, variance: float, fewest: int, level: float = INTERVAL_LEVEL) -> tuple[float, float]:
    """Returns an AUROC's interval on the logit scale, where it stays within 0 and 1 and few events do not shrink it.

    Args:
        value: The AUROC.
        variance: DeLong's variance of it.
        fewest: Patients of the rarer class; a perfect ranking has no variance of its own, only this.
        level: Coverage of the interval.
    """
    unseen = UNSEEN / fewest
    if value >= 1 or value <= 0 or variance <= 0:
        return max(0.0, value - unseen), min(1.0, value + unseen)
    width = float(norm.ppf((1 + level) / 2)) * np.sqrt(variance) / (value * (1 - value))
    centre = np.log(value / (1 - value))
    # tanh does not overflow where a hardly known AUROC has an enormous width on this scale.
    low, high = (0.5 * (1 + np.tanh(0.5 * (centre + sign * width))) for sign in (-1, 1))
    return float(low), float(high)


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
        intervals: By the name, DeLong's interval on the logit scale where the rarer class has fewer than FEW_EVENTS.
    """

    name: str
    rarer: Indices
    others: Indices
    below: Indices
    not_above: Indices
    rarer_is_event: bool
    intervals: Mapping[str, tuple[float, float]]

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
        own = {}
        if 0 < len(rarer) < FEW_EVENTS:
            own = {name: auroc_interval(*delong(value[classes[1]], value[classes[0]]), len(rarer))}
        return cls(name, rarer, others, below, not_above, len(classes[0]) <= len(classes[1]), own)

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
