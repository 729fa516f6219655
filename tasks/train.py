"""Tuning trials, refits and out-of-fold scores: the work that takes most of the time.

Every fit is a stage of the store, so that a killed run loses only unfinished fits, and a cluster can spread
sites x methods x seeds x trials. Prefect shows one task per method for tuning, with a log line per trial, and one task
per refit.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.errors import sanitize_errors
from tasks.run import SWEEP
from tasks.settings import TransferSettings
from tdrop.base import Described, FitError, write_json, write_record
from tdrop.choose import (
    OutOfFold,
    Planned,
    Trial,
    count_folds,
    deal_folds,
    describe_fit,
    describe_trials,
    failed_trial,
    pick_place,
    predict_folds,
    promising,
    score_trial,
    site_folds,
    site_weights,
    weigh_out_of_fold,
)
from tdrop.home import (
    TIMES,
    Ref,
    ResolvedSite,
    advance,
    canonical,
    compute,
    compute_all,
    files,
    load_cohort,
    load_pair,
    save_summary,
    stage,
)
from tdrop.methods import SITE_INPUT, build, load
from tdrop.methods.parts.committee import Committee
from tdrop.methods.parts.fitted import Noise
from tdrop.shift import Matching, Propensity, density_ratio_weights

#: Tuning happens once, with the first seed.
FIRST_SEED = 0
Settings = Mapping[str, Any]


def planned_trials(method: str, settings: TransferSettings) -> tuple[Planned, ...]:
    """The settings that a method tries, the same every time."""
    return _plan(method, settings.trials, canonical(settings.method_settings.get(method, {})))


@cache
def _plan(method: str, trials: int, base: str) -> tuple[Planned, ...]:
    """Computed in a worker process, which has loaded the methods; this process need not."""
    return compute(describe_trials, method, budget=trials, seed=FIRST_SEED, base=json.loads(base))


@stage("held-out", in_worker=True)
def held_out_risks(folder: Path, rows: Ref, method: str, settings: Settings, held: int, folds: int, seed: int) -> None:
    """Writes out_of_fold.npz: one fold's risks by a fit without this fold; or failure.json."""
    source, target = load_pair(rows.path)
    dealt = deal_folds(source, seed=seed, folds=folds)
    try:
        risks = predict_folds(build(method, **settings), source, target, dealt, (held,), seed=seed)
    except FitError as error:
        write_json(folder / files.FAILURE, str(error))
    else:
        risks.save(folder / files.OUT_OF_FOLD)


@stage("trial")
def tried_settings(folder: Path, encoded: Ref, matching: Ref, tried: Planned, held_out: Sequence[Ref]) -> None:
    """Writes trial.json, and out_of_fold.npz unless a fit failed: one setting on source rows left out of its fits.

    The risks of single patients stay in this stage; the trial does not hold them.
    """
    failures = [ref.json(files.FAILURE) for ref in held_out if (ref.path / files.FAILURE).exists()]
    if failures:
        write_record(folder / "trial.json", failed_trial(tried, failures[0]))
        return
    risks = reduce(OutOfFold.join, [OutOfFold.load(ref.path / files.OUT_OF_FOLD) for ref in held_out])
    write_trial(folder, encoded, matching, tried, risks)


@task(task_run_name="tune {method}", cache_policy=NO_CACHE)
@sanitize_errors
def tune_method(site: ResolvedSite, encoded: Ref, matching: Ref, method: str, settings: TransferSettings) -> list[Ref]:
    """Runs every trial of a method on one fold and the promising ones on all; returns a stage each."""
    planned = planned_trials(method, settings)
    folds = count_folds(load_cohort(encoded.path / files.SOURCE), settings.folds)

    def fitted(asked: Sequence[tuple[int, int]], done: Callable[[], None]) -> list[Ref]:
        """One fit per trial and fold."""
        calls = [
            (site.workspace, rows_to_fit(encoded, tried), tried.name, tried.settings(), held, folds, FIRST_SEED)
            for tried, held in [(planned[trial], held) for trial, held in asked]
        ]
        return compute_all(held_out_risks, calls, done)

    first = fitted([(trial, 0) for trial in range(len(planned))], lambda: advance(site.name, "tune", method))
    refs = [tried_settings(site, encoded, matching, each, [ref]) for each, ref in zip(planned, first, strict=True)]
    going_on = promising([ref.record(Trial, "trial.json") for ref in refs])
    asked = [(trial, held) for trial in going_on for held in range(1, folds)]
    later = dict(zip(asked, fitted(asked, lambda: None), strict=True)) if asked else {}
    for trial in going_on:
        parts = [first[trial], *(later[trial, held] for held in range(1, folds))]
        refs[trial] = tried_settings(site, encoded, matching, planned[trial], parts)
    # Only of so many sources that whole sites are left out as folds.
    if settings.shares and site_folds(load_cohort(encoded.path / files.SOURCE)) is not None:
        refs.append(_try_with_site(site, encoded, matching, [ref.record(Trial, "trial.json") for ref in refs], folds))
    return refs


def _try_with_site(site: ResolvedSite, encoded: Ref, matching: Ref, trials: Sequence[Trial], folds: int) -> Ref:
    """One more trial: the best settings so far, with the site as an input."""
    picked = trials[pick_place(trials[0].method, trials)]
    settings = {**picked.settings, SITE_INPUT: True}
    calls = [(site.workspace, encoded, picked.method, settings, held, folds, FIRST_SEED) for held in range(folds)]
    parts = compute_all(held_out_risks, calls, lambda: None)
    return tried_settings(site, encoded, matching, Planned(picked.method, settings, reads_target=True), parts)


