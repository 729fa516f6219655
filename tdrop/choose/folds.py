"""How well a method predicts source patients it did not see, weighted to look like the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdrop.errors import DataError, FitError, UsageError
from tdrop.metrics import per_row_log_loss
from tdrop.shift import effective_n
from tdrop.tune import MOST_ROWS, PASSES, Losses
from tdrop.types import Cohort, Doubles, Indices, Method

#: Folds of the out-of-fold predictions: three fits a method, each on two thirds of the rows.
FOLDS = 3


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
        method: With the settings and the epoch count of its picked trial (`chosen_method`).
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
    generator = np.random.default_rng([seed, 8])
    rows = _thin(np.arange(len(source)), most_rows, generator)
    fold_of = generator.permutation(np.arange(len(rows)) % folds)
    losses = np.empty(len(rows))
    effective = coverage * effective_n(weights[rows])
    try:
        for fold in range(folds):
            held = fold_of == fold
            losses[held] = _fold_losses(method, source, target, rows[~held], rows[held], seed, passes)
    except FitError as error:
        return FoldScore(method.name, None, None, None, len(rows), effective, folds, None, str(error))
    collected = Losses.collect(losses, weights[rows])
    return FoldScore(
        method=method.name,
        log_loss=collected.mean,
        standard_error=collected.standard_error,
        plain_log_loss=float(losses.mean()),
        n=len(rows),
        effective_n=effective,
        folds=folds,
        losses=collected,
    )


def _fold_losses(
    method: Method, source: Cohort, target: Cohort, kept: Indices, held: Indices, seed: int, passes: int
) -> Doubles:
    fitted = method.fit(source.take(kept), target.unlabelled(), None, seed=seed)
    scored = source.take(held)
    risk = fitted.summarise(scored.X, passes, seed=seed).mean
    if not np.isfinite(risk).all():
        raise FitError(f"method '{method.name}' predicted values that are not finite; lower its learning rate")
    assert scored.y is not None
    return per_row_log_loss(scored.y, risk)


def _thin(rows: Indices, most: int, generator: np.random.Generator) -> Indices:
    return rows if len(rows) <= most else np.sort(generator.choice(rows, most, replace=False))


def _check_scoring(source: Cohort, weights: Doubles, folds: int) -> None:
    if source.y is None:
        raise DataError(f"site '{source.site}': choosing needs the source's outcomes and came without")
    if weights.shape != (len(source),):
        raise DataError(
            f"site '{source.site}': expected one weight a source row ({len(source):,}), came shape {weights.shape}"
        )
    if not 2 <= folds <= len(source):
        raise UsageError(f"out-of-fold predictions need 2 to {len(source):,} folds, came {folds}")
