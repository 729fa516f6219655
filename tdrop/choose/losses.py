"""Losses kept as sums over blocks of patients: enough to compare two methods, and nobody's own loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tdrop.base import Doubles, Indices, fixed_shuffle

#: Blocks of patients; fewer when there are fewer patients.
BLOCKS = 100


@dataclass(frozen=True)
class Losses:
    """Weighted losses summed over blocks; a fixed shuffle deals rows, or persons, into BLOCKS.

    Attributes:
        mean: Weighted mean loss.
        standard_error: Of that mean, from the rows, or the persons that they are of.
        sums: Weight times loss, summed by block (blocks,).
        weights: Weights summed by block (blocks,).
    """

    mean: float
    standard_error: float
    sums: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def collect(cls, losses: Doubles, weights: Doubles | None = None, persons: Indices | None = None) -> Self:
        """Sums losses (rows,) with their weights (rows,), 1 unless given; the rows of one of `persons` count as one."""
        weights = np.ones(len(losses)) if weights is None else np.asarray(weights, dtype=np.float64)
        total = float(weights.sum())
        mean = float(np.dot(weights, losses)) / total
        away = weights * (losses - mean)
        # Blocks of shuffled rows: every hundredth row of a file that is sorted by outcome would differ too little.
        block, blocks = fixed_shuffle(len(losses)) % BLOCKS, min(BLOCKS, len(losses))
        if persons is not None:
            person = np.unique(persons, return_inverse=True)[1]
            away = np.bincount(person, away).astype(np.float64)
            block, blocks = (fixed_shuffle(len(away)) % BLOCKS)[person], min(BLOCKS, len(away))
        error = float(np.sqrt(np.sum(away**2))) / total
        sums = np.bincount(block, weights * losses, minlength=blocks)
        return cls(mean, error, tuple(sums.tolist()), tuple(np.bincount(block, weights, minlength=blocks).tolist()))

    def compare(self, other: Losses) -> tuple[float, float | None]:
        """Returns this mean minus the other's and the standard error of that difference.

        Both must be losses of the same rows in the same order. The error is None with a single block.
        """
        weights = np.asarray(self.weights)
        total = float(weights.sum())
        blocks = np.asarray(self.sums) - np.asarray(other.sums)
        difference = float(blocks.sum()) / total
        if len(blocks) < 2:
            return difference, None
        # A block that differs from the overall difference by more than its weight explains is noise.
        residual = blocks - difference * weights
        spread = float(np.sqrt(np.sum(residual**2) * len(blocks) / (len(blocks) - 1)))
        return difference, spread / total
