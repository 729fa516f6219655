"""Tuning on the matched validation set, and the refit with what was found.

Every method gets the same number of trials. A trial trains on source rows outside the matched
validation set and is scored on that set by log loss; nothing else, and no target label, tunes.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from tdrop.errors import DataError, FitError, UsageError
from tdrop.methods import build
from tdrop.metrics import auroc, brier, misclassified, per_row_log_loss
from tdrop.tune.losses import Losses
from tdrop.types import Cohort, Fitted, Indices, Method, StepCallback, Summary

logger = logging.getLogger(__name__)

#: Source rows behind a trial, at most: settings hardly depend on more, and a network's tuning stays affordable.
MOST_ROWS = 20_000
#: Samples behind a trial's risk and sd.
PASSES = 50
#: Below this many errors an error AUROC is too noisy to choose by (its standard error exceeds .05).
FEWEST_ERRORS = 30
#: The weight of the target regulariser when the errors are too few to choose it.
DEFAULT_LAMBDA = 0.03
#: The setting that is chosen by error AUROC: log loss says little about the spread of the samples.
LAMBDA = "lambda_"


@dataclass(frozen=True)
class Trial:
    """One method with one set of settings, scored on the matched validation set.

    Attributes:
        method: Name of the method.
        settings: All its settings.
        log_loss: Mean log loss on the validation rows; None when the fit failed.
        standard_error: Of that mean.
        error_auroc: AUROC of the samples' sd for "the class at 0.5 is wrong"; None when not defined.
        errors: Validation rows whose class is wrong.
        n: Validation rows.
        steps: Steps behind the kept weights.
        rows: Source rows trained on.
        auroc: AUROC of the risk; None when only one outcome occurs.
        brier: Mean squared error of the risk.
        losses: Sums by block, to compare trials patient by patient.
        failure: Why the fit failed, or None.
        seconds: Wall time; the only part that differs between equal runs.
    """

    method: str
    settings: dict[str, Any]
    log_loss: float | None
    standard_error: float | None
    error_auroc: float | None
    errors: int
    n: int
    steps: int
    rows: int = 0
    auroc: float | None = None
    brier: float | None = None
    losses: Losses | None = None
    failure: str | None = None
    seconds: float = field(default=0.0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON types."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` wrote."""
        losses = data["losses"]
        return cls(**{**data, "losses": None if losses is None else Losses.from_dict(losses)})


def run_trial(
    method: Method,
    source: Cohort,
    target: Cohort,
    matching_rows: Indices,
    *,
    seed: int,
    passes: int = PASSES,
    most_rows: int = MOST_ROWS,
) -> Trial:
    """Trains on the source without the matched rows and scores on the matched rows.

    A pure function of its arguments: the same call gives the same trial in any process.

    Args:
        method: Settings to try.
        source: Labelled source.
        target: Target; its labels, if any, are dropped before anything looks.
        matching_rows: Indices of the matched validation rows in the source.
        seed: Seed of the subsample, the fit and the samples.
        passes: Samples behind risk and sd.
        most_rows: Source rows to train on, at most.
    """
    started = time.perf_counter()
    training, validation = split_matched(source, matching_rows, seed=seed, most_rows=most_rows)
    try:
        fitted = method.fit(training, target.unlabelled(), validation, seed=seed)
        summary = fitted.summarise(validation.X, passes, seed=seed)
        if not (np.isfinite(summary.mean).all() and np.isfinite(summary.sd).all()):
            raise FitError(f"method '{method.name}' predicted values that are not finite; lower its learning rate")
    except FitError as error:
        failed = _failed(method, str(error), len(validation))
        return replace(failed, seconds=time.perf_counter() - started)
    scored = _score(method, summary, validation)
    seconds = time.perf_counter() - started
    return replace(scored, steps=int(fitted.steps), rows=len(training), seconds=seconds)


def _score(method: Method, summary: Summary, validation: Cohort) -> Trial:
    """Compares a summary with the outcomes of the validation rows."""
    y = _outcomes(validation)
    wrong = misclassified(y, summary.mean)
    losses = Losses.collect(per_row_log_loss(y, summary.mean))
    return Trial(
        method=method.name,
        settings=settings_of(method),
        log_loss=losses.mean,
        standard_error=losses.standard_error,
        error_auroc=auroc(wrong, summary.sd) if summary.passes > 1 else None,
        errors=int(wrong.sum()),
        n=len(validation),
        steps=0,
        auroc=auroc(y, summary.mean),
        brier=brier(y, summary.mean),
        losses=losses,
    )


