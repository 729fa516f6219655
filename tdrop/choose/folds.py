"""How well a method predicts source patients it did not see, weighted to look like the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdrop.base import Cohort, DataError, Doubles, FitError, Method, UsageError
from tdrop.choose.losses import Losses
from tdrop.choose.out_of_fold import FOLDS, MOST_ROWS, PASSES, OutOfFold, deal_folds, predict_folds
from tdrop.metrics import per_row_log_loss
from tdrop.shift import effective_n


@dataclass(frozen=True)
class FoldScore:
    """Importance-weighted log loss of out-of-fold source predictions.

    Attributes:
        method: Name of the method.
        log_loss: Weighted mean; None when a fit failed.
        standard_error: Of that mean.
        plain_log_loss: Unweighted mean, for comparison.
        n: Source rows scored.
        effective_n: Equally weighted rows that say as much about the target.
        folds: Number of folds.
        losses: Sums by block, to compare methods patient by patient.
        failure: Why a fit failed, or None.
    """

    method: str
    log_loss: float | None
    standard_error: float | None
    plain_log_loss: float | None
    n: int
    effective_n: float
    folds: int
    losses: Losses | None = None
    failure: str | None = None


def out_of_fold_losses(
    method: Method,
    source: Cohort,
    target: Cohort,
    weights: Doubles,
    *,
    coverage: float = 1.0,
    folds: int = FOLDS,
    seed: int = 0,
    passes: int = PASSES,
    most_rows: int = MOST_ROWS,
) -> FoldScore:
    """Scores a method on source rows that its fits did not see, weighted to look like the target.

    Args:
        method: With the settings of its picked trial (`chosen_method`).
        source: Labelled source.
        target: Target; its labels, if any, are dropped before anything looks.
        weights: Density-ratio weights (source rows,).
        coverage: Share of the target that the source's patients can stand for (`Propensity.coverage`).
        folds: Number of folds.
        seed: Decides folds, subsamples, fits and samples; the same for all methods that are compared.
        passes: Samples behind the risk.
        most_rows: Source rows behind a fit, and source rows scored, at most.
    """
    _check_scoring(source, weights, folds)
    dealt = deal_folds(source, seed=seed, folds=folds, most_rows=most_rows)
    try:
        found = predict_folds(method, source, target, dealt, tuple(range(folds)), seed=seed, passes=passes)
    except FitError as error:
        effective = coverage * effective_n(weights[dealt[0]])
        return FoldScore(method.name, None, None, None, len(dealt[0]), effective, folds, None, str(error))
    return weigh_out_of_fold(method.name, found, source, weights, coverage=coverage)


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
    folds = len(np.unique(found.fold))
    _check_scoring(source, weights, folds)
    assert source.y is not None
    losses = per_row_log_loss(source.y[found.rows], found.risk)
    collected = Losses.collect(losses, weights[found.rows])
    return FoldScore(
        method=method,
        log_loss=collected.mean,
        standard_error=collected.standard_error,
        plain_log_loss=float(losses.mean()),
        n=len(found),
        effective_n=coverage * effective_n(weights[found.rows]),
        folds=folds,
        losses=collected,
    )


def _check_scoring(source: Cohort, weights: Doubles, folds: int) -> None:
    if source.y is None:
        raise DataError(f"site '{source.site}': choosing needs the source's outcomes and came without")
    if weights.shape != (len(source),):
        raise DataError(
            f"site '{source.site}': expected one weight a source row ({len(source):,}), came shape {weights.shape}"
        )
    if not 2 <= folds <= len(source):
        raise UsageError(f"out-of-fold predictions need 2 to {len(source):,} folds, came {folds}")
