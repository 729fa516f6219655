"""What a choice cost, when the best method is not known either.

The best method in hindsight is best on these patients, partly by luck: of eleven equal methods one always looks ahead.
So half of the target's outcomes pick the method and the other half compare it with the choice, over many halvings.
That is a little kind to the choice, because half of the patients find the best less surely than all do; hindsight over
all patients is unkind to it. The truth lies between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Doubles, Indices, deal_persons
from tdrop.metrics import auroc, per_row_log_loss

HALVINGS = 100


@dataclass(frozen=True)
class Behind:
    """How far each method is behind the one that other patients' outcomes would have picked.

    Attributes:
        auroc: Lower AUROC (methods,).
        log_loss: Higher log loss (methods,).
    """

    auroc: Doubles
    log_loss: Doubles


def behind_other_half(
    y: NDArray[np.floating],
    risks: Doubles,
    candidates: NDArray[np.bool_],
    *,
    persons: Indices | None = None,
    halvings: int = HALVINGS,
    seed: int = 0,
) -> Behind:
    """Means over halvings in which each half has its share of outcomes.

    Args:
        y: The target's outcomes (rows,).
        risks: Of every method (methods, rows).
        candidates: Which methods could have been chosen (methods,).
        persons: Whose row each is (rows,), where a person has several: all of them are in one half.
        halvings: How often the patients are dealt in two.
        seed: Of the dealing.
    """
    draw = np.random.default_rng(seed)
    losses = np.stack([per_row_log_loss(y, risk) for risk in risks])
    found = []
    for _ in range(halvings):
        picks = _half(y, draw) if persons is None else deal_persons(persons, 2, draw, y) == 0
        pick, judge = (_both(y, risks, losses, rows) for rows in (picks, ~picks))
        best = np.argmax(np.where(candidates, pick, -np.inf), axis=1)
        found.append(judge[[0, 1], best][:, None] - judge)
    lower, higher = np.mean(found, axis=0)
    return Behind(lower, higher)


def _half(y: NDArray[np.floating], draw: np.random.Generator) -> NDArray[np.bool_]:
    """Half of those with the outcome and half of those without it (rows,)."""
    half = np.zeros(len(y), dtype=bool)
    for kind in (True, False):
        rows = np.flatnonzero((y > 0.5) == kind)
        half[draw.permutation(rows)[: len(rows) // 2]] = True
    return half


def _both(y: NDArray[np.floating], risks: Doubles, losses: Doubles, rows: NDArray[np.bool_]) -> Doubles:
    """AUROC and negative log loss on some rows (2, methods): the higher the better."""
    ranks = [auroc(y[rows], risk[rows]) or 0.5 for risk in risks]
    return np.stack([ranks, -losses[:, rows].mean(axis=1)])
