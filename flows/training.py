"""Tunes, refits and scores every method of a site; one that fails is reported and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prefect import get_run_logger
from prefect.futures import PrefectFuture

from tasks.evaluate import score_methods
from tasks.evidence import fitted_propensity
from tasks.run import Trained
from tasks.settings import TransferSettings
from tasks.train import (
    FIRST_SEED,
    fit_seed,
    join_fits,
    join_trials,
    planned_trials,
    score_out_of_fold,
    tune_method,
)
from tdrop.base import FitError, TdropError, Unwritable, describe, used_up
from tdrop.choose import Trial, mark_picked, pick_members, pick_place
from tdrop.home import Ref, ResolvedSite, advance, expect, raise_if_interrupted, reach
from tdrop.methods import COMMITTEE, SITE_INPUT


def train(site: ResolvedSite, encoded: Ref, matching: Ref, settings: TransferSettings) -> Trained:
    """Gives every method the same trials, refits the picked one per seed, scores it out of fold, and forms a committee.

    Args:
        site: The target site.
        encoded: Both cohorts.
        matching: The matched validation rows.
        settings: Methods, trials, seeds.
    """
    trained = Trained()
    methods = settings.chosen_methods()
    expect(site.name, "tune", sum(len(planned_trials(method, settings)) for method in methods))
    # All methods are under way before the first is waited for; a method's refits follow its last trial.
    tuned = {method: tune_method.submit(site, encoded, matching, method, settings) for method in methods}
    weighed = settings.criterion == "importance_weighted"
    propensity = fitted_propensity(site, encoded) if weighed else None
    refits: dict[str, list[PrefectFuture[Ref]]] = {}
    tried: dict[str, Ref] = {}
    ablations: dict[str, PrefectFuture[Ref]] = {}
    for method, future in tuned.items():
        ref = _pick(site.name, method, future, trained)
        if ref is None:
            continue
        tried[method] = ref
        # What a refit needs is the settings; sums of patients' losses stay in the store.
        chosen = replace(trained.picked[method], losses=None, matched_losses=None)
        refits[method] = [
            fit_seed.submit(site, encoded, method, chosen, seed, settings) for seed in range(settings.seeds)
        ]
        if (ablation := without_target(chosen)) is not None:
            # Shows what the target's unlabelled patients did.
            purpose = "without unlabelled patients "
            ablations[method] = fit_seed.submit(site, encoded, method, ablation, FIRST_SEED, settings, purpose)
        if propensity is not None:
            refits[method].append(score_out_of_fold.submit(site, encoded, propensity, method, ref))
    expect(site.name, "fit", sum(map(len, refits.values())))
    for method, futures in refits.items():
        refs = collect_fits(site.name, method, futures, trained)
        if refs is not None:
            trained.fits[method] = refs[: settings.seeds]
            if weighed:
                trained.folds[method] = refs[-1]
    if not trained.fits:
        raise FitError(
            f"site '{site.name}': every method failed, the first with: {next(iter(trained.failed.values()))}"
        )
    _collect_ablations(site.name, ablations, trained)
    if settings.committee:
        members = pick_members(score_methods(trained.picked, trained.folds), criterion=settings.criterion)
        if members:
            _form_committee(
                site, encoded, matching, propensity, settings, {name: tried[name] for name in members}, trained
            )
    return trained


def _form_committee(
    site: ResolvedSite,
    encoded: Ref,
    matching: Ref,
    propensity: Ref | None,
    settings: TransferSettings,
    trials: Mapping[str, Ref],
    trained: Trained,
) -> None:
    """Adds the committee to what was trained, as if it were one more method."""
    try:
        trial = join_trials(site, encoded, matching, trials)
        members = [{name: trained.fits[name][seed] for name in trials} for seed in range(settings.seeds)]
        fits = [join_fits(site, encoded, fits, trial, seed, settings) for seed, fits in enumerate(members)]
        folds = None if propensity is None else score_out_of_fold(site, encoded, propensity, COMMITTEE, trial)
    except Exception as error:
        raise_if_interrupted()
        _set_aside(site.name, COMMITTEE, error, trained)
        return
    trained.picked[COMMITTEE] = replace(trial.record(Trial, "trial.json"), picked=True)
    trained.trials[COMMITTEE] = [trained.picked[COMMITTEE]]
    trained.fits[COMMITTEE] = fits
    if folds is not None:
        trained.folds[COMMITTEE] = folds


def _collect_ablations(site: str, futures: Mapping[str, PrefectFuture[Ref]], trained: Trained) -> None:
    for method in [method for method in futures if method in trained.fits]:
        try:
            trained.ablations[method] = futures[method].result()
        except Exception as error:  # a figure is lost, and no method
            raise_if_interrupted()
            if isinstance(error, Unwritable):
                raise
            get_run_logger().warning("site %s: %s could not be fitted without unlabelled patients", site, method)


def without_target(trial: Trial) -> Trial | None:
    """The same settings with the target's unlabelled patients left out; None where they were not used."""
    if not trial.settings.get("lambda_"):
        return None
    settings = {name: value for name, value in trial.settings.items() if name != SITE_INPUT}
    return replace(trial, settings={**settings, "lambda_": 0.0}, losses=None, matched_losses=None)


def _pick(site: str, method: str, future: PrefectFuture[list[Ref]], trained: Trained) -> Ref | None:
    """Keeps a method's trials and returns the stage of the one to refit, or None when none could be scored."""
    try:
        refs = future.result()
        trials = [ref.record(Trial, "trial.json") for ref in refs]
        picked = pick_place(method, trials)
    except Exception as error:
        # What was ended is no method's failure: nothing may be chosen without it.
        raise_if_interrupted()
        _set_aside(site, method, error, trained)
        return None
    trained.trials[method] = list(mark_picked(trials, picked))
    # A cluster's workers cannot tell of each trial.
    reach(site, "tune", sum(map(len, trained.trials.values())), method)
    trained.picked[method] = trained.trials[method][picked]
    return refs[picked]


def collect_fits(site: str, method: str, futures: Sequence[PrefectFuture[Ref]], trained: Trained) -> list[Ref] | None:
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
    _set_aside(site, method, failures[0], trained)
    return None


def _set_aside(site: str, method: str, error: Exception, trained: Trained) -> None:
    # A full disk is no method's failure either.
    if isinstance(error, Unwritable):
        raise error
    # Another package's message may hold patients' values; its name does not.
    known = error if isinstance(error, TdropError) else used_up(error)
    sentence = str(known) if known is not None else f"failed with {describe(error)}"
    trained.failed[method] = sentence
    trained.picked.pop(method, None)
    get_run_logger().warning("site %s: method %s failed: %s", site, method, sentence)
