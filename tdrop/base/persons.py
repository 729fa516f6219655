"""Rows of one person, where a person has several: they are dealt and drawn together.

Persons are numbers (rows,), the same for the rows of one person and for no other's; what they are does not matter.
"""

from __future__ import annotations

import numpy as np

from tdrop.base.types import Doubles, Floats, Indices

#: Where more source patients than this have another's values throughout, the same values do not name one patient.
MOST_TWINS = 0.01


def count_persons(persons: Indices) -> int:
    """How many persons the rows are of."""
    return len(np.unique(persons))


def deal_persons(
    persons: Indices, folds: int, generator: np.random.Generator, outcomes: Floats | Doubles | None = None
) -> Indices:
    """Deals persons into folds that hold about as many outcomes and rows; returns the fold of every row (rows,).

    Shuffled, then those with most outcomes (rows,) first, among them those with most rows: dealt in turns, no fold is
    ahead of another by more than a person or two.
    """
    found, person = np.unique(persons, return_inverse=True)
    rows, events = np.bincount(person), np.bincount(person, outcomes)
    order = generator.permutation(len(found))
    order = order[np.lexsort((-rows[order], -events[order]))]
    fold = np.empty(len(found), dtype=np.int64)
    fold[order] = np.arange(len(found)) % folds
    return fold[person]


def draw_persons(persons: Indices, generator: np.random.Generator, times: int = 1) -> Indices:
    """How often each row is in a draw of as many persons with replacement (times, rows)."""
    found, person = np.unique(persons, return_inverse=True)
    drawn = generator.integers(0, len(found), size=(times, len(found))) + len(found) * np.arange(times)[:, None]
    often = np.bincount(drawn.ravel(), minlength=len(found) * times).reshape(times, len(found))
    return often[:, person]
