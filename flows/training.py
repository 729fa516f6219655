"""Tunes, refits and scores every method of a site; a method that fails is reported and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prefect import get_run_logger
from prefect.futures import PrefectFuture

from tasks.evaluate import score_methods
from tasks.evidence import fitted_propensity
from tasks.run import Trained
from tasks.settings import TransferSettings
from tasks.train import (
    FIRST_SEED,
    fit_model,
    join_models,
    join_trials,
    planned_as,
    planned_trials,
    predict_patients,
    rows_to_fit,
    score_out_of_fold,
    shown_levels,
    tune_method,
)
from tdrop.base import FitError, TdropError, Unwritable, describe, resource_error
from tdrop.choose import Trial, mark_picked, pick_members, pick_place
from tdrop.home import Ref, ResolvedSite, advance, raise_if_interrupted, start_stage
from tdrop.methods import COMMITTEE, SITE_INPUT

Futures = Sequence[PrefectFuture[Ref]]
#: The same tasks with other run names, for fits without the target's unlabelled patients.
fit_without_target = fit_model.with_options(task_run_name="fit {method} without unlabelled patients seed {seed}")
predict_without_target = predict_patients.with_options(
    task_run_name="predict {method} without unlabelled patients seed {seed}"
)


@dataclass(frozen=True)
class _Refits:
    """The tasks of a method after its tuning.

    Attributes:
        trial: The stage of the picked trial.
        models: One fit per seed.
        folds: The out-of-fold scores; empty if the criterion needs none.
        ablation: Predictions of the first seed without the target's unlabelled patients; None if it did not use them.
    """

    trial: Ref
    models: Futures
    folds: Futures
    ablation: PrefectFuture[Ref] | None


def train(site: ResolvedSite, encoded: Ref, matching: Ref, settings: TransferSettings) -> Trained:
    """Gives every method the same trials, refits the picked one per seed, scores it out of fold; forms a committee."""
    trained, methods = Trained(), settings.chosen_methods()
    start_stage(site.name, "tune", sum(len(planned_trials(method, settings)) for method in methods))
    # All methods are submitted before the first is waited for; a method is refitted after its last trial.
    tuned = {method: tune_method.submit(site, encoded, matching, method, settings) for method in methods}
    propensity = fitted_propensity(site, encoded) if settings.criterion == "importance_weighted" else None
    refits = {}
    for method, future in tuned.items():
        trial = _pick(site.name, method, future, trained)
        if trial is not None:
            refits[method] = _refit(site, encoded, propensity, trial, trained.picked[method], settings)
    start_stage(site.name, "fit", sum(2 * len(refit.models) + len(refit.folds) for refit in refits.values()))
    predicted = _predict_with(site, encoded, refits, settings, trained)
    for method, futures in predicted.items():
        refs = collect_fits(site.name, method, [*futures, *refits[method].folds], trained)
        if refs is not None:
            trained.fits[method] = refs[: settings.seeds]
            if refits[method].folds:
                trained.folds[method] = refs[-1]
    if not trained.fits:
        raise FitError(
            f"site '{site.name}': every method failed, the first with: {next(iter(trained.failed.values()))}"
        )
    _collect_ablations(site.name, refits, trained)
    if settings.committee:
        members = pick_members(score_methods(trained.picked, trained.folds), criterion=settings.criterion)
        if members:
            trials = {name: refits[name].trial for name in members}
            _form_committee(site, encoded, matching, propensity, settings, trials, trained)
    return trained


def _refit(
    site: ResolvedSite, encoded: Ref, propensity: Ref | None, trial: Ref, picked: Trial, settings: TransferSettings
) -> _Refits:
    """Submits the fits of a method's picked settings, and one more without the target's unlabelled patients."""
    method = picked.method
    rows = rows_to_fit(encoded, planned_as(picked, settings))
    models = [fit_model.submit(site, rows, method, picked.settings, seed) for seed in range(settings.seeds)]
    folds = [] if propensity is None else [score_out_of_fold.submit(site, encoded, propensity, method, trial)]
    ablation = None
    if (without := without_target(picked)) is not None:
        rows = rows_to_fit(encoded, planned_as(without, settings))
        model: Any = fit_without_target.submit(site, rows, method, without.settings, FIRST_SEED)
        ablation = predict_without_target.submit(
            site, encoded, model, method, FIRST_SEED, settings.passes, shown_levels(site), picked.noise
        )
    return _Refits(trial, models, folds, ablation)


def _predict_with(
    site: ResolvedSite, encoded: Ref, refits: Mapping[str, _Refits], settings: TransferSettings, trained: Trained
) -> dict[str, Futures]:
    """Submits the predictions for the target's patients as soon as a method's models are fitted."""
    predicted: dict[str, Futures] = {}
    for method, refit in refits.items():
        noise = trained.picked[method].noise
        models = collect_fits(site.name, method, refit.models, trained)
        if models is not None:
            predicted[method] = [
                predict_patients.submit(site, encoded, model, method, seed, settings.passes, shown_levels(site), noise)
                for seed, model in enumerate(models)
            ]
    return predicted


def _form_committee(
    site: ResolvedSite,
    encoded: Ref,
    matching: Ref,
    propensity: Ref | None,
    settings: TransferSettings,
    trials: Mapping[str, Ref],
    trained: Trained,
) -> None:
    """Adds the committee to the trained methods, as if it were one more method."""
    try:
        joined = join_trials(site, encoded, matching, trials)
        trial = joined.record(Trial, "trial.json")
        models = [
            join_models(site, {name: trained.fits[name][seed] for name in trials}, seed)
            for seed in range(settings.seeds)
        ]
        fits = [
            predict_patients(site, encoded, model, COMMITTEE, seed, settings.passes, shown_levels(site), trial.noise)
            for seed, model in enumerate(models)
        ]
        folds = None if propensity is None else score_out_of_fold(site, encoded, propensity, COMMITTEE, joined)
    except Exception as error:
        raise_if_interrupted()
        _mark_failed(site.name, COMMITTEE, error, trained)
        return
    trained.picked[COMMITTEE] = replace(trial, picked=True)
    trained.trials[COMMITTEE] = [trained.picked[COMMITTEE]]
    trained.fits[COMMITTEE] = fits
    if folds is not None:
        trained.folds[COMMITTEE] = folds


def _collect_ablations(site: str, refits: Mapping[str, _Refits], trained: Trained) -> None:
    for method in trained.fits:
        if (ablation := refits[method].ablation) is None:
            continue
        try:
            trained.ablations[method] = ablation.result()
        except Exception as error:  # the report loses a figure, but no method
            raise_if_interrupted()
            if isinstance(error, Unwritable):
                raise
            get_run_logger().warning("site %s: %s could not be fitted without unlabelled patients", site, method)


def without_target(trial: Trial) -> Trial | None:
    """The same trial without the target's unlabelled patients; None if it did not use them."""
    if not trial.settings.get("lambda_"):
        return None
    settings = {name: value for name, value in trial.settings.items() if name != SITE_INPUT}
    return replace(trial, settings={**settings, "lambda_": 0.0}, losses=None, matched_losses=None)


