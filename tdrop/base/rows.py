"""Orders rows so that the order reveals nothing, and keeps the rows of one person together.

Persons are numbers (rows,), the same for the rows of one person and for no other's; what they are does not matter.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base.types import Doubles, Floats, Indices

#: Where more source patients than this have another's values throughout, the same values do not name one patient.
MOST_TWINS = 0.01


def ascending(*scores: NDArray[Any]) -> Indices:
    """Places of rows by ascending score; equal rows by the next score, and in the end by a fixed shuffle (rows,).

    Not by their place itself: a file may be sorted by outcome, and what comes first among equals would reveal it.
    """
    return np.lexsort((fixed_shuffle(len(scores[0])), *reversed(scores)))


@lru_cache(maxsize=8)
def fixed_shuffle(rows: int) -> Indices:
    """A random order of the rows that is the same each time (rows,)."""
    order = np.random.default_rng(rows).permutation(rows)
    order.flags.writeable = False
    return order


def count_persons(persons: Indices) -> int:
    """Number of different persons."""
    return len(np.unique(persons))


def deal_persons(
    persons: Indices, folds: int, generator: np.random.Generator, outcomes: Floats | Doubles | None = None
) -> Indices:
    """Deals persons into folds that hold about as many outcomes and rows; returns the fold of every row (rows,).

    Shuffled, then those with most outcomes (rows,) first, among them those with most rows: dealt in turns, no fold is
    ahead of another by more than a person or two.
    """
    distinct, person = np.unique(persons, return_inverse=True)
    rows, events = np.bincount(person), np.bincount(person, outcomes)
    order = generator.permutation(len(distinct))
    order = order[np.lexsort((-rows[order], -events[order]))]
    fold = np.empty(len(distinct), dtype=np.int64)
    fold[order] = np.arange(len(distinct)) % folds
    return fold[person]


def draw_persons(persons: Indices, generator: np.random.Generator, times: int = 1) -> Indices:
    """How often each row is in a draw of as many persons with replacement (times, rows)."""
    distinct, person = np.unique(persons, return_inverse=True)
    count = len(distinct)
    drawn = generator.integers(0, count, size=(times, count)) + count * np.arange(times)[:, None]
    often = np.bincount(drawn.ravel(), minlength=count * times).reshape(times, count)
    return often[:, person]


def by_first_number(label: str) -> tuple[float, bool, str]:
    """Sorts bands by their first number, "under 65" before "65 to 74", and labels without one last."""
    number = re.search(r"\d+(\.\d+)?", label)
    return (float(number.group()) if number else float("inf"), number is None or number.start() == 0, label)
