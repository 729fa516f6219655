"""How well a method predicts source patients it did not see, weighted to look like the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdrop.base import Cohort, DataError, Doubles
from tdrop.choose.losses import Losses
from tdrop.choose.out_of_fold import OutOfFold
from tdrop.metrics import per_row_log_loss
from tdrop.shift import effective_n


@dataclass(frozen=True)
class FoldScore:
    """Importance-weighted log loss of out-of-fold source predictions.

    Attributes:
        method: Name of the method.
        log_loss: Weighted mean; None where there is none.
        standard_error: Of that mean.
        plain_log_loss: Unweighted mean, for comparison.
        n: Source rows scored.
        effective_n: Equally weighted rows that say as much about the target.
        folds: Number of folds.
        losses: Sums by block, to compare methods patient by patient.
    """

    method: str
    log_loss: float | None
    standard_error: float | None
    plain_log_loss: float | None
    n: int
    effective_n: float
    folds: int
    losses: Losses | None = None


def weigh_out_of_fold(
    method: str, found: OutOfFold, source: Cohort, weights: Doubles, *, coverage: float = 1.0
) -> FoldScore:
    """The score of risks that tuning left behind, weighted to look like the target: no fit is needed.

    Args:
        method: Name of the method.
        found: Risks of source rows by fits that did not see them.
        source: Labelled source.
        weights: Density-ratio weights (source rows,).
        coverage: Share of the target that the source's patients can stand for.
    """
    if source.y is None:
        raise DataError(f"site '{source.site}': choosing needs the source's outcomes and came without")
    if weights.shape != (len(source),):
        raise DataError(
            f"site '{source.site}': expected one weight a source row ({len(source):,}), came shape {weights.shape}"
        )
    losses = per_row_log_loss(source.y[found.rows], found.risk)
    persons = None if source.persons is None else source.persons[found.rows]
    collected = Losses.collect(losses, weights[found.rows], persons)
    return FoldScore(
        method=method,
        log_loss=collected.mean,
        standard_error=collected.standard_error,
        plain_log_loss=float(losses.mean()),
        n=len(found),
        effective_n=coverage * effective_n(weights[found.rows]),
        folds=len(np.unique(found.fold)),
        losses=collected,
    )
