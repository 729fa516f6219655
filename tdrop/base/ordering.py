"""Rows by a score, where several may have the same one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base.types import Indices


def ascending(*scores: NDArray[Any]) -> Indices:
    """Places of rows by ascending score, of equals by the next score, at last by a fixed shuffle (rows,).

    Not by their place itself: a file may be sorted by outcome, and what comes first among equals would then tell it.
    """
    return np.lexsort((fixed_shuffle(len(scores[0])), *reversed(scores)))


def fixed_shuffle(rows: int) -> Indices:
    """The same random order of so many rows each time (rows,)."""
    return np.random.default_rng(rows).permutation(rows)
