"""Ways of picking one of a method's trials, to be compared."""

from __future__ import annotations

from collections.abc import Sequence

from tdrop.choose import Trial, most_restrained


def scored(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that were worth all folds."""
    most = max(trial.folds for trial in trials)
    return [trial for trial in trials if trial.folds == most and trial.log_loss is not None]


def lowest_log_loss(trials: Sequence[Trial]) -> Trial:
    """The trial of lowest out-of-fold log loss."""
    return min(scored(trials), key=lambda trial: trial.log_loss or 0.0)


def within_tolerance(trials: Sequence[Trial]) -> Trial:
    """The most restrained trial within .005 of the best."""
    compared = scored(trials)
    return compared[most_restrained(compared, range(len(compared)))]


def within_one_error(trials: Sequence[Trial]) -> Trial:
    """The most restrained trial within one paired standard error of the best."""
    best = lowest_log_loss(trials)
    assert best.losses is not None
    close = []
    for trial in scored(trials):
        assert trial.losses is not None
        worse, error = trial.losses.compare(best.losses)
        if worse <= (error or 0.0):
            close.append(trial)
    return max(close, key=lambda trial: trial.restraint)
