"""One setting of one method, tried on source patients who were left out of its fits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdrop.base import Cohort, Count, Described, Doubles, FitError, Fitted, Indices, Method, StepCallback
from tdrop.choose.losses import Losses
from tdrop.choose.out_of_fold import FOLDS, MOST_ROWS, PASSES, OutOfFold, deal_folds, predict_folds
from tdrop.methods import build
from tdrop.metrics import auroc, brier, misclassified, per_row_log_loss

logger = logging.getLogger(__name__)

#: What was fitted, and the folds that were left out in turn.
Fits = tuple[Method, tuple[int, ...]]


@dataclass(frozen=True)
class Trial:
    """One method with one set of settings, scored out of fold on source patients.

    Attributes:
        method: Name of the method.
        settings: All its settings.
        folds: How many folds were fitted; a trial that did not look promising stops after the first.
        log_loss: Mean log loss of the rows of these folds; None when a fit failed.
        standard_error: Of that mean.
        error_auroc: AUROC of the samples' sd for "the class at 0.5 is wrong"; None when not defined.
        errors: Rows whose class is wrong.
        n: Rows scored.
        steps: Steps of every fit.
        auroc: AUROC of the risk; None when only one outcome occurs.
        brier: Mean squared error of the risk.
        matched_log_loss: Mean log loss of the rows among these that are in the matched validation set.
        matched_n: How many these are.
        matched_losses: Their sums by block.
        restraint: How much the settings hold the method back, the most important part first; larger is more.
        hedged: Whether some of its members are held back and others are not.
        losses: Sums by block, to compare trials patient by patient.
        failure: Why a fit failed, or None.
        picked: Whether the refit uses it.
    """

    method: str
    settings: Mapping[str, Any]
    folds: int = 0
    log_loss: float | None = None
    standard_error: float | None = None
    error_auroc: float | None = None
    errors: Count = 0
    n: Count = 0
    steps: int = 0
    auroc: float | None = None
    brier: float | None = None
    matched_log_loss: float | None = None
    matched_n: Count = 0
    matched_losses: Losses | None = None
    restraint: tuple[float, ...] = ()
    hedged: bool = False
    losses: Losses | None = None
    failure: str | None = None
    picked: bool = False


def run_trial(
    method: Method,
    source: Cohort,
    target: Cohort,
    matching_rows: Indices,
    *,
    seed: int,
    earlier: OutOfFold | None = None,
    held: tuple[int, ...] | None = None,
    folds: int = FOLDS,
    passes: int = PASSES,
    most_rows: int = MOST_ROWS,
    shared: MutableMapping[Fits, OutOfFold] | None = None,
) -> tuple[Trial, OutOfFold | None]:
    """Scores a method on source rows that its fits did not see.

    A pure function of its other arguments: the same call gives the same trial in any process.

    Args:
        method: Settings to try.
        source: Labelled source.
        target: Target; its labels, if any, are dropped before anything looks.
        matching_rows: Places of the matched validation rows in the source.
        seed: Decides the folds, the fits and the samples; the same for all trials that are compared.
        earlier: What an earlier call found for other folds; joined.
        held: Folds to leave out in turn; all that `earlier` does not hold unless given.
        folds: Number of folds.
        passes: Samples behind risk and sd.
        most_rows: Source rows dealt into folds, at most.
        shared: What was fitted so far with the same other arguments; methods with the same risk share its fits.

    Returns:
        The trial, and the risks it rests on; None when a fit failed.
    """
    dealt = deal_folds(source, seed=seed, folds=folds, most_rows=most_rows)
    known = set() if earlier is None else set(earlier.fold.tolist())
    asked = tuple(each for each in range(folds) if each not in known) if held is None else held
    try:
        found = earlier
        if asked:
            fits, known_fits = (method.risk_alone(), asked), {} if shared is None else shared
            if fits not in known_fits:
                known_fits[fits] = predict_folds(method, source, target, dealt, asked, seed=seed, passes=passes)
            fresh = known_fits[fits]
            found = fresh if earlier is None else earlier.join(fresh)
    except FitError as error:
        logger.info("a trial of '%s' failed: %s", method.name, error)
        return failed_trial(method, str(error)), None
    assert found is not None
    return score_trial(method, source, found, np.asarray(matching_rows)), found


def failed_trial(method: Described, failure: str) -> Trial:
    """A trial without a score; what it would have held back is known all the same."""
    return Trial(method.name, settings_of(method), failure=failure, restraint=method.restraint(), hedged=method.hedged)


def score_trial(method: Described, source: Cohort, found: OutOfFold, matching_rows: Indices) -> Trial:
    """Compares out-of-fold risks with the outcomes of the rows they are for."""
    y = _outcomes(source)[found.rows]
    per_row = per_row_log_loss(y, found.risk)
    persons = None if source.persons is None else source.persons[found.rows]
    losses = Losses.collect(per_row, persons=persons)
    wrong = misclassified(y, found.risk)
    # Without its doubt a fit's spread is not the method's.
    has_spread = found.passes > 1 and method.risk_alone() == method
    matched = np.isin(found.rows, matching_rows)
    matched_persons = None if persons is None else persons[matched]
    settings = settings_of(method)
    return Trial(
        method=method.name,
        settings=settings,
        folds=len(np.unique(found.fold)),
        log_loss=losses.mean,
        standard_error=losses.standard_error,
        error_auroc=auroc(wrong, found.sd) if has_spread else None,
        errors=int(wrong.sum()),
        n=len(found),
        steps=int(settings.get("steps", 0)),
        auroc=auroc(y, found.risk),
        brier=brier(y, found.risk),
        matched_log_loss=float(per_row[matched].mean()) if matched.any() else None,
        matched_n=int(matched.sum()),
        matched_losses=Losses.collect(per_row[matched], persons=matched_persons) if matched.any() else None,
        restraint=method.restraint(),
        hedged=method.hedged,
        losses=losses,
    )


def chosen_method(name: str, trial: Trial) -> Method:
    """Returns the method with the trial's settings."""
    return build(name, **trial.settings)


def refit(
    name: str, trial: Trial, source: Cohort, target: Cohort, *, seed: int, progress: StepCallback | None = None
) -> Fitted:
    """Fits on all labelled source rows with the trial's settings, its number of steps among them."""
    return chosen_method(name, trial).fit(source, target.unlabelled(), None, seed=seed, progress=progress)


def settings_of(method: Described) -> Mapping[str, Any]:
    """Returns the method's settings as plain JSON values."""
    return dict(method.settings())


def _outcomes(cohort: Cohort) -> Doubles:
    assert cohort.y is not None
    return cohort.y.astype(np.float64)