def split_matched(
    source: Cohort, matching_rows: Indices, *, seed: int, most_rows: int = MOST_ROWS
) -> tuple[Cohort, Cohort]:
    """Returns training rows (thinned to `most_rows`) and the matched validation rows, disjoint."""
    _outcomes(source)
    held = np.zeros(len(source), dtype=bool)
    held[matching_rows] = True
    others = np.flatnonzero(~held)
    if not len(others) or not held.any():
        raise DataError(
            f"site '{source.site}': expected rows on both sides of the split, came {len(others):,} to train on and "
            f"{int(held.sum()):,} to validate on; match a smaller share of the source"
        )
    if len(others) > most_rows:
        generator = np.random.default_rng([seed, 7])
        others = np.sort(generator.choice(others, most_rows, replace=False))
    return source.take(others), source.take(np.asarray(matching_rows))


def pick_trial(name: str, trials: Sequence[Trial]) -> Trial:
    """Returns the trial whose settings the refit uses; of equals, the earlier (the defaults come first).

    It is the one with the lowest log loss. For a method with a target regulariser, a trial that is not
    worse than that by more than one standard error, patient by patient, counts as equally good: of
    these it is the one with the highest error AUROC by sd or, with fewer than FEWEST_ERRORS errors to
    rank, the best at DEFAULT_LAMBDA.
    """
    finished = [trial for trial in trials if trial.log_loss is not None]
    if not finished:
        reasons = "; ".join(dict.fromkeys(trial.failure or "" for trial in trials))
        raise FitError(f"method '{name}': none of {len(trials)} trials could be scored ({reasons or 'none was run'})")
    best = min(finished, key=_loss_of)
    if LAMBDA not in best.settings:
        return best
    close = [trial for trial in finished if as_good(trial, best)]
    if best.errors < FEWEST_ERRORS:
        return min((trial for trial in close if trial.settings[LAMBDA] == DEFAULT_LAMBDA), key=_loss_of, default=best)
    ranked = [trial for trial in close if trial.error_auroc is not None]
    return max(ranked, key=lambda trial: (trial.error_auroc or 0.0, -_loss_of(trial)), default=best)


def as_good(trial: Trial, best: Trial) -> bool:
    """Whether a trial's log loss is within one standard error of the best's."""
    if trial.losses is None or best.losses is None:
        return _loss_of(trial) <= _loss_of(best) + (best.standard_error or 0.0)
    # Both scored the same patients: what makes a patient hard for both does not count as noise.
    worse, error = trial.losses.compare(best.losses)
    return worse <= (error or 0.0)


def _loss_of(trial: Trial) -> float:
    return float("inf") if trial.log_loss is None else trial.log_loss


def chosen_method(name: str, trial: Trial) -> Method:
    """Returns the method with the trial's settings."""
    return build(name, **trial.settings)


def refit(
    name: str, trial: Trial, source: Cohort, target: Cohort, *, seed: int, progress: StepCallback | None = None
) -> Fitted:
    """Fits on all labelled source rows with the trial's settings, its number of steps among them."""
    return chosen_method(name, trial).fit(source, target.unlabelled(), None, seed=seed, progress=progress)


def settings_of(method: Method) -> dict[str, Any]:
    """Returns the method's settings as plain JSON values."""
    settings: dict[str, Any] = method.settings()  # type: ignore[attr-defined]
    return settings


def _failed(method: Method, why: str, n: int) -> Trial:
    logger.info("a trial of '%s' failed: %s", method.name, why)
    settings = settings_of(method)
    return Trial(method.name, settings, None, None, None, errors=0, n=n, steps=0, failure=why)


def _outcomes(cohort: Cohort) -> Any:
    if cohort.y is None:
        raise DataError(f"site '{cohort.site}': tuning needs outcomes and came without; give the labelled source")
    if cohort.task != "binary":
        raise UsageError(f"site '{cohort.site}': tuning scores by log loss and needs a binary outcome")
    return cohort.y
