"""Tuning trials, refits and out-of-fold scores: the work that takes the time.

Every unit is a stage of the store, so that a killed run costs only what was under way, and a cluster can spread
sites x methods x seeds x trials. Prefect sees one task a method's tuning and one a refit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tasks.files import load_pair, save_summary
from tasks.place import Place
from tasks.pool import side_by_side
from tasks.progress import advance
from tasks.settings import SWEEP, TransferSettings
from tasks.shift import PROPENSITY
from tasks.stage import stage
from tasks.step import step
from tasks.store import Ref
from tdrop.choose import weigh_out_of_fold
from tdrop.methods import build
from tdrop.records import write_json, write_record
from tdrop.shift import Propensity, density_ratio_weights
from tdrop.tune import OutOfFold, Trial, plan_trials, promising, refit, run_trial
from tdrop.tune.trial import settings_of

#: Tuning happens once, with the first seed.
FIRST_SEED = 0
#: One seed's predictions for the target's patients.
PREDICTIONS = "predictions.npz"
#: A trial's risks of source patients whom its fits did not see.
OUT_OF_FOLD = "out_of_fold.npz"
Settings = Mapping[str, Any]
#: Out-of-fold risks of a method, row by row: rows, risk, fold, y, weights.
RISKS = "risks.npz"


def planned_trials(method: str, settings: TransferSettings) -> Sequence[Settings]:
    """The settings that a method tries, the same every time."""
    base = settings.method_settings.get(method, {})
    planned = plan_trials(method, budget=settings.trials, seed=FIRST_SEED, base=base)
    return [settings_of(each) for each in planned]


@stage("trial", in_worker=True)
def tried_settings(
    folder: Path, encoded: Ref, matching: Ref, method: str, settings: Settings, folds: int, seed: int, first: Ref | None
) -> None:
    """Tries one setting on source rows left out of its fits: on the first fold, or, after that, on all: trial.json."""
    rows = np.asarray(matching.json("matching.json")["rows"], dtype=np.int64)
    earlier = None if first is None else OutOfFold.load(first.path / OUT_OF_FOLD)
    trial, risks = run_trial(
        build(method, **settings),
        *load_pair(encoded.path),
        rows,
        seed=seed,
        earlier=earlier,
        held=(0,) if first is None else None,
        folds=folds,
    )
    write_record(folder / "trial.json", trial)
    # What is said of single patients stays here and never travels with the trial.
    if risks is not None:
        risks.save(folder / OUT_OF_FOLD)


@step("tune", "tune {method}")
def tune_method(
    place: Place, site: str, encoded: Ref, matching: Ref, method: str, settings: TransferSettings
) -> list[Ref]:
    """Runs every trial of a method on one fold and the promising ones on all; returns a stage each."""
    shared = (place, encoded, matching, method)
    planned = planned_trials(method, settings)
    calls = [(*shared, each, settings.folds, FIRST_SEED, None) for each in planned]
    refs = side_by_side(tried_settings, calls, lambda: advance(site, "tune", method))
    going_on = promising([ref.record(Trial, "trial.json") for ref in refs])
    later = [(*shared, planned[index], settings.folds, FIRST_SEED, refs[index]) for index in going_on]
    if later:
        for index, ref in zip(going_on, side_by_side(tried_settings, later, lambda: None), strict=True):
            refs[index] = ref
    return refs


@stage("fit", in_worker=True)
def fitted_model(
    folder: Path, encoded: Ref, method: str, settings: Settings, seed: int, passes: int, levels: Any
) -> None:
    """Writes model/, predictions.npz of the target's patients, history.json, and rates.npz where there are any."""
    source, target = load_pair(encoded.path)
    fitted = refit(method, _picked(method, settings), source, target, seed=seed)
    fitted.save(folder / "model")
    save_summary(folder / PREDICTIONS, fitted.summarise(target.X, passes, seed=seed, levels=levels))
    write_json(folder / "history.json", list(fitted.history))
    if hasattr(fitted, "dropout_rates"):
        rates = {name: fitted.dropout_rates(cohort.X) for name, cohort in (("source", source), ("target", target))}
        np.savez(folder / "rates.npz", **rates)


@step("fit", "fit {method} seed {seed}")
def fit_seed(
    place: Place, encoded: Ref, method: str, trial: Trial, seed: int, settings: TransferSettings, level: float
) -> Ref:
    """Refits the picked trial on all labelled rows."""
    levels = tuple(sorted({*SWEEP, level}))
    return fitted_model(place, encoded, method, trial.settings, seed, settings.passes, levels)


@stage("fold", in_worker=True)
def held_out_score(folder: Path, encoded: Ref, propensity: Ref, method: str, trial: Ref) -> None:
    """Writes score.json and risks.npz: the picked trial on source rows it did not see, weighted."""
    found = Propensity.load(propensity.path / PROPENSITY)
    source, _ = load_pair(encoded.path)
    risks = OutOfFold.load(trial.path / OUT_OF_FOLD)
    weights = density_ratio_weights(found)
    score = weigh_out_of_fold(method, risks, source, weights, coverage=found.coverage)
    assert source.y is not None
    y, each = source.y[risks.rows], weights[risks.rows]
    np.savez(folder / RISKS, rows=risks.rows, risk=risks.risk, fold=risks.fold, y=y, weights=each)
    write_record(folder / "score.json", score)


@step("out of fold", "out of fold {method}")
def score_out_of_fold(place: Place, encoded: Ref, propensity: Ref, method: str, trial: Ref) -> Ref:
    """Scores a method on source rows it did not see, from what its picked trial left behind."""
    return held_out_score(place, encoded, propensity, method, trial)


def _picked(method: str, settings: Settings) -> Trial:
    """What of a trial decides a refit: its settings."""
    return Trial(method, dict(settings))
