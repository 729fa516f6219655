"""What a site's unlabelled patients were used for, and what they did: sentences from trials and from `Moved`."""

from __future__ import annotations

from collections.abc import Sequence

from tdrop.choose import TOLERANCE, Trial
from tdrop.evaluate import Moved
from tdrop.report.choice import picked_trial
from tdrop.report.data import ReportData
from tdrop.report.text import method_label, number, share

_NOT_USED = "this site's unlabelled patients were not used, because"


def unlabelled_sentences(data: ReportData) -> list[str]:
    """Says for every method that could use unlabelled patients whether it did, and why not or to what effect."""
    moved = {one.method: one for one in data.moved}
    told = []
    for method, trials in data.tuning.items():
        picked = picked_trial(trials)
        if not picked or not any(_lambda_of(trial) for trial in trials):
            continue
        used = _lambda_of(picked) > 0
        sentence = used_sentence(picked, moved.get(method)) if used else not_used_sentence(picked, trials)
        told.append(f"{method_label(method)}: {sentence}")
    return told


def not_used_sentence(picked: Trial, trials: Sequence[Trial]) -> str:
    """Says why lambda is 0, from what left-out source patients said about the settings that were tried."""
    scored = [(trial.log_loss, trial) for trial in trials if trial.log_loss is not None]
    most = max(trial.folds for _, trial in scored)
    whole = [pair for pair in scored if pair[1].folds == most]
    using = [pair for pair in whole if _lambda_of(pair[1])]
    if not using:
        tried = sum(_lambda_of(trial) > 0 for trial in trials)
        return (
            f"{_NOT_USED} none of the {tried} settings that used them did well enough on the first left-out source "
            "patients to go on."
        )
    best, _ = min(whole, key=lambda pair: pair[0])
    loss, nearest = min(using, key=lambda pair: pair[0])
    cost = loss - best
    # What holds a network back comes before lambda in its restraint.
    if cost > TOLERANCE or picked.restraint[:1] <= nearest.restraint[:1]:
        return (
            f"{_NOT_USED} they cost left-out source patients {number(cost)} of log loss (at best "
            f"{number(loss)}, against {number(best)} without); {TOLERANCE} is allowed."
        )
    return (
        f"{_NOT_USED} a setting without them that leaves the network little but a line is as good for left-out source "
        f"patients to within {TOLERANCE} of log loss."
    )


def used_sentence(picked: Trial, moved: Moved | None) -> str:
    """Says what unlabelled patients did to the risks, and by known outcomes whether that was right."""
    told = f"this site's unlabelled patients were used (lambda {_lambda_of(picked):g})"
    if moved is None or not moved.groups:
        return f"{told}."
    near, far = moved.groups[0], moved.groups[-1]
    told += f" and moved risks by {_points(near.moved)} among the patients most like the source"
    if len(moved.groups) > 1:
        told += (
            f" and by {_points(far.moved)} among those least like it (mean risk {share(far.before)} without them, "
            f"{share(far.after)} with them)"
        )
    if moved.reliability is None:
        return f"{told}."
    before, after = moved.reliability
    return (
        f"{told}. By the known outcomes the log loss is {number(after.log_loss)} with them and "
        f"{number(before.log_loss)} without, the calibration error {number(after.calibration_error)} and "
        f"{number(before.calibration_error)}."
    )


def _points(value: float) -> str:
    return f"{100 * value:.1f} percentage points"


def _lambda_of(trial: Trial) -> float:
    return float(trial.settings.get("lambda_") or 0.0)
