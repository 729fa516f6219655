"""Summaries of samples, streamed over rows so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Floats, Predictive, Summary

#: Samples held at once by a summary: 16 MB of float32.
SAMPLES_AT_ONCE = 1 << 22


def summarise_samples(
    sample: Callable[[NDArray[Any]], Predictive], X: NDArray[Any], passes: int, levels: Sequence[float]
) -> Summary:
    """Samples X (rows, features) part by part and keeps mean, sd and intervals.

    Args:
        sample: Gives the samples (passes, rows) of some rows.
        X: Rows to predict.
        passes: How many samples a row has.
        levels: Interval levels, each between 0 and 1.
    """
    ordered = tuple(sorted({float(level) for level in levels}))
    if not ordered or not all(0 < level < 1 for level in ordered):
        raise DataError(f"interval levels must lie between 0 and 1; got {', '.join(map(str, levels)) or 'none'}")
    rows = len(X)
    mean, sd = np.empty(rows, np.float32), np.empty(rows, np.float32)
    ends = np.empty((2, len(ordered), rows), np.float32)
    step = max(1, SAMPLES_AT_ONCE // passes)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        predictive = sample(X[part])
        mean[part], sd[part] = predictive.mean, predictive.sd
        ends[:, :, part] = _interval_ends(predictive.samples, ordered)
    return Summary(mean=mean, sd=sd, levels=ordered, low=ends[0], high=ends[1], passes=passes)


def _interval_ends(samples: Floats, levels: tuple[float, ...]) -> Floats:
    """Lower and upper ends (2, levels, rows) of the central intervals, interpolated as numpy does."""
    ranked = np.sort(samples.T, axis=1)  # (rows, passes): sorting neighbours in memory is ten times faster
    share = np.array([[(1 - level) / 2 for level in levels], [(1 + level) / 2 for level in levels]])
    place = share * (samples.shape[0] - 1)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, samples.shape[0] - 1)
    weight = (place - below)[..., None]
    low, high = ranked.T[below], ranked.T[above]
    ends: Floats = (low + (high - low) * weight).astype(np.float32)
    return ends