@task(task_run_name="fit {method} seed {seed}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("model", in_worker=True)
def fit_model(folder: Path, rows: Ref, method: str, settings: Settings, seed: int) -> None:
    """Writes model/ and history.json: the picked settings, refitted on all labelled rows."""
    source, target = load_pair(rows.path)
    fitted = build(method, **settings).fit(source, target.unlabelled(), None, seed=seed)
    fitted.save(folder / files.MODEL)
    write_json(folder / files.HISTORY, list(fitted.history))


@task(task_run_name="predict {method} seed {seed}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("fit", in_worker=True)
def predict_patients(
    folder: Path,
    encoded: Ref,
    model: Ref,
    method: str,
    seed: int,
    passes: int,
    levels: Sequence[float],
    noise: Noise | None,
) -> None:
    """Writes a model's predictions.npz of the target's patients beside it.

    The model of a continuous outcome is given the noise that its trial showed out of fold, so that intervals cover
    outcomes.
    """
    if noise is None:
        shutil.copytree(model.path / files.MODEL, folder / files.MODEL)
    else:
        load(model.path / files.MODEL).with_noise(noise).save(folder / files.MODEL)  # type: ignore[attr-defined]
    shutil.copyfile(model.path / files.HISTORY, folder / files.HISTORY)
    if (model.path / TIMES).is_file():
        shutil.copyfile(model.path / TIMES, folder / TIMES)
    _, target = load_pair(encoded.path)
    fitted = load(folder / files.MODEL)
    save_summary(folder / files.PREDICTIONS, fitted.summarise(target.X, passes, seed=seed, levels=levels))


def shown_levels(site: ResolvedSite) -> tuple[float, ...]:
    """The levels of the intervals that are kept of a prediction."""
    return tuple(sorted({*SWEEP, site.site.decision.interval_level}))


def planned_as(trial: Trial, settings: TransferSettings) -> Planned:
    """A trial's settings as they were planned; a worker process describes those that were not."""
    wanted = canonical(trial.settings)
    planned = (one for one in planned_trials(trial.method, settings) if canonical(one.settings()) == wanted)
    return next(planned, None) or compute(describe_fit, trial.method, trial.settings)


def rows_to_fit(encoded: Ref, fit: Planned) -> Ref:
    """The stage that a fit reads: the source alone where its settings leave the target's patients unread.

    Such a fit is then made once for all targets of a source.
    """
    if fit.reads_target or not (encoded.path / files.LABELLED).exists():
        return encoded
    alone = replace(encoded.record(Ref, files.LABELLED), store=encoded.store)
    return alone if alone.path.is_dir() else encoded


@task(task_run_name="out of fold {method}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("fold", in_worker=True)
def score_out_of_fold(folder: Path, encoded: Ref, propensity: Ref, method: str, trial: Ref) -> None:
    """Writes score.json and risks.npz: the picked trial on source rows it did not see, weighted."""
    fitted = Propensity.load(propensity.path / files.PROPENSITY)
    source, _ = load_pair(encoded.path)
    risks = OutOfFold.load(trial.path / files.OUT_OF_FOLD)
    weights = density_ratio_weights(fitted)
    assert source.y is not None
    y, each = source.y[risks.rows], weights[risks.rows]
    own = None if source.weight is None else source.weight[risks.rows].astype(np.float64)
    each = each if own is None else each * own
    arrays: dict[str, Any] = {"rows": risks.rows, "risk": risks.risk, "fold": risks.fold, "y": y, "weights": each}
    if source.origins is not None and site_folds(source) is not None:
        arrays["origins"] = source.origins[risks.rows]
    if own is not None:
        arrays["stands_for"] = own
    np.savez(folder / files.RISKS, **arrays)
    # Where whole sites were left out they speak for a new one as they are, and each as much as the others.
    by_site = site_weights(source)
    coverage = fitted.coverage if by_site is None else 1.0
    score = weigh_out_of_fold(method, risks, source, weights if by_site is None else by_site, coverage=coverage)
    write_record(folder / "score.json", score)


@task(task_run_name="average of trials", cache_policy=NO_CACHE)
@sanitize_errors
@stage("committee-trial")
def join_trials(folder: Path, encoded: Ref, matching: Ref, trials: Mapping[str, Ref]) -> None:
    """Writes trial.json and out_of_fold.npz: the mean of the members' risks of source rows they did not see."""
    risks = OutOfFold.average([OutOfFold.load(ref.path / files.OUT_OF_FOLD) for ref in trials.values()])
    write_trial(folder, encoded, matching, Committee(tuple(trials)), risks)


@task(task_run_name="average seed {seed}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("committee-model", in_worker=True)
def join_models(folder: Path, fits: Mapping[str, Ref], seed: int) -> None:
    """Writes model/ and history.json: the members' models of one seed as one."""
    Committee(tuple(fits)).from_fits([load(ref.path / files.MODEL) for ref in fits.values()]).save(folder / files.MODEL)
    write_json(folder / files.HISTORY, [])


def write_trial(folder: Path, encoded: Ref, matching: Ref, tried: Described, risks: OutOfFold) -> None:
    """Writes trial.json and out_of_fold.npz of one setting."""
    matched = matching.record(Matching, "matching.json").rows
    write_record(folder / "trial.json", score_trial(tried, load_cohort(encoded.path / files.SOURCE), risks, matched))
    risks.save(folder / files.OUT_OF_FOLD)