def _pick(site: str, method: str, future: PrefectFuture[list[Ref]], trained: Trained) -> Ref | None:
    """Stores a method's trials and returns the stage of the one to refit; None if none could be scored."""
    try:
        refs = future.result()
        trials = [ref.record(Trial, "trial.json") for ref in refs]
        picked = pick_place(method, trials)
    except Exception as error:
        # An interrupt is not a failure of the method: nothing may be chosen without it.
        raise_if_interrupted()
        _mark_failed(site, method, error, trained)
        return None
    trained.trials[method] = list(mark_picked(trials, picked))
    # Workers of a cluster cannot report each trial.
    advance(site, "tune", method, at_least=sum(map(len, trained.trials.values())))
    trained.picked[method] = trained.trials[method][picked]
    return refs[picked]


def collect_fits(site: str, method: str, futures: Futures, trained: Trained) -> list[Ref] | None:
    """Results of all futures, or None when one of them failed."""
    refs, failures = [], []
    for future in futures:
        try:
            refs.append(future.result())
        except Exception as error:  # also a cluster that lost too many workers
            raise_if_interrupted()
            failures.append(error)
        advance(site, "fit", method)
    if not failures:
        return refs
    _mark_failed(site, method, failures[0], trained)
    return None


def _mark_failed(site: str, method: str, error: Exception, trained: Trained) -> None:
    # A full disk is not a failure of the method.
    if isinstance(error, Unwritable):
        raise error
    # Another package's message may hold patients' values; the name of its error does not.
    known = error if isinstance(error, TdropError) else resource_error(error)
    sentence = str(known) if known is not None else f"failed with {describe(error)}"
    trained.failed[method] = sentence
    trained.picked.pop(method, None)
    get_run_logger().warning("site %s: method %s failed: %s", site, method, sentence)
