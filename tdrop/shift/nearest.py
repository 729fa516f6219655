"""Nearest unused source row on the logit, in O(n log n) time and linear memory.

The source's logits are sorted once. Two arrays of links skip used rows: following `right` from a
place leads to the nearest unused row at or after it, `left` to the nearest at or before. Paths are
halved while they are followed (union-find), so a search costs next to nothing however many rows
are used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tdrop.base import Doubles, Indices, ascending


@dataclass(frozen=True)
class Pairs:
    """Matched rows in the order they were taken.

    Attributes:
        source: Source rows, each at most once (pairs,).
        target: Target row that took each of them (pairs,).
        passes: Rounds over the target rows.
    """

    source: Indices
    target: Indices
    passes: int

    @classmethod
    def none(cls) -> Self:
        """Returns no pairs at all."""
        empty = np.empty(0, dtype=np.int64)
        return cls(empty, empty, 0)


def take_nearest(source: Doubles, target: Doubles, *, caliper: float, most: int, seed: Sequence[int]) -> Pairs:
    """Lets target rows take their nearest unused source row within the caliper, in seeded passes.

    In every pass the target rows come in a new random order. A row that finds nothing leaves: rows
    are only used up, so it would find nothing later. Ends with `most` pairs or nobody left.
    Of two equally near rows the one with the lower logit is taken.

    Args:
        source: Logits of the source rows (source rows,).
        target: Logits of the target rows (target rows,).
        caliper: Largest distance on the logit.
        most: Largest number of pairs.
        seed: Decides the orders.
    """
    generator = np.random.default_rng([*seed, 4])
    order = ascending(source)
    line = _Line(source[order])
    waiting = _with_any_neighbour(line.logits, target, caliper)
    taken: list[int] = []
    takers: list[int] = []
    passes = 0
    while len(waiting) and len(taken) < most:
        passes += 1
        successful = _make_pass(line, target, generator.permutation(waiting), caliper, most, taken, takers)
        waiting = np.asarray(successful, dtype=np.int64)
    return Pairs(order[np.asarray(taken, dtype=np.int64)], np.asarray(takers, dtype=np.int64), passes)


class _Line:
    """Source logits in ascending order and the links that skip used places; one sentinel at each end."""

    def __init__(self, logits: Doubles) -> None:
        self.logits = logits
        # Places are shifted by one: 0 and len + 1 are sentinels that no caliper reaches.
        self.values: list[float] = [-np.inf, *logits.tolist(), np.inf]
        self.right = list(range(len(logits) + 2))
        self.left = list(range(len(logits) + 2))


def _with_any_neighbour(logits: Doubles, target: Doubles, caliper: float) -> Indices:
    """Target rows with at least one source row within the caliper."""
    return np.flatnonzero(count_within(logits, target, caliper) > 0)


def count_within(sorted_source: Doubles, target: Doubles, caliper: float) -> Indices:
    """Number of source rows within the caliper of each target row (target rows,)."""
    first = np.searchsorted(sorted_source, target - caliper, side="left")
    last = np.searchsorted(sorted_source, target + caliper, side="right")
    return np.asarray(last - first, dtype=np.int64)


def _make_pass(
    line: _Line,
    target: Doubles,
    order: Indices,
    caliper: float,
    most: int,
    taken: list[int],
    takers: list[int],
) -> list[int]:
    """Extends `taken` (places) and `takers`; returns the target rows that found somebody."""
    values, left, right = line.values, line.left, line.right
    logits = target[order]
    places = (np.searchsorted(line.logits, logits, side="left") + 1).tolist()
    successful = []
    for row, logit, place in zip(order.tolist(), logits.tolist(), places, strict=True):
        after = _follow(right, place)
        before = _follow(left, place - 1)
        above, below = values[after] - logit, logit - values[before]
        nearest, distance = (before, below) if below <= above else (after, above)
        if distance > caliper:
            continue
        right[nearest] = nearest + 1
        left[nearest] = nearest - 1
        taken.append(nearest - 1)
        takers.append(row)
        successful.append(row)
        if len(taken) >= most:
            break
    return successful


def _follow(links: list[int], place: int) -> int:
    """Follows links to the end, halving the path on the way."""
    while links[place] != place:
        links[place] = links[links[place]]
        place = links[place]
    return place
